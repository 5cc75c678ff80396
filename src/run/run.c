/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is open for writing: opening, waiting for a save, closing. */
#include "checkpoint/checkpoint.h"
#include "path/path.h"
#include "run/join.h"

#include <stdio.h>
#include <string.h>

#define DEFAULT_LEASE_S      30.0
#define DEFAULT_TIMEOUT_S    600.0
#define DEFAULT_BUDGET_BYTES ((size_t)256 << 20)

/* As the public deadline_s: 0 is the default of the run, negative: do not wait. */
static double timeout_of(const pawl_run *run, double timeout_s) {
    if (timeout_s == 0) {
        return run->timeout_s;
    }
    return timeout_s < 0 ? 0 : timeout_s;
}

void run_say_safe(const pawl_run *run, pawl_error *err) {
    int64_t newest = atomic_load(&run->newest_step);
    if (newest >= 0 && atomic_load(&run->unseen)) {
        error_safe(err, "not known: step %lld was committed, and cannot be seen now",
                   (long long)newest);
    } else if (newest >= 0) {
        error_safe(err, "step %lld is committed and can be restored", (long long)newest);
    } else {
        error_safe(err, "this run has no checkpoint yet");
    }
}

void run_error_path(const pawl_run *run, pawl_error *err, const char *name) {
    if (run->store == NULL) {
        return; /* the run is not open yet */
    }
    error_path(err, "%s%s%s", run->store->root, name[0] != '\0' ? "/" : "", name);
}

/* ---- opening -------------------------------------------------------------------------------- */

static void warn_of_finding(void *context, const pawl_finding *finding) {
    pawl_run *run = context;
    if (finding->severity >= PAWL_SEVERITY_WARNING) {
        log_write(&run->log, PAWL_LOG_WARN, "storage of the run (%s): %s%s%s", finding->id,
                  finding->text, finding->next != NULL ? "\n  next:     " : "",
                  finding->next != NULL ? finding->next : "");
    }
}

static void warn_of_storage(pawl_run *run) {
    if (run->ranks->rank == 0 && log_wants(&run->log, PAWL_LOG_WARN)) {
        path_examine_filesystem(run->store, run->platform, warn_of_finding, run);
    }
}

size_t run_budget(const pawl_run_options *o) {
    return o->budget_bytes != 0 ? o->budget_bytes : DEFAULT_BUDGET_BYTES;
}

static void take_options(pawl_run *run, const pawl_run_options *o) {
    run->log = o->log != NULL ? *o->log : (pawl_log){0};
    run->stop = (interrupt){.ask = o->interrupted, .context = o->interrupted_context};
    run->lease_s = o->lease_s != 0 ? o->lease_s : DEFAULT_LEASE_S;
    run->timeout_s = o->deadline_s != 0 ? o->deadline_s : DEFAULT_TIMEOUT_S;
    run->on_busy = o->on_busy;
    run->save_every_steps = o->save_every_steps;
    run->save_every_s = o->save_every_s;
    run->retention = o->retention != NULL ? *o->retention : (pawl_retention){0};
    run->restored_step = -1;
    run->last_save_step = -1;
    run->called_step = -1;
    run->checking = o->checking != 0;
    run->stats.step = -1;
    run->last_save_ns = platform_now_ns(run->platform);
    atomic_init(&run->newest_step, -1);
    atomic_init(&run->unseen, false);
}

static pawl_status take_texts(pawl_run *run, const pawl_run_options *o, pawl_error *err) {
    if (o->framework != NULL) {
        run->framework = mem_strdup(o->framework);
        if (run->framework == NULL) {
            return error_nomem(err, strlen(o->framework) + 1);
        }
    }
    if (run->retention.metric != NULL) {
        run->retention_metric = mem_strdup(run->retention.metric);
        if (run->retention_metric == NULL) {
            return error_nomem(err, strlen(run->retention.metric) + 1);
        }
    }
    run->retention.metric = run->retention_metric;
    return PAWL_OK;
}

static pawl_status find_newest(pawl_run *run, pawl_error *err) {
    int64_t newest;
    TRY(catalog_newest(run->store, run->platform, &newest, err));
    atomic_store(&run->newest_step, newest);
    return PAWL_OK;
}

