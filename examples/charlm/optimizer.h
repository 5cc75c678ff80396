/* SPDX-License-Identifier: Apache-2.0 */
/*
 * optimizer: changes the variables along their gradients; AdamW or SGD with momentum.
 *
 * An optimizer has a class, hyperparameters and, per variable, slots of the variable's shape. All
 * of it is part of the checkpoint: without its slots, Adam would start again with wrong step sizes.
 *
 * Of many ranks each updates its own rows of every variable, and has the slots of these rows alone.
 */
#ifndef CHARLM_OPTIMIZER_H
#define CHARLM_OPTIMIZER_H

#include <pawl/check.h>

#include "shard.h"
#include "variable.h"

enum { MAX_SLOTS = 2, MAX_HYPERPARAMETERS = 5, MAX_VARIABLES = 16 };

/* Hyperparameters that every class has, at these places. The further ones are the class's own. */
enum { LEARNING_RATE = 0, WEIGHT_DECAY = 1 };

struct hyperparameter {
    const char *name; /* "optimizer/learning_rate" */
    double value;
};

struct optimizer;

/* `step` counts from 1. `variable` is the number of the variable in the optimizer, `gradient` that
 * of its rows here. */
typedef void (*optimizer_update)(const struct optimizer *optimizer, int64_t step, size_t variable,
                                 const float *gradient);

struct optimizer_class {
    const char *option; /* on the command line: "adamw" */
    const char *name;   /* in the checkpoint: "AdamW" */
    size_t slot_count;
    const char *slots[MAX_SLOTS]; /* "adam/m" */
    size_t hyperparameter_count;
    struct hyperparameter hyperparameters[MAX_HYPERPARAMETERS]; /* with their defaults */
    optimizer_update update;
};

struct optimizer {
    const struct optimizer_class *class;
    struct hyperparameter hyperparameters[MAX_HYPERPARAMETERS];
    const struct variable *variables; /* the model's */
    size_t variable_count;
    struct shard shards[MAX_VARIABLES]; /* the rows of each that are updated here */
    float *slots[MAX_SLOTS][MAX_VARIABLES];
};

/* NULL when there is no such class. */
const struct optimizer_class *optimizer_find_class(const char *option);

/* `learning_rate` 0 takes the class's default. */
void optimizer_open(struct optimizer *optimizer, const struct optimizer_class *class,
                    const struct variable *variables, size_t count, double learning_rate,
                    struct place place);
void optimizer_close(struct optimizer *optimizer);

/* The gradient of the rows of a variable that are updated here, as optimizer_apply_gradients takes
 * it. Its shape lives in the optimizer. */
pawl_array optimizer_gradient(const struct optimizer *optimizer, size_t variable);

/*
 * One training step, with the gradients of the rows that are updated here (optimizer_gradient).
 * First checks that they fit the variables and are finite (failure J05): PAWL_EMISMATCH names the
 * variable and both sides, and nothing was changed.
 */
pawl_status optimizer_apply_gradients(struct optimizer *optimizer, int64_t step,
                                      const pawl_array *gradients, size_t count, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
