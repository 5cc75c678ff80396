/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an engine and of its saves, as the trainer's thread sees them. */
#include "engine/save.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define NO_WAIT_S 1e-3

/* ---- time ---- */

uint64_t engine_now(const engine *e) {
    return platform_now_ns(e->options.platform);
}

uint64_t engine_ns(double seconds) {
    const double most_s = 3e9; /* about a century, far from where nanoseconds overflow */
    if (!(seconds > 0)) {
        return 0;
    }
    return (uint64_t)((seconds < most_s ? seconds : most_s) * 1e9);
}

double engine_seconds(uint64_t ns) {
    return (double)ns / 1e9;
}

uint64_t engine_deadline(const engine *e, double seconds) {
    return engine_now(e) + engine_ns(seconds);
}

static void set_error_path(const engine *e, pawl_error *err) {
    const char *root = e->job.store->root;
    if (e->file_name[0] != '\0') {
        error_path(err, "%s/%s/%s", root, e->directory, e->file_name);
    } else { /* the first is not open yet */
        error_path(err, "%s/%s", root, e->directory);
    }
}

/* Instead of what is said of the storage. */
static void say_copies(const engine *e, pawl_error *err) {
    mover_wait oldest;
    mover_look(e->mover, &oldest);
    if (oldest.jobs > 0) {
        char written[32];
        char total[32];
        error_entry(err, oldest.entry);
        error_found(err, "%s of %s written; copies from the memory \"%s\" have not ended",
                    text_bytes(written, e->written), text_bytes(total, e->total), oldest.memory);
        error_next(err, "wait again, or give the save up with pawl_cancel; if no more is copied, "
                        "look at that device (its driver's log)");
    }
}

pawl_status engine_timeout(engine *e, double waited_s, const char *what, pawl_error *err) {
    char written[32];
    char total[32];
    char waited[32];
    bool copies = !e->committing && engine_copies_outstanding(e);
    const char *doing = e->committing ? "the commit of"
                        : copies      ? "the copies of"
                                      : "the data files of";
    const char *how = waited_s < NO_WAIT_S ? "had no time to end" : "took longer than ";
    error_set(err, PAWL_ETIMEOUT, "%s: %s step %lld %s%s", what, doing, (long long)e->job.step, how,
              waited_s < NO_WAIT_S ? "" : text_seconds(waited, waited_s));
    if (!e->committing) {
        set_error_path(e, err);
        error_range(err, e->written, e->total - e->written);
    }
    error_found(err, "%s of %s written", text_bytes(written, e->written),
                text_bytes(total, e->total));
    error_step(err, e->job.step);
    error_safe(err, "the save goes on; checkpoints that are committed stay as they are");
    error_next(
        err, "wait again, or give the save up with pawl_cancel; if no more is written, look at the "
             "storage");
    if (copies) {
        say_copies(e, err);
    }
    return PAWL_ETIMEOUT;
}

/* ---- making and freeing ---- */

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Two buffers are the least: the chunk that begins a file waits for the others. Before a fence one
 * more than are being written is filled, and one may be kept back. */
static void set_limits(engine *e) {
    engine_options *o = &e->options;
    if (o->in_flight_bytes == 0) {
        o->in_flight_bytes = ENGINE_IN_FLIGHT_BYTES;
    }
    e->buffer_bytes = engine_buffer_size(o, o->budget_bytes);
    e->buffer_limit = o->budget_bytes / e->buffer_bytes;
    e->buffer_limit = e->buffer_limit < 2 ? 2 : e->buffer_limit;
    size_t moving = smaller(o->in_flight_bytes / e->buffer_bytes, e->buffer_limit);
    e->write_limit = moving < 1 ? 1 : moving;
    e->stream_limit = smaller(e->write_limit + 2, e->buffer_limit);
}

static pawl_status take_cpus(engine *e, pawl_error *err) {
    thread_tuning *tuning = &e->options.tuning;
    if (tuning->cpu_count == 0) {
        return PAWL_OK;
    }
    e->cpus = mem_dup(tuning->cpus, tuning->cpu_count * sizeof(*e->cpus));
    tuning->cpus = e->cpus;
    return e->cpus != NULL ? PAWL_OK : error_nomem(err, tuning->cpu_count * sizeof(*e->cpus));
}

static pawl_status make_monitors(engine *e, pawl_error *err) {
    TRY(monitor_init(&e->monitor, err));
    pawl_status status = monitor_init(&e->alarm, err);
    if (status != PAWL_OK) {
        monitor_destroy(&e->monitor);
    }
    return status;
}

