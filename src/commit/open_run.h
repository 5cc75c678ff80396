/* SPDX-License-Identifier: Apache-2.0 */
/* commit/open_run: the inside of a pawl_run, a run that is open for writing. This folder and run
 * share it; nobody else includes it. */
#ifndef COMMIT_OPEN_RUN_H
#define COMMIT_OPEN_RUN_H

#include "base/base.h"
#include "engine/engine.h"
#include "presence/presence.h"
#include "ranks/ranks.h"
#include "store/store.h"
#include "votes/votes.h"

#include <pawl/run.h>

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
    interrupt stop;          /* of the call under way: options.interrupted, or that of a restore */
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
    plan_kept kept;                /* the last save's layout */
    uint64_t placeholders;         /* of object stores, so far: each has a number of its own */

    /* Any thread. */
    _Atomic int64_t newest_step;    /* newest committed; -1: none */
    struct leftovers *leftovers;    /* rank 0: steps to search again after the next commits */
    _Atomic uint64_t group_wait_ns; /* the last save waited for other ranks */
    _Atomic bool unseen;            /* the run's directory was not there at the last look */
    _Atomic bool stop_waiting;      /* rank 0: the save in flight was cancelled */
    /* Not rank 0: its outcome named another step than this rank saved under that number. The next
     * call of pawl_save continues from rank 0's number. */
    _Atomic bool resynchronise;
    /* How many ranks the save in flight waits for, and the lowest of them: rank 0 waits for votes;
     * the others, from their vote on, for rank 0's outcome. 0: it waits for no rank. */
    _Atomic int awaited_count, awaited_first;
};

/* Tells the hang watchdog that the save in flight makes progress. */
static inline void run_made_progress(const pawl_run *run) {
    if (run->watched != NULL) {
        engine_made_progress(run->watched);
    }
}

#endif
