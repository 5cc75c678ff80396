/* SPDX-License-Identifier: Apache-2.0 */
/* Copies chunks of the trainer's memory into buffers, and releases that memory. */
#include "engine/save.h"

#include <assert.h>

#define COPY_BYTES (4 * (size_t)FORMAT_BLOCK_BYTES) /* stays in a second-level cache */

void engine_announce(engine *e) {
    monitor_announce(&e->monitor);
    if (e->queue != NULL) {
        store_queue_wake(e->queue);
    }
}

/* ---- chunks ---- */

bool engine_chunk_left(engine *e) {
    const plan_layout *layout = e->job.layout;
    while (e->next_file < layout->file_count && e->next_at == layout->files[e->next_file].bytes) {
        e->next_file++;
        e->next_at = 0;
    }
    return e->next_file < layout->file_count;
}

static engine_buffer *chunk_claim(engine *e) {
    if (e->stopped || e->cancelled || !engine_chunk_left(e)) {
        return NULL;
    }
    uint64_t left = e->job.layout->files[e->next_file].bytes - e->next_at;
    size_t bytes = left < e->buffer_bytes ? (size_t)left : e->buffer_bytes;
    engine_buffer *b = engine_buffer_take(e, bytes);
    if (b == NULL) {
        return NULL;
    }
    b->next = NULL;
    b->engine = e;
    b->file = e->next_file;
    b->at = e->next_at;
    b->bytes = bytes;
    b->filling = true;
    e->next_at += bytes;
    e->filling++;
    e->copying += e->provided;
    return b;
}

/* Most of a large tensor: n bytes that lie in memory as in the file. */
static void blocks_copy(uint32_t *checksums, uint8_t *to, const uint8_t *from, size_t n) {
    for (size_t at = 0; at < n; at += FORMAT_BLOCK_BYTES) {
        size_t left = n - at;
        *checksums++ = crc32c_copy(0, to + at, from + at,
                                   left < FORMAT_BLOCK_BYTES ? left : FORMAT_BLOCK_BYTES);
    }
}

static void blocks_sum(uint32_t *checksums, const uint8_t *memory, size_t n) {
    for (size_t at = 0; at < n; at += FORMAT_BLOCK_BYTES) {
        size_t left = n - at;
        *checksums++ =
            crc32c(0, memory + at, left < FORMAT_BLOCK_BYTES ? left : FORMAT_BLOCK_BYTES);
    }
}

static uint32_t *chunk_checksums(const engine *e, const engine_buffer *b) {
    ptrdiff_t first = e->files[b->file].checksums - e->checksums;
    return e->checksums + first + b->at / FORMAT_BLOCK_BYTES;
}

/* Some blocks at a time, so that each is checksummed while it is still in the cache. What is
 * checksummed is the copy: it is what will be written, whatever happens to the memory meanwhile. */
static void chunk_copy(engine *e, engine_buffer *b) {
    const plan_layout *layout = e->job.layout;
    uint32_t *checksums = chunk_checksums(e, b);
    size_t piece = 0;
    for (size_t done = 0; done < b->bytes; done += COPY_BYTES) {
        size_t n = b->bytes - done < COPY_BYTES ? b->bytes - done : COPY_BYTES;
        uint8_t *to = b->memory + done;
        const uint8_t *from = plan_layout_dense(layout, b->file, b->at + done, n, &piece);
        if (from != NULL) {
            blocks_copy(checksums, to, from, n);
        } else {
            plan_layout_gather_on(layout, b->file, b->at + done, n, to, &piece);
            blocks_sum(checksums, to, n);
        }
        checksums += COPY_BYTES / FORMAT_BLOCK_BYTES;
    }
}

/* What the sum of the file needs besides its blocks, when it is in this chunk. */
static void note_edge(engine *e, const engine_buffer *b) {
    const plan_file *file = &e->job.layout->files[b->file];
    uint64_t begin = file->header.size;
    uint64_t end = data_sum_edge(begin, file->bytes);
    if (begin < end && begin >= b->at && end <= b->at + b->bytes) {
        e->parts[b->file].edge_crc = crc32c(0, b->memory + (begin - b->at), (size_t)(end - begin));
    }
}

/* ---- what is ready to be written ---- */

static void push_first(engine_buffers *list, engine_buffer *b) {
    b->next = list->first;
    list->first = b;
    if (b->next == NULL) {
        list->end = &b->next;
    }
}

static void push_last(engine_buffers *list, engine_buffer *b) {
    b->next = NULL;
    *list->end = b;
    list->end = &b->next;
}

/* A file's first chunk goes before all others that are ready, so that older files are completed
 * before younger ones. */
static void chunk_filled(engine *e, engine_buffer *b) {
    engine_part *part = &e->parts[b->file];
    e->unfilled_first -= b->file < e->job.layout->copied_files;
    if (b->at == 0) {
        part->head = b;
    } else {
        part->unfilled--;
        push_last(&e->ready, b);
    }
    if (part->head != NULL && part->unfilled == 0) {
        push_first(&e->ready, part->head);
        part->head = NULL;
    }
}

