/* SPDX-License-Identifier: Apache-2.0 */
/* store/posix: what the parts of the posix store share. */
#ifndef STORE_POSIX_H
#define STORE_POSIX_H

#include "store/store.h"

typedef struct posix_store {
    store base;
    int root; /* descriptor */
} posix_store;

/* An open directory and a name in it: the only form in which paths reach the system. */
typedef struct posix_place {
    int dir;
    bool owned; /* `dir` is closed by store_posix_place_close */
    const char *name;
    char parent[STORE_MAX_PATH];
} posix_place;

/* Walks down to the directory of `path` without following a link. 0 or an errno. */
int store_posix_place(const posix_store *p, const char *path, posix_place *out);
void store_posix_place_close(posix_place *place);
/* Opens the directory `path` itself; -1 with errno. */
int store_posix_open_dir(const posix_store *p, const char *path);

/* store_failure, and what the system knows beyond its errno: who may not do what (EACCES, EPERM),
 * which mount is read-only (EROFS) or full (ENOSPC, EDQUOT). */
pawl_status store_posix_failure(const posix_store *p, const char *path, int system_errno,
                                pawl_error *err, const char *attempt) PAWL_MUST_CHECK;
pawl_status store_posix_space(store *s, store_space *out, pawl_error *err) PAWL_MUST_CHECK;

#endif
