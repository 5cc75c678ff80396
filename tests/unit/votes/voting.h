/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of votes share: the ranks of a job in one process, on one storage in memory. Each
 * has a state of its own and a handle that has just what votes need; their data files are written
 * as the layouts say.
 */
#ifndef VOTES_VOTING_H
#define VOTES_VOTING_H

#include "lib/random.h"
#include "lib/simulated_platform.h"
#include "lib/stored.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "checkpoint/checkpoint.h"
#include "votes/votes.h"

#include <stdio.h>
#include <string.h>

#define VOTING_TAG "7f3a9c21e04b-1"

typedef struct voting_rank {
    job_ranks self;
    structure_left left;
    pawl_state *state;
} voting_rank;

typedef struct voting {
    store *disk;
    simulated_platform os;
    int world_size;
    int64_t step;
    char directory[32];
    voting_rank *ranks;
    votes votes;
    bool checking;
    table_summary index;
    uint64_t entries;
    struct pawl_error err;
} voting;

static inline job_ranks *voting_ranks(voting *f, int rank) {
    return &f->ranks[rank].self;
}

static inline void voting_begin(voting *f, int world_size) {
    struct pawl_error err = ERROR_INIT;
    *f = (voting){.world_size = world_size, .step = 100, .err = ERROR_INIT};
    simulated_platform_init(&f->os, 7);
    assert_ok(store_mem(&f->disk, &err), &err);
    name_step(f->directory, f->step);
    assert_ok(store_make_dir(f->disk, f->directory, &err), &err);
    f->ranks = mem_calloc((size_t)world_size, sizeof *f->ranks);
    assert_non_null(f->ranks);
    for (int r = 0; r < world_size; r++) {
        job_ranks *self = voting_ranks(f, r);
        self->store = f->disk;
        self->platform = &f->os.table;
        self->rank = r;
        self->world_size = world_size;
        snprintf(self->attempt, sizeof self->attempt, "7f3a9c21e04b");
        assert_ok(state_new(&f->ranks[r].state, &err), &err);
    }
}

static inline void voting_end(voting *f) {
    for (int r = 0; r < f->world_size; r++) {
        state_free(f->ranks[r].state);
    }
    mem_free(f->ranks);
    votes_free(&f->votes);
    store_destroy(f->disk);
}

/* ---- states --------------------------------------------------------------------------------- */

/* `name` with one box at `offset` of `extent`; `offset` NULL: all of it. */
static inline void voting_tensor(voting *f, int rank, const char *name, int ndim,
                                 const int64_t *shape, const int64_t *offset, const int64_t *extent,
                                 void *data, int replicated) {
    struct pawl_error err = ERROR_INIT;
    const pawl_box held = {.offset = offset, .extent = extent, .data = data};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = PAWL_F32,
                                .ndim = ndim,
                                .shape = shape,
                                .data = offset == NULL ? data : NULL,
                                .nboxes = offset == NULL ? 0 : 1,
                                .boxes = offset == NULL ? NULL : &held,
                                .replicated = replicated};
    assert_ok(state_add_tensor(f->ranks[rank].state, &tensor, &err), &err);
}

static inline void voting_value(voting *f, int rank, const char *name, pawl_kind kind,
                                bool per_rank, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(state_set_value(f->ranks[rank].state, name, kind, PAWL_ROLE_OTHER, per_rank, bytes, n,
                              &err),
              &err);
}

/* ---- a save --------------------------------------------------------------------------------- */

