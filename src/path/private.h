/* SPDX-License-Identifier: Apache-2.0 */
/* path/private: what the files of this folder share. Nobody else includes it. */
#ifndef PATH_PRIVATE_H
#define PATH_PRIVATE_H

#include "path/path.h"

/* ---- syntax.c ------------------------------------------------------------------------------- */

/* Refuses what cannot be meant as a path: what is empty or too long, `~` and `$VAR` that a shell
 * should have replaced, URLs that are not file:// (P08), of object stores among them (P10). Else
 * *path is the path in the filesystem, to be freed. */
pawl_status path_check_syntax(const char *given, char **path, pawl_error *err) PAWL_MUST_CHECK;

/* ---- walk.c --------------------------------------------------------------------------------- */

/* A path, divided where it stops to exist. */
typedef struct path_walk {
    char *existing; /* absolute, without links */
    char *missing;  /* the rest, relative to it; "" when all of it exists */
    char *file;     /* NULL: `existing` is all of it; else the name of a file in that directory */
} path_walk;
void path_walk_free(path_walk *w);
/* Resolves a path, to be done once (P04). PAWL_EUSAGE for a file, a broken link or a loop of links
 * where a directory should be (P08), PAWL_EPERMISSION for a directory that may not be searched
 * (P02). A regular file at the end is fine where `opens` (may be NULL) says so of its name, or of
 * the name of a link that stands for it; `existing` is then the directory which that name is in. */
pawl_status path_walk_to(const char *path, path_file_fn opens, path_walk *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- access.c ------------------------------------------------------------------------------- */

/* The error for an existing directory that the system refused: for EACCES and EPERM who we are and
 * what the directory allows (P02), for EROFS what is mounted there (P03). `need`: of R_OK, W_OK and
 * X_OK. */
pawl_status path_refused(const char *directory, int need, int system_errno, const char *attempted,
                         pawl_error *err);
/* Asks for that permission, without trying it. */
pawl_status path_check_access(const char *directory, int need, pawl_error *err) PAWL_MUST_CHECK;

/* ---- probe.c, filesystem.c, other_mounts.c -------------------------------------------------- */

struct mount_found; /* store/mount_table.h */

/* What a filesystem may lack. What could not be tried counts as present. */
typedef struct path_abilities {
    bool direct_io, directory_sync;
} path_abilities;
/* Tries them, with a small file in the directory that is removed again. */
path_abilities path_probe(const char *directory, const platform *os);

/* The findings P07 and P09 for a path on such a mount. */
void path_judge_filesystem(const char *path, const struct mount_found *mount,
                           const path_abilities *can, path_finding_fn each, void *context);
/* Does what lies there vanish with the machine or the container (P07)? */
bool path_mount_vanishes(const struct mount_found *mount);
/* "/data (ext4, 1.2 TB free), /home (nfs4)": at most three mounts other than `but` that last and
 * can be written to. "": there is none. */
void path_other_mounts(uint64_t but, char out[512]);

#endif
