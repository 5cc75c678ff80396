/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint/restore: restores a state from one of several checkpoints, which the caller tries in
 * turn (src/run/restore.c): restore_match, restore_read; when one is damaged, restore_pass_over. */
#ifndef CHECKPOINT_RESTORE_H
#define CHECKPOINT_RESTORE_H

#include "checkpoint/checkpoint.h"
#include "format/event.h"

/* A checkpoint that is being tried. */
typedef struct candidate {
    struct restoration *all;
    pawl_checkpoint *checkpoint;
    state_snapshot *snapshot;
    match_result *match;
    plan_reads reads;
} candidate;

typedef struct restoration {
    pawl_state *state;
    const pawl_restore_options *options; /* may be NULL */
    interrupt *stop;                     /* asked whether the restore is to end; or NULL */
    int rank, world_size;
    pawl_report *report;   /* of the latest candidate */
    double hang_timeout_s; /* of providers of memory [600] */
    bool report_wanted;    /* the caller gets the report: the log need not repeat its advice */
    event_fallback *fallbacks;
    size_t fallback_count, fallback_capacity;
    const char **touched; /* entries that an earlier candidate may have written */
    size_t touched_count;
    int64_t touched_step; /* that candidate's */
    /* `job`: many ranks restore together, and an entry is unexpected only where no rank wants it.
     * `compared`: they have found out which these are: `faults`. */
    bool job, compared;
    match_job_faults faults;
    /* `asked`: for this candidate the caller was asked for tensors that the state lacks (`supply`);
     * `supplied`: the names of those that were added to the state, ascending. */
    bool asked;
    const char **supplied;
    size_t supplied_count, supplied_capacity;
    bool only_match; /* nothing will be read: tensors need no memory that can be written to */
    bool mixed;      /* this candidate would leave bytes of a newer one in place */
    candidate now;   /* the one that is being tried */
    arena memory;
} restoration;

interrupt restore_interrupt(const pawl_restore_options *options);
/* PAWL_EBUSY where the step was removed or saved again although it is open. */
pawl_status restore_check_held(pawl_checkpoint *c, pawl_error *err) PAWL_MUST_CHECK;
/* Tries a checkpoint: adds what the caller supplies for it to the state, compares the two, and
 * writes to no tensor. `c` is borrowed until restore_end_candidate, which is also called here
 * first. */
pawl_status restore_match(restoration *all, pawl_checkpoint *c, pawl_error *err) PAWL_MUST_CHECK;
/* Reads what matched into the state. */
pawl_status restore_read(restoration *all, pawl_error *err) PAWL_MUST_CHECK;
/* Bytes of the checkpoint in the wanted boxes; what is read may be more. */
uint64_t restore_wanted_bytes(const candidate *a);
void restore_end_candidate(restoration *r);
/* The step is damaged: the report of the next candidate will say so. */
pawl_status restore_pass_over(restoration *all, int64_t step, const pawl_error *story,
                              pawl_error *err) PAWL_MUST_CHECK;
/* Takes the entries that were supplied out of the state again: for another candidate others are
 * asked for. */
void restore_take_back(restoration *all);
/* After a failure takes back what was supplied. Sets *report on success and with PAWL_EMISMATCH;
 * `report` may be NULL. */
void restore_end(restoration *all, pawl_status status, pawl_report **report);
void restoration_free(restoration *r);

#endif
