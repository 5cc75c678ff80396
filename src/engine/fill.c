/* SPDX-License-Identifier: Apache-2.0 */
/* Takes chunks out of the trainer's memory into buffers, and lets that memory go. */
#include "engine/save.h"

#include <assert.h>

#define BUFFER_ALIGNMENT 4096u /* what direct I/O asks for on every disk in use */

/* ---- buffers ---- */

static engine_buffer *buffer_new(const engine *e) {
    engine_buffer *b = mem_calloc(1, sizeof(*b));
    if (b == NULL) {
        return NULL;
    }
    b->memory = mem_aligned(BUFFER_ALIGNMENT, e->options.buffer_bytes);
    if (b->memory == NULL) {
        mem_free(b);
        return NULL;
    }
    return b;
}

static engine_buffer *buffer_take(engine *e) {
    engine_buffer *b = e->free_buffers;
    if (b != NULL) {
        e->free_buffers = b->next;
        return b;
    }
    if (e->buffer_count == e->buffer_limit) {
        return NULL;
    }
    b = buffer_new(e);
    if (b != NULL) {
        e->buffer_count++;
    }
    return b;
}

void engine_buffer_return(engine *e, engine_buffer *b) {
    b->next = e->free_buffers;
    e->free_buffers = b;
    monitor_announce(&e->monitor);
}

static void free_list(engine_buffer *b) {
    while (b != NULL) {
        engine_buffer *next = b->next;
        mem_free(b->memory);
        mem_free(b);
        b = next;
    }
}

void engine_buffers_free(engine *e) {
    assert(e->filling == 0);
    free_list(e->queue);
    free_list(e->free_buffers);
    e->queue = NULL;
    e->queue_last = NULL;
    e->free_buffers = NULL;
    e->buffer_count = 0;
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
    engine_buffer *b = buffer_take(e);
    if (b == NULL) {
        return NULL;
    }
    uint64_t left = e->job.layout->files[e->next_file].bytes - e->next_at;
    b->next = NULL;
    b->file = e->next_file;
    b->at = e->next_at;
    b->bytes = left < e->options.buffer_bytes ? (size_t)left : e->options.buffer_bytes;
    b->filled = false;
    e->next_at += b->bytes;
    if (e->queue == NULL) {
        e->queue = b;
    } else {
        e->queue_last->next = b;
    }
    e->queue_last = b;
    e->filling++;
    return b;
}

/* Block by block, so that each is checksummed while it is still in the cache. */
static void chunk_copy(engine *e, engine_buffer *b) {
    ptrdiff_t first = e->files[b->file].checksums - e->checksums;
    uint32_t *checksum = e->checksums + first + b->at / FORMAT_BLOCK_BYTES;
    for (size_t done = 0; done < b->bytes; done += FORMAT_BLOCK_BYTES) {
        size_t n = b->bytes - done;
        n = n < FORMAT_BLOCK_BYTES ? n : FORMAT_BLOCK_BYTES;
        plan_layout_gather(e->job.layout, b->file, b->at + done, n, b->memory + done);
        *checksum++ = crc32c(0, b->memory + done, n);
    }
}

/* ---- letting go ---- */

/* The callback runs without the monitor: it may take as long as it likes. */
static void release_once(engine *e) {
    if (e->release_begun) {
        return;
    }
    e->release_begun = true;
    monitor_leave(&e->monitor);
    e->job.released(e->job.context);
    monitor_enter(&e->monitor);
    e->released = true;
    monitor_announce(&e->monitor);
}

void engine_release(engine *e) {
    e->stopped = true;
    while (e->filling > 0) {
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

bool engine_fill_one(engine *e) {
    engine_buffer *b = chunk_claim(e);
    if (b == NULL) {
        return false;
    }
    monitor_leave(&e->monitor);
    struct pawl_error difference;
    chunk_copy(e, b);
    pawl_status status = chunk_check(e, b, &difference);
    monitor_enter(&e->monitor);
    if (status != PAWL_OK) {
        engine_checks_keep(e->checks, &difference);
    }
    b->filled = true;
    e->filling--;
    monitor_announce(&e->monitor);
    if (e->filling == 0 && !e->stopped && !engine_chunk_left(e)) {
        release_once(e);
    }
    return true;
}
