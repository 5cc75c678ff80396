/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether boxes cover a shape, each element once. Where the boxes separate into parts along
 * some dimension, each part is looked at by itself: grids, rows, columns and meshes inside meshes
 * come down to single boxes in a few rounds of sorting. Boxes that do not separate interlock or
 * overlap: they are compared with those that reach as far along one dimension.
 */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

/* Boxes looked at, and pairs compared: enough for millions of boxes in any mesh. */
#define MAX_WORK ((uint64_t)64 << 20)

/* A box of the set. Its numbers stay where the caller has them, so that it takes little memory. */
typedef struct held {
    const int64_t *offset, *extent;
    size_t number; /* in the set */
} held;

/* Boxes [first, first + count) of the order, and the region that they must fill. */
typedef struct task {
    size_t first, count;
    box region;
} task;

typedef struct covering {
    int ndim;
    held *order; /* not the empty ones */
    size_t count;
    task *tasks; /* still to be done: a stack */
    size_t task_count, task_capacity;
    box *open; /* what no box of an interlocking set covers */
    size_t open_count, open_capacity;
    uint64_t work;
    plan_fault *fault;
} covering;

static void covering_free(covering *c) {
    mem_free(c->order);
    mem_free(c->tasks);
    mem_free(c->open);
}

static bool is_fault(const covering *c) {
    return c->fault->overlap || c->fault->hole;
}

static int64_t box_end_along(const box *b, int dimension) {
    return b->offset[dimension] + b->extent[dimension];
}

static void report_hole(covering *c, const box *where) {
    *c->fault = (plan_fault){.hole = true, .where = *where};
}

static int64_t held_end(const held *h, int dimension) {
    return h->offset[dimension] + h->extent[dimension];
}

static box held_box(const covering *c, const held *h) {
    return box_of(c->ndim, h->offset, h->extent);
}

static bool held_meet(const covering *c, const held *a, const held *b) {
    for (int d = 0; d < c->ndim; d++) {
        if (a->offset[d] >= held_end(b, d) || b->offset[d] >= held_end(a, d)) {
            return false;
        }
    }
    return true;
}

static void report_overlap(covering *c, const held *a, const held *b) {
    box one = held_box(c, a);
    box other = held_box(c, b);
    *c->fault = (plan_fault){.overlap = true,
                             .first = a->number < b->number ? a->number : b->number,
                             .second = a->number < b->number ? b->number : a->number};
    (void)box_intersect(&one, &other, &c->fault->where);
}

static pawl_status take_work(covering *c, size_t n, pawl_error *err) {
    c->work += n;
    if (c->work <= MAX_WORK) {
        return PAWL_OK;
    }
    return error_set(err, PAWL_ELIMIT,
                     "the boxes interlock or overlap in too many ways to be sorted out");
}

/* ---- along one dimension -------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b, void *context) {
    const held *left = a;
    const held *right = b;
    int d = *(const int *)context;
    if (left->offset[d] != right->offset[d]) {
        return left->offset[d] < right->offset[d] ? -1 : 1;
    }
    return (left->number > right->number) - (left->number < right->number);
}

static void sort_along(const covering *c, const task *t, int dimension) {
    held *boxes = c->order + t->first;
    for (size_t i = 1; i < t->count; i++) {
        if (by_begin(&boxes[i - 1], &boxes[i], &dimension) > 0) {
            qsort_r(boxes, t->count, sizeof(*boxes), by_begin, &dimension);
            return;
        }
    }
}

/* The end of the part that begins with box `i`, of ascending boxes; *until: how far it reaches. */
static size_t part_end(const covering *c, const task *t, int dimension, size_t i, int64_t *until) {
    const held *boxes = c->order + t->first;
    *until = held_end(&boxes[i], dimension);
    for (i++; i < t->count && boxes[i].offset[dimension] < *until; i++) {
        int64_t end = held_end(&boxes[i], dimension);
        *until = end > *until ? end : *until;
    }
    return i;
}

static size_t count_parts(const covering *c, const task *t, int dimension) {
    size_t parts = 0;
    int64_t until = 0;
    for (size_t i = 0; i < t->count; i = part_end(c, t, dimension, i, &until)) {
        parts++;
    }
    return parts;
}

/* The dimension along which the boxes separate into the most parts; afterwards they are sorted
 * along the last dimension. */
static pawl_status choose_dimension(covering *c, const task *t, int *dimension, size_t *parts,
                                    pawl_error *err) {
    *dimension = 0;
    *parts = 1;
    for (int d = 0; d < t->region.ndim; d++) {
        TRY(take_work(c, t->count, err));
        sort_along(c, t, d);
        size_t count = count_parts(c, t, d);
        if (count > *parts) {
            *parts = count;
            *dimension = d;
        }
    }
    return PAWL_OK;
}

