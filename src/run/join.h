/* SPDX-License-Identifier: Apache-2.0 */
/* run/join: what opening a run (run.c) and opening it on many ranks together (join.c) share. */
#ifndef RUN_JOIN_H
#define RUN_JOIN_H

#include "run/private.h"

/* Opens the run's directory; its ranks may then meet through it. */
pawl_status run_open_store(pawl_run *run, const run_place *place, bool create, pawl_error *err)
    PAWL_MUST_CHECK;
/* One process alone, or rank 0: opens or makes the directory, becomes the owner. */
pawl_status run_open_owner(pawl_run *run, const run_place *place, const pawl_run_options *o,
                           pawl_error *err) PAWL_MUST_CHECK;
/* Any other rank: everything but the directory. */
pawl_status run_open_guest(pawl_run *run, const pawl_run_options *o, pawl_error *err)
    PAWL_MUST_CHECK;
/* Many ranks: each opens the run as above, and it is made sure that all see the same directory. */
pawl_status join_open(pawl_run *run, const run_place *place, const pawl_run_options *o,
                      pawl_error *err) PAWL_MUST_CHECK;

/* ---- what the ranks tell each other of the directory: join_card.c --------------------------- */

#define JOIN_TEXT_CHARS 600u

/* The answer of the first meeting: what rank 0 says of the run. Of a path: the absolute one, the
 * one that the user gave, and the working directory where that one is relative, else "". */
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
    JOIN_FAILED = 3  /* it could not find out, or cannot write there */
} join_sight;

/* What a rank hands in at the second meeting; paths as above. */
typedef struct join_card {
    join_sight sight;
    char root[JOIN_TEXT_CHARS], given[JOIN_TEXT_CHARS], cwd[JOIN_TEXT_CHARS];
} join_card;
pawl_status join_card_encode(const join_card *c, buffer *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status join_card_decode(const uint8_t *bytes, size_t n, join_card *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- rank 0 judges: join_judge.c ------------------------------------------------------------ */

/* Judge of the first meeting: all ranks are of one job. The context is the join_answer that all
 * get. */
pawl_status join_judge_ranks(void *context, job_ranks *ranks, const meet_card *cards,
                             buffer *answer, pawl_error *err) PAWL_MUST_CHECK;
/* Judge of the second meeting: all see one directory. The same context. */
pawl_status join_judge_sights(void *context, job_ranks *ranks, const meet_card *cards,
                              buffer *answer, pawl_error *err) PAWL_MUST_CHECK;

#endif
