/* SPDX-License-Identifier: Apache-2.0 */
/* training: puts the parts together. */
#include "training.h"

void training_open(struct training *training, const struct training_shape *shape,
                   const struct text *text) {
    training->step = 0;
    rng_seed(&training->rng, shape->seed);
    batcher_open(&training->batcher, text, shape->context, shape->batch_size, shape->keep_remainder,
                 &training->rng);
    model_open(&training->model, shape->context, shape->hidden, shape->batch_size, &training->rng);
    optimizer_open(&training->optimizer, shape->optimizer, training->model.variables, VARIABLES,
                   shape->learning_rate);
}

void training_close(struct training *training) {
    optimizer_close(&training->optimizer);
    model_close(&training->model);
    batcher_close(&training->batcher);
}
