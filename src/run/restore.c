/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which checkpoint is restored: one for all ranks, the newest that is whole on all of them (R11).
 *
 *   1 first meeting: every rank says which step it asks for; rank 0 chooses
 *   2 each rank opens the step and matches it; they meet; where some lack what others may want they
 *     compare (wants.c), match again with what came out, and meet once more
 *   3 each rank reads and verifies; they meet
 *
 * After 2 and 3 all go on, or all take the next older step, because it is damaged for one of them,
 * or all fail. No rank reads a byte into its state before the step fits all of them. A process
 * alone does the same, and meets nobody.
 */
#include "checkpoint/restore.h"
#include "checkpoint/step_directory.h"
#include "checkpoint/step_scan.h"
#include "ranks/wire.h"
#include "run/private.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_STEPS    4    /* different ones, in a message */
#define MOST_LOOKING_S 10.0 /* for what rank 0 sees to appear on another host */

typedef enum verb {
    VERB_GO = 1,
    VERB_TAKE = 2,    /* the step of the answer */
    VERB_COMPARE = 3, /* what each rank lacks */
    VERB_NOBODY = 4   /* wants it: all lack the same */
} verb;

typedef struct agreeing {
    pawl_run *run;
    restoration all;
    pawl_checkpoint *checkpoint;
    int64_t step;
    verb verb; /* of the latest answer */
    /* Rank 0. */
    step_scan scan;
    size_t left; /* of the steps that it saw, those not tried yet */
    size_t damaged;
    struct pawl_error newest; /* why the newest damaged one was passed over */
} agreeing;

static const int64_t *asked_step(const agreeing *g) {
    return g->all.options != NULL ? g->all.options->step : NULL;
}

static bool no_fallback(const agreeing *g) {
    return asked_step(g) != NULL || (g->all.options != NULL && g->all.options->no_fallback);
}

/* ---- what ranks hand in --------------------------------------------------------------------- */

#define WISH_ASKS    1u
#define WISH_FINAL   2u
#define WISH_MATCHED 4u

/* `asks` and `step` count at the first meeting, the rest at later ones. */
typedef struct wish {
    bool asks; /* for this step; otherwise for the newest */
    int64_t step;
    bool final;   /* an older step is no way out */
    bool matched; /* and has not compared yet: */
    wants_head wants;
} wish;

static pawl_status wish_encode(const wish *w, buffer *out, pawl_error *err) {
    const uint8_t flags = (uint8_t)((w->asks ? WISH_ASKS : 0) | (w->final ? WISH_FINAL : 0) |
                                    (w->matched ? WISH_MATCHED : 0));
    TRY(buffer_append(out, &flags, 1, err));
    TRY(buffer_u64le(out, (uint64_t)w->step, err));
    if (!w->matched) {
        return PAWL_OK;
    }
    TRY(buffer_u64le(out, w->wants.entries, err));
    TRY(buffer_u64le(out, w->wants.lacking, err));
    return buffer_u32le(out, w->wants.sum, err);
}

static pawl_status wish_decode(const meet_card *card, wish *out, pawl_error *err) {
    cursor c = cursor_of(card->bytes, card->n, 0, "card of a rank that restores");
    uint8_t flags = 0;
    uint64_t step = 0;
    TRY(cursor_u8(&c, &flags, err));
    TRY(cursor_u64le(&c, &step, err));
    *out = (wish){.asks = flags & WISH_ASKS,
                  .step = (int64_t)step,
                  .final = flags & WISH_FINAL,
                  .matched = flags & WISH_MATCHED};
    if (out->matched) {
        TRY(cursor_u64le(&c, &out->wants.entries, err));
        TRY(cursor_u64le(&c, &out->wants.lacking, err));
        TRY(cursor_u32le(&c, &out->wants.sum, err));
    }
    return flags > (WISH_ASKS | WISH_FINAL | WISH_MATCHED) || cursor_left(&c) != 0
               ? wire_damaged(&c, "bad request", err)
               : PAWL_OK;
}

/* ---- rank 0's answers ----------------------------------------------------------------------- */

/* `story`: why the step before is passed over; NULL: for no reason to speak of. */
static pawl_status answer_encode(verb what, int64_t step, const pawl_error *story, buffer *out,
                                 pawl_error *err) {
    TRY(buffer_append(out, &(const uint8_t){(uint8_t)what}, 1, err));
    TRY(buffer_u64le(out, (uint64_t)step, err));
    return story != NULL ? failure_encode(story, SIZE_MAX, out, err) : PAWL_OK;
}

