/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commit: everything by which a run's owner changes what is committed: publishing a manifest, and
 * removing what is not to stay. That is what retention does not keep, leftovers, and what earlier
 * owners could still publish. src/commit/commit.c opens with the invariants that all this relies
 * on.
 *
 * May include base, store, format, presence, ranks, engine, checkpoint, votes. Threads: one at a
 * time for one run, the engine's while a save is in flight, else the trainer's. Ownership: the
 * pawl_run (open_run.h) is made and freed by the run layer.
 */
#ifndef COMMIT_COMMIT_H
#define COMMIT_COMMIT_H

#include "checkpoint/index.h"
#include "commit/open_run.h"
#include "format/manifest.h"

/* ---- commit.c ------------------------------------------------------------------------------- */

/* Makes a checkpoint exist in `directory`: writes the index, then the manifest. `m` has everything
 * but the index; every file it names is written and synced. */
pawl_status commit_publish(pawl_run *run, const char *directory, const char *tag, manifest *m,
                           const index_writer *index, pawl_error *err) PAWL_MUST_CHECK;
/* Does the manifest name this tag's files, as far as one look can tell? */
typedef enum commit_named { COMMIT_NOT_NAMED, COMMIT_NAMED, COMMIT_UNKNOWN } commit_named;
commit_named commit_names(pawl_run *run, const char *directory, const char *tag);
/* I8; only the owner may ask. True: it is proven that no manifest names this tag's files, nor ever
 * will. */
bool commit_never_names(pawl_run *run, const char *directory, const char *tag);
/* The two parts of commit_never_names. After PAWL_OK of the first the tag's manifest is either
 * published already or never will be. */
pawl_status commit_prevent(pawl_run *run, const char *directory, const char *tag, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status commit_prove_no_manifest(store *s, const char *directory, bool *absent, pawl_error *err)
    PAWL_MUST_CHECK;
/* Writes `latest`, a hint that every reader checks (step_scan.h): it is not synced, and a failure
 * is only logged. */
void commit_point_latest(pawl_run *run, int64_t step);

/* ---- object.c: on an object store ---- */

/* Publishes this text as the manifest of the step. `still` is asked just before the put, with the
 * run. *in_doubt, after a failure: it may be published, or be published later. */
pawl_status object_publish(pawl_run *run, int64_t step, const buffer *text,
                           pawl_status (*still)(void *context, pawl_error *err), bool *in_doubt,
                           pawl_error *err) PAWL_MUST_CHECK;
/* Removes the manifest, if there is one. */
pawl_status object_remove(pawl_run *run, int64_t step, pawl_error *err) PAWL_MUST_CHECK;
/* After PAWL_OK no earlier publication or removal in that step can happen any more. */
pawl_status object_settle(pawl_run *run, int64_t step, pawl_error *err) PAWL_MUST_CHECK;
/* A new owner calls it before it looks at what is committed: settles what its predecessor did. */
pawl_status object_settle_inherited(pawl_run *run, pawl_error *err) PAWL_MUST_CHECK;
void object_remove_placeholder(pawl_run *run, int64_t step);

/* ---- evict.c -------------------------------------------------------------------------------- */

/* O5: a new owner calls it before it looks at what is committed. Removes what earlier owners might
 * still publish; `attempt` is the new owner's. */
pawl_status evict_others(store *s, const char *attempt, const pawl_log *log, pawl_error *err)
    PAWL_MUST_CHECK;

#define EVICT_REMOVAL_IS_OVER_S 600.0 /* no operation takes effect later than that */
/* I3: called just before a save is published. No earlier save can be published in `directory`
 * afterwards. The save has just made files there, so the listing is not an old one. */
pawl_status evict_earlier(const pawl_run *run, const char *directory, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- retention.c ---------------------------------------------------------------------------- */

typedef struct retention_step {
    int64_t step;
    int64_t unix_time_ns;
    bool pinned;
    bool has_metric;
    double metric;
    bool keep; /* out */
} retention_step;
/* Pure: decides `keep` of committed steps, ascending by step. */
void retention_choose(const pawl_retention *policy, int64_t just_committed, retention_step *steps,
                      size_t count);
/* After a commit: removes what no rule keeps. Failures are logged, never returned. */
void retention_run(pawl_run *run, int64_t just_committed);

/* ---- remove.c ------------------------------------------------------------------------------- */

/* Removes a checkpoint: manifest first, so that it is gone as a whole. PAWL_EBUSY when
 * it is read. */
pawl_status step_remove(pawl_run *run, int64_t step, pawl_error *err) PAWL_MUST_CHECK;

/* ---- leftovers.c ---------------------------------------------------------------------------- */

/* Removes the leftovers of the whole run, or with dry_run tells them only. `each` may be NULL. */
pawl_status leftovers_remove_all(pawl_run *run, bool dry_run, pawl_gc_fn each, void *context,
                                 pawl_error *err) PAWL_MUST_CHECK;
/* Removes from one step's directory what its manifest does not name. */
pawl_status leftovers_remove(pawl_run *run, const char *directory, pawl_error *err) PAWL_MUST_CHECK;
/* After a failed save: removes the files of `tag`, as far as that can be done and unless a manifest
 * may name them. */
void leftovers_remove_failed(pawl_run *run, const char *directory, const char *tag);
/* After the commit of `tag` in `directory` (I7): removes the leftovers of the whole run, once;
 * those of a save that this one replaced; of remembered steps; of many ranks votes and outcomes. */
void leftovers_after_commit(pawl_run *run, const char *directory, const char *tag, bool replaced);
/* Rank 0 of many, before it saves into `directory`: removes what failed saves left, which would
 * fill the storage if save after save failed. */
void leftovers_before_save(pawl_run *run, const char *directory);
pawl_status leftovers_new(pawl_run *run, pawl_error *err) PAWL_MUST_CHECK;
void leftovers_free(struct leftovers *l); /* NULL is fine */
/* Trainer's or engine's thread: `step` is to be searched after the next commit, and of many ranks
 * before the next save. Either its save failed, and other ranks may still be writing for it, or
 * files had to be kept there: they are being read, or it could not be proven that no manifest names
 * them. */
void leftovers_remember(pawl_run *run, int64_t step);

#endif
