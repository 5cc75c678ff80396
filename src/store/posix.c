/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/posix: a directory of a filesystem.
 *
 * The modes of what is created are the caller's umask's business. Interrupted calls are repeated
 * here, where the system says that nothing happened; other repetitions are `retry`'s.
 */
#include "store/posix.h"

#include "store/path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel moves no more per call (0x7ffff000); asking for less keeps the arithmetic aligned. */
#define MOST_PER_CALL ((size_t)1 << 30)

typedef struct posix_file {
    store_file base;
    int fd;
} posix_file;

static posix_store *posix_of(const store *s) {
    return (posix_store *)s;
}

static int fd_of(const store_file *f) {
    return ((const posix_file *)f)->fd;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* A pipe or device in the place of a file must not make us wait or act: O_NONBLOCK, O_NOCTTY, and
 * only regular files are gone on with. */
static int open_flags(store_mode mode) {
    const int always = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    switch (mode) {
    case STORE_CREATE:
    case STORE_CREATE_BULK:
    case STORE_CREATE_STREAM:
        return always | O_WRONLY | O_CREAT | O_EXCL;
    case STORE_UPDATE:
        return always | O_RDWR;
    default:
        return always | O_RDONLY;
    }
}

static int open_file(const posix_place *at, store_mode mode) {
    int fd;
    do {
        fd = openat(at->dir, at->name, open_flags(mode), 0666);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

static pawl_status check_regular(const posix_store *p, const char *path, int fd, pawl_error *err) {
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
    return PAWL_OK;
}

static pawl_status posix_open(store *s, const char *path, store_mode mode, store_file **out,
                              pawl_error *err) {
    posix_store *p = posix_of(s);
    const char *attempt =
        store_mode_creates(mode) ? "cannot create the file" : "cannot open the file";
    CLEANUP(store_posix_place_close) posix_place at;
    int failed = store_posix_place(p, path, &at);
    if (failed != 0) {
        return store_posix_failure(p, path, failed, err, attempt);
    }
    AUTOFREE posix_file *f = mem_calloc(1, sizeof(*f));
    if (f == NULL) {
        return error_nomem(err, sizeof(*f));
    }
    f->fd = open_file(&at, mode);
    if (f->fd < 0) {
        return store_posix_failure(p, path, errno, err, attempt);
    }
    pawl_status status = check_regular(p, path, f->fd, err);
    if (status != PAWL_OK) {
        close(f->fd);
        return status;
    }
    store_file_init(&f->base, s, path);
    *out = &f->base;
    f = NULL;
    return PAWL_OK;
}

static pawl_status posix_read(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                              pawl_error *err) {
    ssize_t moved;
    if (at > INT64_MAX) {
        *got = 0; /* beyond the end of any file */
        return PAWL_OK;
    }
    do {
        moved = pread(fd_of(f), to, n < MOST_PER_CALL ? n : MOST_PER_CALL, (off_t)at);
    } while (moved < 0 && errno == EINTR);
    if (moved < 0) {
        return store_posix_failure(posix_of(f->in), f->path, errno, err, "cannot read");
    }
    *got = (size_t)moved;
    return PAWL_OK;
}

/* Writing at or past RLIMIT_FSIZE would kill the process by SIGXFSZ. Returns how much may be
 * written at `at`; 0: nothing. */
static size_t room_below_limit(uint64_t at, size_t n) {
    struct rlimit limit;
    uint64_t most = INT64_MAX;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < most) {
        most = limit.rlim_cur;
    }
    if (at >= most) {
        return 0;
    }
    return n < most - at ? n : (size_t)(most - at);
}

static ssize_t write_some(int fd, uint64_t at, const void *from, size_t n) {
    ssize_t moved;
    size_t allowed = room_below_limit(at, n < MOST_PER_CALL ? n : MOST_PER_CALL);
    if (allowed == 0) {
        errno = EFBIG;
        return -1;
    }
    do {
        moved = pwrite(fd, from, allowed, (off_t)at);
    } while (moved < 0 && errno == EINTR);
    return moved;
}

static pawl_status posix_write(store_file *f, uint64_t at, const void *from, size_t n, size_t *put,
                               pawl_error *err) {
    ssize_t moved = write_some(fd_of(f), at, from, n);
    if (moved < 0) {
        return store_posix_failure(posix_of(f->in), f->path, errno, err, "cannot write");
    }
    *put = (size_t)moved;
    return PAWL_OK;
}

static pawl_status posix_size(store_file *f, uint64_t *out, pawl_error *err) {
    struct stat found;
    if (fstat(fd_of(f), &found) != 0) {
        return store_posix_failure(posix_of(f->in), f->path, errno, err,
                                   "cannot find out the size");
    }
    *out = (uint64_t)found.st_size;
    return PAWL_OK;
}

static int sync_descriptor(int fd) {
    int failed;
    do {
        failed = fsync(fd);
    } while (failed != 0 && errno == EINTR);
    return failed == 0 ? 0 : errno;
}

static pawl_status posix_sync(store_file *f, pawl_error *err) {
    int failed = sync_descriptor(fd_of(f));
    if (failed != 0) {
        return store_posix_failure(posix_of(f->in), f->path, failed, err, "cannot sync the file");
    }
    return PAWL_OK;
}

static void posix_close(store_file *f) {
    close(fd_of(f));
    mem_free(f);
}

/* ---- names ---------------------------------------------------------------------------------- */

static pawl_status posix_make_dir(store *s, const char *path, pawl_error *err) {
    posix_store *p = posix_of(s);
    CLEANUP(store_posix_place_close) posix_place at;
    int failed = store_posix_place(p, path, &at);
    if (failed == 0 && mkdirat(at.dir, at.name, 0777) != 0) {
        failed = errno;
    }
    return failed == 0 ? PAWL_OK
                       : store_posix_failure(p, path, failed, err, "cannot create the directory");
}

static pawl_status remove_name(posix_store *p, const char *path, int flags, const char *attempt,
                               pawl_error *err) {
    CLEANUP(store_posix_place_close) posix_place at;
    int failed = store_posix_place(p, path, &at);
    if (failed == 0 && unlinkat(at.dir, at.name, flags) != 0) {
        failed = errno == EEXIST ? ENOTEMPTY : errno; /* POSIX allows both for a full directory */
    }
    return failed == 0 ? PAWL_OK : store_posix_failure(p, path, failed, err, attempt);
}

static pawl_status posix_remove_dir(store *s, const char *path, pawl_error *err) {
    return remove_name(posix_of(s), path, AT_REMOVEDIR, "cannot remove the directory", err);
}

static pawl_status posix_unlink(store *s, const char *path, pawl_error *err) {
    return remove_name(posix_of(s), path, 0, "cannot remove the file", err);
}

/* The promise is about files; a directory must never be moved by mistake. */
static int rename_file(const posix_place *from, const char *to) {
    struct stat found;
    if (fstatat(from->dir, from->name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno;
    }
    if (S_ISDIR(found.st_mode)) {
        return EISDIR;
    }
    return renameat(from->dir, from->name, from->dir, to) == 0 ? 0 : errno;
}

static pawl_status posix_rename(store *s, const char *from, const char *to, pawl_error *err) {
    posix_store *p = posix_of(s);
    char parent[STORE_MAX_PATH];
    CLEANUP(store_posix_place_close) posix_place at;
    int failed = store_posix_place(p, from, &at);
    if (failed == 0) {
        failed = rename_file(&at, store_split_path(to, parent));
    }
    return failed == 0 ? PAWL_OK
                       : store_posix_failure(p, from, failed, err, "cannot rename the file");
}

/* Some filesystems have no sync for directories (EINVAL, ENOTSUP) and make names durable in
 * their own way or never; there is nothing more to be done about it here. */
static pawl_status posix_sync_dir(store *s, const char *path, pawl_error *err) {
    posix_store *p = posix_of(s);
    int fd = store_posix_open_dir(p, path);
    int failed = fd < 0 ? errno : sync_descriptor(fd);
    if (fd >= 0) {
        close(fd);
        failed = failed == EINVAL || failed == ENOTSUP ? 0 : failed;
    }
    return failed == 0 ? PAWL_OK
                       : store_posix_failure(p, path, failed, err, "cannot sync the directory");
}

/* ---- looking -------------------------------------------------------------------------------- */

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static pawl_status list_all(const posix_store *p, const char *path, DIR *dir,
                            pawl_status (*each)(void *context, const char *name, pawl_error *err),
                            void *context, pawl_error *err) {
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL) {
            return errno == 0
                       ? PAWL_OK
                       : store_posix_failure(p, path, errno, err, "cannot list the directory");
        }
        if (!is_dots(entry->d_name)) {
            TRY(each(context, entry->d_name, err));
        }
    }
}

static pawl_status posix_list(store *s, const char *path,
                              pawl_status (*each)(void *context, const char *name, pawl_error *err),
                              void *context, pawl_error *err) {
    posix_store *p = posix_of(s);
    int fd = store_posix_open_dir(p, path);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        int failed = errno;
        if (fd >= 0) {
            close(fd);
        }
        return store_posix_failure(p, path, failed, err, "cannot list the directory");
    }
    pawl_status status = list_all(p, path, dir, each, context, err);
    closedir(dir);
    return status;
}

