/* SPDX-License-Identifier: Apache-2.0 */
/* Is there room (P03, S06)? */
#include "checkpoint/checkpoint.h"
#include "doctor/examination.h"
#include "doctor/quota.h"
#include "path/path.h"

#include <stdio.h>

/* What a few of the smallest checkpoints take. */
#define LEAST_BYTES  65536u
#define LEAST_INODES 16u

static void note_newest(examination *x, store *s) {
    struct pawl_error ignored = ERROR_INIT;
    pawl_catalog *catalog = NULL;
    const pawl_log silent = {0};
    if (catalog_open(s, x->os, &silent, &catalog, &ignored) != PAWL_OK) {
        return;
    }
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        if (info->status == PAWL_STEP_COMMITTED) {
            x->newest = info->step;
            x->newest_bytes = info->bytes;
        }
        x->last_unix_ns =
            info->unix_time_ns > x->last_unix_ns ? info->unix_time_ns : x->last_unix_ns;
    }
    pawl_catalog_free(catalog);
}

uint64_t doctor_need(const examination *x) {
    return x->need_bytes > 0 ? x->need_bytes : x->newest_bytes;
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
    } else if (space->free_bytes == UINT64_MAX) {
        doctor_tell(x, "ok", PAWL_SEVERITY_NOTE, NULL,
                    "the filesystem at %s (%s) does not say how much room it has",
                    space->mount_point, space->filesystem);
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

/* What the quotas of this user leave, where that is less than the filesystem has. True: so little
 * that a finding says so. */
static bool take_quota(examination *x, const store *s, store_space *space) {
    doctor_quota quota;
    char limit[32];
    char left[32];
    bool told = false;
    if (!storage_is_local(x->storage)) {
        return false;
    }
    quota_of(s->root, &quota);
    if (!quota.limited ||
        (quota.free_bytes >= space->free_bytes && quota.free_inodes >= space->free_inodes)) {
        return false;
    }
    if (quota.free_bytes < LEAST_BYTES || quota.free_inodes < LEAST_INODES ||
        quota.free_bytes < doctor_need(x)) {
        told = true;
        doctor_evidence(x, "quotactl: %s may have %s, of which %s are left", quota.name,
                        text_bytes(limit, quota.limit_bytes), text_bytes(left, quota.free_bytes));
        doctor_tell(x, "P03", PAWL_SEVERITY_ERROR,
                    "remove files of that user there, have the quota raised, or save elsewhere",
                    "the quota of %s on the filesystem at %s (%s) leaves %s, whatever else is free",
                    quota.name, space->mount_point, space->filesystem,
                    text_bytes(left, quota.free_bytes));
    }
    space->free_bytes = quota.free_bytes < space->free_bytes ? quota.free_bytes : space->free_bytes;
    space->free_inodes =
        quota.free_inodes < space->free_inodes ? quota.free_inodes : space->free_inodes;
    return told;
}

bool doctor_examine_room(examination *x, store *s, bool whole) {
    struct pawl_error story = ERROR_INIT;
    store_space space;
    if (whole) {
        note_newest(x, s);
    }
    if (store_space_of(s, &space, &story) != PAWL_OK) {
        doctor_tell_error(x, "P03", &story);
        return true;
    }
    bool told = take_quota(x, s, &space);
    bool some = told ? !space.read_only && space.free_bytes > 0 && space.free_inodes > 0
                     : examine_nothing_left(x, &space);
    if (some && !told && space.free_bytes >= LEAST_BYTES) {
        examine_need(x, &space, doctor_need(x));
    }
    x->unwritable = !some;
    return some;
}
