/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/posix_file: the files of the posix store.
 *
 * A bulk file is opened twice: by a descriptor that goes through the page cache and, where the
 * filesystem has that, by one that goes past it. The second takes what is aligned, the first the
 * rest: the tail of a file and what is small.
 *
 * Both see the same bytes: before the kernel reads or writes a range directly, it writes back and
 * drops the cached pages of it. That does not help a page of which one part is written through the
 * cache while the other is being written directly. So the tail of a piece is written after the rest
 * of it, and pieces that are written at the same time must not share a page: at multiples of 64 KiB
 * they do not, on any machine. One fsync covers both descriptors.
 */
#include "store/posix.h"

#include "store/implement.h"
#include "store/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The kernel moves at most 0x7ffff000 bytes per call; this is less, and aligned. */
#define MOST_PER_CALL ((size_t)1 << 30)
/* Most of one bulk read: whether the page cache has the bytes is asked for each. */
#define MOST_PER_LOOK ((size_t)16 << 20)
/* Smaller reads profit from the kernel's reading ahead. */
#define LEAST_DIRECT_READ ((size_t)64 << 10)

typedef struct posix_file {
    store_file base;
    int fd;
    int direct;     /* -1: none */
    bool by_a_ring; /* writes to `direct` may be begun on a ring */
    store_mode mode;
    _Atomic bool direct_refused;
} posix_file;

static posix_store *posix_store_of(const store_file *f) {
    return (posix_store *)f->in;
}

