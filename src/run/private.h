/* SPDX-License-Identifier: Apache-2.0 */
/* run/private: what the files of this folder share. Nobody else includes it. */
#ifndef RUN_PRIVATE_H
#define RUN_PRIVATE_H

#include "checkpoint/index.h"
#include "ranks/ranks.h"
#include "run/run.h"
#include "votes/votes.h"

#include <stdatomic.h>

typedef struct events events;

struct pawl_run {
    /* Set while the run is opened; any thread may read them. */
    process_id process; /* that opened it */
    store *store;
    const platform *platform;
    pawl_log log;
    double timeout_s; /* the option deadline_s: of calls that are given 0 */
    double lease_s;
    char *framework; /* NULL: not given */
    pawl_on_busy on_busy;
    int64_t save_every_steps;
    double save_every_s;
    pawl_retention retention;
    char *retention_metric; /* retention.metric points here */
    bool checking;          /* options.checking */
    job_ranks *ranks;       /* also of a process alone */
    engine *engine;
    owner *owner;   /* rank 0's; NULL on the others */
    events *events; /* NULL: neither a file nor a callback */
    reader_watch *watch;

    /* The trainer's thread only. */
    uint64_t save_number;    /* of the last call of pawl_save: part of file names */
    bool outcome_unreported; /* no call has returned the outcome of the last save yet */
    pawl_save_stats stats;
    uint64_t retries_before; /* store_retry_count as the last save began */
    int64_t last_save_step;  /* for pawl_due; -1: none */
    uint64_t last_save_ns;
    int64_t called_step; /* many ranks: of the last call of pawl_save; -1: none */
    /* Many ranks: the last call of pawl_save only returned the failure of the save before. When it
     * is repeated, the repeated call has the same number. */
    bool retry_keeps_number;

    /* The trainer's thread sets them while no save is in flight; the engine's thread reads them. */
    int64_t restored_step;    /* -1: nothing was restored */
    uint64_t current_number;  /* of the save begun last */
    uint64_t previous_number; /* of the one begun before it */

    /* The engine's thread while a save is in flight, else the trainer's. */
    engine *watched;               /* told of progress, for its hang watchdog; NULL: none */
    structure_left structure_left; /* many ranks */
    uint64_t doubtful_until_ns;    /* a put that failed may take effect until then */

    /* Any thread. */
    _Atomic int64_t newest_step;    /* newest committed; -1: none */
    struct leftovers *leftovers;    /* rank 0: steps to search again after the next commits */
    _Atomic uint64_t group_wait_ns; /* the last save waited for other ranks */
    _Atomic bool stop_waiting;      /* rank 0: the save in flight was cancelled */
    /* Not rank 0: its outcome named another step than this rank saved under that number. The next
     * call of pawl_save continues from rank 0's number. */
    _Atomic bool resynchronise;
    /* How many ranks the save in flight waits for, and the lowest of them: rank 0 waits for votes;
     * the others, from their vote on, for rank 0's outcome. 0: it waits for no rank. */
    _Atomic int awaited_count, awaited_first;
};

/* ---- run.c ---------------------------------------------------------------------------------- */

/* Waits for the save in flight, at most the run's default timeout. Its outcome is still to be
 * reported. */
pawl_status run_settle(pawl_run *run, pawl_error *err) PAWL_MUST_CHECK;
/* Fills the error's `safe` part with the newest committed step. */
void run_say_safe(const pawl_run *run, pawl_error *err);
/* The absolute path of a name in the run's directory, for messages. */
void run_error_path(const pawl_run *run, pawl_error *err, const char *name);

/* Cancels the save in flight, on rank 0 also while it waits for votes. False: it may still be
 * committed. */
bool run_give_up(pawl_run *run);
/* Bytes of the options' staging budget, the default where they have none. */
size_t run_budget(const pawl_run_options *o);
/* Tells the hang watchdog that the save in flight makes progress. */
void run_made_progress(const pawl_run *run);
/* The engine's part of a save's statistics. */
void run_stats_take(pawl_save_stats *to, const engine_stats *from);

/* PAWL_EUSAGE on every rank but 0: "pawl_run_gc: rank 3 does not own the run". */
pawl_status run_refuse_guest(const pawl_run *run, const char *call, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- options.c ------------------------------------------------------------------------------ */

pawl_status run_options_check(const pawl_run_options *o, pawl_error *err) PAWL_MUST_CHECK;

/* ---- events.c ------------------------------------------------------------------------------- */

enum { EVENTS_FILE = 1, EVENTS_CALL = 2, EVENTS_ALL = 3 };

/* Sets run->events, after its owner. */
pawl_status events_new(pawl_run *run, const pawl_run_options *o, pawl_error *err) PAWL_MUST_CHECK;
void events_free(events *e); /* NULL is fine */
/* Gives the event its time and reports it to `whom` (EVENTS_...). `restore`: of
 * PAWL_EVENT_RESTORED, or NULL. `e` may be NULL. */
void events_report(events *e, const pawl_event *what, const event_restore *restore, unsigned whom);
/* Is the calling thread inside the callback? */
bool events_calls_us(events *e);

/* ---- save_ranks.c --------------------------------------------------------------------------- */

/* Many ranks: a wait for the save in flight has timed out. Adds to `err` who is awaited. */
void save_name_awaited(const pawl_run *run, pawl_error *err);
/* Many ranks: where a repeated call is expected (retry_keeps_number) but will not come, tells the
 * other ranks, which would wait for it. */
void save_give_up_retry(pawl_run *run);

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
/* A put of this process that failed may still take effect: nothing can be proven now. */
bool commit_in_doubt(const pawl_run *run);
/* The two parts of commit_never_names. After PAWL_OK of the first the tag's manifest is either
 * published already or never will be. */
pawl_status commit_prevent(store *s, const char *directory, const char *tag, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status commit_prove_no_manifest(store *s, const char *directory, bool *absent, pawl_error *err)
    PAWL_MUST_CHECK;
/* Writes `latest`, a hint that every reader checks (step_scan.h): it is not synced, and a failure
 * is only logged. */
void commit_point_latest(pawl_run *run, int64_t step);

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
