/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry: the inside of a state_entry: its counters and, for tensors, the memory of each box.
 *
 * An entry is one allocation, with its boxes, numbers, texts and value behind it, so a million of
 * them stay affordable. It is constant but for its references, which any thread may count, and
 * what the state keeps in it.
 */
#ifndef STATE_ENTRY_H
#define STATE_ENTRY_H

#include "state/state.h"

#include <stdatomic.h>

typedef struct held_entry {
    state_entry seen; /* first: a state_entry is an entry */
    atomic_uint references;
    /* Of the state's thread: */
    uint64_t number; /* which of the entries that were added to its state; set when it is added */
    struct held_entry *below[2]; /* in the state's tree (tree.c): names before, names after */
    int height;                  /* there */
} held_entry;

/* The entry that is seen so. */
static inline held_entry *entry_held(const state_entry *seen) {
    return (held_entry *)(uintptr_t)seen;
}

/* Both make an entry with one reference; the tensor or value has passed its check. NULL: no
 * memory. */
held_entry *entry_of_tensor(const pawl_tensor *tensor);
/* As state_set_value, whose checks are value_check. */
held_entry *entry_of_value(const char *name, pawl_kind kind, pawl_role role, bool per_rank,
                           const void *bytes, size_t n);
held_entry *entry_hold(const state_entry *e);
void entry_let_go(const state_entry *e);

/* S15, what can be checked of one entry alone: PAWL_EUSAGE naming it. tensor_check.c,
 * value_check.c. `attempt`: "cannot add the tensor". */
pawl_status tensor_check(const pawl_tensor *tensor, const char *attempt, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status value_check(const char *name, pawl_kind kind, pawl_role role, bool per_rank,
                        const void *bytes, size_t n, pawl_error *err) PAWL_MUST_CHECK;
/* Name rules for both. */
pawl_status entry_name_check(const char *name, const char *attempt, pawl_error *err)
    PAWL_MUST_CHECK;

/* Strides of one box, in bytes: strides_check.c. The box is not empty, and its extents are
 * checked. */
pawl_status strides_check(pawl_dtype dtype, int ndim, const int64_t *extent, const int64_t *strides,
                          const void *data, pawl_error *err) PAWL_MUST_CHECK;
/* The same for memory of a provider, whose addresses nobody knows; its runs are long, or few. */
pawl_status provided_strides_check(pawl_dtype dtype, int ndim, const int64_t *extent,
                                   const int64_t *strides, pawl_error *err) PAWL_MUST_CHECK;
/* Are they those of row-major, dense memory? */
bool strides_are_dense(pawl_dtype dtype, int ndim, const int64_t *extent, const int64_t *strides);

#endif
