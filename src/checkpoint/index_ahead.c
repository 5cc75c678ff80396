/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes the entries of an index while the data files are being written: with many small tensors
 * that takes a considerable part of the time of the save.
 */
#include "checkpoint/index.h"

#define LEAST_PIECES 4096 /* encoding fewer is faster than starting and joining a thread */

struct index_ahead {
    engine *engine;
    const platform *platform;
    const plan_layout *layout;
    index_layout *entries;
    platform_thread *thread; /* NULL: none, or joined */
    bool encoded;            /* by a thread */
    index_part part;
    pawl_status status;
    struct pawl_error story;
};

static void encode_entries(void *argument) {
    index_ahead *ahead = argument;
    engine_tune(ahead->engine);
    ahead->status = index_layout_open(ahead->layout, &ahead->entries, &ahead->story);
    if (ahead->status == PAWL_OK) {
        ahead->status =
            index_part_make(index_layout_source(ahead->entries), &ahead->part, &ahead->story);
    }
}

pawl_status index_ahead_start(const plan_layout *layout, engine *tuned, const platform *os,
                              index_ahead **out, pawl_error *err) {
    index_ahead *ahead = mem_calloc(1, sizeof *ahead);
    if (ahead == NULL) {
        return error_nomem(err, sizeof *ahead);
    }
    ahead->layout = layout;
    ahead->engine = tuned;
    ahead->platform = os;
    ahead->story = ERROR_INIT;
    ahead->encoded = layout->piece_count >= LEAST_PIECES;
    *out = ahead; /* its owner frees it, also after a failure */
    return ahead->encoded
               ? os->thread_start(os->context, encode_entries, ahead, &ahead->thread, err)
               : PAWL_OK;
}

static void join_encoder(index_ahead *ahead) {
    if (ahead->thread != NULL) {
        ahead->platform->thread_join(ahead->platform->context, ahead->thread);
        ahead->thread = NULL;
    }
}

pawl_status index_ahead_wait(index_ahead *ahead, index_input *out, pawl_error *err) {
    join_encoder(ahead);
    if (!ahead->encoded) {
        TRY(index_layout_open(ahead->layout, &ahead->entries, err));
    }
    if (ahead->status != PAWL_OK) {
        *err = ahead->story;
        return ahead->status;
    }
    out->entries = index_layout_source(ahead->entries);
    out->ahead = ahead->encoded ? &ahead->part : NULL;
    return PAWL_OK;
}

void index_ahead_free(index_ahead *ahead) {
    if (ahead != NULL) {
        join_encoder(ahead);
        table_part_free(ahead->part.part);
        index_layout_close(ahead->entries);
        mem_free(ahead);
    }
}
