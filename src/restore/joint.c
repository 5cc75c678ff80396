/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries one checkpoint, the candidate, on all ranks.
 *
 *   1 each rank opens the candidate and matches it with its state; they meet; where some lack
 *     entries that others may want they compare (wants.c), match again with the result, and meet
 *     once more
 *   2 each rank reads and verifies; they meet
 *
 * After both all go on, or all pass it over because it is damaged for one of them, or all fail.
 */
#include "ranks/wire.h"
#include "restore/restore.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_DIFFERENT 4 /* of what ranks say, in a message */

/* ---- how the candidate went on a rank, as bytes --------------------------------------------- */

#define RESULT_NO_FALLBACK 1u
#define RESULT_MATCHED     2u

typedef struct joint_result {
    bool no_fallback; /* no other may take the candidate's place */
    bool matched;     /* it has matched the candidate, and `wants` says what it lacks */
    wants_head wants;
} joint_result;

static pawl_status result_encode(const joint_result *q, buffer *out, pawl_error *err) {
    const uint8_t flags =
        (uint8_t)((q->no_fallback ? RESULT_NO_FALLBACK : 0) | (q->matched ? RESULT_MATCHED : 0));
    TRY(buffer_append(out, &flags, 1, err));
    if (!q->matched) {
        return PAWL_OK;
    }
    TRY(buffer_u64le(out, q->wants.entries, err));
    TRY(buffer_u64le(out, q->wants.lacking, err));
    return buffer_u32le(out, q->wants.sum, err);
}

static pawl_status result_decode(const meet_card *card, joint_result *out, pawl_error *err) {
    cursor c = cursor_of(card->bytes, card->n, 0, "card of a rank that restores");
    uint8_t flags = 0;
    TRY(cursor_u8(&c, &flags, err));
    *out = (joint_result){.no_fallback = flags & RESULT_NO_FALLBACK,
                          .matched = flags & RESULT_MATCHED};
    if (out->matched) {
        TRY(cursor_u64le(&c, &out->wants.entries, err));
        TRY(cursor_u64le(&c, &out->wants.lacking, err));
        TRY(cursor_u32le(&c, &out->wants.sum, err));
    }
    return flags > (RESULT_NO_FALLBACK | RESULT_MATCHED) || cursor_left(&c) != 0
               ? wire_damaged(&c, "its flags or its size are wrong", err)
               : PAWL_OK;
}

/* ---- rank 0 --------------------------------------------------------------------------------- */

pawl_status joint_decision_encode(joint_decision what, int64_t step, const pawl_error *story,
                                  buffer *out, pawl_error *err) {
    TRY(buffer_append(out, &(const uint8_t){(uint8_t)what}, 1, err));
    TRY(buffer_u64le(out, (uint64_t)step, err));
    return story != NULL ? failure_encode(story, SIZE_MAX, out, err) : PAWL_OK;
}

pawl_status joint_said_text(char *out, size_t size, const job_ranks *ranks, const char *const *said,
                            pawl_error *err) {
    size_t at = 0;
    int shown = 0;
    AUTOFREE unsigned char *same = mem_calloc((size_t)ranks->world_size, 1);
    AUTOFREE unsigned char *told = mem_calloc((size_t)ranks->world_size, 1);
    if (same == NULL || told == NULL) {
        return error_nomem(err, (size_t)ranks->world_size);
    }
    out[0] = '\0';
    for (int r = 0; r < ranks->world_size && at < size; r++) {
        char which[100];
        if (told[r] || ++shown > SHOWN_DIFFERENT) {
            continue;
        }
        for (int other = 0; other < ranks->world_size; other++) {
            same[other] = strcmp(said[r], said[other]) == 0;
            told[other] |= same[other];
        }
        at += (size_t)snprintf(out + at, size - at, "%s%s: %s", at > 0 ? "; " : "",
                               group_ranks_text(which, sizeof which, same, ranks->world_size),
                               said[r]);
    }
    if (shown > SHOWN_DIFFERENT && at < size) {
        (void)snprintf(out + at, size - at, "; ...");
    }
    return PAWL_OK;
}

