/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an engine and of its saves, as the trainer's thread sees them. */
#include "engine/save.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- time ---- */

uint64_t engine_now(const engine *e) {
    return e->options.platform->monotonic_ns(e->options.platform->context);
}

uint64_t engine_deadline(const engine *e, double seconds) {
    const double most_s = 3e9; /* about a century, far from where nanoseconds overflow */
    uint64_t now = engine_now(e);
    if (!(seconds > 0)) {
        return now;
    }
    return now + (uint64_t)((seconds < most_s ? seconds : most_s) * 1e9);
}

pawl_status engine_timeout(engine *e, double waited_s, const char *what, pawl_error *err) {
    char written[32];
    char total[32];
    char waited[32];
    const char *doing = e->committing ? "the commit of" : "the data files of";
    error_set(err, PAWL_ETIMEOUT, "%s: %s step %lld took longer than %s", what, doing,
              (long long)e->job.step, text_seconds(waited, waited_s));
    if (!e->committing) {
        error_path(err, "%s/%s/%s", e->job.store->root, e->directory, e->file_name);
    }
    error_found(err, "%s of %s written", text_bytes(written, e->written),
                text_bytes(total, e->total));
    error_step(err, e->job.step);
    error_range(err, e->written, e->total - e->written);
    error_safe(err, "the save goes on; checkpoints that are committed stay as they are");
    error_next(err,
               "wait again, or give the save up with pawl_cancel; if nothing moves, look at the "
               "storage");
    return PAWL_ETIMEOUT;
}

/* ---- making and freeing ---- */

pawl_status engine_new(const engine_options *options, engine **out, pawl_error *err) {
    size_t buffer_bytes = options->buffer_bytes != 0 ? options->buffer_bytes : ENGINE_BUFFER_BYTES;
    if (buffer_bytes % FORMAT_BLOCK_BYTES != 0) {
        return error_set(err, PAWL_EINTERNAL, "engine: buffers of %zu bytes are not whole blocks",
                         buffer_bytes);
    }
    engine *e = mem_calloc(1, sizeof(*e));
    if (e == NULL) {
        return error_nomem(err, sizeof(*e));
    }
    pawl_status status = monitor_init(&e->monitor, err);
    if (status != PAWL_OK) {
        mem_free(e);
        return status;
    }
    e->options = *options;
    e->options.buffer_bytes = buffer_bytes;
    if (options->log != NULL) {
        e->log = *options->log;
    }
    e->buffer_limit = options->budget_bytes / buffer_bytes;
    if (e->buffer_limit == 0) {
        e->buffer_limit = 1;
    }
    e->story = ERROR_INIT;
    *out = e;
    return PAWL_OK;
}

static void job_free(engine *e) {
    mem_free(e->checksums);
    mem_free(e->files);
    engine_checks_free(e->checks);
    e->checksums = NULL;
    e->files = NULL;
    e->checks = NULL;
}

void engine_destroy(engine *e) {
    job_free(e);
    monitor_destroy(&e->monitor);
    mem_free(e);
}

/* The save has ended: its thread is at its last instructions, or there is none. */
static void reap(engine *e) {
    const platform *p = e->options.platform;
    if (e->thread != NULL) {
        p->thread_join(p->context, e->thread);
        e->thread = NULL;
    }
    job_free(e);
}

/* Monitor held. */
static pawl_status wait_for_end(engine *e, double deadline_s, const char *what, pawl_error *err) {
    uint64_t begun_ns = engine_now(e);
    uint64_t deadline_ns = engine_deadline(e, deadline_s);
    while (e->active) {
        if (!(deadline_s > 0) || !monitor_wait_until(&e->monitor, deadline_ns)) {
            if (!e->active) {
                break;
            }
            double waited_s = (double)(engine_now(e) - begun_ns) / 1e9;
            return engine_timeout(e, waited_s, what, err);
        }
    }
    return PAWL_OK;
}

pawl_status engine_free(engine *e, double deadline_s, pawl_error *err) {
    if (e == NULL) {
        return PAWL_OK;
    }
    const platform *p = e->options.platform;
    platform_thread *thread = e->thread;
    monitor_enter(&e->monitor);
    pawl_status status = wait_for_end(e, deadline_s, "closing", err);
    if (status != PAWL_OK) {
        error_safe(err, "checkpoints that are committed stay as they are%s",
                   e->committing ? "" : "; this one is given up");
        error_next(err,
                   "keep the tensors' memory valid until the process ends; look at the storage");
        e->abandoned = true;
        e->cancelled = true;
        monitor_announce(&e->monitor);
    }
    monitor_leave(&e->monitor);
    if (status != PAWL_OK) {
        p->thread_abandon(p->context, thread);
        return status;
    }
    reap(e);
    engine_destroy(e);
    return PAWL_OK;
}

/* ---- beginning a save ---- */

