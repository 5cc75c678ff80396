/* SPDX-License-Identifier: Apache-2.0 */
/* store/workers: threads that do writes and syncs. */
#include "store/workers.h"

#include <assert.h>

struct store_workers {
    store_workers_options options;
    platform_thread *threads[STORE_MAX_WORKERS];
    size_t count; /* of threads; only the giving thread uses it */

    /* Two monitors, so that what comes back wakes only the thread that waits for it. */
    monitor work; /* for the four below */
    store_io_list given;
    size_t waiting; /* pieces in `given` */
    size_t idle;    /* threads that wait for one */
    bool stop;

    monitor back; /* for the two below */
    store_io_list done;
    bool woken;
};

void store_io_put(store_io_list *list, store_io *io) {
    io->next = NULL;
    if (list->first == NULL) {
        list->first = io;
    } else {
        list->last->next = io;
    }
    list->last = io;
}

store_io *store_io_take(store_io_list *list) {
    store_io *io = list->first;
    if (io != NULL) {
        list->first = io->next;
        io->next = NULL;
    }
    return io;
}

void store_io_move(store_io *io) {
    if (io->kind == STORE_IO_SYNC) {
        io->status = store_sync(io->file, &io->story);
        return;
    }
    assert(io->moved <= io->n);
    io->status = store_write(io->file, io->at + io->moved, (uint8_t *)io->memory + io->moved,
                             io->n - io->moved, &io->story);
}

/* ---- a worker ------------------------------------------------------------------------------- */

/* Waits for the next piece; NULL: the workers are being freed. */
static store_io *next_piece(store_workers *w) {
    monitor_enter(&w->work);
    w->idle++;
    while (w->given.first == NULL && !w->stop) {
        monitor_wait_until(&w->work, UINT64_MAX);
    }
    w->idle--;
    store_io *io = store_io_take(&w->given);
    w->waiting -= io != NULL;
    monitor_leave(&w->work);
    return io;
}

static void give_back(store_workers *w, store_io *io) {
    monitor_enter(&w->back);
    store_io_put(&w->done, io);
    monitor_announce(&w->back);
    monitor_leave(&w->back);
    if (w->options.came_back != NULL) {
        w->options.came_back(w->options.context);
    }
}

static void worker_main(void *argument) {
    store_workers *w = argument;
    const platform *os = w->options.platform;
    char why[160]; /* unused: the engine's own thread is refused the same, and reports it */
    if (w->options.tuning != NULL) {
        (void)os->thread_tune(os->context, w->options.tuning, why);
    }
    for (store_io *io = next_piece(w); io != NULL; io = next_piece(w)) {
        store_io_move(io);
        give_back(w, io);
    }
}

/* ---- giving and taking ---------------------------------------------------------------------- */

static bool start_one(store_workers *w) {
    const platform *os = w->options.platform;
    pawl_error ignored = ERROR_INIT;
    if (w->count == w->options.most ||
        os->thread_start(os->context, worker_main, w, &w->threads[w->count], &ignored) != PAWL_OK) {
        return false;
    }
    w->count++;
    return true;
}

void store_workers_give(store_workers *w, store_io *io) {
    monitor_enter(&w->work);
    store_io_put(&w->given, io);
    w->waiting++;
    bool short_of_threads = w->waiting > w->idle;
    monitor_announce(&w->work);
    monitor_leave(&w->work);
    if (short_of_threads && !start_one(w) && w->count == 0) {
        /* Not one thread could be started: done here, slowly. */
        store_io *left = next_piece(w);
        store_io_move(left);
        give_back(w, left);
    }
}

store_io *store_workers_take(store_workers *w, uint64_t deadline_ns) {
    monitor_enter(&w->back);
    bool in_time = deadline_ns > 0;
    while (w->done.first == NULL && !w->woken && in_time) {
        in_time = monitor_wait_until(&w->back, deadline_ns);
    }
    store_io *io = store_io_take(&w->done);
    if (io == NULL) {
        w->woken = false;
    }
    monitor_leave(&w->back);
    return io;
}

void store_workers_wake(store_workers *w) {
    monitor_enter(&w->back);
    w->woken = true;
    monitor_announce(&w->back);
    monitor_leave(&w->back);
}

/* ---- the workers ---------------------------------------------------------------------------- */

static pawl_status init_monitors(store_workers *w, pawl_error *err) {
    TRY(monitor_init(&w->work, err));
    pawl_status status = monitor_init(&w->back, err);
    if (status != PAWL_OK) {
        monitor_destroy(&w->work);
    }
    return status;
}

pawl_status store_workers_new(const store_workers_options *options, store_workers **out,
                              pawl_error *err) {
    AUTOFREE store_workers *w = mem_calloc(1, sizeof(*w));
    if (w == NULL) {
        return error_nomem(err, sizeof(*w));
    }
    w->options = *options;
    if (w->options.most > STORE_MAX_WORKERS) {
        w->options.most = STORE_MAX_WORKERS;
    }
    TRY(init_monitors(w, err));
    *out = w;
    w = NULL;
    return PAWL_OK;
}

void store_workers_free(store_workers *w) {
    if (w == NULL) {
        return;
    }
    const platform *os = w->options.platform;
    monitor_enter(&w->work);
    w->stop = true;
    monitor_announce(&w->work);
    monitor_leave(&w->work);
    for (size_t i = 0; i < w->count; i++) {
        os->thread_join(os->context, w->threads[i]);
    }
    monitor_destroy(&w->work);
    monitor_destroy(&w->back);
    mem_free(w);
}
