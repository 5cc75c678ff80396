/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers of an engine. Those that a save streams through are one piece of memory, the slab; a
 * fence takes further ones, up to the budget. What fences used is kept for the next save: the
 * budget allows it, and allocating new pages would cost every fence time.
 */
#include "engine/save.h"

#include <assert.h>

#define MIN_BUFFER_BYTES ((size_t)64 << 10)
#define BUFFERS          8 /* that a budget holds at least */

static size_t whole_blocks(size_t bytes) {
    return (bytes + FORMAT_BLOCK_BYTES - 1) / FORMAT_BLOCK_BYTES * FORMAT_BLOCK_BYTES;
}

size_t engine_buffer_size(const engine_options *options, size_t budget_bytes) {
    if (options->buffer_bytes != 0) {
        return options->buffer_bytes;
    }
    size_t in_flight =
        options->in_flight_bytes < budget_bytes ? options->in_flight_bytes : budget_bytes;
    size_t bytes = ENGINE_BUFFER_BYTES;
    while (bytes > MIN_BUFFER_BYTES && bytes * BUFFERS > in_flight) {
        bytes /= 2;
    }
    uint64_t bandwidth = options->bandwidth_bytes_per_s;
    while (bandwidth > 0 && bytes > MIN_BUFFER_BYTES && bytes > bandwidth / BUFFERS) {
        bytes /= 2;
    }
    return bytes >= options->part_bytes_min ? bytes : whole_blocks(options->part_bytes_min);
}

/* The buffer of a small save is no larger than needed. */
static size_t capacity_for(const engine *e, size_t bytes) {
    size_t page = STORE_DIRECT_ALIGNMENT;
    return e->small ? (bytes + page - 1) / page * page : e->buffer_bytes;
}

/* Of the memory that the tensors' provider copies to fast, if it has such. */
static uint8_t *memory_new(const engine *e, size_t bytes) {
    const pawl_memory *from = e->allocator;
    return from != NULL ? from->allocate(from->context, bytes) : mem_pages(bytes);
}

static void memory_free(const engine *e, uint8_t *memory, size_t bytes) {
    const pawl_memory *from = e->allocator;
    if (from == NULL) {
        mem_free(memory);
    } else if (memory != NULL) {
        from->release(from->context, memory, bytes);
    }
}

static bool give_memory(const engine *e, engine_buffer *b, size_t capacity) {
    memory_free(e, b->memory, b->capacity);
    b->capacity = 0;
    b->has_pages = false;
    b->memory = memory_new(e, capacity);
    if (b->memory == NULL) {
        return false;
    }
    b->capacity = capacity;
    return true;
}

static engine_buffer *buffer_new(engine *e) {
    engine_buffer *b = mem_calloc(1, sizeof(*b));
    if (b != NULL) {
        b->older = e->newest;
        e->newest = b;
        e->buffer_count++;
    }
    return b;
}

static engine_buffer *pop_free(engine_buffer **list) {
    engine_buffer *b = *list;
    if (b != NULL) {
        *list = b->next;
    }
    return b;
}

/* Those in the slab first: the queue may have registered it, which makes writes cheaper. */
static engine_buffer *find_free(engine *e) {
    engine_buffer *b = pop_free(&e->free_streaming);
    if (b == NULL) {
        b = pop_free(&e->free_staging);
    }
    return b == NULL && e->buffer_count < e->buffer_limit ? buffer_new(e) : b;
}

engine_buffer *engine_buffer_take(engine *e, size_t bytes) {
    if (e->buffers_used >= (e->fenced ? e->buffer_limit : e->stream_limit)) {
        return NULL;
    }
    engine_buffer *b = find_free(e);
    if (b == NULL) {
        return NULL;
    }
    e->buffers_used++;
    if (b->capacity < bytes && !give_memory(e, b, capacity_for(e, bytes))) {
        engine_buffer_return(e, b);
        return NULL;
    }
    b->has_pages = true; /* it is filled next */
    return b;
}

static void put_free(engine *e, engine_buffer *b) {
    engine_buffer **list = b->in_slab ? &e->free_streaming : &e->free_staging;
    b->next = *list;
    *list = b;
}

void engine_buffer_return(engine *e, engine_buffer *b) {
    e->buffers_used--;
    put_free(e, b);
    monitor_announce(&e->monitor);
}

/* ---- made ready by another thread: ahead.c -------------------------------------------------- */

static void forget(engine *e, engine_buffer *b) {
    engine_buffer **link = &e->newest;
    while (*link != b) {
        link = &(*link)->older;
    }
    *link = b->older;
    e->buffer_count--;
}

