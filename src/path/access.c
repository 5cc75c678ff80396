/* SPDX-License-Identifier: Apache-2.0 */
/* Explains why the system refuses a directory (P02, P03): who we are, what it allows, and what
 * would change that. */
#include "path/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MAX_GROUPS 64

typedef struct identity {
    uid_t user;
    gid_t group;
    gid_t groups[MAX_GROUPS];
    int group_count; /* -1: more than fit */
} identity;

static identity who_we_are(void) {
    identity me = {.user = geteuid(), .group = getegid()};
    me.group_count = getgroups(MAX_GROUPS, me.groups);
    return me;
}

static bool in_group(const identity *me, gid_t group) {
    if (me->group == group) {
        return true;
    }
    for (int i = 0; i < me->group_count; i++) {
        if (me->groups[i] == group) {
            return true;
        }
    }
    return false;
}

static void groups_text(const identity *me, char *out, size_t size) {
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < me->group_count && at + 16 < size; i++) {
        at += (size_t)snprintf(out + at, size - at, "%s%u", i > 0 ? ", " : "",
                               (unsigned)me->groups[i]);
    }
    if (me->group_count <= 0) {
        snprintf(out, size, "%s", me->group_count == 0 ? "none" : "very many");
    }
}

static bool has_acl(const char *directory) {
    return getxattr(directory, "system.posix_acl_access", NULL, 0) > 0;
}

static const char *need_words(int need) {
    if ((need & W_OK) != 0) {
        return "to create files in it";
    }
    return (need & R_OK) != 0 ? "to list and enter it" : "to enter it";
}

static const char *need_letters(int need) {
    if ((need & W_OK) != 0) {
        return (need & R_OK) != 0 ? "rwx" : "wx";
    }
    return (need & R_OK) != 0 ? "rx" : "x";
}

/* The smallest change that would let us in. */
static void say_remedy(const identity *me, const struct stat *found, const char *directory,
                       int need, pawl_error *err) {
    const char *letters = need_letters(need);
    unsigned owner = (unsigned)found->st_uid;
    if (me->user == found->st_uid) {
        error_next(err, "chmod u+%s %s", letters, directory);
    } else if (in_group(me, found->st_gid)) {
        error_next(err, "its owner (uid %u) or root can run: chmod g+%s %s", owner, letters,
                   directory);
    } else {
        error_next(err,
                   "its owner (uid %u) or root can run: setfacl -m u:%u:%s %s; or choose another "
                   "directory",
                   owner, (unsigned)me->user, letters, directory);
    }
}

static void say_permission(const char *directory, int need, pawl_error *err) {
    identity me = who_we_are();
    struct stat found;
    char groups[160];
    groups_text(&me, groups, sizeof(groups));
    error_expected(err, "permission %s for uid %u, gid %u, groups %s", need_words(need),
                   (unsigned)me.user, (unsigned)me.group, groups);
    if (stat(directory, &found) != 0) {
        error_next(err, "see who may do what with: namei -l %s", directory);
        return;
    }
    error_found(err, "owner uid %u, gid %u, mode %04o, %s", (unsigned)found.st_uid,
                (unsigned)found.st_gid, (unsigned)(found.st_mode & 07777),
                has_acl(directory) ? "and an ACL (see getfacl)" : "no ACL");
    say_remedy(&me, &found, directory, need, err);
}

static void say_read_only(const char *directory, pawl_error *err) {
    store *s = NULL;
    store_space space;
    struct pawl_error ignored = ERROR_INIT;
    error_expected(err, "a filesystem that can be written");
    if (store_posix(directory, &s, &ignored) == PAWL_OK &&
        store_space_of(s, &space, &ignored) == PAWL_OK) {
        error_found(err, "%s at %s, mounted read-only (%s)", space.filesystem, space.mount_point,
                    space.mount_options);
        error_next(err,
                   "mount it for writing (mount -o remount,rw %s), or choose another directory",
                   space.mount_point);
    } else {
        error_next(err, "mount it for writing, or choose another directory");
    }
    store_destroy(s);
}

pawl_status path_refused(const char *directory, int need, int system_errno, const char *attempted,
                         pawl_error *err) {
    pawl_status status = error_sys(err, system_errno, "%s", attempted);
    error_path(err, "%s", directory);
    if (system_errno == EROFS) {
        say_read_only(directory, err);
    } else if (system_errno == EACCES || system_errno == EPERM) {
        say_permission(directory, need, err);
    }
    return status;
}

pawl_status path_check_access(const char *directory, int need, pawl_error *err) {
    if (faccessat(AT_FDCWD, directory, need, AT_EACCESS) == 0) {
        return PAWL_OK;
    }
    return path_refused(
        directory, need, errno,
        (need & W_OK) != 0 ? "cannot write to a directory" : "cannot read a directory", err);
}

void path_explain_access(const char *directory, pawl_error *err) {
    (void)path_refused(directory, R_OK | W_OK | X_OK, EACCES, "cannot write to a directory", err);
}
