/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A meeting, and how it goes through the group's callbacks: one gather of cards of a fixed size,
 * and two broadcasts, of the reply's length and of the reply. A rank on which gather fails takes
 * part in the broadcasts all the same, because the others do.
 */
#include "ranks/meet.h"
#include "ranks/wire.h"

#include <stdio.h>
#include <string.h>

#define LENGTH_MAGIC UINT64_C(0x5057414c00000000) /* above the length */

/* ---- the table of rank 0 -------------------------------------------------------------------- */

static pawl_status take_own(job_ranks *ranks, const meeting *m, meet_table *t, pawl_error *err) {
    CLEANUP(buffer_free) buffer own = {0};
    TRY(meet_envelope_make(ranks, m, &own, err));
    return meet_table_take(ranks, m, t, 0, own.data, own.size, err);
}

pawl_status meet_table_init(job_ranks *ranks, const meeting *m, meet_table *t, pawl_error *err) {
    size_t world_size = (size_t)ranks->world_size;
    *t = (meet_table){.failed = ERROR_INIT};
    t->cards = mem_calloc(world_size, sizeof *t->cards);
    t->came = mem_calloc(world_size, 1);
    if (t->cards == NULL || t->came == NULL) {
        return error_nomem(err, world_size * sizeof *t->cards);
    }
    return take_own(ranks, m, t, err);
}

void meet_table_free(meet_table *t) {
    mem_free(t->cards);
    mem_free(t->came);
    mem_free(t->nonces);
    arena_free(&t->memory);
}

void meet_table_refuse(meet_table *t, pawl_status status, const pawl_error *failed) {
    if (t->refused == PAWL_OK) {
        t->refused = status;
        t->failed = *failed;
    }
}

static pawl_status other_call(job_ranks *ranks, const meeting *m, const meet_envelope *s,
                              pawl_error *err) {
    char text[320];
    error_set(err, PAWL_EMISMATCH, "%s: the ranks do not make the same calls in the same order",
              m->what);
    error_expected(err, "%s, collective call %llu, as rank 0", m->what,
                   (unsigned long long)ranks->met);
    error_found(err, "%s: %s, collective call %llu", rank_text(text, ranks, s->rank), s->what,
                (unsigned long long)s->number);
    error_next(err, "call pawl_run_open, pawl_restore and pawl_meet on all ranks alike");
    return PAWL_EMISMATCH;
}

static pawl_status other_world(job_ranks *ranks, const meeting *m, const meet_envelope *s,
                               pawl_error *err) {
    char text[320];
    char zero[320];
    error_set(err, PAWL_EMISMATCH, "%s: the ranks do not agree how many they are", m->what);
    error_expected(err, "%s was started as one of %d ranks", rank_text(zero, ranks, 0),
                   ranks->world_size);
    error_found(err, "%s was started as one of %d", rank_text(text, ranks, s->rank), s->world_size);
    error_next(err, "start all ranks together, with one world_size");
    return PAWL_EMISMATCH;
}

static pawl_status other_rank(const meeting *m, int rank, const meet_envelope *s, pawl_error *err) {
    error_set(err, PAWL_EMISMATCH, "%s: a process's rank is not the one that the group gives it",
              m->what);
    error_expected(err, "rank %d", rank);
    error_found(err, "rank %d on host %s, pid %lld", s->rank, s->who.host, (long long)s->who.pid);
    error_next(err, "give each process a rank of its own, the same in pawl_group and in the "
                    "callbacks");
    return PAWL_EMISMATCH;
}

static pawl_status check_envelope(job_ranks *ranks, const meeting *m, int rank,
                                  const meet_envelope *s, pawl_error *err) {
    if (s->rank != rank) {
        return other_rank(m, rank, s, err);
    }
    ranks_learn(ranks, rank, &s->who);
    if (s->world_size != ranks->world_size) {
        return other_world(ranks, m, s, err);
    }
    if (s->number != ranks->met || strcmp(s->what, m->what) != 0) {
        return other_call(ranks, m, s, err);
    }
    return PAWL_OK;
}

