/* SPDX-License-Identifier: Apache-2.0 */
/* Tries in a directory what its filesystem may lack (P09), with a small file that has no name. */
#include "path/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_refusal(int system_errno) {
    return system_errno == EINVAL || system_errno == EOPNOTSUPP;
}

/* Some filesystems open a file for direct access and refuse the write. */
static bool refuses_direct_write(int fd) {
    AUTOFREE void *page = mem_aligned(STORE_DIRECT_ALIGNMENT, STORE_DIRECT_ALIGNMENT);
    if (page == NULL) {
        return false;
    }
    memset(page, 0, STORE_DIRECT_ALIGNMENT);
    return pwrite(fd, page, STORE_DIRECT_ALIGNMENT, 0) < 0 && is_refusal(errno);
}

static bool is_same_inode(int one, int other) {
    struct stat a;
    struct stat b;
    return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* A file without a name, or one whose name is removed before anything is tried, so that nothing
 * stays when this process is killed. Negative: it could not be made. */
static int open_probe(int directory, const char *name, int *direct) {
    int plain = openat(directory, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    if (plain >= 0) {
        char path[64];
        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", plain);
        *direct = open(path, O_WRONLY | O_DIRECT | O_CLOEXEC);
        if (*direct >= 0 || is_refusal(errno)) {
            return plain;
        }
        close(plain); /* /proc is not mounted */
    }
    plain = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (plain >= 0) {
        *direct =
            openat(directory, name, O_WRONLY | O_DIRECT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        int failed = errno;
        (void)unlinkat(directory, name, 0);
        if (*direct >= 0 && !is_same_inode(plain, *direct)) { /* another file has taken the name */
            close(*direct);
            *direct = -1;
            failed = ENOENT;
        }
        errno = failed;
    }
    return plain;
}

static bool try_direct_io(int directory, const char *name) {
    int fd = -1;
    int plain = open_probe(directory, name, &fd);
    if (plain < 0) {
        return true; /* whoever writes there next gets the reason */
    }
    bool refused = fd < 0 ? is_refusal(errno) : refuses_direct_write(fd);
    if (fd >= 0) {
        close(fd);
    }
    close(plain);
    return !refused;
}

static bool try_directory_sync(int directory) {
    return fsync(directory) == 0 || (errno != EINVAL && errno != ENOTSUP);
}

path_abilities path_probe(const char *directory, const platform *os) {
    path_abilities can = {.direct_io = true, .directory_sync = true};
    struct pawl_error ignored = ERROR_INIT;
    char digits[17];
    char name[48];
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return can;
    }
    if (platform_random_hex(os, digits, 8, &ignored) == PAWL_OK) {
        (void)snprintf(name, sizeof(name), ".pawl-probe-%s", digits);
        can.direct_io = try_direct_io(fd, name);
        can.directory_sync = try_directory_sync(fd);
    }
    close(fd);
    return can;
}
