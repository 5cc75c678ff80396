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
    b->file = e->next_file;
    b->at = e->next_at;
    b->bytes = bytes;
    e->next_at += bytes;
    e->filling++;
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

/* Some blocks at a time, so that each is checksummed while it is still in the cache. What is
 * checksummed is the copy: it is what will be written, whatever happens to the memory meanwhile. */
static void chunk_copy(engine *e, engine_buffer *b) {
    const plan_layout *layout = e->job.layout;
    ptrdiff_t first = e->files[b->file].checksums - e->checksums;
    uint32_t *checksums = e->checksums + first + b->at / FORMAT_BLOCK_BYTES;
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
    e->filling--;
    engine_announce(e);
    if (e->filling == 0 && !e->stopped && !engine_chunk_left(e)) {
        release_once(e);
    }
    return true;
}
