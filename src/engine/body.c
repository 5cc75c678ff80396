/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's thread: moves the data files, commits, and tells how it ended. */
#include "engine/save.h"

#include <assert.h>

/* What the system refuses is said once; the save goes on all the same. */
void engine_tune(engine *e) {
    const platform *p = e->options.platform;
    const thread_tuning *tuning = &e->options.tuning;
    char why[160];
    if (tuning->io_priority == PAWL_IO_PRIORITY_DEFAULT && tuning->cpu_count == 0) {
        return;
    }
    if (!p->thread_tune(p->context, tuning, why) && !atomic_exchange(&e->tuning_told, true)) {
        log_write(&e->log, PAWL_LOG_WARN, "threads that save cannot be tuned as asked: %s", why);
    }
}

static pawl_status prepare(engine *e, pawl_error *err) {
    if (e->job.prepare == NULL) {
        return PAWL_OK;
    }
    engine_turns_to(e, ENGINE_PREPARING);
    pawl_status status = e->job.prepare(e->job.context, err);
    engine_turns_to(e, ENGINE_MOVING);
    return status;
}

/* A cancel that comes before this is heard; one that comes later is too late. */
static pawl_status commit(engine *e, pawl_error *err) {
    monitor_enter(&e->monitor);
    engine_release(e);
    pawl_status status = engine_stop_reason(e, err);
    e->committing = status == PAWL_OK;
    if (status == PAWL_OK) {
        e->commit_begun_ns = engine_now(e);
        engine_does(e, ENGINE_COMMITTING);
    }
    monitor_leave(&e->monitor);
    return status == PAWL_OK ? e->job.commit(e->job.context, e->files, err) : status;
}

/* A save that hung keeps that story, unless it was committed after all. */
static void conclude(engine *e, pawl_status status, const pawl_error *story) {
    if (!e->hung || status == PAWL_OK) {
        e->outcome = status;
        e->story = *story;
    }
}

/* `done` frees what the callback `hung` was handed. */
static void let_go(engine *e, pawl_status status, const pawl_error *story) {
    monitor_enter(&e->monitor);
    e->tidied_ns = engine_now(e);
    if (e->ended_ns == 0 || (status == PAWL_OK && !e->committed)) {
        e->ended_ns = e->tidied_ns;
    }
    engine_release(e);
    engine_buffers_reset(e);
    engine_does(e, ENGINE_ENDING);
    while (e->telling) {
        monitor_wait_until(&e->monitor, UINT64_MAX);
    }
    conclude(e, status, story);
    monitor_leave(&e->monitor);
}

/* The last thing the thread does with the engine, unless it was left to free it. */
static void finish(engine *e, pawl_status status, const pawl_error *story) {
    monitor_enter(&e->monitor);
    conclude(e, status, story);
    engine_stats_update(e);
    e->active = false;
    e->hung = false;
    e->doing = ENGINE_MOVING;
    while (e->left_watching) {
        monitor_wait_until(&e->monitor, UINT64_MAX);
    }
    bool abandoned = e->abandoned;
    monitor_announce(&e->monitor);
    monitor_leave(&e->monitor);
    if (abandoned) {
        engine_destroy(e);
    }
}

static pawl_status tell_failure(int64_t step, pawl_status status, pawl_error *story) {
    error_step(story, step);
    error_wrap(story, "saving step %lld", (long long)step);
    if (status == PAWL_ETIMEOUT) { /* to callers that means a save which goes on */
        status = PAWL_EIO;
        story->status = status;
    }
    if (status == PAWL_EIO && story->next[0] == '\0') {
        error_next(story, "see whether the storage works (the kernel's log, or the server of a "
                          "network mount); the next save begins anew");
    }
    return status;
}

void engine_body(void *argument) {
    engine *e = argument;
    struct pawl_error story = ERROR_INIT;
    engine_tune(e);
    pawl_status status = prepare(e, &story);
    if (status == PAWL_OK) {
        status = engine_write_files(e, &story);
    }
    if (status == PAWL_OK) {
        status = commit(e, &story);
    }
    if (status != PAWL_OK) {
        status = tell_failure(e->job.step, status, &story);
    }
    let_go(e, status, &story);
    e->job.done(e->job.context, status, &story);
    finish(e, status, &story);
}
