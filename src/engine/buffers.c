/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers of an engine. Those that a save streams through are one piece of memory, the slab; a
 * fence takes further ones, up to the budget. All are kept for the next save: the budget allows
 * them, and allocating new pages would cost every fence time.
 */
#include "engine/save.h"

#include <assert.h>

#define MIN_BUFFER_BYTES ((size_t)64 << 10)
#define BUFFERS          8 /* that a budget holds at least */

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
    return bytes;
}

/* The buffer of a small save is no larger than needed. */
static size_t capacity_for(const engine *e, size_t bytes) {
    size_t page = STORE_DIRECT_ALIGNMENT;
    return e->small ? (bytes + page - 1) / page * page : e->buffer_bytes;
}

static bool give_memory(engine *e, engine_buffer *b, size_t bytes) {
    if (b->capacity >= bytes) {
        return true;
    }
    mem_free(b->memory);
    b->capacity = 0;
    b->memory = mem_pages(capacity_for(e, bytes));
    if (b->memory == NULL) {
        return false;
    }
    b->capacity = capacity_for(e, bytes);
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
    if (!give_memory(e, b, bytes)) {
        engine_buffer_return(e, b);
        return NULL;
    }
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

/* Buffers with which the fence of this save would not have waited, at most what the budget
 * allows. */
static size_t buffers_wanted(const engine *e) {
    uint64_t wanted = e->fenced ? e->stats.budget_wanted_bytes / e->buffer_bytes : 0;
    return wanted < e->buffer_limit ? (size_t)wanted : e->buffer_limit;
}

/* Enters the monitor. The caller may use the buffer after leaving it although the buffer is among
 * the free ones: nothing takes buffers once all chunks are claimed. */
static engine_buffer *buffer_ahead(engine *e) {
    CLEANUP(monitor_leave_pointer) monitor *held = &e->monitor;
    monitor_enter(held);
    if (e->small || !e->released || e->buffer_count >= buffers_wanted(e)) {
        return NULL;
    }
    engine_buffer *b = buffer_new(e);
    if (b != NULL) {
        (void)give_memory(e, b,
                          e->buffer_bytes); /* a failure is none: the next fence tries again */
        put_free(e, b);
    }
    return b;
}

bool engine_buffer_ahead(engine *e) {
    engine_buffer *b = buffer_ahead(e);
    for (size_t at = 0; b != NULL && at < b->capacity; at += STORE_DIRECT_ALIGNMENT) {
        b->memory[at] = 0; /* allocates the page */
    }
    return b != NULL;
}

static void free_all(engine *e) {
    while (e->newest != NULL) {
        engine_buffer *b = e->newest;
        e->newest = b->older;
        if (!b->in_slab) {
            mem_free(b->memory);
        }
        mem_free(b);
    }
    e->free_streaming = NULL;
    e->free_staging = NULL;
    e->buffer_count = 0;
}

void engine_buffers_free(engine *e) {
    free_all(e);
    mem_free(e->slab);
}

/* With its buffers: a save that lacks memory fails before it begins. */
pawl_status engine_slab_make(engine *e, pawl_error *err) {
    size_t bytes = e->stream_limit * e->buffer_bytes;
    if (e->slab == NULL) {
        free_all(e); /* left from small saves: with them the budget would be exceeded */
        e->slab = mem_pages(bytes);
    }
    if (e->slab == NULL) {
        return error_nomem(err, bytes);
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
        put_free(e, b);
    }
}
