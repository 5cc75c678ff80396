/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEET_S 2.0

/* ---- what a rank is doing, and what it hears ------------------------------------------------- */

static void begin(rank_process *r, const char *doing) {
    r->doing = doing;
    r->doing_since_ns = fibers_now();
}

static double seconds(uint64_t ns) {
    return (double)ns / (double)NS_PER_S;
}

double job_patience_s(const job *j) {
    return 2 * j->plan.group_deadline_s + j->plan.lease_s * 2 + 60 +
           storage_catching_up_s(j->storage);
}

/* G5, and promise 6: nothing waits without end. A process that stood still does not count. */
static double end(rank_process *r) {
    double took_s = seconds(fibers_now() - r->doing_since_ns);
    if (took_s > job_patience_s(r->job) && !r->machine.was_stopped) {
        promises_broken(r->job->promises, "job %d, rank %d: %s took %.1f s", r->job->number,
                        r->machine.rank, r->doing, took_s);
    }
    return took_s;
}

static void note(rank_news *n, int64_t step, pawl_status status, pawl_error *err, double after_s) {
    *n = (rank_news){.step = step, .status = status, .after_s = after_s};
    snprintf(n->text, sizeof n->text, "%s", status != PAWL_OK ? error_text(err) : "");
}

static void told(rank_process *r, int64_t step, pawl_status status, pawl_error *err,
                 double after_s) {
    note(&r->news, step, status, err, after_s);
    r->worst = status != PAWL_OK ? status : r->worst;
    if (status != PAWL_ETIMEOUT) { /* then the save goes on */
        promises_told(r->job->promises, &r->machine, step, status, err);
    }
    if (r->job->storage->trace) {
        printf("%14.6f job %d rank %d was told of step %lld: %s %s\n", seconds(fibers_now()),
               r->job->number, r->machine.rank, (long long)step, pawl_status_name(status),
               r->news.text);
    }
}

/* ---- opening and restoring ------------------------------------------------------------------- */

static bool is_odd(const rank_process *r, oddness how) {
    const job_plan *plan = &r->job->plan;
    return plan->odd == how && plan->odd_rank == r->machine.rank;
}

static pawl_status open_place(void *context, bool create, store **out, pawl_error *err) {
    rank_process *r = context;
    (void)create;
    (void)err;
    *out = storage_view(r->job->storage, &r->machine, is_odd(r, ODD_STORAGE));
    return PAWL_OK;
}

/* A save that a rank was too busy for, or gave up, is told by a warning where nobody waits. */
static void take_log(void *context, pawl_log_level level, const char *text) {
    static const char saving[] = "saving step ";
    rank_process *r = context;
    if (level == PAWL_LOG_WARN && strncmp(text, saving, strlen(saving)) == 0) {
        r->given_up_step = strtoll(text + strlen(saving), NULL, 10);
    }
    if (strstr(text, "is damaged and is passed over") != NULL &&
        r->job->promises->damaged_ns == 0) {
        promises_broken(r->job->promises, "B2: job %d, rank %d hears of damage: %s", r->job->number,
                        r->machine.rank, text);
    }
    if (!r->job->storage->trace) {
        return;
    }
    printf("%14.6f job %d rank %d log: %s\n", seconds(fibers_now()), r->job->number,
           r->machine.rank, text);
}

static bool open_run(rank_process *r) {
    struct pawl_error err = ERROR_INIT;
    const job_plan *plan = &r->job->plan;
    const struct pawl_group group = job_group(r);
    const run_place place = {.context = r, .open = open_place};
    pawl_run_options options = {
        .struct_size = sizeof options,
        .lease_s = plan->lease_s,
        .deadline_s = plan->deadline_s,
        .group_deadline_s = plan->group_deadline_s,
        .on_busy = plan->on_busy,
        .retention =
            &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = plan->keep_last},
        .no_event_file = r->job->number % 2,
        .group = &group};
    options.log = &(pawl_log){
        .struct_size = sizeof(pawl_log), .level = PAWL_LOG_INFO, .context = r, .write = take_log};
    r->given_up_step = -1;
    begin(r, "opening");
    r->opened = run_open_at(&place, &options, &r->machine.os, &r->run, &err);
    double after_s = end(r);
    if (r->opened != PAWL_OK) {
        note(&r->opening, -1, r->opened, &err, after_s);
        return false;
    }
    if (r->machine.rank == 0) {
        promises_taken_over(r->job->promises, r->job->number);
    }
    return true;
}

