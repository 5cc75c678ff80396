/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer: the classes, and the step that they share. */
#include "optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "die.h"

enum { BETA1 = 2, BETA2 = 3, EPSILON = 4 }; /* AdamW's own hyperparameters */
enum { MOMENTUM = 2 };                      /* SGD's own */

static double value_of(const struct optimizer *optimizer, size_t hyperparameter) {
    return optimizer->hyperparameters[hyperparameter].value;
}

/* Only matrices decay: a bias has no reason to be near zero. */
static float decay_of(const struct optimizer *optimizer, const struct variable *variable) {
    double rate = value_of(optimizer, LEARNING_RATE) * value_of(optimizer, WEIGHT_DECAY);
    return variable->ndim == 2 ? (float)(1.0 - rate) : 1.0F;
}

/* Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019, algorithm 2. */
static void update_adamw(const struct optimizer *optimizer, int64_t step, size_t variable,
                         const float *gradient) {
    double beta1 = value_of(optimizer, BETA1);
    double beta2 = value_of(optimizer, BETA2);
    double unbiased1 = 1.0 - pow(beta1, (double)step);
    double unbiased2 = 1.0 - pow(beta2, (double)step);
    const float keep1 = (float)beta1, add1 = (float)(1.0 - beta1);
    const float keep2 = (float)beta2, add2 = (float)(1.0 - beta2);
    const float rate = (float)(value_of(optimizer, LEARNING_RATE) / unbiased1);
    const float root_scale = (float)(1.0 / sqrt(unbiased2));
    const float epsilon = (float)value_of(optimizer, EPSILON);
    const float decay = decay_of(optimizer, &optimizer->variables[variable]);
    const struct shard *shard = &optimizer->shards[variable];
    float *restrict value = optimizer->variables[variable].value + shard->first;
    float *restrict m = optimizer->slots[0][variable];
    float *restrict v = optimizer->slots[1][variable];
    for (size_t i = 0; i < shard->size; i++) {
        m[i] = keep1 * m[i] + add1 * gradient[i];
        v[i] = keep2 * v[i] + add2 * gradient[i] * gradient[i];
        value[i] = decay * value[i] - rate * m[i] / (sqrtf(v[i]) * root_scale + epsilon);
    }
}

static void update_sgd(const struct optimizer *optimizer, int64_t step, size_t variable,
                       const float *gradient) {
    (void)step;
    const float momentum = (float)value_of(optimizer, MOMENTUM);
    const float rate = (float)value_of(optimizer, LEARNING_RATE);
    const float decay = decay_of(optimizer, &optimizer->variables[variable]);
    const struct shard *shard = &optimizer->shards[variable];
    float *restrict value = optimizer->variables[variable].value + shard->first;
    float *restrict velocity = optimizer->slots[0][variable];
    for (size_t i = 0; i < shard->size; i++) {
        velocity[i] = momentum * velocity[i] + gradient[i];
        value[i] = decay * value[i] - rate * velocity[i];
    }
}

static const struct optimizer_class CLASSES[] = {
    {.option = "adamw",
     .name = "AdamW",
     .slot_count = 2,
     .slots = {"adam/m", "adam/v"},
     .hyperparameter_count = 5,
     .hyperparameters = {[LEARNING_RATE] = {"optimizer/learning_rate", 0.001},
                         [WEIGHT_DECAY] = {"optimizer/weight_decay", 0.01},
                         [BETA1] = {"optimizer/beta1", 0.9},
                         [BETA2] = {"optimizer/beta2", 0.999},
                         [EPSILON] = {"optimizer/epsilon", 1e-8}},
     .update = update_adamw},
    {.option = "sgd",
     .name = "SGD",
     .slot_count = 1,
     .slots = {"sgd/momentum"},
     .hyperparameter_count = 3,
     .hyperparameters = {[LEARNING_RATE] = {"optimizer/learning_rate", 0.05},
                         [WEIGHT_DECAY] = {"optimizer/weight_decay", 0.0001},
                         [MOMENTUM] = {"optimizer/momentum", 0.9}},
     .update = update_sgd},
};

const struct optimizer_class *optimizer_find_class(const char *option) {
    for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++) {
        if (strcmp(option, CLASSES[i].option) == 0) {
            return &CLASSES[i];
        }
    }
    return NULL;
}

void optimizer_open(struct optimizer *optimizer, const struct optimizer_class *class,
                    const struct variable *variables, size_t count, double learning_rate,
                    struct place place) {
    if (count > MAX_VARIABLES) {
        die(1, "the optimizer takes at most %d variables, not %zu", MAX_VARIABLES, count);
    }
    *optimizer =
        (struct optimizer){.class = class, .variables = variables, .variable_count = count};
    memcpy(optimizer->hyperparameters, class->hyperparameters, sizeof class->hyperparameters);
    if (learning_rate > 0.0) {
        optimizer->hyperparameters[LEARNING_RATE].value = learning_rate;
    }
    for (size_t i = 0; i < count; i++) {
        optimizer->shards[i] = shard_of(&variables[i], place);
        for (size_t slot = 0; slot < class->slot_count; slot++) {
            optimizer->slots[slot][i] = allocate(optimizer->shards[i].size, sizeof(float));
        }
    }
}

void optimizer_close(struct optimizer *optimizer) {
    for (size_t slot = 0; slot < MAX_SLOTS; slot++) {
        for (size_t i = 0; i < MAX_VARIABLES; i++) {
            free(optimizer->slots[slot][i]);
        }
    }
}

/* The rows that are updated here, of the variable's `elements`. */
static pawl_array rows_of(const struct optimizer *optimizer, size_t variable,
                          const float *elements) {
    const struct variable *of = &optimizer->variables[variable];
    const struct shard *shard = &optimizer->shards[variable];
    return (pawl_array){.name = of->name,
                        .dtype = PAWL_F32,
                        .ndim = of->ndim,
                        .shape = shard->shape,
                        .data = elements + shard->first};
}

pawl_array optimizer_gradient(const struct optimizer *optimizer, size_t variable) {
    return rows_of(optimizer, variable, optimizer->variables[variable].gradient);
}

pawl_status optimizer_apply_gradients(struct optimizer *optimizer, int64_t step,
                                      const pawl_array *gradients, size_t count, pawl_error *err) {
    pawl_array variables[MAX_VARIABLES];
    for (size_t i = 0; i < optimizer->variable_count; i++) {
        variables[i] = rows_of(optimizer, i, optimizer->variables[i].value);
    }
    pawl_status status = pawl_check_gradients(variables, optimizer->variable_count, gradients,
                                              count, sizeof *variables, err);
    if (status != PAWL_OK) {
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        optimizer->class->update(optimizer, step, i, gradients[i].data);
    }
    return PAWL_OK;
}
