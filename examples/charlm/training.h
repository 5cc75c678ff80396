/* SPDX-License-Identifier: Apache-2.0 */
/*
 * training: everything that changes while training goes on; in other words, what a checkpoint must
 * hold. state.h says how it is told to pawl.
 */
#ifndef CHARLM_TRAINING_H
#define CHARLM_TRAINING_H

#include "batcher.h"
#include "model.h"
#include "optimizer.h"
#include "rng.h"

struct training {
    int64_t step;   /* optimizer steps done */
    struct rng rng; /* for dropout: each rank has its own */
    struct batcher batcher;
    struct model model;
    struct optimizer optimizer;
};

struct training_shape {
    int64_t context, hidden, batch_size;
    int keep_remainder;
    const struct optimizer_class *optimizer;
    double learning_rate; /* 0: the optimizer's default */
    uint64_t seed;
    struct place place; /* of this rank */
};

/* Training at step 0, with the same weights and batches on every rank. Fixed in memory from now on:
 * the optimizer points into the model. */
void training_open(struct training *training, const struct training_shape *shape,
                   const struct text *text);
void training_close(struct training *training);

/* Random numbers for a rank that continues from `step` without a saved state of its own. */
void training_reseed(struct training *training, uint64_t seed, int64_t step, struct place place);

#endif
