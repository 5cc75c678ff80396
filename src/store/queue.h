/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/queue: many writes and syncs at a time: queue.c, queue_threads.c, queue_ring.c.
 *
 * An io_uring does them where one works (a real operation is tried), else threads that are started
 * as they are needed; on a platform without threads, store_queue_submit itself. What the ring wrote
 * only in part, or failed to write, is written by store_write: so errors and repetitions are those
 * of the store. One thread alone submits and waits.
 */
#ifndef STORE_QUEUE_H
#define STORE_QUEUE_H

#include "store/store.h"

typedef enum store_io_kind { STORE_IO_WRITE, STORE_IO_SYNC } store_io_kind;

/* One write or sync. Owned by the caller, who must not touch it between submitting it and getting
 * it back from store_queue_wait. */
struct store_io {
    store_io_kind kind;
    store_file *file;
    uint64_t at;
    void *memory;
    size_t n; /* all are written, or it failed */
    void *context;
    /* The outcome, as store_write or store_sync returns it. */
    pawl_status status;
    struct pawl_error story;
    store_io *next; /* the queue's */
    size_t moved;   /* the queue's: bytes that the ring has written */
};

typedef struct store_queue store_queue;

typedef struct store_queue_options {
    const platform *platform;
    const thread_tuning *tuning; /* of its threads [none]; must outlive the queue */
    pawl_io io;                  /* PAWL_IO_URING where there is none: PAWL_EUNSUPPORTED, and why */
    size_t depth;                /* most writes and syncs in flight */
    /* The one piece of memory that all writes come from, in regions that a ring registers; no
     * write comes from two of them [none]. */
    void *memory;
    size_t memory_bytes;
    size_t region_bytes;
} store_queue_options;

pawl_status store_queue_new(const store_queue_options *options, store_queue **out, pawl_error *err)
    PAWL_MUST_CHECK;
void store_queue_free(store_queue *q); /* when all submitted has come back; NULL is fine */
const char *store_queue_kind(const store_queue *q); /* "io_uring", "threads", "in line" */
/* At most `depth` may be in flight; exceeding that asserts. A sync may be submitted only when the
 * writes that it is to make durable have come back. */
void store_queue_submit(store_queue *q, store_io *io);
/* The next one that is done; NULL when the deadline passed (monotonic; UINT64_MAX: none; 0: do not
 * wait) or after store_queue_wake. */
store_io *store_queue_wait(store_queue *q, uint64_t deadline_ns);
void store_queue_wake(store_queue *q); /* any thread; remembered until the next wait */
/* To be called before a file is closed that was written through the queue. */
void store_queue_forget(store_queue *q, store_file *f);

#endif
