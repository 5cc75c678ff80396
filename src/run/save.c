/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One save: snapshot, layout and room on the trainer's thread; index, manifest and what follows on
 * the engine's. The order and its reasons are in commit.c.
 */
#include "run/private.h"

#include <stdio.h>
#include <string.h>

#define NANOSECONDS 1e9

/* What a save owns from its begin to its end on the engine's thread. */
typedef struct save {
    pawl_run *run;
    engine *engine; /* the run's, which it may have left behind */
    state_snapshot *snapshot;
    plan_layout *layout;
    int64_t step;
    char directory[32];
    char tag[FORMAT_TAG_CHARS];
    bool pin;
    bool reused;    /* the directory was there before: files of another save may be in it */
    bool told_hung; /* the callback knows already that it failed */
    bool made_pin;
    uint64_t begun_ns;
    uint64_t retries_before; /* store_retry_count */
    pawl_save_stats begun;   /* what was known when the engine began */
    manifest manifest;
    index_ahead *index; /* the entries' part of the index, being made while the data is written */
} save;

static void save_free(save *s) {
    if (s == NULL) {
        return;
    }
    index_ahead_free(s->index);
    plan_layout_free(s->layout);
    state_snapshot_free(s->snapshot);
    manifest_free(&s->manifest);
    mem_free(s);
}

static void save_free_pointer(save **s) {
    save_free(*s);
}

/* ---- what people want to see in the manifest ------------------------------------------------ */

static pawl_status value_json(const state_entry *entry, buffer *out, pawl_error *err) {
    int64_t integer;
    double number;
    switch (entry->kind) {
    case PAWL_KIND_BOOL:
        return buffer_printf(out, err, "%s", entry->value[0] != 0 ? "true" : "false");
    case PAWL_KIND_INT64:
        memcpy(&integer, entry->value, sizeof integer);
        return buffer_printf(out, err, "%lld", (long long)integer);
    case PAWL_KIND_FLOAT64:
        memcpy(&number, entry->value, sizeof number);
        return buffer_json_number(out, number, err);
    case PAWL_KIND_STRING:
        return buffer_json_string(out, (const char *)entry->value, entry->value_bytes, err);
    case PAWL_KIND_JSON:
        return buffer_append(out, entry->value, entry->value_bytes, err);
    case PAWL_KIND_TENSOR:
    case PAWL_KIND_BYTES:
        break;
    }
    return buffer_printf(out, err, "null");
}

static pawl_status keep_text(manifest *m, const char *text, const char **out, pawl_error *err) {
    *out = arena_strdup(&m->memory, text);
    return *out != NULL ? PAWL_OK : error_nomem(err, strlen(text) + 1);
}

static bool is_hyperparameter(const state_entry *entry) {
    return entry->role == PAWL_ROLE_HYPERPARAMETER && !entry->per_rank &&
           entry->kind != PAWL_KIND_TENSOR && entry->kind != PAWL_KIND_BYTES;
}

static pawl_status add_hyperparameters(save *s, pawl_error *err) {
    manifest *m = &s->manifest;
    CLEANUP(buffer_free) buffer text = {0};
    size_t count = 0;
    for (size_t i = 0; i < s->snapshot->count; i++) {
        count += is_hyperparameter(s->snapshot->entries[i]);
    }
    m->hyperparameters = arena_alloc(&m->memory, count * sizeof *m->hyperparameters);
    if (m->hyperparameters == NULL) {
        return error_nomem(err, count * sizeof *m->hyperparameters);
    }
    for (size_t i = 0; i < s->snapshot->count; i++) {
        const state_entry *entry = s->snapshot->entries[i];
        if (entry->role == PAWL_ROLE_BATCH_SIGNATURE && entry->kind == PAWL_KIND_JSON) {
            TRY(keep_text(m, (const char *)entry->value, &m->batch_signature, err));
        }
        if (is_hyperparameter(entry)) {
            manifest_value *value = &m->hyperparameters[m->hyperparameter_count++];
            text.size = 0;
            TRY(value_json(entry, &text, err));
            TRY(keep_text(m, entry->name, &value->name, err));
            TRY(keep_text(m, (const char *)text.data, &value->json, err));
        }
    }
    return PAWL_OK;
}

