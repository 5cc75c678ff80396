/* SPDX-License-Identifier: Apache-2.0 */
/* store/queue: chooses how pieces are moved, and moves them in line where there are no threads. */
#include "store/queue.h"

#include <assert.h>

struct store_queue {
    store_queue_options options;
    store_io *done, *done_last;
    size_t under_way;
    bool woken;
};

pawl_status store_queue_new(const store_queue_options *options, store_queue **out,
                            pawl_error *err) {
    store_queue *q = mem_calloc(1, sizeof(*q));
    if (q == NULL) {
        return error_nomem(err, sizeof(*q));
    }
    q->options = *options;
    *out = q;
    return PAWL_OK;
}

void store_queue_free(store_queue *q) {
    assert(q == NULL || q->under_way == 0);
    mem_free(q);
}

const char *store_queue_kind(const store_queue *q) {
    (void)q;
    return "in line";
}

void store_queue_submit(store_queue *q, store_io *io) {
    assert(q->under_way < q->options.depth);
    q->under_way++;
    io->next = NULL;
    io->story = ERROR_INIT;
    io->status = io->kind == STORE_IO_SYNC
                     ? store_sync(io->file, &io->story)
                     : store_write(io->file, io->at, io->memory, io->n, &io->story);
    if (q->done == NULL) {
        q->done = io;
    } else {
        q->done_last->next = io;
    }
    q->done_last = io;
}

store_io *store_queue_wait(store_queue *q, uint64_t deadline_ns) {
    (void)deadline_ns; /* what was submitted has come back, and nobody else could wake us */
    store_io *io = q->done;
    if (io != NULL) {
        q->done = io->next;
        q->under_way--;
    }
    return io;
}

void store_queue_wake(store_queue *q) {
    q->woken = true;
}

void store_queue_forget(store_queue *q, store_file *f) {
    (void)q;
    (void)f;
}
