/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A meeting: every rank hands in a card, rank 0 makes one answer of them, or one failure, for all.
 *
 * Through the group's callbacks that is one gather of cards of a fixed size, and two broadcasts: of
 * the answer's length, and of the answer. A rank on which gather fails takes part in the broadcasts
 * all the same, for the others do.
 */
#include "run/meet.h"
#include "run/wire.h"

#include <stdio.h>
#include <string.h>

#define LENGTH_MAGIC UINT64_C(0x5057414c00000000) /* above the length */
#define LEAST_WAIT_S 1.0                          /* for what must be on its way already */

/* ---- the table of rank 0 -------------------------------------------------------------------- */

static pawl_status take_own(pawl_run *run, const meeting *m, meet_table *t, pawl_error *err) {
    CLEANUP(buffer_free) buffer own = {0};
    TRY(meet_sheet_make(run, m, &own, err));
    return meet_table_take(run, m, t, 0, own.data, own.size, err);
}

pawl_status meet_table_init(pawl_run *run, const meeting *m, meet_table *t, pawl_error *err) {
    size_t world_size = (size_t)run->world_size;
    *t = (meet_table){.story = ERROR_INIT};
    t->cards = mem_calloc(world_size, sizeof *t->cards);
    t->came = mem_calloc(world_size, 1);
    if (t->cards == NULL || t->came == NULL) {
        return error_nomem(err, world_size * sizeof *t->cards);
    }
    return take_own(run, m, t, err);
}

void meet_table_free(meet_table *t) {
    mem_free(t->cards);
    mem_free(t->came);
    mem_free(t->nonces);
    arena_free(&t->memory);
}

void meet_table_refuse(meet_table *t, pawl_status status, const pawl_error *story) {
    if (t->refused == PAWL_OK) {
        t->refused = status;
        t->story = *story;
    }
}

static pawl_status other_call(pawl_run *run, const meeting *m, const meet_sheet *s,
                              pawl_error *err) {
    char text[320];
    error_set(err, PAWL_EMISMATCH, "%s: the ranks do not make the same calls in the same order",
              m->what);
    error_expected(err, "%s, collective call %llu, as rank 0", m->what,
                   (unsigned long long)run->ranks->met);
    error_found(err, "%s: %s, collective call %llu", rank_text(text, run, s->rank), s->what,
                (unsigned long long)s->number);
    error_next(err, "call pawl_run_open, pawl_restore and pawl_meet on all ranks alike");
    return PAWL_EMISMATCH;
}

static pawl_status other_world(pawl_run *run, const meeting *m, const meet_sheet *s,
                               pawl_error *err) {
    char text[320];
    char zero[320];
    error_set(err, PAWL_EMISMATCH, "%s: the ranks do not agree how many they are", m->what);
    error_expected(err, "%s was started as one of %d ranks", rank_text(zero, run, 0),
                   run->world_size);
    error_found(err, "%s was started as one of %d", rank_text(text, run, s->rank), s->world_size);
    error_next(err, "start all ranks together, with one world_size");
    return PAWL_EMISMATCH;
}

static pawl_status other_rank(const meeting *m, int rank, const meet_sheet *s, pawl_error *err) {
    error_set(err, PAWL_EMISMATCH, "%s: a process has not the number that the group gives it",
              m->what);
    error_expected(err, "rank %d", rank);
    error_found(err, "rank %d on host %s, pid %lld", s->rank, s->who.host, (long long)s->who.pid);
    error_next(err, "give each process a number of its own, the same in pawl_group and to the "
                    "callbacks");
    return PAWL_EMISMATCH;
}

static pawl_status check_sheet(pawl_run *run, const meeting *m, int rank, const meet_sheet *s,
                               pawl_error *err) {
    if (s->rank != rank) {
        return other_rank(m, rank, s, err);
    }
    ranks_learn(run, rank, &s->who);
    if (s->world_size != run->world_size) {
        return other_world(run, m, s, err);
    }
    if (s->number != run->ranks->met || strcmp(s->what, m->what) != 0) {
        return other_call(run, m, s, err);
    }
    return PAWL_OK;
}

/* Behind every text there is a NUL, so that judges may read one in place. */
static pawl_status keep(meet_table *t, const uint8_t **bytes, size_t n, pawl_error *err) {
    uint8_t *copy = arena_alloc(&t->memory, n + 1);
    if (copy == NULL) {
        return error_nomem(err, n + 1);
    }
    memcpy(copy, *bytes, n);
    copy[n] = 0;
    *bytes = copy;
    return PAWL_OK;
}

