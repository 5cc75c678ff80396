/* SPDX-License-Identifier: Apache-2.0 */
/* run/restore: what the two halves of restoring share: each rank's part, of restore.c, and what
 * rank 0 decides for all, of restore_decide.c. */
#ifndef RUN_RESTORE_H
#define RUN_RESTORE_H

#include "checkpoint/restore.h"
#include "checkpoint/step_scan.h"
#include "run/private.h"

/* What all ranks do next. The values are sent to the other ranks. */
typedef enum restore_decision {
    RESTORE_GO_ON = 1,
    RESTORE_TAKE_STEP = 2,   /* begin with the step that comes with the decision */
    RESTORE_COMPARE = 3,     /* compare what each rank lacks with what the others want */
    RESTORE_NOBODY_WANTS = 4 /* what is lacking: all lack the same */
} restore_decision;

/* A restoring that all ranks do together, as one of them knows it. */
typedef struct joint_restore {
    pawl_run *run;
    restoration all;
    pawl_checkpoint *checkpoint;
    int64_t step;          /* the candidate: the step that is tried */
    restore_decision next; /* the latest decision */
    /* The rest is rank 0's. */
    step_scan scan;
    size_t untried; /* of the steps of `scan`; the newest of these comes last */
    size_t damaged_count;
    struct pawl_error newest_damage; /* why the newest damaged step was passed over */
} joint_restore;

/* What a rank hands in: at the first meeting which step it asks for, later how the candidate went.
 */
typedef struct restore_request {
    bool has_step; /* it asks for `step`; otherwise for the newest */
    int64_t step;
    bool no_fallback; /* no older step may take the candidate's place */
    bool matched;     /* it has matched the candidate, and `wants` says what it lacks */
    wants_head wants;
} restore_request;
pawl_status restore_request_encode(const restore_request *q, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* Judges of the meetings; the context is rank 0's joint_restore. The answer: u8 restore_decision,
 * u64le step, and, when a damaged step was passed over, its failure as failure_encode writes it. */
pawl_status restore_judge_requests(void *context, job_ranks *ranks, const meet_card *cards,
                                   buffer *answer, pawl_error *err) PAWL_MUST_CHECK;
pawl_status restore_judge_results(void *context, job_ranks *ranks, const meet_card *cards,
                                  buffer *answer, pawl_error *err) PAWL_MUST_CHECK;

#endif
