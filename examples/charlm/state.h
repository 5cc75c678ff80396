/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state: tells pawl what a checkpoint of this training holds, and takes it back after a restore.
 *
 *     model/dense1/kernel              tensor, role model
 *                                      every rank has all of it: it is written once
 *     optimizer/adam/m/dense1/kernel   tensor, role slot: "adam/m" of model/dense1/kernel;
 *                                      a box of it on each rank
 *     optimizer/class                  string: a restore tells when the optimizer is another one
 *     optimizer/learning_rate, ...     hyperparameters
 *     training/step                    role step
 *     random/state                     role rng; each rank has its own
 *     data/epoch, data/position, data/shuffle_seed
 *                                      role data position
 *     data/batch_signature             JSON: a restore tells when batches are not what they were
 *
 * Names, shapes and values are those of the whole, and the same on every rank. Only boxes and what
 * is "each rank's own" tell of the number of ranks, so another number of them can restore it.
 */
#ifndef CHARLM_STATE_H
#define CHARLM_STATE_H

#include <pawl/pawl.h>

#include "training.h"

/* Adds every tensor, whose memory stays the training's, and sets every value. Done once. */
pawl_status state_describe(pawl_state *state, const struct training *training, pawl_error *err)
    PAWL_MUST_CHECK;

/* Sets the values that change from step to step. Done before every save: pawl copies values. */
pawl_status state_refresh(pawl_state *state, const struct training *training, pawl_error *err)
    PAWL_MUST_CHECK;

/* After a restore, which wrote the tensors: takes the values back and moves the batcher. */
pawl_status state_take_back(const pawl_state *state, struct training *training, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