/* Also of a rank that there should not be: it is told so. */
static pawl_status note_nonce(meet_table *t, int rank, const uint8_t *nonce, pawl_error *err) {
    size_t count = (size_t)rank + 1;
    TRY(vec_reserve(&t->nonces, &t->nonce_room, count, MEET_NONCE_BYTES, err));
    if (t->nonce_count < count) {
        memset(t->nonces + t->nonce_count * MEET_NONCE_BYTES, 0,
               (count - t->nonce_count) * MEET_NONCE_BYTES);
        t->nonce_count = count;
    }
    memcpy(t->nonces + (size_t)rank * MEET_NONCE_BYTES, nonce, MEET_NONCE_BYTES);
    return PAWL_OK;
}

pawl_status meet_table_take(pawl_run *run, const meeting *m, meet_table *t, int rank,
                            const uint8_t *bytes, size_t n, pawl_error *err) {
    meet_sheet sheet;
    struct pawl_error story = ERROR_INIT;
    TRY(meet_sheet_decode(bytes, n, &sheet, err));
    TRY(note_nonce(t, rank, sheet.nonce, err));
    pawl_status status = check_sheet(run, m, rank, &sheet, &story);
    if (status != PAWL_OK) {
        meet_table_refuse(t, status, &story);
    }
    if (rank >= run->world_size) {
        return PAWL_OK;
    }
    TRY(keep(t, &sheet.card.bytes, sheet.card.n, err));
    TRY(keep(t, &sheet.card.story, sheet.card.story_bytes, err));
    t->cards[rank] = sheet.card;
    t->came[rank] = 1;
    t->count++;
    return PAWL_OK;
}

/* ---- rank 0 decides ------------------------------------------------------------------------- */

static const char *missing_text(pawl_run *run, const meet_table *t, char *out, size_t size) {
    AUTOFREE unsigned char *missing = mem_calloc((size_t)run->world_size, 1);
    if (missing == NULL) {
        (void)snprintf(out, size, "ranks");
        return out;
    }
    for (int r = 0; r < run->world_size; r++) {
        missing[r] = !t->came[r];
    }
    return group_ranks_text(out, size, missing, run->world_size);
}

static int first_missing(const pawl_run *run, const meet_table *t) {
    int rank = 0;
    while (rank < run->world_size - 1 && t->came[rank]) {
        rank++;
    }
    return rank;
}

/* S11. */
static pawl_status missing(pawl_run *run, const meeting *m, const meet_table *t, double waited_s,
                           pawl_error *err) {
    char ranks[300];
    char first[320];
    char waited[32];
    int rank = first_missing(run, t);
    bool dead = rank_alive(run, rank) == PROCESS_DEAD;
    error_set(err, PAWL_EPEER, "%s: %s did not come", m->what,
              missing_text(run, t, ranks, sizeof ranks));
    if (run->store != NULL) {
        run_error_path(run, err, "");
    }
    error_expected(err, "all %d ranks", run->world_size);
    error_found(err, "%d within %s%s%s%s", t->count, text_seconds(waited, waited_s),
                dead ? "; " : "", dead ? rank_text(first, run, rank) : "", dead ? " is gone" : "");
    error_next(err,
               "see in its output what %s did last; where it waits too, its directory is not "
               "the one of rank 0, or it was started with another launch",
               rank_text(first, run, rank));
    return PAWL_EPEER;
}

pawl_status ranks_story(pawl_run *run, const meet_card *cards, int rank, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    const meet_card *card = &cards[rank];
    if (story_decode(card->story, card->story_bytes, err, &ignored) != PAWL_OK) {
        error_set(err, card->status, "it failed: %s", pawl_status_name(card->status));
    }
    err->status = card->status;
    if (run->world_size > 1) {
        story_of_rank(err, rank, run->ranks->known[rank] ? run->ranks->who[rank].host : "");
    }
    return card->status;
}

pawl_status ranks_failed(pawl_run *run, const meet_card *cards, pawl_error *err) {
    char text[200];
    AUTOFREE unsigned char *failed = mem_calloc((size_t)run->world_size, 1);
    int count = 0;
    int first = -1;
    if (failed == NULL) {
        return error_nomem(err, (size_t)run->world_size);
    }
    for (int r = 0; r < run->world_size; r++) {
        failed[r] = cards[r].came && cards[r].status != PAWL_OK;
        count += failed[r];
        first = failed[r] && first < 0 ? r : first;
    }
    if (count == 0) {
        return PAWL_OK;
    }
    pawl_status status = ranks_story(run, cards, first, err);
    if (count > 1) {
        error_wrap(err, "%s failed; the first of them",
                   group_ranks_text(text, sizeof text, failed, run->world_size));
    }
    return status;
}