/* Is there something between `from` and `to` that no part reaches? */
static bool gap(covering *c, const box *region, int dimension, int64_t from, int64_t to) {
    if (from >= to) {
        return false;
    }
    box where = *region;
    where.offset[dimension] = from;
    where.extent[dimension] = to - from;
    report_hole(c, &where);
    return true;
}

/* Each part becomes a task of its own. */
static pawl_status split(covering *c, const task *t, int dimension, pawl_error *err) {
    int64_t at = t->region.offset[dimension];
    sort_along(c, t, dimension);
    for (size_t i = 0; i < t->count;) {
        int64_t until = 0;
        int64_t begin = c->order[t->first + i].offset[dimension];
        size_t end = part_end(c, t, dimension, i, &until);
        if (gap(c, &t->region, dimension, at, begin)) {
            return PAWL_OK;
        }
        TRY(vec_reserve(&c->tasks, &c->task_capacity, c->task_count + 1, sizeof(*c->tasks), err));
        task *part = &c->tasks[c->task_count++];
        *part = (task){.first = t->first + i, .count = end - i, .region = t->region};
        part->region.offset[dimension] = begin;
        part->region.extent[dimension] = until - begin;
        at = until;
        i = end;
    }
    (void)gap(c, &t->region, dimension, at, box_end_along(&t->region, dimension));
    return PAWL_OK;
}

/* ---- boxes that do not separate ------------------------------------------------------------- */

/* A sweep along one dimension: compares each box with those that began before and reach into it. */
static pawl_status find_overlap(covering *c, const task *t, int dimension, pawl_error *err) {
    const held *boxes = c->order + t->first;
    AUTOFREE const held **active = mem_calloc(t->count, sizeof(const held *));
    if (active == NULL) {
        return error_nomem(err, t->count * sizeof(const held *));
    }
    size_t count = 0;
    sort_along(c, t, dimension);
    for (size_t i = 0; i < t->count; i++) {
        size_t kept = 0;
        TRY(take_work(c, count + 1, err));
        for (size_t k = 0; k < count; k++) {
            if (held_meet(c, active[k], &boxes[i])) {
                report_overlap(c, active[k], &boxes[i]);
                return PAWL_OK;
            }
            if (held_end(active[k], dimension) > boxes[i].offset[dimension]) {
                active[kept++] = active[k];
            }
        }
        active[kept] = &boxes[i];
        count = kept + 1;
    }
    return PAWL_OK;
}

static size_t distinct_offsets(const covering *c, const task *t, int dimension) {
    const held *boxes = c->order + t->first;
    size_t distinct = 1;
    sort_along(c, t, dimension);
    for (size_t i = 1; i < t->count; i++) {
        distinct += boxes[i].offset[dimension] != boxes[i - 1].offset[dimension];
    }
    return distinct;
}

static pawl_status add_open(covering *c, const box *b, pawl_error *err) {
    TRY(vec_reserve(&c->open, &c->open_capacity, c->open_count + 1, sizeof(*c->open), err));
    c->open[c->open_count++] = *b;
    return PAWL_OK;
}

/* What is left of `whole` without `part`, which lies inside: at most two boxes a dimension. */
static pawl_status add_rest(covering *c, box whole, const box *part, pawl_error *err) {
    for (int d = 0; d < whole.ndim; d++) {
        box side = whole;
        side.extent[d] = part->offset[d] - whole.offset[d];
        if (side.extent[d] > 0) {
            TRY(add_open(c, &side, err));
        }
        side.offset[d] = box_end_along(part, d);
        side.extent[d] = box_end_along(&whole, d) - side.offset[d];
        if (side.extent[d] > 0) {
            TRY(add_open(c, &side, err));
        }
        whole.offset[d] = part->offset[d];
        whole.extent[d] = part->extent[d];
    }
    return PAWL_OK;
}

/* Takes a box out of what is open. */
static pawl_status take_out(covering *c, const box *taken, pawl_error *err) {
    size_t left = c->open_count;
    TRY(take_work(c, left + 1, err));
    for (size_t i = 0; i < left;) {
        box open = c->open[i];
        box part;
        if (!box_intersect(&open, taken, &part)) {
            i++;
            continue;
        }
        TRY(add_rest(c, open, &part, err));
        /* The last one that was not looked at takes its place; the new ones are behind that. */
        c->open[i] = c->open[--left];
        c->open[left] = c->open[--c->open_count];
    }
    return PAWL_OK;
}

static pawl_status find_hole(covering *c, const task *t, pawl_error *err) {
    c->open_count = 0;
    TRY(add_open(c, &t->region, err));
    for (size_t i = 0; i < t->count; i++) {
        box taken = held_box(c, &c->order[t->first + i]);
        TRY(take_out(c, &taken, err));
    }
    report_hole(c, &c->open[0]);
    return PAWL_OK;
}

