/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes: the operations that change something behind a lagging filesystem, as data, so that one
 * can be done now, or when its answer is long forgotten.
 */
#ifndef LAG_CHANGES_H
#define LAG_CHANGES_H

#include "lag/rules.h"

#include <sys/types.h>

/* What is to be done. Paths are relative to the directory behind. */
typedef struct change {
    operation op;
    const char *path;
    const char *to; /* rename; NULL otherwise */
    int fd;         /* of an open file: write, sync, truncate, allocate; -1: by path */
    int flags;      /* create, rename, allocate */
    mode_t mode;    /* create, mkdir */
    off_t at;       /* write, allocate; truncate: the new size */
    size_t size;    /* write, allocate */
    const void *data;
} change;

typedef struct changes changes;

/* `root`: a descriptor of the directory behind, which lives as long. */
changes *changes_new(int root);
void changes_free(changes *all);

/* Does it: 0, or the bytes written, or the negative error. */
int changes_do(changes *all, const change *c);
/* Remembers it, and does it in `delay_ms`, or at changes_settle. 0, or the negative error. */
int changes_do_later(changes *all, const change *c, int64_t delay_ms);
/* Does now what was to be done later, and returns when all of that is done. */
void changes_settle(changes *all);

#endif
