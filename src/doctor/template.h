/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor/template: a model as names, shapes and types, without memory: the state that a restore
 * into it would be asked for.
 *
 * As JSON, it is a list of entries, an object whose member "entries" is one (as `pawl show --json`
 * prints), or an object of entries by their names:
 *
 *   {"model/dense/kernel": {"shape": [64, 10], "dtype": "F32"},
 *    "adam/m": {"shape": [64, 10], "dtype": "float32", "slot_of": "model/dense/kernel",
 *               "slot": "m"},
 *    "step": {"kind": "int64", "role": "step", "value": 0}}
 */
#ifndef DOCTOR_TEMPLATE_H
#define DOCTOR_TEMPLATE_H

#include "checkpoint/checkpoint.h"
#include "state/state.h"

#define TEMPLATE_MAX_BYTES (64u << 20)

/* PAWL_EDAMAGED: it is no JSON; PAWL_EUSAGE: it is no template; with the position. */
pawl_status template_decode(const void *text, size_t n, pawl_state *to, pawl_error *err)
    PAWL_MUST_CHECK;
/* *left_out: tensors of types that are no pawl_dtype. */
pawl_status template_of_checkpoint(pawl_checkpoint *c, pawl_state *to, uint64_t *left_out,
                                   pawl_error *err) PAWL_MUST_CHECK;

#endif
