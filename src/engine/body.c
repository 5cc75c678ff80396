/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's thread: writes the data files, commits, and reports the outcome. */
#include "engine/save.h"

#include <assert.h>

/* A refusal of the system is logged once; the save goes on. */
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

static pawl_status call_prepare(engine *e, pawl_error *err) {
    if (e->job.prepare == NULL) {
        return PAWL_OK;
    }
    engine_now_doing(e, ENGINE_PREPARING);
    pawl_status status = e->job.prepare(e->job.context, err);
    engine_now_doing(e, ENGINE_WRITING);
    return status;
}

/* The last point at which a cancel still stops the save. */
static pawl_status call_commit(engine *e, pawl_error *err) {
    monitor_enter(&e->monitor);
    engine_release(e);
    pawl_status status = engine_stop_reason(e, err);
    e->committing = status == PAWL_OK;
    if (status == PAWL_OK) {
        e->commit_begun_ns = engine_now(e);
        engine_set_doing(e, ENGINE_COMMITTING);
    }
    monitor_leave(&e->monitor);
    return status == PAWL_OK ? e->job.commit(e->job.context, e->files, err) : status;
}

/* A save that hung stays failed for that reason, unless it was committed after all. */
static void set_outcome(engine *e, pawl_status status, const pawl_error *story) {
    if (!e->hung || status == PAWL_OK) {
        e->outcome = status;
        e->story = *story;
    }
}

/* Waits until the callback `hung` has returned: `done` frees what it uses. */
static void before_done(engine *e, pawl_status status, const pawl_error *story) {
    monitor_enter(&e->monitor);
    e->tidied_ns = engine_now(e);
    if (e->ended_ns == 0 || (status == PAWL_OK && !e->committed)) {
        e->ended_ns = e->tidied_ns;
    }
    engine_release(e);
    engine_buffers_reset(e);
    engine_set_doing(e, ENGINE_ENDING);
    while (e->telling) {
        monitor_wait_until(&e->monitor, UINT64_MAX);
    }
    set_outcome(e, status, story);
    monitor_leave(&e->monitor);
}

/* The thread's last use of the engine; frees it where the trainer's thread has abandoned it. */
static void finish(engine *e, pawl_status status, const pawl_error *story) {
    monitor_enter(&e->monitor);
    set_outcome(e, status, story);
    engine_stats_update(e);
    e->active = false;
    e->hung = false;
    e->doing = ENGINE_WRITING;
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
    if (status == PAWL_ETIMEOUT) { /* to callers ETIMEOUT means that the save goes on */
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
    pawl_status status = call_prepare(e, &story);
    if (status == PAWL_OK) {
        status = engine_write_files(e, &story);
    }
    if (status == PAWL_OK) {
        status = call_commit(e, &story);
    }
    if (status != PAWL_OK) {
        status = tell_failure(e->job.step, status, &story);
    }
    before_done(e, status, &story);
    e->job.done(e->job.context, status, &story);
    finish(e, status, &story);
}
