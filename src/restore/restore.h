/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restore: many ranks restore one checkpoint together. Each matches it with its own state, and they
 * compare what each lacks; no rank reads a byte into its state before the checkpoint fits all of
 * them. Then each reads what its own boxes need; all have it afterwards, or all fail alike (R11).
 *
 * Which checkpoint that is, the caller knows: a run tries one after the other (src/run/restore.c),
 * pawl_checkpoint_restore has one (given.c).
 *
 * May include match, ranks, checkpoint. Threads: everything on the thread that restores.
 * Ownership: what is given is borrowed, but for the checkpoint of a joint_restore that has `open`.
 */
#ifndef RESTORE_RESTORE_H
#define RESTORE_RESTORE_H

#include "checkpoint/restore.h"
#include "match/match.h"
#include "ranks/ranks.h"

/* ---- one checkpoint, tried by all ranks: joint.c -------------------------------------------- */

/* What all ranks do next. The values are sent to the other ranks. */
typedef enum joint_decision {
    JOINT_GO_ON = 1,
    JOINT_TAKE_STEP = 2,   /* try the step that comes with the decision */
    JOINT_COMPARE = 3,     /* compare what each rank lacks with what the others want */
    JOINT_NOBODY_WANTS = 4 /* what is lacking: all lack the same */
} joint_decision;

/* A restoring that all ranks do together, as one of them knows it. A process alone does the same,
 * and meets nobody. */
typedef struct joint_restore {
    job_ranks *ranks;
    restoration all;
    interrupt stop;              /* where no run has one: of the options */
    bool no_fallback;            /* of this rank's options: no other may take its place */
    pawl_checkpoint *checkpoint; /* the candidate */
    int64_t step;                /* its step */
    joint_decision next;         /* the latest decision */
    void *context;               /* of the two functions, which may be NULL with no_fallback: */
    /* Every rank: sets `checkpoint` to that of `step`, instead of the one before. */
    pawl_status (*open)(struct joint_restore *j, pawl_error *err);
    /* Rank 0: the candidate is damaged for a rank, or gone: decides which one is next. */
    pawl_status (*pass_over)(struct joint_restore *j, const meet_card *cards, buffer *answer,
                             pawl_error *err);
} joint_restore;

/* Hands in `mine` at a meeting whose judge answers with a decision, and takes it. A failure is that
 * of all; but a rank whose own state does not fit keeps its own failure and report. */
pawl_status joint_meet(joint_restore *j, meeting *m, const buffer *mine, pawl_error *err)
    PAWL_MUST_CHECK;
/* For judges. `story`: the damage for which the candidate before is passed over; or NULL. */
pawl_status joint_decision_encode(joint_decision what, int64_t step, const pawl_error *story,
                                  buffer *out, pawl_error *err) PAWL_MUST_CHECK;
/* Collective: the candidate is restored (`next` is JOINT_GO_ON), or is passed over for that of
 * `step` (JOINT_TAKE_STEP), or all fail. */
pawl_status joint_try(joint_restore *j, pawl_error *err) PAWL_MUST_CHECK;
/* After a failure: a rank whose state fits has a whole report, also where that of another rank does
 * not fit. */
void joint_end_report(joint_restore *j, pawl_status status);

/* For judges: "ranks 0 and 3: step 200; rank 1: step 300"; `said` is by rank. */
pawl_status joint_said_text(char *out, size_t size, const job_ranks *ranks, const char *const *said,
                            pawl_error *err) PAWL_MUST_CHECK;

/* ---- a given checkpoint: given.c ------------------------------------------------------------ */

/* As pawl_checkpoint_restore with a group: `ranks`, which have no store yet. */
pawl_status restore_given(job_ranks *ranks, pawl_checkpoint *c, pawl_state *state,
                          const pawl_restore_options *options, pawl_report **report,
                          pawl_error *err) PAWL_MUST_CHECK;

/* ---- what all ranks want of it: wants.c ----------------------------------------------------- */

/* A summary of what a rank lacks, handed in at the meeting after all have matched: where it is the
 * same on all ranks, wants_nobody replaces wants_compare. */
typedef struct wants_head {
    uint64_t entries, lacking;
    uint32_t sum; /* of which are lacking */
} wants_head;
pawl_status wants_head_make(const match_result *match, wants_head *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* Where all ranks lack the same entries: the faults, without a meeting. */
pawl_status wants_nobody(const match_result *match, match_job_faults *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* Collective: compares what each rank wants of each entry; the faults come out the same on all
 * ranks. A failure of this rank alone is returned as `*own` and `failed`: the caller takes it to
 * the next meeting, for the others do not know it yet. */
pawl_status wants_compare(job_ranks *ranks, const match_result *match, match_job_faults *out,
                          pawl_status *own, pawl_error *failed, pawl_error *err) PAWL_MUST_CHECK;

#endif
