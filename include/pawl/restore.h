/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/restore.h: bringing a state back, and the report that comes before it.
 *
 * A restore first matches the whole checkpoint against the whole state and lists every difference,
 * before it reads a byte into the state's memory. Nothing is cast, renamed, skipped or kept unless
 * the options ask for it.
 */
#ifndef PAWL_RESTORE_H
#define PAWL_RESTORE_H

#include <pawl/run.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pawl_policy {
    PAWL_POLICY_DEFAULT = 0,
    PAWL_POLICY_ERROR = 1,
    PAWL_POLICY_ALLOW = 2,
    PAWL_POLICY_CHECKPOINT = 3, /* hyperparameters: the checkpoint's value, with a warning */
    PAWL_POLICY_CALLER = 4      /* the caller's value, with a warning */
} pawl_policy;

/*
 * Entries of the checkpoint whose name is `from` or begins with `from`/ are taken as `to`... An
 * empty `from` fits every name and puts `to`/ in front of it. An empty `to` takes `from`/ away; of
 * an entry that is named `from` and no more nothing would be left, which is PAWL_EUSAGE. Both
 * empty: a rule that changes nothing. NULL, a `from` that no name can begin with (such as "a/"),
 * and a name that comes out and is none are PAWL_EUSAGE.
 */
typedef struct pawl_rename {
    const char *from;
    const char *to;
} pawl_rename;

typedef struct pawl_restore_options {
    size_t struct_size;
    const int64_t *step; /* restore exactly this one [NULL: the newest] */
    int no_fallback;     /* 1: without a step, a damaged newest checkpoint is an error
                                   instead of a warning and the next older one [0] */
    pawl_policy missing; /* the checkpoint lacks it: ERROR, or ALLOW keeps the caller's [ERROR] */
    pawl_policy unexpected;     /* the state lacks it: ERROR, or ALLOW leaves it out [ERROR] */
    pawl_policy cast;           /* other float type: ERROR, or ALLOW as pawl_cast does [ERROR] */
    pawl_policy hyperparameter; /* changed value: ERROR, CHECKPOINT or CALLER [CHECKPOINT] */
    pawl_policy batch; /* changed batch signature: ERROR, or ALLOW with a warning [ALLOW] */
    int model_only;    /* 1: entries of role MODEL only; the rest is kept as it is [0] */
    const pawl_rename *renames; /* applied in order, the first that fits [none] */
    size_t rename_count;
    /* Values per rank of another number of ranks (R10): ERROR; ALLOW: a rank takes its own where it
     * was saved and keeps the caller's otherwise, with a warning; CALLER: all keep the caller's,
     * with a warning [ERROR] */
    pawl_policy per_rank;
    /* 1: reads go through the page cache, so that what several ranks of a node want is read once
     * from the storage, and shared; each rank begins at another place [0] */
    int share_on_node;
} pawl_restore_options;

/* Kinds of difference. Stable numbers; the comment gives the id of the failure catalogue. */
typedef enum pawl_difference {
    PAWL_DIFF_SHAPE = 1,          /* R01 */
    PAWL_DIFF_DTYPE = 2,          /* R02 */
    PAWL_DIFF_MISSING = 3,        /* R03 in the state, not in the checkpoint */
    PAWL_DIFF_UNEXPECTED = 4,     /* R04 in the checkpoint, not in the state */
    PAWL_DIFF_RENAMED = 5,        /* R05 names changed. NOTE: rename rules that would pair entries,
                                     and no others would. WARNING: entries whose names differ in
                                     numbers alone may have been renumbered, also those whose names
                                     match. ERROR: two entries become one by the rules */
    PAWL_DIFF_OPTIMIZER = 6,      /* R06 another class of optimizer */
    PAWL_DIFF_SLOT = 7,           /* R06 a slot missing, extra, or not as it was saved */
    PAWL_DIFF_HYPERPARAMETER = 8, /* R07 */
    PAWL_DIFF_KIND = 9,           /* tensor against value, string against number */
    PAWL_DIFF_BATCH = 10,         /* J06 */
    PAWL_DIFF_RANKS = 11          /* R10 per-rank entries of another world size */
} pawl_difference;

typedef enum pawl_severity {
    PAWL_SEVERITY_NOTE = 1,
    PAWL_SEVERITY_WARNING = 2,
    PAWL_SEVERITY_ERROR = 3
} pawl_severity;

