/* SPDX-License-Identifier: Apache-2.0 */
/*
 * match: compares every entry of a checkpoint with every entry of a state. Each difference goes
 * into a report with what to do about it, rename rules that would help among them.
 *
 * May include base, tensor, format, state. No I/O, no clock. Threads: no shared state; a report and
 * a match belong to one thread at a time. Ownership: a match copies what it needs of the
 * checkpoint's entries, and borrows the snapshot and the options, which must outlive it.
 */
#ifndef MATCH_MATCH_H
#define MATCH_MATCH_H

#include "base/base.h"
#include "format/format.h"
#include "state/state.h"
#include "tensor/tensor.h"

#include <pawl/restore.h>

/* ---- report: report.c (also defines pawl_report_*) ------------------------------------------ */

pawl_status report_new(pawl_report **out, pawl_error *err) PAWL_MUST_CHECK;
/* Copies the item's texts; writes the sentence (`text`) itself when it is NULL. */
pawl_status report_add(pawl_report *report, const pawl_report_item *item, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_report_counts *report_counts(pawl_report *report);
pawl_report_counts report_totals(const pawl_report *report);
void report_set_step(pawl_report *report, int64_t step); /* negative: no checkpoint */
void report_set_no_step(pawl_report *report);            /* a checkpoint without a step */
/* The checkpoint does not fit all ranks, whatever it does here: nothing is restored. */
void report_set_fits_not_all(pawl_report *report);
/* Why a newer checkpoint was passed over; shown in text and JSON, counted as a fallback. */
pawl_status report_add_fallback(pawl_report *report, int64_t step, const char *why, pawl_error *err)
    PAWL_MUST_CHECK;
/* Renders text and JSON; call once at the end, before pawl_report_text. */
pawl_status report_finish(pawl_report *report, pawl_error *err) PAWL_MUST_CHECK;

/* ---- the match of a job: job.c -------------------------------------------------------------- */

/* What a rank of a job wants of an entry of the checkpoint. */
typedef enum match_want {
    MATCH_LEAVES = 0, /* left out on request */
    MATCH_LACKS = 1,  /* not in its state */
    MATCH_HOLDS = 2,  /* in its state: all of it, or a part */
    MATCH_SHARES = 3  /* in its state, declared as the same on all ranks */
} match_want;
typedef struct match_stance {
    match_want want;
    int copies; /* HOLDS: declared number of ranks that hold each element; at least 1 */
    /* HOLDS: elements in its boxes, and of the tensor; 1 of 1 where the numbers are not known. */
    uint64_t held, elements;
} match_stance;

/* What is wrong with an entry that some rank lacks. Nothing is wrong if other ranks want all of
 * it. */
typedef enum match_job_error {
    MATCH_NOBODY = 1,   /* no rank wants it */
    MATCH_NOT_ALL = 2,  /* some ranks have it, declared as the same on all ranks */
    MATCH_NOT_WHOLE = 3 /* those that hold it do not want all of it */
} match_job_error;
typedef struct match_job_fault {
    uint64_t first, count; /* places of the entries in the checkpoint's order */
    match_job_error error;
    const char *lacking, *holding; /* "rank 3", "ranks 0 to 2"; NOBODY: "" */
} match_job_fault;
typedef struct match_job_faults {
    match_job_fault *items; /* ascending */
    size_t count, capacity;
    arena memory;
} match_job_faults;
/* Copies the texts. A fault that continues the last one is joined with it. */
pawl_status match_job_fault_add(match_job_faults *faults, const match_job_fault *fault,
                                pawl_error *err) PAWL_MUST_CHECK;
void match_job_faults_free(match_job_faults *faults);

/* Who restores. */
typedef struct match_ranks {
    int rank, world_size, saved_world_size;
    /* The ranks match as one job: an entry that a rank lacks is unexpected only if it is in
     * `faults`. NULL: the ranks have not compared yet, and entries that a rank lacks are not
     * reported. */
    bool job;
    const match_job_faults *faults;
} match_ranks;

/* ---- match: match.c ------------------------------------------------------------------------- */

/* *out: the options with no policy left at its default; `given` may be NULL. PAWL_EUSAGE names one
 * that is invalid. */
pawl_status match_options(const pawl_restore_options *given, pawl_restore_options *out,
                          pawl_error *err) PAWL_MUST_CHECK;

/* The checkpoint's entries, ascending by name; *out is NULL at the end and valid until the next. */
typedef struct entry_source {
    void *context;
    pawl_status (*next)(void *context, const record_entry **out, pawl_error *err);
    /* Goes back before the first one. NULL: it cannot, and no advice is tried. */
    pawl_status (*again)(void *context, pawl_error *err);
} entry_source;

/* One entry of the state, and the checkpoint's entry that has its bytes. */
typedef struct match_pair {
    const state_entry *wanted;
    const record_entry *source;
    bool keep_caller; /* hyperparameter policy CALLER: matched, but not to be restored */
} match_pair;

typedef struct match_result {
    match_pair *pairs; /* to restore */
    size_t pair_count;
    bool refused;          /* some difference is an error: nothing may be restored */
    match_stance *stances; /* of a job: one for each entry of the checkpoint, in its order */
    size_t stance_count;
    uint64_t lacking; /* stances that are LACKS */
    arena memory;     /* of the sources */
} match_result;

/*
 * Matches the two, entry by entry, and adds every difference to `report`: R01 to R07, R10, R13,
 * J06, kinds. Counts the entries kept and ignored. The caller turns `refused` into PAWL_EMISMATCH
 * with match_error. PAWL_EUSAGE for invalid options, and for a state without entries.
 *
 * `options` may be NULL. A rename rule with an empty `from` puts `to`/ in front of every name, one
 * with an empty `to` takes `from`/ away. Where a changed batch signature is allowed, the state
 * keeps its own. Some thousands of each kind of difference are kept as items; the report says how
 * many more there are.
 *
 * Where the match is refused, what the report advises is tried on the same entries, once for each
 * remedy and a few times for all together, and what does not lead on is not offered (prove.c).
 */
pawl_status match_make(const state_snapshot *wanted, entry_source checkpoint,
                       const pawl_restore_options *options, const match_ranks *ranks,
                       pawl_report *report, match_result **out, pawl_error *err) PAWL_MUST_CHECK;
void match_free(match_result *match); /* NULL is fine */
/* PAWL_EMISMATCH with the number of differences, the first few, and the next step. */
pawl_status match_error(const pawl_report *report, pawl_error *err);

#endif
