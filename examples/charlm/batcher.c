/* SPDX-License-Identifier: Apache-2.0 */
/* batcher: the order of the samples, and the batches cut from it. */
#include "batcher.h"

#include <stdlib.h>
#include <string.h>

#include "die.h"

/* Fisher and Yates's shuffle. The order depends on the seed alone: no checkpoint need hold it. */
static void shuffle(struct batcher *batcher) {
    struct rng rng;
    rng_seed(&rng, batcher->shuffle_seed);
    for (int64_t i = 0; i < batcher->samples; i++) {
        batcher->order[i] = (uint32_t)i;
    }
    for (int64_t i = batcher->samples - 1; i > 0; i--) {
        uint64_t j = rng_below(&rng, (uint64_t)i + 1);
        uint32_t kept = batcher->order[i];
        batcher->order[i] = batcher->order[j];
        batcher->order[j] = kept;
    }
    batcher->next_seed = rng_next(&rng);
}

void batcher_open(struct batcher *batcher, const struct text *text, int64_t context,
                  int64_t batch_size, int keep_remainder, struct place place,
                  uint64_t shuffle_seed) {
    int64_t samples = (int64_t)text->size - context;
    if (samples < batch_size || samples > UINT32_MAX) {
        die(1,
            "the text has %zu characters; batches of %lld windows of %lld characters need at least "
            "%lld, and at most 4294967295 are supported",
            text->size, (long long)batch_size, (long long)context,
            (long long)(batch_size + context));
    }
    *batcher = (struct batcher){.text = text,
                                .samples = samples,
                                .keep_remainder = keep_remainder,
                                .batch_size = batch_size,
                                .place = place,
                                .batch = {.context = context}};
    batcher->order = allocate((size_t)samples, sizeof *batcher->order);
    int64_t rows = part_of(batch_size, place).count;
    batcher->batch.inputs = allocate((size_t)(rows * context), 1);
    batcher->batch.targets = allocate((size_t)rows, 1);
    batcher_seek(batcher, 0, 0, shuffle_seed);
}

void batcher_close(struct batcher *batcher) {
    free(batcher->order);
    free(batcher->batch.inputs);
    free(batcher->batch.targets);
}

void batcher_seek(struct batcher *batcher, int64_t epoch, int64_t position, uint64_t shuffle_seed) {
    batcher->epoch = epoch;
    batcher->position = position < 0 ? 0 : position;
    if (batcher->position > batcher->samples) {
        batcher->position = batcher->samples;
    }
    batcher->shuffle_seed = shuffle_seed;
    shuffle(batcher);
}

/* By default the remainder is dropped: its samples come first or last in another epoch's order. */
static int64_t next_count(const struct batcher *batcher) {
    int64_t left = batcher->samples - batcher->position;
    if (left >= batcher->batch_size) {
        return batcher->batch_size;
    }
    return batcher->keep_remainder ? left : 0;
}

const struct batch *batcher_next(struct batcher *batcher) {
    if (next_count(batcher) == 0) {
        batcher_seek(batcher, batcher->epoch + 1, 0, batcher->next_seed);
    }
    struct batch *batch = &batcher->batch;
    batch->total = next_count(batcher);
    struct part own = part_of(batch->total, batcher->place);
    batch->count = own.count;
    const uint32_t *order = batcher->order + batcher->position + own.begin;
    for (int64_t i = 0; i < batch->count; i++) {
        const unsigned char *window = batcher->text->bytes + order[i];
        memcpy(batch->inputs + i * batch->context, window, (size_t)batch->context);
        batch->targets[i] = window[batch->context];
    }
    batcher->position += batch->total;
    return batch;
}

void batch_describe(const struct batch *batch, struct batch_entries *entries) {
    entries->inputs_shape[0] = batch->total;
    entries->inputs_shape[1] = batch->context;
    entries->targets_shape[0] = batch->total;
    entries->array[0] = (pawl_array){.name = "inputs",
                                     .dtype = PAWL_U8,
                                     .ndim = 2,
                                     .shape = entries->inputs_shape,
                                     .data = batch->inputs};
    entries->array[1] = (pawl_array){.name = "targets",
                                     .dtype = PAWL_U8,
                                     .ndim = 1,
                                     .shape = entries->targets_shape,
                                     .data = batch->targets};
}
