/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/mount_table: the mounts that this process sees, as /proc/self/mountinfo lists them. Reading
 * the list touches none of the filesystems: a server that does not answer cannot hold it up.
 */
#ifndef STORE_MOUNT_TABLE_H
#define STORE_MOUNT_TABLE_H

#include "base/base.h"

#define MOUNT_LINE_BYTES 8192u /* longer lines lose their last options */

/* One line, in parts that point into it. */
typedef struct mount_line {
    uint64_t id;
    char *device;        /* "259:2" */
    char *root;          /* which directory of the filesystem: "/", except for bind mounts */
    char *point;         /* where it is mounted */
    char *options;       /* of this mount: "rw,noatime" */
    char *filesystem;    /* "ext4" */
    char *source;        /* "/dev/sda1", "server:/home" */
    char *super_options; /* the filesystem's own: "rw,errors=continue" */
} mount_line;
/* Splits a NUL-terminated line in place. False: it is not a line of the list. */
bool mount_line_parse(char *line, mount_line *out);

/* In the order of the list: of two at one place the later hides the earlier. */
void mounts_each(void (*each)(void *context, const mount_line *mount), void *context);

/* The mount that an open file or directory is on; texts are cut. */
typedef struct mount_found {
    uint64_t id;
    char root[1024];
    char point[256];
    char options[512]; /* the mount's, then the filesystem's */
    char filesystem[32];
    char source[256];
} mount_found;
/* False where it cannot be told, as in some chroots. */
bool mount_find(int fd, mount_found *out);
bool mount_find_path(const char *path, mount_found *out); /* of a directory */
/* Is this a kind of filesystem that several hosts mount at once, as NFS? */
bool mount_is_shared(const char *filesystem);

/* Is `name` among comma-separated options? "soft"; with a value: "cache=loose". */
bool mount_has_option(const char *options, const char *name);

#endif