/* An I/O method that was asked for by name is tried at once; otherwise it is chosen when the first
 * queue is needed. */
static pawl_status make_parts(engine *e, pawl_error *err) {
    TRY(take_cpus(e, err));
    if (e->options.make_ready) {
        struct pawl_error ignored =
            ERROR_INIT; /* the save finds out whether there is memory then */
        (void)!engine_slab_make(e, &ignored);
    }
    if (e->options.io != PAWL_IO_URING) {
        return PAWL_OK;
    }
    TRY(engine_slab_make(e, err));
    return engine_queue_open(e, err);
}

pawl_status engine_new(const engine_options *options, engine **out, pawl_error *err) {
    if (options->buffer_bytes % FORMAT_BLOCK_BYTES != 0) {
        return error_set(err, PAWL_EINTERNAL, "engine: buffers of %zu bytes are not whole blocks",
                         options->buffer_bytes);
    }
    engine *e = mem_calloc(1, sizeof(*e));
    if (e == NULL) {
        return error_nomem(err, sizeof(*e));
    }
    e->options = *options;
    pawl_status status = make_monitors(e, err);
    if (status != PAWL_OK) {
        mem_free(e);
        return status;
    }
    if (options->log != NULL) {
        e->log = *options->log;
    }
    set_limits(e);
    e->story = ERROR_INIT;
    status = make_parts(e, err);
    if (status != PAWL_OK) {
        engine_destroy(e);
        return status;
    }
    engine_ahead_begin(e);
    *out = e;
    return PAWL_OK;
}

static void job_free(engine *e) {
    mem_free(e->checksums);
    mem_free(e->files);
    mem_free(e->parts);
    engine_checks_free(e->checks);
    e->checksums = NULL;
    e->files = NULL;
    e->parts = NULL;
    e->checks = NULL;
}

void engine_destroy(engine *e) {
    mover_free(e->mover);
    job_free(e);
    store_queue_free(e->queue);
    store_queue_free(e->line_queue);
    engine_buffers_free(e);
    monitor_destroy(&e->monitor);
    monitor_destroy(&e->alarm);
    mem_free(e->cpus);
    mem_free(e);
}

/* The save has ended: its thread is about to return, or there is none. */
static void reap(engine *e) {
    const platform *p = e->options.platform;
    if (e->thread != NULL) {
        p->thread_join(p->context, e->thread);
        e->thread = NULL;
    }
    job_free(e);
}

/* Monitor held. Is the outcome still unknown to the caller? */
static bool in_flight(const engine *e) {
    return e->active && (!e->hung || e->telling);
}

bool engine_wait_a_while(engine *e, uint64_t deadline_ns, const interrupt *stop) {
    uint64_t soon_ns = interrupt_asks(stop) ? engine_now(e) + INTERRUPT_PERIOD_NS : UINT64_MAX;
    bool all = deadline_ns <= soon_ns;
    return monitor_wait_until(&e->monitor, all ? deadline_ns : soon_ns) || !all;
}

bool engine_interrupted(engine *e, interrupt *stop) {
    if (!interrupt_asks(stop)) {
        return false;
    }
    monitor_leave(&e->monitor);
    bool said = interrupt_said(stop);
    monitor_enter(&e->monitor);
    return said;
}

pawl_status engine_interrupted_while(const engine *e, const char *what, pawl_error *err) {
    interrupt_error(err);
    error_wrap(err, "%s of step %lld", what, (long long)e->job.step);
    error_step(err, e->job.step);
    error_safe(err, "the save goes on; checkpoints that are committed stay as they are");
    return PAWL_ECANCELED;
}

/* Monitor held. `stop` may be NULL. */
static pawl_status wait_for_end(engine *e, double timeout_s, interrupt *stop, const char *what,
                                pawl_error *err) {
    uint64_t begun_ns = engine_now(e);
    uint64_t deadline_ns = engine_deadline(e, timeout_s);
    while (in_flight(e)) {
        if (!(timeout_s > 0) || !engine_wait_a_while(e, deadline_ns, stop)) {
            if (!in_flight(e)) {
                break;
            }
            return engine_timeout(e, engine_seconds(engine_now(e) - begun_ns), what, err);
        }
        if (in_flight(e) && engine_interrupted(e, stop)) {
            return engine_interrupted_while(e, what, err);
        }
    }
    return PAWL_OK;
}

