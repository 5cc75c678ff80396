/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A meeting through files in the run's directory, for a group without callbacks.
 *
 * Every rank but 0 writes its card and looks for the reply; rank 0 looks for the cards. An earlier
 * job with the same launch may have left files of the same names: so rank 0 removes what is there
 * before it begins, a rank whose card is gone writes it again, and the reply lists the nonces of
 * the cards that it answers. A card with another nonce is that of another process of this rank.
 *
 * Some ranks may still read a reply or an outcome of an earlier attempt while others open the run
 * again: files of earlier attempts stay until all ranks have met in this one.
 *
 * On NFS a listing refreshes the cached directory, so each look begins with one; names that are not
 * listed are tried all the same, because a listing may lag behind.
 */
#include "format/format.h"
#include "ranks/meet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OWN_CARD_PERIOD  4u  /* in looks: a rank checks that its own card is still there */
#define BY_NAME_PERIOD   8u  /* in looks: rank 0 tries the names of cards that are not listed, */
#define BY_NAME_MOST     64  /* at most so many */
#define OTHERS_TIMEOUT_S 1.0 /* for the others to come, once one is known to be dead */
#define TELLING_S        0.5 /* for the others to hear that the caller has ended the call */

static void meet_file_name(const job_ranks *ranks, int rank, char out[80]) {
    (ranks->visiting ? name_visit : name_meet)(out, ranks->key, ranks->met, rank);
}

/* ---- rank 0 --------------------------------------------------------------------------------- */

typedef struct collecting {
    job_ranks *ranks;
    const meeting *m;
    meet_table *table;
    char prefix[80]; /* of the names of cards */
    unsigned looks;
} collecting;

/* Bytes that are no card may be one that is still being written: the next look decides. */
static pawl_status take_card(collecting *c, int rank, pawl_error *err) {
    char name[80];
    CLEANUP(buffer_free) buffer bytes = {0};
    meet_file_name(c->ranks, rank, name);
    pawl_status status = store_read_file(c->ranks->store, name, MEET_CARD_BYTES, &bytes, err);
    if (status == PAWL_OK) {
        status = meet_table_take(c->ranks, c->m, c->table, rank, bytes.data, bytes.size, err);
    }
    return status == PAWL_ENOMEM ? status : PAWL_OK;
}

/* Also cards of ranks beyond the world size: they are of a larger job, and refused. */
static pawl_status take_listed_card(void *context, const store_listed *found, pawl_error *err) {
    const char *name = found->name;
    collecting *c = context;
    size_t n = strlen(c->prefix);
    if (strncmp(name, c->prefix, n) != 0 || strspn(name + n, "0123456789") != strlen(name + n) ||
        strlen(name + n) > 6) {
        return PAWL_OK;
    }
    int rank = (int)strtol(name + n, NULL, 10);
    if (rank >= c->ranks->world_size ? rank < PAWL_MAX_RANKS : rank > 0 && !c->table->came[rank]) {
        TRY(take_card(c, rank, err));
    }
    return PAWL_OK;
}

static pawl_status look_by_name(collecting *c, pawl_error *err) {
    int tried = 0;
    for (int r = 1; r < c->ranks->world_size && tried < BY_NAME_MOST; r++) {
        if (!c->table->came[r]) {
            TRY(take_card(c, r, err));
            tried++;
        }
    }
    return PAWL_OK;
}

/* The first missing rank that is known to be dead, else 0. *all: every missing rank is dead. */
static int missing_dead(const collecting *c, bool *all) {
    int first = 0;
    bool any_other = false;
    for (int r = 1; r < c->ranks->world_size && !any_other; r++) {
        if (!c->table->came[r]) {
            bool dead = rank_has_ended(c->ranks, r);
            first = dead && first == 0 ? r : first;
            any_other = !dead;
        }
    }
    *all = first != 0 && !any_other;
    return first;
}

/* Also after a refusal all cards are waited for: the reply must have the nonces of all. */
static bool all_cards_came(const collecting *c) {
    return c->table->count == c->ranks->world_size;
}

static pawl_status look_for_cards(collecting *c, pawl_error *err) {
    TRY(store_list(c->ranks->store, "", take_listed_card, c, err));
    if (!all_cards_came(c) && c->looks++ % BY_NAME_PERIOD == BY_NAME_PERIOD - 1) {
        TRY(look_by_name(c, err));
    }
    return PAWL_OK;
}