static pawl_status check_metric_name(const pawl_metric *metrics, size_t i, pawl_error *err) {
    const char *name = metrics[i].name;
    const char *fault = "is a null pointer";
    bool valid = name != NULL && entry_name_valid(name, strlen(name), &fault);
    for (size_t j = 0; valid && j < i; j++) {
        if (strcmp(metrics[j].name, name) == 0) {
            fault = "is that of one before it";
            valid = false;
        }
    }
    if (valid) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "the name of metric %zu %s", i, fault);
    error_found(err, "%s", name != NULL ? name : "");
    error_next(err, "see pawl_save_options in pawl/run.h; nothing was written");
    return PAWL_EUSAGE;
}

static pawl_status add_metrics(save *s, const pawl_save_options *options, pawl_error *err) {
    manifest *m = &s->manifest;
    CLEANUP(buffer_free) buffer text = {0};
    m->metrics = arena_alloc(&m->memory, options->metric_count * sizeof *m->metrics);
    if (m->metrics == NULL) {
        return error_nomem(err, options->metric_count * sizeof *m->metrics);
    }
    for (size_t i = 0; i < options->metric_count; i++) {
        const pawl_metric *metric = &options->metrics[i];
        TRY(check_metric_name(options->metrics, i, err));
        manifest_value *value = &m->metrics[m->metric_count++];
        text.size = 0;
        TRY(buffer_json_number(&text, metric->value, err));
        TRY(keep_text(m, metric->name, &value->name, err));
        TRY(keep_text(m, (const char *)text.data, &value->json, err));
    }
    return PAWL_OK;
}

static pawl_status fill_manifest(save *s, const pawl_save_options *options, pawl_error *err) {
    manifest *m = &s->manifest;
    const platform *os = s->run->platform;
    m->version = FORMAT_VERSION;
    m->step = s->step;
    m->unix_time_ns = os->unix_time_ns(os->context);
    m->world_size = s->run->world_size;
    m->attempt = owner_attempt(s->run->owner);
    m->framework = s->run->framework != NULL ? s->run->framework : "";
    m->writer = "pawl " PAWL_VERSION;
    m->files = arena_alloc(&m->memory, s->layout->file_count * sizeof *m->files);
    if (m->files == NULL) {
        return error_nomem(err, s->layout->file_count * sizeof *m->files);
    }
    for (size_t i = 0; i < s->layout->file_count; i++) {
        const plan_file *file = &s->layout->files[i];
        m->files[m->file_count++] =
            (manifest_file){.name = file->name, .bytes = file->bytes, .rank = s->run->rank};
    }
    return add_metrics(s, options, err);
}

/* ---- room (S06) ----------------------------------------------------------------------------- */

/* The index, the manifest, directories: generous, for a check that is there to be early. */
static uint64_t overhead_bytes(const save *s) {
    return 65536 + s->layout->piece_count * 160 + s->layout->bytes / 2048;
}

static void no_room(const save *s, const char *what, pawl_error *err) {
    error_set(err, PAWL_ENOSPACE, "%s", what);
    error_path(err, "%s/%s", s->run->store->root, s->directory);
    error_step(err, s->step);
}

static pawl_status check_bytes(const save *s, const store_space *space, uint64_t need,
                               pawl_error *err) {
    char need_text[32];
    char free_text[32];
    char lack_text[32];
    if (space->free_bytes >= need) {
        return PAWL_OK;
    }
    text_bytes(need_text, need);
    text_bytes(free_text, space->free_bytes);
    text_bytes(lack_text, need - space->free_bytes);
    no_room(s, "there is not enough room for the checkpoint", err);
    error_expected(err, "%s free", need_text);
    error_found(err, "%s free on the filesystem at %s (%s)", free_text, space->mount_point,
                space->filesystem);
    error_next(err, "free %s, or keep fewer checkpoints", lack_text);
    return PAWL_ENOSPACE;
}

