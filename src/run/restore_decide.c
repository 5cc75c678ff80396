/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 decides for all ranks that restore: which step is tried, and what follows from how that
 * went on each of them (R11). */
#include "checkpoint/checkpoint.h"
#include "checkpoint/step_directory.h"
#include "ranks/wire.h"
#include "run/restore.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_STEPS 4 /* different ones, in a message */

/* ---- requests as bytes ---------------------------------------------------------------------- */

#define REQUEST_STEP        1u
#define REQUEST_NO_FALLBACK 2u
#define REQUEST_MATCHED     4u

pawl_status restore_request_encode(const restore_request *q, buffer *out, pawl_error *err) {
    const uint8_t flags =
        (uint8_t)((q->has_step ? REQUEST_STEP : 0) | (q->no_fallback ? REQUEST_NO_FALLBACK : 0) |
                  (q->matched ? REQUEST_MATCHED : 0));
    TRY(buffer_append(out, &flags, 1, err));
    TRY(buffer_u64le(out, (uint64_t)q->step, err));
    if (!q->matched) {
        return PAWL_OK;
    }
    TRY(buffer_u64le(out, q->wants.entries, err));
    TRY(buffer_u64le(out, q->wants.lacking, err));
    return buffer_u32le(out, q->wants.sum, err);
}

static pawl_status request_decode(const meet_card *card, restore_request *out, pawl_error *err) {
    cursor c = cursor_of(card->bytes, card->n, 0, "card of a rank that restores");
    uint8_t flags = 0;
    uint64_t step = 0;
    TRY(cursor_u8(&c, &flags, err));
    TRY(cursor_u64le(&c, &step, err));
    *out = (restore_request){.has_step = flags & REQUEST_STEP,
                             .step = (int64_t)step,
                             .no_fallback = flags & REQUEST_NO_FALLBACK,
                             .matched = flags & REQUEST_MATCHED};
    if (out->matched) {
        TRY(cursor_u64le(&c, &out->wants.entries, err));
        TRY(cursor_u64le(&c, &out->wants.lacking, err));
        TRY(cursor_u32le(&c, &out->wants.sum, err));
    }
    return flags > (REQUEST_STEP | REQUEST_NO_FALLBACK | REQUEST_MATCHED) || cursor_left(&c) != 0
               ? wire_damaged(&c, "its flags or its size are wrong", err)
               : PAWL_OK;
}

/* ---- the next candidate --------------------------------------------------------------------- */

/* `story`: the damage for which the candidate before is passed over; or NULL. */
static pawl_status decision_encode(restore_decision what, int64_t step, const pawl_error *story,
                                   buffer *out, pawl_error *err) {
    TRY(buffer_append(out, &(const uint8_t){(uint8_t)what}, 1, err));
    TRY(buffer_u64le(out, (uint64_t)step, err));
    return story != NULL ? failure_encode(story, SIZE_MAX, out, err) : PAWL_OK;
}

/* The next older step with a manifest; -1: none. */
static pawl_status next_older_step(joint_restore *j, int64_t *out, pawl_error *err) {
    *out = -1;
    while (j->untried > 0 && *out < 0) {
        char directory[32];
        bool present;
        int64_t step = j->scan.steps[--j->untried];
        name_step(directory, step);
        TRY(step_prove_manifest(j->run->store, directory, &present, err));
        *out = present ? step : -1;
    }
    return PAWL_OK;
}

static pawl_status none_intact(const joint_restore *j, pawl_error *err) {
    *err = j->newest_damage;
    if (j->damaged_count > 1) {
        error_wrap(err, "none of %zu checkpoints is intact; the newest", j->damaged_count);
    }
    return err->status;
}

static pawl_status list_steps(joint_restore *j, pawl_error *err) {
    TRY(step_scan_list(&j->scan, err));
    j->untried = j->scan.count;
    return PAWL_OK;
}

/* When every step that was listed has been removed meanwhile, newer ones may have come: they are
 * listed again. */
