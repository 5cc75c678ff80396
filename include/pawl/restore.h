/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/restore.h: bringing a state back, and the report that comes before it.
 *
 * A restore first matches the whole checkpoint against the whole state and finds every difference,
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
 * In names of the checkpoint that are `from` or begin with `from`/, `from` is replaced by `to`. An
 * empty `from` matches every name and puts `to`/ in front of it. An empty `to` removes `from`/.
 * Both empty: nothing changes. {"/", "."} makes every "/" of a name a ".", as names of PyTorch have
 * it, {".", "/"} the other way round: after the first other rule that fits. PAWL_EUSAGE: NULL, a
 * `from` that no name can begin with (such as "a/"), and a rule whose result is not a valid name,
 * such as an empty one. An element of an array, whose user says how large each is.
 */
typedef struct pawl_rename {
    const char *from;
    const char *to;
} pawl_rename;

struct pawl_entry_info; /* pawl/checkpoint.h */

typedef struct pawl_restore_options {
    size_t struct_size;
    const int64_t *step; /* restore exactly this one [NULL: the newest] */
    int no_fallback;     /* 1: without `step`, a damaged newest checkpoint is an error,
                                   instead of a warning and the next older one [0] */
    pawl_policy missing; /* the checkpoint lacks it: ERROR, or ALLOW keeps the caller's [ERROR] */
    pawl_policy unexpected;     /* the state lacks it: ERROR, or ALLOW leaves it out [ERROR] */
    pawl_policy cast;           /* another float type: ERROR, or ALLOW casts as pawl_cast [ERROR] */
    pawl_policy hyperparameter; /* changed value: ERROR, CHECKPOINT or CALLER [CHECKPOINT] */
    pawl_policy batch; /* changed batch signature: ERROR, or ALLOW with a warning [ALLOW] */
    int model_only;    /* 1: entries of role MODEL only; the rest is kept as it is [0] */
    const pawl_rename *renames; /* of each name the first that matches is applied [none] */
    size_t rename_count;
    size_t rename_size; /* sizeof(pawl_rename); needed where rename_count is not 0 */
    /* Per-rank values saved by another number of ranks (R10): ERROR; ALLOW: a rank restores its own
     * if there is one, else keeps the caller's, with a warning; CALLER: all keep the caller's, with
     * a warning [ERROR] */
    pawl_policy per_rank;
    /* 1: reads go through the page cache, so that what several ranks of a node need is read from
     * the storage once; each rank begins at a different place [0] */
    int share_on_node;
    /* For pawl_checkpoint_restore: the ranks that restore it together [NULL: this process alone],
     * and how long they wait for each other at each meeting [600]. For pawl_restore both are unset:
     * there the run's group counts. */
    const pawl_group *group;
    double group_deadline_s;
    /*
     * Asked, once, for each tensor of the checkpoint of `step` that takes part and that the state
     * lacks, in the order of its names, before anything is judged or read. `entry` has its names
     * after the rename rules; `tensor` is filled as by pawl_checkpoint_tensor, but for its memory.
     * Returns 1 when it has set `data`, or boxes of the tensor, and what else it wants (strides,
     * memory, replicated): the entry is added to the state, and restored. 0: it is left alone, as
     * without this function. Anything else ends the restore with PAWL_ECANCELED.
     *
     * When a damaged step is passed over, what was supplied for it is taken out of the state again,
     * and the function is asked anew, for an older `step`; after any failure all of it is taken
     * out. So the state has what was supplied for the step of the report, and no memory else is
     * used (but by a copy that hangs in a provider). With a group each rank is asked by itself.
     * What `tensor` points to has to last until the next question or the call's end. It makes no
     * calls on the state. PAWL_EUSAGE: another name, dtype or shape than the entry's, and whatever
     * pawl_state_add_tensor refuses. [none]
     */
    int (*supply)(void *context, int64_t step, const struct pawl_entry_info *entry,
                  pawl_tensor *tensor);
    void *supply_context;
    /* As `interrupted` of pawl_run_options, for this call; pawl_restore asks the run's where this
     * is unset. It makes no calls on the checkpoint, the run or the state [none] */
    int (*interrupted)(void *context);
    void *interrupted_context;
    /* Called about ten times a second, on the caller's thread, with the bytes of tensors that were
     * read and those there are to read; at the end with all. It begins anew where a damaged step is
     * passed over. It makes no calls on the run, the checkpoint or the state [none] */
    void (*progress)(void *context, uint64_t done_bytes, uint64_t of_bytes);
    void *progress_context;
} pawl_restore_options;

