/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One save: snapshot and layout on the trainer's thread, which does no I/O; room, directory, index,
 * manifest and what follows on the engine's. The order and its reasons are in commit/commit.c.
 */
#include "run/save.h"
#include "checkpoint/step_directory.h"
#include "store/evidence.h"

#include <stdio.h>
#include <string.h>

static void save_free(save *s) {
    if (s == NULL) {
        return;
    }
    index_ahead_free(s->index);
    replica_sums_free(s->sums);
    plan_kept_keep(&s->run->kept, s->layout, s->snapshot);
    manifest_free(&s->manifest);
    mem_free(s);
}

static void save_free_pointer(save **s) {
    save_free(*s);
}

/* ---- on the engine's thread ----------------------------------------------------------------- */

/* engine_job.released: the engine has read all that it writes. The sums of replicas also read what
 * this rank does not write, so the snapshot keeps the tensors until they are done, too. */
static void on_released(void *context) {
    save *s = context;
    replica_sums_wait(s->sums);
    state_snapshot_let_go(s->snapshot);
}

/* Without a manifest in the directory a pin belongs to no checkpoint: a killed save or an
 * interrupted removal has left it. It would pin the checkpoint of this save for ever. */
static void remove_stale_pin(const save *s) {
    char path[STORE_MAX_PATH];
    struct pawl_error story = ERROR_INIT;
    bool absent = false;
    pawl_status status = commit_prove_no_manifest(s->run->store, s->directory, &absent, &story);
    if (status == PAWL_OK && absent && owner_fresh(s->run->owner)) {
        snprintf(path, sizeof path, "%s/pinned", s->directory);
        status = store_unlink(s->run->store, path, &story);
    }
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        log_write(&s->run->log, PAWL_LOG_WARN, "%s", error_text(&story));
    }
}

/* Somebody removed it while it was open; where it was only moved, it is written to where it is. */
static pawl_status run_is_unseen(pawl_run *run, pawl_error *err) {
    atomic_store(&run->unseen, true);
    error_set(err, PAWL_ENOTFOUND, "the directory of the run is not there any more");
    run_error_path(run, err, "");
    error_next(err, "find out who removed it, then open the run again");
    return PAWL_ENOTFOUND;
}

static pawl_status make_directory(save *s, pawl_error *err) {
    if (save_of_many(s->run) && s->run->ranks->rank == 0) {
        leftovers_before_save(s->run, s->directory);
    }
    TRY(save_check_room(s, err));
    run_made_progress(s->run); /* the storage has answered: restart the hang timer */
    pawl_status status = store_make_dir(s->run->store, s->directory, err);
    if (status == PAWL_ENOTFOUND) {
        return run_is_unseen(s->run, err);
    }
    atomic_store(&s->run->unseen, false);
    s->directory_existed = status == PAWL_EBUSY; /* saving a step a second time */
    if (s->run->store->traits.objects) {
        store_stat found;
        struct pawl_error ignored = ERROR_INIT;
        store_catch_up(s->run->store);
        s->directory_existed =
            store_stat_path(s->run->store, s->directory, &found, &ignored) != PAWL_ENOTFOUND;
    }
    if (!s->directory_existed) {
        return status;
    }
    TRY(step_check_directory(s->run->store, s->directory, err));
    if (s->run->ranks->rank == 0) {
        remove_stale_pin(s);
    }
    return PAWL_OK;
}

static pawl_status on_prepare(void *context, pawl_error *err) {
    save *s = context;
    s->run->watched = s->engine;
    pawl_status status = make_directory(s, err);
    s->run->watched = NULL;
    return status;
}

static pawl_status make_pin(save *s, pawl_error *err) {
    char path[STORE_MAX_PATH];
    if (!s->pin || s->run->ranks->rank != 0) {
        return PAWL_OK;
    }
    snprintf(path, sizeof path, "%s/pinned", s->directory);
    pawl_status status = store_create_small(s->run->store, path, "", 0, NULL, err);
    s->made_pin = status == PAWL_OK;
    return status == PAWL_EBUSY ? PAWL_OK : status;
}

/* The save was not committed: its pin must not stay on the checkpoint that it was to replace. */
static void remove_pin(const save *s) {
    char path[STORE_MAX_PATH];
    struct pawl_error story = ERROR_INIT;
    snprintf(path, sizeof path, "%s/pinned", s->directory);
    if (s->made_pin && owner_fresh(s->run->owner) &&
        commit_never_names(s->run, s->directory, s->tag) &&
        store_unlink(s->run->store, path, &story) != PAWL_OK) {
        log_write(&s->run->log, PAWL_LOG_WARN, "%s", error_text(&story));
    }
}

/* Nothing here can fail the save any more. Leftovers are removed only now (I7). */
static void tidy_after_commit(save *s) {
    engine_committed(s->engine);
    commit_point_latest(s->run, s->step);
    run_made_progress(s->run);
    leftovers_after_commit(s->run, s->directory, s->tag, s->directory_existed);
    retention_run(s->run, s->step);
}