/* Monitor held: abandons a save that has not ended; `status` is what waiting for it returned. */
static pawl_status leave_behind(engine *e, pawl_status status, pawl_error *err) {
    if (status == PAWL_OK) { /* it hangs */
        status = engine_hang_story(e, err);
        error_wrap(err, "closing");
    }
    error_safe(err, "checkpoints that are committed stay as they are%s",
               e->committing ? "" : "; this one is given up");
    error_next(err, "%s%s",
               e->released ? "" : "keep the tensors' memory valid until the process ends; ",
               e->memory_hangs ? "look at the device (its driver's log)"
                               : "look at the storage (the kernel's log, or the server of a "
                                 "network mount)");
    e->abandoned = true;
    e->cancelled = true;
    engine_announce(e);
    return status;
}

static void destroy_left(void *context) {
    engine *e = context;
    e->mover = NULL; /* it calls this, and frees itself */
    engine_destroy(e);
}

/* No save is in flight, but a copy beside one was left behind: the mover frees the engine. */
static pawl_status leave_to_mover(engine *e, pawl_error *err) {
    mover_wait oldest;
    mover_look(e->mover, &oldest);
    error_set(err, PAWL_EIO, "closing: the memory \"%s\" hangs: a copy from it does not end",
              oldest.memory);
    error_entry(err, oldest.entry);
    error_safe(err, "checkpoints that are committed stay as they are");
    error_next(err,
               "keep the tensors' memory valid until the process ends; look at the device (its "
               "driver's log)");
    mover_abandon(e->mover, destroy_left, e);
    return PAWL_EIO;
}

