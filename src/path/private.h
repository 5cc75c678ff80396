/* SPDX-License-Identifier: Apache-2.0 */
/* path/private: what the files of this folder share. Nobody else includes it. */
#ifndef PATH_PRIVATE_H
#define PATH_PRIVATE_H

#include "path/path.h"

/* ---- syntax.c ------------------------------------------------------------------------------- */

/* Refuses what cannot be meant as a path (P08): empty, unexpanded `~` and `$VAR`, URLs of other
 * schemes, too long. Otherwise the path in the filesystem (for file:// URLs, theirs),
 * to be freed. */
pawl_status path_check_syntax(const char *given, char **path, pawl_error *err) PAWL_MUST_CHECK;

/* ---- walk.c --------------------------------------------------------------------------------- */

/* A path, as far as it exists. */
typedef struct path_walk {
    char *existing; /* absolute, without links */
    char *missing;  /* the rest, relative to it; "" when all of it exists */
} path_walk;
void path_walk_free(path_walk *w);
/* Resolves a path once (P04). PAWL_EUSAGE for a file, a broken link or a loop of links where a
 * directory should be (P08), PAWL_EPERMISSION for a directory that may not be searched (P02). */
pawl_status path_walk_to(const char *path, path_walk *out, pawl_error *err) PAWL_MUST_CHECK;

/* ---- access.c ------------------------------------------------------------------------------- */

/* The story of a refusal by the system at an existing directory: for EACCES and EPERM who we are
 * and what the directory allows (P02), for EROFS what is mounted there (P03). `need`: R_OK | W_OK |
 * X_OK. */
pawl_status path_refused(const char *directory, int need, int system_errno, const char *attempt,
                         pawl_error *err);
/* May we do that? Needs no write to find out. */
pawl_status path_check_access(const char *directory, int need, pawl_error *err) PAWL_MUST_CHECK;

/* ---- probe.c, findings.c, mounts.c ---------------------------------------------------------- */

struct mount_found; /* store/mount_table.h */

/* What storage may lack. What could not be tried counts as being there. */
typedef struct path_abilities {
    bool direct_io, directory_sync;
} path_abilities;
/* Tries them, with a small file in the directory that is removed again. */
path_abilities path_probe(const char *directory, const platform *os);

/* P07 and P09 of a path on such a mount. */
void path_judge_storage(const char *path, const struct mount_found *mount,
                        const path_abilities *can, path_finding_fn each, void *context);
/* Is what lies there gone with the machine or the container (P07)? */
bool path_mount_goes(const struct mount_found *mount);
/* "/data (ext4, 1.2 TB free), /home (nfs4)": at most three mounts but this one that stay, and can
 * be written to. "": there is none. */
void path_staying_mounts(uint64_t but, char out[512]);

#endif
