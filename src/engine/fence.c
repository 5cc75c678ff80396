/* SPDX-License-Identifier: Apache-2.0 */
/* Copy on fence: the trainer's thread helps until nothing of a save is left in its memory. */
#include "engine/save.h"

/* What a budget would have had to hold for this fence not to wait: whole buffers, one a chunk. */
static void note_wanted(engine *e) {
    if (e->fenced) {
        return;
    }
    size_t buffer_bytes = e->options.buffer_bytes;
    e->fenced = true;
    e->stats.budget_wanted_bytes = (e->chunks - e->written / buffer_bytes) * buffer_bytes;
}

/* False when the deadline passed. */
static bool wait_for_buffer(engine *e, double deadline_s, uint64_t deadline_ns) {
    if (!(deadline_s > 0)) {
        return false;
    }
    uint64_t before = engine_now(e);
    bool full = engine_chunk_left(e); /* or a chunk is being copied by the engine's thread */
    bool in_time = monitor_wait_until(&e->monitor, deadline_ns);
    e->fence_wait_ns += full ? engine_now(e) - before : 0;
    return in_time;
}

/* False when there was nothing to copy, or no buffer to copy into. */
static bool copy_one(engine *e) {
    uint64_t before = engine_now(e);
    if (!engine_fill_one(e)) {
        return false;
    }
    e->fence_copy_ns += engine_now(e) - before;
    return true;
}

pawl_status engine_fence(engine *e, double deadline_s, pawl_error *err) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    if (!e->active) {
        return PAWL_OK;
    }
    note_wanted(e);
    uint64_t begun_ns = engine_now(e);
    uint64_t deadline_ns = engine_deadline(e, deadline_s);
    while (!e->released) {
        bool late = deadline_s > 0 && engine_now(e) >= deadline_ns;
        if (!late && (copy_one(e) || wait_for_buffer(e, deadline_s, deadline_ns))) {
            continue;
        }
        if (!e->released) {
            double waited_s = (double)(engine_now(e) - begun_ns) / 1e9;
            return engine_timeout(e, waited_s, "waiting until the save lets go of the tensors",
                                  err);
        }
    }
    return PAWL_OK;
}