/* ---- releasing the memory ---- */

/* The callback runs without the monitor, as it may take long. */
static void release_once(engine *e) {
    if (e->release_begun) {
        return;
    }
    e->release_begun = true;
    monitor_leave(&e->monitor);
    e->job.released(e->job.context);
    monitor_enter(&e->monitor);
    e->released = true;
    e->wants_known = e->wants_known || !(e->small || e->stopped);
    monitor_announce(&e->monitor);
}

void engine_release(engine *e) {
    e->stopped = true;
    while (e->filling > 0 || e->readers > 0) {
        monitor_wait_until(&e->monitor, UINT64_MAX);
    }
    release_once(e);
    while (!e->released) {
        monitor_wait_until(&e->monitor, UINT64_MAX);
    }
}

static pawl_status chunk_check(const engine *e, const engine_buffer *b, pawl_error *err) {
    if (e->checks == NULL) {
        return PAWL_OK;
    }
    return engine_checks_compare(e->checks, e->job.layout, b, err);
}

/* ---- one chunk ---- */

/* Monitor held. */
static void chunk_leave(engine *e, engine_buffer *b) {
    b->filling = false;
    e->filling--;
    e->copying -= e->provided;
    engine_announce(e);
}

/* The bytes of the chunk, and their checksums, are there. Enters the monitor, and stays in it. */
static void chunk_finish(engine *e, engine_buffer *b) {
    struct pawl_error difference;
    note_edge(e, b);
    pawl_status status = chunk_check(e, b, &difference);
    monitor_enter(&e->monitor);
    if (status != PAWL_OK) {
        engine_checks_keep(e->checks, &difference);
    }
    if (e->fencing) {
        e->stats.fence_copied_bytes += b->bytes;
    }
    chunk_filled(e, b);
    chunk_leave(e, b);
}

/* ---- out of providers' memory ---- */

static void chunk_failed(engine *e, engine_buffer *b, pawl_status status, const pawl_error *story) {
    monitor_enter(&e->monitor);
    b->failed = true;
    if (e->copy_status == PAWL_OK) {
        e->copy_status = status;
        e->copy_story = *story;
    }
    monitor_leave(&e->monitor);
}

/* Was it the last of the chunk's jobs? What remains to be done is then the caller's. */
static bool job_done(engine *e, engine_buffer *b) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    engine_mark_copy(e);
    return --b->unfinished == 0;
}

/* Stays in the monitor. */
static void copies_finish(engine *e, engine_buffer *b) {
    if (!b->failed) {
        blocks_sum(chunk_checksums(e, b), b->memory, b->bytes);
        chunk_finish(e, b);
        return;
    }
    monitor_enter(&e->monitor);
    chunk_leave(e, b);
    engine_buffer_return(e, b);
}

/* On the mover's thread: it tells nobody what is released, as whoever is told may wait for it. */
static void job_ended(mover_job *job, pawl_status status, const pawl_error *story) {
    engine_buffer *b = job->context;
    engine *e = b->engine;
    if (status != PAWL_OK) {
        chunk_failed(e, b, status, story);
    }
    if (job_done(e, b)) {
        copies_finish(e, b);
        monitor_leave(&e->monitor);
    }
}

static pawl_status find_copies(engine *e, engine_buffer *b, pawl_error *err) {
    b->copies.count = 0;
    b->batch.job_count = 0;
    TRY(plan_layout_gather_some(e->job.layout, b->file, b->at, b->bytes, b->memory, &b->copies,
                                err));
    return mover_batch_make(&b->batch, &b->copies, false, job_ended, b, err);
}

/* Enters the monitor, and stays in it. */
static void chunk_begin_copies(engine *e, engine_buffer *b) {
    struct pawl_error story = ERROR_INIT;
    b->failed = false;
    pawl_status status = find_copies(e, b, &story);
    b->unfinished = b->batch.job_count + 1;
    if (status != PAWL_OK) {
        b->unfinished = 1;
        chunk_failed(e, b, status, &story);
    }
    for (size_t i = 0; status == PAWL_OK && i < b->batch.job_count; i++) {
        mover_submit(e->mover, &b->batch.jobs[i]);
    }
    if (job_done(e, b)) {
        copies_finish(e, b);
    } else {
        monitor_enter(&e->monitor);
    }
}

/* ---- all of them ---- */

void engine_release_if_read(engine *e) {
    bool read = e->filling == 0 && e->readers == 0;
    if (!e->release_begun && read && (e->stopped || !engine_chunk_left(e))) {
        release_once(e);
    }
}

bool engine_fill_one(engine *e) {
    engine_buffer *b = chunk_claim(e);
    if (b == NULL) {
        return false;
    }
    bool provided = e->provided;
    monitor_leave(&e->monitor);
    if (provided && plan_layout_provided(e->job.layout, b->file, b->at, b->bytes)) {
        chunk_begin_copies(e, b);
    } else {
        chunk_copy(e, b);
        chunk_finish(e, b);
    }
    engine_release_if_read(e);
    return true;
}
