/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/queue_ring: writes by a ring, and by threads what the ring does not do. These are writes
 * through the page cache, the rest of one that fell short, one that failed (so that the error is
 * the store's), and syncs, which the kernel would give to a thread of its own.
 */
#include "store/queue_kind.h"
#include "store/ring.h"
#include "store/workers.h"

#include <stdatomic.h>

typedef struct ring_queue {
    store_queue base;
    store_ring *ring;
    store_workers *workers;
    _Atomic bool woken;
} ring_queue;

static ring_queue *ring_queue_of(store_queue *q) {
    return (ring_queue *)q;
}

static bool starts_on_ring(ring_queue *q, store_io *io) {
    const store_ops *ops = io->file->in->ops;
    pawl_error ignored = ERROR_INIT;
    return io->kind == STORE_IO_WRITE && io->n > 0 && ops->start != NULL &&
           ops->start(io->file, q->ring, io, io->n, &ignored) == PAWL_OK;
}

static void ring_submit(store_queue *base, store_io *io) {
    ring_queue *q = ring_queue_of(base);
    if (!starts_on_ring(q, io)) {
        store_workers_give(q->workers, io);
    }
}

/* The next piece that is done. One that the ring did not write whole goes on to the threads. */
static store_io *next_moved(ring_queue *q) {
    for (store_io *io = store_ring_reap(q->ring); io != NULL; io = store_ring_reap(q->ring)) {
        if (io->moved == io->n) {
            return io;
        }
        store_workers_give(q->workers, io);
    }
    return store_workers_take(q->workers, 0);
}

static store_io *ring_wait(store_queue *base, uint64_t deadline_ns) {
    ring_queue *q = ring_queue_of(base);
    for (;;) {
        store_io *io = next_moved(q);
        if (io != NULL || atomic_exchange(&q->woken, false) ||
            !store_ring_wait(q->ring, deadline_ns)) {
            return io;
        }
    }
}

static void tell_ring(void *context) {
    store_ring_wake(((ring_queue *)context)->ring);
}

static void ring_wake(store_queue *base) {
    ring_queue *q = ring_queue_of(base);
    atomic_store(&q->woken, true);
    store_ring_wake(q->ring);
}

static void ring_forget(store_queue *base, store_file *f) {
    store_ring_forget(ring_queue_of(base)->ring, f);
}

static void ring_destroy(store_queue *base) {
    ring_queue *q = ring_queue_of(base);
    store_workers_free(q->workers); /* first: they wake the ring */
    store_ring_free(q->ring);
    mem_free(q);
}

pawl_status store_queue_ring(const store_queue_options *options, store_queue **out,
                             pawl_error *err) {
    static const store_queue_kind_ops ops = {.name = "io_uring",
                                             .submit = ring_submit,
                                             .wait = ring_wait,
                                             .wake = ring_wake,
                                             .forget = ring_forget,
                                             .destroy = ring_destroy};
    ring_queue *q = mem_calloc(1, sizeof(*q));
    if (q == NULL) {
        return error_nomem(err, sizeof(*q));
    }
    store_queue_init(&q->base, &ops, options);
    pawl_status status = store_ring_new(options, &q->ring, err);
    if (status == PAWL_OK) {
        status = store_workers_new(&(store_workers_options){.platform = options->platform,
                                                            .tuning = options->tuning,
                                                            .most = options->depth,
                                                            .came_back = tell_ring,
                                                            .context = q},
                                   &q->workers, err);
    }
    if (status != PAWL_OK) {
        ring_destroy(&q->base);
        return status;
    }
    *out = &q->base;
    return PAWL_OK;
}