static pawl_status decide_next_step(joint_restore *j, const pawl_error *story, buffer *answer,
                                    pawl_error *err) {
    for (;;) {
        int64_t step;
        TRY(next_older_step(j, &step, err));
        if (step >= 0) {
            return decision_encode(RESTORE_TAKE_STEP, step, story, answer, err);
        }
        if (j->damaged_count > 0) {
            return none_intact(j, err);
        }
        if (step_scan_confirms_empty(&j->scan)) {
            /* PAWL_OK: one has just appeared. */
            TRY(checkpoint_explain_missing(j->run->store, j->run->platform, err));
        }
        TRY(step_scan_retry(&j->scan, err));
        TRY(list_steps(j, err));
    }
}

static const char *step_text(char out[32], const restore_request *q) {
    if (q->has_step) {
        (void)snprintf(out, 32, "step %lld", (long long)q->step);
    } else {
        (void)snprintf(out, 32, "the newest step");
    }
    return out;
}

static bool same_request(const restore_request *a, const restore_request *b) {
    return a->has_step == b->has_step && (!a->has_step || a->step == b->step);
}

/* ---- judging -------------------------------------------------------------------------------- */

/* R11. The message says who asks for what. */
static pawl_status different_steps(const job_ranks *ranks, const restore_request *requests,
                                   pawl_error *err) {
    char found[512] = "";
    size_t at = 0;
    int shown = 0;
    AUTOFREE unsigned char *same = mem_calloc((size_t)ranks->world_size, 1);
    AUTOFREE unsigned char *said = mem_calloc((size_t)ranks->world_size, 1);
    if (same == NULL || said == NULL) {
        return error_nomem(err, (size_t)ranks->world_size);
    }
    for (int r = 0; r < ranks->world_size && at < sizeof found; r++) {
        char which[100];
        char step[32];
        if (said[r] || ++shown > SHOWN_STEPS) {
            continue;
        }
        for (int other = 0; other < ranks->world_size; other++) {
            same[other] = same_request(&requests[r], &requests[other]);
            said[other] |= same[other];
        }
        at += (size_t)snprintf(found + at, sizeof found - at, "%s%s: %s", at > 0 ? "; " : "",
                               group_ranks_text(which, sizeof which, same, ranks->world_size),
                               step_text(step, &requests[r]));
    }
    error_set(err, PAWL_EMISMATCH, "the ranks ask for different steps");
    store_error_path(err, ranks->store, "");
    error_expected(err, "the same step on all %d ranks", ranks->world_size);
    error_found(err, "%s%s", found, shown > SHOWN_STEPS ? "; ..." : "");
    error_safe(err, "nothing was read into any state");
    error_next(err, "give all ranks the same step, or none: rank 0 then chooses the newest");
    return PAWL_EMISMATCH;
}

pawl_status restore_judge_requests(void *context, job_ranks *ranks, const meet_card *cards,
                                   buffer *answer, pawl_error *err) {
    joint_restore *j = context;
    AUTOFREE restore_request *requests = mem_calloc((size_t)ranks->world_size, sizeof *requests);
    if (requests == NULL) {
        return error_nomem(err, (size_t)ranks->world_size * sizeof *requests);
    }
    TRY(ranks_failed(ranks, cards, err));
    bool same = true;
    for (int r = 0; r < ranks->world_size; r++) {
        TRY(request_decode(&cards[r], &requests[r], err));
        same = same && same_request(&requests[0], &requests[r]);
    }
    if (!same) {
        return different_steps(ranks, requests, err);
    }
    if (requests[0].has_step) {
        return decision_encode(RESTORE_TAKE_STEP, requests[0].step, NULL, answer, err);
    }
    TRY(list_steps(j, err));
    return decide_next_step(j, NULL, answer, err);
}

/* *out: the first rank whose failure is that of all, because no older step may be tried; -1: none.
 * A candidate that rank 0 sees and another rank does not is no reason to try an older one. */