/* The next older step with a manifest; -1: none. */
static pawl_status next_step(agreeing *g, int64_t *out, pawl_error *err) {
    *out = -1;
    while (g->left > 0 && *out < 0) {
        char directory[32];
        bool present;
        int64_t step = g->scan.steps[--g->left];
        name_step(directory, step);
        TRY(step_prove_manifest(g->run->store, directory, &present, err));
        *out = present ? step : -1;
    }
    return PAWL_OK;
}

static pawl_status none_intact(const agreeing *g, pawl_error *err) {
    *err = g->newest;
    if (g->damaged > 1) {
        error_wrap(err, "none of %zu checkpoints is intact; the newest", g->damaged);
    }
    return err->status;
}

static pawl_status look_for_steps(agreeing *g, pawl_error *err) {
    TRY(step_scan_list(&g->scan, err));
    g->left = g->scan.count;
    return PAWL_OK;
}

/* Where every step that was seen is gone, newer ones may have come. */
static pawl_status answer_next(agreeing *g, const pawl_error *story, buffer *answer,
                               pawl_error *err) {
    for (;;) {
        int64_t step;
        TRY(next_step(g, &step, err));
        if (step >= 0) {
            return answer_encode(VERB_TAKE, step, story, answer, err);
        }
        if (g->damaged > 0) {
            return none_intact(g, err);
        }
        if (step_scan_confirms_empty(&g->scan)) {
            TRY(checkpoint_explain_missing(g->run->store, g->run->platform,
                                           err)); /* it is there now */
        }
        TRY(step_scan_retry(&g->scan, err));
        TRY(look_for_steps(g, err));
    }
}

static const char *step_text(char out[32], const wish *w) {
    if (w->asks) {
        (void)snprintf(out, 32, "step %lld", (long long)w->step);
    } else {
        (void)snprintf(out, 32, "the newest step");
    }
    return out;
}

static bool same_wish(const wish *a, const wish *b) {
    return a->asks == b->asks && (!a->asks || a->step == b->step);
}

/* R11: who asks for what. */
static pawl_status different_steps(const job_ranks *ranks, const wish *wishes, pawl_error *err) {
    char found[512] = "";
    size_t at = 0;
    int shown = 0;
    AUTOFREE unsigned char *same = mem_calloc((size_t)ranks->world_size, 1);
    AUTOFREE unsigned char *told = mem_calloc((size_t)ranks->world_size, 1);
    if (same == NULL || told == NULL) {
        return error_nomem(err, (size_t)ranks->world_size);
    }
    for (int r = 0; r < ranks->world_size && at < sizeof found; r++) {
        char which[100];
        char step[32];
        if (told[r] || ++shown > SHOWN_STEPS) {
            continue;
        }
        for (int other = 0; other < ranks->world_size; other++) {
            same[other] = same_wish(&wishes[r], &wishes[other]);
            told[other] |= same[other];
        }
        at += (size_t)snprintf(found + at, sizeof found - at, "%s%s: %s", at > 0 ? "; " : "",
                               group_ranks_text(which, sizeof which, same, ranks->world_size),
                               step_text(step, &wishes[r]));
    }
    error_set(err, PAWL_EMISMATCH, "the ranks ask for different steps");
    store_error_path(err, ranks->store, "");
    error_expected(err, "the same step on all %d ranks", ranks->world_size);
    error_found(err, "%s%s", found, shown > SHOWN_STEPS ? "; ..." : "");
    error_safe(err, "nothing was read into any state");
    error_next(err, "give all ranks the same step, or none: rank 0 then chooses the newest");
    return PAWL_EMISMATCH;
}

static pawl_status judge_wishes(void *context, job_ranks *ranks, const meet_card *cards,
                                buffer *answer, pawl_error *err) {
    agreeing *g = context;
    AUTOFREE wish *wishes = mem_calloc((size_t)ranks->world_size, sizeof *wishes);
    if (wishes == NULL) {
        return error_nomem(err, (size_t)ranks->world_size * sizeof *wishes);
    }
    TRY(ranks_failed(ranks, cards, err));
    bool same = true;
    for (int r = 0; r < ranks->world_size; r++) {
        TRY(wish_decode(&cards[r], &wishes[r], err));
        same = same && same_wish(&wishes[0], &wishes[r]);
    }
    if (!same) {
        return different_steps(ranks, wishes, err);
    }
    if (wishes[0].asks) {
        return answer_encode(VERB_TAKE, wishes[0].step, NULL, answer, err);
    }
    TRY(look_for_steps(g, err));
    return answer_next(g, NULL, answer, err);
}

