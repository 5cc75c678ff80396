/* SPDX-License-Identifier: Apache-2.0 */
/* run/private: what the files of this folder share. Nobody else includes it. */
#ifndef RUN_PRIVATE_H
#define RUN_PRIVATE_H

#include "commit/commit.h"
#include "run/run.h"

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

#endif