/* A NUL follows, so that judges may read a text in place. */
static pawl_status copy_into(meet_table *t, const uint8_t **bytes, size_t n, pawl_error *err) {
    uint8_t *copy = arena_alloc(&t->memory, n + 1);
    if (copy == NULL) {
        return error_nomem(err, n + 1);
    }
    memcpy(copy, *bytes, n);
    copy[n] = 0;
    *bytes = copy;
    return PAWL_OK;
}

/* Also of a rank beyond the world size: the reply is for it, too, and refuses it. */
static pawl_status keep_nonce(meet_table *t, int rank, const uint8_t *nonce, pawl_error *err) {
    size_t count = (size_t)rank + 1;
    TRY(vec_reserve(&t->nonces, &t->nonce_room, count, RANKS_NONCE_BYTES, err));
    if (t->nonce_count < count) {
        memset(t->nonces + t->nonce_count * RANKS_NONCE_BYTES, 0,
               (count - t->nonce_count) * RANKS_NONCE_BYTES);
        t->nonce_count = count;
    }
    memcpy(t->nonces + (size_t)rank * RANKS_NONCE_BYTES, nonce, RANKS_NONCE_BYTES);
    return PAWL_OK;
}

pawl_status meet_table_take(job_ranks *ranks, const meeting *m, meet_table *t, int rank,
                            const uint8_t *bytes, size_t n, pawl_error *err) {
    meet_envelope envelope;
    struct pawl_error story = ERROR_INIT;
    TRY(meet_envelope_decode(bytes, n, &envelope, err));
    TRY(keep_nonce(t, rank, envelope.nonce, err));
    pawl_status status = check_envelope(ranks, m, rank, &envelope, &story);
    if (status != PAWL_OK) {
        meet_table_refuse(t, status, &story);
    }
    if (rank >= ranks->world_size) {
        return PAWL_OK;
    }
    TRY(copy_into(t, &envelope.card.bytes, envelope.card.n, err));
    TRY(copy_into(t, &envelope.card.failure, envelope.card.failure_bytes, err));
    t->cards[rank] = envelope.card;
    t->came[rank] = 1;
    t->count++;
    return PAWL_OK;
}

/* ---- rank 0 decides ------------------------------------------------------------------------- */

static const char *missing_text(job_ranks *ranks, const meet_table *t, char *out, size_t size) {
    AUTOFREE unsigned char *missing = mem_calloc((size_t)ranks->world_size, 1);
    if (missing == NULL) {
        (void)snprintf(out, size, "ranks");
        return out;
    }
    for (int r = 0; r < ranks->world_size; r++) {
        missing[r] = !t->came[r];
    }
    return group_ranks_text(out, size, missing, ranks->world_size);
}

static int first_missing(const job_ranks *ranks, const meet_table *t) {
    int rank = 0;
    while (rank < ranks->world_size - 1 && t->came[rank]) {
        rank++;
    }
    return rank;
}

/* S11. */
static pawl_status not_all_came(job_ranks *ranks, const meeting *m, const meet_table *t,
                                double waited_s, pawl_error *err) {
    char missing[300];
    char first[320];
    char waited[32];
    int rank = first_missing(ranks, t);
    bool dead = rank_alive(ranks, rank) == PROCESS_DEAD;
    error_set(err, PAWL_EPEER, "%s: %s did not come", m->what,
              missing_text(ranks, t, missing, sizeof missing));
    if (ranks->store != NULL) {
        store_error_path(err, ranks->store, "");
    }
    error_expected(err, "all %d ranks", ranks->world_size);
    error_found(err, "%d within %s%s%s%s", t->count, text_seconds(waited, waited_s),
                dead ? "; " : "", dead ? rank_text(first, ranks, rank) : "",
                dead ? " is gone" : "");
    error_next(err, "see in the output of %s what it did last; if it waits as well, %s",
               rank_text(first, ranks, rank),
               ranks->group->connected
                   ? "look at what the group's callbacks use (MPI, torch.distributed)"
                   : "its directory is not that of rank 0, or it was started with another launch");
    return PAWL_EPEER;
}

