/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slow, failing or hanging disk: this program's own pwrite and fallocate stand before those of
 * the C library. Only large writes meet it, those of data files; an owner's heartbeat goes on.
 * While there is something about the disk, a ring takes no writes; then they are made by pwrite.
 */
#include "failures.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LARGE_BYTES 4096

/* Seen by the library as well. */
__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *from, size_t n, off_t at);

__attribute__((visibility("default"))) int fallocate(int fd, int mode, off_t at, off_t n);

struct io_uring;
__attribute__((visibility("default"))) int io_uring_submit(struct io_uring *ring);

static atomic_int reserving_errno;
static atomic_bool hanging;
static atomic_bool hung;
static atomic_int delay_us;
static atomic_int failing_errno;
static atomic_int failures_left;

ssize_t pwrite(int fd, const void *from, size_t n, off_t at) {
    if (n >= LARGE_BYTES) {
        (void)usleep((useconds_t)atomic_load(&delay_us));
        while (atomic_load(&hanging)) {
            atomic_store(&hung, true);
            (void)usleep(1000);
        }
        if (atomic_load(&failures_left) > 0) {
            atomic_fetch_sub(&failures_left, 1);
            errno = atomic_load(&failing_errno);
            return -1;
        }
    }
    return (ssize_t)syscall(SYS_pwrite64, fd, from, n, at);
}

int io_uring_submit(struct io_uring *ring) {
    int (*real)(struct io_uring * ring);
    if (atomic_load(&hanging) || atomic_load(&delay_us) > 0 || atomic_load(&failures_left) > 0) {
        return -EAGAIN;
    }
    *(void **)&real = dlsym(RTLD_NEXT, "io_uring_submit");
    assert_non_null(real);
    return real(ring);
}

int fallocate(int fd, int mode, off_t at, off_t n) {
    if (atomic_load(&reserving_errno) != 0) {
        errno = atomic_load(&reserving_errno);
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, at, n);
}

void disk_reserves(int system_errno) {
    atomic_store(&reserving_errno, system_errno);
}

void disk_hangs(void) {
    atomic_store(&hung, false);
    atomic_store(&hanging, true);
}

void disk_wait_until_hung(void) {
    for (int i = 0; i < 10000 && !atomic_load(&hung); i++) {
        (void)usleep(1000);
    }
    assert_true(atomic_load(&hung));
}

void disk_is_slow(int us) {
    atomic_store(&delay_us, us);
}

void disk_fails(int system_errno, int times) {
    atomic_store(&failing_errno, system_errno);
    atomic_store(&failures_left, times);
}

void disk_heals(void) {
    disk_is_slow(0);
    disk_fails(0, 0);
    disk_reserves(0);
    atomic_store(&hanging, false);
}
