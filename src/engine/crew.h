/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/crew: several threads that read data files for one task; private to the engine.
 *
 * The caller's thread is the first member; others are called one by one while there is work for
 * them, so a small task starts none. Where a thread cannot be started, the others do its work. A
 * caller who wants to be asked whether to go on is asked by the first member, which works only when
 * the others have left something.
 */
#ifndef ENGINE_CREW_H
#define ENGINE_CREW_H

#include "engine/reader.h"

/* Enough reads at a time to keep a disk busy; cached bytes need fewer. */
#define CREW_MEMBERS 8
typedef struct crew crew;

/* One thread: its own open file and window. */
typedef struct crew_member {
    crew *crew;
    engine_reader *reader;
    bool caller;           /* it is the caller's thread */
    bool cached;           /* the page cache had all of the last read */
    const uint8_t *read;   /* what the last read brought */
    uint64_t reads, bytes; /* not added to the source's counters yet */
} crew_member;

struct crew {
    monitor monitor; /* guards also what the task shares */
    const engine_source *source;
    /* Takes pieces of work until there are none. */
    void (*work)(void *task, crew_member *m);
    void *task;
    interrupt *interrupted; /* asked on the caller's thread; may be NULL */
    bool stopped;           /* it has said so: take no further work */
    /* Told on the caller's thread; may be NULL. */
    void (*progress)(void *context, uint64_t bytes);
    void *progress_context;
    uint64_t bytes; /* read so far */
    size_t called;  /* threads, including those that could not be started */
    size_t working; /* of them */
    platform_thread *threads[CREW_MEMBERS];
};

/* Works until every member has returned. `reader` is the first member's. */
pawl_status crew_run(crew *c, engine_reader *reader, pawl_error *err) PAWL_MUST_CHECK;
/* On the caller's thread, where that works itself: tells progress, asks whether to stop. Monitor
 * not held. */
void crew_ask(crew_member *m);
/* Tells that there is work for one more thread; `cached`: the page cache had what was read last.
 * Monitor not held. */
void crew_call(crew *c, bool cached);
/* Adds what a member has read to the source's counters. Monitor held. */
void crew_count(crew_member *m);
/* How many of the bytes that are left of a window are its next step. */
size_t crew_step(const crew_member *m, size_t left);
/* Reads such a step; `to`: NULL for the member's own memory. */
pawl_status crew_read(crew_member *m, uint64_t at, size_t n, uint8_t *to, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