static pawl_status check_largest_file(const save *s, const store_space *space, pawl_error *err) {
    uint64_t largest = 0;
    char largest_text[32];
    char limit_text[32];
    for (size_t i = 0; i < s->layout->file_count; i++) {
        uint64_t bytes = s->layout->files[i].bytes;
        largest = bytes > largest ? bytes : largest;
    }
    if (largest <= space->max_file_bytes) {
        return PAWL_OK;
    }
    text_bytes(largest_text, largest);
    text_bytes(limit_text, space->max_file_bytes);
    no_room(s, "the checkpoint's largest file is larger than files may be", err);
    error_expected(err, "files of up to %s", largest_text);
    error_found(err, "a limit of %s (ulimit -f, or that of %s at %s)", limit_text,
                space->filesystem, space->mount_point);
    error_next(err, "raise the limit (ulimit -f unlimited), or save to another filesystem");
    return PAWL_ENOSPACE;
}

static pawl_status check_room(const save *s, pawl_error *err) {
    store_space space;
    TRY(store_space_of(s->run->store, &space, err));
    if (space.read_only) {
        error_set(err, PAWL_EPERMISSION, "the filesystem is mounted read-only");
        error_path(err, "%s/%s", s->run->store->root, s->directory);
        error_found(err, "%s at %s (%s)", space.filesystem, space.mount_point, space.mount_options);
        error_next(err, "remount it read-write (mount -o remount,rw %s), or save elsewhere",
                   space.mount_point);
        return PAWL_EPERMISSION;
    }
    TRY(check_bytes(s, &space, s->layout->bytes + overhead_bytes(s), err));
    uint64_t inodes = s->layout->file_count + 4; /* directory, index, manifest, hint */
    if (space.free_inodes < inodes) {
        no_room(s, "there are not enough inodes for the checkpoint's files", err);
        error_expected(err, "%llu free inodes", (unsigned long long)inodes);
        error_found(err, "%llu free on the filesystem at %s (%s)",
                    (unsigned long long)space.free_inodes, space.mount_point, space.filesystem);
        error_next(err, "remove files there, or save to another filesystem");
        return PAWL_ENOSPACE;
    }
    return check_largest_file(s, &space, err);
}

/* ---- events --------------------------------------------------------------------------------- */

static double seconds_since(const platform *os, uint64_t ns) {
    return (double)(os->monotonic_ns(os->context) - ns) / NANOSECONDS;
}

/* Any thread. While pawl_save has not returned, the time it took is the time so far. */
static pawl_save_stats stats_so_far(const save *s) {
    pawl_save_stats stats = s->begun;
    engine_stats moved;
    engine_stats_now(s->engine, &moved);
    run_stats_take(&stats, &moved);
    stats.retries = store_retry_count(s->run->store) - s->retries_before;
    uint64_t prepare_ns = atomic_load(&s->run->prepare_ns);
    stats.prepare_s = prepare_ns > 0 ? (double)prepare_ns / NANOSECONDS
                                     : seconds_since(s->run->platform, s->begun_ns);
    return stats;
}

static void tell_begun(const save *s) {
    const pawl_event event = {
        .kind = PAWL_EVENT_SAVE_BEGUN, .step = s->step, .of_bytes = s->layout->bytes};
    events_tell(s->run->events, &event, NULL, EVENTS_ALL);
}

static void on_progress(void *context, uint64_t written, uint64_t of) {
    const save *s = context;
    const pawl_event event = {.kind = PAWL_EVENT_SAVE_PROGRESS,
                              .step = s->step,
                              .done_bytes = written,
                              .of_bytes = of,
                              .seconds = seconds_since(s->run->platform, s->begun_ns)};
    events_tell(s->run->events, &event, NULL, EVENTS_ALL);
}

/* `written`: of the data files, after a failure. */
static void tell_ended(const save *s, pawl_status status, const pawl_error *story,
                       const pawl_save_stats *stats, uint64_t written, unsigned whom) {
    char message[2048];
    bool failed = status != PAWL_OK;
    if (failed) {
        error_line(message, sizeof message, story);
    }
    const pawl_event event = {.kind = PAWL_EVENT_SAVE_ENDED,
                              .step = s->step,
                              .status = status,
                              .message = failed ? message : NULL,
                              .done_bytes = failed ? written : stats->bytes,
                              .of_bytes = stats->bytes,
                              .seconds = stats->total_s,
                              .stats = stats};
    events_tell(s->run->events, &event, NULL, whom);
}