/* Kinds of difference. Stable numbers; the comment gives the id of the failure catalogue. */
typedef enum pawl_difference {
    PAWL_DIFF_SHAPE = 1,          /* R01 */
    PAWL_DIFF_DTYPE = 2,          /* R02 */
    PAWL_DIFF_MISSING = 3,        /* R03 in the state, not in the checkpoint */
    PAWL_DIFF_UNEXPECTED = 4,     /* R04 in the checkpoint, not in the state */
    PAWL_DIFF_RENAMED = 5,        /* R05 names changed. NOTE: these rename rules, and no others,
                                     would pair the entries. WARNING: entries that differ only in a
                                     number in their name were perhaps renumbered: even names
                                     that match may be of different ones. ERROR: the rules give two
                                     entries one name */
    PAWL_DIFF_OPTIMIZER = 6,      /* R06 another class of optimizer */
    PAWL_DIFF_SLOT = 7,           /* R06 a slot is missing, extra, of another shape or dtype */
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
    size_t struct_size;
    const char *option; /* its field: "unexpected", "model_only", "renames", ... */
    pawl_policy policy; /* its value, where it is a policy; else PAWL_POLICY_DEFAULT */
    const char *value;  /* "allow", "checkpoint", "caller"; model_only: "1"; renames: NULL */
    const char *from;   /* renames: the rule to add; else NULL */
    const char *to;
    const char *before; /* what must be done as well: "take the entry out of the state", or NULL */
    const char *effect; /* what it does: "keep the state's value"; renames: NULL */
    /* How many errors are left where it is asked for, wherever it is offered, and nothing else; of
     * RENAMED, together with that difference's other remedies. -1: not tried */
    int64_t remain;
} pawl_remedy;

/*
 * Advice is proven. Where a restore is refused, each remedy has been tried on the same checkpoint
 * and state, without reading a tensor: it is offered only if with it the difference is gone and no
 * other comes instead. `model_only` is offered only where the model's own entries have no
 * difference that no option allows, and nothing is offered that ends in a restore of nothing. With
 * a group each rank tries what concerns its own state, and what would remain is not known.
 *
 * One difference, as data. Text lives as long as the report. `text` is `description` followed by
 * the next step in the words of this interface; a command line or another language makes its own
 * words of `change` and `remedies`.
 */
typedef struct pawl_report_item {
    size_t struct_size;
    pawl_difference difference;
    pawl_severity severity;
    const char *name;        /* entry; for RENAMED the prefix in the checkpoint */
    const char *other_name;  /* slot: its variable; RENAMED: the prefix in the state; or NULL. Where
                               several rules are needed: of the first */
    const char *checkpoint;  /* the checkpoint's side: "[64, 10] F32", "0.001", NULL when absent */
    const char *state;       /* the state's side */
    int dimension;           /* SHAPE: first dimension that differs, or -1 */
    uint64_t count;          /* RENAMED: how many entries the rule would pair; otherwise 1 */
    const char *text;        /* the whole difference as a sentence, with the next step */
    const char *description; /* the difference alone */
    const char *change;      /* what to change in the program or the job: "restore with as many
                                ranks", or NULL */
    /* Each by itself allows the difference; for RENAMED all are needed together. */
    const pawl_remedy *const *remedies;
    size_t remedy_count;
    const char *saved_as; /* the entry's name in the checkpoint, if a rename rule changed it; for
                             RENAMED, an ERROR: the other entry that becomes other_name; or NULL */
    int64_t
        remains; /* 1: an error that is left where all is asked for that pawl_report_next says */
} pawl_report_item;

