/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rank 0 collects the votes of a save (S11, S12). It lists the step's directory, with growing
 * pauses, and reads the head of each vote that is new. The first vote against the save ends it for
 * all: the other votes are not waited for.
 */
#include "run/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELSEWHERE_PAUSE_NS UINT64_C(1000000000) /* the first; each is twice the one before */

typedef struct collecting {
    pawl_run *run;
    const char *directory, *tag;
    int64_t step;
    votes *votes;
    int missing;             /* ranks whose votes have not come */
    unsigned char *expected; /* by rank: its vote has been listed, or its note says that it voted */
    uint64_t elsewhere_pause_ns, next_elsewhere_ns; /* of looking for votes elsewhere */
} collecting;

/* ---- what a vote says ----------------------------------------------------------------------- */

static pawl_status another_step(const collecting *c, const vote *v, pawl_error *err) {
    char who[320];
    error_set(err, PAWL_EMISMATCH, "the ranks do not save the same step: %s saves another one",
              rank_text(who, c->run->ranks, v->rank));
    run_error_path(c->run, err, c->directory);
    error_expected(err, "step %lld, as rank 0", (long long)c->step);
    error_found(err, "step %lld", (long long)v->step);
    error_next(err, "call pawl_save on all ranks for the same steps, and equally often");
    return PAWL_EMISMATCH;
}

static pawl_status another_size(const collecting *c, const vote *v, pawl_error *err) {
    char who[320];
    error_set(err, PAWL_EMISMATCH, "the ranks do not agree how many they are: %s says otherwise",
              rank_text(who, c->run->ranks, v->rank));
    run_error_path(c->run, err, c->directory);
    error_expected(err, "a world size of %d, as rank 0 has it", c->run->ranks->world_size);
    error_found(err, "%d", v->world_size);
    error_next(err, "open the run with the same group on all ranks");
    return PAWL_EMISMATCH;
}

static pawl_status rank_failed(const collecting *c, const vote *v, pawl_error *err) {
    char who[320];
    TRY(failure_decode(v->failed, v->failed_bytes, err, err));
    error_wrap(err, "%s", rank_text(who, c->run->ranks, v->rank));
    return err->status;
}

static pawl_status check_vote(const collecting *c, const vote *v, pawl_error *err) {
    if (v->world_size != c->run->ranks->world_size) {
        return another_size(c, v, err);
    }
    if (v->step != c->step) {
        return another_step(c, v, err);
    }
    if (v->skipped) {
        save_skipped_story(c->run, v->rank, err);
        return err->status;
    }
    return v->failed != NULL ? rank_failed(c, v, err) : PAWL_OK;
}

/* ---- looking for votes ---------------------------------------------------------------------- */

/* PAWL_OK also when it cannot be opened yet: a listing may show a name earlier. */
static pawl_status take_vote(collecting *c, const char *directory, int rank, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    vote *head = &c->votes->heads[rank];
    pawl_status status =
        vote_read_head(c->run->store, directory, c->tag, rank, &c->votes->memory, head, &story);
    run_made_progress(c->run);
    if (status == PAWL_ENOTFOUND) {
        return PAWL_OK;
    }
    if (status != PAWL_OK) {
        *err = story;
        return status;
    }
    TRY(check_vote(c, head, err));
    c->votes->came[rank] = 1;
    c->missing--;
    return PAWL_OK;
}

static pawl_status note_vote(void *context, const store_listed *found, pawl_error *err) {
    const char *name = found->name;
    (void)err;
    collecting *c = context;
    char tag[FORMAT_TAG_CHARS];
    int rank;
    if (name_vote_parse(name, tag, &rank) && rank > 0 && rank < c->run->ranks->world_size &&
        strcmp(tag, c->tag) == 0) {
        c->expected[rank] = 1;
    }
    return PAWL_OK;
}

static pawl_status take_new_votes(collecting *c, pawl_error *err) {
    pawl_status listed = store_list(c->run->store, c->directory, note_vote, c, err);
    if (listed != PAWL_OK && !(listed == PAWL_ENOTFOUND && c->run->store->traits.objects)) {
        return listed; /* on an object store there is no directory before there is a file */
    }
    run_made_progress(c->run);
    notes_get_voted(c->run->ranks, c->run->current_number, c->expected);
    for (int r = 1; r < c->run->ranks->world_size; r++) {
        if (c->expected[r] && !c->votes->came[r]) {
            TRY(take_vote(c, c->directory, r, err));
        }
    }
    return PAWL_OK;
}

/* ---- looking for votes elsewhere ------------------------------------------------------------ */

static pawl_status not_as_often(const collecting *c, const vote *v, const char *how,
                                pawl_error *err) {
    char who[320];
    error_set(err, PAWL_EMISMATCH, "the ranks do not save equally often: %s %s",
              rank_text(who, c->run->ranks, v->rank), how);
    run_error_path(c->run, err, c->directory);
    error_next(err, "call pawl_save on all ranks for the same steps, and equally often");
    return PAWL_EMISMATCH;
}

