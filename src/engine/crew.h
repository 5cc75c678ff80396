/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/crew: several threads that read data files for one task; private to the engine.
 *
 * The caller's thread is the first member; others are called one by one while there is work for
 * them, so a small task starts none. A thread that cannot be started is done without.
 */
#ifndef ENGINE_CREW_H
#define ENGINE_CREW_H

#include "engine/reader.h"

/* So many reads of a window keep a disk busy. Of cached bytes fewer would do; more do no harm. */
#define CREW_MEMBERS 8
/* Cached bytes are read in such steps: they stay in a processor's second-level cache until they
 * are verified and placed. */
#define CREW_STEP_BYTES ((size_t)512 << 10)

typedef struct crew crew;

/* One thread: its own open file and window. */
typedef struct crew_member {
    crew *crew;
    engine_reader *reader;
    bool cached;           /* the page cache had all of the last read */
    uint64_t reads, bytes; /* not counted yet */
} crew_member;

struct crew {
    monitor monitor; /* also of what the task shares */
    const engine_source *source;
    /* Takes pieces of work until there are none. */
    void (*work)(void *task, crew_member *m);
    void *task;
    size_t called; /* threads, those that did not start too */
    platform_thread *threads[CREW_MEMBERS - 1];
};

/* Works until every member has returned. `reader` is the first member's. */
pawl_status crew_run(crew *c, engine_reader *reader, pawl_error *err) PAWL_MUST_CHECK;
/* There is work for one more. Monitor not held. */
void crew_call(crew *c);
/* Adds what a member has read to the source's counters. Monitor held. */
void crew_count(crew_member *m);
/* Reads on, from `at` to at most the end of a window that has `left` bytes more. */
pawl_status crew_read(crew_member *m, uint64_t at, size_t left, size_t *n, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