static pawl_status publish_alone(save *s, const index_input *input, pawl_error *err) {
    const index_writer index = index_writer_of(input);
    return commit_publish(s->run, s->directory, s->tag, &s->manifest, &index, err);
}

static pawl_status commit_save(save *s, const engine_file *files, pawl_error *err) {
    index_input input = {.files = files, .file_count = s->layout->file_count};
    TRY(make_pin(s, err));
    run_made_progress(s->run);
    TRY(index_ahead_wait(s->index, &input, err));
    run_made_progress(s->run);
    return save_of_many(s->run) ? save_with_ranks(s, &input, err) : publish_alone(s, &input, err);
}

static pawl_status on_commit(void *context, const engine_file *files, pawl_error *err) {
    save *s = context;
    s->run->watched = s->engine;
    pawl_status status = commit_save(s, files, err);
    if (status == PAWL_OK && s->run->ranks->rank == 0) {
        tidy_after_commit(s);
        save_publish_outcome_again(s, status, NULL);
    }
    s->run->watched = NULL;
    return status;
}

/* S08. Runs on a thread of its own, for on_done may never be called. Only the callback is called:
 * the events' file lies on the storage that hangs. */
static void on_hung(void *context, pawl_error *story) {
    save *s = context;
    run_say_safe(s->run, story);
    log_write(&s->run->log, PAWL_LOG_ERROR, "%s", error_text(story));
    s->hang_reported = true;
    save_report_engine_ended(s, story->status, story, EVENTS_CALL);
}

static void on_done(void *context, pawl_status status, pawl_error *err) {
    save *s = context;
    char bytes[32];
    char took[32];
    if (status == PAWL_OK) {
        log_write(&s->run->log, PAWL_LOG_INFO, "saved step %lld (%s) in %s", (long long)s->step,
                  text_bytes(bytes, s->layout->bytes),
                  text_seconds(took, save_stats_now(s).total_s));
    } else {
        save_failed_for_ranks(s, status, err);
        remove_pin(s);
        leftovers_remove_failed(s->run, s->directory, s->tag);
        save_publish_outcome_again(s, status, err);
        run_say_safe(s->run, err);
        log_write(&s->run->log, status == PAWL_ECANCELED ? PAWL_LOG_INFO : PAWL_LOG_ERROR, "%s",
                  error_text(err));
    }
    save_report_engine_ended(s, status, err, s->hang_reported ? EVENTS_FILE : EVENTS_ALL);
    save_free(s);
}

/* ---- on the trainer's thread ---------------------------------------------------------------- */

static pawl_status prepare_save(save *s, pawl_state *state, const pawl_save_options *options,
                                pawl_error *err) {
    TRY(state_snapshot_take(state, s->step, true, &s->snapshot, err));
    plan_layout_options layout = {.tag = s->tag,
                                  .rank = s->run->ranks->rank,
                                  .world_size = s->run->ranks->world_size,
                                  .split_bytes = engine_file_limit(s->run->engine, s->run->store)};
    TRY(plan_kept_make(&s->run->kept, s->snapshot, &layout, &s->layout, err));
    TRY(save_fill_manifest(s, options, err));
    if (save_of_many(s->run)) {
        TRY(replica_sums_start(s->snapshot, s->run->checking, s->engine, s->run->platform, &s->sums,
                               err));
        if (s->snapshot->copied) { /* they may change when this call returns */
            replica_sums_wait(s->sums);
        }
    }
    return index_ahead_start(s->layout, s->run->engine, s->run->platform, &s->index, err);
}

/* `*copying`: of the save, where tensors are still to be copied, held; NULL otherwise. */
static pawl_status start_save(save **owned, pawl_state *state, const pawl_save_options *options,
                              flight **copying, pawl_error *err) {
    save *s = *owned;
    TRY(prepare_save(s, state, options, err));
    *copying = s->snapshot->copied ? state_flight_hold(s->snapshot->flight) : NULL;
    s->run->stats.files = s->layout->file_count;
    s->run->stats.bytes = s->layout->bytes;
    s->begun = s->run->stats;
    save_report_begun(s);
    engine_job job = {.layout = s->layout,
                      .store = s->run->store,
                      .directory = s->directory,
                      .step = s->step,
                      .called_ns = s->begun_ns,
                      .read_elsewhere = s->sums != NULL,
                      .context = s,
                      .prepare = on_prepare,
                      .released = on_released,
                      .progress = save_on_progress,
                      .hung = on_hung,
                      .commit = on_commit,
                      .done = on_done};
    pawl_status status = engine_begin(s->run->engine, &job, err);
    if (status == PAWL_OK) {
        *owned = NULL; /* on_done frees it */
    }
    return status;
}

/* Returns the failure of the previous save, unless a call has returned it already. Of many ranks
 * one that only returns it begins no save, which fails this save on all the others; at the next
 * call these would only return that failure, and so on. So a cancelled save, which one rank alone
 * may have skipped or given up, is only logged, and the ranks save together again. */
