/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A meeting through files in the run's directory, for ranks that nothing else connects.
 *
 * Every rank but 0 writes its card and looks for the answer; rank 0 looks for the cards. What is
 * found was perhaps left by an earlier job with the same launch: the answer lists the nonces of the
 * cards that it answers, and rank 0 removes what is there before it begins. A rank whose card is
 * gone writes it again. A card with another nonce is that of another process of the same number.
 *
 * The same ranks may have had this run open before, and some of them may still look for an answer
 * or an outcome of then, while others have closed it already and come to open it again. What bears
 * an earlier attempt stays until all have come together in this one.
 *
 * A listing is asked for before names are looked for, for a cached directory on NFS is fresh again
 * after that; and names are looked for all the same, for a listing may lag behind.
 */
#include "run/meet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NANOSECONDS   1e9
#define LOOK_AT_OWN   4u /* every so many looks a rank sees whether its own card is there still */
#define LOOK_BY_NAME  8u /* every so many looks rank 0 tries the names of cards not listed */
#define TRIED_BY_NAME 64 /* at most so many of them */

#define FOR_THE_OTHERS_S 1.0 /* to come, when one is known to be dead */

static uint64_t deadline_after(const pawl_run *run, double seconds) {
    double most = 1e9; /* thirty years: no overflow */
    return ranks_now_ns(run) + (uint64_t)((seconds < most ? seconds : most) * NANOSECONDS);
}

static void file_name(const pawl_run *run, int rank, char out[80]) {
    name_meet(out, run->ranks->key, run->ranks->met, rank);
}

/* ---- rank 0 --------------------------------------------------------------------------------- */

typedef struct collecting {
    pawl_run *run;
    const meeting *m;
    meet_table *table;
    char prefix[80]; /* of the names of cards */
    unsigned looks;
} collecting;

/* What is no card may be one that is still being written, or shown: it is looked at again. */
static pawl_status take_card(collecting *c, int rank, pawl_error *err) {
    char name[80];
    CLEANUP(buffer_free) buffer bytes = {0};
    file_name(c->run, rank, name);
    pawl_status status = store_read_file(c->run->store, name, MEET_BYTES, &bytes, err);
    if (status == PAWL_OK) {
        status = meet_table_take(c->run, c->m, c->table, rank, bytes.data, bytes.size, err);
    }
    return status == PAWL_ENOMEM ? status : PAWL_OK;
}

/* A rank that there should not be says that its job has more of them: its card is refused. */
static pawl_status note_card(void *context, const char *name, pawl_error *err) {
    collecting *c = context;
    size_t n = strlen(c->prefix);
    if (strncmp(name, c->prefix, n) != 0 || strspn(name + n, "0123456789") != strlen(name + n) ||
        strlen(name + n) > 6) {
        return PAWL_OK;
    }
    int rank = (int)strtol(name + n, NULL, 10);
    if (rank >= c->run->world_size ? rank < PAWL_MAX_RANKS : rank > 0 && !c->table->came[rank]) {
        TRY(take_card(c, rank, err));
    }
    return PAWL_OK;
}

static pawl_status look_by_name(collecting *c, pawl_error *err) {
    int tried = 0;
    for (int r = 1; r < c->run->world_size && tried < TRIED_BY_NAME; r++) {
        if (!c->table->came[r]) {
            TRY(take_card(c, r, err));
            tried++;
        }
    }
    return PAWL_OK;
}

/* Of those that are missing, the first, where it is known to be dead; else 0. *all: so are all. */
static int missing_dead(const collecting *c, bool *all) {
    int first = 0;
    bool any_other = false;
    for (int r = 1; r < c->run->world_size && !any_other; r++) {
        if (!c->table->came[r]) {
            bool dead = rank_alive(c->run, r) == PROCESS_DEAD;
            first = dead && first == 0 ? r : first;
            any_other = !dead;
        }
    }
    *all = first != 0 && !any_other;
    return first;
}

/* Also after a refusal: the answer must name all whom it refuses. */
static bool complete(const collecting *c) {
    return c->table->count == c->run->world_size;
}

