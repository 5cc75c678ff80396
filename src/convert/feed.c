/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads tensors ahead of a writer, in its order.
 *
 * A thread fills one of two buffers with the next tensors, or the next part of a large one, while
 * the writer takes what is in the other. So both devices are busy, and memory is bounded however
 * large the tensors are.
 */
#include "convert/convert.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#define BUFFERS         2u
#define BUFFER_BYTES    25165824u /* 24 MiB, of what is written: with a third, for casts, 72 MiB */
#define BUFFER_SEGMENTS 4096u     /* tensors that a buffer has parts of */
#define WAIT_NS         100000000u

/* A part of a tensor in a buffer. */
typedef struct segment {
    size_t item;      /* of the plan */
    uint64_t first;   /* byte of the new tensor */
    size_t at, bytes; /* in the buffer */
} segment;

typedef struct feed_buffer {
    uint8_t *bytes;
    segment *segments; /* BUFFER_SEGMENTS */
    size_t count;
    bool full;
} feed_buffer;

struct feed {
    pawl_checkpoint *from;
    const convert_plan *plan;
    const pawl_convert_options *options;
    const platform *os;
    size_t *order; /* of the plan's items */
    size_t tensors;
    feed_buffer buffers[BUFFERS];
    monitor guard;
    bool guarded;
    platform_thread *thread;
    /* Guarded. */
    bool stopped;
    struct pawl_error story; /* status not PAWL_OK: reading failed */
    uint64_t overflows;
    /* The thread's. */
    size_t next;      /* of `order` */
    uint64_t next_at; /* byte of that tensor */
    uint8_t *uncast;  /* what is to be cast */
    /* The writer's. */
    size_t taken; /* tensors */
    size_t buffer, segment;
    uint64_t done_bytes;
};

/* ---- filling a buffer: the thread ----------------------------------------------------------- */

static pawl_status packed_too_large(const plan_item *item, pawl_error *err) {
    error_set(err, PAWL_ELIMIT, "a tensor of a packed type is too large to be converted");
    error_entry(err, item->from);
    error_expected(err, "at most %u bytes", BUFFER_BYTES);
    error_found(err, "%llu bytes", (unsigned long long)item->from_bytes);
    return PAWL_ELIMIT;
}

/* As much of the tensor as there is room for. Elements that share bytes are never apart. */
static pawl_status ask_segment(feed *f, feed_buffer *b, request *r, size_t used, size_t *uncast,
                               pawl_error *err) {
    size_t number = f->order[f->next];
    const plan_item *item = &f->plan->items[number];
    size_t to_bits = (size_t)pawl_dtype_bits(item->to->dtype);
    bool cast = item->to->dtype != item->from_dtype;
    uint64_t left = item->to->bytes - f->next_at;
    size_t room = BUFFER_BYTES - used;
    segment *s = &b->segments[b->count++];
    if (to_bits % 8 != 0) {
        static const int64_t origin[PAWL_MAX_NDIM];
        box whole = box_of(item->to->ndim, origin, item->to->shape);
        if (left > BUFFER_BYTES) {
            return packed_too_large(item, err);
        }
        *s = (segment){.item = number, .at = used, .bytes = (size_t)left};
        return request_box(r, item, &whole, b->bytes + used, (size_t)left, err);
    }
    size_t each = to_bits / 8;
    size_t from_each = (size_t)pawl_dtype_bits(item->from_dtype) / 8;
    uint64_t n = left / each;
    n = n < room / each ? n : room / each;
    if (cast && n > (BUFFER_BYTES - *uncast) / from_each) {
        n = (BUFFER_BYTES - *uncast) / from_each;
    }
    *s = (segment){.item = number, .first = f->next_at, .at = used, .bytes = (size_t)n * each};
    uint8_t *to = cast ? f->uncast + *uncast : b->bytes + used;
    *uncast += cast ? (size_t)n * from_each : 0;
    return request_elements(r, item, f->next_at / each, n, to, err);
}