static posix_file *posix_file_of(const store_file *f) {
    return (posix_file *)f;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Opening a pipe or device in the place of a file must neither wait (O_NONBLOCK) nor make a
 * terminal ours (O_NOCTTY); check_regular refuses it then. */
static int open_flags(const posix_store *p, store_mode mode) {
    const int always = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
    if (store_mode_only_reads(mode)) {
        return always | O_RDONLY | (p->follows_links ? 0 : O_NOFOLLOW);
    }
    return always | O_NOFOLLOW | (store_mode_creates(mode) ? O_WRONLY | O_CREAT | O_EXCL : O_RDWR);
}

static int open_at_place(const posix_place *at, int flags) {
    int fd;
    do {
        fd = openat(at->dir, at->name, flags, 0666);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* Opens the same file once more, to bypass the page cache. -1: the filesystem cannot, or the name
 * belongs to another file by now. Then all goes through the first descriptor. */
static int open_direct(const posix_place *at, int flags, int fd) {
    struct stat first, second;
    int direct = open_at_place(at, (flags & ~(O_CREAT | O_EXCL)) | O_DIRECT);
    if (direct < 0) {
        return -1;
    }
    if (fstat(fd, &first) != 0 || fstat(direct, &second) != 0 || first.st_dev != second.st_dev ||
        first.st_ino != second.st_ino) {
        close(direct);
        return -1;
    }
    return direct;
}

/*
 * A ring is for filesystems that do several direct writes of one file at once, and do not block the
 * thread that submits them. On others the kernel would do one after the other: threads are faster.
 */
static bool takes_rings(int fd) {
    struct statfs found;
    return fstatfs(fd, &found) == 0 &&
           (found.f_type == EXT4_SUPER_MAGIC || found.f_type == XFS_SUPER_MAGIC);
}

/* Writing in place would change the file under its other names, too, which may be outside the run:
 * a link that somebody made, or a backup by hard links. */
static pawl_status refuse_linked(const posix_store *p, const char *path, const struct stat *found,
                                 pawl_error *err) {
    error_sys(err, EMLINK, "cannot open the file to change it");
    err->status = PAWL_EDAMAGED;
    store_error_path(err, &p->base, path);
    error_expected(err, "a file of one name");
    error_found(err, "one of %llu names (hard links), all of which would be changed",
                (unsigned long long)found->st_nlink);
    error_safe(err, "the file was not changed");
    error_next(err, "replace the file by a copy of itself (cp, then mv)");
    return PAWL_EDAMAGED;
}

static pawl_status check_regular(const posix_store *p, const char *path, store_mode mode, int fd,
                                 pawl_error *err) {
    struct stat found;
    if (fstat(fd, &found) != 0) {
        return store_posix_failure(p, path, errno, err, "cannot look at the open file");
    }
    if (S_ISDIR(found.st_mode)) {
        return store_posix_failure(p, path, EISDIR, err, "cannot open the file");
    }
    if (!S_ISREG(found.st_mode)) {
        error_set(err, PAWL_EDAMAGED, "cannot open the file");
        store_error_path(err, &p->base, path);
        error_expected(err, "a regular file");
        error_found(err, "a device, pipe or socket (mode %06o)", (unsigned)found.st_mode);
        return PAWL_EDAMAGED;
    }
    return mode == STORE_UPDATE && found.st_nlink > 1 ? refuse_linked(p, path, &found, err)
                                                      : PAWL_OK;
}

static pawl_status open_descriptors(posix_store *p, const char *path, store_mode mode,
                                    posix_file *f, pawl_error *err) {
    const char *what = store_mode_creates(mode) ? "cannot create the file" : "cannot open the file";
    CLEANUP(store_posix_place_close) posix_place at;
    int failed = store_posix_place(p, path, &at);
    if (failed != 0) {
        return store_posix_failure(p, path, failed, err, what);
    }
    const int flags = open_flags(p, mode);
    f->fd = open_at_place(&at, flags);
    if (f->fd < 0) {
        return store_posix_failure(p, path, errno, err, what);
    }
    pawl_status status = check_regular(p, path, mode, f->fd, err);
    if (status != PAWL_OK) {
        close(f->fd);
        return status;
    }
    bool bulk = mode == STORE_READ_BULK || mode == STORE_CREATE_BULK;
    f->direct = bulk ? open_direct(&at, flags, f->fd) : -1;
    f->by_a_ring = f->direct >= 0 && takes_rings(f->direct);
    return PAWL_OK;
}

pawl_status store_posix_open(store *s, const char *path, store_mode mode, store_file **out,
                             pawl_error *err) {
    AUTOFREE posix_file *f = mem_calloc(1, sizeof(*f));
    if (f == NULL) {
        return error_nomem(err, sizeof(*f));
    }
    TRY(open_descriptors((posix_store *)s, path, mode, f, err));
    f->mode = mode;
    store_file_init(&f->base, s, path);
    *out = &f->base;
    f = NULL;
    return PAWL_OK;
}

void store_posix_close(store_file *f) {
    posix_file *file = posix_file_of(f);
    close(file->fd);
    if (file->direct >= 0) {
        close(file->direct);
    }
    mem_free(file);
}

/* ---- past the page cache -------------------------------------------------------------------- */

/* How many of n bytes can go past the page cache; 0: none. */
static size_t direct_part(const posix_file *f, uint64_t at, const void *memory, size_t n) {
    const uint64_t mask = STORE_DIRECT_ALIGNMENT - 1;
    if (f->direct < 0 || ((at | (uintptr_t)memory) & mask) != 0 ||
        atomic_load_explicit(&f->direct_refused, memory_order_relaxed)) {
        return 0;
    }
    return n & ~(size_t)mask;
}

/* Some filesystems open a file with O_DIRECT and then refuse to read or write so, or want a larger
 * alignment. */
static bool refuses_direct(int system_errno) {
    return system_errno == EINVAL || system_errno == EOPNOTSUPP;
}

static void refuse_direct(posix_file *f) {
    atomic_store_explicit(&f->direct_refused, true, memory_order_relaxed);
}

/* ---- reading -------------------------------------------------------------------------------- */

static ssize_t read_some(int fd, uint64_t at, void *to, size_t n) {
    ssize_t moved;
    do {
        moved = pread(fd, to, n, (off_t)at);
    } while (moved < 0 && errno == EINTR);
    return moved;
}

/* What is in the page cache already is not fetched from the disk again. */
static size_t direct_read_part(posix_file *f, uint64_t at, const void *to, size_t n) {
    f->base.read_cached = n > 0 && store_posix_cached(f->fd, at, n) == POSIX_CACHED;
    size_t part = f->base.read_cached ? 0 : direct_part(f, at, to, n);
    return part >= LEAST_DIRECT_READ ? part : 0;
}

static ssize_t read_bulk(posix_file *f, uint64_t at, void *to, size_t n) {
    size_t some = n < MOST_PER_LOOK ? n : MOST_PER_LOOK;
    size_t part = direct_read_part(f, at, to, some);
    if (part > 0) {
        ssize_t moved = read_some(f->direct, at, to, part);
        if (moved >= 0 || !refuses_direct(errno)) {
            return moved;
        }
        refuse_direct(f);
    }
    return read_some(f->fd, at, to, some);
}

pawl_status store_posix_read(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                             pawl_error *err) {
    posix_file *file = posix_file_of(f);
    if (at > INT64_MAX) {
        *got = 0; /* beyond the end of any file */
        return PAWL_OK;
    }
    ssize_t moved = file->mode == STORE_READ_BULK
                        ? read_bulk(file, at, to, n)
                        : read_some(file->fd, at, to, n < MOST_PER_CALL ? n : MOST_PER_CALL);
    if (moved < 0) {
        return store_posix_failure(posix_store_of(f), f->path, errno, err, "cannot read");
    }
    *got = (size_t)moved;
    return PAWL_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Writing at or past RLIMIT_FSIZE would kill the process by SIGXFSZ. Returns how many of n bytes
 * may be written at `at`. */
static uint64_t room_below_limit(uint64_t at, uint64_t n) {
    struct rlimit limit;
    uint64_t most = INT64_MAX;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < most) {
        most = limit.rlim_cur;
    }
    if (at >= most) {
        return 0;
    }
    return n < most - at ? n : most - at;
}

static ssize_t write_at(int fd, uint64_t at, const void *from, size_t n) {
    ssize_t moved;
    do {
        moved = pwrite(fd, from, n, (off_t)at);
    } while (moved < 0 && errno == EINTR);
    return moved;
}

static ssize_t write_cached(const posix_file *f, uint64_t at, const void *from, size_t n) {
    ssize_t moved = write_at(f->fd, at, from, n);
    if (moved > 0 && (f->mode == STORE_CREATE_BULK || f->mode == STORE_CREATE_STREAM)) {
        /* Starts to write back. Failures show in the sync that has to follow. */
        (void)sync_file_range(f->fd, (off_t)at, moved, SYNC_FILE_RANGE_WRITE);
    }
    return moved;
}

static ssize_t write_some(posix_file *f, uint64_t at, const void *from, size_t n) {
    size_t allowed = (size_t)room_below_limit(at, n < MOST_PER_CALL ? n : MOST_PER_CALL);
    if (allowed == 0) {
        errno = EFBIG;
        return -1;
    }
    size_t part = direct_part(f, at, from, allowed);
    if (part > 0) {
        ssize_t moved = write_at(f->direct, at, from, part);
        if (moved >= 0 || !refuses_direct(errno)) {
            return moved;
        }
        refuse_direct(f);
    }
    return write_cached(f, at, from, allowed);
}

pawl_status store_posix_write(store_file *f, uint64_t at, const void *from, size_t n, size_t *put,
                              pawl_error *err) {
    ssize_t moved = write_some(posix_file_of(f), at, from, n);
    if (moved < 0) {
        return store_posix_failure(posix_store_of(f), f->path, errno, err, "cannot write");
    }
    *put = (size_t)moved;
    return PAWL_OK;
}

pawl_status store_posix_start(store_file *f, store_ring *ring, store_io *io, size_t n,
                              pawl_error *err) {
    posix_file *file = posix_file_of(f);
    size_t part = direct_part(file, io->at, io->memory, n < MOST_PER_CALL ? n : MOST_PER_CALL);
    if (!file->by_a_ring || part == 0 || room_below_limit(io->at, part) < part) {
        return error_set(err, PAWL_EUNSUPPORTED, "this write is not for a ring");
    }
    return store_ring_write(ring, io, file->direct, part, err);
}

static int reserve_blocks(int fd, uint64_t bytes) {
    int failed;
    if (room_below_limit(0, bytes) < bytes) {
        return EFBIG;
    }
    do {
        failed = fallocate(fd, 0, 0, (off_t)bytes);
    } while (failed != 0 && errno == EINTR);
    return failed == 0 ? 0 : errno;
}

/* Whether the filesystem, or the kernel's version of it, knows no reservations. */
static bool cannot_reserve(int system_errno) {
    return system_errno == EOPNOTSUPP || system_errno == ENOSYS || system_errno == EINVAL;
}

pawl_status store_posix_reserve(store_file *f, uint64_t bytes, pawl_error *err) {
    int failed = bytes == 0 ? 0 : reserve_blocks(posix_file_of(f)->fd, bytes);
    if (failed == 0 || cannot_reserve(failed)) {
        return PAWL_OK;
    }
    return store_posix_failure(posix_store_of(f), f->path, failed, err,
                               "cannot reserve room for the file");
}

/* ---- mapping -------------------------------------------------------------------------------- */

static void unmap_pages(const uint8_t *bytes, size_t n) {
    (void)munmap((void *)(uintptr_t)bytes, n);
}

/* Shared, so that the memory shows what a read of the same descriptor gives. ENODEV: the filesystem
 * has no mappings of which that is true. */
pawl_status store_posix_map(store_file *f, size_t n, store_mapping *out, pawl_error *err) {
    static const char what[] = "cannot map the file";
    void *bytes = mmap(NULL, n, PROT_READ, MAP_SHARED, posix_file_of(f)->fd, 0);
    if (bytes != MAP_FAILED) {
        *out = (store_mapping){.bytes = bytes, .n = n, .unmap = unmap_pages};
        return PAWL_OK;
    }
    if (errno != ENODEV) {
        return store_posix_failure(posix_store_of(f), f->path, errno, err, what);
    }
    error_sys(err, ENODEV, what);
    store_error_path(err, f->in, f->path);
    err->status = PAWL_EUNSUPPORTED;
    return PAWL_EUNSUPPORTED;
}

/* ---- the rest ------------------------------------------------------------------------------- */

pawl_status store_posix_size(store_file *f, uint64_t *out, pawl_error *err) {
    struct stat found;
    if (fstat(posix_file_of(f)->fd, &found) != 0) {
        return store_posix_failure(posix_store_of(f), f->path, errno, err,
                                   "cannot find out the size");
    }
    *out = (uint64_t)found.st_size;
    return PAWL_OK;
}

int store_posix_sync_descriptor(int fd) {
    int failed;
    do {
        failed = fsync(fd);
    } while (failed != 0 && errno == EINTR);
    return failed == 0 ? 0 : errno;
}

pawl_status store_posix_sync(store_file *f, pawl_error *err) {
    int failed = store_posix_sync_descriptor(posix_file_of(f)->fd);
    if (failed != 0) {
        return store_posix_failure(posix_store_of(f), f->path, failed, err, "cannot sync the file");
    }
    return PAWL_OK;
}
