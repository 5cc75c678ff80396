/* SPDX-License-Identifier: Apache-2.0 */
/* Copy on fence: the trainer's thread helps until nothing of a save is left in its memory. */
#include "engine/save.h"

/* The budget with which this fence would not have waited: a buffer for each chunk that is left.
 * With a larger budget buffers may be larger, too. */
static uint64_t budget_wanted(const engine *e) {
    uint64_t left = (e->chunks - e->chunks_written) * e->buffer_bytes;
    size_t buffer_bytes = engine_buffer_size(&e->options, left);
    if (buffer_bytes <= e->buffer_bytes) {
        return left;
    }
    return (left / buffer_bytes + e->job.layout->file_count) * buffer_bytes;
}

static void begin_fence(engine *e) {
    if (!e->fenced) {
        e->fenced = true;
        e->stats.budget_wanted_bytes = budget_wanted(e);
        uint64_t wanted = e->stats.budget_wanted_bytes / e->buffer_bytes;
        wanted = wanted < e->buffer_limit ? wanted : e->buffer_limit;
        e->wanted_buffers = wanted > e->wanted_buffers ? (size_t)wanted : e->wanted_buffers;
    }
    e->fencing = true;
    engine_announce(e); /* the engine's thread may fill further buffers */
}

/* False when the deadline passed. */
static bool wait_for_buffer(engine *e, double timeout_s, uint64_t deadline_ns) {
    if (!(timeout_s > 0)) {
        return false;
    }
    uint64_t before = engine_now(e);
    bool full = engine_chunk_left(e); /* or a chunk is being copied by the engine's thread */
    bool in_time = monitor_wait_until(&e->monitor, deadline_ns);
    uint64_t waited = engine_now(e) - before;
    e->fence_wait_ns += full ? waited : 0;
    e->fence_copy_ns += full ? 0 : waited;
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

/* False when the deadline passed first. */
static bool copy_all(engine *e, double timeout_s, uint64_t deadline_ns) {
    for (engine_release_if_read(e); !e->released; engine_release_if_read(e)) {
        bool late = timeout_s > 0 && engine_now(e) >= deadline_ns;
        if (!late && (copy_one(e) || wait_for_buffer(e, timeout_s, deadline_ns))) {
            continue;
        }
        if (!e->released) {
            return false;
        }
    }
    return true;
}

pawl_status engine_fence(engine *e, double timeout_s, pawl_error *err) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    if (!e->active || e->released) {
        return PAWL_OK;
    }
    uint64_t begun_ns = engine_now(e);
    begin_fence(e);
    bool whole = copy_all(e, timeout_s, engine_deadline(e, timeout_s));
    e->fencing = false;
    if (!whole) {
        return engine_timeout(e, engine_seconds(engine_now(e) - begun_ns),
                              "waiting until the save lets go of the tensors", err);
    }
    return PAWL_OK;
}

bool engine_fenced(engine *e) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    if (e->active && !e->released) {
        engine_release_if_read(e);
    }
    return !e->active || e->released;
}