/* The first failure that no older step makes up for; -1: none. What rank 0 chose and another rank
 * does not see is no reason to take an older one. */
static pawl_status first_final(const job_ranks *ranks, const meet_card *cards, int *out,
                               pawl_error *err) {
    *out = -1;
    for (int r = 0; r < ranks->world_size && *out < 0; r++) {
        wish w;
        TRY(wish_decode(&cards[r], &w, err));
        pawl_status status = cards[r].status;
        bool gone = status == PAWL_ENOTFOUND && cards[0].status == PAWL_ENOTFOUND;
        bool may_pass = status == PAWL_EDAMAGED || gone;
        *out = status != PAWL_OK && (w.final || !may_pass) ? r : -1;
    }
    return PAWL_OK;
}

static int first_with(const job_ranks *ranks, const meet_card *cards, pawl_status status) {
    for (int r = 0; r < ranks->world_size; r++) {
        if (cards[r].status == status) {
            return r;
        }
    }
    return -1;
}

/* Have all matched, and does one lack what another might want? *out is VERB_GO where not. */
static pawl_status what_is_lacking(const job_ranks *ranks, const meet_card *cards, verb *out,
                                   pawl_error *err) {
    wish first = {.asks = false};
    bool lacking = false;
    bool same = true;
    *out = VERB_GO;
    for (int r = 0; r < ranks->world_size; r++) {
        wish w;
        TRY(wish_decode(&cards[r], &w, err));
        if (!w.matched) {
            return PAWL_OK;
        }
        first = r == 0 ? w : first;
        lacking = lacking || w.wants.lacking > 0;
        same = same && w.wants.entries == first.wants.entries &&
               w.wants.lacking == first.wants.lacking && w.wants.sum == first.wants.sum;
    }
    *out = !lacking ? VERB_GO : same ? VERB_NOBODY : VERB_COMPARE;
    return PAWL_OK;
}

/* PAWL_ENOTFOUND would say that there is nothing to restore. */
static pawl_status seen_by_rank_0_alone(const agreeing *g, pawl_error *err) {
    err->status = PAWL_EIO;
    error_safe(err,
               "rank 0 sees step %lld, and that it is committed; nothing was read into any state",
               (long long)g->step);
    error_next(err,
               "start the job again in a minute; if it repeats, see that all ranks have the "
               "same directory: pawl doctor %s, asked by all of them",
               g->run->store->root);
    return PAWL_EIO;
}

static pawl_status judge_tries(void *context, job_ranks *ranks, const meet_card *cards,
                               buffer *answer, pawl_error *err) {
    agreeing *g = context;
    struct pawl_error story = ERROR_INIT;
    int final;
    verb next = VERB_GO;
    TRY(what_is_lacking(ranks, cards, &next, err));
    if (next != VERB_GO) {
        return answer_encode(next, g->step, NULL, answer, err);
    }
    TRY(first_final(ranks, cards, &final, err));
    if (final >= 0) {
        pawl_status status = ranks_failure(ranks, cards, final, err);
        bool unseen = status == PAWL_ENOTFOUND && cards[0].status == PAWL_OK;
        return unseen ? seen_by_rank_0_alone(g, err) : status;
    }
    if (cards[0].status == PAWL_ENOTFOUND) {
        step_scan_saw_one(&g->scan); /* removed meanwhile */
        return answer_next(g, NULL, answer, err);
    }
    int damaged = first_with(ranks, cards, PAWL_EDAMAGED);
    if (damaged < 0) {
        return answer_encode(VERB_GO, g->step, NULL, answer, err);
    }
    (void)ranks_failure(ranks, cards, damaged, &story);
    if (g->damaged++ == 0) {
        g->newest = story;
    }
    return answer_next(g, &story, answer, err);
}

/* ---- every rank ----------------------------------------------------------------------------- */

static pawl_status pass_over(agreeing *g, const uint8_t *bytes, size_t n, pawl_error *err) {
    struct pawl_error why = ERROR_INIT;
    TRY(failure_decode(bytes, n, &why, err));
    log_write(&g->run->log, PAWL_LOG_WARN,
              "step %lld is damaged and is passed over for the next older one: %s",
              (long long)g->step, error_text(&why));
    return restore_pass_over(&g->all, g->step, &why, err);
}