static pawl_status open_engine(pawl_run *run, const pawl_run_options *o, pawl_error *err) {
    engine_options options = {
        .platform = run->platform,
        .budget_bytes = run_budget(o),
        .make_ready = o->budget_ready != 0,
        .ready_first = o->budget_bytes != 0,
        .checking = o->checking != 0,
        .in_flight_bytes = o->in_flight_bytes,
        .io = o->io,
        .tuning = {.io_priority = o->io_priority, .cpus = o->cpus, .cpu_count = o->cpu_count},
        .bandwidth_bytes_per_s = o->bandwidth_bytes_per_s,
        .hang_timeout_s = o->hang_deadline_s != 0 ? o->hang_deadline_s : run->timeout_s,
        .log = &run->log};
    pawl_status status = engine_new(&options, &run->engine, err);
    if (status != PAWL_OK) {
        error_wrap(err, "open run");
        run_error_path(run, err, "");
    }
    return status;
}

/* Memory that nobody has would be given until the system ends this process, or another. */
static pawl_status check_ready_budget(const pawl_run *run, const pawl_run_options *o,
                                      pawl_error *err) {
    const platform *os = run->platform;
    uint64_t limit = os->memory_limit != NULL ? os->memory_limit(os->context) : UINT64_MAX;
    char text[32];
    if (o->budget_ready == 0 || run_budget(o) <= limit) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ENOMEM, "open run: this process cannot have the memory of budget_ready");
    run_error_path(run, err, "");
    error_expected(err,
                   "at most %llu (%s): the memory of this machine, or the limit of this process "
                   "(ulimit -v) or of its control group",
                   (unsigned long long)limit, text_bytes(text, limit));
    error_found(err, "budget_bytes %zu", run_budget(o));
    error_next(err, "give a smaller budget_bytes, or leave budget_ready unset");
    return PAWL_ENOMEM;
}

static pawl_status open_any(pawl_run *run, const pawl_run_options *o, pawl_error *err) {
    pawl_status status = run_options_check(o, err);
    if (status != PAWL_OK) {
        run_error_path(run, err, "");
        return status;
    }
    TRY(check_ready_budget(run, o, err));
    TRY(take_texts(run, o, err));
    return open_engine(run, o, err);
}

pawl_status run_open_guest(pawl_run *run, const pawl_run_options *o, pawl_error *err) {
    TRY(open_any(run, o, err));
    return events_new(run, o, err);
}

static void tend_run_owner(void *context) {
    owner_tend(context);
}

/* O5: earlier owners are evicted before it is read what is committed. */
static pawl_status become_owner(pawl_run *run, const pawl_run_options *o, pawl_error *err) {
    double wait_s = o->takeover_wait_s != 0 ? o->takeover_wait_s : run->lease_s + 5;
    TRY(owner_take(run->store, run->platform, &run->log, &run->stop, run->lease_s,
                   wait_s < 0 ? 0 : wait_s, &run->owner, err));
    snprintf(run->ranks->attempt, sizeof run->ranks->attempt, "%s", owner_attempt(run->owner));
    run->ranks->tend = tend_run_owner;
    run->ranks->tend_context = run->owner;
    return run->store->traits.objects
               ? object_settle_inherited(run, err)
               : evict_others(run->store, run->ranks->attempt, &run->log, err);
}

pawl_status run_open_store(pawl_run *run, const run_place *place, bool create, pawl_error *err) {
    pawl_status status = place->open(place->context, create, &run->store, err);
    run->ranks->store = run->store;
    return status;
}

pawl_status run_open_owner(pawl_run *run, const run_place *place, const pawl_run_options *o,
                           pawl_error *err) {
    TRY(run_open_store(run, place, true, err));
    TRY(open_any(run, o, err));
    TRY(reader_watch_new(&run->watch, err));
    TRY(leftovers_new(run, err));
    TRY(become_owner(run, o, err));
    TRY(events_new(run, o, err));
    TRY(find_newest(run, err));
    warn_of_storage(run);
    return owner_start_heartbeat(run->owner, err);
}

static void free_run(pawl_run *run) {
    struct pawl_error ignored = ERROR_INIT;
    if (run->engine != NULL) {
        (void)engine_free(run->engine, 0, &ignored);
    }
    events_free(run->events);
    reader_watch_free(run->watch);
    leftovers_free(run->leftovers);
    plan_kept_free(&run->kept);
    mem_free(run->framework);
    mem_free(run->retention_metric);
    ranks_free(run->ranks);
    store_destroy(run->store);
    mem_free(run);
}

