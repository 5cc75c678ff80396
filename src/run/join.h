/* SPDX-License-Identifier: Apache-2.0 */
/* run/join: opening a run, of run.c, and opening it together, of join.c. */
#ifndef RUN_JOIN_H
#define RUN_JOIN_H

#include "run/private.h"

/* Opens the run's directory; its ranks may then meet through it. */
pawl_status run_open_store(pawl_run *run, const run_place *place, bool create, pawl_error *err)
    PAWL_MUST_CHECK;
/* One process alone, or rank 0: opens or makes the directory, becomes the owner. */
pawl_status run_open_owner(pawl_run *run, const run_place *place, const pawl_run_options *o,
                           pawl_error *err) PAWL_MUST_CHECK;
/* Any other rank: all that it needs but the directory. */
pawl_status run_open_guest(pawl_run *run, const pawl_run_options *o, pawl_error *err)
    PAWL_MUST_CHECK;
/* Many ranks: as these two, and all agree that they see one directory. */
pawl_status join_open(pawl_run *run, const run_place *place, const pawl_run_options *o,
                      pawl_error *err) PAWL_MUST_CHECK;

/* ---- what the ranks tell each other of the directory: join_card.c --------------------------- */

#define JOIN_TEXT_CHARS 600u

/* The answer to the first meeting. */
typedef struct join_answer {
    char attempt[16];
    uint64_t generation; /* of the owner's record */
    int64_t newest_step; /* -1: none */
    double lease_s;
    char root[JOIN_TEXT_CHARS], given[JOIN_TEXT_CHARS], cwd[JOIN_TEXT_CHARS];
} join_answer;
pawl_status join_answer_encode(const join_answer *a, buffer *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status join_answer_decode(const uint8_t *bytes, size_t n, join_answer *out, pawl_error *err)
    PAWL_MUST_CHECK;

typedef enum join_sight {
    JOIN_SEES = 0,   /* what rank 0 wrote */
    JOIN_ABSENT = 1, /* P05: there is no such directory */
    JOIN_OTHER = 2,  /* P06: there is one, but not that of rank 0 */
    JOIN_FAILED = 3  /* anything else */
} join_sight;

/* What a rank hands in at the second meeting. */
typedef struct join_card {
    join_sight sight;
    char root[JOIN_TEXT_CHARS], given[JOIN_TEXT_CHARS], cwd[JOIN_TEXT_CHARS];
} join_card;
pawl_status join_card_encode(const join_card *c, buffer *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status join_card_decode(const uint8_t *bytes, size_t n, join_card *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- rank 0 judges: join_judge.c ------------------------------------------------------------ */

/* Judges of the two meetings. The context of the first is the join_answer that all get. */
pawl_status join_judge_ranks(void *context, job_ranks *ranks, const meet_card *cards,
                             buffer *answer, pawl_error *err) PAWL_MUST_CHECK;
/* The context is the join_answer, too. */
pawl_status join_judge_sights(void *context, job_ranks *ranks, const meet_card *cards,
                              buffer *answer, pawl_error *err) PAWL_MUST_CHECK;

#endif
