/* SPDX-License-Identifier: Apache-2.0 */
/* run/restore: what the two halves of restoring share: each rank's part, of restore.c, and what
 * rank 0 decides for all, of restore_decide.c. */
#ifndef RUN_RESTORE_H
#define RUN_RESTORE_H

#include "checkpoint/step_scan.h"
#include "restore/restore.h"
#include "run/private.h"

typedef struct run_restoring {
    pawl_run *run;
    joint_restore joint;
    /* The rest is rank 0's. */
    step_scan scan;
    size_t untried; /* of the steps of `scan`; the newest of these comes last */
    size_t damaged_count;
    struct pawl_error newest_damage; /* why the newest damaged step was passed over */
} run_restoring;

/* What a rank hands in at the first meeting. */
typedef struct restore_request {
    bool has_step; /* it asks for `step`; otherwise for the newest */
    int64_t step;
} restore_request;
pawl_status restore_request_encode(const restore_request *q, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* Judge of the first meeting; the context is rank 0's joint_restore. */
pawl_status restore_judge_requests(void *context, job_ranks *ranks, const meet_card *cards,
                                   buffer *answer, pawl_error *err) PAWL_MUST_CHECK;
/* As joint_restore.pass_over. */
pawl_status restore_decide_next(joint_restore *j, const meet_card *cards, buffer *answer,
                                pawl_error *err) PAWL_MUST_CHECK;

#endif
