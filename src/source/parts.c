/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of parts of files that were read: comparing the checksums of a source then is of these, and
 * reads only what is missing.
 */
#include "source/source.h"

#include <stdlib.h>

struct source_parts {
    monitor guard;
    source_part *items;
    size_t count, room;
    bool sorted; /* and nothing overlaps */
    bool lost;   /* of some that were read nothing is known */
};

pawl_status source_parts_new(source_parts **out, pawl_error *err) {
    source_parts *p = mem_calloc(1, sizeof(*p));
    if (p == NULL) {
        return error_nomem(err, sizeof(*p));
    }
    pawl_status status = monitor_init(&p->guard, err);
    if (status != PAWL_OK) {
        mem_free(p);
        return status;
    }
    *out = p;
    return PAWL_OK;
}

void source_parts_free(source_parts *p) {
    if (p != NULL) {
        monitor_destroy(&p->guard);
        mem_free(p->items);
        mem_free(p);
    }
}

void source_parts_add(source_parts *p, struct source *s, uint32_t file, uint64_t at,
                      const void *bytes, size_t n) {
    struct pawl_error ignored = ERROR_INIT;
    if (s->sum == NULL || n == 0 || (s->ops->in_file != NULL && !s->ops->in_file(s, &file, &at))) {
        return;
    }
    const source_part part = {.file = file, .at = at, .bytes = n, .sum = s->sum(0, bytes, n)};
    monitor_enter(&p->guard);
    if (vec_reserve(&p->items, &p->room, p->count + 1, sizeof(*p->items), &ignored) == PAWL_OK) {
        p->items[p->count++] = part;
        p->sorted = false;
    } else {
        p->lost = true;
    }
    monitor_leave(&p->guard);
}

/* ---- finding -------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b) {
    const source_part *left = a;
    const source_part *right = b;
    if (left->file != right->file) {
        return left->file < right->file ? -1 : 1;
    }
    if (left->at != right->at) {
        return left->at < right->at ? -1 : 1;
    }
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

/* Parts that overlap were read more than once, and perhaps not alike: unless they are the same,
 * none of them counts. */
static void sort_parts(source_parts *p) {
    size_t kept = 0;
    uint64_t end = 0; /* of all so far in that file */
    if (p->count > 1) {
        qsort(p->items, p->count, sizeof(*p->items), by_place);
    }
    for (size_t i = 0, n = 0; i < p->count; i += n) {
        const source_part first = p->items[i];
        bool same = true;
        end = first.at + first.bytes;
        for (n = 1; i + n < p->count; n++) {
            const source_part *next = &p->items[i + n];
            if (next->file != first.file || next->at >= end) {
                break;
            }
            same = same && next->at == first.at && next->bytes == first.bytes &&
                   next->sum == first.sum;
            end = next->at + next->bytes > end ? next->at + next->bytes : end;
        }
        if (same) {
            p->items[kept++] = first;
        } else {
            p->lost = true;
        }
    }
    p->count = kept;
    p->sorted = true;
}

/* The first part that does not begin before that. */
static size_t find_place(const source_parts *p, uint32_t file, uint64_t at) {
    const source_part wanted = {.file = file, .at = at};
    size_t low = 0;
    size_t high = p->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_place(&p->items[middle], &wanted) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Sorted; the monitor is held. */
static size_t place_of(source_parts *p, uint32_t file, uint64_t at) {
    if (!p->sorted) {
        sort_parts(p);
    }
    return find_place(p, file, at);
}

bool source_parts_touch(source_parts *p, uint32_t file, uint64_t at, uint64_t end) {
    if (p == NULL) {
        return true;
    }
    CLEANUP(monitor_leave_pointer) monitor *held = &p->guard;
    monitor_enter(held);
    size_t i = place_of(p, file, at);
    const source_part *next = i < p->count ? &p->items[i] : NULL;
    const source_part *before = i > 0 ? &p->items[i - 1] : NULL;
    return p->lost || (next != NULL && next->file == file && next->at < end) ||
           (before != NULL && before->file == file && before->at + before->bytes > at);
}

bool source_parts_find(source_parts *p, uint32_t file, uint64_t at, uint64_t end,
                       source_part *out) {
    *out = (source_part){.file = file, .at = at, .bytes = end - at};
    if (p == NULL || at >= end) {
        return false;
    }
    CLEANUP(monitor_leave_pointer) monitor *held = &p->guard;
    monitor_enter(held);
    size_t i = place_of(p, file, at);
    if (i == p->count || p->items[i].file != file || p->items[i].at >= end) {
        return false;
    }
    if (p->items[i].at > at) {
        out->bytes = p->items[i].at - at;
        return false;
    }
    if (p->items[i].bytes > end - at) { /* it is of more than what is asked for */
        return false;
    }
    *out = p->items[i];
    return true;
}