static pawl_status take_answer(agreeing *g, const buffer *answer, pawl_error *err) {
    cursor c = cursor_of(answer->data, answer->size, 0, "answer of rank 0");
    uint8_t what = 0;
    uint64_t step = 0;
    TRY(cursor_u8(&c, &what, err));
    TRY(cursor_u64le(&c, &step, err));
    if (what < VERB_GO || what > VERB_NOBODY) {
        return wire_damaged(&c, "unknown kind", err);
    }
    if (cursor_left(&c) > 0) {
        TRY(pass_over(g, c.data + c.at, cursor_left(&c), err));
    }
    g->verb = (verb)what;
    g->step = (int64_t)step;
    return PAWL_OK;
}

/* The failure of all; but whom the step does not fit keeps its own words and report. */
static pawl_status meet(agreeing *g, meeting *m, const wish *w, pawl_error *err) {
    CLEANUP(buffer_free) buffer mine = {0};
    CLEANUP(buffer_free) buffer answer = {0};
    TRY(wish_encode(w, &mine, err));
    m->mine = mine.data;
    m->mine_bytes = mine.size;
    m->context = g;
    pawl_status status = ranks_meet(g->run->ranks, m, &answer, err);
    if (status == PAWL_EMISMATCH && m->status == PAWL_EMISMATCH) {
        *err = *m->failed;
    }
    return status == PAWL_OK ? take_answer(g, &answer, err) : status;
}

static pawl_status meet_for_step(agreeing *g, pawl_status status, const pawl_error *story,
                                 pawl_error *err) {
    const int64_t *asked = asked_step(g);
    const wish w = {.asks = asked != NULL, .step = asked != NULL ? *asked : 0};
    meeting m = {.what = "restore", .status = status, .failed = story, .judge = judge_wishes};
    return meet(g, &m, &w, err);
}

/* An older checkpoint that does not fit cannot make up for bytes placed from a newer one. */
static pawl_status after_damage(const restoration *all, pawl_status status, pawl_error *err) {
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

/* `wants`: of a match that was not compared yet; or NULL. */
static pawl_status meet_for_result(agreeing *g, const char *what, pawl_status status,
                                   pawl_error *story, const wants_head *wants, pawl_error *err) {
    pawl_status told = after_damage(&g->all, status, story);
    wish w = {.step = g->step, .final = no_fallback(g) || g->all.mixed || told != status};
    if (wants != NULL && told == status) {
        w.matched = true;
        w.wants = *wants;
    }
    meeting m = {.what = what, .status = told, .failed = story, .judge = judge_tries};
    TRY(meet(g, &m, &w, err));
    bool can_follow = g->verb == VERB_GO ? told == PAWL_OK : g->verb == VERB_TAKE || w.matched;
    return can_follow
               ? PAWL_OK
               : error_set(err, PAWL_EDAMAGED,
                           "%s: rank 0 goes on as if this rank had come without a failure", what);
}

/* Where looks may be late a proof makes the storage show what is there (store/evidence.h). */
static bool appears(const agreeing *g) {
    struct pawl_error ignored = ERROR_INIT;
    char directory[32];
    bool present;
    name_step(directory, g->step);
    return !g->run->store->traits.coherent &&
           step_prove_manifest(g->run->store, directory, &present, &ignored) == PAWL_OK && present;
}

/* Rank 0 has seen the step, and keeps it: on another rank it may take time to appear. */
static pawl_status open_step(agreeing *g, pawl_error *err) {
    pawl_run *run = g->run;
    ranks_pause pause = {0};
    double quarter_s = run->ranks->timeout_s / 4;
    double looking_s = run->ranks->rank == 0        ? 0
                       : quarter_s < MOST_LOOKING_S ? quarter_s
                                                    : MOST_LOOKING_S;
    uint64_t deadline_ns =
        run->platform->monotonic_ns(run->platform->context) + (uint64_t)(looking_s * NANOSECONDS);
    pawl_checkpoint_close(g->checkpoint);
    g->checkpoint = NULL;
    for (;;) {
        pawl_status status = checkpoint_open_for_call(run->store, g->step, run->platform, &run->log,
                                                      run->ranks->rank == 0, &g->checkpoint, err);
        if (status != PAWL_ENOTFOUND ||
            run->platform->monotonic_ns(run->platform->context) >= deadline_ns) {
            return status;
        }
        if (!appears(g)) {
            ranks_sleep(run->ranks, &pause, deadline_ns);
        }
    }
}

/* *wants: what another rank may want; entries 0 where there is no match. */
static pawl_status try_match(agreeing *g, wants_head *wants, pawl_error *err) {
    struct pawl_error failure = ERROR_INIT;
    restore_end_candidate(&g->all);
    plan_job_faults_free(&g->all.faults);
    g->all.compared = false;
    *wants = (wants_head){.entries = 0};
    TRY(open_step(g, err));
    pawl_status status = restore_match(&g->all, g->checkpoint, err);
    if (g->all.job && g->all.now.match != NULL &&
        wants_head_make(g->all.now.match, wants, &failure) != PAWL_OK) {
        *err = failure;
        return failure.status;
    }
    return status;
}

/* Where something turns out to be wrong with what is lacking the match is made again: the report
 * then has all of it. `status` and `story` are those of the match that is there. */
static pawl_status match_as_job(agreeing *g, pawl_status status, const pawl_error *story,
                                pawl_error *err) {
    struct pawl_error failure = ERROR_INIT;
    pawl_status own = PAWL_OK;
    if (g->verb == VERB_NOBODY) {
        own = wants_nobody(g->all.now.match, &g->all.faults, &failure);
    } else {
        TRY(wants_compare(g->run->ranks, g->all.now.match, &g->all.faults, &own, &failure, err));
    }
    g->all.compared = true;
    if (own == PAWL_OK && g->all.faults.count > 0) {
        own = restore_match(&g->all, g->checkpoint, &failure);
    } else if (own == PAWL_OK) {
        own = status;
        failure = *story;
    }
    return meet_for_result(g, "restore: match", own, &failure, NULL, err);
}

static pawl_status try_step(agreeing *g, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    wants_head wants;
    pawl_status status = try_match(g, &wants, &story);
    TRY(meet_for_result(g, "restore: match", status, &story, wants.entries > 0 ? &wants : NULL,
                        err));
    if (g->verb == VERB_COMPARE || g->verb == VERB_NOBODY) {
        TRY(match_as_job(g, status, &story, err));
    }
    if (g->verb != VERB_GO) {
        return PAWL_OK;
    }
    story = ERROR_INIT;
    status = restore_read(&g->all, &story);
    return meet_for_result(g, "restore: read", status, &story, NULL, err);
}

static pawl_status agree(agreeing *g, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    pawl_status settled = run_settle(g->run, &story);
    TRY(meet_for_step(g, settled, &story, err));
    do {
        TRY(try_step(g, err));
    } while (g->verb != VERB_GO);
    return PAWL_OK;
}

/* ---- telling -------------------------------------------------------------------------------- */

static void log_restored(agreeing *g) {
    char bytes[32];
    const pawl_report_counts *counts = report_counts(g->all.report);
    log_write(&g->run->log, PAWL_LOG_INFO, "restored step %lld: %llu entries, %s",
              (long long)g->step, (unsigned long long)counts->restored,
              text_bytes(bytes, counts->bytes));
}

static void tell_restored(pawl_run *run, const restoration *all, pawl_status status,
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
                              .seconds =
                                  (double)(os->monotonic_ns(os->context) - begun_ns) / NANOSECONDS};
    events_tell(run->events, &event, &restore, EVENTS_ALL);
}