pawl_status ranks_failure(job_ranks *ranks, const meet_card *cards, int rank, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    const meet_card *card = &cards[rank];
    if (failure_decode(card->failure, card->failure_bytes, err, &ignored) != PAWL_OK) {
        error_set(err, card->status, "it failed: %s", pawl_status_name(card->status));
    }
    err->status = card->status;
    if (ranks->world_size > 1) {
        const char *host = rank_host(ranks, rank);
        error_wrap(err, host[0] != '\0' ? "rank %d (host %s)" : "rank %d", rank, host);
    }
    return card->status;
}

pawl_status ranks_failed(job_ranks *ranks, const meet_card *cards, pawl_error *err) {
    char text[200];
    AUTOFREE unsigned char *failed = mem_calloc((size_t)ranks->world_size, 1);
    int count = 0;
    int first = -1;
    if (failed == NULL) {
        return error_nomem(err, (size_t)ranks->world_size);
    }
    for (int r = 0; r < ranks->world_size; r++) {
        failed[r] = cards[r].came && cards[r].status != PAWL_OK;
        count += failed[r];
        first = failed[r] && first < 0 ? r : first;
    }
    if (count == 0) {
        return PAWL_OK;
    }
    pawl_status status = ranks_failure(ranks, cards, first, err);
    if (count > 1) {
        error_wrap(err, "%s failed; the first of them",
                   group_ranks_text(text, sizeof text, failed, ranks->world_size));
    }
    return status;
}

static pawl_status judge_meeting(job_ranks *ranks, const meeting *m, meet_table *t, double waited_s,
                                 buffer *answer, pawl_error *err) {
    if (t->refused != PAWL_OK) {
        *err = t->failed;
        return t->refused;
    }
    if (m->judge != NULL && (t->count == ranks->world_size || m->judge_missing)) {
        return m->judge(m->context, ranks, t->cards, answer, err);
    }
    TRY(ranks_failed(ranks, t->cards, err));
    return t->count < ranks->world_size ? not_all_came(ranks, m, t, waited_s, err) : PAWL_OK;
}

/* What is too large is cut or refused here, so that encoding cannot fail for that. */
pawl_status meet_decide(job_ranks *ranks, const meeting *m, meet_table *t, double waited_s,
                        buffer *answer, buffer *reply, pawl_error *err) {
    CLEANUP(buffer_free) buffer failure = {0};
    struct pawl_error ignored = ERROR_INIT;
    meet_reply v = {.number = ranks->met,
                    .who = ranks->self,
                    .nonces = t->nonces,
                    .nonce_count = ranks->group->connected ? 0 : t->nonce_count};
    v.status = judge_meeting(ranks, m, t, waited_s, answer, err);
    if (v.status == PAWL_OK && answer->size > MEET_MAX_REPLY / 2) {
        v.status = error_set(err, PAWL_ELIMIT, "%s: the answer to all ranks is too large", m->what);
    }
    if (v.status == PAWL_OK) {
        v.body = answer->data;
        v.body_bytes = answer->size;
    } else {
        if (failure_encode(err, (size_t)MEET_CARD_BYTES * 4, &failure, &ignored) != PAWL_OK) {
            return v.status; /* no memory even for that: the others get no reply */
        }
        v.body = failure.data;
        v.body_bytes = failure.size;
    }
    pawl_status encoded = meet_reply_encode(&v, reply, &ignored);
    if (encoded != PAWL_OK && v.status == PAWL_OK) {
        *err = ignored;
        return encoded;
    }
    return v.status;
}

/* ---- the other ranks ------------------------------------------------------------------------ */

pawl_status meet_open_reply(job_ranks *ranks, const uint8_t *bytes, size_t n, buffer *answer,
                            pawl_error *err) {
    meet_reply v;
    TRY(meet_reply_decode(bytes, n, &v, err));
    ranks_learn(ranks, 0, &v.who);
    if (v.status == PAWL_OK) {
        return v.body_bytes > 0 ? buffer_append(answer, v.body, v.body_bytes, err) : PAWL_OK;
    }
    struct pawl_error damaged = ERROR_INIT;
    if (failure_decode(v.body, v.body_bytes, err, &damaged) != PAWL_OK) {
        error_set(err, v.status, "rank 0 says: %s", pawl_status_name(v.status));
    }
    err->status = v.status;
    return v.status;
}