static pawl_status went_on(const collecting *c, const vote *v, pawl_error *err) {
    pawl_status status = not_as_often(c, v, "has gone on to another save", err);
    error_expected(err, "step %lld, as rank 0", (long long)c->step);
    error_found(err, "step %lld", (long long)v->step);
    return status;
}

static pawl_status fell_behind(const collecting *c, const vote *v, pawl_error *err) {
    return not_as_often(c, v, "has called pawl_save less often than rank 0", err);
}

/* The rank saves under a number that rank 0 has passed over: publishes that this save has failed,
 * or the rank would wait for its outcome until the deadline. */
static void end_call(const collecting *c, const char *directory, int rank, uint64_t number) {
    char who[320];
    int64_t step;
    struct pawl_error story = ERROR_INIT;
    if (!name_step_parse(directory, &step)) {
        return;
    }
    error_set(&story, PAWL_EMISMATCH,
              "the ranks do not save equally often: rank 0 has gone on without this call of %s",
              rank_text(who, c->run->ranks, rank));
    error_next(&story, "call pawl_save on all ranks for the same steps, and equally often");
    save_publish_outcome(c->run, number, step, SAVE_END_FAILED, &story);
}

static bool read_durable(collecting *c, const char *directory, int rank, const char *tag, vote *v) {
    struct pawl_error ignored = ERROR_INIT;
    return vote_read_head(c->run->store, directory, tag, rank, &c->votes->memory, v, &ignored) ==
               PAWL_OK &&
           !v->skipped && v->failed == NULL;
}

/* A rank whose vote is missing has voted on another save. A later save proves that the rank has
 * gone on only if the rank has written its part of it: one that skips a later save may still be
 * writing this one. */
static pawl_status judge_other(collecting *c, const char *directory, int rank, const char *tag,
                               uint64_t number, pawl_error *err) {
    vote v;
    bool here = strcmp(directory, c->directory) == 0;
    uint64_t ours = c->run->current_number;
    if (number > ours) {
        return read_durable(c, directory, rank, tag, &v) ? went_on(c, &v, err) : PAWL_OK;
    }
    if (number > c->run->previous_number && !outcome_is_there(c->run, tag)) {
        end_call(c, directory, rank, number);
        return PAWL_OK;
    }
    bool behind = here && number / SAVE_CALLS < ours / SAVE_CALLS;
    return behind && read_durable(c, directory, rank, tag, &v) ? fell_behind(c, &v, err) : PAWL_OK;
}

static pawl_status look_in_directory(collecting *c, const char *directory, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error ignored = ERROR_INIT;
    char **names;
    size_t count;
    size_t attempt = strlen(c->run->ranks->attempt);
    if (store_names(c->run->store, directory, FORMAT_MAX_NAMES, &memory, &names, &count,
                    &ignored) != PAWL_OK) {
        return PAWL_OK;
    }
    run_made_progress(c->run);
    for (size_t i = 0; i < count; i++) {
        char tag[FORMAT_TAG_CHARS];
        int rank;
        if (name_vote_parse(names[i], tag, &rank) && rank > 0 && rank < c->run->ranks->world_size &&
            !c->votes->came[rank] && strncmp(tag, c->run->ranks->attempt, attempt) == 0) {
            uint64_t number = strtoull(tag + attempt + 1, NULL, 10);
            TRY(number == c->run->current_number
                    ? take_vote(c, directory, rank, err)
                    : judge_other(c, directory, rank, tag, number, err));
        }
    }
    return PAWL_OK;
}

/* S12: a rank that saves another step votes in that step's directory; one that calls pawl_save more
 * or less often votes on a save of another number. */
static pawl_status look_elsewhere(collecting *c, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error ignored = ERROR_INIT;
    char **names;
    size_t count;
    if (store_names(c->run->store, "", FORMAT_MAX_NAMES, &memory, &names, &count, &ignored) !=
        PAWL_OK) {
        return PAWL_OK;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t step;
        if (name_step_parse(names[i], &step)) {
            TRY(look_in_directory(c, names[i], err));
        }
    }
    return PAWL_OK;
}

/* ---- giving up ------------------------------------------------------------------------------ */

/* "none of rank 3 (host a, pid 7)"; of many ranks, at most three by host and process. */
static void name_missing_ranks(const collecting *c, const unsigned char *missing, char *out,
                               size_t size) {
    char ranks[160];
    char who[320];
    int named = 0;
    size_t at = (size_t)snprintf(out, size, "none of ");
    if (c->missing > 1) {
        at += (size_t)snprintf(
            out + at, size - at,
            "%s: ", group_ranks_text(ranks, sizeof ranks, missing, c->run->ranks->world_size));
    }
    for (int r = 0; r < c->run->ranks->world_size && named < 3 && at < size; r++) {
        if (missing[r]) {
            at += (size_t)snprintf(out + at, size - at, "%s%s", named++ == 0 ? "" : ", ",
                                   rank_text(who, c->run->ranks, r));
        }
    }
    if (at >= size) {
        text_cut(out, size);
    }
}

