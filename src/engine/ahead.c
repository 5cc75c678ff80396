/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes buffers ready ahead of a fence, on a thread of its own. The system gives new memory several
 * times more slowly than a fence copies, so a fence should find its buffers with all their pages.
 *
 * How many: the most that a fence has wanted so far. In the first large save that is not known yet,
 * and a fence may come at any time: with `ready_first` there are to be enough for what is still to
 * be written. If none came until the save has let go of the tensors, what was made for it is given
 * back; and until it is used the system may take it, should other memory run short.
 *
 * Where a provider of memory allocates the buffers nothing is made ready: only it knows how.
 */
#include "engine/save.h"

/* ---- how many ---- */

/* Monitor held. */
static bool is_guess(const engine *e) {
    return e->options.ready_first && e->active && !e->released && !e->wants_known;
}

/* Monitor held: how many buffers there should be now, within the budget. */
static size_t buffers_wanted(const engine *e) {
    if (e->slab == NULL) { /* no large save yet */
        return 0;
    }
    if (e->options.make_ready) {
        return e->buffer_limit;
    }
    if (!is_guess(e)) {
        return e->wanted_buffers;
    }
    uint64_t left = e->chunks - e->chunks_written;
    return left < e->buffer_limit ? (size_t)left : e->buffer_limit;
}

/* ---- the thread ---- */

/* Monitor held, but not while the memory is freed. False when there are none too many. */
static bool give_back_one(engine *e) {
    size_t wanted = buffers_wanted(e);
    engine_buffer *b =
        engine_buffer_surplus(e, wanted > e->slab_buffers ? wanted : e->slab_buffers);
    if (b == NULL) {
        return false;
    }
    monitor_leave(&e->monitor);
    engine_buffer_free(e, b);
    monitor_enter(&e->monitor);
    return true;
}

/* NULL: nothing more is to be done, and the thread has ended for engine_ahead_begin. */
static engine_buffer *next_buffer(engine *e) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    while (!atomic_load(&e->ahead_ends)) {
        engine_buffer *b = engine_buffer_unready(e, buffers_wanted(e));
        if (b != NULL) {
            return b;
        }
        if (is_guess(e)) {
            monitor_wait_until(held, UINT64_MAX);
        } else if (!give_back_one(e)) {
            break;
        }
    }
    e->ahead_runs = false;
    return NULL;
}

/* A page has its memory once it was written to. */
static void touch(engine *e, engine_buffer *b) {
    for (size_t at = 0; at < b->capacity && !atomic_load(&e->ahead_ends);
         at += STORE_DIRECT_ALIGNMENT) {
        b->memory[at] = 0;
    }
}

/* False when there was no memory. */
static bool make_ready(engine *e, engine_buffer *b) {
    bool made = engine_buffer_give_memory(e, b);
    if (made) {
        touch(e, b);
    }
    monitor_enter(&e->monitor);
    if (made && is_guess(e) && !e->options.make_ready) {
        mem_reclaimable(b->memory, b->capacity);
    }
    engine_buffer_made(e, b);
    e->ahead_runs = made;
    monitor_leave(&e->monitor);
    return made;
}

void engine_ahead_body(void *argument) {
    engine *e = argument;
    engine_buffer *b;
    engine_tune(e);
    do {
        b = next_buffer(e);
    } while (b != NULL && make_ready(e, b));
}

/* ---- the trainer's thread ---- */

/* Monitor held. The slab of a budget that is made ready is not counted: its buffers are there. */
static bool has_work(const engine *e) {
    if (e->allocator != NULL) {
        return false;
    }
    bool first = e->options.make_ready && e->slab != NULL && e->ahead == NULL;
    return first || e->buffer_count < buffers_wanted(e);
}

void engine_ahead_begin(engine *e) {
    const platform *p = e->options.platform;
    struct pawl_error ignored = ERROR_INIT;
    monitor_enter(&e->monitor);
    bool start = p->concurrent && !e->ahead_runs && has_work(e);
    e->ahead_runs = e->ahead_runs || start;
    monitor_leave(&e->monitor);
    if (!start) {
        return;
    }
    if (e->ahead != NULL) { /* it has ended */
        p->thread_join(p->context, e->ahead);
        e->ahead = NULL;
    }
    if (p->thread_start(p->context, engine_ahead_body, e, &e->ahead, &ignored) != PAWL_OK) {
        monitor_enter(&e->monitor);
        e->ahead_runs = false;
        monitor_leave(&e->monitor);
    }
}

void engine_ahead_end(engine *e) {
    const platform *p = e->options.platform;
    monitor_enter(&e->monitor);
    atomic_store(&e->ahead_ends, true);
    monitor_announce(&e->monitor);
    monitor_leave(&e->monitor);
    if (e->ahead != NULL) {
        p->thread_join(p->context, e->ahead);
        e->ahead = NULL;
    }
    monitor_enter(&e->monitor);
    e->ahead_runs = false;
    monitor_leave(&e->monitor);
    atomic_store(&e->ahead_ends, false);
}