/* What was tried together: the rename rules that are suggested as a NOTE, unless of one entry with
 * another last component, and the options that allow what is an error then. */
typedef struct pawl_report_advice {
    size_t struct_size;
    const pawl_remedy *const *remedies; /* rules first; none has `before` */
    size_t remedy_count;
    int64_t remain; /* errors that are left: 0: it restores. -1: not known, as with a group */
} pawl_report_advice;

typedef struct pawl_report pawl_report;

PAWL_API void pawl_report_free(pawl_report *report); /* NULL is fine */
/* How many items there are: of each kind of difference at most 4096. pawl_report_text says at its
 * end how many more were found, pawl_report_json as "found" and "unlisted". */
PAWL_API size_t pawl_report_count(const pawl_report *report);
/* NULL: there is no such item. */
PAWL_API const pawl_report_item *pawl_report_get(const pawl_report *report, size_t i);
/* NULL: nothing was tried, for the restore was not refused. Lives as long as the report. The `next`
 * part of the error says the same. */
PAWL_API const pawl_report_advice *pawl_report_next(const pawl_report *report);
/* The step restored (or matched), or -1 when none was chosen. */
PAWL_API int64_t pawl_report_step(const pawl_report *report);
/* R13: how many entries were restored, kept as the caller had them, left out of the checkpoint's,
 * and cast; and how many finite values overflowed in a cast. */
typedef struct pawl_report_counts {
    size_t struct_size; /* sizeof(pawl_report_counts) */
    uint64_t restored, kept, ignored, cast, cast_overflows;
    uint64_t bytes;
    uint64_t fallbacks; /* newer checkpoints that were passed over because they are damaged */
} pawl_report_counts;
PAWL_API pawl_status pawl_report_totals(const pawl_report *report, pawl_report_counts *counts,
                                        pawl_error *err) PAWL_MUST_CHECK;
/* The whole report for people, and for programs. Lives as long as the report. */
PAWL_API const char *pawl_report_text(const pawl_report *report);
PAWL_API const char *pawl_report_json(const pawl_report *report);

/*
 * Restores `state` from a checkpoint of the run. Waits for a save in flight first, at most the
 * run's `deadline_s`. `options` NULL: the newest, and no difference is allowed. `report` may be
 * NULL; otherwise it is set, on PAWL_EMISMATCH too, and the caller frees it.
 *
 * With a group the call is collective: all ranks ask for the same step (R11: otherwise
 * PAWL_EMISMATCH names ranks and steps), or rank 0 chooses one, and all ranks restore it or none
 * does: a checkpoint that one rank cannot restore fails, or is passed over, on all. Each rank reads
 * what its own boxes need. Ranks may hold different tensors, as the stages of a pipeline do. An
 * entry that a rank lacks is unexpected, on all ranks, if no rank has it in its state, if one has
 * it as something that all ranks have alike (a value, or a tensor with `replicated` and no
 * replica_count), or if the ranks that have it do not hold all of it together.
 *
 * The report's warnings go to the run's log as well; with the next step if `report` is NULL.
 *
 * PAWL_ENOTFOUND: there is no checkpoint, and the error says what is there instead. PAWL_EUSAGE: an
 * option, a rename rule, or a tensor whose memory cannot be written (pawl/memory.h).
 * PAWL_EMISMATCH: the checkpoint does not fit. After these the state is unchanged. PAWL_EDAMAGED or
 * PAWL_EIO: bytes that verified may already be in the tensors; bytes that did not verify never are,
 * but for files of other tools that have one checksum of a whole tensor: it is compared afterwards.
 * PAWL_ECANCELED, by `interrupted` or `supply`: the error's `safe` part tells which of both it is.
 */
PAWL_API pawl_status pawl_restore(pawl_run *run, pawl_state *state,
                                  const pawl_restore_options *options, pawl_report **report,
                                  pawl_error *err) PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
