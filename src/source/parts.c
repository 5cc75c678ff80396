/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of parts of files that were read: comparing the checksums of a source then is of these, and
 * reads only what is missing.
 */
#include "source/source.h"

#include <stdlib.h>

typedef struct part_list {
    source_part *items;
    size_t count, room;
    bool sorted;
} part_list;

struct source_parts {
    monitor guard;
    part_list summed; /* once sorted, nothing overlaps */
    part_list marked; /* begin somewhere: no more is known of them */
    bool lost;        /* of some that were read nothing is known */
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
        mem_free(p->summed.items);
        mem_free(p->marked.items);
        mem_free(p);
    }
}

/* The monitor is held. */
static void add_to(source_parts *p, part_list *l, const source_part *part) {
    struct pawl_error ignored = ERROR_INIT;
    if (vec_reserve(&l->items, &l->room, l->count + 1, sizeof(*l->items), &ignored) != PAWL_OK) {
        p->lost = true;
        return;
    }
    l->items[l->count++] = *part;
    l->sorted = false;
}

void source_parts_add(source_parts *p, struct source *s, uint32_t file, uint64_t at,
                      const void *bytes, size_t n) {
    if (s->sum == NULL || n == 0 || (s->ops->in_file != NULL && !s->ops->in_file(s, &file, &at))) {
        return;
    }
    const source_part part = {.file = file, .at = at, .bytes = n, .sum = s->sum(0, bytes, n)};
    monitor_enter(&p->guard);
    add_to(p, &p->summed, &part);
    monitor_leave(&p->guard);
}

void source_parts_mark(source_parts *p, uint32_t file, uint64_t at) {
    const source_part part = {.file = file, .at = at, .bytes = 1};
    monitor_enter(&p->guard);
    add_to(p, &p->marked, &part);
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
 * the sum of none of them counts. */
static void drop_overlapping(source_parts *p) {
    part_list *l = &p->summed;
    size_t kept = 0;
    uint64_t end = 0; /* of all so far in that file */
    for (size_t i = 0, n = 0; i < l->count; i += n) {
        const source_part first = l->items[i];
        bool same = true;
        end = first.at + first.bytes;
        for (n = 1; i + n < l->count; n++) {
            const source_part *next = &l->items[i + n];
            if (next->file != first.file || next->at >= end) {
                break;
            }
            same = same && next->at == first.at && next->bytes == first.bytes &&
                   next->sum == first.sum;
            end = next->at + next->bytes > end ? next->at + next->bytes : end;
        }
        if (same) {
            l->items[kept++] = first;
        } else {
            add_to(p, &p->marked, &first);
        }
    }
    l->count = kept;
}

static void sort_list(part_list *l) {
    if (!l->sorted && l->count > 1) {
        qsort(l->items, l->count, sizeof(*l->items), by_place);
    }
    l->sorted = true;
}

/* The monitor is held. */
static void sort_all(source_parts *p) {
    bool overlap = !p->summed.sorted;
    sort_list(&p->summed);
    if (overlap) {
        drop_overlapping(p);
    }
    sort_list(&p->marked);
}

/* The first part that does not begin before that. */
static size_t find_place(const part_list *l, uint32_t file, uint64_t at) {
    const source_part wanted = {.file = file, .at = at};
    size_t low = 0;
    size_t high = l->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_place(&l->items[middle], &wanted) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool begins_within(const part_list *l, size_t i, uint32_t file, uint64_t end) {
    return i < l->count && l->items[i].file == file && l->items[i].at < end;
}

bool source_parts_touch(source_parts *p, uint32_t file, uint64_t at, uint64_t end) {
    if (p == NULL) {
        return true;
    }
    CLEANUP(monitor_leave_pointer) monitor *held = &p->guard;
    monitor_enter(held);
    sort_all(p);
    size_t i = find_place(&p->summed, file, at);
    const source_part *before = i > 0 ? &p->summed.items[i - 1] : NULL;
    return p->lost || begins_within(&p->summed, i, file, end) ||
           (before != NULL && before->file == file && before->at + before->bytes > at) ||
           begins_within(&p->marked, find_place(&p->marked, file, at), file, end);
}

bool source_parts_find(source_parts *p, uint32_t file, uint64_t at, uint64_t end,
                       source_part *out) {
    *out = (source_part){.file = file, .at = at, .bytes = end - at};
    if (p == NULL || at >= end) {
        return false;
    }
    CLEANUP(monitor_leave_pointer) monitor *held = &p->guard;
    monitor_enter(held);
    sort_all(p);
    const part_list *l = &p->summed;
    size_t i = find_place(l, file, at);
    if (i == l->count || l->items[i].file != file || l->items[i].at >= end) {
        return false;
    }
    if (l->items[i].at > at) {
        out->bytes = l->items[i].at - at;
        return false;
    }
    if (l->items[i].bytes > end - at) { /* it is of more than what is asked for */
        return false;
    }
    *out = l->items[i];
    return true;
}
