/* SPDX-License-Identifier: Apache-2.0 */
/*
 * weights: what the trainers of the powerloss rig save. Every number is a function of its place,
 * the step and the version of the save, so that whoever restores it, on however many ranks, can
 * tell which save it is of, to the last bit.
 */
#ifndef POWERLOSS_WEIGHTS_H
#define POWERLOSS_WEIGHTS_H

#include <pawl/pawl.h>

#include <stdbool.h>

#define WEIGHTS_ROWS 12 /* of the sharded tensor: as many for each of 1, 2, 3, 4 ranks */

typedef struct weights {
    pawl_state *state;
    int rank, world_size;
    int64_t columns;
    uint64_t *rows;    /* this rank's rows of the sharded tensor */
    uint64_t *replica; /* one row that all ranks hold */
} weights;

/* Holds step 0, version 0. What fails here ends the process. */
void weights_make(weights *w, int rank, int world_size, int64_t columns);
void weights_free(weights *w);
void weights_fill(weights *w, int64_t step, int64_t version);
/* The version whose numbers these are, of the step in `step`; -1: they are of none. */
int64_t weights_version(const weights *w, int64_t *step);

#endif