/* Writes a data file as the layout has it; its sum stays unfinished, which only a rebuild minds. */
static inline void voting_write_file(voting *f, const plan_layout *layout, size_t i,
                                     engine_file *out) {
    struct pawl_error err = ERROR_INIT;
    char path[STORE_MAX_PATH];
    const plan_file *file = &layout->files[i];
    size_t n = (size_t)file->bytes;
    CLEANUP(store_close_pointer) store_file *to = NULL;
    AUTOFREE uint8_t *bytes = mem_alloc(n);
    snprintf(path, sizeof path, "%s/%s", f->directory, file->name);
    plan_layout_gather(layout, i, 0, n, bytes);
    assert_ok(store_open(f->disk, path, STORE_CREATE, &to, &err), &err);
    assert_ok(store_write(to, 0, bytes, n, &err), &err);
    out->block_count = (n + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES;
    uint32_t *sums = mem_calloc(out->block_count, sizeof *sums);
    for (size_t k = 0; k < out->block_count; k++) {
        size_t at = k * FORMAT_BLOCK_BYTES;
        size_t left = n - at;
        sums[k] = crc32c(0, bytes + at, left < FORMAT_BLOCK_BYTES ? left : FORMAT_BLOCK_BYTES);
    }
    out->checksums = sums;
}

/* As rank 0 keeps its vote, and the others cast theirs. */
static inline pawl_status voting_say(voting *f, int rank, const ballot *b, pawl_error *err) {
    return rank == 0 ? vote_keep(voting_ranks(f, 0), b, &f->votes.own, err)
                     : vote_cast(voting_ranks(f, rank), b, err);
}

static inline void voting_vote(voting *f, int rank) {
    struct pawl_error err = ERROR_INIT;
    state_snapshot *snapshot = NULL;
    plan_layout *layout = NULL;
    index_layout *entries = NULL;
    replica_sums *sums = NULL;
    const plan_layout_options options = {
        .tag = VOTING_TAG, .rank = rank, .world_size = f->world_size};
    assert_ok(state_snapshot_take(f->ranks[rank].state, f->step, false, &snapshot, &err), &err);
    assert_ok(plan_layout_make(snapshot, &options, &layout, &err), &err);
    engine_file *files = mem_calloc(layout->file_count, sizeof *files);
    for (size_t i = 0; i < layout->file_count; i++) {
        voting_write_file(f, layout, i, &files[i]);
    }
    assert_ok(replica_sums_start(snapshot, f->checking, NULL, &f->os.table, &sums, &err), &err);
    assert_ok(index_layout_open(layout, &entries, &err), &err);
    const index_input input = {
        .entries = index_layout_source(entries), .files = files, .file_count = layout->file_count};
    const ballot b = {.directory = f->directory,
                      .tag = VOTING_TAG,
                      .step = f->step,
                      .layout = layout,
                      .input = &input,
                      .sums = sums,
                      .left = &f->ranks[rank].left};
    assert_ok(voting_say(f, rank, &b, &err), &err);
    for (size_t i = 0; i < layout->file_count; i++) {
        mem_free((void *)(uintptr_t)files[i].checksums);
    }
    mem_free(files);
    replica_sums_free(sums);
    index_layout_close(entries);
    plan_layout_free(layout);
    state_snapshot_free(snapshot);
}

/* All ranks vote, and rank 0 has their heads. */
static inline void voting_vote_all(voting *f) {
    for (int r = 0; r < f->world_size; r++) {
        voting_vote(f, r);
    }
}

static inline void voting_collect(voting *f) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(votes_begin(voting_ranks(f, 0), VOTING_TAG, &f->votes, &err), &err);
    for (int r = 1; r < f->world_size; r++) {
        assert_ok(vote_read_head(f->disk, f->directory, VOTING_TAG, r, &f->votes.memory,
                                 &f->votes.heads[r], &err),
                  &err);
        f->votes.came[r] = 1;
    }
}

static inline merge_input voting_input(const voting *f) {
    return (merge_input){.store = f->disk,
                         .directory = f->directory,
                         .tag = VOTING_TAG,
                         .votes = &f->votes,
                         .world_size = f->world_size,
                         .checking = f->checking};
}

/* The merged index, published as the step's checkpoint. */
static inline pawl_status voting_merge(voting *f, buffer *index, pawl_error *err) {
    merge *m = NULL;
    const merge_input in = voting_input(f);
    TRY(merge_open(&in, &m, err));
    index->size = 0;
    pawl_status status = merge_write(m, byte_sink_buffer(index), &f->index, &f->entries, err);
    merge_close(m);
    return status;
}

static inline void voting_put(voting *f, const char *name, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    char path[STORE_MAX_PATH];
    snprintf(path, sizeof path, "%s/%s", f->directory, name);
    assert_ok(store_replace(f->disk, path, bytes, n, &err), &err);
}

static inline void voting_publish(voting *f, const buffer *index) {
    struct pawl_error err = ERROR_INIT;
    char index_name[80];
    CLEANUP(buffer_free) buffer text = {0};
    name_index(index_name, VOTING_TAG);
    CLEANUP(manifest_free)
    manifest m = {.version = FORMAT_VERSION,
                  .step = f->step,
                  .world_size = f->world_size,
                  .attempt = "7f3a9c21e04b",
                  .framework = "tests 1.0",
                  .writer = "pawl " PAWL_VERSION,
                  .entries = f->entries,
                  .index_name = index_name,
                  .index = f->index};
    assert_ok(votes_manifest_files(f->world_size, &f->votes, &m, &err), &err);
    assert_ok(manifest_encode(&m, &text, &err), &err);
    voting_put(f, index_name, index->data, index->size);
    voting_put(f, NAME_MANIFEST, text.data, text.size);
}

#endif
