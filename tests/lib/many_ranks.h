/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each rank of a job writes in a save, all in one process: its layout, and its data files
 * through an engine in line. For tests of what becomes of them.
 */
#ifndef LIB_MANY_RANKS_H
#define LIB_MANY_RANKS_H

#include "lib/test.h"

#include "engine/engine.h"

#include <string.h>

typedef struct rank_part {
    state_snapshot *snapshot;
    plan_layout *layout;
    uint32_t *checksums; /* of all files, one after the other */
    engine_file *files;  /* one for each of the layout's */
} rank_part;

static inline void rank_part_free(rank_part *part) {
    plan_layout_free(part->layout);
    state_snapshot_free(part->snapshot);
    mem_free(part->checksums);
    mem_free(part->files);
    *part = (rank_part){0};
}

static inline pawl_status rank_part_keep_sums(void *context, const engine_file *files,
                                              pawl_error *err) {
    rank_part *part = context;
    size_t count = part->layout->file_count;
    size_t blocks = 0;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        blocks += files[i].block_count;
    }
    part->checksums = mem_calloc(blocks, sizeof(*part->checksums));
    part->files = mem_calloc(count, sizeof(*part->files));
    assert_true(part->checksums != NULL && part->files != NULL);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t n = files[i].block_count;
        memcpy(part->checksums + at, files[i].checksums, n * sizeof(*part->checksums));
        part->files[i] = (engine_file){.checksums = part->checksums + at, .block_count = n};
        at += n;
    }
    return PAWL_OK;
}

static inline void rank_part_ended(void *context, pawl_status status, pawl_error *err) {
    (void)context;
    assert_ok(status, err);
}

static inline void rank_part_nothing(void *context) {
    (void)context;
}

/* Writes the data files of one rank into `directory`, which exists. The engine's platform has no
 * threads. */
static inline void rank_part_write(engine *e, store *s, const char *directory, pawl_state *state,
                                   int64_t step, const plan_layout_options *options,
                                   rank_part *out) {
    struct pawl_error err = ERROR_INIT;
    *out = (rank_part){0};
    assert_ok(state_snapshot_take(state, step, true, &out->snapshot, &err), &err);
    assert_ok(plan_layout_make(out->snapshot, options, &out->layout, &err), &err);
    const engine_job job = {.layout = out->layout,
                            .store = s,
                            .directory = directory,
                            .step = step,
                            .context = out,
                            .released = rank_part_nothing,
                            .commit = rank_part_keep_sums,
                            .done = rank_part_ended};
    pawl_status outcome;
    engine_stats stats;
    struct pawl_error story = ERROR_INIT;
    assert_ok(engine_begin(e, &job, &err), &err);
    assert_ok(engine_wait(e, 0, NULL, &outcome, &story, &stats, &err), &err);
    assert_ok(outcome, &story);
    state_snapshot_let_go(out->snapshot);
}

#endif
