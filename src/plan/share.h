/* SPDX-License-Identifier: Apache-2.0 */
/* share: which part of each replicated box this rank writes. */
#ifndef PLAN_SHARE_H
#define PLAN_SHARE_H

#include "plan/plan.h"

/* PAWL_EUSAGE for an entry with more replicas than there are ranks. */
pawl_status share_check(const state_entry *e, int world_size, pawl_error *err) PAWL_MUST_CHECK;

/* Is every element of it on several ranks? Not where there is one rank only. */
bool share_is_shared(const state_entry *e, int world_size);

/* One for each box of each entry that is shared, in the order of the snapshot: what this rank
 * writes of it, or NULL. */
typedef struct share_parts {
    const state_box **items;
    size_t count;
} share_parts;
/* Parts that are no box of an entry live in `memory`. All entries passed share_check. */
pawl_status share_make(const state_snapshot *snapshot, int rank, int world_size, arena *memory,
                       share_parts *out, pawl_error *err) PAWL_MUST_CHECK;
void share_free(share_parts *parts);

#endif