static pawl_status return_previous_failure(pawl_run *run, const pawl_save_options *options,
                                           pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    if (!run->outcome_unreported) {
        return PAWL_OK;
    }
    pawl_status earlier = run_wait(run, options->deadline_s, NULL, &story);
    if (earlier == PAWL_ECANCELED && save_of_many(run) && !run->outcome_unreported) {
        log_write(&run->log, PAWL_LOG_WARN, "%s", error_text(&story));
        return PAWL_OK;
    }
    run->retry_keeps_number = earlier != PAWL_OK && !run->outcome_unreported;
    *err = earlier != PAWL_OK ? story : *err;
    return earlier;
}

/* S04: what to do while the previous save runs; *go_on is false when this one is skipped. */
static pawl_status wait_previous(pawl_run *run, int64_t step, const pawl_save_options *options,
                                 bool *go_on, pawl_error *err) {
    *go_on = true;
    run->stats.skipped = 0;
    if (run->on_busy != PAWL_ON_BUSY_WAIT) {
        save_take_outcome(run);
    }
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
    TRY(return_previous_failure(run, options, err));
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
    error_wrap(err, "saving step %lld", (long long)s->step);
    error_step(err, s->step);
    run_say_safe(run, err);
    run->stats.prepare_s = platform_since_s(run->platform, s->begun_ns);
    run->stats.total_s = run->stats.busy_wait_s + run->stats.prepare_s;
    save_report_ended(s, status, err, &run->stats, 0, EVENTS_ALL);
}

/* NULL when out of memory. */
static save *save_new(pawl_run *run, int64_t step, const pawl_save_options *options,
                      uint64_t called_ns) {
    save *s = mem_calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    s->run = run;
    s->engine = run->engine;
    s->called_ns = called_ns;
    s->begun_ns = platform_now_ns(run->platform);
    s->retries_before = store_retry_count(run->store);
    s->step = step;
    s->pin = options->pin != 0;
    name_step(s->directory, step);
    run->save_number += save_of_many(run) ? 0 : 1;
    save_tag(s->tag, run, run->save_number);
    run->previous_number = run->current_number;
    run->current_number = run->save_number;
    return s;
}

/* The save is under way. */
static pawl_status copy_tensors(pawl_run *run, flight *copying, double timeout_s,
                                uint64_t called_ns, pawl_error *err) {
    double within_s = timeout_s != 0 ? timeout_s : run->timeout_s;
    double left_s = within_s - platform_since_s(run->platform, called_ns);
    run->stop.said = false;
    pawl_status status = engine_copy_first(run->engine, left_s, &run->stop, err);
    if (status == PAWL_OK) {
        state_flight_has_copied(copying);
        return PAWL_OK;
    }
    run_give_up(run);
    run_say_safe(run, err);
    if (status != PAWL_EIO) { /* it hangs: what to look at is said already */
        error_next(err, "call pawl_wait before a tensor changes, then save again%s",
                   status == PAWL_ECANCELED ? ""
                                            : "; see whether the storage works, or give a larger "
                                              "deadline_s or budget_bytes");
    }
    return status;
}

static pawl_status try_save(pawl_run *run, pawl_state *state, int64_t step,
                            const pawl_save_options *options, bool *started, pawl_error *err) {
    bool go_on;
    CLEANUP(state_flight_let_go) flight *copying = NULL;
    const platform *os = run->platform;
    uint64_t called_ns = platform_now_ns(os);
    TRY(check_step(run, step, err));
    TRY(wait_previous(run, step, options, &go_on, err));
    if (!go_on) {
        return PAWL_OK;
    }
    CLEANUP(save_free_pointer) save *s = save_new(run, step, options, called_ns);
    if (s == NULL) {
        return error_nomem(err, sizeof *s);
    }
    double waited_s = (double)(s->begun_ns - called_ns) / NANOSECONDS;
    run->stats =
        (pawl_save_stats){.struct_size = sizeof run->stats, .step = step, .busy_wait_s = waited_s};
    run->retries_before = s->retries_before;
    atomic_store(&run->group_wait_ns, 0);
    atomic_store(&run->stop_waiting, false);
    atomic_store(&run->awaited_count, 0);
    pawl_status status = start_save(&s, state, options, &copying, err);
    if (status != PAWL_OK) {
        could_not_start(s, status, err);
        return status;
    }
    run->outcome_unreported = true;
    run->last_save_step = step;
    run->last_save_ns = called_ns;
    *started = true;
    return copying == NULL ? PAWL_OK
                           : copy_tensors(run, copying, options->deadline_s, called_ns, err);
}

pawl_status run_save(pawl_run *run, pawl_state *state, int64_t step,
                     const pawl_save_options *options, pawl_error *err) {
    bool started = false;
    if (save_of_many(run)) {
        save_count_call(run, step);
    }
    pawl_status status = try_save(run, state, step, options, &started, err);
    if (save_of_many(run) && !started && !run->retry_keeps_number) {
        bool busy = status == PAWL_EBUSY && run->on_busy == PAWL_ON_BUSY_ERROR;
        save_not_started(run, step, busy ? PAWL_OK : status, err);
    }
    return status;
}