pawl_status engine_free(engine *e, double timeout_s, pawl_error *err) {
    if (e == NULL) {
        return PAWL_OK;
    }
    const platform *p = e->options.platform;
    platform_thread *thread = e->thread;
    monitor_enter(&e->monitor);
    pawl_status status = wait_for_end(e, timeout_s, NULL, "closing", err);
    monitor_leave(&e->monitor);
    engine_watch_end(e);
    engine_ahead_end(e);
    monitor_enter(&e->monitor);
    bool lost = e->active;
    bool copies = !lost && e->readers > 0;
    if (lost) {
        status = leave_behind(e, status, err);
    }
    monitor_leave(&e->monitor);
    if (lost) { /* the engine is its thread's now */
        p->thread_abandon(p->context, thread);
        return status;
    }
    reap(e);
    if (copies) {
        return leave_to_mover(e, err);
    }
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

static uint64_t file_chunks(const engine *e, const plan_file *file) {
    return file->bytes / e->buffer_bytes + (file->bytes % e->buffer_bytes != 0);
}

static pawl_status refuse_parts(const engine *e, size_t part, pawl_error *err) {
    char text[32];
    error_set(err, PAWL_EUSAGE,
              "budget_bytes is too small for this storage, which takes parts of at least %s",
              text_bytes(text, part));
    error_expected(err, "at least %zu: two parts", 2 * part);
    error_found(err, "%zu", e->options.budget_bytes);
    error_next(err, "give a larger budget_bytes");
    return PAWL_EUSAGE;
}

pawl_status engine_fit(engine *e, const store *s, pawl_error *err) {
    size_t part = s->traits.part_bytes_min;
    if (part <= e->buffer_bytes) {
        return PAWL_OK;
    }
    if (part > e->options.budget_bytes / 2) {
        return refuse_parts(e, part, err);
    }
    engine_buffers_from(e, e->allocator);
    e->options.part_bytes_min = part;
    set_limits(e);
    return PAWL_OK;
}

uint64_t engine_file_limit(const engine *e, const store *s) {
    return (uint64_t)s->traits.parts_max * e->buffer_bytes;
}

static pawl_status too_many_parts(const plan_file *file, uint64_t parts, uint32_t parts_max,
                                  pawl_error *err) {
    char bytes[32];
    error_set(err, PAWL_ELIMIT, "the data file %s, of %s, would take %llu parts", file->name,
              text_bytes(bytes, file->bytes), (unsigned long long)parts);
    error_expected(err, "at most %u, which is what the storage takes", parts_max);
    error_next(err, "add the tensor as several boxes, or save it from several ranks");
    return PAWL_ELIMIT;
}

static pawl_status prepare_parts(engine *e, const plan_layout *layout, uint32_t parts_max,
                                 pawl_error *err) {
    e->parts = mem_calloc(layout->file_count, sizeof(*e->parts));
    if (e->parts == NULL) {
        return error_nomem(err, layout->file_count * sizeof(*e->parts));
    }
    e->chunks = 0;
    e->unfilled_first = 0;
    for (size_t i = 0; i < layout->file_count; i++) {
        uint64_t chunks = file_chunks(e, &layout->files[i]);
        assert(chunks > 0); /* there is a header */
        if (parts_max != 0 && chunks > parts_max) {
            return too_many_parts(&layout->files[i], chunks, parts_max, err);
        }
        e->parts[i] = (engine_part){.unfilled = chunks - 1, .unwritten = chunks};
        e->chunks += chunks;
        e->unfilled_first += i < layout->copied_files ? chunks : 0;
    }
    return PAWL_OK;
}

/* That of the first tensor whose provider has one; NULL: none. */
static const pawl_memory *find_allocator(const plan_layout *layout) {
    for (size_t i = 0; layout->snapshot->provided && i < layout->piece_count; i++) {
        const pawl_memory *memory = layout->pieces[i].entry->memory;
        if (memory != NULL && memory->allocate != NULL) {
            return memory;
        }
    }
    return NULL;
}

static pawl_status prepare_providers(engine *e, const plan_layout *layout, pawl_error *err) {
    e->provided = layout->snapshot->provided;
    const pawl_memory *allocator = find_allocator(layout);
    if (e->provided && allocator != e->allocator) {
        engine_buffers_from(e, allocator);
    }
    return e->provided ? engine_need_mover(e, err) : PAWL_OK;
}

static pawl_status prepare_save(engine *e, const plan_layout *layout, uint32_t parts_max,
                                pawl_error *err) {
    TRY(prepare_checksums(e, layout, err));
    TRY(prepare_parts(e, layout, parts_max, err));
    TRY(prepare_providers(e, layout, err));
    e->small = e->options.io == PAWL_IO_AUTO && layout->bytes <= e->buffer_bytes;
    if (!e->small) {
        TRY(engine_slab_make(e, err));
    }
    if (e->options.checking) {
        TRY(engine_checks_new(e, layout, &e->checks, err));
    }
    return PAWL_OK;
}

static void reset_thread(engine *e) {
    e->told_ns = e->begun_ns;
    e->draining = false;
}

static void reset_times(engine *e) {
    e->begun_ns = engine_now(e);
    e->called_ns = e->job.called_ns != 0 ? e->job.called_ns : e->begun_ns;
    e->first_write_ns = 0;
    e->written_ns = 0;
    e->commit_begun_ns = 0;
    e->ended_ns = 0;
    e->tidied_ns = 0;
    e->fence_copy_ns = 0;
    e->fence_wait_ns = 0;
}

static void reset(engine *e, const engine_job *job) {
    e->job = *job;
    e->total = job->layout->bytes;
    snprintf(e->directory, sizeof(e->directory), "%s", job->directory);
    reset_times(e);
    e->cancelled = false;
    e->stopped = false;
    e->committing = false;
    e->committed = false;
    e->release_begun = false;
    e->released = false;
    e->next_file = 0;
    e->next_at = 0;
    e->written = 0;
    e->chunks_written = 0;
    e->file_name[0] = '\0';
    e->fenced = false;
    e->copy_status = PAWL_OK;
    e->memory_hangs = false;
    e->stats = (engine_stats){.bytes = e->total, .budget_bytes = e->buffer_limit * e->buffer_bytes};
    engine_buffers_reset(e);
    reset_thread(e);
    engine_mark_progress(e);
    engine_mark_copy(e);
    e->active = true;
}

static pawl_status start_save(engine *e, const engine_job *job, pawl_error *err) {
    const platform *p = e->options.platform;
    TRY(prepare_save(e, job->layout, job->store->traits.parts_max, err));
    monitor_enter(&e->monitor);
    reset(e, job);
    monitor_leave(&e->monitor);
    log_write(&e->log, PAWL_LOG_DEBUG, "step %lld: writing %llu bytes in %zu files",
              (long long)job->step, (unsigned long long)job->layout->bytes,
              job->layout->file_count);
    TRY(engine_watch(e, err));
    TRY(p->thread_start(p->context, engine_body, e, &e->thread, err));
    engine_ahead_begin(e);
    return PAWL_OK;
}

pawl_status engine_ready(engine *e, pawl_error *err) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    if (!e->active) {
        return PAWL_OK;
    }
    if (in_flight(e)) {
        return error_set(err, PAWL_EINTERNAL, "engine: a save is in flight");
    }
    char quiet[32];
    error_set(err, PAWL_EIO, "nothing can be saved while the save of step %lld hangs",
              (long long)e->job.step);
    error_path(err, "%s/%s", e->job.store->root, e->directory);
    if (e->memory_hangs) {
        text_seconds(quiet, engine_seconds(engine_now(e) - e->copy_progress_ns));
        error_found(err, "no answer from the memory \"%s\" for %s", e->hanging, quiet);
        error_next(err, "look at the device (its driver's log); a job that is to end can: "
                        "pawl_run_close leaves that save behind");
        return PAWL_EIO;
    }
    error_found(err, "no answer from the storage for %s",
                text_seconds(quiet, engine_seconds(engine_now(e) - e->progress_ns)));
    error_next(err, "look at the storage (the kernel's log, or the server of a network mount); a "
                    "job that is to end can: pawl_run_close leaves that save behind");
    return PAWL_EIO;
}