static uint64_t file_blocks(const plan_file *file) {
    return (file->bytes + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES;
}

static pawl_status prepare_checksums(engine *e, const plan_layout *layout, pawl_error *err) {
    uint64_t blocks = 0;
    for (size_t i = 0; i < layout->file_count; i++) {
        blocks += file_blocks(&layout->files[i]);
    }
    e->checksums = mem_calloc(blocks, sizeof(*e->checksums));
    e->files = mem_calloc(layout->file_count, sizeof(*e->files));
    if (e->checksums == NULL || e->files == NULL) {
        return error_nomem(err, blocks * sizeof(*e->checksums));
    }
    uint32_t *next = e->checksums;
    for (size_t i = 0; i < layout->file_count; i++) {
        size_t count = (size_t)file_blocks(&layout->files[i]);
        e->files[i] = (engine_file){.checksums = next, .block_count = count};
        next += count;
    }
    return PAWL_OK;
}

static pawl_status prepare(engine *e, const plan_layout *layout, pawl_error *err) {
    TRY(prepare_checksums(e, layout, err));
    if (e->options.checking) {
        TRY(engine_checks_new(layout, &e->checks, err));
    }
    return PAWL_OK;
}

static uint64_t count_chunks(const engine *e, const plan_layout *layout) {
    uint64_t chunks = 0;
    for (size_t i = 0; i < layout->file_count; i++) {
        uint64_t bytes = layout->files[i].bytes;
        chunks += bytes / e->options.buffer_bytes + (bytes % e->options.buffer_bytes != 0);
    }
    return chunks;
}

static void reset(engine *e, const engine_job *job) {
    e->job = *job;
    e->total = job->layout->bytes;
    e->chunks = count_chunks(e, job->layout);
    snprintf(e->directory, sizeof(e->directory), "%s", job->directory);
    e->begun_ns = engine_now(e);
    e->cancelled = false;
    e->stopped = false;
    e->committing = false;
    e->release_begun = false;
    e->released = false;
    e->next_file = 0;
    e->next_at = 0;
    e->written = 0;
    e->file_name[0] = '\0';
    e->fenced = false;
    e->fence_copy_ns = 0;
    e->fence_wait_ns = 0;
    e->stats = (engine_stats){.bytes = e->total,
                              .budget_bytes = e->buffer_limit * e->options.buffer_bytes};
    e->active = true;
}

pawl_status engine_begin(engine *e, const engine_job *job, pawl_error *err) {
    if (engine_busy(e)) {
        return error_set(err, PAWL_EINTERNAL, "engine: a save is in flight");
    }
    reap(e);
    pawl_status status = prepare(e, job->layout, err);
    if (status == PAWL_OK) {
        const platform *p = e->options.platform;
        monitor_enter(&e->monitor);
        reset(e, job);
        monitor_leave(&e->monitor);
        log_write(&e->log, PAWL_LOG_DEBUG, "step %lld: writing %llu bytes in %zu files",
                  (long long)job->step, (unsigned long long)job->layout->bytes,
                  job->layout->file_count);
        status = p->thread_start(p->context, engine_write_body, e, &e->thread, err);
    }
    if (status != PAWL_OK) {
        e->active = false; /* no other thread has seen it */
        job_free(e);
        error_wrap(err, "starting to save step %lld", (long long)job->step);
    }
    return status;
}

/* ---- while it is in flight ---- */

bool engine_busy(engine *e) {
    monitor_enter(&e->monitor);
    bool busy = e->active;
    monitor_leave(&e->monitor);
    return busy;
}

pawl_status engine_wait(engine *e, double deadline_s, pawl_status *outcome, pawl_error *story,
                        engine_stats *stats, pawl_error *err) {
    monitor_enter(&e->monitor);
    pawl_status status = wait_for_end(e, deadline_s, "waiting for the save", err);
    if (status == PAWL_OK) {
        *outcome = e->outcome;
        *story = e->story;
    }
    *stats = e->stats;
    monitor_leave(&e->monitor);
    if (status == PAWL_OK) {
        reap(e);
    }
    return status;
}

bool engine_cancel(engine *e) {
    monitor_enter(&e->monitor);
    bool in_time = e->active && !e->committing;
    if (in_time) {
        e->cancelled = true;
        monitor_announce(&e->monitor);
    }
    monitor_leave(&e->monitor);
    return in_time;
}

static double seconds(uint64_t ns) {
    return (double)ns / 1e9;
}

void engine_stats_update(engine *e) {
    e->stats.total_s = seconds(engine_now(e) - e->begun_ns);
    e->stats.fence_copy_s = seconds(e->fence_copy_ns);
    e->stats.fence_wait_s = seconds(e->fence_wait_ns);
}

void engine_stats_now(engine *e, engine_stats *out) {
    monitor_enter(&e->monitor);
    if (e->active) {
        engine_stats_update(e);
    }
    *out = e->stats;
    monitor_leave(&e->monitor);
}

void engine_progress(engine *e, uint64_t *written, uint64_t *of) {
    monitor_enter(&e->monitor);
    *written = e->written;
    *of = e->total;
    monitor_leave(&e->monitor);
}
