/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/event.h: what happened to a run: saves begun, on their way and ended, restores. The same
 * events reach the callback of pawl_run_options and the file events.jsonl in the run's directory,
 * one line of JSON each, which any program may read while the run goes on.
 *
 * The file is for people and tools: pawl decides nothing by it. A failure to write it is a warning
 * in the log and never fails a save. It is never synced: a power loss may cost its last lines.
 * When it has grown to PAWL_EVENTS_MAX_BYTES it becomes events.old.jsonl, in place of the one
 * before.
 */
#ifndef PAWL_EVENT_H
#define PAWL_EVENT_H

#include <pawl/run.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_EVENTS_MAX_BYTES (8 << 20)

/* Stable numbers; in JSON the member "event" has the name. */
typedef enum pawl_event_kind {
    PAWL_EVENT_SAVE_BEGUN = 1,    /* "save_begun": pawl_save has returned, or is about to */
    PAWL_EVENT_SAVE_PROGRESS = 2, /* "save_progress": at most once a second */
    PAWL_EVENT_SAVE_ENDED = 3,    /* "save_ended": durable, failed, cancelled or hung */
    PAWL_EVENT_RESTORED = 4       /* "restored": a pawl_restore of the run's owner, failed or not */
} pawl_event_kind;

typedef struct pawl_event {
    size_t struct_size; /* sizeof(pawl_event) */
    pawl_event_kind kind;
    int64_t step;                 /* -1: a restore that found none */
    int64_t unix_time_ns;         /* by the writer's clock */
    pawl_status status;           /* SAVE_ENDED, RESTORED: the outcome; otherwise PAWL_OK */
    const char *message;          /* the failure in one line; NULL when there is none */
    uint64_t done_bytes;          /* SAVE_*: of data files, written so far; RESTORED: of entries */
    uint64_t of_bytes;            /* SAVE_*: of data files, in all; RESTORED: 0 */
    double seconds;               /* SAVE_*: so far, as total_s of its statistics; BEGUN: 0;
                                     RESTORED: in all */
    const pawl_save_stats *stats; /* SAVE_ENDED; otherwise NULL */
    const char *json;             /* the line of the file, without its end */
} pawl_event;

/*
 * `pawl_run_options.event` is called with pointers that live until it returns: SAVE_BEGUN and
 * RESTORED on the thread that called pawl_save or pawl_restore, SAVE_PROGRESS and SAVE_ENDED on the
 * engine's (of a save that hangs: on a thread of its own; of one that could not begin: on
 * pawl_save's). One call at a time. The save or call waits for it: a slow callback makes pawl_save
 * and pawl_wait slow. Inside it calls on the same run fail with PAWL_EUSAGE.
 *
 * Every pawl_save ends in one SAVE_ENDED, except those that were skipped, refused because of an
 * earlier save, or wrong calls (a null pointer, a negative step). In the file a save's SAVE_BEGUN
 * appears after its first second, or at its end. Of a save that hangs the callback is told after
 * hang_deadline_s, the file, which is on the same storage, only if the storage answers again.
 */

/* ---- reading the file ----------------------------------------------------------------------- */

typedef struct pawl_events pawl_events;

/* Opens the events of a run for reading, oldest first. Without events.jsonl there are none, yet. Of
 * a file larger than PAWL_EVENTS_MAX_BYTES, which pawl never writes, only so many bytes at its end
 * are read. A path that cannot be read fails as in pawl_catalog_open, whose `options` these are. */
PAWL_API pawl_status pawl_events_open(const char *run_path, const pawl_open_options *options,
                                      pawl_events **events, pawl_error *err) PAWL_MUST_CHECK;
/*
 * The next event; `*more` is 0 when there is none yet: call again later to follow a run. A line
 * that is not an event (cut by a crash, or of a newer version) is passed over. Pointers in `event`
 * live until the next call.
 */
PAWL_API pawl_status pawl_events_next(pawl_events *events, pawl_event *event, int *more,
                                      pawl_error *err) PAWL_MUST_CHECK;
PAWL_API void pawl_events_close(pawl_events *events); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