/* Liveness is checked before the look: a dead rank may have left a card. Once a rank is known to be
 * dead the others get OTHERS_TIMEOUT_S, so that a slower one is not called missing, too. */
static pawl_status wait_for_cards(collecting *c, pawl_error *err) {
    ranks_pause pause = {0};
    uint64_t deadline_ns =
        platform_deadline_ns(c->ranks->platform, ranks_collect_timeout_s(c->ranks));
    for (;;) {
        bool all_dead = false;
        int dead = missing_dead(c, &all_dead);
        TRY(look_for_cards(c, err));
        if (all_cards_came(c) || all_dead || platform_late(c->ranks->platform, deadline_ns)) {
            return PAWL_OK;
        }
        if (interrupt_said(c->ranks->stop)) { /* the others are told */
            return meet_interrupted(c->m, err);
        }
        if (dead != 0 && !c->table->came[dead]) {
            uint64_t soon_ns = platform_deadline_ns(c->ranks->platform, OTHERS_TIMEOUT_S);
            deadline_ns = soon_ns < deadline_ns ? soon_ns : deadline_ns;
        }
        ranks_sleep(c->ranks, &pause, deadline_ns);
    }
}

static void remove_quietly(job_ranks *ranks, const char *name) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = store_unlink(ranks->store, name, &story);
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        log_write(&ranks->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
    }
}

static void remove_kept(job_ranks *ranks, bool answer_too) {
    char name[80];
    for (int rank = answer_too ? -1 : 1; ranks->kept != 0 && rank < ranks->world_size; rank++) {
        if (rank != 0) {
            (ranks->visiting ? name_visit : name_meet)(name, ranks->kept_key, ranks->kept, rank);
            remove_quietly(ranks, name);
        }
    }
    ranks->kept = 0;
}

static void keep_files(job_ranks *ranks) {
    memcpy(ranks->kept_key, ranks->key, sizeof ranks->kept_key);
    ranks->kept = ranks->met;
}

static pawl_status lead_by_files(job_ranks *ranks, const meeting *m, buffer *answer,
                                 pawl_error *err) {
    uint64_t begun_ns = platform_now_ns(ranks->platform);
    CLEANUP(meet_table_free) meet_table t = {0};
    CLEANUP(buffer_free) buffer reply = {0};
    struct pawl_error unpublished = ERROR_INIT;
    char name[80];
    collecting c = {.ranks = ranks, .m = m, .table = &t};
    TRY(meet_table_init(ranks, m, &t, err));
    meet_file_name(ranks, 0, c.prefix);
    c.prefix[strlen(c.prefix) - 5] = '\0'; /* the digits of rank 0 */
    struct pawl_error story = ERROR_INIT;
    pawl_status collected = wait_for_cards(&c, &story);
    if (collected != PAWL_OK) {
        meet_table_refuse(&t, collected, &story);
    }
    pawl_status status =
        meet_decide(ranks, m, &t, platform_since_s(ranks->platform, begun_ns), answer, &reply, err);
    if (reply.size == 0) {
        return status;
    }
    meet_file_name(ranks, -1, name);
    pawl_status heard = store_replace(ranks->store, name, reply.data, reply.size, &unpublished);
    if (heard != PAWL_OK && status == PAWL_OK) {
        *err = unpublished;
        error_wrap(err, "%s: cannot answer the other ranks", m->what);
        return heard;
    }
    if (t.count == ranks->world_size) { /* whoever is here has read the answer before */
        remove_kept(ranks, true);
    }
    keep_files(ranks);
    return status;
}

/* ---- the others ----------------------------------------------------------------------------- */

typedef struct asking {
    job_ranks *ranks;
    const meeting *m;
    buffer card;
    char name[80];
    unsigned looks;
} asking;

/* PAWL_ENOTFOUND: rank 0 took the half-written file for an old one and removed it; check_own_card
 * writes it again. */
static pawl_status hand_in(asking *a, pawl_error *err) {
    pawl_status status = store_replace(a->ranks->store, a->name, a->card.data, a->card.size, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        error_wrap(err, "%s: rank %d cannot tell rank 0 that it is there", a->m->what,
                   a->ranks->rank);
    }
    return status;
}