static void tell_end_of_engine(const save *s, pawl_status status, const pawl_error *story,
                               unsigned whom) {
    pawl_save_stats stats = stats_so_far(s);
    uint64_t written;
    uint64_t of;
    engine_progress(s->engine, &written, &of);
    tell_ended(s, status, story, &stats, written, whom);
}

/* ---- on the engine's thread ----------------------------------------------------------------- */

static void on_released(void *context) {
    save *s = context;
    state_snapshot_let_go(s->snapshot);
}

static pawl_status make_pin(save *s, pawl_error *err) {
    char path[STORE_MAX_PATH];
    CLEANUP(store_close_pointer) store_file *file = NULL;
    if (!s->pin) {
        return PAWL_OK;
    }
    snprintf(path, sizeof path, "%s/pinned", s->directory);
    pawl_status status = store_open(s->run->store, path, STORE_CREATE, &file, err);
    s->made_pin = status == PAWL_OK;
    return status == PAWL_EBUSY ? PAWL_OK : status;
}

/* Of a save that was not committed: the checkpoint that it was to replace is not pinned by it. */
static void remove_pin(const save *s) {
    char path[STORE_MAX_PATH];
    struct pawl_error story = ERROR_INIT;
    snprintf(path, sizeof path, "%s/pinned", s->directory);
    if (s->made_pin && owner_fresh(s->run->owner) &&
        !commit_may_name(s->run, s->directory, s->tag) &&
        store_unlink(s->run->store, path, &story) != PAWL_OK) {
        log_write(&s->run->log, PAWL_LOG_WARN, "%s", error_text(&story));
    }
}

/* Leftovers of earlier attempts wait for this handle's first commit (I7); those of a replaced save
 * for the commit that replaces it. */
static void sweep(save *s) {
    pawl_run *run = s->run;
    if (run->swept && !s->reused) {
        return;
    }
    struct pawl_error story = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    if (store_names(run->store, "", RUN_MAX_NAMES, &memory, &names, &count, &story) != PAWL_OK) {
        log_write(&run->log, PAWL_LOG_WARN, "%s", error_text(&story));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t step;
        bool wanted = !run->swept || strcmp(names[i], s->directory) == 0;
        if (wanted && name_step_parse(names[i], &step) &&
            garbage_sweep_step(run, names[i], false, NULL, NULL, &story) != PAWL_OK) {
            log_write(&run->log, PAWL_LOG_WARN, "%s", error_text(&story));
        }
    }
    run->swept = true;
}

/* What follows a commit: nothing of it can fail the save any more. */
static void tidy(save *s) {
    engine_committed(s->engine);
    s->run->tidying = s->engine;
    commit_point_latest(s->run, s->step);
    run_moved(s->run);
    sweep(s);
    retention_run(s->run, s->step);
    s->run->tidying = NULL;
}

static pawl_status on_commit(void *context, const engine_file *files, pawl_error *err) {
    save *s = context;
    index_input input = {.files = files, .file_count = s->layout->file_count};
    TRY(add_hyperparameters(s, err));
    TRY(make_pin(s, err));
    engine_moved(s->engine);
    TRY(index_ahead_wait(s->index, &input, err));
    engine_moved(s->engine);
    const index_writer index = index_writer_of(&input);
    TRY(commit_publish(s->run, s->directory, s->tag, &s->manifest, &index, err));
    tidy(s);
    return PAWL_OK;
}

/* S08, on a thread of its own: `done` may never come. The events' file lies on the storage that
 * hangs. */
static void on_hung(void *context, pawl_error *story) {
    save *s = context;
    run_say_safe(s->run, story);
    log_write(&s->run->log, PAWL_LOG_ERROR, "%s", error_text(story));
    s->told_hung = true;
    tell_end_of_engine(s, story->status, story, EVENTS_CALL);
}

