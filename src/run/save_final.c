/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The final save of a process that is about to be ended (S13): within the grace time, or given up.
 */
#include "run/save.h"

#include <stdio.h>

/* Cancels the save in flight, and says how far it came. */
static void give_up_save(pawl_run *run, const char *whose, double grace_s, pawl_error *err) {
    uint64_t written;
    uint64_t of;
    char written_text[32];
    char of_text[32];
    char grace_text[32];
    engine_written(run->engine, &written, &of);
    bool given_up = run_give_up(run);
    run_error_path(run, err, "");
    error_expected(err, "durable within %s", text_seconds(grace_text, grace_s));
    error_found(err, "%s of %s%s written; %s", text_bytes(written_text, written),
                text_bytes(of_text, of), whose,
                given_up ? "the save was given up"
                         : "the commit is under way and may still succeed");
    run_say_safe(run, err);
    error_next(err, "ask the scheduler for more grace time, or save more often");
}

static pawl_status did_not_fit(pawl_run *run, int64_t step, double grace_s, pawl_error *err) {
    error_set(err, PAWL_ETIMEOUT, "the final save of step %lld did not fit into the grace time",
              (long long)step);
    error_step(err, step);
    give_up_save(run, "", grace_s, err);
    return PAWL_ETIMEOUT;
}

/* Other ranks may have begun the final save: they learn that this one has not. */
static pawl_status not_begun(pawl_run *run, int64_t step, double grace_s, pawl_error *err) {
    char whose[48];
    snprintf(whose, sizeof whose, " of step %lld", (long long)run->stats.step);
    error_set(err, PAWL_ETIMEOUT,
              "the final save of step %lld was not begun: the save of step %lld took all of the "
              "grace time",
              (long long)step, (long long)run->stats.step);
    error_step(err, step);
    give_up_save(run, whose, grace_s, err);
    if (save_of_many(run)) {
        save_count_call(run, step);
        save_not_started(run, step, PAWL_ETIMEOUT, err);
    }
    return PAWL_ETIMEOUT;
}

pawl_status run_save_final(pawl_run *run, pawl_state *state, int64_t step,
                           const pawl_save_options *options, double grace_s, pawl_error *err) {
    const platform *os = run->platform;
    uint64_t begun_ns = platform_now_ns(os);
    pawl_save_options patient = *options;
    patient.deadline_s = grace_s > 0 ? grace_s : -1;
    struct pawl_error earlier = ERROR_INIT;
    if (run->outcome_unreported && run_wait(run, grace_s, NULL, &earlier) != PAWL_OK) {
        if (engine_busy(run->engine)) {
            return not_begun(run, step, grace_s, err);
        }
        log_write(&run->log, PAWL_LOG_WARN, "before the final save: %s", error_text(&earlier));
    }
    pawl_status status = run_save(run, state, step, &patient, err);
    if (status == PAWL_ETIMEOUT) { /* while it copied tensors */
        error_next(err, "ask the scheduler for more grace time, or save more often");
    }
    if (status != PAWL_OK) {
        return status;
    }
    double spent_s = platform_since_s(os, begun_ns);
    double left_s = grace_s > spent_s ? grace_s - spent_s : -1;
    status = run_wait(run, left_s, NULL, err);
    if (status == PAWL_ETIMEOUT && engine_busy(run->engine)) {
        return did_not_fit(run, step, grace_s, err);
    }
    return status;
}