/* R11: all ranks of a job restore the same. */
static void check_restored(rank_process *r, int64_t step) {
    job *j = r->job;
    int64_t of_step;
    int64_t of_job;
    if (j->restored_step != -2 && j->restored_step != step) {
        promises_broken(j->promises, "R11: job %d, rank %d restored step %lld, another one %lld",
                        j->number, r->machine.rank, (long long)step, (long long)j->restored_step);
    }
    j->restored_step = step;
    if (step < 0) {
        return;
    }
    if (!training_look(&r->training, &of_step, &of_job) || of_step != step ||
        promises_commit(j->promises, (int)of_job, step) == NULL) {
        promises_broken(j->promises, "V5: job %d, rank %d restored step %lld, of which it is not",
                        j->number, r->machine.rank, (long long)step);
    }
}

/* B1, B2 of readers.h. */
static void check_refusal(const rank_process *r, uint64_t begun_ns, pawl_error *err) {
    promises *p = r->job->promises;
    const commit *c = promises_lasting(p, begun_ns);
    if (r->restored == PAWL_ENOTFOUND && c != NULL) {
        promises_broken(p, "B1: job %d, rank %d hears that there is nothing, beside %s: %s",
                        r->job->number, r->machine.rank, c->tag, error_text(err));
    }
    if (r->restored == PAWL_EDAMAGED && p->damaged_ns == 0) {
        promises_broken(p, "B2: job %d, rank %d hears of damage: %s", r->job->number,
                        r->machine.rank, error_text(err));
    }
}

/* Who has lost the run sees it as late as anybody else, and can save nothing. */
static void check_newest(const rank_process *r, int64_t newest) {
    if (r->restored_step < newest && r->job->promises->owner_job == r->job->number) {
        promises_broken(r->job->promises, "V7: job %d, rank %d restored step %lld, and not %lld",
                        r->job->number, r->machine.rank, (long long)r->restored_step,
                        (long long)newest);
    }
}

static bool restore(rank_process *r) {
    struct pawl_error err = ERROR_INIT;
    uint64_t begun_ns = fibers_now();
    int64_t newest = promises_newest(r->job->promises);
    const pawl_restore_options options = {.struct_size = sizeof options,
                                          .per_rank = PAWL_POLICY_ALLOW};
    pawl_report *report = NULL;
    training_set(&r->training, 0, -r->job->number);
    begin(r, "restoring");
    r->restored = run_restore(r->run, r->training.state, &options, &report, &err);
    double after_s = end(r);
    r->restored_step = r->restored == PAWL_OK ? pawl_report_step(report) : -1;
    pawl_report_free(report);
    check_refusal(r, begun_ns, &err);
    if (r->restored == PAWL_OK || r->restored == PAWL_ENOTFOUND) {
        check_restored(r, r->restored_step);
        check_newest(r, newest);
        return true;
    }
    note(&r->opening, -1, r->restored, &err, after_s);
    return false;
}

/* ---- training -------------------------------------------------------------------------------- */

/* Without threads the heart beats when the trainer says so. */
static void beat(rank_process *r) {
    struct pawl_error ignored = ERROR_INIT;
    if (!r->machine.os.concurrent && r->machine.rank == 0 &&
        run_heartbeat(r->run, &ignored) != PAWL_OK) {
        return; /* the next save says so */
    }
}

/* V6; a process without threads has nobody else to do it. */
static void check_asked_nothing(const rank_process *r, uint64_t before) {
    uint64_t asked = r->machine.of_trainer - before;
    if (asked > 0 && r->job->plan.threads) {
        promises_broken(r->job->promises,
                        "V6: job %d, rank %d, %s, asked %llu things of the storage", r->job->number,
                        r->machine.rank, r->doing, (unsigned long long)asked);
    }
}

static bool wait_for_save(rank_process *r) {
    struct pawl_error err = ERROR_INIT;
    int64_t step = r->unseen_step;
    if (step < 0) {
        return true;
    }
    begin(r, "waiting for a save");
    pawl_status status = run_wait(r->run, job_patience_s(r->job), NULL, &err);
    double after_s = end(r);
    r->unseen_step = status == PAWL_ETIMEOUT ? step : -1;
    told(r, step, status, &err, after_s);
    return status == PAWL_OK;
}

/* The save before ended well, or this one or the log would have told. */
static bool begun(rank_process *r, int64_t before, int64_t step, double after_s) {
    struct pawl_error err = ERROR_INIT;
    pawl_status status = PAWL_OK;
    if (before >= 0 && r->given_up_step == before) {
        status = error_set(&err, PAWL_ECANCELED, "as the log says");
    }
    if (before >= 0) {
        told(r, before, status, &err, after_s);
    }
    r->given_up_step = -1;
    r->unseen_step = step;
    return true;
}