static store_type type_of(mode_t mode) {
    if (S_ISREG(mode)) {
        return STORE_FILE_TYPE;
    }
    return S_ISDIR(mode) ? STORE_DIR_TYPE : STORE_OTHER_TYPE;
}

static int stat_place(const posix_place *at, struct stat *found) {
    const char *name = at->name[0] == '\0' ? "." : at->name;
    return fstatat(at->dir, name, found, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

static pawl_status posix_stat(store *s, const char *path, store_stat *out, pawl_error *err) {
    posix_store *p = posix_of(s);
    struct stat found;
    CLEANUP(store_posix_place_close) posix_place at;
    int failed = store_posix_place(p, path, &at);
    if (failed == 0) {
        failed = stat_place(&at, &found);
    }
    if (failed != 0) {
        return store_posix_failure(p, path, failed, err, "cannot look at this name");
    }
    out->type = type_of(found.st_mode);
    out->modified_unix_ns = found.st_mtim.tv_sec * INT64_C(1000000000) + found.st_mtim.tv_nsec;
    out->size = out->type == STORE_FILE_TYPE ? (uint64_t)found.st_size : 0;
    return PAWL_OK;
}

/* ---- the store ------------------------------------------------------------------------------ */

static void posix_destroy(store *s) {
    posix_store *p = posix_of(s);
    if (p->root >= 0) {
        close(p->root);
    }
    mem_free(s->root);
    mem_free(p);
}

static const store_ops posix_ops = {.open = posix_open,
                                    .read = posix_read,
                                    .write = posix_write,
                                    .size = posix_size,
                                    .sync = posix_sync,
                                    .close = posix_close,
                                    .make_dir = posix_make_dir,
                                    .remove_dir = posix_remove_dir,
                                    .rename = posix_rename,
                                    .unlink = posix_unlink,
                                    .sync_dir = posix_sync_dir,
                                    .list = posix_list,
                                    .stat = posix_stat,
                                    .space = store_posix_space,
                                    .destroy = posix_destroy};

/* Only for messages; the descriptor is what counts. */
static char *absolute(const char *root) {
    char here[4096], joined[sizeof(here) + 4096];
    size_t n = strlen(root);
    while (n > 1 && root[n - 1] == '/') {
        n--;
    }
    if (root[0] == '/' || getcwd(here, sizeof(here)) == NULL) {
        (void)snprintf(joined, sizeof(joined), "%.*s", (int)n, root);
    } else {
        (void)snprintf(joined, sizeof(joined), "%s/%.*s", here, (int)n, root);
    }
    return mem_strdup(joined);
}

static int open_root(const char *root) {
    int fd;
    do {
        fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* Unlike inside, a link to the root is followed: it is the caller's choice. */
static pawl_status cannot_open_root(const posix_store *p, int failed, pawl_error *err) {
    static const char attempt[] = "cannot open the directory";
    if (failed == ELOOP) {
        error_sys(err, failed, "%s", attempt);
        store_error_path(err, &p->base, "");
        return err->status;
    }
    return store_posix_failure(p, "", failed, err, attempt);
}

pawl_status store_posix(const char *root, store **out, pawl_error *err) {
    posix_store *p = mem_calloc(1, sizeof(*p));
    if (p == NULL) {
        return error_nomem(err, sizeof(*p));
    }
    p->base.ops = &posix_ops;
    /* POSIX promises no order of names, and sectors are all that disks keep whole. */
    p->base.traits = (store_traits){
        .kind = "posix", .atomic_rename = true, .ordered_names = false, .atomic_write_bytes = 512};
    p->base.root = absolute(root);
    p->root = open_root(root);
    int failed = errno;
    pawl_status status = PAWL_OK;
    if (p->base.root == NULL) {
        status = error_nomem(err, strlen(root) + 1);
    } else if (p->root < 0) {
        status = cannot_open_root(p, failed, err);
    }
    if (status != PAWL_OK) {
        posix_destroy(&p->base);
        return status;
    }
    *out = &p->base;
    return PAWL_OK;
}
