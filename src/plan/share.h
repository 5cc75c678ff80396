/* SPDX-License-Identifier: Apache-2.0 */
/* share: which part of the replicated boxes this rank writes. */
#ifndef PLAN_SHARE_H
#define PLAN_SHARE_H

#include "plan/plan.h"

/* Is every element of it on several ranks? Not where there is one rank only. */
bool share_is_shared(const state_entry *e, int world_size);

/* One for each box of each entry that is shared, in the order of the snapshot: what this rank
 * writes of it, or NULL. */
typedef struct share_parts {
    const state_box **items;
    size_t count;
} share_parts;
/* Parts that are no box of an entry live in `memory`. PAWL_EUSAGE for more replicas than ranks. */
pawl_status share_make(const state_snapshot *snapshot, int rank, int world_size, arena *memory,
                       share_parts *out, pawl_error *err) PAWL_MUST_CHECK;
void share_free(share_parts *parts);

#endif