static pawl_status look(collecting *c, pawl_error *err) {
    TRY(store_list(c->run->store, "", note_card, c, err));
    if (!complete(c) && c->looks++ % LOOK_BY_NAME == LOOK_BY_NAME - 1) {
        TRY(look_by_name(c, err));
    }
    return PAWL_OK;
}

/* Who is dead may have left a card before: life is asked for first. Once someone is missing for
 * good the others have a moment left to come, so that nobody is blamed who is only slower. */
static pawl_status collect(collecting *c, pawl_error *err) {
    ranks_pause pause = {0};
    uint64_t deadline_ns = deadline_after(c->run, ranks_collect_s(c->run));
    for (;;) {
        bool all_dead = false;
        int dead = missing_dead(c, &all_dead);
        TRY(look(c, err));
        if (complete(c) || all_dead || ranks_now_ns(c->run) >= deadline_ns) {
            return PAWL_OK;
        }
        if (dead != 0 && !c->table->came[dead]) {
            uint64_t soon_ns = deadline_after(c->run, FOR_THE_OTHERS_S);
            deadline_ns = soon_ns < deadline_ns ? soon_ns : deadline_ns;
        }
        ranks_sleep(c->run, &pause, deadline_ns);
    }
}

static void remove_quietly(pawl_run *run, const char *name) {
    struct pawl_error story = ERROR_INIT;
    pawl_status status = store_unlink(run->store, name, &story);
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        log_write(&run->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
    }
}

static void remove_kept(pawl_run *run, bool answer_too) {
    struct ranks *r = run->ranks;
    char name[80];
    for (int rank = answer_too ? -1 : 1; r->kept != 0 && rank < run->world_size; rank++) {
        if (rank != 0) {
            name_meet(name, r->kept_key, r->kept, rank);
            remove_quietly(run, name);
        }
    }
    r->kept = 0;
}

static void keep_files(pawl_run *run) {
    struct ranks *r = run->ranks;
    memcpy(r->kept_key, r->key, sizeof r->kept_key);
    r->kept = r->met;
}

static void free_table(meet_table *t) {
    meet_table_free(t);
}

static pawl_status lead(pawl_run *run, const meeting *m, buffer *answer, pawl_error *err) {
    uint64_t begun_ns = ranks_now_ns(run);
    CLEANUP(free_table) meet_table t = {0};
    CLEANUP(buffer_free) buffer told = {0};
    struct pawl_error untold = ERROR_INIT;
    char name[80];
    collecting c = {.run = run, .m = m, .table = &t};
    TRY(meet_table_init(run, m, &t, err));
    file_name(run, 0, c.prefix);
    c.prefix[strlen(c.prefix) - 5] = '\0'; /* the digits of rank 0 */
    struct pawl_error story = ERROR_INIT;
    pawl_status collected = collect(&c, &story);
    if (collected != PAWL_OK) {
        meet_table_refuse(&t, collected, &story);
    }
    pawl_status status =
        meet_decide(run, m, &t, ranks_seconds_since(run, begun_ns), answer, &told, err);
    if (told.size == 0) {
        return status;
    }
    file_name(run, -1, name);
    pawl_status heard = store_replace(run->store, name, told.data, told.size, &untold);
    if (heard != PAWL_OK && status == PAWL_OK) {
        *err = untold;
        error_wrap(err, "%s: cannot answer the other ranks", m->what);
        return heard;
    }
    if (t.count == run->world_size) { /* whoever is here has read the answer before */
        remove_kept(run, true);
    }
    keep_files(run);
    return status;
}

/* ---- the others ----------------------------------------------------------------------------- */

typedef struct asking {
    pawl_run *run;
    const meeting *m;
    buffer card;
    char name[80];
    unsigned looks;
} asking;

/* Rank 0 may remove it half written, as something old: then it is written when it is missed. */
static pawl_status hand_in(asking *a, pawl_error *err) {
    pawl_status status = store_replace(a->run->store, a->name, a->card.data, a->card.size, err);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        error_wrap(err, "%s: rank %d cannot tell rank 0 that it is there", a->m->what,
                   a->run->rank);
    }
    return status;
}

