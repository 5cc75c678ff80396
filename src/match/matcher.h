/* SPDX-License-Identifier: Apache-2.0 */
/* matcher: the working state of one match. */
#ifndef MATCH_MATCHER_H
#define MATCH_MATCHER_H

#include "match/match.h"
#include "match/report.h"

/* The most unmatched entries of each side that rename suggestions look at. */
#define MATCHER_MAX_LOOSE 4096

/* An entry that has no partner. */
typedef struct loose_entry {
    const char *name; /* as in the checkpoint, or as in the state */
    const char *slot; /* "" unless a slot: slots of another name never pair */
    const char *slot_of;
    pawl_kind kind;
    pawl_dtype dtype; /* values: 0 */
    int ndim;
    const int64_t *shape;
} loose_entry;

typedef struct loose_list {
    loose_entry *entries;
    size_t count, capacity;
} loose_list;

/* A record that does not fit the state's entry of its name. */
typedef struct unfit_entry {
    loose_entry record;
    size_t place; /* of that entry in the state */
    bool other_shape;
} unfit_entry;

typedef struct matcher {
    const state_snapshot *wanted;
    pawl_restore_options options; /* policies resolved: none is DEFAULT */
    match_ranks ranks;
    uint64_t place; /* of the current record */
    size_t fault;   /* the first of ranks.faults that does not end before it */
    size_t stance_capacity;
    pawl_report *report;
    match_result *match;
    size_t pair_capacity;
    /* Per entry of `wanted`: 0: no partner; n > 0: that of pair n - 1; n < 0: unfit[-n - 1]. */
    ptrdiff_t *partner;
    unfit_entry *unfit;
    size_t unfit_count, unfit_capacity;
    size_t likely;                /* place after the entry found last: both sides ascend */
    uint64_t records;             /* of the checkpoint that take part */
    loose_list checkpoint, state; /* for suggestions */
    loose_list elsewhere;         /* of a job: what only other ranks have in their states */
    /* A changed optimizer is reported last, when its slots have been counted. */
    const state_entry *optimizer;
    char optimizer_checkpoint[256];
    uint64_t slots_unexpected, slots_missing;
    bool trial;           /* of an advice: no other is looked for */
    const bool *left_out; /* a trial: entries of the state that count as taken out of it; or NULL */
    buffer name, slot_of; /* renamed */
    arena memory;         /* of the loose entries */
} matcher;

/* How one pair compares. */
typedef struct verdict {
    bool fits;        /* it can be restored */
    bool other_shape; /* a tensor of another shape; a slot's is reported by matcher_slots */
    bool keep_caller; /* the state's value is kept */
} verdict;

/* The checkpoint's name of the partner of the state's entry at that place; NULL: it has none. */
const char *matcher_partner_name(const matcher *m, size_t place);

/*
 * Compares a record with the state's entry of its name and reports what differs: compare.c.
 * `slot_of` is the record's, renamed.
 */
pawl_status matcher_compare(matcher *m, const state_entry *wanted, const record_entry *record,
                            const char *slot_of, verdict *out, pawl_error *err) PAWL_MUST_CHECK;

/* When all records were seen: reports slots that do not fit their variables: slots.c. */
pawl_status matcher_slots(matcher *m, pawl_error *err) PAWL_MUST_CHECK;

/* Reports rename rules that would pair loose entries: suggest.c. */
pawl_status matcher_suggest(matcher *m, pawl_error *err) PAWL_MUST_CHECK;

/* What came of a trial. */
typedef struct matcher_outcome {
    bool dead_end;            /* nothing would be restored, or the options cannot be used */
    pawl_report *report;      /* its differences; the caller frees it */
    size_t pairs;             /* that would be restored */
    size_t renamed;           /* of these, those whose names differ */
    size_t model, model_stay; /* entries of the model in the state; those that would stay */
} matcher_outcome;

/* Pairs whose names differ. */
size_t match_renamed(const match_result *match);
/* Matches once more, with other options: match.c. */
pawl_status matcher_try(const matcher *of, entry_source checkpoint,
                        const pawl_restore_options *options, const bool *left_out,
                        matcher_outcome *out, pawl_error *err) PAWL_MUST_CHECK;

/* Tries what the report advises, drops what does not lead on, and sets report->advice: prove.c. */
pawl_status matcher_prove(matcher *m, entry_source checkpoint, pawl_error *err) PAWL_MUST_CHECK;

#endif