/* *out: the first rank whose failure is that of all, because no other candidate may be tried; -1:
 * none. A candidate that rank 0 sees and another rank does not is no reason to try another. */
static pawl_status first_without_fallback(const job_ranks *ranks, const meet_card *cards, int *out,
                                          pawl_error *err) {
    *out = -1;
    for (int r = 0; r < ranks->world_size && *out < 0; r++) {
        joint_result q;
        TRY(result_decode(&cards[r], &q, err));
        pawl_status status = cards[r].status;
        bool gone = status == PAWL_ENOTFOUND && cards[0].status == PAWL_ENOTFOUND;
        bool may_pass = status == PAWL_EDAMAGED || gone;
        *out = status != PAWL_OK && (q.no_fallback || !may_pass) ? r : -1;
    }
    return PAWL_OK;
}

static bool all_have_succeeded(const job_ranks *ranks, const meet_card *cards) {
    for (int r = 0; r < ranks->world_size; r++) {
        if (cards[r].status != PAWL_OK) {
            return false;
        }
    }
    return true;
}

/* Where all have matched and some lack entries that others may want, *out is what to do about that;
 * otherwise JOINT_GO_ON. */
static pawl_status decide_on_lacking(const job_ranks *ranks, const meet_card *cards,
                                     joint_decision *out, pawl_error *err) {
    joint_result first = {.matched = false};
    bool lacking = false;
    bool same = true;
    *out = JOINT_GO_ON;
    for (int r = 0; r < ranks->world_size; r++) {
        joint_result q;
        TRY(result_decode(&cards[r], &q, err));
        if (!q.matched) {
            return PAWL_OK;
        }
        first = r == 0 ? q : first;
        lacking = lacking || q.wants.lacking > 0;
        same = same && q.wants.entries == first.wants.entries &&
               q.wants.lacking == first.wants.lacking && q.wants.sum == first.wants.sum;
    }
    *out = !lacking ? JOINT_GO_ON : same ? JOINT_NOBODY_WANTS : JOINT_COMPARE;
    return PAWL_OK;
}

/* Not PAWL_ENOTFOUND, which says that there is nothing to restore. */
static pawl_status fail_unseen_candidate(const joint_restore *j, pawl_error *err) {
    err->status = PAWL_EIO;
    error_safe(err, "rank 0 can open %s; nothing was read into any state",
               checkpoint_label(j->checkpoint));
    error_next(err,
               "start the job again in a minute; if it repeats, see that all ranks have the "
               "same directory: pawl doctor %s, asked by all of them",
               j->ranks->store->root);
    return PAWL_EIO;
}

static pawl_status judge_results(void *context, job_ranks *ranks, const meet_card *cards,
                                 buffer *answer, pawl_error *err) {
    joint_restore *j = context;
    int final;
    joint_decision next = JOINT_GO_ON;
    TRY(decide_on_lacking(ranks, cards, &next, err));
    if (next != JOINT_GO_ON) {
        return joint_decision_encode(next, j->step, NULL, answer, err);
    }
    TRY(first_without_fallback(ranks, cards, &final, err));
    if (final >= 0) {
        pawl_status status = ranks_failure(ranks, cards, final, err);
        bool unseen = status == PAWL_ENOTFOUND && cards[0].status == PAWL_OK;
        return unseen ? fail_unseen_candidate(j, err) : status;
    }
    if (all_have_succeeded(ranks, cards)) {
        return joint_decision_encode(JOINT_GO_ON, j->step, NULL, answer, err);
    }
    return j->pass_over(j, cards, answer, err);
}

/* ---- every rank ----------------------------------------------------------------------------- */

