/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hang watchdog: notices a storage, or a provider of memory, that hangs (S08). A thread of the
 * engine watches for progress: when requests are outstanding and none has completed for
 * hang_timeout_s, the save counts as failed and the trainer's memory is released. A request that
 * hangs in the kernel cannot be cancelled: the engine's thread, its buffers and its files stay
 * until the storage answers, and until then nothing else is saved. The same where copies hang, but
 * then the trainer's memory is not released: they may still read it.
 *
 * The thread looks LOOKS times per timeout, and one look adds at most two of these intervals to the
 * time without progress. So a process that was stopped, or had no processor to run on, is not
 * failed for that: it has time to take the completions that came meanwhile.
 */
#include "engine/save.h"

#include <assert.h>
#include <string.h>

#define LOOKS 8

void engine_mark_progress(engine *e) {
    e->progress_ns = engine_now(e);
}

void engine_set_doing(engine *e, engine_doing what) {
    engine_mark_progress(e);
    e->doing = what;
}

void engine_now_doing(engine *e, engine_doing what) {
    monitor_enter(&e->monitor);
    engine_set_doing(e, what);
    monitor_leave(&e->monitor);
}

/* ---- what is told ---- */

/* The first in the file among the writes that have not come back. */
static const engine_buffer *oldest_write(const engine *e) {
    const engine_buffer *oldest = NULL;
    for (const engine_buffer *b = e->newest; b != NULL; b = b->older) {
        bool older = oldest == NULL || b->file < oldest->file ||
                     (b->file == oldest->file && b->at < oldest->at);
        if (b->under_way && older) {
            oldest = b;
        }
    }
    return oldest;
}

static const char *what_hangs(const engine *e, const engine_buffer *write) {
    switch (e->doing) {
    case ENGINE_PREPARING:
        return "preparing its directory";
    case ENGINE_OPENING:
        return "opening";
    case ENGINE_TELLING:
        return "telling how far the save is";
    case ENGINE_COMMITTING:
        return "committing";
    case ENGINE_TIDYING:
        return "removing what the new checkpoint replaces";
    case ENGINE_ENDING:
        return "removing what was written";
    case ENGINE_WRITING:
        break;
    }
    return write != NULL ? "writing" : "syncing";
}

static void name_place(const engine *e, const engine_buffer *write, pawl_error *err) {
    const char *file = write != NULL ? e->job.layout->files[write->file].name : e->file_name;
    const char *root = e->job.store->root;
    if (e->doing != ENGINE_WRITING && e->doing != ENGINE_OPENING) {
        error_path(err, "%s/%s", root, e->directory);
        return;
    }
    error_path(err, "%s/%s/%s", root, e->directory, file);
    if (write != NULL) {
        error_range(err, write->at, write->bytes);
    }
}

static const char *state_of_commit(const engine *e) {
    if (e->committed) {
        return "; the checkpoint is committed";
    }
    return e->committing ? "; the commit is under way and may still succeed" : "";
}

static pawl_status memory_hang_story(const engine *e, pawl_error *err) {
    char quiet[32];
    char written[32];
    char total[32];
    mover_wait oldest;
    mover_look(e->mover, &oldest);
    text_seconds(quiet, engine_seconds(engine_now(e) - e->copy_progress_ns));
    error_set(err, PAWL_EIO,
              "saving step %lld: the memory \"%s\" hangs: no copy from it has ended for %s",
              (long long)e->job.step, e->hanging, quiet);
    error_step(err, e->job.step);
    if (oldest.jobs > 0) {
        error_entry(err, oldest.entry);
    }
    error_found(err, "%s of %s written", text_bytes(written, e->written),
                text_bytes(total, e->total));
    error_safe(err, "checkpoints that are committed stay as they are");
    error_next(err, "look at the device (its driver's log); the tensors stay in use, and nothing "
                    "is saved, until it answers");
    return PAWL_EIO;
}

pawl_status engine_hang_story(const engine *e, pawl_error *err) {
    if (e->memory_hangs) {
        return memory_hang_story(e, err);
    }
    char quiet[32];
    char written[32];
    char total[32];
    const engine_buffer *write = e->doing == ENGINE_WRITING ? oldest_write(e) : NULL;
    uint64_t quiet_ns = engine_now(e) - e->progress_ns;
    error_set(err, PAWL_EIO, "saving step %lld: the storage hangs: no answer for %s while %s",
              (long long)e->job.step, text_seconds(quiet, engine_seconds(quiet_ns)),
              what_hangs(e, write));
    error_step(err, e->job.step);
    name_place(e, write, err);
    error_found(err, "%s of %s written%s", text_bytes(written, e->written),
                text_bytes(total, e->total), state_of_commit(e));
    error_safe(err, "checkpoints that are committed stay as they are");
    error_next(err, "look at the storage (the kernel's log, or the server of a network mount); "
                    "nothing is saved until it answers");
    return PAWL_EIO;
}

/* ---- looking ---- */

static bool request_outstanding(const engine *e) {
    return e->under_way > 0 || e->doing != ENGINE_WRITING;
}

/* Monitor held. Of a save that hangs in `done`, or after its commit, the outcome is known already
 * and stays. */
