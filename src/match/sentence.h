/* SPDX-License-Identifier: Apache-2.0 */
/* sentence: a difference in words: what differs; and what to do. */
#ifndef MATCH_SENTENCE_H
#define MATCH_SENTENCE_H

#include "match/match.h"

/* How a slot of another shape relates to its variable. */
typedef enum slot_variable {
    SLOT_VARIABLE_UNKNOWN = 0,
    SLOT_VARIABLE_CHANGED, /* the shape of the variable differs, too */
    SLOT_STALE,            /* another shape, while the slot has the one that it was saved with */
    SLOT_VARIABLE_SAME,    /* the shape of the variable is as it was saved */
    SLOT_HAD_ITS_SHAPE,    /* as saved, and the slot was saved with the same shape */
    SLOT_HAS_ITS_SHAPE,    /* as saved, and the state's slot has the same shape */
    SLOT_OTHER_DTYPE       /* not the shape differs, but the dtype */
} slot_variable;

/* What the sentence needs besides the item; all of it may be zero. */
typedef struct sentence_facts {
    const char *slot;          /* SLOT: the slot's name, such as "adam/m" */
    const char *variable_side; /* SLOT: the state's variable, such as "[64, 12] F32" */
    slot_variable variable;
    const char *used_side; /* HYPERPARAMETER, OPTIMIZER, BATCH: whose value is used */
    const char *ranks;     /* RANKS: whose value this rank has, and what is left out */
    uint64_t slots_unexpected, slots_missing; /* OPTIMIZER: slots on one side only */
    const match_job_fault *fault;             /* UNEXPECTED, SLOT: of a job of world_size ranks */
    int world_size;
    bool hyperparameter;        /* KIND: it is one on both sides */
    bool or_more;               /* RENAMED: not all entries were looked at */
    const pawl_rename *renames; /* RENAMED: the rules, and whether dtypes differ as well */
    size_t rename_count;
    bool needs_cast;
} sentence_facts;

/* Appends "description" or "description; advice" to `out`. `*description` is the length of the
 * first part. The item has its remedies. */
pawl_status sentence_write(const pawl_report_item *item, const sentence_facts *facts, buffer *out,
                           size_t *description, pawl_error *err) PAWL_MUST_CHECK;

/* Appends "; advice", or nothing where the item has none. */
pawl_status sentence_advise(const pawl_report_item *item, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* "set options.cast = PAWL_POLICY_ALLOW to convert it"; no rename. */
pawl_status sentence_option(const pawl_remedy *remedy, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* "shape", "dtype", ...; "note", "warning", "error". */
const char *difference_name(pawl_difference difference);
const char *severity_name(pawl_severity severity);

#endif