static pawl_status refuse_second_process(asking *a, const process_identity *other,
                                         pawl_error *err) {
    char self[320];
    error_set(err, PAWL_EMISMATCH, "%s: two processes are rank %d", a->m->what, a->ranks->rank);
    store_error_path(err, a->ranks->store, "");
    error_expected(err, "one, this one: %s", rank_text(self, a->ranks, a->ranks->rank));
    error_found(err, "another: host %s, pid %lld", other->host, (long long)other->pid);
    error_next(err, "give each process a rank of its own, and each start of the job another "
                    "launch");
    return PAWL_EMISMATCH;
}

/* Hands in a card with this failure in the place of the one that is there, so that rank 0 learns of
 * it. Returns its status. */
static pawl_status hand_in_failure(asking *a, const pawl_error *story) {
    struct pawl_error ignored = ERROR_INIT;
    meeting failed = *a->m;
    failed.status = story->status;
    failed.failed = story;
    a->card.size = 0;
    if (meet_envelope_make(a->ranks, &failed, &a->card, &ignored) == PAWL_OK &&
        hand_in(a, &ignored) != PAWL_OK) {
        log_write(&a->ranks->log, PAWL_LOG_WARN, "%s", error_text(&ignored));
    }
    return story->status;
}

/* The card of the other process is replaced, so that it learns of it, too. */
static pawl_status give_up_rank(asking *a, const process_identity *other, pawl_error *err) {
    (void)refuse_second_process(a, other, err);
    return hand_in_failure(a, err);
}

/* Where rank 0 has read this rank's card already, it will find it missing at the next meeting. */
static pawl_status leave_interrupted(asking *a, pawl_error *err) {
    if (a->m->status != PAWL_OK) { /* which it has handed in */
        *err = *a->m->failed;
        return a->m->status;
    }
    (void)meet_interrupted(a->m, err);
    return hand_in_failure(a, err);
}

/* *another: the card there is that of another process, *other. PAWL_ENOTFOUND: there is none. */
static pawl_status look_at_own_card(asking *a, process_identity *other, bool *another) {
    CLEANUP(buffer_free) buffer bytes = {0};
    struct pawl_error ignored = ERROR_INIT;
    meet_envelope envelope = {0};
    pawl_status status =
        store_read_file(a->ranks->store, a->name, MEET_CARD_BYTES, &bytes, &ignored);
    *another = status == PAWL_OK &&
               meet_envelope_decode(bytes.data, bytes.size, &envelope, &ignored) == PAWL_OK &&
               memcmp(envelope.nonce, a->ranks->nonce, RANKS_NONCE_BYTES) != 0;
    *other = envelope.who;
    return status;
}

static pawl_status check_own_card(asking *a, pawl_error *err) {
    process_identity other;
    bool another;
    if (look_at_own_card(a, &other, &another) == PAWL_ENOTFOUND) {
        return hand_in(a, err);
    }
    if (another) { /* perhaps of an earlier job, seen late */
        store_catch_up(a->ranks->store);
        (void)!look_at_own_card(a, &other, &another);
    }
    return another ? give_up_rank(a, &other, err) : PAWL_OK;
}

/* It answers this very card; or it is a failure from before the card was there, under this attempt,
 * which no earlier job had. */
static bool is_for_this_rank(const job_ranks *ranks, const meet_reply *r) {
    size_t rank = (size_t)ranks->rank;
    if (r->number != ranks->met) {
        return false;
    }
    bool answered = rank < r->nonce_count && memcmp(r->nonces + rank * RANKS_NONCE_BYTES,
                                                    ranks->nonce, RANKS_NONCE_BYTES) == 0;
    return answered || (r->status != PAWL_OK && strcmp(ranks->key, ranks->attempt) == 0);
}

/* PAWL_ENOTFOUND: there is none for this rank. */
static pawl_status look_for_reply(asking *a, buffer *reply, pawl_error *err) {
    char name[80];
    meet_reply v;
    meet_file_name(a->ranks, -1, name);
    reply->size = 0;
    TRY(store_read_file(a->ranks->store, name, MEET_MAX_REPLY, reply, err));
    if (meet_reply_decode(reply->data, reply->size, &v, err) != PAWL_OK ||
        !is_for_this_rank(a->ranks, &v)) {
        return error_set(err, PAWL_ENOTFOUND, "the answer there is not to this rank's card");
    }
    return PAWL_OK;
}