static void fail_hung_save(engine *e) {
    struct pawl_error story = ERROR_INIT;
    (void)engine_hang_story(e, &story);
    bool known = e->committed || e->doing == ENGINE_ENDING;
    e->hung = true;
    e->telling = !known;
    if (!known) {
        e->ended_ns = engine_now(e);
        e->stopped = true;
        if (!engine_copies_outstanding(e)) { /* else the tensors stay in use */
            engine_release(e);
        }
        monitor_leave(&e->monitor);
        if (e->job.hung != NULL) {
            e->job.hung(e->job.context, &story);
        }
        monitor_enter(&e->monitor);
        e->outcome = PAWL_EIO;
        e->story = story;
    }
    engine_stats_update(e);
    e->telling = false;
    engine_announce(e);
}

/* Monitor held: time with something outstanding and no completion, as far as it was watched. */
static uint64_t quiet_ns(engine_quiet *q, uint64_t now_ns, bool outstanding, uint64_t progress_ns,
                         uint64_t step_ns) {
    uint64_t passed_ns = now_ns - q->looked_ns;
    bool quiet_since = outstanding && q->progress_ns == progress_ns;
    uint64_t counted_ns = passed_ns < 2 * step_ns ? passed_ns : 2 * step_ns;
    *q = (engine_quiet){.looked_ns = now_ns,
                        .progress_ns = progress_ns,
                        .ns = quiet_since ? q->ns + counted_ns : 0};
    return q->ns;
}

/* Monitor held. */
static bool storage_hangs(engine *e, uint64_t now_ns, uint64_t limit_ns, uint64_t step_ns) {
    return quiet_ns(&e->quiet, now_ns, request_outstanding(e), e->progress_ns, step_ns) >= limit_ns;
}

/* Monitor held. A chunk may also be outstanding because the storage hangs, but then no job is. */
static bool memory_hangs(engine *e, uint64_t now_ns, uint64_t limit_ns, uint64_t step_ns) {
    bool outstanding = engine_copies_outstanding(e);
    mover_wait oldest;
    if (quiet_ns(&e->copy_quiet, now_ns, outstanding, e->copy_progress_ns, step_ns) < limit_ns) {
        return false;
    }
    mover_look(e->mover, &oldest);
    e->memory_hangs = oldest.jobs > 0;
    memcpy(e->hanging, oldest.memory, sizeof(e->hanging));
    return e->memory_hangs;
}

/* When to look again; 0: when the next save begins. */
static uint64_t check_for_hang(engine *e) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    if (!e->active || e->hung || e->unwatched) {
        return 0;
    }
    uint64_t limit_ns = engine_ns(e->options.hang_timeout_s);
    uint64_t step_ns = limit_ns / LOOKS + 1;
    uint64_t now_ns = engine_now(e);
    bool storage = storage_hangs(e, now_ns, limit_ns, step_ns);
    if (!memory_hangs(e, now_ns, limit_ns, step_ns) && !storage) {
        return now_ns + step_ns;
    }
    fail_hung_save(e);
    return 0;
}

/* ---- the thread ---- */

/* False when the engine is being freed. */
static bool wait_to_look(engine *e, uint64_t next_ns, uint64_t *seen) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->alarm;
    monitor_enter(held);
    while (!e->watch_ends && next_ns == 0 && e->watched == *seen) {
        monitor_wait_until(held, UINT64_MAX);
    }
    if (!e->watch_ends && next_ns != 0) {
        monitor_wait_until(held, next_ns);
    }
    *seen = e->watched;
    return !e->watch_ends;
}

static void watch_body(void *argument) {
    engine *e = argument;
    uint64_t seen = 0;
    uint64_t next_ns = 0;
    engine_tune(e);
    while (wait_to_look(e, next_ns, &seen)) {
        next_ns = check_for_hang(e);
    }
    monitor_enter(&e->monitor);
    e->left_watching = false;
    monitor_announce(&e->monitor);
    monitor_leave(&e->monitor);
}

/* Without threads there is nobody to watch. */
pawl_status engine_watch(engine *e, pawl_error *err) {
    const platform *p = e->options.platform;
    if (!p->concurrent || !(e->options.hang_timeout_s > 0)) {
        return PAWL_OK;
    }
    if (e->watcher == NULL) {
        TRY(p->thread_start(p->context, watch_body, e, &e->watcher, err));
    }
    monitor_enter(&e->alarm);
    e->watched++;
    monitor_announce(&e->alarm);
    monitor_leave(&e->alarm);
    return PAWL_OK;
}

/* Monitor not held. False: the watching thread is inside the callback `hung`, which may never
 * return, so the thread is abandoned. */
static bool stop_watching(engine *e) {
    monitor_enter(&e->monitor);
    e->unwatched = true;
    e->left_watching = e->telling;
    bool ends = !e->telling;
    monitor_leave(&e->monitor);
    return ends;
}

void engine_watch_end(engine *e) {
    const platform *p = e->options.platform;
    bool ends = stop_watching(e);
    monitor_enter(&e->alarm);
    e->watch_ends = true;
    monitor_announce(&e->alarm);
    monitor_leave(&e->alarm);
    if (e->watcher != NULL) {
        (ends ? p->thread_join : p->thread_abandon)(p->context, e->watcher);
        e->watcher = NULL;
    }
}
