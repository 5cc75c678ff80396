/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/posix: the posix store, a directory of a filesystem: all that concerns names. Its files are
 * in posix_file.c.
 *
 * The modes of what is created are up to the process's umask. A call that was interrupted before
 * anything happened (EINTR) is repeated here; other repetitions are up to `retry`.
 */
#include "store/posix.h"

#include "store/implement.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#define ZFS_MAGIC 0x2fc12fc1u /* not in the kernel's header */

#ifndef STATX_ATTR_MOUNT_ROOT /* in headers since Linux 5.8 */
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif

static posix_store *posix_of(const store *s) {
    return (posix_store *)s;
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

static pawl_status unlink_place(posix_store *p, const char *path, int flags, const char *what,
                                pawl_error *err) {
    CLEANUP(store_posix_place_close) posix_place at;
    int failed = store_posix_place(p, path, &at);
    if (failed == 0 && unlinkat(at.dir, at.name, flags) != 0) {
        failed = errno == EEXIST ? ENOTEMPTY : errno; /* POSIX allows both for a full directory */
    }
    return failed == 0 ? PAWL_OK : store_posix_failure(p, path, failed, err, what);
}

static pawl_status posix_remove_dir(store *s, const char *path, pawl_error *err) {
    return unlink_place(posix_of(s), path, AT_REMOVEDIR, "cannot remove the directory", err);
}

static pawl_status posix_unlink(store *s, const char *path, const store_tag *expected,
                                pawl_error *err) {
    (void)expected; /* NULL: a filesystem has no versions */
    return unlink_place(posix_of(s), path, 0, "cannot remove the file", err);
}

/* store_rename is for files; a directory must not be moved by mistake. */
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
    int failed = fd < 0 ? errno : store_posix_sync_descriptor(fd);
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

static pawl_status list_all(const posix_store *p, const char *path, DIR *dir, store_each_fn each,
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
            TRY(each(context, &(store_listed){.name = entry->d_name}, err));
        }
    }
}

static pawl_status posix_list(store *s, const char *path, store_each_fn each, void *context,
                              pawl_error *err) {
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

/* 0 for times before 1678 or after 2262, which some filesystems can have: 64 bits of nanoseconds do
 * not reach them. */
static int64_t unix_ns(int64_t seconds, int64_t nanoseconds) {
    int64_t ns;
    bool reached = !__builtin_mul_overflow(seconds, INT64_C(1000000000), &ns) &&
                   !__builtin_add_overflow(ns, nanoseconds, &ns);
    return reached ? ns : 0;
}

/* Linux before 5.8 does not say whether a name is a mount point. There a directory counts as one
 * when its device is not that of the directory around it; a file never does, because files of an
 * overlay have devices of their own. */
static bool is_mounted(const posix_place *at, const struct statx *found) {
    struct stat around;
    if ((found->stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) {
        return (found->stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
    }
    return S_ISDIR(found->stx_mode) && fstat(at->dir, &around) == 0 &&
           around.st_dev != makedev(found->stx_dev_major, found->stx_dev_minor);
}

/* Older container systems refuse statx. */
static int stat_name(int dir, const char *name, struct statx *out) {
    struct stat found;
    if (statx(dir, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, out) == 0) {
        return 0;
    }
    if (errno != EPERM && errno != ENOSYS) {
        return errno;
    }
    if (fstatat(dir, name, &found, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno;
    }
    *out = (struct statx){
        .stx_mode = (uint16_t)found.st_mode,
        .stx_size = (uint64_t)found.st_size,
        .stx_mtime = {.tv_sec = found.st_mtim.tv_sec, .tv_nsec = (uint32_t)found.st_mtim.tv_nsec},
        .stx_dev_major = major(found.st_dev),
        .stx_dev_minor = minor(found.st_dev)};
    return 0;
}

static int stat_place(const posix_place *at, store_stat *out) {
    bool root = at->name[0] == '\0';
    struct statx found;
    int failed = stat_name(at->dir, root ? "." : at->name, &found);
    if (failed != 0) {
        return failed;
    }
    out->type = type_of(found.stx_mode);
    out->mounted = !root && is_mounted(at, &found);
    out->modified_unix_ns = unix_ns(found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec);
    out->size = out->type == STORE_FILE_TYPE ? found.stx_size : 0;
    return 0;
}

static pawl_status posix_stat(store *s, const char *path, store_stat *out, pawl_error *err) {
    posix_store *p = posix_of(s);
    CLEANUP(store_posix_place_close) posix_place at;
    int failed = store_posix_place(p, path, &at);
    if (failed == 0) {
        failed = stat_place(&at, out);
    }
    return failed == 0 ? PAWL_OK
                       : store_posix_failure(p, path, failed, err, "cannot look at this name");
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

static const store_ops posix_ops = {.open = store_posix_open,
                                    .read = store_posix_read,
                                    .write = store_posix_write,
                                    .size = store_posix_size,
                                    .reserve = store_posix_reserve,
                                    .map = store_posix_map,
                                    .start = store_posix_start,
                                    .sync = store_posix_sync,
                                    .close = store_posix_close,
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
static char *absolute_root(const char *root) {
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

/* Is it a filesystem that only this machine changes? Of others (NFS, FUSE, what a cluster shares)
 * the kernel caches for a while which names there are, whatever other machines do. */
static bool is_coherent(int fd) {
    static const uint64_t local[] = {EXT4_SUPER_MAGIC,      XFS_SUPER_MAGIC,   BTRFS_SUPER_MAGIC,
                                     TMPFS_MAGIC,           RAMFS_MAGIC,       F2FS_SUPER_MAGIC,
                                     OVERLAYFS_SUPER_MAGIC, MSDOS_SUPER_MAGIC, ZFS_MAGIC};
    struct statfs found;
    bool is = false;
    for (size_t i = 0; fd >= 0 && fstatfs(fd, &found) == 0 && i < ARRAY_LENGTH(local); i++) {
        is = is || (uint64_t)(uint32_t)found.f_type == local[i];
    }
    return is;
}

/* The root itself may be a link, which is followed: ELOOP then means a circle of links, not one
 * that stands in the place of a directory. */
static pawl_status cannot_open_root(const posix_store *p, int failed, pawl_error *err) {
    static const char what[] = "cannot open the directory";
    if (failed == ELOOP) {
        error_sys(err, failed, "%s", what);
        store_error_path(err, &p->base, "");
        return err->status;
    }
    return store_posix_failure(p, "", failed, err, what);
}

pawl_status store_posix(const char *root, store **out, pawl_error *err) {
    posix_store *p = mem_calloc(1, sizeof(*p));
    if (p == NULL) {
        return error_nomem(err, sizeof(*p));
    }
    p->base.ops = &posix_ops;
    /* POSIX promises no order of names; disks write no more than a sector atomically. */
    p->base.traits = (store_traits){
        .kind = "posix", .atomic_rename = true, .ordered_names = false, .atomic_write_bytes = 512};
    p->base.root = absolute_root(root);
    p->root = open_root(root);
    int failed = errno;
    p->base.traits.coherent = is_coherent(p->root);
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
