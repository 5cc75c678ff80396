/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 judges whether the ranks that open a run belong together and see one directory. */
#include "run/join.h"

#include <stdio.h>
#include <string.h>

#define SHOWN_HOSTS 3

/* ---- are they of one job? -------------------------------------------------------------------- */

static pawl_status other_launch(job_ranks *ranks, int rank, const char *launch, pawl_error *err) {
    char zero[320];
    char text[320];
    error_set(err, PAWL_EMISMATCH, "open run: the ranks are of different starts of a job");
    error_expected(err, "%s has the launch %s", rank_text(zero, ranks, 0), ranks->group->launch);
    error_found(err, "%s has the launch %.255s", rank_text(text, ranks, rank), launch);
    error_next(err, "give all ranks of one start of the job the same launch, and none of another "
                    "start");
    return PAWL_EMISMATCH;
}

/* A rank that names no launch is not compared. In the first meeting a card is the launch, and a NUL
 * follows it. */
static pawl_status check_launches(job_ranks *ranks, const meet_card *cards, pawl_error *err) {
    for (int r = 1; r < ranks->world_size && ranks->group->launch != NULL; r++) {
        const char *launch = (const char *)cards[r].bytes;
        if (launch[0] != '\0' && strcmp(launch, ranks->group->launch) != 0) {
            return other_launch(ranks, r, launch, err);
        }
    }
    return PAWL_OK;
}

pawl_status join_judge_ranks(void *context, job_ranks *ranks, const meet_card *cards,
                             buffer *answer, pawl_error *err) {
    TRY(ranks_failed(ranks, cards, err));
    TRY(check_launches(ranks, cards, err));
    return join_answer_encode(context, answer, err);
}

/* ---- do they see one directory? -------------------------------------------------------------- */

typedef struct sights {
    job_ranks *ranks;
    join_card first;     /* of the ranks that do not see what rank 0 wrote */
    int rank;            /* whose card `first` is; -1: all see it */
    unsigned char *same; /* the ranks that see the same as `first` */
} sights;

static pawl_status read_sights(sights *v, const meet_card *cards, pawl_error *err) {
    for (int r = 1; r < v->ranks->world_size; r++) {
        join_card card;
        TRY(join_card_decode(cards[r].bytes, cards[r].n, &card, err));
        if (card.sight == JOIN_SEES) {
            continue;
        }
        if (v->rank < 0) {
            v->rank = r;
            v->first = card;
        }
        v->same[r] = card.sight == v->first.sight;
    }
    return PAWL_OK;
}

/* "on host b", "on hosts b, c, d and others" */
static const char *hosts_text(const sights *v, char *out, size_t size) {
    const char *hosts[SHOWN_HOSTS] = {NULL};
    size_t count = 0;
    bool more = false;
    for (int r = 1; r < v->ranks->world_size; r++) {
        const char *host = rank_host(v->ranks, r);
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

/* P05, P06: the failure of the first such rank, with the names of all. */
static pawl_status not_shared(const sights *v, const meet_card *cards, pawl_error *err) {
    char which[200];
    char hosts[320];
    job_ranks *ranks = v->ranks;
    const meet_card *card = &cards[v->rank];
    TRY(failure_decode(card->failure, card->failure_bytes, err, err));
    (void)snprintf(err->attempt, sizeof err->attempt,
                   v->first.sight == JOIN_ABSENT
                       ? "open run: %s %s cannot see the directory of rank 0 on host %.100s"
                       : "open run: %s %s cannot see what rank 0 on host %.100s wrote",
                   group_ranks_text(which, sizeof which, v->same, ranks->world_size),
                   hosts_text(v, hosts, sizeof hosts), rank_host(ranks, 0));
    err->status = card->status;
    return card->status;
}

/* P04: the ranks have different working directories, so the relative path might have named
 * different directories. It did not. */
static void warn_of_other_cwd(const sights *v, const join_answer *zero, const meet_card *cards) {
    job_ranks *ranks = v->ranks;
    struct pawl_error ignored = ERROR_INIT;
    char text[320];
    int other = -1;
    int count = 0;
    join_card first = {.sight = JOIN_SEES};
    for (int r = 1; r < ranks->world_size; r++) {
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
        log_write(&ranks->log, PAWL_LOG_WARN,
                  "the relative path \"%s\" stands for %s, but %d of %d ranks have another working "
                  "directory than rank 0: %s has %s, rank 0 has %s; give the absolute path",
                  zero->given, zero->root, count, ranks->world_size, rank_text(text, ranks, other),
                  first.cwd, zero->cwd);
    }
}

pawl_status join_judge_sights(void *context, job_ranks *ranks, const meet_card *cards,
                              buffer *answer, pawl_error *err) {
    (void)answer;
    AUTOFREE unsigned char *same = mem_calloc((size_t)ranks->world_size, 1);
    if (same == NULL) {
        return error_nomem(err, (size_t)ranks->world_size);
    }
    sights v = {.ranks = ranks, .rank = -1, .same = same};
    TRY(read_sights(&v, cards, err));
    if (v.rank > 0 && v.first.sight != JOIN_FAILED) {
        return not_shared(&v, cards, err);
    }
    TRY(ranks_failed(ranks, cards, err));
    warn_of_other_cwd(&v, context, cards);
    return PAWL_OK;
}