/* An option of pawl_restore_options that allows a difference. */
typedef struct pawl_remedy {
    const char *option; /* its field: "unexpected", "model_only", "renames", ... */
    pawl_policy policy; /* its value, where it is a policy; else PAWL_POLICY_DEFAULT */
    const char *value;  /* "allow", "checkpoint", "caller"; model_only: "1"; renames: NULL */
    const char *from;   /* renames: the rule to add; else NULL */
    const char *to;
    const char *before; /* what must be done as well: "take the entry out of the state", or NULL */
    const char *effect; /* what it is good for: "keep the state's value"; renames: NULL */
} pawl_remedy;

/*
 * One difference, as data. Text lives as long as the report. `text` is `description` and behind it
 * the next step in the words of this interface; who has other words, such as a command line or
 * another language, makes them of `change` and `remedies`.
 */
typedef struct pawl_report_item {
    pawl_difference difference;
    pawl_severity severity;
    const char *name;        /* entry; for RENAMED the prefix in the checkpoint */
    const char *other_name;  /* slot: its variable; RENAMED: the prefix in the state; or NULL. Of
                               several rules both are the first's */
    const char *checkpoint;  /* the checkpoint's side: "[64, 10] F32", "0.001", NULL when absent */
    const char *state;       /* the state's side */
    int dimension;           /* SHAPE: first dimension that differs, or -1 */
    uint64_t count;          /* RENAMED: how many entries the rule would pair; otherwise 1 */
    const char *text;        /* the whole difference as a sentence, with the next step */
    const char *description; /* the difference alone */
    const char *change;      /* what to change in the program or the job: "restore with as many
                                ranks", or NULL */
    /* Each by itself allows the difference; of RENAMED all of them together are needed. */
    const pawl_remedy *remedies;
    size_t remedy_count;
    const char *saved_as; /* the entry's name in the checkpoint, where a rename rule changed it; of
                             RENAMED, an error: the other entry that becomes other_name; or NULL */
} pawl_report_item;

typedef struct pawl_report pawl_report;

PAWL_API void pawl_report_free(pawl_report *report);
PAWL_API size_t pawl_report_count(const pawl_report *report);
PAWL_API const pawl_report_item *pawl_report_get(const pawl_report *report, size_t i);
/* The step restored (or matched), or -1 when none was chosen. */
PAWL_API int64_t pawl_report_step(const pawl_report *report);
/* R13: entries restored; kept as the caller had them; of the checkpoint left out; cast; and finite
 * values that overflowed in a cast. */
typedef struct pawl_report_counts {
    uint64_t restored, kept, ignored, cast, cast_overflows;
    uint64_t bytes;
    uint64_t fallbacks; /* newer checkpoints that were damaged and passed over */
} pawl_report_counts;
PAWL_API pawl_report_counts pawl_report_totals(const pawl_report *report);
/* All of it for people, and for programs. Lives as long as the report. */
PAWL_API const char *pawl_report_text(const pawl_report *report);
PAWL_API const char *pawl_report_json(const pawl_report *report);

/*
 * Restores `state` from a checkpoint of the run. Waits for a save in flight first (the run's
 * default deadline). `options` NULL: the newest, strictly. `report` may be NULL; otherwise it is
 * set, on PAWL_EMISMATCH too, and the caller frees it.
 *
 * With a group the call is collective: all ranks ask for the same step (R11: or PAWL_EMISMATCH
 * naming ranks and steps), rank 0 chooses where none was asked for, and all restore that one or
 * none: what one rank cannot restore, all pass over or fail at. Each rank reads what its own boxes
 * need. Ranks may hold different tensors, as the stages of a pipeline do. An entry that one lacks
 * is unexpected, on all ranks, where no rank has it in its state; where one has it as what all
 * ranks have alike (a value, or a tensor with `replicated` and no replica_count); and where those
 * that have it hold less than all of it.
 *
 * The report's warnings go to the run's log as well; with the next step where there is no `report`
 * to take it from.
 *
 * PAWL_ENOTFOUND: there is no checkpoint, and the error says what is there instead. PAWL_EMISMATCH:
 * the state is untouched. PAWL_EDAMAGED or PAWL_EIO: bytes that verified may already have been
 * placed in tensors; nothing that did not verify ever is.
 */
PAWL_API pawl_status pawl_restore(pawl_run *run, pawl_state *state,
                                  const pawl_restore_options *options, pawl_report **report,
                                  pawl_error *err) PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
