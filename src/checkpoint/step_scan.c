/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/step_scan.h"

#include "checkpoint/private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A listing takes a small part of the time of a save: a reader that was too late so many times in a
 * row would be too late the next time, too. */
#define MAX_RETRIES 1000u
/* Where listings are slow the time is limited as well, but so many retries are always made. */
#define MAX_SCANNING_NS 10000000000u
#define MIN_RETRIES     4u

/* What is there now is seen, also where the storage is late. */
step_scan step_scan_of(store *s, const platform *os) {
    store_catch_up(s);
    return (step_scan){.store = s, .platform = os, .begun_ns = platform_now_ns(os)};
}

void step_scan_free(step_scan *scan) {
    arena_free(&scan->memory);
}

/* ---- listing ---- */

/* What `latest` says; "" where it cannot be read, or is too long. */
static pawl_status read_hint(store *s, char out[STEP_SCAN_HINT_BYTES], pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    struct pawl_error story = ERROR_INIT;
    out[0] = '\0';
    pawl_status status = store_read_file(s, NAME_LATEST, STEP_SCAN_HINT_BYTES - 1, &text, &story);
    if (status == PAWL_ENOMEM) {
        *err = story;
        return status;
    }
    if (status == PAWL_OK) {
        snprintf(out, STEP_SCAN_HINT_BYTES, "%.*s", (int)text.size, (const char *)text.data);
        out[strcspn(out, "\n")] = '\0';
    }
    return PAWL_OK;
}

static bool has_step(const int64_t *steps, size_t count, int64_t step) {
    for (size_t i = count; i > 0 && steps[i - 1] >= step; i--) {
        if (steps[i - 1] == step) {
            return true;
        }
    }
    return false;
}

/* The hint is no proof that there is such a step, but a name to look for. */
static pawl_status add_hinted(arena *memory, const char *hint, int64_t **steps, size_t *count,
                              pawl_error *err) {
    int64_t step;
    if (!name_step_parse(hint, &step) || has_step(*steps, *count, step)) {
        return PAWL_OK;
    }
    int64_t *more = arena_take(memory, (*count + 1) * sizeof *more, err);
    if (more == NULL) {
        return PAWL_ENOMEM;
    }
    size_t below = 0;
    while (below < *count && (*steps)[below] < step) {
        more[below] = (*steps)[below];
        below++;
    }
    more[below] = step;
    for (size_t i = below; i < *count; i++) {
        more[i + 1] = (*steps)[i];
    }
    *steps = more;
    *count += 1;
    return PAWL_OK;
}

pawl_status step_scan_list(step_scan *scan, pawl_error *err) {
    char hint[STEP_SCAN_HINT_BYTES];
    int64_t *steps;
    size_t count;
    CLEANUP(arena_free) arena memory = {0};
    TRY(read_hint(scan->store, hint, err));
    TRY(step_numbers(scan->store, &memory, &steps, &count, err));
    TRY(add_hinted(&memory, hint, &steps, &count, err));
    scan->unchanged = scan->steps != NULL && count == scan->count &&
                      strcmp(hint, scan->hint) == 0 &&
                      memcmp(steps, scan->steps, count * sizeof *steps) == 0;
    arena_free(&scan->memory);
    scan->memory = memory;
    memory = (arena){0};
    scan->steps = steps;
    scan->count = count;
    memcpy(scan->hint, hint, sizeof hint);
    return PAWL_OK;
}

pawl_status step_scan_newest(const step_scan *scan, int64_t *out, pawl_error *err) {
    *out = -1;
    for (size_t i = scan->count; i > 0 && *out < 0; i--) {
        char directory[32];
        bool present;
        name_step(directory, scan->steps[i - 1]);
        TRY(step_has_manifest(scan->store, directory, &present, err));
        *out = present ? scan->steps[i - 1] : -1;
    }
    return PAWL_OK;
}

/* ---- listing again ---- */

void step_scan_saw_one(step_scan *scan) {
    scan->was_empty = false;
}

bool step_scan_confirms_empty(step_scan *scan) {
    bool believed = scan->was_empty && scan->unchanged;
    scan->was_empty = true;
    return believed;
}

pawl_status step_scan_retry(step_scan *scan, pawl_error *err) {
    const platform *os = scan->platform;
    uint64_t scanned_ns = platform_now_ns(os) - scan->begun_ns;
    scan->retries++;
    if (scan->retries < MIN_RETRIES ||
        (scan->retries < MAX_RETRIES && scanned_ns < MAX_SCANNING_NS)) {
        store_catch_up(scan->store);
        return PAWL_OK;
    }
    error_set(err, PAWL_EBUSY, "the run changes faster than it can be read");
    error_path(err, "%s", scan->store->root);
    error_expected(err, "a checkpoint that stays for as long as it takes to open it");
    error_found(err,
                "that in %u tries within %.1f s what was listed had each time been removed or "
                "replaced",
                scan->retries, (double)scanned_ns / 1e9);
    error_safe(err, "nothing was changed; there may well be a checkpoint");
    error_next(err, "try again; a run that keeps 2 checkpoints or more (keep_last) leaves readers "
                    "the time of a save");
    return PAWL_EBUSY;
}
