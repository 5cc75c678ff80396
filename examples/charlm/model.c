/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model: forward and backward pass.
 *
 * The same inputs must give the same bits in every process, or a resumed run could not equal an
 * uninterrupted one. One thread makes it so: with several, OpenBLAS would add up in an order that
 * depends on how it splits the work.
 */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cblas.h>

#include "dense.h"
#include "die.h"

/* A unit is dropped when a random byte is below DROP_BELOW: 10 percent of them. */
enum { DROP_BELOW = 26 };
static const float KEPT_SCALE = 256.0F / (256 - DROP_BELOW);

/* Uniform weights whose spread keeps the size of the activations from layer to layer (He, 2015). */
static void initialise(struct variable *kernel, struct rng *rng) {
    float limit = sqrtf(6.0F / (float)kernel->shape[0]);
    size_t size = variable_size(kernel);
    for (size_t i = 0; i < size; i++) {
        kernel->value[i] = rng_uniform(rng, -limit, limit);
    }
}

void model_open(struct model *model, int64_t context, int64_t hidden, int64_t rows,
                struct rng *rng) {
    openblas_set_num_threads(1);
    *model = (struct model){.context = context, .hidden = hidden};
    struct variable *v = model->variables;
    int64_t width = context * EMBEDDING;
    variable_open(&v[EMBEDDING_TABLE], "model/embedding/table", 2, CHARACTERS, EMBEDDING);
    variable_open(&v[DENSE1_KERNEL], "model/dense1/kernel", 2, width, hidden);
    variable_open(&v[DENSE1_BIAS], "model/dense1/bias", 1, hidden, 0);
    variable_open(&v[DENSE2_KERNEL], "model/dense2/kernel", 2, hidden, hidden);
    variable_open(&v[DENSE2_BIAS], "model/dense2/bias", 1, hidden, 0);
    variable_open(&v[OUTPUT_KERNEL], "model/output/kernel", 2, hidden, CHARACTERS);
    variable_open(&v[OUTPUT_BIAS], "model/output/bias", 1, CHARACTERS, 0);
    initialise(&v[EMBEDDING_TABLE], rng);
    initialise(&v[DENSE1_KERNEL], rng);
    initialise(&v[DENSE2_KERNEL], rng);
    initialise(&v[OUTPUT_KERNEL], rng);
    model->embedded = allocate((size_t)(rows * width), sizeof(float));
    model->hidden1 = allocate((size_t)(rows * hidden), sizeof(float));
    model->hidden2 = allocate((size_t)(rows * hidden), sizeof(float));
    model->probabilities = allocate((size_t)rows * CHARACTERS, sizeof(float));
    model->embedded_gradient = allocate((size_t)(rows * width), sizeof(float));
    model->hidden1_gradient = allocate((size_t)(rows * hidden), sizeof(float));
    model->hidden2_gradient = allocate((size_t)(rows * hidden), sizeof(float));
}

void model_close(struct model *model) {
    for (int i = 0; i < VARIABLES; i++) {
        variable_close(&model->variables[i]);
    }
    free(model->embedded);
    free(model->hidden1);
    free(model->hidden2);
    free(model->probabilities);
    free(model->embedded_gradient);
    free(model->hidden1_gradient);
    free(model->hidden2_gradient);
}

static float *row_of(float *table, unsigned char character) {
    return table + (size_t)character * EMBEDDING;
}

/* inputs [count, context] are row numbers of table [CHARACTERS, EMBEDDING]. */
static void embed(const struct model *model, const struct batch *batch) {
    float *table = model->variables[EMBEDDING_TABLE].value;
    int64_t characters = batch->count * batch->context;
    for (int64_t i = 0; i < characters; i++) {
        memcpy(model->embedded + i * EMBEDDING, row_of(table, batch->inputs[i]),
               EMBEDDING * sizeof(float));
    }
}

static void embed_backward(struct model *model, const struct batch *batch) {
    struct variable *table = &model->variables[EMBEDDING_TABLE];
    int64_t characters = batch->count * batch->context;
    memset(table->gradient, 0, variable_size(table) * sizeof(float));
    for (int64_t i = 0; i < characters; i++) {
        float *row = row_of(table->gradient, batch->inputs[i]);
        for (int64_t j = 0; j < EMBEDDING; j++) {
            row[j] += model->embedded_gradient[i * EMBEDDING + j];
        }
    }
}

