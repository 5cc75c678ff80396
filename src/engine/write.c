/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's thread writes the data files. In turns it takes completed requests off the queue,
 * submits filled buffers, fills free buffers, and waits when there is nothing else to do.
 */
#include "engine/save.h"

#include <assert.h>
#include <string.h>

#define NS_PER_S 1000000000ULL

pawl_status engine_stop_reason(const engine *e, pawl_error *err) {
    if (e->hung) {
        return e->memory_hangs
                   ? error_set(err, PAWL_EIO,
                               "the memory \"%s\" answers again, but the save had been given up",
                               e->hanging)
                   : error_set(err, PAWL_EIO,
                               "the storage answers again, but the save had been given up");
    }
    if (e->cancelled) {
        char written[32];
        char total[32];
        return error_set(err, PAWL_ECANCELED, "the save was cancelled after %s of %s",
                         text_bytes(written, e->written), text_bytes(total, e->total));
    }
    if (e->copy_status != PAWL_OK) {
        *err = e->copy_story;
        return e->copy_status;
    }
    const pawl_error *change = engine_checks_found(e->checks);
    if (change != NULL) {
        *err = *change;
        return err->status;
    }
    return PAWL_OK;
}

/* ---- completed requests ---- */

static pawl_status write_failed(const engine_buffer *b, pawl_error *err) {
    *err = b->io.story;
    error_range(err, b->at, b->bytes);
    error_wrap(err, "writing bytes %llu to %llu", (unsigned long long)b->at,
               (unsigned long long)(b->at + b->bytes - 1));
    return b->io.status;
}

static pawl_status write_completed(engine *e, engine_buffer *b, pawl_error *err) {
    pawl_status status = b->io.status == PAWL_OK ? PAWL_OK : write_failed(b, err);
    size_t file = b->file;
    monitor_enter(&e->monitor);
    e->under_way--;
    e->writes_under_way--;
    engine_mark_progress(e);
    b->under_way = false;
    uint64_t left = --e->parts[file].unwritten;
    if (status == PAWL_OK) {
        e->written += b->bytes;
        e->chunks_written++;
        e->written_ns = e->chunks_written == e->chunks ? engine_now(e) : 0;
    }
    engine_buffer_return(e, b);
    monitor_leave(&e->monitor);
    if (status == PAWL_OK && left == 0 && !e->draining) {
        engine_output_sync(e, file);
    }
    return status;
}

static pawl_status sync_completed(engine *e, engine_output *o, pawl_error *err) {
    pawl_status status = o->sync.status;
    if (status != PAWL_OK) {
        *err = o->sync.story;
    }
    engine_output_close(e, o);
    e->unsynced--;
    monitor_enter(&e->monitor);
    e->under_way--;
    engine_mark_progress(e);
    monitor_leave(&e->monitor);
    return status;
}

static pawl_status request_completed(engine *e, store_io *io, pawl_error *err) {
    return io->kind == STORE_IO_WRITE ? write_completed(e, io->context, err)
                                      : sync_completed(e, io->context, err);
}

/* *some becomes true when there was a request. */
static pawl_status take_completed(engine *e, bool *some, pawl_error *err) {
    store_queue *q = engine_queue(e);
    while (e->under_way > 0) {
        store_io *io = store_queue_wait(q, 0);
        if (io == NULL) {
            return PAWL_OK;
        }
        *some = true;
        TRY(request_completed(e, io, err));
    }
    return PAWL_OK;
}

/* ---- submitting filled buffers ---- */

/* Must the next write wait, so that the bandwidth limit is kept? */
static bool over_bandwidth(const engine *e, uint64_t now_ns) {
    return e->allowed_ns > now_ns;
}

static void account_bandwidth(engine *e, size_t bytes) {
    uint64_t limit = e->options.bandwidth_bytes_per_s;
    if (limit > 0) {
        uint64_t now_ns = engine_now(e);
        uint64_t from_ns = e->allowed_ns > now_ns ? e->allowed_ns : now_ns;
        e->allowed_ns = from_ns + (uint64_t)((double)bytes / (double)limit * 1e9);
    }
}

/* Monitor held. The link to the first buffer whose file is open or can be opened now: others wait
 * until an older file is closed. The link points to NULL when there is none. */
static engine_buffer **find_ready(engine *e) {
    engine_buffer **link = &e->ready.first;
    while (*link != NULL && !engine_output_free(e, (*link)->file)) {
        link = &(*link)->next;
    }
    return link;
}

/* Monitor held. */
static engine_buffer *take_ready(engine *e) {
    if (e->writes_under_way == e->write_limit || over_bandwidth(e, engine_now(e))) {
        return NULL;
    }
    engine_buffer **link = find_ready(e);
    engine_buffer *b = *link;
    if (b != NULL) {
        *link = b->next;
        if (b->next == NULL) {
            e->ready.end = link;
        }
    }
    return b;
}

/* Of a file's first chunk, when all others are filled: puts the sum of the file into its header. */
static void put_sum(engine *e, engine_buffer *b) {
    const plan_file *file = &e->job.layout->files[b->file];
    const engine_file *blocks = &e->files[b->file];
    size_t first = b->bytes < FORMAT_BLOCK_BYTES ? b->bytes : FORMAT_BLOCK_BYTES;
    uint32_t header_crc = crc32c(0, file->header.data, file->header.size);
    data_sum_put(b->memory, data_sum(header_crc, e->parts[b->file].edge_crc, file->header.size,
                                     blocks->checksums, blocks->block_count));
    e->checksums[blocks->checksums - e->checksums] = crc32c(0, b->memory, first);
}

