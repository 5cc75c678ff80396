/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is there room for a save (S06)? Checked before the first byte is written, by each rank for its
 * own part: no rank knows how many others write to the same filesystem.
 */
#include "checkpoint/checkpoint.h"
#include "run/save.h"

/* The index, the manifest, directories: an upper estimate. */
static uint64_t overhead_bytes(const save *s) {
    return 65536 + s->layout->piece_count * 160 + s->layout->bytes / 2048;
}

static void no_room(const save *s, const char *what, pawl_error *err) {
    error_set(err, PAWL_ENOSPACE, "%s", what);
    error_path(err, "%s/%s", s->run->store->root, s->directory);
    error_step(err, s->step);
}

static pawl_status check_bytes(const save *s, const store_space *space, uint64_t need,
                               pawl_error *err) {
    char need_text[32];
    char free_text[32];
    char lack_text[32];
    if (space->free_bytes >= need) {
        return PAWL_OK;
    }
    text_bytes(need_text, need);
    text_bytes(free_text, space->free_bytes);
    text_bytes(lack_text, need - space->free_bytes);
    no_room(s,
            s->run->ranks->world_size > 1
                ? "there is not enough room for this rank's part of the checkpoint"
                : "there is not enough room for the checkpoint",
            err);
    error_expected(err, "%s free", need_text);
    error_found(err, "%s free on the filesystem at %s (%s)", free_text, space->mount_point,
                space->filesystem);
    error_next(err, "free %s, or keep fewer checkpoints", lack_text);
    return PAWL_ENOSPACE;
}

static pawl_status check_largest_file(const save *s, const store_space *space, pawl_error *err) {
    uint64_t largest = 0;
    char largest_text[32];
    char limit_text[32];
    for (size_t i = 0; i < s->layout->file_count; i++) {
        uint64_t bytes = s->layout->files[i].bytes;
        largest = bytes > largest ? bytes : largest;
    }
    if (largest <= space->max_file_bytes) {
        return PAWL_OK;
    }
    text_bytes(largest_text, largest);
    text_bytes(limit_text, space->max_file_bytes);
    no_room(s, "the checkpoint's largest file is larger than files may be", err);
    error_expected(err, "files of up to %s", largest_text);
    error_found(err, "a limit of %s (ulimit -f, or that of %s at %s)", limit_text,
                space->filesystem, space->mount_point);
    error_next(err, "raise the limit (ulimit -f unlimited), or save to another filesystem");
    return PAWL_ENOSPACE;
}

pawl_status save_check_room(const save *s, pawl_error *err) {
    store_space space;
    TRY(store_space_of(s->run->store, &space, err));
    if (space.read_only) {
        error_set(err, PAWL_EPERMISSION, "the filesystem is mounted read-only");
        error_path(err, "%s/%s", s->run->store->root, s->directory);
        error_found(err, "%s at %s (%s)", space.filesystem, space.mount_point, space.mount_options);
        error_next(err, "remount it read-write (mount -o remount,rw %s), or save elsewhere",
                   space.mount_point);
        return PAWL_EPERMISSION;
    }
    TRY(check_bytes(s, &space, s->layout->bytes + overhead_bytes(s), err));
    uint64_t inodes = s->layout->file_count + 4; /* directory, index, manifest, hint */
    if (space.free_inodes < inodes) {
        no_room(s, "there are not enough inodes for the checkpoint's files", err);
        error_expected(err, "%llu free inodes", (unsigned long long)inodes);
        error_found(err, "%llu free on the filesystem at %s (%s)",
                    (unsigned long long)space.free_inodes, space.mount_point, space.filesystem);
        error_next(err, "remove files there, or save to another filesystem");
        return PAWL_ENOSPACE;
    }
    return check_largest_file(s, &space, err);
}