static pawl_status first_without_fallback(const job_ranks *ranks, const meet_card *cards, int *out,
                                          pawl_error *err) {
    *out = -1;
    for (int r = 0; r < ranks->world_size && *out < 0; r++) {
        restore_request q;
        TRY(request_decode(&cards[r], &q, err));
        pawl_status status = cards[r].status;
        bool gone = status == PAWL_ENOTFOUND && cards[0].status == PAWL_ENOTFOUND;
        bool may_pass = status == PAWL_EDAMAGED || gone;
        *out = status != PAWL_OK && (q.no_fallback || !may_pass) ? r : -1;
    }
    return PAWL_OK;
}

static int first_with_status(const job_ranks *ranks, const meet_card *cards, pawl_status status) {
    for (int r = 0; r < ranks->world_size; r++) {
        if (cards[r].status == status) {
            return r;
        }
    }
    return -1;
}

/* Where all have matched and some lack entries that others may want, *out is what to do about that;
 * otherwise RESTORE_GO_ON. */
static pawl_status decide_on_lacking(const job_ranks *ranks, const meet_card *cards,
                                     restore_decision *out, pawl_error *err) {
    restore_request first = {.has_step = false};
    bool lacking = false;
    bool same = true;
    *out = RESTORE_GO_ON;
    for (int r = 0; r < ranks->world_size; r++) {
        restore_request q;
        TRY(request_decode(&cards[r], &q, err));
        if (!q.matched) {
            return PAWL_OK;
        }
        first = r == 0 ? q : first;
        lacking = lacking || q.wants.lacking > 0;
        same = same && q.wants.entries == first.wants.entries &&
               q.wants.lacking == first.wants.lacking && q.wants.sum == first.wants.sum;
    }
    *out = !lacking ? RESTORE_GO_ON : same ? RESTORE_NOBODY_WANTS : RESTORE_COMPARE;
    return PAWL_OK;
}

/* Not PAWL_ENOTFOUND, which says that there is nothing to restore. */
static pawl_status fail_unseen_candidate(const joint_restore *j, pawl_error *err) {
    err->status = PAWL_EIO;
    error_safe(err,
               "rank 0 sees step %lld, and that it is committed; nothing was read into any state",
               (long long)j->step);
    error_next(err,
               "start the job again in a minute; if it repeats, see that all ranks have the "
               "same directory: pawl doctor %s, asked by all of them",
               j->run->store->root);
    return PAWL_EIO;
}

pawl_status restore_judge_results(void *context, job_ranks *ranks, const meet_card *cards,
                                  buffer *answer, pawl_error *err) {
    joint_restore *j = context;
    struct pawl_error story = ERROR_INIT;
    int final;
    restore_decision next = RESTORE_GO_ON;
    TRY(decide_on_lacking(ranks, cards, &next, err));
    if (next != RESTORE_GO_ON) {
        return decision_encode(next, j->step, NULL, answer, err);
    }
    TRY(first_without_fallback(ranks, cards, &final, err));
    if (final >= 0) {
        pawl_status status = ranks_failure(ranks, cards, final, err);
        bool unseen = status == PAWL_ENOTFOUND && cards[0].status == PAWL_OK;
        return unseen ? fail_unseen_candidate(j, err) : status;
    }
    if (cards[0].status == PAWL_ENOTFOUND) {
        step_scan_saw_one(&j->scan); /* removed meanwhile */
        return decide_next_step(j, NULL, answer, err);
    }
    int damaged = first_with_status(ranks, cards, PAWL_EDAMAGED);
    if (damaged < 0) {
        return decision_encode(RESTORE_GO_ON, j->step, NULL, answer, err);
    }
    (void)ranks_failure(ranks, cards, damaged, &story);
    if (j->damaged_count++ == 0) {
        j->newest_damage = story;
    }
    return decide_next_step(j, &story, answer, err);
}