static pawl_status twice(asking *a, const meet_sheet *other, pawl_error *err) {
    char self[320];
    error_set(err, PAWL_EMISMATCH, "%s: two processes are rank %d", a->m->what, a->run->rank);
    run_error_path(a->run, err, "");
    error_expected(err, "one, this one: %s", rank_text(self, a->run, a->run->rank));
    error_found(err, "another: host %s, pid %lld", other->who.host, (long long)other->who.pid);
    error_next(err, "give each process a number of its own, and each start of the job another "
                    "launch");
    return PAWL_EMISMATCH;
}

/* Tells whoever has the same number, and rank 0, before it gives up. */
static pawl_status give_up_number(asking *a, const meet_sheet *other, pawl_error *err) {
    struct pawl_error ignored = ERROR_INIT;
    pawl_status status = twice(a, other, err);
    meeting failed = *a->m;
    failed.status = status;
    failed.story = err;
    a->card.size = 0;
    if (meet_sheet_make(a->run, &failed, &a->card, &ignored) == PAWL_OK &&
        hand_in(a, &ignored) != PAWL_OK) {
        log_write(&a->run->log, PAWL_LOG_WARN, "%s", error_text(&ignored));
    }
    return status;
}

static pawl_status look_at_own(asking *a, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    struct pawl_error ignored = ERROR_INIT;
    meet_sheet sheet;
    pawl_status status = store_read_file(a->run->store, a->name, MEET_BYTES, &bytes, &ignored);
    if (status == PAWL_ENOTFOUND) {
        return hand_in(a, err);
    }
    if (status != PAWL_OK ||
        meet_sheet_decode(bytes.data, bytes.size, &sheet, &ignored) != PAWL_OK ||
        memcmp(sheet.nonce, a->run->ranks->nonce, MEET_NONCE_BYTES) == 0) {
        return PAWL_OK;
    }
    return give_up_number(a, &sheet, err);
}

/* It answers this very card; or says that the job's meeting has failed before the card was there,
 * which no earlier job can have said of an attempt. */
static bool is_for_this_rank(const pawl_run *run, const meet_verdict *v) {
    const struct ranks *r = run->ranks;
    size_t rank = (size_t)run->rank;
    if (v->number != r->met) {
        return false;
    }
    bool answered = rank < v->nonce_count &&
                    memcmp(v->nonces + rank * MEET_NONCE_BYTES, r->nonce, MEET_NONCE_BYTES) == 0;
    return answered || (v->status != PAWL_OK && strcmp(r->key, run->attempt) == 0);
}

/* PAWL_ENOTFOUND: there is none for this rank. */
static pawl_status look_for_answer(asking *a, buffer *told, pawl_error *err) {
    char name[80];
    meet_verdict v;
    file_name(a->run, -1, name);
    told->size = 0;
    TRY(store_read_file(a->run->store, name, MEET_MAX_ANSWER, told, err));
    if (meet_verdict_decode(told->data, told->size, &v, err) != PAWL_OK ||
        !is_for_this_rank(a->run, &v)) {
        return error_set(err, PAWL_ENOTFOUND, "there is an answer to others only");
    }
    return PAWL_OK;
}

static pawl_status unanswered(asking *a, double waited_s, pawl_error *err) {
    char why[512];
    store_space space = {0};
    struct pawl_error ignored = ERROR_INIT;
    (void)snprintf(why, sizeof why, "no answer in this directory");
    if (store_space_of(a->run->store, &space, &ignored) == PAWL_OK && space.filesystem[0] != '\0') {
        (void)snprintf(why, sizeof why,
                       "no answer in this directory, which is on %s, mounted at %s",
                       space.filesystem, space.mount_point);
    }
    return meet_unanswered(a->run, a->m->what, waited_s, why, err);
}

static pawl_status note_nothing(void *context, const char *name, pawl_error *err) {
    (void)context;
    (void)name;
    (void)err;
    return PAWL_OK;
}

