/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve: the life of a FUSE filesystem that a test started. It says "ready" when it is mounted,
 * takes commands as lines on the standard input, unmounts when that ends, and ignores the signals
 * of a terminal: whoever started it is gone when its input is, so no mount is left behind.
 */
#ifndef LAG_SERVE_H
#define LAG_SERVE_H

#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 31
#endif
#include <fuse.h>

#include <stdbool.h>

typedef struct service {
    const char *name;  /* of the filesystem, in the table of mounts */
    const char *mount; /* a directory */
    const struct fuse_operations *operations;
    void *context; /* is fuse_get_context()->private_data */
    bool in_turn;  /* one operation at a time, in the order in which the kernel sends them */
    /* On a thread of its own. The line has no end; what is printed is the answer. */
    void (*obey)(void *context, const char *line);
} service;

/* Returns when it is unmounted: what main returns. */
int serve(const service *s);

#endif