static pawl_status decide(pawl_run *run, const meeting *m, meet_table *t, double waited_s,
                          buffer *answer, pawl_error *err) {
    if (t->refused != PAWL_OK) {
        *err = t->story;
        return t->refused;
    }
    if (t->count == run->world_size && m->judge != NULL) {
        return m->judge(m->context, run, t->cards, answer, err);
    }
    TRY(ranks_failed(run, t->cards, err));
    return t->count < run->world_size ? missing(run, m, t, waited_s, err) : PAWL_OK;
}

/* Too large a failure or answer is cut or refused here, so that encoding cannot fail for that. */
pawl_status meet_decide(pawl_run *run, const meeting *m, meet_table *t, double waited_s,
                        buffer *answer, buffer *told, pawl_error *err) {
    CLEANUP(buffer_free) buffer story = {0};
    struct pawl_error ignored = ERROR_INIT;
    meet_verdict v = {.number = run->ranks->met,
                      .who = run->ranks->self,
                      .nonces = t->nonces,
                      .nonce_count = run->group->connected ? 0 : t->nonce_count};
    v.status = decide(run, m, t, waited_s, answer, err);
    if (v.status == PAWL_OK && answer->size > MEET_MAX_ANSWER / 2) {
        v.status = error_set(err, PAWL_ELIMIT, "%s: the answer to all ranks is too large", m->what);
    }
    if (v.status == PAWL_OK) {
        v.body = answer->data;
        v.body_bytes = answer->size;
    } else {
        if (story_encode(err, (size_t)MEET_BYTES * 4, &story, &ignored) != PAWL_OK) {
            return v.status; /* there is no memory even for that: they hear nothing */
        }
        v.body = story.data;
        v.body_bytes = story.size;
    }
    pawl_status encoded = meet_verdict_encode(&v, told, &ignored);
    if (encoded != PAWL_OK && v.status == PAWL_OK) {
        *err = ignored;
        return encoded;
    }
    return v.status;
}

/* ---- the others hear ------------------------------------------------------------------------ */

pawl_status meet_hear(pawl_run *run, const uint8_t *bytes, size_t n, buffer *answer,
                      pawl_error *err) {
    meet_verdict v;
    TRY(meet_verdict_decode(bytes, n, &v, err));
    ranks_learn(run, 0, &v.who);
    if (v.status == PAWL_OK) {
        return v.body_bytes > 0 ? buffer_append(answer, v.body, v.body_bytes, err) : PAWL_OK;
    }
    struct pawl_error damaged = ERROR_INIT;
    if (story_decode(v.body, v.body_bytes, err, &damaged) != PAWL_OK) {
        error_set(err, v.status, "rank 0 says: %s", pawl_status_name(v.status));
    }
    err->status = v.status;
    return v.status;
}

/* S11 on a rank that heard nothing. */
pawl_status meet_unanswered(pawl_run *run, const char *what, double waited_s, const char *why,
                            pawl_error *err) {
    char zero[320];
    char waited[32];
    bool dead = rank_alive(run, 0) == PROCESS_DEAD;
    error_set(err, PAWL_EPEER, "%s: %s %s", what, rank_text(zero, run, 0),
              dead ? "is gone" : "did not answer");
    if (run->store != NULL) {
        run_error_path(run, err, "");
    }
    error_expected(err, "its answer to rank %d", run->rank);
    error_found(err, "none within %s: %s", text_seconds(waited, waited_s), why);
    error_next(err, "see in its output what rank 0 did last; where it waits for this rank, this "
                    "directory is not the one of rank 0, or it was started with another launch");
    return PAWL_EPEER;
}

/* ---- through the group's callbacks ---------------------------------------------------------- */

static double left_s(const pawl_run *run, uint64_t begun_ns) {
    double left = ranks_deadline_s(run) - ranks_seconds_since(run, begun_ns);
    return left > LEAST_WAIT_S ? left : LEAST_WAIT_S;
}

static void free_table(meet_table *t) {
    meet_table_free(t);
}

static pawl_status gather_all(pawl_run *run, const meeting *m, meet_table *t, pawl_error *err) {
    CLEANUP(buffer_free) buffer own = {0};
    size_t world_size = (size_t)run->world_size;
    AUTOFREE uint8_t *all = mem_calloc(world_size, MEET_BYTES);
    AUTOFREE unsigned char *came = mem_calloc(world_size, 1);
    if (all == NULL || came == NULL) {
        return error_nomem(err, world_size * MEET_BYTES);
    }
    TRY(meet_sheet_make(run, m, &own, err));
    TRY(group_gather(run->group, own.data, own.size, all, came, ranks_collect_s(run), err));
    for (int r = 1; r < run->world_size; r++) {
        if (came[r]) {
            TRY(meet_table_take(run, m, t, r, all + (size_t)r * MEET_BYTES, MEET_BYTES, err));
        }
    }
    return PAWL_OK;
}

