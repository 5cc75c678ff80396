/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/workers: threads that do writes and syncs, each as store_write and store_sync do them.
 * They are started as they are needed, and end when the workers are freed. One thread alone gives
 * and takes.
 */
#ifndef STORE_WORKERS_H
#define STORE_WORKERS_H

#include "store/queue.h"

#define STORE_MAX_WORKERS 8

/* First in, first out, by store_io.next. */
typedef struct store_io_list {
    store_io *first, *last;
} store_io_list;
void store_io_put(store_io_list *list, store_io *io);
store_io *store_io_take(store_io_list *list); /* NULL: empty */

/* Syncs, or writes what of `io` is not written yet, and sets its outcome. */
void store_io_move(store_io *io);

typedef struct store_workers store_workers;

typedef struct store_workers_options {
    const platform *platform;
    const thread_tuning *tuning; /* [none] */
    size_t most;                 /* threads; at most STORE_MAX_WORKERS are used */
    /* Called on the worker's thread after each piece [none]. */
    void (*came_back)(void *context);
    void *context;
} store_workers_options;

pawl_status store_workers_new(const store_workers_options *options, store_workers **out,
                              pawl_error *err) PAWL_MUST_CHECK;
void store_workers_free(store_workers *w); /* when all given has been taken; NULL is fine */
void store_workers_give(store_workers *w, store_io *io);
/* The next one that is done; as store_queue_wait. */
store_io *store_workers_take(store_workers *w, uint64_t deadline_ns);
void store_workers_wake(store_workers *w); /* any thread */

#endif
