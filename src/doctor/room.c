/* SPDX-License-Identifier: Apache-2.0 */
/* Is there room (P03, S06)? */
#include "checkpoint/checkpoint.h"
#include "doctor/examination.h"

#include <stdio.h>

/* What a few of the smallest checkpoints take. */
#define LEAST_BYTES  65536u
#define LEAST_INODES 16u

static uint64_t newest_bytes(examination *x, store *s) {
    struct pawl_error ignored = ERROR_INIT;
    pawl_catalog *catalog = NULL;
    const pawl_log silent = {0};
    uint64_t bytes = 0;
    if (catalog_open(s, x->os, &silent, &catalog, &ignored) != PAWL_OK) {
        return 0;
    }
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        bytes = info->status == PAWL_STEP_COMMITTED ? info->bytes : bytes;
    }
    pawl_catalog_free(catalog);
    return bytes;
}

static void examine_need(examination *x, const store_space *space, uint64_t need) {
    char need_text[32];
    char free_text[32];
    char lack[32];
    char next[128];
    text_bytes(need_text, need);
    text_bytes(free_text, space->free_bytes);
    if (need > space->free_bytes) {
        snprintf(next, sizeof next, "free %s, or keep fewer checkpoints",
                 text_bytes(lack, need - space->free_bytes));
        doctor_tell(x, "S06", PAWL_SEVERITY_ERROR, next,
                    "a checkpoint needs %s, but %s are free on the filesystem at %s (%s)",
                    need_text, free_text, space->mount_point, space->filesystem);
    } else if (need > space->max_file_bytes) {
        doctor_tell(
            x, "S06", PAWL_SEVERITY_ERROR, "raise the limit: ulimit -f unlimited",
            "a checkpoint needs %s, but a file may have at most %s (ulimit -f, or the limit of %s)",
            need_text, text_bytes(lack, space->max_file_bytes), space->filesystem);
    } else if (need > 0 && space->free_bytes / 2 < need) {
        doctor_tell(x, "S06", PAWL_SEVERITY_WARNING, "free some space, or keep fewer checkpoints",
                    "%s are free at %s (%s): room for one more checkpoint of %s, not for two",
                    free_text, space->mount_point, space->filesystem, need_text);
    } else {
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL, "%s are free at %s (%s)", free_text,
                    space->mount_point, space->filesystem);
    }
}

/* False when not even a small file can be created: trying to write one would find nothing new. */
static bool examine_nothing_left(examination *x, const store_space *space) {
    char free_text[32];
    if (space->read_only) {
        doctor_tell(x, "P03", PAWL_SEVERITY_ERROR, "remount it read-write, or save elsewhere",
                    "the filesystem at %s (%s) is mounted read-only (%s)", space->mount_point,
                    space->filesystem, space->mount_options);
        return false;
    }
    if (space->free_inodes < LEAST_INODES) {
        doctor_tell(
            x, "P03", PAWL_SEVERITY_ERROR, "remove files there, or save elsewhere",
            "the filesystem at %s (%s) has %llu free inodes, fewer than the %u that checkpoints "
            "need",
            space->mount_point, space->filesystem, (unsigned long long)space->free_inodes,
            LEAST_INODES);
    }
    if (space->free_bytes < LEAST_BYTES) {
        doctor_tell(
            x, "P03", PAWL_SEVERITY_ERROR, "free some space there, or save elsewhere",
            "the filesystem at %s (%s) has %s free, less than the smallest checkpoint takes",
            space->mount_point, space->filesystem, text_bytes(free_text, space->free_bytes));
    }
    return space->free_inodes > 0 && space->free_bytes > 0;
}

bool doctor_examine_room(examination *x, store *s, bool whole) {
    struct pawl_error story = ERROR_INIT;
    store_space space;
    if (store_space_of(s, &space, &story) != PAWL_OK) {
        doctor_tell_error(x, "P03", &story);
        return true;
    }
    bool some = examine_nothing_left(x, &space);
    if (some && space.free_bytes >= LEAST_BYTES) {
        uint64_t need = x->need_bytes == 0 && whole ? newest_bytes(x, s) : x->need_bytes;
        examine_need(x, &space, need);
    }
    return some;
}