pawl_status engine_begin(engine *e, const engine_job *job, pawl_error *err) {
    TRY(engine_ready(e, err));
    reap(e);
    pawl_status status = start_save(e, job, err);
    if (status != PAWL_OK) {
        monitor_enter(&e->monitor);
        e->active = false;
        monitor_leave(&e->monitor);
        job_free(e);
        error_wrap(err, "starting to save step %lld", (long long)job->step);
    }
    return status;
}

/* ---- while it is in flight ---- */

bool engine_busy(engine *e) {
    monitor_enter(&e->monitor);
    bool busy = in_flight(e);
    monitor_leave(&e->monitor);
    return busy;
}

void engine_made_progress(engine *e) {
    monitor_enter(&e->monitor);
    engine_mark_progress(e);
    monitor_leave(&e->monitor);
}

void engine_committed(engine *e) {
    monitor_enter(&e->monitor);
    engine_set_doing(e, ENGINE_TIDYING);
    e->committed = true;
    e->ended_ns = engine_now(e); /* also of a save that was reported as hung */
    if (!e->hung) {
        e->outcome = PAWL_OK;
        e->story = ERROR_INIT;
    }
    monitor_leave(&e->monitor);
}

pawl_status engine_wait(engine *e, double timeout_s, interrupt *stop, pawl_status *outcome,
                        pawl_error *story, engine_stats *stats, pawl_error *err) {
    monitor_enter(&e->monitor);
    pawl_status status = wait_for_end(e, timeout_s, stop, "waiting for the save", err);
    if (status == PAWL_OK) {
        *outcome = e->outcome;
        *story = e->story;
    }
    if (e->active) {
        engine_stats_update(e);
    }
    *stats = e->stats;
    bool ended = !e->active;
    monitor_leave(&e->monitor);
    if (status == PAWL_OK && ended) {
        reap(e);
    }
    return status;
}

bool engine_cancel(engine *e) {
    monitor_enter(&e->monitor);
    bool in_time = in_flight(e) && !e->committing;
    if (in_time) {
        e->cancelled = true;
        engine_announce(e);
    }
    monitor_leave(&e->monitor);
    return in_time;
}

/* Seconds from one time to another, at most to the end; a time of 0 was not reached. */
static double part_s(uint64_t from_ns, uint64_t to_ns, uint64_t end_ns) {
    uint64_t until_ns = to_ns != 0 && to_ns < end_ns ? to_ns : end_ns;
    return from_ns != 0 && from_ns < until_ns ? engine_seconds(until_ns - from_ns) : 0;
}

void engine_stats_update(engine *e) {
    uint64_t now_ns = engine_now(e);
    uint64_t end_ns = e->ended_ns != 0 ? e->ended_ns : now_ns;
    e->stats.written_bytes = e->written;
    e->stats.total_s = engine_seconds(end_ns - e->called_ns);
    e->stats.prepare_s = engine_seconds(e->begun_ns - e->called_ns);
    e->stats.write_s = part_s(e->first_write_ns, e->written_ns, end_ns);
    e->stats.sync_s = part_s(e->written_ns, e->commit_begun_ns, end_ns);
    e->stats.commit_s = part_s(e->commit_begun_ns, end_ns, end_ns);
    e->stats.tidy_s = e->committed ? part_s(end_ns, e->tidied_ns, now_ns) : 0;
    e->stats.fence_copy_s = engine_seconds(e->fence_copy_ns);
    e->stats.fence_wait_s = engine_seconds(e->fence_wait_ns);
}

void engine_stats_now(engine *e, engine_stats *out) {
    monitor_enter(&e->monitor);
    if (e->active) {
        engine_stats_update(e);
    }
    *out = e->stats;
    monitor_leave(&e->monitor);
}

void engine_written(engine *e, uint64_t *written, uint64_t *of) {
    monitor_enter(&e->monitor);
    *written = e->written;
    *of = e->total;
    monitor_leave(&e->monitor);
}
