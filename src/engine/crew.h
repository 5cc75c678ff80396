/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/crew: several threads that read data files for one task; private to the engine.
 *
 * The caller's thread is the first member; others are called one by one while there is work for
 * them, so a small task starts none. Where a thread cannot be started, the others do its work.
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
    size_t called; /* threads, including those that could not be started */
    platform_thread *threads[CREW_MEMBERS - 1];
};

/* Works until every member has returned. `reader` is the first member's. */
pawl_status crew_run(crew *c, engine_reader *reader, pawl_error *err) PAWL_MUST_CHECK;
/* Tells that there is work for one more thread. Monitor not held. */
void crew_call(crew *c);
/* Adds what a member has read to the source's counters. Monitor held. */
void crew_count(crew_member *m);
/* Reads the next step of a window: from `at`, at most `left` bytes. */
pawl_status crew_read(crew_member *m, uint64_t at, size_t left, size_t *n, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
