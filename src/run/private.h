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
    process_id process; /* that opened it */
    store *store;
    const platform *platform;
    pawl_log log;
    double deadline_s;
    double lease_s;
    char *framework; /* NULL: not given */
    pawl_on_busy on_busy;
    int64_t save_every_steps;
    double save_every_s;
    pawl_retention retention;
    char *retention_metric; /* retention.metric points here */
    job_ranks *ranks;       /* also of a process alone */
    structure_left structure_left;
    engine *engine;
    engine *moving; /* the one whose save is being prepared or committed, or tidies up after that */
    owner *owner;   /* rank 0's; NULL on the others */
    events *events; /* NULL: nobody wants to know */
    reader_watch *watch;
    int64_t restored_step;       /* -1: nothing was restored */
    _Atomic int64_t newest_step; /* newest committed; -1: none. Set by the engine's thread too. */
    uint64_t save_number;        /* saves begun by this handle: part of file names */
    uint64_t flying_number;      /* of the save begun last */
    uint64_t flown_number;       /* of the one begun before it */
    bool unseen;                 /* nobody was told the outcome of the last save yet */
    bool checking;               /* options.checking */
    /* Of many ranks, down to `leftovers`. */
    bool refused;           /* the last call of pawl_save told of an earlier failure, no more */
    _Atomic bool giving_up; /* rank 0: the save in flight is to wait for nobody any more */
    _Atomic bool astray;    /* not rank 0: it was told of another step than it saves */
    /* The save in flight only waits for so many ranks, the first of them: rank 0 for votes, the
     * others, from their vote on, for rank 0 to tell how it went. 0: for none. */
    _Atomic int awaited_ranks, awaited_rank;
    _Atomic uint64_t group_wait_ns; /* the last save waited for other ranks */
    int64_t asked_step;             /* of the last call of pawl_save; -1: none */
    struct leftovers *leftovers;    /* rank 0: steps to search again after the next commits */
    uint64_t doubtful_until_ns;     /* a put that failed may take effect until then */
    pawl_save_stats stats;
    uint64_t retries_before; /* store_retry_count as the last save began */
    int64_t last_save_step;  /* for pawl_due; -1: none */
    uint64_t last_save_ns;
};

/* ---- run.c ---------------------------------------------------------------------------------- */

/* Waits for the save in flight, by the run's default deadline; its outcome stays unseen. */
pawl_status run_settle(pawl_run *run, pawl_error *err) PAWL_MUST_CHECK;
/* Seconds that a caller's deadline stands for: 0 is the run's default, negative is 0. */
double run_deadline(const pawl_run *run, double deadline_s);
/* Fills the error's `safe` part with the newest committed step. */
void run_say_safe(const pawl_run *run, pawl_error *err);
/* The absolute path of a name in the run's directory, for messages. */
void run_error_path(const pawl_run *run, pawl_error *err, const char *name);

/* Asks the save in flight to stop, rank 0 also while it waits for votes. False when it may still be
 * committed. */
bool run_give_up(pawl_run *run);
/* Bytes of the options' staging budget, the default where they have none. */
size_t run_budget(const pawl_run_options *o);
/* Something was removed: a save that does much of it does not hang. */
void run_moved(const pawl_run *run);
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
/* Gives the event its time and tells it. `restore`: of PAWL_EVENT_RESTORED, or NULL. */
void events_tell(events *e, const pawl_event *what, const event_restore *restore, unsigned whom);
/* Is the calling thread inside the callback? */
bool events_calls_us(events *e);

/* ---- save_ranks.c --------------------------------------------------------------------------- */

/* Of many ranks: a deadline has passed while the save in flight waited for others; names them. */
void save_name_awaited(const pawl_run *run, pawl_error *err);
/* Of many ranks: the other ones need not wait for a call that is not going to be repeated. */
void save_give_up_refused(pawl_run *run);

/* ---- commit.c ------------------------------------------------------------------------------- */

/* Makes a checkpoint exist in `directory`: writes the index, then the manifest. `m` has everything
 * but the index; every file it names is written and synced. */
pawl_status commit_publish(pawl_run *run, const char *directory, const char *tag, manifest *m,
                           const index_writer *index, pawl_error *err) PAWL_MUST_CHECK;
/* Does the manifest name this tag's files, as far as one look can tell? */
typedef enum commit_named { COMMIT_NOT_NAMED, COMMIT_NAMED, COMMIT_UNKNOWN } commit_named;
commit_named commit_names(pawl_run *run, const char *directory, const char *tag);
/* I8, of the owner. True: no manifest names this tag's files, nor ever will. */
bool commit_never_names(pawl_run *run, const char *directory, const char *tag);
/* Can anything be proven now? Not while a put of ours may still take effect. */
bool commit_in_doubt(const pawl_run *run);
/* Its parts. After PAWL_OK nothing can publish the tag's manifest any more, unless it is published.
 * */
pawl_status commit_prevent(store *s, const char *directory, const char *tag, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status commit_prove_no_manifest(store *s, const char *directory, bool *absent, pawl_error *err)
    PAWL_MUST_CHECK;
/* Writes `latest`: a hint that nothing believes (step_scan.h), so it is not synced, and a failure
 * only logged. */
void commit_point_latest(pawl_run *run, int64_t step);

/* ---- fence.c -------------------------------------------------------------------------------- */

/* O5: of a new owner, before it looks at what is committed. */
pawl_status fence_others(store *s, const char *attempt, const pawl_log *log, pawl_error *err)
    PAWL_MUST_CHECK;

#define FENCE_REMOVAL_IS_OVER_S 600.0 /* no operation takes effect later than that */
/* I3: before a save is published in a directory in which it has just made files, so that it is
 * listed as it is: no earlier save can be published there any more. */
pawl_status fence_earlier(const pawl_run *run, const char *directory, pawl_error *err)
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