/* Not finding the answer is no failure; whatever else fails here is tried again. */
static pawl_status ask(asking *a, buffer *answer, pawl_error *err) {
    CLEANUP(buffer_free) buffer told = {0};
    ranks_pause pause = {0};
    pawl_run *run = a->run;
    uint64_t begun_ns = ranks_now_ns(run);
    uint64_t deadline_ns = deadline_after(run, ranks_deadline_s(run));
    for (;;) {
        struct pawl_error story = ERROR_INIT;
        bool dead = rank_alive(run, 0) == PROCESS_DEAD;
        if (look_for_answer(a, &told, &story) == PAWL_OK) {
            return meet_hear(run, told.data, told.size, answer, err);
        }
        if (dead || ranks_now_ns(run) >= deadline_ns) {
            return unanswered(a, ranks_seconds_since(run, begun_ns), err);
        }
        if (a->looks++ % LOOK_AT_OWN == LOOK_AT_OWN - 1) {
            TRY(look_at_own(a, err));
            if (store_list(run->store, "", note_nothing, NULL, &story) != PAWL_OK) {
                log_write(&run->log, PAWL_LOG_DEBUG, "%s", error_text(&story));
            }
        }
        ranks_sleep(run, &pause, deadline_ns);
    }
}

static pawl_status follow(pawl_run *run, const meeting *m, buffer *answer, pawl_error *err) {
    asking a = {.run = run, .m = m};
    file_name(run, run->rank, a.name);
    pawl_status status = meet_sheet_make(run, m, &a.card, err);
    if (status == PAWL_OK) {
        status = hand_in(&a, err);
    }
    if (status == PAWL_OK) {
        status = ask(&a, answer, err);
    }
    buffer_free(&a.card);
    return status;
}

/* ---- both ----------------------------------------------------------------------------------- */

/* Without its directory a rank can tell nobody what it failed at. */
pawl_status meet_by_store(pawl_run *run, const meeting *m, buffer *answer, pawl_error *err) {
    if (run->store == NULL) {
        *err = *m->story;
        return m->status;
    }
    return run->rank == 0 ? lead(run, m, answer, err) : follow(run, m, answer, err);
}

typedef struct leftovers {
    const char *key; /* of a launch: its meetings alone */
    const char *attempt;
    arena memory;
    char **names;
    size_t count, capacity;
} leftovers;

static bool is_leftover(const leftovers *l, const char *name) {
    char tag[FORMAT_TAG_CHARS];
    name_root_kind kind = name_root_classify(name, tag);
    if (l->key != NULL) {
        return kind == NAME_ROOT_MEET && strcmp(tag, l->key) == 0;
    }
    return kind != NAME_ROOT_FOREIGN && kind != NAME_ROOT_DOCTOR &&
           strncmp(tag, l->attempt, strlen(l->attempt)) != 0;
}

static pawl_status note_leftover(void *context, const char *name, pawl_error *err) {
    leftovers *l = context;
    if (!is_leftover(l, name)) {
        return PAWL_OK;
    }
    TRY(vec_reserve(&l->names, &l->capacity, l->count + 1, sizeof *l->names, err));
    l->names[l->count] = arena_strdup(&l->memory, name);
    if (l->names[l->count] == NULL) {
        return error_nomem(err, strlen(name) + 1);
    }
    l->count++;
    return PAWL_OK;
}

static void remove_leftovers(pawl_run *run, leftovers *l) {
    struct pawl_error story = ERROR_INIT;
    if (store_list(run->store, "", note_leftover, l, &story) != PAWL_OK) {
        log_write(&run->log, PAWL_LOG_WARN, "%s", error_text(&story));
    }
    for (size_t i = 0; i < l->count; i++) {
        remove_quietly(run, l->names[i]);
    }
    mem_free(l->names);
    arena_free(&l->memory);
}

void meet_clear(pawl_run *run) {
    if (!run->group->connected && run->store != NULL) {
        leftovers l = {.key = run->ranks->key};
        remove_leftovers(run, &l);
    }
}

void meet_sweep(pawl_run *run) {
    leftovers l = {.attempt = run->attempt};
    remove_leftovers(run, &l);
}

void meet_leave(pawl_run *run) {
    if (run->ranks != NULL && run->rank == 0 && run->store != NULL) {
        remove_kept(run, false);
    }
}