static pawl_status open_run_parts(pawl_run *run, const run_place *place, const pawl_run_options *o,
                                  pawl_error *err) {
    rank_group *group;
    TRY(group_new(o->group, &group, err));
    TRY(ranks_new(group, run->platform, &run->ranks, err));
    run->ranks->log = run->log;
    run->ranks->stop = &run->stop;
    run->ranks->timeout_s = o->group_deadline_s != 0 ? o->group_deadline_s : run->timeout_s;
    return run->ranks->world_size == 1 ? run_open_owner(run, place, o, err)
                                       : join_open(run, place, o, err);
}

/* Only now each rank knows its storage. */
static pawl_status fit_engine(pawl_run *run, pawl_error *err) {
    pawl_status status = engine_fit(run->engine, run->store, err);
    if (status != PAWL_OK) {
        error_wrap(err, "open run");
        run_error_path(run, err, "");
    }
    return status;
}

pawl_status run_open_at(const run_place *place, const pawl_run_options *options, const platform *os,
                        pawl_run **out, pawl_error *err) {
    const pawl_run_options none = {.struct_size = sizeof none};
    const pawl_run_options *o = options != NULL ? options : &none;
    pawl_run *run = mem_calloc(1, sizeof *run);
    if (run == NULL) {
        return error_nomem(err, sizeof *run);
    }
    run->process = process_self();
    run->platform = os;
    take_options(run, o);
    pawl_status status = open_run_parts(run, place, o, err);
    if (status == PAWL_OK) {
        status = fit_engine(run, err);
    }
    if (status != PAWL_OK) {
        if (owner_release(run->owner)) {
            free_run(run);
        }
        return status;
    }
    *out = run;
    return PAWL_OK;
}

/* The `open` of a run_place whose store is open already. */
static pawl_status open_given_store(void *context, bool create, store **out, pawl_error *err) {
    (void)create;
    (void)err;
    store **given = context;
    *out = *given;
    *given = NULL;
    return PAWL_OK;
}

pawl_status run_open(store *s, const pawl_run_options *options, const platform *os, pawl_run **out,
                     pawl_error *err) {
    store *given = s;
    const run_place place = {.context = &given, .open = open_given_store};
    pawl_status status = run_open_at(&place, options, os, out, err);
    store_destroy(given); /* NULL, unless opening failed before it was taken */
    return status;
}

process_id run_process(const pawl_run *run) {
    return run->process;
}

pawl_status run_refuse_callback(const pawl_run *run, const char *call, pawl_error *err) {
    bool event = events_calls_us(run->events);
    if (!event && !run->stop.asking) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "%s: called from inside the run's own %s callback", call,
              event ? "event" : "`interrupted`");
    run_error_path(run, err, "");
    error_safe(err, "nothing was done");
    error_next(err, "let the callback keep what it needs, and call the run after it has returned");
    return PAWL_EUSAGE;
}

pawl_status run_refuse_guest(const pawl_run *run, const char *call, pawl_error *err) {
    if (run->ranks->rank == 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "%s: rank %d does not own the run", call, run->ranks->rank);
    run_error_path(run, err, "");
    error_safe(err, "nothing was done");
    error_next(err, "call it on rank 0");
    return PAWL_EUSAGE;
}

/* ---- waiting -------------------------------------------------------------------------------- */

pawl_status run_heartbeat(pawl_run *run, pawl_error *err) {
    return run->owner != NULL ? owner_renew(run->owner, err) : PAWL_OK;
}

pawl_status run_fence(pawl_run *run, double timeout_s, pawl_error *err) {
    pawl_status status = engine_fence(run->engine, timeout_of(run, timeout_s), err);
    if (status != PAWL_OK) {
        run_say_safe(run, err);
    }
    return status;
}

void run_stats_take(pawl_save_stats *to, const engine_stats *from) {
    to->bytes = from->bytes;
    to->written_bytes = from->written_bytes;
    to->total_s = to->busy_wait_s + from->total_s;
    to->prepare_s = from->prepare_s;
    to->write_s = from->write_s;
    to->sync_s = from->sync_s;
    to->commit_s = from->commit_s;
    to->tidy_s = from->tidy_s;
    to->fence_copy_s = from->fence_copy_s;
    to->fence_wait_s = from->fence_wait_s;
    to->fence_copied_bytes = from->fence_copied_bytes;
    to->budget_bytes = from->budget_bytes;
    to->budget_wanted_bytes = from->budget_wanted_bytes;
    to->io = from->io;
}

/* *outcome, *story: how the save went. The return value: whether the wait succeeded. `stop`: may be
 * NULL. */