/* S11 on a rank that got no answer. */
pawl_status meet_unanswered(job_ranks *ranks, const char *what, double waited_s, const char *why,
                            pawl_error *err) {
    char zero[320];
    char waited[32];
    bool dead = rank_alive(ranks, 0) == PROCESS_DEAD;
    error_set(err, PAWL_EPEER, "%s: %s %s", what, rank_text(zero, ranks, 0),
              dead ? "is gone" : "did not answer");
    if (ranks->store != NULL) {
        store_error_path(err, ranks->store, "");
    }
    error_expected(err, "its answer to rank %d", ranks->rank);
    error_found(err, "none within %s: %s", text_seconds(waited, waited_s), why);
    error_next(err, "see in the output of rank 0 what it did last; if it waits for this rank, %s",
               ranks->group->connected
                   ? "look at what the group's callbacks use (MPI, torch.distributed)"
                   : "this directory is not that of rank 0, or it was started with another launch");
    return PAWL_EPEER;
}

/* ---- through the group's callbacks ---------------------------------------------------------- */

static pawl_status gather_cards(job_ranks *ranks, const meeting *m, meet_table *t,
                                pawl_error *err) {
    CLEANUP(buffer_free) buffer own = {0};
    size_t world_size = (size_t)ranks->world_size;
    AUTOFREE uint8_t *all = mem_calloc(world_size, MEET_CARD_BYTES);
    AUTOFREE unsigned char *came = mem_calloc(world_size, 1);
    if (all == NULL || came == NULL) {
        return error_nomem(err, world_size * MEET_CARD_BYTES);
    }
    TRY(meet_envelope_make(ranks, m, &own, err));
    TRY(group_gather(ranks->group, own.data, own.size, all, came, ranks_collect_timeout_s(ranks),
                     err));
    for (int r = 1; r < ranks->world_size; r++) {
        if (came[r]) {
            TRY(meet_table_take(ranks, m, t, r, all + (size_t)r * MEET_CARD_BYTES, MEET_CARD_BYTES,
                                err));
        }
    }
    return PAWL_OK;
}

static pawl_status broadcast_reply(job_ranks *ranks, const buffer *reply, pawl_error *err) {
    double timeout_s = ranks->timeout_s - ranks_collect_timeout_s(ranks);
    uint64_t length = LENGTH_MAGIC | reply->size;
    TRY(group_broadcast(ranks->group, &length, sizeof length, timeout_s, err));
    return group_broadcast(ranks->group, reply->data, reply->size, timeout_s, err);
}

static pawl_status lead_by_callbacks(job_ranks *ranks, const meeting *m, buffer *answer,
                                     pawl_error *err) {
    uint64_t begun_ns = platform_now_ns(ranks->platform);
    CLEANUP(meet_table_free) meet_table t = {0};
    CLEANUP(buffer_free) buffer reply = {0};
    struct pawl_error unheard = ERROR_INIT;
    TRY(meet_table_init(ranks, m, &t, err));
    struct pawl_error story = ERROR_INIT;
    pawl_status gathered = gather_cards(ranks, m, &t, &story);
    if (gathered != PAWL_OK) {
        meet_table_refuse(&t, gathered, &story);
    }
    pawl_status status =
        meet_decide(ranks, m, &t, platform_since_s(ranks->platform, begun_ns), answer, &reply, err);
    if (reply.size == 0) {
        return status;
    }
    pawl_status heard = broadcast_reply(ranks, &reply, &unheard);
    if (heard != PAWL_OK && status == PAWL_OK) {
        *err = unheard;
        error_wrap(err, "%s", m->what);
        return heard;
    }
    return status;
}

