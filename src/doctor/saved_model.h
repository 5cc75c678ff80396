/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor/saved_model: what keeps a SavedModel of TensorFlow from running on an accelerator, whose
 * programs XLA compiles: dimensions that are unknown (J03), ops and types without a kernel (J07).
 */
#ifndef DOCTOR_SAVED_MODEL_H
#define DOCTOR_SAVED_MODEL_H

#include "doctor/examination.h"

/* Is the path the directory of a SavedModel, or its saved_model.pb? Then it has been looked at, by
 * reading alone. */
bool doctor_saved_model(examination *x);

/* The findings of a model that was read already. */
struct saved_model;
pawl_status doctor_judge_model(examination *x, const struct saved_model *model, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
