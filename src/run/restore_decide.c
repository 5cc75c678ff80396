/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 decides for all ranks that restore: which step is tried, and what follows from how that
 * went on each of them (R11). */
#include "checkpoint/checkpoint.h"
#include "checkpoint/step_directory.h"
#include "ranks/wire.h"
#include "run/restore.h"

#include <stdio.h>

/* ---- requests as bytes ---------------------------------------------------------------------- */

pawl_status restore_request_encode(const restore_request *q, buffer *out, pawl_error *err) {
    TRY(buffer_append(out, &(const uint8_t){q->has_step}, 1, err));
    return buffer_u64le(out, (uint64_t)q->step, err);
}

static pawl_status request_decode(const meet_card *card, restore_request *out, pawl_error *err) {
    cursor c = cursor_of(card->bytes, card->n, 0, "card of a rank that restores");
    uint8_t has_step = 0;
    uint64_t step = 0;
    TRY(cursor_u8(&c, &has_step, err));
    TRY(cursor_u64le(&c, &step, err));
    *out = (restore_request){.has_step = has_step == 1, .step = (int64_t)step};
    return has_step > 1 || cursor_left(&c) != 0
               ? wire_damaged(&c, "its flags or its size are wrong", err)
               : PAWL_OK;
}

/* ---- the next candidate --------------------------------------------------------------------- */

/* The next older step with a manifest; -1: none. */
static pawl_status next_older_step(run_restoring *r, int64_t *out, pawl_error *err) {
    *out = -1;
    while (r->untried > 0 && *out < 0) {
        char directory[32];
        bool present;
        int64_t step = r->scan.steps[--r->untried];
        name_step(directory, step);
        TRY(step_prove_manifest(r->run->store, directory, &present, err));
        *out = present ? step : -1;
    }
    return PAWL_OK;
}

static pawl_status none_intact(const run_restoring *r, pawl_error *err) {
    *err = r->newest_damage;
    if (r->damaged_count > 1) {
        error_wrap(err, "none of %zu checkpoints is intact; the newest", r->damaged_count);
    }
    return err->status;
}

static pawl_status list_steps(run_restoring *r, pawl_error *err) {
    TRY(step_scan_list(&r->scan, err));
    r->untried = r->scan.count;
    return PAWL_OK;
}

/* When every step that was listed has been removed meanwhile, newer ones may have come: they are
 * listed again. */
static pawl_status decide_next_step(run_restoring *r, const pawl_error *story, buffer *answer,
                                    pawl_error *err) {
    for (;;) {
        int64_t step;
        TRY(next_older_step(r, &step, err));
        if (step >= 0) {
            return joint_decision_encode(JOINT_TAKE_STEP, step, story, answer, err);
        }
        if (r->damaged_count > 0) {
            return none_intact(r, err);
        }
        if (step_scan_confirms_empty(&r->scan)) {
            /* PAWL_OK: one has just appeared. */
            TRY(checkpoint_explain_missing(r->run->store, r->run->platform, err));
        }
        TRY(step_scan_retry(&r->scan, err));
        TRY(list_steps(r, err));
    }
}

/* ---- judging -------------------------------------------------------------------------------- */

typedef struct step_text {
    char of[32];
} step_text;

static step_text text_of_request(const restore_request *q) {
    step_text text;
    if (q->has_step) {
        (void)snprintf(text.of, sizeof text.of, "step %lld", (long long)q->step);
    } else {
        (void)snprintf(text.of, sizeof text.of, "the newest step");
    }
    return text;
}

static bool same_request(const restore_request *a, const restore_request *b) {
    return a->has_step == b->has_step && (!a->has_step || a->step == b->step);
}

/* R11. The message says who asks for what. */
static pawl_status different_steps(const job_ranks *ranks, const restore_request *requests,
                                   pawl_error *err) {
    char found[512];
    size_t n = (size_t)ranks->world_size;
    AUTOFREE step_text *texts = mem_calloc(n, sizeof *texts);
    AUTOFREE const char **said = mem_calloc(n, sizeof *said);
    if (texts == NULL || said == NULL) {
        return error_nomem(err, n * sizeof *texts);
    }
    for (size_t i = 0; i < n; i++) {
        texts[i] = text_of_request(&requests[i]);
        said[i] = texts[i].of;
    }
    TRY(joint_said_text(found, sizeof found, ranks, said, err));
    error_set(err, PAWL_EMISMATCH, "the ranks ask for different steps");
    store_error_path(err, ranks->store, "");
    error_expected(err, "the same step on all %d ranks", ranks->world_size);
    error_found(err, "%s", found);
    error_safe(err, "nothing was read into any state");
    error_next(err, "give all ranks the same step, or none: rank 0 then chooses the newest");
    return PAWL_EMISMATCH;
}

pawl_status restore_judge_requests(void *context, job_ranks *ranks, const meet_card *cards,
                                   buffer *answer, pawl_error *err) {
    const joint_restore *j = context;
    run_restoring *all = j->context;
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
        return joint_decision_encode(JOINT_TAKE_STEP, requests[0].step, NULL, answer, err);
    }
    TRY(list_steps(all, err));
    return decide_next_step(all, NULL, answer, err);
}

pawl_status restore_decide_next(joint_restore *j, const meet_card *cards, buffer *answer,
                                pawl_error *err) {
    run_restoring *all = j->context;
    struct pawl_error story = ERROR_INIT;
    if (cards[0].status == PAWL_ENOTFOUND) {
        step_scan_saw_one(&all->scan); /* removed meanwhile */
        return decide_next_step(all, NULL, answer, err);
    }
    int damaged = 0;
    while (cards[damaged].status != PAWL_EDAMAGED) { /* there is one */
        damaged++;
    }
    (void)ranks_failure(j->ranks, cards, damaged, &story);
    if (all->damaged_count++ == 0) {
        all->newest_damage = story;
    }
    return decide_next_step(all, &story, answer, err);
}