/* S04: nothing was begun where the save before was still being written. Looking may tell how the
 * one in flight went. */
static bool look_at_skipped(rank_process *r, int64_t before, int64_t step, double after_s) {
    struct pawl_error err = ERROR_INIT;
    pawl_save_stats stats = {.skipped = 0};
    pawl_status status = run_wait(r->run, -1, &stats, &err);
    if (stats.skipped == 0) {
        (void)begun(r, before, step, after_s);
    }
    if (status == PAWL_ETIMEOUT) {
        return true;
    }
    told(r, r->unseen_step, status, &err, after_s);
    r->unseen_step = -1;
    return status == PAWL_OK;
}

/* A failure that this call tells may be that of the save before. */
static bool save(rank_process *r, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    const job_plan *plan = &r->job->plan;
    int64_t before = r->unseen_step;
    if (plan->at_save != NULL) {
        plan->at_save(plan->at_save_context, r, step);
    }
    begin(r, "saving");
    uint64_t asked = r->machine.of_trainer;
    pawl_status status = run_save(r->run, r->training.state, step, &options, &err);
    if (status == PAWL_OK && r->worst == PAWL_OK && r->given_up_step < 0 &&
        plan->on_busy == PAWL_ON_BUSY_WAIT) {
        check_asked_nothing(r, asked);
    }
    double after_s = end(r);
    if (status != PAWL_OK) {
        bool of_before = before >= 0 && err.step == before;
        told(r, of_before ? before : step, status, &err, after_s);
        r->unseen_step = status == PAWL_ETIMEOUT ? before : -1;
        return false;
    }
    return plan->on_busy == PAWL_ON_BUSY_SKIP ? look_at_skipped(r, before, step, after_s)
                                              : begun(r, before, step, after_s);
}

static bool fence(rank_process *r) {
    struct pawl_error err = ERROR_INIT;
    begin(r, "fencing");
    uint64_t asked = r->machine.of_trainer;
    pawl_status status = run_fence(r->run, 0, &err);
    check_asked_nothing(r, asked);
    end(r);
    if (status != PAWL_OK) {
        promises_broken(r->job->promises, "job %d, rank %d: the fence failed: %s", r->job->number,
                        r->machine.rank, error_text(&err));
    }
    return status == PAWL_OK;
}

/* Whoever is missing is missed soon, and nothing is lost by it. */
static void meet(rank_process *r) {
    struct pawl_error err = ERROR_INIT;
    begin(r, "meeting");
    pawl_status status = run_meet(r->run, MEET_S, &err);
    double after_s = end(r);
    if (after_s > MEET_S + 10 && !r->machine.was_stopped) {
        promises_broken(r->job->promises, "job %d, rank %d met for %.1f s: %s", r->job->number,
                        r->machine.rank, after_s, pawl_status_name(status));
    }
}

/* Given up by one rank, a save is given up by all, or was committed before. */
static void cancel(rank_process *r) {
    struct pawl_error err = ERROR_INIT;
    const job_plan *plan = &r->job->plan;
    if (plan->cancels_one_of > 0 && random_below(&r->machine.random, plan->cancels_one_of) == 0) {
        begin(r, "cancelling");
        pawl_status status = run_cancel(r->run, job_patience_s(r->job), &err);
        end(r);
        if (status != PAWL_OK && status != PAWL_ETIMEOUT) {
            promises_broken(r->job->promises, "job %d, rank %d cannot cancel: %s", r->job->number,
                            r->machine.rank, error_text(&err));
        }
    }
}

static bool train_step(rank_process *r, int64_t step) {
    const job_plan *plan = &r->job->plan;
    uint64_t step_ns = (uint64_t)(plan->step_s * (double)NS_PER_S);
    fiber_sleep(step_ns / 2 + random_below(&r->machine.random, step_ns + 1));
    beat(r);
    if (plan->meets) {
        meet(r);
    }
    if (!fence(r)) {
        return false;
    }
    training_set(&r->training, step, r->job->number);
    if (is_odd(r, ODD_VALUE)) {
        training_differ(&r->training);
    }
    if (step % plan->save_every != 0) {
        return true;
    }
    bool saved = save(r, is_odd(r, ODD_STEP) ? step + 1000 : step);
    cancel(r);
    return saved && (!plan->patient || wait_for_save(r));
}

