/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/posix_cached: tells whether a range of a file is in the page cache, without reading it. By
 * cachestat(2) where there is one (Linux 6.5), else by mincore(2). Both answer only those who own
 * the file or may write to it.
 */
#include "store/posix.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in <linux/mman.h>, which lacks them on older systems. All architectures but Alpha have the
 * same number. */
#define CACHESTAT_NUMBER 451
typedef struct cachestat_range {
    uint64_t offset, length;
} cachestat_range;
typedef struct cachestat_pages {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
} cachestat_pages;

#define PAGES_PER_LOOK 4096

static uint64_t page_bytes(void) {
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* From the page that holds the first byte to the one that holds the last. */
static uint64_t pages_of(uint64_t at, uint64_t n) {
    return (at + n - 1) / page_bytes() - at / page_bytes() + 1;
}

/* Of a file whose cache the caller may not see, mincore reports every page as cached. */
static bool may_look(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 && (geteuid() == 0 || geteuid() == found.st_uid ||
                                      faccessat(fd, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) == 0);
}

static bool all_resident(const unsigned char *pages, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        if ((pages[i] & 1) == 0) {
            return false;
        }
    }
    return true;
}

/* At most PAGES_PER_LOOK pages; `at` begins a page. */
static posix_cached ask_mincore(int fd, uint64_t at, uint64_t count) {
    unsigned char pages[PAGES_PER_LOOK];
    size_t bytes = (size_t)(count * page_bytes());
    void *mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)at);
    if (mapped == MAP_FAILED) {
        return POSIX_CACHED_UNKNOWN;
    }
    int failed = mincore(mapped, bytes, pages);
    munmap(mapped, bytes);
    if (failed != 0) {
        return POSIX_CACHED_UNKNOWN;
    }
    return all_resident(pages, count) ? POSIX_CACHED : POSIX_NOT_CACHED;
}

posix_cached store_posix_cached_by_mincore(int fd, uint64_t at, uint64_t n) {
    if (!may_look(fd)) {
        return POSIX_CACHED_UNKNOWN;
    }
    uint64_t left = pages_of(at, n);
    at -= at % page_bytes();
    while (left > 0) {
        uint64_t count = left < PAGES_PER_LOOK ? left : PAGES_PER_LOOK;
        posix_cached found = ask_mincore(fd, at, count);
        if (found != POSIX_CACHED) {
            return found;
        }
        left -= count;
        at += count * page_bytes();
    }
    return POSIX_CACHED;
}

posix_cached store_posix_cached(int fd, uint64_t at, uint64_t n) {
    cachestat_range range = {.offset = at, .length = n};
    cachestat_pages pages = {0};
    if (syscall(CACHESTAT_NUMBER, fd, &range, &pages, 0) != 0) {
        return store_posix_cached_by_mincore(fd, at, n);
    }
    return pages.cached >= pages_of(at, n) ? POSIX_CACHED : POSIX_NOT_CACHED;
}
