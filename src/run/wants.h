/* SPDX-License-Identifier: Apache-2.0 */
/* run/wants: the ranks of a job find out which entries of a checkpoint nobody wants. */
#ifndef RUN_WANTS_H
#define RUN_WANTS_H

#include "run/ranks.h"

/* What a rank says at the meeting where all have matched: where it is alike on all ranks nothing
 * more needs to be sent. */
typedef struct wants_head {
    uint64_t entries, lacking;
    uint32_t sum; /* of which are lacking */
} wants_head;
pawl_status wants_head_make(const plan_match *match, wants_head *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* All ranks lack the same entries: nobody wants them. */
pawl_status wants_nobody(const plan_match *match, plan_job_faults *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* Collective: compares what each entry is to each rank; the faults are the same on all. A failure
 * of this rank alone is `*own` with `story`, which the others have yet to hear. */
pawl_status wants_compare(pawl_run *run, const plan_match *match, plan_job_faults *out,
                          pawl_status *own, pawl_error *story, pawl_error *err) PAWL_MUST_CHECK;

#endif