static pawl_status tell_passed_over(joint_restore *j, const uint8_t *bytes, size_t n,
                                    pawl_error *err) {
    struct pawl_error why = ERROR_INIT;
    TRY(failure_decode(bytes, n, &why, err));
    log_write(&j->ranks->log, PAWL_LOG_WARN,
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
    if (what < JOINT_GO_ON || what > JOINT_NOBODY_WANTS) {
        return wire_damaged(&c, "unknown kind", err);
    }
    if (cursor_left(&c) > 0) {
        TRY(tell_passed_over(j, c.data + c.at, cursor_left(&c), err));
    }
    j->next = (joint_decision)what;
    j->step = (int64_t)step;
    return PAWL_OK;
}

pawl_status joint_meet(joint_restore *j, meeting *m, const buffer *mine, pawl_error *err) {
    CLEANUP(buffer_free) buffer answer = {0};
    m->mine = mine->data;
    m->mine_bytes = mine->size;
    m->context = j;
    pawl_status status = ranks_meet(j->ranks, m, &answer, err);
    if (status == PAWL_EMISMATCH && m->status == PAWL_EMISMATCH) {
        *err = *m->failed;
    }
    return status == PAWL_OK ? take_decision(j, &answer, err) : status;
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
    CLEANUP(buffer_free) buffer mine = {0};
    pawl_status own = as_damage_if_touched(&j->all, status, story);
    joint_result q = {.no_fallback = j->no_fallback || j->all.mixed || own != status};
    if (wants != NULL && own == status) {
        q.matched = true;
        q.wants = *wants;
    }
    meeting m = {.what = what, .status = own, .failed = story, .judge = judge_results};
    TRY(result_encode(&q, &mine, err));
    TRY(joint_meet(j, &m, &mine, err));
    bool can_follow =
        j->next == JOINT_GO_ON ? own == PAWL_OK : j->next == JOINT_TAKE_STEP || q.matched;
    return can_follow ? PAWL_OK
                      : error_set(err, PAWL_EDAMAGED,
                                  "%s: rank 0 decided to go on, and this rank has failed", what);
}

/* *wants: what this rank lacks, for the other ranks; entries is 0 where there was no match. */
static pawl_status try_match(joint_restore *j, wants_head *wants, pawl_error *err) {
    struct pawl_error failure = ERROR_INIT;
    restore_end_candidate(&j->all);
    restore_take_back(&j->all);
    match_job_faults_free(&j->all.faults);
    j->all.compared = false;
    *wants = (wants_head){.entries = 0};
    TRY(j->open != NULL ? j->open(j, err) : PAWL_OK);
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
    if (j->next == JOINT_NOBODY_WANTS) {
        own = wants_nobody(j->all.now.match, &j->all.faults, &failure);
    } else {
        TRY(wants_compare(j->ranks, j->all.now.match, &j->all.faults, &own, &failure, err));
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

pawl_status joint_try(joint_restore *j, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    wants_head wants;
    pawl_status status = try_match(j, &wants, &story);
    TRY(meet_for_result(j, "restore: match", status, &story, wants.entries > 0 ? &wants : NULL,
                        err));
    if (j->next == JOINT_COMPARE || j->next == JOINT_NOBODY_WANTS) {
        TRY(match_as_job(j, status, &story, err));
    }
    if (j->next != JOINT_GO_ON) {
        return PAWL_OK;
    }
    story = ERROR_INIT;
    status = restore_read(&j->all, &story);
    return meet_for_result(j, "restore: read", status, &story, NULL, err);
}

void joint_end_report(joint_restore *j, pawl_status status) {
    struct pawl_error ignored = ERROR_INIT;
    if (status != PAWL_EMISMATCH || j->all.report == NULL) {
        return;
    }
    report_set_fits_not_all(j->all.report);
    if (report_finish(j->all.report, &ignored) != PAWL_OK) {
        pawl_report_free(j->all.report);
        j->all.report = NULL;
    }
}
