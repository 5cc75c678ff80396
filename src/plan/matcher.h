/* SPDX-License-Identifier: Apache-2.0 */
/* matcher: what is carried along while a checkpoint is matched against a state. */
#ifndef PLAN_MATCHER_H
#define PLAN_MATCHER_H

#include "plan/plan.h"
#include "plan/report.h"

/* The unmatched entries that rename suggestions look at, on each side at most. */
#define MATCHER_MAX_LOOSE 4096

/* An entry that has no partner. */
typedef struct loose_entry {
    const char *name; /* as in the checkpoint, or as in the state */
    const char *slot; /* "" unless a slot: slots of another name never pair */
    pawl_kind kind;
    pawl_dtype dtype; /* values: 0 */
    int ndim;
    const int64_t *shape;
} loose_entry;

typedef struct loose_list {
    loose_entry *entries;
    size_t count, capacity;
} loose_list;

typedef struct matcher {
    const state_snapshot *wanted;
    pawl_restore_options options; /* policies resolved: none is DEFAULT */
    plan_ranks ranks;
    uint64_t place; /* of the record at hand */
    size_t fault;   /* the first of ranks.faults that does not lie before it */
    size_t stance_capacity;
    pawl_report *report;
    plan_match *match;
    size_t pair_capacity;
    bool *matched;                /* per entry of `wanted` */
    size_t likely;                /* behind the entry found last: both sides ascend */
    uint64_t records;             /* of the checkpoint that take part */
    loose_list checkpoint, state; /* for suggestions */
    /* The optimizer's item comes last, when its slots are counted. */
    const state_entry *optimizer;
    char optimizer_checkpoint[256];
    uint64_t slots_unexpected, slots_missing;
    buffer name, slot_of; /* renamed */
    arena memory;         /* of the loose entries */
} matcher;

/* How one pair compares. */
typedef struct verdict {
    bool fits;        /* nothing speaks against restoring this one */
    bool keep_caller; /* the state's value stands */
} verdict;

/*
 * Compares a record with the state's entry of its name and reports what differs: compare.c.
 * `slot_of` is the record's, renamed.
 */
pawl_status matcher_compare(matcher *m, const state_entry *wanted, const record_entry *record,
                            const char *slot_of, verdict *out, pawl_error *err) PAWL_MUST_CHECK;

/* Reports rename rules that would pair loose entries: suggest.c. */
pawl_status matcher_suggest(matcher *m, pawl_error *err) PAWL_MUST_CHECK;

#endif