static bool has_room(const feed *f, const feed_buffer *b, size_t used, size_t uncast) {
    const plan_item *item = &f->plan->items[f->order[f->next]];
    bool packed = pawl_dtype_bits(item->to->dtype) % 8 != 0;
    size_t room = BUFFER_BYTES - used;
    if (b->count == 0) {
        return true;
    }
    return b->count < BUFFER_SEGMENTS && room >= (packed ? item->to->bytes : 16) &&
           BUFFER_BYTES - uncast >= 16;
}

/* Returns the number of overflows. */
static uint64_t cast_all(const feed *f, const feed_buffer *b) {
    const uint8_t *from = f->uncast;
    uint64_t overflows = 0;
    for (size_t i = 0; i < b->count; i++) {
        const segment *s = &b->segments[i];
        const plan_item *item = &f->plan->items[s->item];
        if (item->to->dtype != item->from_dtype) {
            size_t n = s->bytes / ((size_t)pawl_dtype_bits(item->to->dtype) / 8);
            overflows +=
                cast_elements(item->to->dtype, b->bytes + s->at, item->from_dtype, from, n);
            from += n * ((size_t)pawl_dtype_bits(item->from_dtype) / 8);
        }
    }
    return overflows;
}

static pawl_status fill(feed *f, feed_buffer *b, request *r, pawl_error *err) {
    size_t used = 0;
    size_t uncast = 0;
    b->count = 0;
    while (f->next < f->tensors && has_room(f, b, used, uncast)) {
        const plan_item *item = &f->plan->items[f->order[f->next]];
        TRY(ask_segment(f, b, r, used, &uncast, err));
        const segment *s = &b->segments[b->count - 1];
        used += (s->bytes + 15) / 16 * 16; /* elements stay aligned */
        used = used < BUFFER_BYTES ? used : BUFFER_BYTES;
        f->next_at += s->bytes;
        if (f->next_at < item->to->bytes) {
            break;
        }
        f->next++;
        f->next_at = 0;
    }
    TRY(request_read(r, f->from, err));
    uint64_t overflows = cast_all(f, b);
    monitor_enter(&f->guard);
    f->overflows += overflows;
    monitor_leave(&f->guard);
    return PAWL_OK;
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* False: it is to end. */
static bool wait_for_empty(feed *f, const feed_buffer *b) {
    monitor_enter(&f->guard);
    while (b->full && !f->stopped) {
        (void)monitor_wait_until(&f->guard, platform_now_ns(f->os) + WAIT_NS);
    }
    bool goes_on = !f->stopped;
    monitor_leave(&f->guard);
    return goes_on;
}

static void hand_over(feed *f, feed_buffer *b, const pawl_error *story) {
    monitor_enter(&f->guard);
    if (story != NULL) {
        f->story = *story;
    } else {
        b->full = true;
    }
    monitor_announce(&f->guard);
    monitor_leave(&f->guard);
}

static void read_ahead(void *context) {
    feed *f = context;
    request r = {.slices = NULL};
    struct pawl_error story = ERROR_INIT;
    pawl_status status = PAWL_OK;
    for (size_t i = 0; status == PAWL_OK && f->next < f->tensors; i = (i + 1) % BUFFERS) {
        if (!wait_for_empty(f, &f->buffers[i])) {
            break;
        }
        status = fill(f, &f->buffers[i], &r, &story);
        hand_over(f, &f->buffers[i], status == PAWL_OK ? NULL : &story);
    }
    request_free(&r);
}

/* ---- taking: the writer --------------------------------------------------------------------- */

static pawl_status check_stop(const feed *f, pawl_error *err) {
    const pawl_convert_options *o = f->options;
    if (o->stop == NULL || o->stop(o->context) == 0) {
        return PAWL_OK;
    }
    return error_set(err, PAWL_ECANCELED, "the conversion was stopped by its caller");
}

static pawl_status wait_for_full(feed *f, const feed_buffer *b, pawl_error *err) {
    for (;;) {
        TRY(check_stop(f, err));
        monitor_enter(&f->guard);
        if (!b->full && f->story.status == PAWL_OK) {
            (void)monitor_wait_until(&f->guard, platform_now_ns(f->os) + WAIT_NS);
        }
        bool full = b->full;
        bool failed = !full && f->story.status != PAWL_OK;
        monitor_leave(&f->guard);
        if (failed) {
            *err = f->story;
            return err->status;
        }
        if (full) {
            return PAWL_OK;
        }
    }
}

static void give_back_buffer(feed *f, feed_buffer *b) {
    monitor_enter(&f->guard);
    b->full = false;
    monitor_announce(&f->guard);
    monitor_leave(&f->guard);
    f->buffer = (f->buffer + 1) % BUFFERS;
    f->segment = 0;
}

static void tell_progress(feed *f, const plan_item *item, size_t bytes) {
    bool cast = item->to->dtype != item->from_dtype;
    f->done_bytes += cast ? (uint64_t)bytes * (unsigned)pawl_dtype_bits(item->from_dtype) /
                                (unsigned)pawl_dtype_bits(item->to->dtype)
                          : bytes;
    if (f->options->progress != NULL) {
        f->options->progress(f->options->context, f->done_bytes, f->plan->from_bytes);
    }
}

pawl_status feed_read(void *context, writer_take take, void *to, pawl_error *err) {
    feed *f = context;
    const plan_item *item = &f->plan->items[f->order[f->taken++]];
    uint64_t left = item->to->bytes;
    bool first = true;
    while (left > 0 || first) {
        feed_buffer *b = &f->buffers[f->buffer];
        TRY(wait_for_full(f, b, err));
        const segment *s = &b->segments[f->segment];
        TRY(take(to, b->bytes + s->at, s->bytes, err));
        tell_progress(f, item, s->bytes);
        left -= s->bytes;
        first = false;
        if (++f->segment == b->count) {
            give_back_buffer(f, b);
        }
    }
    return PAWL_OK;
}

pawl_status feed_begin(void *context, const size_t *order, size_t n, pawl_error *err) {
    feed *f = context;
    f->order = mem_dup(order, (n + 1) * sizeof(*order));
    if (f->order == NULL) {
        return error_nomem(err, n * sizeof(*order));
    }
    f->tensors = n;
    return f->os->thread_start(f->os->context, read_ahead, f, &f->thread, err);
}

/* ---- beginning, ending ---------------------------------------------------------------------- */

uint64_t feed_overflows(feed *f) {
    monitor_enter(&f->guard);
    uint64_t overflows = f->overflows;
    monitor_leave(&f->guard);
    return overflows;
}

static pawl_status allocate(feed *f, pawl_error *err) {
    TRY(monitor_init(&f->guard, err));
    f->guarded = true;
    f->uncast = mem_pages(BUFFER_BYTES);
    bool whole = f->uncast != NULL;
    for (size_t i = 0; i < BUFFERS; i++) {
        f->buffers[i].bytes = mem_pages(BUFFER_BYTES);
        f->buffers[i].segments = mem_calloc(BUFFER_SEGMENTS, sizeof(segment));
        whole = whole && f->buffers[i].bytes != NULL && f->buffers[i].segments != NULL;
    }
    return whole ? PAWL_OK : error_nomem(err, BUFFER_BYTES);
}

pawl_status feed_new(pawl_checkpoint *from, const convert_plan *plan,
                     const pawl_convert_options *options, const platform *os, feed **out,
                     pawl_error *err) {
    feed *f = mem_calloc(1, sizeof(*f));
    if (f == NULL) {
        return error_nomem(err, sizeof(*f));
    }
    f->from = from;
    f->plan = plan;
    f->options = options;
    f->os = os;
    f->story = ERROR_INIT;
    pawl_status status = allocate(f, err);
    if (status != PAWL_OK) {
        feed_free(f);
        return status;
    }
    *out = f;
    return PAWL_OK;
}

void feed_free(feed *f) {
    if (f == NULL) {
        return;
    }
    if (f->thread != NULL) {
        monitor_enter(&f->guard);
        f->stopped = true;
        monitor_announce(&f->guard);
        monitor_leave(&f->guard);
        f->os->thread_join(f->os->context, f->thread);
    }
    if (f->guarded) {
        monitor_destroy(&f->guard);
    }
    for (size_t i = 0; i < BUFFERS; i++) {
        mem_free(f->buffers[i].bytes);
        mem_free(f->buffers[i].segments);
    }
    mem_free(f->uncast);
    mem_free(f->order);
    mem_free(f);
}
