/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl diff, the entries that are compared together.
 *
 * Two checkpoints are walked in the order of names, their files have another one. So entries wait
 * until they are some thousand: then the small tensors among them are read together, each block of
 * a file once, and all are reported in the order of names.
 */
#include "diff.h"
#include "memory.h"
#include "signals.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_WAITING = 4096,
    SMALL_BYTES = 256 * 1024,    /* of a tensor: larger ones are read slice by slice */
    MOST_BYTES = 4 * 1024 * 1024 /* of the small tensors, and of the copies, each */
};

typedef struct waiting_entry {
    pawl_entry_info a, b; /* copies */
    void *memory_a;       /* of the copies; NULL: that side has no such entry */
    void *memory_b;
    size_t slice; /* which of the two to be read; SIZE_MAX: none */
} waiting_entry;

struct diff_queue {
    waiting_entry entries[MOST_WAITING];
    size_t count, copied_bytes;
    pawl_slice slices_a[MOST_WAITING], slices_b[MOST_WAITING];
    size_t slice_count, slice_bytes;
    char room_a[MOST_BYTES], room_b[MOST_BYTES];
};

/* ---- copies --------------------------------------------------------------------------------- */

static size_t value_bytes(const pawl_entry_info *info) {
    return info->value != NULL ? (size_t)info->bytes : 0;
}

static size_t text_bytes(const char *text) {
    return text != NULL ? strlen(text) + 1 : 0;
}

/* What `from` points to goes to *at. */
static const void *copy_bytes(char **at, const void *from, size_t n) {
    char *to = *at;
    *at += n;
    return from != NULL ? memcpy(to, from, n) : NULL;
}

static void *copy_entry(diff_queue *q, pawl_entry_info *to, const pawl_entry_info *from) {
    size_t shape_bytes = (size_t)from->ndim * sizeof *from->shape;
    size_t bytes = shape_bytes + value_bytes(from) + text_bytes(from->name) +
                   text_bytes(from->slot_of) + text_bytes(from->slot) + text_bytes(from->type);
    char *memory = must_alloc(bytes);
    char *at = memory;
    *to = *from;
    to->shape = copy_bytes(&at, from->shape, shape_bytes);
    to->value = copy_bytes(&at, from->value, value_bytes(from));
    to->name = copy_bytes(&at, from->name, text_bytes(from->name));
    to->slot_of = copy_bytes(&at, from->slot_of, text_bytes(from->slot_of));
    to->slot = copy_bytes(&at, from->slot, text_bytes(from->slot));
    to->type = copy_bytes(&at, from->type, text_bytes(from->type));
    q->copied_bytes += bytes;
    return memory;
}

/* ---- reading and reporting ------------------------------------------------------------------ */

static void report_entry(comparison *c, const waiting_entry *w, pawl_status *status) {
    const diff_queue *q = c->queue;
    if (w->memory_a == NULL || w->memory_b == NULL) {
        diff_lone_entry(c, w->memory_a != NULL ? &w->a : &w->b, w->memory_a != NULL);
        return;
    }
    const pawl_slice *a = w->slice < q->slice_count ? &q->slices_a[w->slice] : NULL;
    const pawl_slice *b = w->slice < q->slice_count ? &q->slices_b[w->slice] : NULL;
    bool read = a != NULL && b != NULL && a->status == PAWL_OK && b->status == PAWL_OK;
    const tensor_bytes bytes = {.a = read ? a->to : NULL, .b = read ? b->to : NULL};
    *status = diff_entry(c, &w->a, &w->b, read ? &bytes : NULL);
}

/* What could not be read with the others is read again by itself, when its turn comes: it is then
 * that a failure is told. */
static void read_slices(comparison *c) {
    diff_queue *q = c->queue;
    if (q->slice_count > 0) {
        (void)!pawl_checkpoint_read_many(c->a, q->slices_a, sizeof *q->slices_a, q->slice_count,
                                         NULL);
        (void)!pawl_checkpoint_read_many(c->b, q->slices_b, sizeof *q->slices_b, q->slice_count,
                                         NULL);
        diff_show_progress(c);
    }
}

static void forget_entries(diff_queue *q) {
    for (size_t i = 0; i < q->count; i++) {
        free(q->entries[i].memory_a);
        free(q->entries[i].memory_b);
    }
    q->count = q->copied_bytes = q->slice_count = q->slice_bytes = 0;
}

pawl_status diff_queue_end(comparison *c) {
    pawl_status status = PAWL_OK;
    if (c->queue == NULL) {
        return PAWL_OK;
    }
    read_slices(c);
    for (size_t i = 0; i < c->queue->count && status == PAWL_OK; i++) {
        status = signals_caught() ? PAWL_ECANCELED : PAWL_OK;
        if (status == PAWL_OK) {
            report_entry(c, &c->queue->entries[i], &status);
        }
    }
    forget_entries(c->queue);
    return status;
}

void diff_queue_free(comparison *c) {
    if (c->queue != NULL) {
        forget_entries(c->queue);
        free(c->queue);
        c->queue = NULL;
    }
}

/* ---- adding --------------------------------------------------------------------------------- */

static bool is_to_be_read(const comparison *c, const pawl_entry_info *a, const pawl_entry_info *b) {
    return !c->structure && a->kind == PAWL_KIND_TENSOR && b->kind == PAWL_KIND_TENSOR &&
           a->dtype != (pawl_dtype)0 && a->dtype == b->dtype && a->ndim == b->ndim &&
           (a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0) &&
           a->bytes > 0 && a->bytes <= SMALL_BYTES;
}

static void add_slices(diff_queue *q, waiting_entry *w) {
    size_t bytes = (size_t)w->a.bytes;
    w->slice = q->slice_count++;
    q->slices_a[w->slice] =
        (pawl_slice){.name = w->a.name, .to = q->room_a + q->slice_bytes, .to_bytes = bytes};
    q->slices_b[w->slice] =
        (pawl_slice){.name = w->b.name, .to = q->room_b + q->slice_bytes, .to_bytes = bytes};
    q->slice_bytes += bytes;
}

static bool is_full(const diff_queue *q) {
    return q->count == MOST_WAITING || q->copied_bytes > MOST_BYTES ||
           q->slice_bytes > MOST_BYTES - SMALL_BYTES;
}

pawl_status diff_queue_add(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b) {
    if (c->queue == NULL) {
        c->queue = must_alloc(sizeof *c->queue);
    }
    diff_queue *q = c->queue;
    waiting_entry *w = &q->entries[q->count++];
    *w = (waiting_entry){.slice = SIZE_MAX};
    if (a != NULL) {
        w->memory_a = copy_entry(q, &w->a, a);
    }
    if (b != NULL) {
        w->memory_b = copy_entry(q, &w->b, b);
    }
    if (a != NULL && b != NULL && is_to_be_read(c, a, b)) {
        add_slices(q, w);
    }
    return is_full(q) ? diff_queue_end(c) : PAWL_OK;
}
