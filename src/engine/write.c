/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's thread: writes and syncs the files of a save, commits, and tells how it ended. */
#include "engine/save.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- the next buffer to write ---- */

static pawl_status stop_reason(const engine *e, pawl_error *err) {
    if (e->cancelled) {
        char written[32];
        char total[32];
        return error_set(err, PAWL_ECANCELED, "the save was cancelled after %s of %s",
                         text_bytes(written, e->written), text_bytes(total, e->total));
    }
    const pawl_error *change = engine_checks_found(e->checks);
    if (change != NULL) {
        *err = *change;
        return err->status;
    }
    return PAWL_OK;
}

static engine_buffer *queue_pop(engine *e) {
    engine_buffer *b = e->queue;
    if (b == NULL || !b->filled) {
        return NULL;
    }
    e->queue = b->next;
    if (e->queue == NULL) {
        e->queue_last = NULL;
    }
    return b;
}

/* Filled by whom it may be: what the fence has filled goes first, so that its buffers come free. */
static pawl_status next_filled(engine *e, engine_buffer **out, pawl_error *err) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    for (;;) {
        TRY(stop_reason(e, err));
        *out = queue_pop(e);
        if (*out != NULL) {
            return PAWL_OK;
        }
        if (engine_fill_one(e)) {
            continue;
        }
        if (e->queue == NULL) {
            return error_nomem(err, e->options.buffer_bytes); /* there is not even one buffer */
        }
        monitor_wait_until(held, UINT64_MAX); /* the trainer is filling the first of the queue */
    }
}

static void buffer_written(engine *e, engine_buffer *b, bool success) {
    monitor_enter(&e->monitor);
    if (success) {
        e->written += b->bytes;
    }
    engine_buffer_return(e, b);
    monitor_leave(&e->monitor);
}

/* ---- one file ---- */

static void name_file(engine *e, const char *name) {
    monitor_enter(&e->monitor);
    snprintf(e->file_name, sizeof(e->file_name), "%s", name);
    monitor_leave(&e->monitor);
}

static pawl_status open_file(engine *e, const char *name, store_file **out, pawl_error *err) {
    char path[STORE_MAX_PATH];
    int n = snprintf(path, sizeof(path), "%s/%s", e->job.directory, name);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        return error_set(err, PAWL_ELIMIT, "the path %s/%s is too long", e->job.directory, name);
    }
    return store_open(e->job.store, path, STORE_CREATE, out, err);
}

/* What of a file is looked at again when all else of it is written. */
typedef struct ending {
    const plan_file *file;
    uint32_t edge_crc;
    size_t first_bytes;
    uint8_t first[FORMAT_BLOCK_BYTES];
} ending;

static void keep_for_ending(ending *end, const engine_buffer *b) {
    uint64_t edge = end->file->header.size;
    uint64_t edge_end = data_sum_edge(edge, end->file->bytes);
    if (b->at == 0) {
        end->first_bytes = b->bytes < sizeof(end->first) ? b->bytes : sizeof(end->first);
        memcpy(end->first, b->memory, end->first_bytes);
    }
    if (edge >= b->at && edge_end <= b->at + b->bytes && edge < edge_end) {
        end->edge_crc = crc32c(0, b->memory + (edge - b->at), (size_t)(edge_end - edge));
    }
}

static pawl_status write_buffer(engine *e, store_file *f, uint64_t at, ending *end,
                                pawl_error *err) {
    engine_buffer *b = NULL;
    TRY(next_filled(e, &b, err));
    assert(b->at == at);
    size_t n = b->bytes;
    keep_for_ending(end, b);
    pawl_status status = store_write(f, at, b->memory, n, err);
    buffer_written(e, b, status == PAWL_OK);
    if (status != PAWL_OK) {
        error_range(err, at, n);
        error_wrap(err, "writing bytes %llu to %llu", (unsigned long long)at,
                   (unsigned long long)(at + n - 1));
    }
    return status;
}

/* Now the file is whole, and may say so. */
static pawl_status write_sum(engine *e, store_file *f, ending *end, pawl_error *err) {
    const plan_file *file = end->file;
    const engine_file *blocks = &e->files[file - e->job.layout->files];
    data_sum_put(end->first,
                 data_sum(crc32c(0, file->header.data, file->header.size), end->edge_crc,
                          file->header.size, blocks->checksums, blocks->block_count));
    e->checksums[blocks->checksums - e->checksums] = crc32c(0, end->first, end->first_bytes);
    return store_write(f, 0, end->first, end->first_bytes, err);
}

static pawl_status write_file(engine *e, const plan_file *file, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *f = NULL;
    ending end = {.file = file};
    name_file(e, file->name);
    TRY(open_file(e, file->name, &f, err));
    uint64_t at = 0;
    while (at < file->bytes) {
        uint64_t left = file->bytes - at;
        TRY(write_buffer(e, f, at, &end, err));
        at += left < e->options.buffer_bytes ? left : e->options.buffer_bytes;
    }
    TRY(write_sum(e, f, &end, err));
    return store_sync(f, err);
}

/* ---- the whole save ---- */

static pawl_status write_files(engine *e, pawl_error *err) {
    const plan_layout *layout = e->job.layout;
    for (size_t i = 0; i < layout->file_count; i++) {
        pawl_status status = write_file(e, &layout->files[i], err);
        if (status != PAWL_OK) {
            return status;
        }
    }
    return PAWL_OK;
}

/* A cancel that comes before this is heard; one that comes later is too late. */
static pawl_status commit(engine *e, pawl_error *err) {
    monitor_enter(&e->monitor);
    engine_release(e);
    pawl_status status = stop_reason(e, err);
    e->committing = status == PAWL_OK;
    monitor_leave(&e->monitor);
    return status == PAWL_OK ? e->job.commit(e->job.context, e->files, err) : status;
}

static void let_go(engine *e) {
    monitor_enter(&e->monitor);
    engine_release(e);
    engine_buffers_free(e);
    monitor_leave(&e->monitor);
}

/* The last thing the thread does with the engine, unless it was left to free it. */
static void finish(engine *e, pawl_status status, const pawl_error *story) {
    monitor_enter(&e->monitor);
    e->outcome = status;
    e->story = *story;
    engine_stats_update(e);
    e->active = false;
    bool abandoned = e->abandoned;
    monitor_announce(&e->monitor);
    monitor_leave(&e->monitor);
    if (abandoned) {
        engine_destroy(e);
    }
}

static pawl_status tell_failure(int64_t step, pawl_status status, pawl_error *story) {
    error_step(story, step);
    error_wrap(story, "saving step %lld", (long long)step);
    if (status == PAWL_ETIMEOUT) { /* to callers that means a save which goes on */
        status = PAWL_EIO;
        story->status = status;
    }
    if (status == PAWL_EIO && story->next[0] == '\0') {
        error_next(story, "see whether the storage works (the kernel's log, or the server of a "
                          "network mount); the next save begins anew");
    }
    return status;
}

void engine_write_body(void *argument) {
    engine *e = argument;
    struct pawl_error story = ERROR_INIT;
    pawl_status status = write_files(e, &story);
    if (status == PAWL_OK) {
        status = commit(e, &story);
    }
    let_go(e);
    if (status != PAWL_OK) {
        status = tell_failure(e->job.step, status, &story);
    }
    e->job.done(e->job.context, status, &story);
    finish(e, status, &story);
}
