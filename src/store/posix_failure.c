/* SPDX-License-Identifier: Apache-2.0 */
/* store/posix_failure: explains a failure beyond its errno: who may not (EACCES), what is read-only
 * (EROFS) or full (ENOSPC). */
#include "store/posix.h"

#include "store/implement.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Who asks, and what the directory and the name in it (when it is there) allow. */
static void explain_denied_access(const posix_store *p, const char *path, pawl_error *err) {
    CLEANUP(store_posix_place_close) posix_place at;
    struct stat dir, file;
    char of_file[96] = "";
    error_expected(err, "access for user %lld, group %lld", (long long)geteuid(),
                   (long long)getegid());
    if (store_posix_place(p, path, &at) != 0 || fstat(at.dir, &dir) != 0) {
        return;
    }
    if (path[0] != '\0' && fstatat(at.dir, at.name, &file, AT_SYMLINK_NOFOLLOW) == 0) {
        (void)snprintf(of_file, sizeof(of_file), "; it has owner %lld, group %lld, mode %04o",
                       (long long)file.st_uid, (long long)file.st_gid,
                       (unsigned)(file.st_mode & 07777));
    }
    error_found(err, "a directory with owner %lld, group %lld, mode %04o%s", (long long)dir.st_uid,
                (long long)dir.st_gid, (unsigned)(dir.st_mode & 07777), of_file);
    error_next(err, "run as a user whom the mode admits, or change owner or mode");
}

static bool ask_space(const posix_store *p, store_space *space) {
    pawl_error ignored = ERROR_INIT;
    return store_posix_space((store *)&p->base, space, &ignored) == PAWL_OK;
}

static void explain_read_only_mount(const posix_store *p, pawl_error *err) {
    store_space space;
    if (ask_space(p, &space)) {
        error_found(err, "the filesystem at %s (%s) is mounted read-only (%s)", space.mount_point,
                    space.filesystem, space.mount_options);
    }
    error_next(err, "mount it for writing, or choose another directory");
}

static void explain_no_space(const posix_store *p, pawl_error *err) {
    store_space space;
    char room[32];
    char files[48] = "";
    if (ask_space(p, &space)) {
        if (space.free_inodes != UINT64_MAX) { /* there is a limit */
            (void)snprintf(files, sizeof(files), " and %llu more files",
                           (unsigned long long)space.free_inodes);
        }
        error_found(err, "%s%s free on the filesystem at %s (%s)",
                    text_bytes(room, space.free_bytes), files, space.mount_point, space.filesystem);
    }
    error_next(err, "free space there, or choose another directory");
}

static void explain_size_limit(const posix_store *p, pawl_error *err) {
    struct rlimit limit;
    char most[32];
    store_space space;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        error_found(err, "a file-size limit of this process (RLIMIT_FSIZE) of %s",
                    text_bytes(most, limit.rlim_cur));
        error_next(err, "raise the limit (ulimit -f unlimited)");
    } else if (ask_space(p, &space)) {
        error_found(err, "the filesystem at %s (%s), which has no files of this size",
                    space.mount_point, space.filesystem);
    }
}

/* Where links are followed, what fails may be where one leads. False: it is no link. */
static bool found_link(const posix_store *p, const char *path, const char *which, pawl_error *err) {
    CLEANUP(store_posix_place_close) posix_place at;
    char target[512];
    ssize_t n = store_posix_place(p, path, &at) == 0
                    ? readlinkat(at.dir, at.name, target, sizeof(target) - 1)
                    : -1;
    if (n <= 0 || !p->follows_links) {
        return false;
    }
    target[n] = '\0';
    error_found(err, "a symbolic link to %.300s, which %s", target, which);
    return true;
}

static void explain_broken_link(const posix_store *p, const char *path, const char *which,
                                pawl_error *err) {
    if (found_link(p, path, which, err)) {
        error_expected(err, "a file, or a link that leads to one");
        error_next(err, "get that file again, or mend the link");
    }
}

pawl_status store_posix_failure(const posix_store *p, const char *path, int system_errno,
                                pawl_error *err, const char *what) {
    pawl_status status = store_failure(&p->base, path, system_errno, err, what);
    switch (system_errno) {
    case EACCES:
    case EPERM:
        explain_denied_access(p, path, err);
        (void)found_link(p, path, "may not be read, or not be reached", err);
        break;
    case EROFS:
        explain_read_only_mount(p, err);
        break;
    case ENOSPC:
    case EDQUOT:
        explain_no_space(p, err);
        break;
    case EFBIG:
        explain_size_limit(p, err);
        break;
    case ENOENT:
        explain_broken_link(p, path, "does not exist", err);
        break;
    case ELOOP:
        explain_broken_link(p, path, "leads in a circle, or too far", err);
        break;
    default:
        break;
    }
    return status;
}
