/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batcher: cuts the text into samples, shuffles them anew in every epoch, and hands out batches.
 *
 * A sample is a window of `context` characters and the one that follows. Where the batcher stands
 * is three numbers (epoch, position, shuffle_seed): they are part of the checkpoint, so that a
 * resumed run sees exactly the batches that an uninterrupted one would have seen.
 *
 * Of every batch a rank takes its part. The batches, and the three numbers, are those of all ranks
 * together: however many they are, the same samples come in the same steps.
 */
#ifndef CHARLM_BATCHER_H
#define CHARLM_BATCHER_H

#include <pawl/check.h>

#include "rng.h"
#include "shard.h"
#include "text.h"

struct batch {
    int64_t total;          /* samples, of all ranks */
    int64_t count;          /* of them, those of this rank */
    int64_t context;        /* characters per sample */
    unsigned char *inputs;  /* [count, context] */
    unsigned char *targets; /* [count] */
};

struct batcher {
    const struct text *text;
    int64_t samples;    /* in the text */
    int keep_remainder; /* hand out the smaller batch at the end of an epoch (failure J01) */
    uint32_t *order;    /* [samples] */
    int64_t epoch;
    int64_t position;      /* samples of this epoch that were handed out */
    uint64_t shuffle_seed; /* `order` follows from it, */
    uint64_t next_seed;    /* and so does the next epoch's seed: on all ranks the same */
    int64_t batch_size;    /* samples, of all ranks */
    struct place place;
    struct batch batch; /* the one that was handed out last */
};

/* Begins epoch 0. Dies when the text is shorter than one batch needs. */
void batcher_open(struct batcher *batcher, const struct text *text, int64_t context,
                  int64_t batch_size, int keep_remainder, struct place place,
                  uint64_t shuffle_seed);
void batcher_close(struct batcher *batcher);

/* The next batch, valid until the next call. */
const struct batch *batcher_next(struct batcher *batcher);

/* Goes where a checkpoint says, or to the end of the epoch when the text has become too short. */
void batcher_seek(struct batcher *batcher, int64_t epoch, int64_t position, uint64_t shuffle_seed);

/* The batch of all ranks as pawl's checks want to see it. */
enum { BATCH_ENTRIES = 2 };
struct batch_entries {
    int64_t inputs_shape[2];
    int64_t targets_shape[1];
    pawl_array array[BATCH_ENTRIES];
};
void batch_describe(const struct batch *batch, struct batch_entries *entries);

#endif