static pawl_status submit(engine *e, engine_buffer *b, pawl_error *err) {
    TRY(engine_output_open(e, b->file, err));
    if (b->at == 0) {
        put_sum(e, b);
    }
    b->io.kind = STORE_IO_WRITE;
    b->io.file = engine_output_of(e, b->file)->file;
    b->io.at = b->at;
    b->io.memory = b->memory;
    b->io.n = b->bytes;
    b->io.context = b;
    account_bandwidth(e, b->bytes);
    monitor_enter(&e->monitor);
    engine_mark_progress(e);
    b->under_way = true;
    e->under_way++;
    e->writes_under_way++;
    e->first_write_ns = e->first_write_ns != 0 ? e->first_write_ns : engine_now(e);
    monitor_leave(&e->monitor);
    store_queue_submit(engine_queue(e), &b->io);
    return PAWL_OK;
}

static pawl_status submit_ready(engine *e, bool *some, pawl_error *err) {
    for (;;) {
        monitor_enter(&e->monitor);
        pawl_status status = engine_stop_reason(e, err);
        engine_buffer *b = status == PAWL_OK ? take_ready(e) : NULL;
        monitor_leave(&e->monitor);
        if (b == NULL) {
            return status;
        }
        *some = true;
        TRY(submit(e, b, err));
    }
}

/* ---- filling buffers ---- */

/* The file is created before its first chunk is copied: on a full disk no copy is made in vain. */
static pawl_status fill_next(engine *e, bool *some, pawl_error *err) {
    monitor_enter(&e->monitor);
    bool left = engine_chunk_left(e);
    size_t file = e->next_file;
    if (!left) {
        engine_release_if_read(e);
    }
    monitor_leave(&e->monitor);
    if (!left) {
        return PAWL_OK;
    }
    if (engine_output_free(e, file)) {
        TRY(engine_output_open(e, file, err));
    }
    monitor_enter(&e->monitor);
    *some = engine_fill_one(e) || *some;
    monitor_leave(&e->monitor);
    return PAWL_OK;
}

/* ---- waiting ---- */

/* Monitor held. */
static void sleep_until(engine *e, uint64_t until_ns) {
    const platform *p = e->options.platform;
    if (p->concurrent) {
        monitor_wait_until(&e->monitor, until_ns);
    } else {
        p->sleep_ns(p->context, until_ns - engine_now(e));
    }
}

/* Nothing is under way: waits for the trainer's thread, which fills a buffer, or for bandwidth. */
static pawl_status wait_without_requests(engine *e, pawl_error *err) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    TRY(engine_stop_reason(e, err));
    if (*find_ready(e) != NULL) {
        if (over_bandwidth(e, engine_now(e))) {
            sleep_until(e, e->allowed_ns);
        }
        return PAWL_OK;
    }
    if (e->filling > 0 || e->readying > 0) {
        monitor_wait_until(held, UINT64_MAX);
        return PAWL_OK;
    }
    /* Nobody else fills: without memory for a single buffer the save cannot go on. */
    return engine_fill_one(e) ? PAWL_OK : engine_no_memory(e, e->buffer_bytes, err);
}

static uint64_t wait_deadline(engine *e) {
    monitor_enter(&e->monitor);
    bool limited = e->ready.first != NULL && e->writes_under_way < e->write_limit;
    monitor_leave(&e->monitor);
    return limited && over_bandwidth(e, engine_now(e)) ? e->allowed_ns : UINT64_MAX;
}

static pawl_status wait_for_request(engine *e, pawl_error *err) {
    if (e->under_way == 0) {
        return wait_without_requests(e, err);
    }
    store_io *io = store_queue_wait(engine_queue(e), wait_deadline(e));
    return io != NULL ? request_completed(e, io, err) : PAWL_OK;
}

/* ---- one turn after another ---- */

/* A save that hung was reported as failed: no progress is reported after that. */
static bool progress_is_due(engine *e) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    uint64_t now_ns = engine_now(e);
    if (e->hung || e->job.progress == NULL || now_ns - e->told_ns < NS_PER_S) {
        return false;
    }
    e->told_ns = now_ns;
    engine_set_doing(e, ENGINE_TELLING);
    return true;
}

/* The callback may write to the storage, and so hang as well. */
static void tell_progress(engine *e) {
    if (progress_is_due(e)) {
        e->job.progress(e->job.context, e->written, e->total);
        engine_now_doing(e, ENGINE_WRITING);
    }
}

static pawl_status turn(engine *e, pawl_error *err) {
    bool some = false;
    TRY(take_completed(e, &some, err));
    TRY(submit_ready(e, &some, err));
    TRY(fill_next(e, &some, err));
    if (!some && e->unsynced > 0) {
        TRY(wait_for_request(e, err));
    }
    tell_progress(e);
    return PAWL_OK;
}

/* After a failure: waits for the requests under way; further failures are ignored. */
static void drain(engine *e) {
    struct pawl_error ignored = ERROR_INIT;
    e->draining = true;
    while (e->under_way > 0) {
        store_io *io = store_queue_wait(engine_queue(e), UINT64_MAX);
        if (io != NULL && request_completed(e, io, &ignored) != PAWL_OK) {
            continue;
        }
    }
}

pawl_status engine_write_files(engine *e, pawl_error *err) {
    pawl_status status = engine_queue_open(e, err);
    e->unsynced = e->job.layout->file_count;
    while (status == PAWL_OK && e->unsynced > 0) {
        status = turn(e, err);
    }
    if (status != PAWL_OK) {
        drain(e);
        engine_outputs_close(e);
    }
    if (status == PAWL_ECANCELED) { /* the text says how much was written, which is known now */
        monitor_enter(&e->monitor);
        status = engine_stop_reason(e, err);
        monitor_leave(&e->monitor);
    }
    return status;
}
