/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry: the inside of a state_entry: its counters and, for tensors, the memory of each box.
 *
 * An entry is one allocation, with its boxes, numbers, texts and value behind it, so a million of
 * them stay affordable. It is constant but for its counters, which any thread may change.
 */
#ifndef STATE_ENTRY_H
#define STATE_ENTRY_H

#include "state/state.h"

#include <stdatomic.h>

typedef struct held_entry {
    state_entry seen; /* first: a state_entry is an entry */
    atomic_uint references;
    atomic_uint flights; /* snapshots in flight that read this entry's memory */
    int64_t flight_step; /* of the latest of them; of the state's thread */
} held_entry;

/* Both make an entry with one reference; the tensor or value has passed its check. NULL: no
 * memory. */
held_entry *entry_of_tensor(const pawl_tensor *tensor);
/* As state_set_value, whose checks are value_check. */
held_entry *entry_of_value(const char *name, pawl_kind kind, pawl_role role, bool per_rank,
                           const void *bytes, size_t n);
held_entry *entry_hold(const state_entry *e);
void entry_let_go(const state_entry *e);

/* S15, what can be checked of one entry alone: PAWL_EUSAGE naming it. tensor_check.c,
 * value_check.c. */
pawl_status tensor_check(const pawl_tensor *tensor, pawl_error *err) PAWL_MUST_CHECK;
pawl_status value_check(const char *name, pawl_kind kind, pawl_role role, const void *bytes,
                        size_t n, pawl_error *err) PAWL_MUST_CHECK;
/* Name rules for both; `what` is "tensor" or "value". */
pawl_status entry_name_check(const char *name, const char *what, pawl_error *err) PAWL_MUST_CHECK;

/* Strides of one box, in bytes: strides_check.c. The box is not empty, and its extents are
 * checked. */
pawl_status strides_check(pawl_dtype dtype, int ndim, const int64_t *extent, const int64_t *strides,
                          const void *data, pawl_error *err) PAWL_MUST_CHECK;
/* Are they those of row-major, dense memory? */
bool strides_are_dense(pawl_dtype dtype, int ndim, const int64_t *extent, const int64_t *strides);

#endif
