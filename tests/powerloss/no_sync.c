/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C library whose syncs do nothing, of everything, or of what NO_SYNC_OF says: S_IFDIR or
 * S_IFREG. Linked into more trainers: what those report as durable is not, and the rig must find
 * that out.
 */
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

int fsync(int fd) {
#ifdef NO_SYNC_OF
    struct stat st;
    if (fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) != NO_SYNC_OF) {
        return (int)syscall(SYS_fsync, fd);
    }
#endif
    (void)fd;
    return 0;
}