static pawl_status await_save(pawl_run *run, double timeout_s, interrupt *stop,
                              pawl_status *outcome, pawl_error *story, pawl_error *err) {
    engine_stats stats = {0};
    *outcome = PAWL_OK;
    if (!run->outcome_unreported) {
        return PAWL_OK;
    }
    pawl_status status = engine_wait(run->engine, timeout_s, stop, outcome, story, &stats, err);
    run_stats_take(&run->stats, &stats);
    run->stats.group_wait_s = (double)atomic_load(&run->group_wait_ns) / NANOSECONDS;
    run->stats.retries = store_retry_count(run->store) - run->retries_before;
    if (status == PAWL_ETIMEOUT) {
        save_name_awaited(run, err);
        run_say_safe(run, err);
    }
    return status;
}

pawl_status run_settle(pawl_run *run, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status outcome;
    TRY(await_save(run, run->timeout_s, &run->stop, &outcome, &story, err));
    return engine_ready(run->engine, err);
}

static pawl_status wait_for_outcome(pawl_run *run, double timeout_s, interrupt *stop,
                                    pawl_save_stats *stats, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status outcome;
    pawl_status status = await_save(run, timeout_of(run, timeout_s), stop, &outcome, &story, err);
    if (stats != NULL) {
        *stats = run->stats;
    }
    if (status != PAWL_OK) {
        return status;
    }
    run->outcome_unreported = false;
    if (outcome != PAWL_OK) {
        *err = story;
    }
    return outcome;
}

pawl_status run_wait(pawl_run *run, double timeout_s, pawl_save_stats *stats, pawl_error *err) {
    return wait_for_outcome(run, timeout_s, NULL, stats, err);
}

int run_fenced(const pawl_run *run) {
    return engine_fenced(run->engine);
}

void run_fenced_tensors(const pawl_run *run, const char *const *names, size_t count,
                        uint8_t *fenced) {
    engine_fenced_entries(run->engine, names, count, fenced);
}

bool run_give_up(pawl_run *run) {
    atomic_store(&run->stop_waiting, true);
    return engine_cancel(run->engine);
}

pawl_status run_cancel(pawl_run *run, double timeout_s, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status outcome;
    if (run->outcome_unreported) {
        run_give_up(run);
    }
    return await_save(run, timeout_of(run, timeout_s), NULL, &outcome, &story, err);
}

pawl_status run_meet(pawl_run *run, double timeout_s, pawl_error *err) {
    pawl_status status = notes_exchange(run->ranks, timeout_of(run, timeout_s), err);
    if (status == PAWL_EPEER) {
        run_error_path(run, err, "");
        run_say_safe(run, err);
    }
    return status;
}

int run_due(const pawl_run *run, int64_t step) {
    if (step == run->last_save_step || step == run->restored_step) {
        return 0;
    }
    if (run->save_every_steps > 0 && step > 0 && step % run->save_every_steps == 0) {
        return 1;
    }
    return run->save_every_s > 0 &&
           platform_since_s(run->platform, run->last_save_ns) >= run->save_every_s;
}

/* What hangs is told, unless the wait for the save has told it: its advice does not hold any
 * more. */
static pawl_status tell_left_behind(const pawl_run *run, pawl_status outcome, pawl_status freed,
                                    const pawl_error *story, pawl_error *err) {
    if (outcome == PAWL_OK) {
        outcome = freed;
        *err = *story;
        run_say_safe(run, err);
    } else {
        error_next(err, "%s", story->next);
    }
    error_wrap(err, "close run");
    return outcome;
}

/* A save that hangs in the storage may still use the run: then nothing of it is freed. */
pawl_status run_close(pawl_run *run, double timeout_s, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    run->stop.said = false;
    save_give_up_retry(run);
    pawl_status outcome = wait_for_outcome(run, timeout_s, &run->stop, NULL, err);
    if (run->stop.said) {
        error_wrap(err, "close run");
        return outcome;
    }
    bool hangs = engine_ready(run->engine, &story) != PAWL_OK;
    if (hangs) {
        run_give_up(run);
    }
    pawl_status freed = engine_free(run->engine, 0, &story);
    run->engine = NULL;
    if (freed != PAWL_OK) {
        outcome = tell_left_behind(run, outcome, freed, &story, err);
    }
    if (freed != PAWL_OK && hangs) {
        if (run->owner != NULL) {
            owner_give_up(run->owner);
        }
        return outcome;
    }
    ranks_leave(run->ranks);
    if (owner_release(run->owner)) {
        free_run(run);
    }
    return outcome;
}