static pawl_status broadcast_all(pawl_run *run, const buffer *told, pawl_error *err) {
    double deadline_s = ranks_deadline_s(run) - ranks_collect_s(run);
    uint64_t length = LENGTH_MAGIC | told->size;
    TRY(group_broadcast(run->group, &length, sizeof length, deadline_s, err));
    return group_broadcast(run->group, told->data, told->size, deadline_s, err);
}

static pawl_status lead(pawl_run *run, const meeting *m, buffer *answer, pawl_error *err) {
    uint64_t begun_ns = ranks_now_ns(run);
    CLEANUP(free_table) meet_table t = {0};
    CLEANUP(buffer_free) buffer told = {0};
    struct pawl_error unheard = ERROR_INIT;
    TRY(meet_table_init(run, m, &t, err));
    struct pawl_error story = ERROR_INIT;
    pawl_status gathered = gather_all(run, m, &t, &story);
    if (gathered != PAWL_OK) {
        meet_table_refuse(&t, gathered, &story);
    }
    pawl_status status =
        meet_decide(run, m, &t, ranks_seconds_since(run, begun_ns), answer, &told, err);
    if (told.size == 0) {
        return status;
    }
    pawl_status heard = broadcast_all(run, &told, &unheard);
    if (heard != PAWL_OK && status == PAWL_OK) {
        *err = unheard;
        error_wrap(err, "%s", m->what);
        return heard;
    }
    return status;
}

static pawl_status listen_for(pawl_run *run, uint64_t begun_ns, buffer *told, pawl_error *err) {
    uint64_t length = 0;
    TRY(group_broadcast(run->group, &length, sizeof length, left_s(run, begun_ns), err));
    uint64_t n = length ^ LENGTH_MAGIC;
    if (n == 0 || n > MEET_MAX_ANSWER) {
        return error_set(err, PAWL_EDAMAGED, "rank 0 announced an answer that cannot be");
    }
    TRY(buffer_reserve(told, (size_t)n, err));
    TRY(group_broadcast(run->group, told->data, (size_t)n, left_s(run, begun_ns), err));
    told->size = (size_t)n;
    told->data[n] = 0;
    return PAWL_OK;
}

/* The callback's own number says less than who is missing; it is kept for whoever knows it. */
static pawl_status unheard(pawl_run *run, const meeting *m, uint64_t begun_ns, pawl_status status,
                           pawl_error *err) {
    char why[300] = "the group's callback broadcast brought no answer";
    double waited_s = ranks_seconds_since(run, begun_ns);
    if (status != PAWL_EPEER) {
        error_wrap(err, "%s", m->what);
        return status;
    }
    if (err->found[0] != '\0') {
        (void)snprintf(why, sizeof why, "%.150s and returned %.100s", err->attempt, err->found);
    }
    return meet_unanswered(run, m->what, waited_s, why, err);
}

static pawl_status follow(pawl_run *run, const meeting *m, buffer *answer, pawl_error *err) {
    uint64_t begun_ns = ranks_now_ns(run);
    CLEANUP(buffer_free) buffer own = {0};
    CLEANUP(buffer_free) buffer told = {0};
    struct pawl_error not_taken = ERROR_INIT;
    TRY(meet_sheet_make(run, m, &own, err));
    pawl_status handed =
        group_gather(run->group, own.data, own.size, NULL, NULL, ranks_deadline_s(run), &not_taken);
    pawl_status status = listen_for(run, begun_ns, &told, err);
    if (status == PAWL_OK) {
        return meet_hear(run, told.data, told.size, answer, err);
    }
    if (handed != PAWL_OK) {
        *err = not_taken;
        status = handed;
    }
    return unheard(run, m, begun_ns, status, err);
}

/* ---- any way -------------------------------------------------------------------------------- */

static pawl_status alone(pawl_run *run, const meeting *m, buffer *answer, pawl_error *err) {
    CLEANUP(buffer_free) buffer story = {0};
    meet_card card = {.came = true, .status = m->status, .bytes = m->mine, .n = m->mine_bytes};
    if (m->status != PAWL_OK) {
        TRY(story_encode(m->story, SIZE_MAX, &story, err));
        card.story = story.data;
        card.story_bytes = story.size;
    }
    return m->judge != NULL ? m->judge(m->context, run, &card, answer, err)
                            : ranks_failed(run, &card, err);
}

pawl_status ranks_meet(pawl_run *run, const meeting *m, buffer *answer, pawl_error *err) {
    answer->size = 0;
    if (run->world_size == 1) {
        return alone(run, m, answer, err);
    }
    run->ranks->met++;
    if (!run->group->connected) {
        return meet_by_store(run, m, answer, err);
    }
    return run->rank == 0 ? lead(run, m, answer, err) : follow(run, m, answer, err);
}