/* One random word decides for eight units. Kept units are scaled, so that the mean stays. */
static void relu_and_dropout(float *units, int64_t count, struct rng *rng) {
    uint64_t random = 0;
    for (int64_t i = 0; i < count; i++) {
        random = i % 8 == 0 ? rng_next(rng) : random >> 8;
        int kept = (random & 0xff) >= DROP_BELOW;
        units[i] = kept && units[i] > 0.0F ? units[i] * KEPT_SCALE : 0.0F;
    }
}

/* A unit that ReLU or dropout silenced is zero, and passes no gradient on. */
static void relu_and_dropout_backward(const float *units, int64_t count, float *gradient) {
    for (int64_t i = 0; i < count; i++) {
        gradient[i] = units[i] > 0.0F ? gradient[i] * KEPT_SCALE : 0.0F;
    }
}

/* Turns one row of logits into probabilities in place; returns the target's loss. */
static double softmax_cross_entropy(float *row, int target) {
    float largest = row[0];
    for (int i = 1; i < CHARACTERS; i++) {
        largest = row[i] > largest ? row[i] : largest;
    }
    float sum = 0.0F;
    float target_logit = row[target] - largest;
    for (int i = 0; i < CHARACTERS; i++) {
        row[i] = expf(row[i] - largest);
        sum += row[i];
    }
    for (int i = 0; i < CHARACTERS; i++) {
        row[i] /= sum;
    }
    return (double)(logf(sum) - target_logit);
}

double model_forward(struct model *model, const struct batch *batch, struct rng *rng) {
    const struct variable *v = model->variables;
    int64_t rows = batch->count;
    embed(model, batch);
    dense_forward(&v[DENSE1_KERNEL], &v[DENSE1_BIAS], rows, model->embedded, model->hidden1);
    relu_and_dropout(model->hidden1, rows * model->hidden, rng);
    dense_forward(&v[DENSE2_KERNEL], &v[DENSE2_BIAS], rows, model->hidden1, model->hidden2);
    relu_and_dropout(model->hidden2, rows * model->hidden, rng);
    dense_forward(&v[OUTPUT_KERNEL], &v[OUTPUT_BIAS], rows, model->hidden2, model->probabilities);
    double loss = 0.0;
    for (int64_t row = 0; row < rows; row++) {
        loss += softmax_cross_entropy(model->probabilities + row * CHARACTERS, batch->targets[row]);
    }
    return loss / (double)batch->total;
}

void model_backward(struct model *model, const struct batch *batch) {
    struct variable *v = model->variables;
    int64_t rows = batch->count;
    /* The mean loss's derivative by the logits is (probability - is it the target?) / total. */
    float *logits_gradient = model->probabilities;
    for (int64_t row = 0; row < rows; row++) {
        logits_gradient[row * CHARACTERS + batch->targets[row]] -= 1.0F;
    }
    cblas_sscal((blasint)(rows * CHARACTERS), 1.0F / (float)batch->total, logits_gradient, 1);
    dense_backward(&v[OUTPUT_KERNEL], &v[OUTPUT_BIAS], rows, model->hidden2, logits_gradient,
                   model->hidden2_gradient);
    relu_and_dropout_backward(model->hidden2, rows * model->hidden, model->hidden2_gradient);
    dense_backward(&v[DENSE2_KERNEL], &v[DENSE2_BIAS], rows, model->hidden1,
                   model->hidden2_gradient, model->hidden1_gradient);
    relu_and_dropout_backward(model->hidden1, rows * model->hidden, model->hidden1_gradient);
    dense_backward(&v[DENSE1_KERNEL], &v[DENSE1_BIAS], rows, model->embedded,
                   model->hidden1_gradient, model->embedded_gradient);
    embed_backward(model, batch);
}

uint64_t model_digest(const struct model *model) {
    uint64_t digest = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < VARIABLES; i++) {
        const unsigned char *bytes = (const unsigned char *)model->variables[i].value;
        size_t size = variable_size(&model->variables[i]) * sizeof(float);
        for (size_t j = 0; j < size; j++) {
            digest = (digest ^ bytes[j]) * UINT64_C(0x100000001b3);
        }
    }
    return digest;
}
