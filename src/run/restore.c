/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores one checkpoint on all ranks: the newest that is whole on all of them (R11).
 *
 * First meeting: every rank says which step it asks for; rank 0 chooses the candidate, which all
 * try (restore/joint.c). Where it is damaged for one of them they take the next older one. A
 * process alone does the same, and meets nobody.
 */
#include "run/restore.h"
#include "checkpoint/step_directory.h"

#include <stdio.h>

/* ---- every rank ----------------------------------------------------------------------------- */

static pawl_status meet_for_step(run_restoring *r, pawl_status status, const pawl_error *story,
                                 pawl_error *err) {
    CLEANUP(buffer_free) buffer mine = {0};
    const int64_t *asked = r->joint.all.options != NULL ? r->joint.all.options->step : NULL;
    const restore_request q = {.has_step = asked != NULL, .step = asked != NULL ? *asked : 0};
    meeting m = {
        .what = "restore", .status = status, .failed = story, .judge = restore_judge_requests};
    TRY(restore_request_encode(&q, &mine, err));
    return joint_meet(&r->joint, &m, &mine, err);
}

/* On storage that is not coherent a proof of absence makes what is there visible
 * (store/evidence.h). */
static bool has_appeared(const run_restoring *r) {
    struct pawl_error ignored = ERROR_INIT;
    char directory[32];
    bool present;
    name_step(directory, r->joint.step);
    return !r->run->store->traits.coherent &&
           step_prove_manifest(r->run->store, directory, &present, &ignored) == PAWL_OK && present;
}

/* Rank 0 has seen the candidate, and marks that it is being read, so that it stays. On another rank
 * it may take a while to appear. */
static pawl_status open_candidate(joint_restore *j, pawl_error *err) {
    const run_restoring *r = j->context;
    pawl_run *run = r->run;
    ranks_pause pause = {0};
    double timeout_s = run->ranks->rank == 0 ? 0 : ranks_appear_timeout_s(run->ranks);
    uint64_t deadline_ns = platform_deadline_ns(run->platform, timeout_s);
    pawl_checkpoint_close(j->checkpoint);
    j->checkpoint = NULL;
    for (;;) {
        pawl_status status = checkpoint_open_for_call(run->store, j->step, run->platform, &run->log,
                                                      run->ranks->rank == 0, &j->checkpoint, err);
        if (status != PAWL_ENOTFOUND || platform_late(run->platform, deadline_ns)) {
            return status;
        }
        if (interrupt_said(&run->stop)) {
            return interrupt_error(err);
        }
        if (!has_appeared(r)) {
            ranks_sleep(run->ranks, &pause, deadline_ns);
        }
    }
}

static pawl_status restore_with_all(run_restoring *r, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status settled = run_settle(r->run, &story);
    TRY(meet_for_step(r, settled, &story, err));
    do {
        TRY(joint_try(&r->joint, err));
    } while (r->joint.next != JOINT_GO_ON);
    return PAWL_OK;
}

/* ---- report, log and event ------------------------------------------------------------------ */

static void log_restored(const joint_restore *j) {
    char bytes[32];
    const pawl_report_counts *counts = report_counts(j->all.report);
    log_write(&j->ranks->log, PAWL_LOG_INFO, "restored step %lld: %llu %s, %s", (long long)j->step,
              (unsigned long long)counts->restored, text_noun(counts->restored, "entry", "entries"),
              text_bytes(bytes, counts->bytes));
}

static void record_restored(pawl_run *run, const restoration *all, pawl_status status,
                            const pawl_error *story, uint64_t begun_ns) {
    char message[2048];
    const platform *os = run->platform;
    const int64_t *asked = all->options != NULL ? all->options->step : NULL;
    event_restore restore = {.fallbacks = all->fallbacks, .fallback_count = all->fallback_count};
    if (status == PAWL_OK) {
        restore.counts = *report_counts(all->report);
    } else {
        error_line(message, sizeof(message), story);
    }
    const pawl_event event = {.kind = PAWL_EVENT_RESTORED,
                              .step = status == PAWL_OK ? run->restored_step
                                      : asked != NULL   ? *asked
                                                        : -1,
                              .status = status,
                              .message = status == PAWL_OK ? NULL : message,
                              .done_bytes = restore.counts.bytes,
                              .seconds = platform_since_s(os, begun_ns)};
    events_report(run->events, &event, &restore, EVENTS_ALL);
}

static pawl_status end_restoring(run_restoring *r, pawl_status status, pawl_error *err) {
    if (status == PAWL_OK) {
        r->run->restored_step = r->joint.step;
        log_restored(&r->joint);
        return PAWL_OK;
    }
    joint_end_report(&r->joint, status);
    error_wrap(err, "restoring");
    return status;
}

static void run_restoring_free(run_restoring *r) {
    restoration_free(&r->joint.all);
    pawl_checkpoint_close(r->joint.checkpoint);
    step_scan_free(&r->scan);
    mem_free(r);
}

/* Until the call ends: whom this restore asks whether it is to end. */
static void ask_for_restore(pawl_run *run, const pawl_restore_options *o) {
    if (o != NULL && o->interrupted != NULL) {
        run->stop = (interrupt){.ask = o->interrupted, .context = o->interrupted_context};
    }
    run->stop.said = false;
}

pawl_status run_restore(pawl_run *run, pawl_state *state, const pawl_restore_options *options,
                        pawl_report **report, pawl_error *err) {
    uint64_t begun_ns = platform_now_ns(run->platform);
    run_restoring *r = mem_calloc(1, sizeof *r);
    if (report != NULL) {
        *report = NULL;
    }
    if (r == NULL) {
        return error_nomem(err, sizeof *r);
    }
    const interrupt asked = run->stop;
    ask_for_restore(run, options);
    r->run = run;
    r->scan = step_scan_of(run->store, run->platform);
    r->joint = (joint_restore){.ranks = run->ranks,
                               .all = {.state = state,
                                       .stop = &run->stop,
                                       .hang_timeout_s = run->timeout_s,
                                       .options = options,
                                       .rank = run->ranks->rank,
                                       .world_size = run->ranks->world_size,
                                       .report_wanted = report != NULL,
                                       .job = run->ranks->world_size > 1},
                               .no_fallback = options != NULL &&
                                              (options->step != NULL || options->no_fallback),
                               .context = r,
                               .open = open_candidate,
                               .pass_over = restore_decide_next};
    pawl_status status = end_restoring(r, restore_with_all(r, err), err);
    record_restored(run, &r->joint.all, status, err, begun_ns);
    restore_end(&r->joint.all, status, report);
    run_restoring_free(r);
    run->stop = asked;
    return status;
}
