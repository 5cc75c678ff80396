/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where else one could save: mounts of this mount namespace that last and can be written to (P07).
 * Nothing is asked of network filesystems but what the list of mounts says: a call would hang where
 * a server does not answer.
 */
#include "path/private.h"

#include "store/mount_table.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MOST_MOUNTS   256
#define MOST_SHOWN    3
#define UNKNOWN_BYTES UINT64_MAX /* of network filesystems, which are shown first */

typedef struct candidate {
    uint64_t free_bytes;
    char device[32];
    char filesystem[32];
    char point[160];
} candidate;

typedef struct candidates {
    uint64_t but; /* the mount that is not wanted */
    size_t count;
    candidate list[MOST_MOUNTS];
} candidates;

static bool is_local(const char *filesystem) {
    static const char *const names[] = {"ext2", "ext3", "ext4",     "xfs",      "btrfs", "zfs",
                                        "f2fs", "jfs",  "reiserfs", "bcachefs", "nilfs2"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        if (strcmp(names[i], filesystem) == 0) {
            return true;
        }
    }
    return false;
}

/* The room on a mount of a local filesystem; false where another mount hides it, or where it cannot
 * be written to. */
static bool local_room(const mount_line *mount, uint64_t *free_bytes) {
    struct statvfs room;
    struct statx found;
    if (statx(AT_FDCWD, mount->point, AT_NO_AUTOMOUNT, STATX_TYPE | STATX_MNT_ID, &found) != 0 ||
        !S_ISDIR(found.stx_mode) ||
        ((found.stx_mask & STATX_MNT_ID) != 0 && found.stx_mnt_id != mount->id)) {
        return false;
    }
    bool whole = strcmp(mount->point, "/") == 0; /* everybody can write somewhere below it */
    if ((!whole && faccessat(AT_FDCWD, mount->point, W_OK | X_OK, AT_EACCESS) != 0) ||
        statvfs(mount->point, &room) != 0) {
        return false;
    }
    return !multiply_overflows(room.f_bavail, room.f_frsize, free_bytes) && *free_bytes > 0;
}

static bool is_known(const candidates *c, const mount_line *mount) {
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->list[i].device, mount->device) == 0) {
            return true;
        }
    }
    return false;
}

static void consider_mount(void *context, const mount_line *mount) {
    candidates *c = context;
    mount_found found = {.id = mount->id};
    (void)snprintf(found.root, sizeof(found.root), "%s", mount->root);
    (void)snprintf(found.filesystem, sizeof(found.filesystem), "%s", mount->filesystem);
    uint64_t free_bytes = UNKNOWN_BYTES;
    if (c->count == MOST_MOUNTS || mount->id == c->but || path_mount_vanishes(&found) ||
        strlen(mount->point) >= sizeof(c->list[0].point) ||
        strncmp(mount->point, "/boot", 5) == 0 || mount_has_option(mount->options, "ro") ||
        mount_has_option(mount->super_options, "ro") || is_known(c, mount)) {
        return;
    }
    if (!mount_is_shared(mount->filesystem) &&
        (!is_local(mount->filesystem) || !local_room(mount, &free_bytes))) {
        return;
    }
    candidate *to = &c->list[c->count++];
    to->free_bytes = free_bytes;
    (void)snprintf(to->device, sizeof(to->device), "%s", mount->device);
    (void)snprintf(to->filesystem, sizeof(to->filesystem), "%s", mount->filesystem);
    (void)snprintf(to->point, sizeof(to->point), "%s", mount->point);
}

static int by_room(const void *left, const void *right) {
    const candidate *a = left;
    const candidate *b = right;
    return a->free_bytes != b->free_bytes ? (a->free_bytes < b->free_bytes ? 1 : -1)
                                          : strcmp(a->point, b->point);
}

static size_t put_mount(char out[512], size_t at, const candidate *c) {
    char room[32];
    const char *comma = at > 0 ? ", " : "";
    if (c->free_bytes == UNKNOWN_BYTES) {
        return at +
               (size_t)snprintf(out + at, 512 - at, "%s%s (%s)", comma, c->point, c->filesystem);
    }
    return at + (size_t)snprintf(out + at, 512 - at, "%s%s (%s, %s free)", comma, c->point,
                                 c->filesystem, text_bytes(room, c->free_bytes));
}

void path_other_mounts(uint64_t but, char out[512]) {
    out[0] = '\0';
    AUTOFREE candidates *c = mem_calloc(1, sizeof(*c));
    if (c == NULL) {
        return;
    }
    c->but = but;
    mounts_each(consider_mount, c);
    qsort(c->list, c->count, sizeof(c->list[0]), by_room);
    size_t at = 0;
    for (size_t i = 0; i < c->count && i < MOST_SHOWN && at < 300; i++) {
        at = put_mount(out, at, &c->list[i]);
    }
}