static pawl_status too_late(const collecting *c, pawl_error *err) {
    char waited[32];
    char found[512];
    AUTOFREE unsigned char *missing = mem_calloc((size_t)c->run->ranks->world_size, 1);
    if (missing == NULL) {
        return error_nomem(err, (size_t)c->run->ranks->world_size);
    }
    for (int r = 0; r < c->run->ranks->world_size; r++) {
        missing[r] = !c->votes->came[r];
    }
    name_missing_ranks(c, missing, found, sizeof found);
    error_set(err, PAWL_EPEER, "not all ranks have voted within %s that their part is durable",
              text_seconds(waited, ranks_collect_timeout_s(c->run->ranks)));
    run_error_path(c->run, err, c->directory);
    error_expected(err, "votes of %d ranks", c->run->ranks->world_size);
    error_found(err, "%s", found);
    error_next(err, "check that those processes run, and that their storage responds; where they "
                    "are only slow, give group_deadline_s a larger value");
    return PAWL_EPEER;
}

static pawl_status is_dead(const collecting *c, int rank, pawl_error *err) {
    char who[320];
    error_set(err, PAWL_EPEER, "%s has ended without a vote", rank_text(who, c->run->ranks, rank));
    run_error_path(c->run, err, c->directory);
    error_expected(err, "votes of %d ranks", c->run->ranks->world_size);
    error_found(err, "none of rank %d", rank);
    error_next(err, "look into that rank's log for why it ended; a new start of the job continues "
                    "from the newest checkpoint");
    return PAWL_EPEER;
}

static int find_dead(const collecting *c) {
    for (int r = 1; r < c->run->ranks->world_size; r++) {
        if (!c->votes->came[r] && rank_has_ended(c->run->ranks, r)) {
            return r;
        }
    }
    return -1;
}

static pawl_status was_cancelled(pawl_error *err) {
    return error_set(err, PAWL_ECANCELED,
                     "the save was cancelled while it waited for the votes of other ranks");
}

/* ---- collecting ----------------------------------------------------------------------------- */

static pawl_status look_elsewhere_at_times(collecting *c, pawl_error *err) {
    if (!platform_late(c->run->platform, c->next_elsewhere_ns)) {
        return PAWL_OK;
    }
    c->next_elsewhere_ns += c->elsewhere_pause_ns;
    c->elsewhere_pause_ns *= 2;
    return look_elsewhere(c, err);
}

static void note_awaited(const collecting *c) {
    int r = 1;
    while (c->votes->came[r]) {
        r++;
    }
    atomic_store(&c->run->awaited_first, r);
    atomic_store(&c->run->awaited_count, c->missing);
}

static pawl_status await_votes(collecting *c, uint64_t deadline_ns, pawl_error *err) {
    pawl_run *run = c->run;
    ranks_pause pause = {0};
    for (;;) {
        int dead = find_dead(c); /* asked first: its last vote is seen below */
        bool late = platform_late(run->platform, deadline_ns);
        TRY(take_new_votes(c, err));
        if (c->missing == 0) {
            return PAWL_OK;
        }
        note_awaited(c);
        TRY(look_elsewhere_at_times(c, err));
        if (dead >= 0 && !c->votes->came[dead]) {
            return is_dead(c, dead, err);
        }
        if (late) {
            return too_late(c, err);
        }
        if (atomic_load(&run->stop_waiting)) {
            return was_cancelled(err);
        }
        ranks_sleep(run->ranks, &pause, deadline_ns);
    }
}

pawl_status collect_votes(pawl_run *run, const char *directory, const char *tag, int64_t step,
                          votes *v, pawl_error *err) {
    TRY(votes_begin(run->ranks, tag, v, err));
    AUTOFREE unsigned char *expected = mem_calloc((size_t)run->ranks->world_size, 1);
    if (expected == NULL) {
        return error_nomem(err, (size_t)run->ranks->world_size);
    }
    collecting c = {.run = run,
                    .directory = directory,
                    .tag = tag,
                    .step = step,
                    .votes = v,
                    .missing = run->ranks->world_size - 1,
                    .expected = expected,
                    .elsewhere_pause_ns = ELSEWHERE_PAUSE_NS};
    c.next_elsewhere_ns = platform_deadline_ns(run->platform, 1);
    return await_votes(&c, platform_deadline_ns(run->platform, ranks_collect_timeout_s(run->ranks)),
                       err);
}
