/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model: what character comes next?
 *
 *     context of characters -> embedding -> dense, ReLU, dropout -> dense, ReLU, dropout -> dense
 *     -> softmax over all 256 characters -> cross-entropy with the one that did come
 */
#ifndef CHARLM_MODEL_H
#define CHARLM_MODEL_H

#include "batcher.h"
#include "variable.h"

enum { CHARACTERS = 256, EMBEDDING = 64 };

enum {
    EMBEDDING_TABLE,
    DENSE1_KERNEL,
    DENSE1_BIAS,
    DENSE2_KERNEL,
    DENSE2_BIAS,
    OUTPUT_KERNEL,
    OUTPUT_BIAS,
    VARIABLES
};

struct model {
    struct variable variables[VARIABLES];
    int64_t context, hidden;
    /* What a forward pass leaves for the backward pass; "batch" are the samples of this rank. */
    float *embedded;      /* [batch, context x EMBEDDING] */
    float *hidden1;       /* [batch, hidden], after ReLU and dropout */
    float *hidden2;       /* [batch, hidden], after ReLU and dropout */
    float *probabilities; /* [batch, CHARACTERS] */
    /* Derivatives of the loss by the above, where the backward pass needs room for them. */
    float *embedded_gradient, *hidden1_gradient, *hidden2_gradient;
};

/* Random initial weights from `rng`. Makes room for batches of up to `rows` samples of this rank.
 * Also sets OpenBLAS to one thread: see model.c. */
void model_open(struct model *model, int64_t context, int64_t hidden, int64_t rows,
                struct rng *rng);
void model_close(struct model *model);

/*
 * Returns what this rank's samples add to the mean loss per character, in nats: that is the sum
 * over all ranks. Dropout draws from `rng`. Only reads the variables.
 */
double model_forward(struct model *model, const struct batch *batch, struct rng *rng);

/*
 * Fills every variable's gradient with what this rank's samples add to it, for the batch of the
 * last forward pass. Only reads the values.
 */
void model_backward(struct model *model, const struct batch *batch);

/* A number that differs when any bit of any variable does (64-bit FNV-1a). */
uint64_t model_digest(const struct model *model);

#endif