static pawl_status unanswered(asking *a, double waited_s, pawl_error *err) {
    char why[512];
    store_space space = {0};
    struct pawl_error ignored = ERROR_INIT;
    (void)snprintf(why, sizeof why, "no answer in this directory");
    if (store_space_of(a->ranks->store, &space, &ignored) == PAWL_OK &&
        space.filesystem[0] != '\0') {
        (void)snprintf(why, sizeof why,
                       "no answer in this directory, which is on %s, mounted at %s",
                       space.filesystem, space.mount_point);
    }
    return meet_unanswered(a->ranks, a->m->what, waited_s, why, err);
}

static pawl_status ignore_name(void *context, const store_listed *found, pawl_error *err) {
    (void)context;
    (void)found;
    (void)err;
    return PAWL_OK;
}

/* Failures to look are not reported: it is looked again until the deadline. */
static pawl_status await_reply(asking *a, buffer *answer, pawl_error *err) {
    CLEANUP(buffer_free) buffer reply = {0};
    ranks_pause pause = {0};
    job_ranks *ranks = a->ranks;
    uint64_t begun_ns = platform_now_ns(ranks->platform);
    uint64_t deadline_ns = platform_deadline_ns(ranks->platform, ranks->timeout_s);
    for (;;) {
        struct pawl_error story = ERROR_INIT;
        bool dead = rank_has_ended(ranks, 0);
        if (look_for_reply(a, &reply, &story) == PAWL_OK) {
            return meet_open_reply(ranks, reply.data, reply.size, answer, err);
        }
        if (dead || platform_late(ranks->platform, deadline_ns)) {
            return unanswered(a, platform_since_s(ranks->platform, begun_ns), err);
        }
        if (interrupt_said(ranks->stop)) {
            return leave_interrupted(a, err);
        }
        if (a->looks++ % OWN_CARD_PERIOD == OWN_CARD_PERIOD - 1) {
            TRY(check_own_card(a, err));
            if (store_list(ranks->store, "", ignore_name, NULL, &story) != PAWL_OK) {
                log_write(&ranks->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
            }
        }
        ranks_sleep(ranks, &pause, deadline_ns);
    }
}

static pawl_status follow_by_files(job_ranks *ranks, const meeting *m, buffer *answer,
                                   pawl_error *err) {
    asking a = {.ranks = ranks, .m = m};
    meet_file_name(ranks, ranks->rank, a.name);
    pawl_status status = meet_envelope_make(ranks, m, &a.card, err);
    if (status == PAWL_OK) {
        status = hand_in(&a, err);
    }
    if (status == PAWL_OK) {
        status = await_reply(&a, answer, err);
    }
    buffer_free(&a.card);
    return status;
}

/* ---- both ----------------------------------------------------------------------------------- */

/* Without the directory a rank cannot tell the others of its failure. */
pawl_status meet_by_files(job_ranks *ranks, const meeting *m, buffer *answer, pawl_error *err) {
    if (ranks->store == NULL) {
        *err = *m->failed;
        return m->status;
    }
    return ranks->rank == 0 ? lead_by_files(ranks, m, answer, err)
                            : follow_by_files(ranks, m, answer, err);
}

/* Removes what `unwanted` says of the run's directory. */
static void remove_where(job_ranks *ranks,
                         bool (*unwanted)(const job_ranks *, name_root_kind, const char *tag)) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error story = ERROR_INIT;
    char **names;
    size_t count;
    if (store_names(ranks->store, "", FORMAT_MAX_NAMES, &memory, &names, &count, &story) !=
        PAWL_OK) {
        log_write(&ranks->log, PAWL_LOG_WARN, "%s", error_text(&story));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        char tag[FORMAT_TAG_CHARS];
        name_root_kind kind = name_root_classify(names[i], tag);
        if (unwanted(ranks, kind, tag)) {
            remove_quietly(ranks, names[i]);
        }
    }
}

static bool is_of_same_launch(const job_ranks *ranks, name_root_kind kind, const char *tag) {
    name_root_kind own = ranks->visiting ? NAME_ROOT_VISIT : NAME_ROOT_MEET;
    return kind == own && strcmp(tag, ranks->key) == 0;
}

void ranks_clear(job_ranks *ranks) {
    if (!ranks->group->connected && ranks->store != NULL) {
        remove_where(ranks, is_of_same_launch);
    }
}

