/* SPDX-License-Identifier: Apache-2.0 */
/* store/posix: what the parts of the posix store share. */
#ifndef STORE_POSIX_H
#define STORE_POSIX_H

#include "store/store.h"

typedef struct posix_store {
    store base;
    int root;           /* descriptor */
    bool follows_links; /* as of store_posix_of_links */
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
                                pawl_error *err, const char *what) PAWL_MUST_CHECK;
pawl_status store_posix_space(store *s, store_space *out, pawl_error *err) PAWL_MUST_CHECK;

/* posix_file.c: as of store_ops. */
pawl_status store_posix_open(store *s, const char *path, store_mode mode, store_file **out,
                             pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_posix_read(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                             pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_posix_write(store_file *f, uint64_t at, const void *from, size_t n, size_t *put,
                              pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_posix_size(store_file *f, uint64_t *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_posix_reserve(store_file *f, uint64_t bytes, pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_posix_map(store_file *f, size_t n, store_mapping *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status store_posix_sync(store_file *f, pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_posix_start(store_file *f, store_ring *ring, store_io *io, size_t n,
                              pawl_error *err) PAWL_MUST_CHECK;
void store_posix_close(store_file *f);
int store_posix_sync_descriptor(int fd); /* 0 or an errno */

/* posix_cached.c: is all of [at, at+n) of a file in the page cache? n > 0. */
typedef enum posix_cached { POSIX_CACHED, POSIX_NOT_CACHED, POSIX_CACHED_UNKNOWN } posix_cached;
posix_cached store_posix_cached(int fd, uint64_t at, uint64_t n);
posix_cached store_posix_cached_by_mincore(int fd, uint64_t at, uint64_t n);

#endif