/* Where the step fits this rank, and not another, its report is whole all the same. */
static pawl_status end_report(agreeing *g, pawl_status status, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    if (status == PAWL_OK) {
        g->run->restored_step = g->step;
        log_restored(g);
        return PAWL_OK;
    }
    if (status == PAWL_EMISMATCH && g->all.report != NULL &&
        report_finish(g->all.report, &ignored) != PAWL_OK) {
        pawl_report_free(g->all.report);
        g->all.report = NULL;
    }
    error_wrap(err, "restoring");
    return status;
}

static void agreeing_free(agreeing *g) {
    restoration_free(&g->all);
    pawl_checkpoint_close(g->checkpoint);
    step_scan_free(&g->scan);
    mem_free(g);
}

pawl_status run_restore(pawl_run *run, pawl_state *state, const pawl_restore_options *options,
                        pawl_report **report, pawl_error *err) {
    uint64_t begun_ns = run->platform->monotonic_ns(run->platform->context);
    agreeing *g = mem_calloc(1, sizeof *g);
    if (report != NULL) {
        *report = NULL;
    }
    if (g == NULL) {
        return error_nomem(err, sizeof *g);
    }
    g->run = run;
    g->scan = step_scan_of(run->store, run->platform);
    g->all = (restoration){.state = state,
                           .options = options,
                           .rank = run->ranks->rank,
                           .world_size = run->ranks->world_size,
                           .report_wanted = report != NULL,
                           .job = run->ranks->world_size > 1};
    pawl_status status = end_report(g, agree(g, err), err);
    tell_restored(run, &g->all, status, err, begun_ns);
    restore_hand_over_report(&g->all, status, report);
    agreeing_free(g);
    return status;
}
