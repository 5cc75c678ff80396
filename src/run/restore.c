/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Restores one checkpoint on all ranks: the newest that is whole on all of them (R11).
 *
 *   1 first meeting: every rank says which step it asks for; rank 0 chooses the candidate
 *   2 each rank opens the candidate and matches it with its state; they meet; where some lack
 *     entries that others may want they compare (wants.c), match again with the result, and meet
 *     once more
 *   3 each rank reads and verifies; they meet
 *
 * After 2 and 3 all go on, or all take the next older step because the candidate is damaged for one
 * of them, or all fail. No rank reads a byte into its state before the candidate fits all of them.
 * A process alone does the same, and meets nobody.
 */
#include "run/restore.h"
#include "checkpoint/step_directory.h"
#include "ranks/wire.h"

#include <stdio.h>

static const int64_t *asked_step(const joint_restore *j) {
    return j->all.options != NULL ? j->all.options->step : NULL;
}

static bool no_fallback(const joint_restore *j) {
    return asked_step(j) != NULL || (j->all.options != NULL && j->all.options->no_fallback);
}

/* ---- every rank ----------------------------------------------------------------------------- */

static pawl_status pass_over(joint_restore *j, const uint8_t *bytes, size_t n, pawl_error *err) {
    struct pawl_error why = ERROR_INIT;
    TRY(failure_decode(bytes, n, &why, err));
    log_write(&j->run->log, PAWL_LOG_WARN,
              "step %lld is damaged and is passed over for the next older one: %s",
              (long long)j->step, error_text(&why));
    return restore_pass_over(&j->all, j->step, &why, err);
}

static pawl_status take_decision(joint_restore *j, const buffer *answer, pawl_error *err) {
    cursor c = cursor_of(answer->data, answer->size, 0, "answer of rank 0");
    uint8_t what = 0;
    uint64_t step = 0;
    TRY(cursor_u8(&c, &what, err));
    TRY(cursor_u64le(&c, &step, err));
    if (what < RESTORE_GO_ON || what > RESTORE_NOBODY_WANTS) {
        return wire_damaged(&c, "unknown kind", err);
    }
    if (cursor_left(&c) > 0) {
        TRY(pass_over(j, c.data + c.at, cursor_left(&c), err));
    }
    j->next = (restore_decision)what;
    j->step = (int64_t)step;
    return PAWL_OK;
}

/* A failure is that of all; but a rank whose own state the step does not fit keeps its own failure
 * and report. */
static pawl_status meet_to_restore(joint_restore *j, meeting *m, const restore_request *q,
                                   pawl_error *err) {
    CLEANUP(buffer_free) buffer mine = {0};
    CLEANUP(buffer_free) buffer answer = {0};
    TRY(restore_request_encode(q, &mine, err));
    m->mine = mine.data;
    m->mine_bytes = mine.size;
    m->context = j;
    pawl_status status = ranks_meet(j->run->ranks, m, &answer, err);
    if (status == PAWL_EMISMATCH && m->status == PAWL_EMISMATCH) {
        *err = *m->failed;
    }
    return status == PAWL_OK ? take_decision(j, &answer, err) : status;
}

static pawl_status meet_for_step(joint_restore *j, pawl_status status, const pawl_error *story,
                                 pawl_error *err) {
    const int64_t *asked = asked_step(j);
    const restore_request q = {.has_step = asked != NULL, .step = asked != NULL ? *asked : 0};
    meeting m = {
        .what = "restore", .status = status, .failed = story, .judge = restore_judge_requests};
    return meet_to_restore(j, &m, &q, err);
}

/* Some bytes of a damaged newer step are in the state, and this older step does not fit it:
 * that is PAWL_EDAMAGED. */
static pawl_status as_damage_if_touched(const restoration *all, pawl_status status,
                                        pawl_error *err) {
    if (status != PAWL_EMISMATCH || all->touched_count == 0) {
        return status;
    }
    error_wrap(err,
               "step %lld is damaged, its bytes are in part in the tensors already, and the next "
               "older checkpoint does not fit the state",
               (long long)all->touched_step);
    error_safe(err, "the checkpoints are as they were; the state is not");
    err->status = PAWL_EDAMAGED;
    return PAWL_EDAMAGED;
}

/* `wants`: of a match that was not compared with the other ranks' yet; or NULL. */
static pawl_status meet_for_result(joint_restore *j, const char *what, pawl_status status,
                                   pawl_error *story, const wants_head *wants, pawl_error *err) {
    pawl_status own = as_damage_if_touched(&j->all, status, story);
    restore_request q = {.step = j->step,
                         .no_fallback = no_fallback(j) || j->all.mixed || own != status};
    if (wants != NULL && own == status) {
        q.matched = true;
        q.wants = *wants;
    }
    meeting m = {.what = what, .status = own, .failed = story, .judge = restore_judge_results};
    TRY(meet_to_restore(j, &m, &q, err));
    bool can_follow =
        j->next == RESTORE_GO_ON ? own == PAWL_OK : j->next == RESTORE_TAKE_STEP || q.matched;
    return can_follow ? PAWL_OK
                      : error_set(err, PAWL_EDAMAGED,
                                  "%s: rank 0 decided to go on, and this rank has failed", what);
}

/* On storage that is not coherent a proof of absence makes what is there visible
 * (store/evidence.h). */
