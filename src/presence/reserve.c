/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file `reserve` in a run's directory: allocated but empty room. On a full disk it is removed,
 * so that what must be written before anything else can be removed, above all the owner's record,
 * finds room. Some filesystems want more free blocks to create a file than the file takes: XFS
 * some 200 KiB, small btrfs ones 1 MiB.
 *
 * Nothing depends on it: every failure here is ignored.
 */
#include "format/format.h"
#include "presence/owner.h"

#include <errno.h>
#include <string.h>

#define RESERVE_BYTES  ((uint64_t)1 << 20)
#define RESERVE_STEP   ((uint64_t)64 << 10)
#define RESERVE_SHARE  16u /* reserved only where it is at most this part of what is free */
#define RESERVE_INODES 16u

static bool has_reserve(store *s) {
    struct pawl_error ignored = ERROR_INIT;
    store_stat found;
    return store_stat_path(s, NAME_RESERVE, &found, &ignored) == PAWL_OK &&
           found.size >= RESERVE_STEP;
}

static bool has_room(store *s) {
    struct pawl_error ignored = ERROR_INIT;
    store_space space;
    return store_space_of(s, &space, &ignored) == PAWL_OK && !space.read_only &&
           space.free_bytes / RESERVE_SHARE >= RESERVE_BYTES && space.free_inodes >= RESERVE_INODES;
}

/* Where storage cannot reserve, zeros are written. */
static bool allocate_room(store_file *file, uint64_t bytes) {
    static const uint8_t zeros[RESERVE_STEP];
    struct pawl_error ignored = ERROR_INIT;
    uint64_t size = 0;
    if (store_reserve(file, bytes, &ignored) != PAWL_OK ||
        store_size(file, &size, &ignored) != PAWL_OK) {
        return false;
    }
    for (; size < bytes; size += sizeof zeros) {
        if (store_write(file, size, zeros, sizeof zeros, &ignored) != PAWL_OK) {
            return false;
        }
    }
    return true;
}

/* A file that a copy of the run by hard links shares is not changed, but replaced. */
static bool open_or_create(store *s, store_file **file) {
    struct pawl_error ignored = ERROR_INIT;
    if (store_open(s, NAME_RESERVE, STORE_UPDATE, file, &ignored) == PAWL_OK) {
        return true;
    }
    if (ignored.system_errno == EMLINK) {
        (void)reserve_remove(s);
    }
    return store_open(s, NAME_RESERVE, STORE_CREATE, file, &ignored) == PAWL_OK;
}

void reserve_make_anew(store *s) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    if (!open_or_create(s, &file)) {
        return;
    }
    for (uint64_t bytes = RESERVE_BYTES; bytes > 0 && !allocate_room(file, bytes);) {
        bytes -= RESERVE_STEP;
    }
}

/* Only on disks: other stores do not run out of room in this way. */
void reserve_make(store *s) {
    if (strcmp(s->traits.kind, "posix") == 0 && !has_reserve(s) && has_room(s)) {
        reserve_make_anew(s);
    }
}

bool reserve_remove(store *s) {
    struct pawl_error ignored = ERROR_INIT;
    return store_unlink(s, NAME_RESERVE, &ignored) == PAWL_OK;
}