static pawl_status cover_interlocking(covering *c, const task *t, pawl_error *err) {
    int dimension = 0;
    size_t most = 0;
    for (int d = 0; d < t->region.ndim; d++) {
        size_t distinct = distinct_offsets(c, t, d);
        dimension = distinct > most ? d : dimension;
        most = distinct > most ? distinct : most;
    }
    TRY(find_overlap(c, t, dimension, err));
    if (is_fault(c)) {
        return PAWL_OK;
    }
    uint64_t covered = 0;
    for (size_t i = 0; i < t->count; i++) {
        covered += shape_elements(c->ndim, c->order[t->first + i].extent);
    }
    return covered == box_elements(&t->region) ? PAWL_OK : find_hole(c, t, err);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static bool is_region(const covering *c, const held *h, const box *region) {
    box whole = held_box(c, h);
    return box_equal(&whole, region);
}

static pawl_status cover_task(covering *c, const task *t, pawl_error *err) {
    int dimension = 0;
    size_t parts = 0;
    if (t->count == 0) {
        report_hole(c, &t->region);
        return PAWL_OK;
    }
    if (t->count == 1 && is_region(c, &c->order[t->first], &t->region)) {
        return PAWL_OK;
    }
    TRY(choose_dimension(c, t, &dimension, &parts, err));
    if (parts > 1) {
        return split(c, t, dimension, err);
    }
    for (int d = 0; d < t->region.ndim; d++) {
        int64_t until = 0;
        sort_along(c, t, d);
        (void)part_end(c, t, d, 0, &until);
        if (gap(c, &t->region, d, t->region.offset[d], c->order[t->first].offset[d]) ||
            gap(c, &t->region, d, until, box_end_along(&t->region, d))) {
            return PAWL_OK;
        }
    }
    return t->count > 1 ? cover_interlocking(c, t, err) : PAWL_OK;
}

static void hold(covering *c, size_t number, const int64_t *offset, const int64_t *extent) {
    if (shape_elements(c->ndim, extent) > 0) {
        c->order[c->count++] = (held){.offset = offset, .extent = extent, .number = number};
    }
}

static pawl_status cover(covering *c, const int64_t *shape, pawl_error *err) {
    task t = {.count = c->count, .region = box_whole(c->ndim, shape)};
    TRY(cover_task(c, &t, err));
    while (c->task_count > 0 && !is_fault(c)) {
        t = c->tasks[--c->task_count];
        TRY(cover_task(c, &t, err));
    }
    return PAWL_OK;
}

pawl_status plan_cover(int ndim, const int64_t *shape, const box *boxes, size_t n, plan_fault *out,
                       pawl_error *err) {
    *out = (plan_fault){0};
    if (shape_elements(ndim, shape) == 0) {
        return PAWL_OK;
    }
    CLEANUP(covering_free) covering c = {.ndim = ndim, .fault = out};
    c.order = mem_calloc(n, sizeof(*c.order));
    if (c.order == NULL) {
        return error_nomem(err, n * sizeof(*c.order));
    }
    for (size_t i = 0; i < n; i++) {
        hold(&c, i, boxes[i].offset, boxes[i].extent);
    }
    return cover(&c, shape, err);
}

/* ---- the pieces of an entry ------------------------------------------------------------------ */

/* Do the pieces follow one another along one dimension, as most do? That needs no sorting. */
static bool are_a_row(const record_entry *e) {
    int along = -1;
    int64_t end = 0;
    for (int d = 0; d < e->ndim && along < 0; d++) {
        along = e->pieces[0].box_extent[d] != e->shape[d] ? d : -1;
    }
    if (along < 0) {
        return e->piece_count == 1;
    }
    for (size_t i = 0; i < e->piece_count; i++) {
        const record_piece *piece = &e->pieces[i];
        for (int d = 0; d < e->ndim; d++) {
            int64_t begin = d == along ? end : 0;
            if (piece->box_offset[d] != begin ||
                (d != along && piece->box_extent[d] != e->shape[d])) {
                return false;
            }
        }
        end += piece->box_extent[along];
    }
    return end == e->shape[along];
}

pawl_status plan_cover_entry(const record_entry *e, plan_fault *out, pawl_error *err) {
    *out = (plan_fault){0};
    if (shape_elements(e->ndim, e->shape) == 0 || (e->piece_count > 0 && are_a_row(e))) {
        return PAWL_OK;
    }
    CLEANUP(covering_free) covering c = {.ndim = e->ndim, .fault = out};
    c.order = mem_calloc(e->piece_count, sizeof(*c.order));
    if (c.order == NULL) {
        return error_nomem(err, e->piece_count * sizeof(*c.order));
    }
    for (size_t i = 0; i < e->piece_count; i++) {
        hold(&c, i, e->pieces[i].box_offset, e->pieces[i].box_extent);
    }
    pawl_status status = cover(&c, e->shape, err);
    if (status != PAWL_OK) {
        error_entry(err, e->name);
    }
    return status;
}