static bool has_appeared(const joint_restore *j) {
    struct pawl_error ignored = ERROR_INIT;
    char directory[32];
    bool present;
    name_step(directory, j->step);
    return !j->run->store->traits.coherent &&
           step_prove_manifest(j->run->store, directory, &present, &ignored) == PAWL_OK && present;
}

/* Rank 0 has seen the candidate, and marks that it is being read, so that it stays. On another rank
 * it may take a while to appear. */
static pawl_status open_candidate(joint_restore *j, pawl_error *err) {
    pawl_run *run = j->run;
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
        if (!has_appeared(j)) {
            ranks_sleep(run->ranks, &pause, deadline_ns);
        }
    }
}

/* *wants: what this rank lacks, for the other ranks; entries is 0 where there was no match. */
static pawl_status try_match(joint_restore *j, wants_head *wants, pawl_error *err) {
    struct pawl_error failure = ERROR_INIT;
    restore_end_candidate(&j->all);
    match_job_faults_free(&j->all.faults);
    j->all.compared = false;
    *wants = (wants_head){.entries = 0};
    TRY(open_candidate(j, err));
    pawl_status status = restore_match(&j->all, j->checkpoint, err);
    if (j->all.job && j->all.now.match != NULL &&
        wants_head_make(j->all.now.match, wants, &failure) != PAWL_OK) {
        *err = failure;
        return failure.status;
    }
    return status;
}

/* Compares with the other ranks. Where that shows faults the match is made again, so that the
 * report has all of them. `status` and `story` are those of the match so far. */
static pawl_status match_as_job(joint_restore *j, pawl_status status, const pawl_error *story,
                                pawl_error *err) {
    struct pawl_error failure = ERROR_INIT;
    pawl_status own = PAWL_OK;
    if (j->next == RESTORE_NOBODY_WANTS) {
        own = wants_nobody(j->all.now.match, &j->all.faults, &failure);
    } else {
        TRY(wants_compare(j->run->ranks, j->all.now.match, &j->all.faults, &own, &failure, err));
    }
    j->all.compared = true;
    if (own == PAWL_OK && j->all.faults.count > 0) {
        own = restore_match(&j->all, j->checkpoint, &failure);
    } else if (own == PAWL_OK) {
        own = status;
        failure = *story;
    }
    return meet_for_result(j, "restore: match", own, &failure, NULL, err);
}

static pawl_status try_step(joint_restore *j, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    wants_head wants;
    pawl_status status = try_match(j, &wants, &story);
    TRY(meet_for_result(j, "restore: match", status, &story, wants.entries > 0 ? &wants : NULL,
                        err));
    if (j->next == RESTORE_COMPARE || j->next == RESTORE_NOBODY_WANTS) {
        TRY(match_as_job(j, status, &story, err));
    }
    if (j->next != RESTORE_GO_ON) {
        return PAWL_OK;
    }
    story = ERROR_INIT;
    status = restore_read(&j->all, &story);
    return meet_for_result(j, "restore: read", status, &story, NULL, err);
}

static pawl_status restore_with_all(joint_restore *j, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status settled = run_settle(j->run, &story);
    TRY(meet_for_step(j, settled, &story, err));
    do {
        TRY(try_step(j, err));
    } while (j->next != RESTORE_GO_ON);
    return PAWL_OK;
}

/* ---- report, log and event ------------------------------------------------------------------ */

static void log_restored(joint_restore *j) {
    char bytes[32];
    const pawl_report_counts *counts = report_counts(j->all.report);
    log_write(&j->run->log, PAWL_LOG_INFO, "restored step %lld: %llu entries, %s",
              (long long)j->step, (unsigned long long)counts->restored,
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

/* A rank whose state fits has a whole report, also where that of another rank does not fit. */
static pawl_status end_report(joint_restore *j, pawl_status status, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    if (status == PAWL_OK) {
        j->run->restored_step = j->step;
        log_restored(j);
        return PAWL_OK;
    }
    if (status == PAWL_EMISMATCH && j->all.report != NULL &&
        report_finish(j->all.report, &ignored) != PAWL_OK) {
        pawl_report_free(j->all.report);
        j->all.report = NULL;
    }
    error_wrap(err, "restoring");
    return status;
}

static void joint_restore_free(joint_restore *j) {
    restoration_free(&j->all);
    pawl_checkpoint_close(j->checkpoint);
    step_scan_free(&j->scan);
    mem_free(j);
}

pawl_status run_restore(pawl_run *run, pawl_state *state, const pawl_restore_options *options,
                        pawl_report **report, pawl_error *err) {
    uint64_t begun_ns = platform_now_ns(run->platform);
    joint_restore *j = mem_calloc(1, sizeof *j);
    if (report != NULL) {
        *report = NULL;
    }
    if (j == NULL) {
        return error_nomem(err, sizeof *j);
    }
    j->run = run;
    j->scan = step_scan_of(run->store, run->platform);
    j->all = (restoration){.state = state,
                           .options = options,
                           .rank = run->ranks->rank,
                           .world_size = run->ranks->world_size,
                           .report_wanted = report != NULL,
                           .job = run->ranks->world_size > 1};
    pawl_status status = end_report(j, restore_with_all(j, err), err);
    record_restored(run, &j->all, status, err, begun_ns);
    restore_hand_over_report(&j->all, status, report);
    joint_restore_free(j);
    return status;
}