static pawl_status listen_for(job_ranks *ranks, uint64_t begun_ns, buffer *reply, pawl_error *err) {
    uint64_t length = 0;
    TRY(group_broadcast(ranks->group, &length, sizeof length,
                        ranks_left_s(ranks, ranks->timeout_s, begun_ns), err));
    uint64_t n = length ^ LENGTH_MAGIC;
    if (n == 0 || n > MEET_MAX_REPLY) {
        return error_set(err, PAWL_EDAMAGED, "rank 0 announced an answer of an impossible size");
    }
    TRY(buffer_reserve(reply, (size_t)n, err));
    TRY(group_broadcast(ranks->group, reply->data, (size_t)n,
                        ranks_left_s(ranks, ranks->timeout_s, begun_ns), err));
    reply->size = (size_t)n;
    reply->data[n] = 0;
    return PAWL_OK;
}

/* The message begins with who is missing, and ends with what the callback returned. */
static pawl_status unheard(job_ranks *ranks, const meeting *m, uint64_t begun_ns,
                           pawl_status status, pawl_error *err) {
    char why[300] = "the group's callback broadcast brought no answer";
    double waited_s = platform_since_s(ranks->platform, begun_ns);
    if (status != PAWL_EPEER) {
        error_wrap(err, "%s", m->what);
        return status;
    }
    if (err->found[0] != '\0') {
        (void)snprintf(why, sizeof why, "%.150s and returned %.100s", err->attempt, err->found);
    }
    return meet_unanswered(ranks, m->what, waited_s, why, err);
}

static pawl_status follow_by_callbacks(job_ranks *ranks, const meeting *m, buffer *answer,
                                       pawl_error *err) {
    uint64_t begun_ns = platform_now_ns(ranks->platform);
    CLEANUP(buffer_free) buffer own = {0};
    CLEANUP(buffer_free) buffer reply = {0};
    struct pawl_error not_taken = ERROR_INIT;
    TRY(meet_envelope_make(ranks, m, &own, err));
    pawl_status handed =
        group_gather(ranks->group, own.data, own.size, NULL, NULL, ranks->timeout_s, &not_taken);
    pawl_status status = listen_for(ranks, begun_ns, &reply, err);
    if (status == PAWL_OK) {
        return meet_open_reply(ranks, reply.data, reply.size, answer, err);
    }
    if (handed != PAWL_OK) {
        *err = not_taken;
        status = handed;
    }
    return unheard(ranks, m, begun_ns, status, err);
}

/* ---- a meeting ------------------------------------------------------------------------------ */

static pawl_status meet_alone(job_ranks *ranks, const meeting *m, buffer *answer, pawl_error *err) {
    CLEANUP(buffer_free) buffer failure = {0};
    meet_card card = {.came = true, .status = m->status, .bytes = m->mine, .n = m->mine_bytes};
    if (m->status != PAWL_OK) {
        TRY(failure_encode(m->failed, SIZE_MAX, &failure, err));
        card.failure = failure.data;
        card.failure_bytes = failure.size;
    }
    return m->judge != NULL ? m->judge(m->context, ranks, &card, answer, err)
                            : ranks_failed(ranks, &card, err);
}

pawl_status meet_interrupted(const meeting *m, pawl_error *err) {
    interrupt_error(err);
    error_wrap(err, "%s", m->what);
    return PAWL_ECANCELED;
}

static pawl_status meet_others(job_ranks *ranks, const meeting *m, buffer *answer,
                               pawl_error *err) {
    if (!ranks->group->connected) {
        return meet_by_files(ranks, m, answer, err);
    }
    return ranks->rank == 0 ? lead_by_callbacks(ranks, m, answer, err)
                            : follow_by_callbacks(ranks, m, answer, err);
}

/* Callbacks are not interrupted: then the rank brings that to the meeting, which all make fail. */
pawl_status ranks_meet(job_ranks *ranks, const meeting *m, buffer *answer, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    meeting own = *m;
    answer->size = 0;
    if (m->status == PAWL_OK && interrupt_said(ranks->stop)) {
        own.status = meet_interrupted(m, &story);
        own.failed = &story;
    }
    if (ranks->world_size == 1) {
        return meet_alone(ranks, &own, answer, err);
    }
    ranks->met++;
    return meet_others(ranks, &own, answer, err);
}