static engine_buffer *find_unready(engine *e) {
    engine_buffer **link = &e->free_streaming;
    while (*link != NULL && (*link)->has_pages) {
        link = &(*link)->next;
    }
    return pop_free(link);
}

engine_buffer *engine_buffer_unready(engine *e, size_t most) {
    engine_buffer *b = e->options.make_ready ? find_unready(e) : NULL;
    if (b == NULL && e->buffer_count < most) {
        b = buffer_new(e);
    }
    if (b != NULL) {
        b->readying = true;
        e->readying++;
    }
    return b;
}

bool engine_buffer_give_memory(engine *e, engine_buffer *b) {
    return b->capacity == e->buffer_bytes || give_memory(e, b, e->buffer_bytes);
}

void engine_buffer_made(engine *e, engine_buffer *b) {
    b->readying = false;
    e->readying--;
    if (b->memory == NULL) {
        forget(e, b);
        engine_buffer_free(e, b);
    } else {
        b->has_pages = true;
        put_free(e, b);
    }
    monitor_announce(&e->monitor);
}

engine_buffer *engine_buffer_surplus(engine *e, size_t enough) {
    engine_buffer *b = e->buffer_count > enough ? pop_free(&e->free_staging) : NULL;
    if (b != NULL) {
        forget(e, b);
    }
    return b;
}

void engine_buffer_free(const engine *e, engine_buffer *b) {
    if (!b->in_slab) {
        memory_free(e, b->memory, b->capacity);
    }
    mem_free(b->copies.items);
    mover_batch_free(&b->batch);
    mem_free(b);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void free_all(engine *e) {
    while (e->newest != NULL) {
        engine_buffer *b = e->newest;
        e->newest = b->older;
        engine_buffer_free(e, b);
    }
    e->free_streaming = NULL;
    e->free_staging = NULL;
    e->buffer_count = 0;
}

void engine_buffers_free(engine *e) {
    free_all(e);
    memory_free(e, e->slab, e->stream_limit * e->buffer_bytes);
    e->slab = NULL;
    e->slab_buffers = 0;
}

void engine_buffers_from(engine *e, const pawl_memory *allocator) {
    engine_ahead_end(e);
    /* Who reads beside the save may wake the queue: engine_read_ended. */
    monitor_enter(&e->monitor);
    store_queue *queue = e->queue;
    e->queue = NULL;
    monitor_leave(&e->monitor);
    store_queue_free(queue); /* it may have registered the slab */
    engine_buffers_free(e);
    e->allocator = allocator;
}

pawl_status engine_no_memory(const engine *e, size_t bytes, pawl_error *err) {
    char amount[32];
    if (e->allocator == NULL) {
        return error_nomem(err, bytes);
    }
    error_set(err, PAWL_ENOMEM, "the memory \"%s\" allocates no staging buffer: NULL for %s",
              e->allocator->name, text_bytes(amount, bytes));
    error_next(err, "leave it more memory, lower budget_bytes, or give it no allocate: ordinary "
                    "memory is then used");
    return PAWL_ENOMEM;
}

/* With its buffers: a save that lacks memory fails before it begins. Where an earlier one has
 * failed so, others may be made ready meanwhile. */
pawl_status engine_slab_make(engine *e, pawl_error *err) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    size_t bytes = e->stream_limit * e->buffer_bytes;
    if (e->slab == NULL) {
        free_all(e); /* left from small saves: with them the budget would be exceeded */
        e->slab = memory_new(e, bytes);
    }
    if (e->slab == NULL) {
        return engine_no_memory(e, bytes, err);
    }
    for (; e->slab_buffers < e->stream_limit; e->slab_buffers++) {
        engine_buffer *b = buffer_new(e);
        if (b == NULL) {
            return error_nomem(err, sizeof(*b));
        }
        b->in_slab = true;
        b->memory = e->slab + e->slab_buffers * e->buffer_bytes;
        b->capacity = e->buffer_bytes;
        put_free(e, b);
    }
    return PAWL_OK;
}

void engine_buffers_reset(engine *e) {
    assert(e->filling == 0 && e->under_way == 0);
    e->ready = (engine_buffers){.end = &e->ready.first};
    e->free_streaming = NULL;
    e->free_staging = NULL;
    e->buffers_used = 0;
    for (engine_buffer *b = e->newest; b != NULL; b = b->older) {
        if (!b->readying) {
            put_free(e, b);
        }
    }
}
