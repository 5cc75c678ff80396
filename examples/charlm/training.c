/* SPDX-License-Identifier: Apache-2.0 */
/* training: puts the parts together. */
#include "training.h"

#include <pawl/group.h>

void training_open(struct training *training, const struct training_shape *shape,
                   const struct text *text) {
    training->step = 0;
    struct rng rng; /* the same on every rank */
    rng_seed(&rng, shape->seed);
    batcher_open(&training->batcher, text, shape->context, shape->batch_size, shape->keep_remainder,
                 shape->place, rng_next(&rng));
    model_open(&training->model, shape->context, shape->hidden,
               part_of(shape->batch_size, shape->place).count, &rng);
    optimizer_open(&training->optimizer, shape->optimizer, training->model.variables, VARIABLES,
                   shape->learning_rate, shape->place);
    training_reseed(training, shape->seed, 0, shape->place);
}

void training_reseed(struct training *training, uint64_t seed, int64_t step, struct place place) {
    struct rng rng;
    rng_seed(&rng, seed);
    const uint64_t of_step = rng_next(&rng) + (uint64_t)step * PAWL_MAX_RANKS;
    rng_seed(&training->rng, of_step + (uint64_t)place.rank);
}

void training_close(struct training *training) {
    optimizer_close(&training->optimizer);
    model_close(&training->model);
    batcher_close(&training->batcher);
}
