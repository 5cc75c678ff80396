/* SPDX-License-Identifier: Apache-2.0 */
/* store/queue: chooses the kind of queue; without threads, does all inside submit ("in line"). */
#include "store/queue_kind.h"

#include "store/workers.h"

#include <assert.h>

/* ---- in line -------------------------------------------------------------------------------- */

typedef struct line_queue {
    store_queue base;
    store_io_list done;
} line_queue;

static void line_submit(store_queue *q, store_io *io) {
    store_io_move(io);
    store_io_put(&((line_queue *)q)->done, io);
}

/* All that was submitted is done, and without threads nobody could wake a waiter. */
static store_io *line_wait(store_queue *q, uint64_t deadline_ns) {
    (void)deadline_ns;
    return store_io_take(&((line_queue *)q)->done);
}

static void line_wake(store_queue *q) {
    (void)q;
}

static void line_destroy(store_queue *q) {
    mem_free(q);
}

static pawl_status queue_in_line(const store_queue_options *options, store_queue **out,
                                 pawl_error *err) {
    static const store_queue_kind_ops ops = {.name = "in line",
                                             .submit = line_submit,
                                             .wait = line_wait,
                                             .wake = line_wake,
                                             .destroy = line_destroy};
    line_queue *q = mem_calloc(1, sizeof(*q));
    if (q == NULL) {
        return error_nomem(err, sizeof(*q));
    }
    store_queue_init(&q->base, &ops, options);
    *out = &q->base;
    return PAWL_OK;
}

/* ---- the choice ----------------------------------------------------------------------------- */

static pawl_status choose_kind(const store_queue_options *options, store_queue **out,
                               pawl_error *err) {
    if (!options->platform->concurrent) {
        return queue_in_line(options, out, err);
    }
    if (options->io == PAWL_IO_URING || options->io == PAWL_IO_AUTO) {
        pawl_status status = store_queue_ring(options, out, err);
        if (status != PAWL_EUNSUPPORTED || options->io == PAWL_IO_URING) {
            return status;
        }
    }
    return store_queue_threads(options, out, err);
}

pawl_status store_queue_new(const store_queue_options *options, store_queue **out,
                            pawl_error *err) {
    *out = NULL;
    assert(options->depth > 0);
    return choose_kind(options, out, err);
}

void store_queue_free(store_queue *q) {
    if (q != NULL) {
        assert(q->under_way == 0);
        q->ops->destroy(q);
    }
}

const char *store_queue_kind(const store_queue *q) {
    return q->ops->name;
}

void store_queue_submit(store_queue *q, store_io *io) {
    assert(q->under_way < q->depth);
    q->under_way++;
    io->next = NULL;
    io->moved = 0;
    io->status = PAWL_OK;
    io->story = ERROR_INIT;
    q->ops->submit(q, io);
}

store_io *store_queue_wait(store_queue *q, uint64_t deadline_ns) {
    store_io *io = q->ops->wait(q, deadline_ns);
    if (io != NULL) {
        q->under_way--;
    }
    return io;
}

void store_queue_wake(store_queue *q) {
    q->ops->wake(q);
}

void store_queue_forget(store_queue *q, store_file *f) {
    if (q->ops->forget != NULL) {
        q->ops->forget(q, f);
    }
}
