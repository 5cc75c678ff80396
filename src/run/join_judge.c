/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 judges whether the ranks that open a run belong together and see one directory. */
#include "run/join.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_HOSTS 3

/* ---- who they are --------------------------------------------------------------------------- */

static pawl_status other_launch(pawl_run *run, int rank, const char *launch, pawl_error *err) {
    char zero[320];
    char text[320];
    error_set(err, PAWL_EMISMATCH, "open run: the ranks are of different starts of a job");
    error_expected(err, "%s has the launch %s", rank_text(zero, run, 0), run->group->launch);
    error_found(err, "%s has the launch %.255s", rank_text(text, run, rank), launch);
    error_next(err, "give all ranks of one start of the job the same launch, and none of another "
                    "start");
    return PAWL_EMISMATCH;
}

/* Where both say what they belong to. The cards end with a NUL. */
static pawl_status check_launches(pawl_run *run, const meet_card *cards, pawl_error *err) {
    for (int r = 1; r < run->world_size && run->group->launch != NULL; r++) {
        const char *launch = (const char *)cards[r].bytes;
        if (launch[0] != '\0' && strcmp(launch, run->group->launch) != 0) {
            return other_launch(run, r, launch, err);
        }
    }
    return PAWL_OK;
}

pawl_status join_judge_ranks(void *context, pawl_run *run, const meet_card *cards, buffer *answer,
                             pawl_error *err) {
    TRY(ranks_failed(run, cards, err));
    TRY(check_launches(run, cards, err));
    return join_answer_encode(context, answer, err);
}

/* ---- what they see -------------------------------------------------------------------------- */

typedef struct views {
    pawl_run *run;
    join_card first; /* of those who do not see it */
    int rank;        /* its; -1: all see it */
    unsigned char *same;
} views;

static pawl_status read_views(views *v, const meet_card *cards, pawl_error *err) {
    for (int r = 1; r < v->run->world_size; r++) {
        join_card card;
        TRY(join_card_decode(cards[r].bytes, cards[r].n, &card, err));
        if (card.view == JOIN_SEES) {
            continue;
        }
        if (v->rank < 0) {
            v->rank = r;
            v->first = card;
        }
        v->same[r] = card.view == v->first.view;
    }
    return PAWL_OK;
}

/* "on host b", "on hosts b, c, d and others" */
static const char *hosts_text(const views *v, char *out, size_t size) {
    const char *hosts[SHOWN_HOSTS] = {NULL};
    size_t count = 0;
    bool more = false;
    for (int r = 1; r < v->run->world_size; r++) {
        const char *host = v->run->ranks->who[r].host;
        bool shown = !v->same[r];
        for (size_t i = 0; i < count && !shown; i++) {
            shown = strcmp(host, hosts[i]) == 0;
        }
        more = more || (!shown && count == SHOWN_HOSTS);
        if (!shown && count < SHOWN_HOSTS) {
            hosts[count++] = host;
        }
    }
    size_t at = (size_t)snprintf(out, size, count > 1 ? "on hosts" : "on host");
    for (size_t i = 0; i < count && at < size; i++) {
        const char *before = i == 0 ? " " : i + 1 < count || more ? ", " : " and ";
        at += (size_t)snprintf(out + at, size - at, "%s%.80s", before, hosts[i]);
    }
    if (more && at < size) {
        (void)snprintf(out + at, size - at, " and others");
    }
    return out;
}

/* P05, P06. What the first of them found is in its story. */
static pawl_status not_shared(const views *v, const meet_card *cards, pawl_error *err) {
    char ranks[200];
    char hosts[320];
    pawl_run *run = v->run;
    const meet_card *card = &cards[v->rank];
    TRY(story_decode(card->story, card->story_bytes, err, err));
    (void)snprintf(err->attempt, sizeof err->attempt,
                   v->first.view == JOIN_ABSENT
                       ? "open run: %s %s cannot see the directory of rank 0 on host %.100s"
                       : "open run: %s %s cannot see what rank 0 on host %.100s wrote",
                   group_ranks_text(ranks, sizeof ranks, v->same, run->world_size),
                   hosts_text(v, hosts, sizeof hosts), run->ranks->self.host);
    err->status = card->status;
    return card->status;
}

/* P04. It is one directory all the same. */
static void warn_of_places(const views *v, const join_answer *zero, const meet_card *cards) {
    pawl_run *run = v->run;
    struct pawl_error ignored = ERROR_INIT;
    char text[320];
    int other = -1;
    int count = 0;
    join_card first = {.view = JOIN_SEES};
    for (int r = 1; r < run->world_size; r++) {
        join_card card;
        bool differs = join_card_decode(cards[r].bytes, cards[r].n, &card, &ignored) == PAWL_OK &&
                       card.cwd[0] != '\0' && zero->cwd[0] != '\0' &&
                       strcmp(card.cwd, zero->cwd) != 0;
        count += differs;
        if (differs && other < 0) {
            other = r;
            first = card;
        }
    }
    if (count > 0) {
        log_write(&run->log, PAWL_LOG_WARN,
                  "the relative path \"%s\" stands for %s, but %d of %d ranks have another working "
                  "directory than rank 0: %s has %s, rank 0 has %s; give the absolute path",
                  zero->given, zero->root, count, run->world_size, rank_text(text, run, other),
                  first.cwd, zero->cwd);
    }
}

pawl_status join_judge_views(void *context, pawl_run *run, const meet_card *cards, buffer *answer,
                             pawl_error *err) {
    (void)answer;
    AUTOFREE unsigned char *same = mem_calloc((size_t)run->world_size, 1);
    if (same == NULL) {
        return error_nomem(err, (size_t)run->world_size);
    }
    views v = {.run = run, .rank = -1, .same = same};
    TRY(read_views(&v, cards, err));
    if (v.rank > 0 && v.first.view != JOIN_FAILED) {
        return not_shared(&v, cards, err);
    }
    TRY(ranks_failed(run, cards, err));
    warn_of_places(&v, context, cards);
    return PAWL_OK;
}
