/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C library whose syncs do nothing, linked into a second trainer: what it reports as durable is
 * not, and the rig must find that out.
 */
#include <sys/types.h>
#include <unistd.h>

int fsync(int fd) {
    (void)fd;
    return 0;
}

int fdatasync(int fd) {
    (void)fd;
    return 0;
}