static void train(rank_process *r) {
    int64_t from = r->restored_step < 0 ? 0 : r->restored_step;
    for (int64_t step = from + 1; step <= from + r->job->plan.steps; step++) {
        if (!train_step(r, step) && r->job->plan.stops_at_failure) {
            break;
        }
    }
    (void)wait_for_save(r);
}

static void close_run(rank_process *r) {
    struct pawl_error err = ERROR_INIT;
    begin(r, "closing");
    pawl_status status = run_close(r->run, 0, &err);
    double after_s = end(r);
    if (status != PAWL_OK) {
        r->worst = status;
        note(&r->news, -1, status, &err, after_s);
    }
}

static void rank_body(void *argument) {
    rank_process *r = argument;
    r->machine.trainer = fiber_self();
    fiber_sleep(random_below(&r->machine.random, r->job->plan.begin_spread_ns + 1));
    if (open_run(r)) {
        training_make(&r->training, r->job->model, r->machine.rank, r->job->plan.world_size,
                      is_odd(r, ODD_SHAPE));
        if (restore(r)) {
            train(r);
        }
        close_run(r);
        training_free(&r->training);
    }
    r->doing = NULL;
    r->machine.has_ended = true;
    r->job->ended++;
}

/* ---- the job --------------------------------------------------------------------------------- */

job *job_new(int number, const job_plan *plan, const model *m, storage *s, promises *p, cluster *c,
             uint64_t seed) {
    job *j = calloc(1, sizeof *j);
    if (j == NULL) {
        abort();
    }
    *j = (job){.number = number,
               .plan = *plan,
               .model = m,
               .storage = s,
               .promises = p,
               .restored_step = -2};
    snprintf(j->launch, sizeof j->launch, "job-%d", number);
    j->ranks = calloc((size_t)plan->world_size, sizeof *j->ranks);
    if (j->ranks == NULL) {
        abort();
    }
    for (int i = 0; i < plan->world_size; i++) {
        rank_process *r = &j->ranks[i];
        char host[64];
        snprintf(host, sizeof host, "node-%d-%d", plan->elsewhere ? number : 0,
                 i / plan->ranks_a_host);
        machine_init(&r->machine, c, host, seed * 1000003 + (uint64_t)(number * 100000 + i),
                     plan->threads);
        r->machine.job = number;
        r->machine.rank = i;
        r->job = j;
        r->unseen_step = -1;
        r->news.step = -1;
        r->restored_step = -1;
    }
    return j;
}

void job_start(job *j) {
    for (int i = 0; i < j->plan.world_size; i++) {
        begin(&j->ranks[i], "beginning");
        fiber_let_go(fiber_start(&j->ranks[i].machine.group, rank_body, &j->ranks[i]));
    }
}

bool job_is_over(const job *j) {
    for (int i = 0; i < j->plan.world_size; i++) {
        const machine *m = &j->ranks[i].machine;
        if (!machine_is_gone(m) && !m->group.stopped) {
            return false;
        }
    }
    return true;
}

void job_stop(job *j) {
    for (int i = 0; i < j->plan.world_size; i++) {
        machine_stop(&j->ranks[i].machine);
    }
}

void job_go_on(job *j) {
    for (int i = 0; i < j->plan.world_size; i++) {
        machine_go_on(&j->ranks[i].machine);
    }
}

void job_kill(job *j) {
    for (int i = 0; i < j->plan.world_size; i++) {
        fiber_group_kill(&j->ranks[i].machine.group);
    }
}

bool job_did_well(const job *j) {
    for (int i = 0; i < j->plan.world_size; i++) {
        const rank_process *r = &j->ranks[i];
        if (!r->machine.has_ended || r->opened != PAWL_OK || r->worst != PAWL_OK ||
            (r->restored != PAWL_OK && r->restored != PAWL_ENOTFOUND)) {
            return false;
        }
    }
    return true;
}

void job_check_odd(const job *j) {
    for (size_t i = 0; i < j->promises->count; i++) {
        const commit *c = &j->promises->commits[i];
        if (c->job == j->number) {
            promises_broken(j->promises, "S12: %s is committed, though rank %d differs", c->tag,
                            j->plan.odd_rank);
        }
    }
    for (int i = 0; i < j->plan.world_size; i++) {
        const rank_process *r = &j->ranks[i];
        bool told = r->opened != PAWL_OK || r->worst != PAWL_OK ||
                    (r->restored != PAWL_OK && r->restored != PAWL_ENOTFOUND);
        if (!told || (j->plan.odd == ODD_STORAGE && r->opened == PAWL_OK)) {
            promises_broken(j->promises, "rank %d was not told that rank %d differs",
                            r->machine.rank, j->plan.odd_rank);
        }
    }
}
