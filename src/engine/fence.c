/* SPDX-License-Identifier: Apache-2.0 */
/* Copy on fence: the trainer's thread helps until nothing of a save is left in its memory. */
#include "engine/save.h"

#include <string.h>

#define MOMENT_S 0.1

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

static void use_budget(engine *e, uint64_t wanted_bytes) {
    e->fenced = true;
    if (wanted_bytes > e->stats.budget_wanted_bytes) {
        e->stats.budget_wanted_bytes = wanted_bytes;
    }
    uint64_t wanted = wanted_bytes / e->buffer_bytes;
    wanted = wanted < e->buffer_limit ? wanted : e->buffer_limit;
    e->wanted_buffers = wanted > e->wanted_buffers ? (size_t)wanted : e->wanted_buffers;
}

static void begin_fence(engine *e) {
    if (!e->fenced) {
        use_budget(e, budget_wanted(e));
    }
    e->fencing = true;
    engine_announce(e); /* the engine's thread may fill further buffers */
}

/* False when the deadline passed. */
static bool wait_for_buffer(engine *e, uint64_t deadline_ns, const interrupt *stop) {
    uint64_t before = engine_now(e);
    bool full = engine_chunk_left(e); /* or a chunk is being copied by the engine's thread */
    bool in_time = engine_wait_a_while(e, deadline_ns, stop);
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
        bool waits = timeout_s > 0;
        bool late = waits && engine_now(e) >= deadline_ns;
        if (!late && (copy_one(e) || (waits && wait_for_buffer(e, deadline_ns, NULL)))) {
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

/* ---- tensors that are copied before the save is under way ---- */

/* A buffer for each of their chunks that is not written yet. */
static uint64_t first_bytes(const engine *e) {
    uint64_t chunks = 0;
    for (size_t i = 0; i < e->job.layout->copied_files; i++) {
        chunks += e->parts[i].unwritten;
    }
    return chunks * e->buffer_bytes;
}

/* Is there a chunk of them that nobody has begun to copy? */
static bool first_left(engine *e) {
    return !e->stopped && !e->cancelled && engine_chunk_left(e) &&
           e->next_file < e->job.layout->copied_files;
}

/* Without time to wait, what the budget has room for is copied all the same. The engine's thread
 * may then be copying a chunk: out of host memory that always ends, and is waited for. What else is
 * under way, a provider's copy or the end of a save that fails, gets MOMENT_S. */
static pawl_status copy_first(engine *e, double timeout_s, interrupt *stop, pawl_error *err) {
    static const char doing[] = "copying tensors";
    const bool waits = timeout_s > 0;
    uint64_t begun_ns = engine_now(e);
    uint64_t deadline_ns = engine_deadline(e, waits ? timeout_s : MOMENT_S);
    while (e->unfilled_first > 0 && !e->released) {
        bool late = engine_now(e) >= deadline_ns;
        bool left = first_left(e);
        if (e->hung) {
            return engine_hang_story(e, err);
        }
        bool copied = left && !(waits && late) && copy_one(e);
        bool ends = e->copying == 0 && !e->stopped && !e->cancelled;
        if (!copied && (waits ? late : left || (late && !ends))) {
            double waited_s = waits ? engine_seconds(engine_now(e) - begun_ns) : 0;
            return engine_timeout(e, waited_s, doing, err);
        }
        if (!copied) {
            (void)wait_for_buffer(e, waits ? deadline_ns : engine_deadline(e, MOMENT_S), stop);
        }
        if (engine_interrupted(e, stop)) {
            return engine_interrupted_while(e, doing, err);
        }
    }
    return PAWL_OK;
}

pawl_status engine_copy_first(engine *e, double timeout_s, interrupt *stop, pawl_error *err) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    if (!e->active || e->released || e->unfilled_first == 0) {
        return PAWL_OK;
    }
    use_budget(e, first_bytes(e));
    e->fencing = true;
    pawl_status status = copy_first(e, timeout_s, stop, err);
    e->fencing = false;
    e->fenced = false; /* for the rest of the save a fence is still to come */
    return status;
}

bool engine_fenced(engine *e) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    if (e->active && !e->released) {
        engine_release_if_read(e);
    }
    return !e->active || e->released;
}

/* Before that byte, in the order of the files, every chunk is filled. Monitor held. */
static void filled_up_to(const engine *e, size_t *file, uint64_t *at) {
    *file = e->next_file;
    *at = e->next_at;
    for (const engine_buffer *b = e->newest; e->filling > 0 && b != NULL; b = b->older) {
        if (b->filling && (b->file < *file || (b->file == *file && b->at < *at))) {
            *file = b->file;
            *at = b->at;
        }
    }
}

void engine_fenced_entries(engine *e, const char *const *names, size_t count, uint8_t *fenced) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    bool all = !e->active || e->released;
    bool none = !all && (e->job.read_elsewhere || e->readers > 0);
    if (all || none) {
        memset(fenced, all, count);
        return;
    }
    size_t file;
    uint64_t at;
    filled_up_to(e, &file, &at);
    for (size_t i = 0; i < count; i++) {
        fenced[i] = plan_layout_precedes(e->job.layout, names[i], file, at);
    }
}
