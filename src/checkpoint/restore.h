/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/restore: matches a state with one candidate after the other, and reads the one that
 * fits. src/run/restore.c says which steps are tried. */
#ifndef CHECKPOINT_RESTORE_H
#define CHECKPOINT_RESTORE_H

#include "checkpoint/checkpoint.h"
#include "format/event.h"

struct restoration;

/* One checkpoint that may be the one. */
typedef struct candidate {
    struct restoration *all;
    pawl_checkpoint *checkpoint;
    state_snapshot *snapshot;
    plan_match *match;
    plan_reads reads;
} candidate;

typedef struct restoration {
    pawl_state *state;
    const pawl_restore_options *options; /* may be NULL */
    int rank, world_size;
    pawl_report *report; /* of the latest attempt */
    bool report_wanted;  /* the caller takes the report, and so the next steps, from us */
    event_fallback *fallbacks;
    size_t fallback_count, fallback_capacity;
    const char **touched; /* entries that an earlier attempt has begun to write */
    size_t touched_count;
    int64_t touched_step;
    /* The ranks of a job restore together: what nobody wants is unexpected, and `faults` are all of
     * these once the ranks have compared. */
    bool job, compared;
    plan_job_faults faults;
    bool mixed; /* an older checkpoint would leave bytes of a newer one in place */
    candidate now;
    arena memory;
} restoration;

/* Matches, for a job with what the ranks have compared; reads no byte into the state. The
 * checkpoint is borrowed until restore_end_candidate. */
pawl_status restore_match(restoration *all, pawl_checkpoint *c, pawl_error *err) PAWL_MUST_CHECK;
/* Reads what matched. */
pawl_status restore_read(restoration *all, pawl_error *err) PAWL_MUST_CHECK;
/* The end of one attempt. */
void restore_end_candidate(restoration *r);
/* The step is damaged: the report of the next attempt says so. */
pawl_status restore_pass_over(restoration *all, int64_t step, const pawl_error *story,
                              pawl_error *err) PAWL_MUST_CHECK;
void restore_hand_over_report(restoration *all, pawl_status status, pawl_report **report);
void restoration_free(restoration *r);

#endif