static void on_done(void *context, pawl_status status, pawl_error *err) {
    save *s = context;
    char bytes[32];
    if (status == PAWL_OK) {
        log_write(&s->run->log, PAWL_LOG_INFO, "saved step %lld (%s)", (long long)s->step,
                  text_bytes(bytes, s->layout->bytes));
    } else {
        remove_pin(s);
        garbage_remove_attempt(s->run, s->directory, s->tag);
        run_say_safe(s->run, err);
        log_write(&s->run->log, status == PAWL_ECANCELED ? PAWL_LOG_INFO : PAWL_LOG_ERROR, "%s",
                  error_text(err));
    }
    tell_end_of_engine(s, status, err, s->told_hung ? EVENTS_FILE : EVENTS_ALL);
    save_free(s);
}

/* ---- on the trainer's thread ---------------------------------------------------------------- */

static pawl_status prepare(save *s, pawl_state *state, const pawl_save_options *options,
                           pawl_error *err) {
    TRY(state_snapshot_take(state, s->step, true, &s->snapshot, err));
    plan_layout_options layout = {
        .tag = s->tag, .rank = s->run->rank, .world_size = s->run->world_size};
    TRY(plan_layout_make(s->snapshot, &layout, &s->layout, err));
    TRY(fill_manifest(s, options, err));
    TRY(check_room(s, err));
    pawl_status status = store_make_dir(s->run->store, s->directory, err);
    s->reused = status == PAWL_EBUSY; /* saving a step a second time */
    return s->reused ? PAWL_OK : status;
}

static pawl_status start(save **owned, pawl_state *state, const pawl_save_options *options,
                         pawl_error *err) {
    save *s = *owned;
    TRY(prepare(s, state, options, err));
    TRY(index_ahead_start(s->layout, s->run->engine, s->run->platform, &s->index, err));
    s->run->stats.files = s->layout->file_count;
    s->run->stats.bytes = s->layout->bytes;
    s->begun = s->run->stats;
    tell_begun(s);
    engine_job job = {.layout = s->layout,
                      .store = s->run->store,
                      .directory = s->directory,
                      .step = s->step,
                      .context = s,
                      .released = on_released,
                      .progress = on_progress,
                      .hung = on_hung,
                      .commit = on_commit,
                      .done = on_done};
    pawl_status status = engine_begin(s->run->engine, &job, err);
    if (status == PAWL_OK) {
        *owned = NULL; /* on_done frees it */
    }
    return status;
}

/* S04: what to do while the previous save runs; *go_on is false when this one is skipped. */
static pawl_status meet_previous(pawl_run *run, int64_t step, const pawl_save_options *options,
                                 bool *go_on, pawl_error *err) {
    *go_on = true;
    run->stats.skipped = 0;
    if (engine_busy(run->engine) && run->on_busy == PAWL_ON_BUSY_SKIP) {
        run->stats.skipped = 1;
        *go_on = false;
        return PAWL_OK;
    }
    if (engine_busy(run->engine) && run->on_busy == PAWL_ON_BUSY_ERROR) {
        error_set(err, PAWL_EBUSY, "saving step %lld: the save of step %lld is still being written",
                  (long long)step, (long long)run->stats.step);
        run_error_path(run, err, "");
        run_say_safe(run, err);
        error_next(err, "call pawl_wait first, save less often, or choose PAWL_ON_BUSY_WAIT");
        return PAWL_EBUSY;
    }
    if (run->unseen) {
        TRY(run_wait(run, options->deadline_s, NULL, err));
    }
    pawl_status status = engine_ready(run->engine, err);
    if (status != PAWL_OK) {
        run_say_safe(run, err);
    }
    return status;
}

static pawl_status check_step(const pawl_run *run, int64_t step, pawl_error *err) {
    if (step >= 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "save: a step is 0 or more, not %lld", (long long)step);
    run_error_path(run, err, "");
    return PAWL_EUSAGE;
}

static void could_not_start(save *s, pawl_status status, pawl_error *err) {
    pawl_run *run = s->run;
    garbage_remove_attempt(run, s->directory, s->tag);
    error_wrap(err, "saving step %lld", (long long)s->step);
    error_step(err, s->step);
    run_say_safe(run, err);
    run->stats.prepare_s = seconds_since(run->platform, s->begun_ns);
    run->stats.total_s = run->stats.prepare_s;
    tell_ended(s, status, err, &run->stats, 0, EVENTS_ALL);
}

