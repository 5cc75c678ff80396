/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the simulated jobs train: a rank's part of a state whose every byte follows from the step
 * and from the job that came to it, so that bytes of two saves can be told apart.
 */
#ifndef SIMULATION_TRAINING_H
#define SIMULATION_TRAINING_H

#include "state/state.h"

/* Sizes of the global tensors; the same for all jobs of a run. */
typedef struct model {
    int64_t rows, columns;
} model;

typedef struct training {
    pawl_state *state;
    int rank, world_size;
    model model;
    uint32_t *by_row;    /* [rows, 3], split among the ranks by rows */
    uint32_t *by_column; /* [2, columns], split by columns */
    uint32_t shared[7];  /* replicated */
    uint32_t random[4];  /* each rank's own */
} training;

/* `odd`: with another shape of what is replicated. */
void training_make(training *t, const model *m, int rank, int world_size, bool odd);
void training_free(training *t);
/* What training makes of it: memory and values are those of `step` as `job` computes it. */
void training_set(training *t, int64_t step, int64_t job);
/* Gives this rank alone another value of what all share. */
void training_differ(training *t);
/* Which step and job the state is of, after a restore; false: of none, or of several. */
bool training_look(const training *t, int64_t *step, int64_t *job);

#endif
