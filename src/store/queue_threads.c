/* SPDX-License-Identifier: Apache-2.0 */
/* store/queue_threads: the kind of queue that does everything by threads. */
#include "store/queue_kind.h"
#include "store/workers.h"

typedef struct threads_queue {
    store_queue base;
    store_workers *workers;
} threads_queue;

static store_workers *workers_of(const store_queue *q) {
    return ((const threads_queue *)q)->workers;
}

static void threads_submit(store_queue *q, store_io *io) {
    store_workers_give(workers_of(q), io);
}

static store_io *threads_wait(store_queue *q, uint64_t deadline_ns) {
    return store_workers_take(workers_of(q), deadline_ns);
}

static void threads_wake(store_queue *q) {
    store_workers_wake(workers_of(q));
}

static void threads_destroy(store_queue *q) {
    store_workers_free(workers_of(q));
    mem_free(q);
}

pawl_status store_queue_threads(const store_queue_options *options, store_queue **out,
                                pawl_error *err) {
    static const store_queue_kind_ops ops = {.name = "threads",
                                             .submit = threads_submit,
                                             .wait = threads_wait,
                                             .wake = threads_wake,
                                             .destroy = threads_destroy};
    AUTOFREE threads_queue *q = mem_calloc(1, sizeof(*q));
    if (q == NULL) {
        return error_nomem(err, sizeof(*q));
    }
    store_queue_init(&q->base, &ops, options);
    TRY(store_workers_new(&(store_workers_options){.platform = options->platform,
                                                   .tuning = options->tuning,
                                                   .most = options->depth},
                          &q->workers, err));
    *out = &q->base;
    q = NULL;
    return PAWL_OK;
}
