/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run: a run that is open for writing, as its job uses it: opening it, alone or with many ranks,
 * saving, what is told of it, and which checkpoint is restored. What changes what is committed is
 * in src/commit, whose commit.c opens with the invariants that everything here relies on.
 *
 * May include everything below it. Threads: a pawl_run belongs to one thread; the commit runs on
 * the engine's thread, the owner's heartbeat on its own (presence/presence.h).
 * Ownership: a run owns the store it was opened with.
 */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include "base/base.h"
#include "engine/engine.h"
#include "format/event.h"
#include "format/manifest.h"
#include "group/group.h"
#include "match/match.h"
#include "plan/plan.h"
#include "presence/presence.h"
#include "state/state.h"
#include "store/store.h"

#include <pawl/event.h>
#include <pawl/restore.h>
#include <pawl/run.h>

/* How to open the run's directory: rank 0 may create it; the others check that they see the same
 * one (P04 to P06). The run owns the store. */
typedef struct run_place {
    void *context;
    pawl_status (*open)(void *context, bool create, store **out, pawl_error *err);
    const char *given; /* the path as the caller wrote it, for messages; NULL: there is none */
} run_place;
/* As pawl_run_open. Collective where the options' group has many ranks. */
pawl_status run_open_at(const run_place *place, const pawl_run_options *options, const platform *os,
                        pawl_run **out, pawl_error *err) PAWL_MUST_CHECK;
/* The same on a store, which the run owns from then on, also when this fails. */
pawl_status run_open(store *s, const pawl_run_options *options, const platform *os, pawl_run **out,
                     pawl_error *err) PAWL_MUST_CHECK;
/* The process that opened it. */
process_id run_process(const pawl_run *run);
/* PAWL_EUSAGE on a thread that is inside the run's event callback: it would wait for itself. */
pawl_status run_refuse_callback(const pawl_run *run, const char *call, pawl_error *err)
    PAWL_MUST_CHECK;
/* timeout_s, here and below: as the public deadline_s, in which 0 is the run's default and less
 * than 0 does not wait. */
pawl_status run_close(pawl_run *run, double timeout_s, pawl_error *err);
/* Advances the owner's counter, as the heartbeat thread does; for platforms without threads. */
pawl_status run_heartbeat(pawl_run *run, pawl_error *err) PAWL_MUST_CHECK;
pawl_status run_save(pawl_run *run, pawl_state *state, int64_t step,
                     const pawl_save_options *options, pawl_error *err) PAWL_MUST_CHECK;
pawl_status run_save_final(pawl_run *run, pawl_state *state, int64_t step,
                           const pawl_save_options *options, double grace_s, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status run_fence(pawl_run *run, double timeout_s, pawl_error *err) PAWL_MUST_CHECK;
int run_fenced(const pawl_run *run);
void run_fenced_tensors(const pawl_run *run, const char *const *names, size_t count,
                        uint8_t *fenced);
pawl_status run_wait(pawl_run *run, double timeout_s, pawl_save_stats *stats, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status run_cancel(pawl_run *run, double timeout_s, pawl_error *err) PAWL_MUST_CHECK;
/* As pawl_meet. */
pawl_status run_meet(pawl_run *run, double timeout_s, pawl_error *err) PAWL_MUST_CHECK;
int run_due(const pawl_run *run, int64_t step);
pawl_status run_pin(pawl_run *run, int64_t step, bool pinned, pawl_error *err) PAWL_MUST_CHECK;
pawl_status run_remove(pawl_run *run, int64_t step, bool force, pawl_error *err) PAWL_MUST_CHECK;
pawl_status run_gc(pawl_run *run, bool dry_run, pawl_gc_fn each, void *context, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status run_rebuild(pawl_run *run, int64_t step, bool force, pawl_error *err) PAWL_MUST_CHECK;
pawl_status run_restore(pawl_run *run, pawl_state *state, const pawl_restore_options *options,
                        pawl_report **report, pawl_error *err) PAWL_MUST_CHECK;

/* ---- the events of a run: events_read.c ----------------------------------------------------- */

/* `s` is the reader's when `own_store`, also when this fails. pawl_events_close ends it. */
pawl_status events_open(store *s, bool own_store, pawl_events **out, pawl_error *err)
    PAWL_MUST_CHECK;
process_id events_process(const pawl_events *r);
pawl_status events_next(pawl_events *r, pawl_event *event, int *more, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