/* NULL when out of memory. */
static save *save_new(pawl_run *run, int64_t step, const pawl_save_options *options) {
    save *s = mem_calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    s->run = run;
    s->engine = run->engine;
    s->begun_ns = run->platform->monotonic_ns(run->platform->context);
    s->retries_before = store_retry_count(run->store);
    s->step = step;
    s->pin = options->pin != 0;
    name_step(s->directory, step);
    snprintf(s->tag, sizeof s->tag, "%s-%llu", owner_attempt(run->owner),
             (unsigned long long)++run->save_number);
    return s;
}

pawl_status run_save(pawl_run *run, pawl_state *state, int64_t step,
                     const pawl_save_options *options, pawl_error *err) {
    bool go_on;
    const platform *os = run->platform;
    TRY(check_step(run, step, err));
    uint64_t begun_ns = os->monotonic_ns(os->context);
    TRY(meet_previous(run, step, options, &go_on, err));
    if (!go_on) {
        return PAWL_OK;
    }
    double waited_s = seconds_since(os, begun_ns);
    CLEANUP(save_free_pointer) save *s = save_new(run, step, options);
    if (s == NULL) {
        return error_nomem(err, sizeof *s);
    }
    uint64_t started_ns = s->begun_ns;
    run->stats = (pawl_save_stats){.step = step, .busy_wait_s = waited_s};
    run->retries_before = s->retries_before;
    atomic_store(&run->prepare_ns, 0);
    pawl_status status = start(&s, state, options, err);
    if (status != PAWL_OK) {
        could_not_start(s, status, err);
        return status;
    }
    uint64_t prepare_ns = os->monotonic_ns(os->context) - started_ns;
    atomic_store(&run->prepare_ns, prepare_ns);
    run->stats.prepare_s = (double)prepare_ns / NANOSECONDS;
    run->unseen = true;
    run->last_save_step = step;
    run->last_save_ns = begun_ns;
    return PAWL_OK;
}

/* ---- the final save (S13) ------------------------------------------------------------------- */

static pawl_status did_not_fit(pawl_run *run, int64_t step, double grace_s, pawl_error *err) {
    uint64_t written;
    uint64_t of;
    char written_text[32];
    char of_text[32];
    char grace_text[32];
    engine_progress(run->engine, &written, &of);
    bool given_up = engine_cancel(run->engine);
    error_set(err, PAWL_ETIMEOUT, "the final save of step %lld did not fit into the grace time",
              (long long)step);
    run_error_path(run, err, "");
    error_step(err, step);
    error_expected(err, "durable within %s", text_seconds(grace_text, grace_s));
    error_found(
        err, "%s of %s written; %s", text_bytes(written_text, written), text_bytes(of_text, of),
        given_up ? "the save was given up" : "the commit is under way and may still succeed");
    run_say_safe(run, err);
    error_next(err, "ask the scheduler for more grace time, or save more often");
    return PAWL_ETIMEOUT;
}

pawl_status run_save_final(pawl_run *run, pawl_state *state, int64_t step,
                           const pawl_save_options *options, double grace_s, pawl_error *err) {
    const platform *os = run->platform;
    uint64_t begun_ns = os->monotonic_ns(os->context);
    pawl_save_options patient = *options;
    patient.deadline_s = grace_s;
    struct pawl_error earlier = ERROR_INIT;
    if (run->unseen && run_wait(run, grace_s, NULL, &earlier) != PAWL_OK) {
        if (engine_busy(run->engine)) {
            return did_not_fit(run, step, grace_s, err);
        }
        log_write(&run->log, PAWL_LOG_WARN, "before the final save: %s", error_text(&earlier));
    }
    TRY(run_save(run, state, step, &patient, err));
    double spent_s = (double)(os->monotonic_ns(os->context) - begun_ns) / NANOSECONDS;
    double left_s = grace_s > spent_s ? grace_s - spent_s : -1;
    pawl_status status = run_wait(run, left_s, NULL, err);
    if (status == PAWL_ETIMEOUT && engine_busy(run->engine)) {
        return did_not_fit(run, step, grace_s, err);
    }
    return status;
}