static bool is_of_other_attempt(const job_ranks *ranks, name_root_kind kind, const char *tag) {
    return kind != NAME_ROOT_FOREIGN && kind != NAME_ROOT_DOCTOR && kind != NAME_ROOT_VISIT &&
           strncmp(tag, ranks->attempt, strlen(ranks->attempt)) != 0;
}

void ranks_remove_earlier(job_ranks *ranks) {
    remove_where(ranks, is_of_other_attempt);
}

void ranks_leave(job_ranks *ranks) {
    if (ranks->world_size > 1 && ranks->rank == 0 && ranks->store != NULL) {
        remove_kept(ranks, false);
    }
}

/* ---- visitors ------------------------------------------------------------------------------- */

static pawl_status cannot_meet(pawl_error *err) {
    error_wrap(err, "ranks without callbacks meet through files in the run's directory, and this "
                    "process cannot make any there");
    error_safe(err, "nothing was read into any state");
    error_next(err, "give the group its callbacks gather and broadcast (pawl/mpi.h has them for "
                    "MPI), or let all ranks write to the directory");
    return err->status;
}

static pawl_status try_file(job_ranks *ranks, pawl_error *err) {
    char name[80];
    name_visit(name, ranks->key, 0, ranks->rank); /* meetings are counted from 1 */
    remove_quietly(ranks, name);
    TRY(store_create_small(ranks->store, name, "", 0, NULL, err));
    pawl_status status = store_unlink(ranks->store, name, err);
    /* Rank 0, which removes what an earlier start left, may have come before. */
    return status == PAWL_ENOTFOUND ? PAWL_OK : status;
}

pawl_status ranks_prepare_visit(job_ranks *ranks, pawl_error *err) {
    if (ranks->group->connected || ranks->world_size == 1) {
        return PAWL_OK;
    }
    if (ranks->rank == 0) {
        ranks_clear(ranks);
    }
    return try_file(ranks, err) == PAWL_OK ? PAWL_OK : cannot_meet(err);
}

typedef struct card_search {
    char prefix[80];
    bool found;
} card_search;

static pawl_status note_card(void *context, const store_listed *found, pawl_error *err) {
    const char *name = found->name;
    card_search *s = context;
    (void)err;
    s->found = s->found || strncmp(name, s->prefix, strlen(s->prefix)) == 0;
    return PAWL_OK;
}

/* A rank removes its card once it has the answer. */
static bool cards_are_left(job_ranks *ranks) {
    struct pawl_error ignored = ERROR_INIT;
    card_search s = {.found = false};
    meet_file_name(ranks, 0, s.prefix);
    s.prefix[strlen(s.prefix) - 5] = '\0'; /* the digits of rank 0 */
    return store_list(ranks->store, "", note_card, &s, &ignored) == PAWL_OK && s.found;
}

static bool answer_is_there(job_ranks *ranks) {
    CLEANUP(buffer_free) buffer reply = {0};
    struct pawl_error ignored = ERROR_INIT;
    char name[80];
    meet_file_name(ranks, -1, name);
    return store_read_file(ranks->store, name, MEET_MAX_REPLY, &reply, &ignored) == PAWL_OK;
}

/* What the caller has ended is told to the others, if they look now. */
static void wait_while(job_ranks *ranks, bool (*needed)(job_ranks *), double timeout_s) {
    ranks_pause pause = {0};
    uint64_t begun_ns = platform_now_ns(ranks->platform);
    while (needed(ranks)) {
        double most_s =
            interrupt_said(ranks->stop) && timeout_s > TELLING_S ? TELLING_S : timeout_s;
        uint64_t deadline_ns = begun_ns + (uint64_t)(most_s * NANOSECONDS);
        if (platform_late(ranks->platform, deadline_ns)) {
            return;
        }
        ranks_sleep(ranks, &pause, deadline_ns);
    }
}

static bool answer_is_missing(job_ranks *ranks) {
    return interrupt_said(ranks->stop) && !answer_is_there(ranks);
}

void ranks_end_visit(job_ranks *ranks) {
    char name[80];
    if (ranks->group->connected || ranks->world_size == 1 || ranks->met == 0) {
        return;
    }
    if (ranks->rank != 0) {
        wait_while(ranks, answer_is_missing, TELLING_S);
        meet_file_name(ranks, ranks->rank, name);
        remove_quietly(ranks, name);
        return;
    }
    wait_while(ranks, cards_are_left, ranks_appear_timeout_s(ranks));
    remove_kept(ranks, true);
}
