/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the layout of a save for the next one. */
#include "plan/plan.h"

static void take_from(plan_kept *kept, plan_layout **layout, state_snapshot **snapshot) {
    *layout = kept->layout;
    *snapshot = kept->snapshot;
    kept->layout = NULL;
    kept->snapshot = NULL;
}

static bool is_of(const plan_layout *layout, const plan_layout_options *options) {
    return layout != NULL && layout->rank == options->rank &&
           layout->world_size == options->world_size;
}

pawl_status plan_kept_make(plan_kept *kept, const state_snapshot *snapshot,
                           const plan_layout_options *options, plan_layout **out, pawl_error *err) {
    plan_layout *layout;
    state_snapshot *earlier;
    take_from(kept, &layout, &earlier);
    bool renewed = is_of(layout, options) && plan_layout_renew(layout, snapshot, options->tag);
    state_snapshot_free(earlier);
    if (renewed) {
        kept->reuses++;
        *out = layout;
        return PAWL_OK;
    }
    plan_layout_free(layout);
    return plan_layout_make(snapshot, options, out, err);
}

void plan_kept_keep(plan_kept *kept, plan_layout *layout, state_snapshot *snapshot) {
    plan_kept_free(kept);
    if (layout == NULL) {
        state_snapshot_free(snapshot);
        return;
    }
    state_snapshot_let_go(snapshot);
    state_snapshot_drop_values(snapshot);
    kept->layout = layout;
    kept->snapshot = snapshot;
}

void plan_kept_free(plan_kept *kept) {
    plan_layout *layout;
    state_snapshot *snapshot;
    take_from(kept, &layout, &snapshot);
    plan_layout_free(layout);
    state_snapshot_free(snapshot);
}
