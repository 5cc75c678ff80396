/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine/mover: copies between host memory and the memory of providers (pawl/memory.h), on a thread
 * of its own: the only one that calls start_out, start_in and wait. Several jobs are under way at a
 * time, and end in any order.
 *
 * A job, the host memory of its copies and what its tensors' names point to stay until it has
 * ended, however long its provider takes: whoever does not wait so long leaves them, and the mover,
 * behind. On a platform without threads mover_submit returns when the job has ended.
 */
#ifndef ENGINE_MOVER_H
#define ENGINE_MOVER_H

#include "base/base.h"
#include "plan/plan.h"

typedef struct mover mover;

typedef struct mover_job {
    const pawl_memory *memory;
    bool in; /* from host memory to the provider's */
    pawl_copy *copies;
    const pawl_copy **list; /* of them, as the provider takes it */
    size_t count;           /* at least 1 */
    /* No copy of the job is under way any more, so it may be freed. On the mover's thread, no lock
     * held; `story` only after a failure: it names a tensor. */
    void (*ended)(struct mover_job *job, pawl_status status, const pawl_error *story);
    void *context;

    struct mover_job *next; /* these three are the mover's */
    void *ticket;
    bool started;
} mover_job;

/* `tune`, with its context, is called first on the thread; may be NULL. */
pawl_status mover_new(const platform *os, void (*tune)(void *context), void *context, mover **out,
                      pawl_error *err) PAWL_MUST_CHECK;
/* All jobs have ended. NULL is fine. */
void mover_free(mover *m);
/* Jobs are still under way: when those that are started have ended `last` is called on the mover's
 * thread, which then frees the mover. The others end without being started. */
void mover_abandon(mover *m, void (*last)(void *context), void *context);
/* Any thread; takes no time but on a platform without threads. */
void mover_submit(mover *m, mover_job *job);

/* What is waited for: the job whose provider has not returned from its start, or the oldest. */
typedef struct mover_wait {
    char memory[PAWL_MAX_MEMORY_NAME_BYTES + 1]; /* "": nothing */
    char entry[PAWL_MAX_NAME_BYTES + 1];         /* the job's first tensor */
    size_t jobs;
} mover_wait;
void mover_look(mover *m, mover_wait *out); /* NULL: nothing is under way */

/* ---- jobs out of a list of copies ----------------------------------------------------------- */

/* Jobs for a list of copies: each of copies in a row that have one provider. */
typedef struct mover_batch {
    pawl_copy *copies;
    const pawl_copy **list;
    size_t capacity, list_capacity;
    mover_job *jobs;
    size_t job_count, job_capacity;
} mover_batch;
/* The jobs of an earlier list have ended. */
pawl_status mover_batch_make(mover_batch *batch, const plan_copies *copies, bool in,
                             void (*ended)(mover_job *, pawl_status, const pawl_error *),
                             void *context, pawl_error *err) PAWL_MUST_CHECK;
void mover_batch_free(mover_batch *batch);

#endif
