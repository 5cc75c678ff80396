/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of boxes inside a shape, and the runs of one box in another's row-major memory. */
#include "tensor/tensor.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

box box_whole(int ndim, const int64_t *shape) {
    box b = {.ndim = ndim};
    for (int i = 0; i < ndim; i++) {
        b.extent[i] = shape[i];
    }
    return b;
}

box box_of(int ndim, const int64_t *offset, const int64_t *extent) {
    box b = {.ndim = ndim};
    for (int i = 0; i < ndim; i++) {
        b.offset[i] = offset[i];
        b.extent[i] = extent[i];
    }
    return b;
}

static bool fits(int64_t offset, int64_t extent, int64_t shape) {
    return offset >= 0 && extent >= 0 && extent <= shape && offset <= shape - extent;
}

bool box_inside(int ndim, const int64_t *offset, const int64_t *extent, const int64_t *shape) {
    for (int i = 0; i < ndim; i++) {
        if (!fits(offset[i], extent[i], shape[i])) {
            return false;
        }
    }
    return true;
}

pawl_status box_check(const box *b, int ndim, const int64_t *shape, pawl_error *err) {
    if (b->ndim != ndim) {
        error_set(err, PAWL_EUSAGE, "the box has another number of dimensions than its tensor");
        error_expected(err, "%d", ndim);
        error_found(err, "%d", b->ndim);
        return PAWL_EUSAGE;
    }
    for (int i = 0; i < ndim; i++) {
        if (fits(b->offset[i], b->extent[i], shape[i])) {
            continue;
        }
        char text[256];
        error_set(err, PAWL_EUSAGE, "the box sticks out of its tensor in dimension %d", i);
        error_expected(err, "a box inside the shape %s",
                       shape_text(text, sizeof(text), ndim, shape));
        error_found(err, "%s", box_text(text, sizeof(text), b));
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

uint64_t box_elements(const box *b) {
    return shape_elements(b->ndim, b->extent);
}

bool box_equal(const box *a, const box *b) {
    return shape_equal(a->ndim, a->offset, b->ndim, b->offset) &&
           shape_equal(a->ndim, a->extent, b->ndim, b->extent);
}

bool box_contains(const box *outer, const box *inner) {
    if (box_elements(inner) == 0) {
        return true;
    }
    assert(outer->ndim == inner->ndim);
    for (int i = 0; i < outer->ndim; i++) {
        if (inner->offset[i] < outer->offset[i] ||
            inner->offset[i] + inner->extent[i] > outer->offset[i] + outer->extent[i]) {
            return false;
        }
    }
    return true;
}

bool box_intersect(const box *a, const box *b, box *out) {
    assert(a->ndim == b->ndim);
    out->ndim = a->ndim;
    for (int i = 0; i < a->ndim; i++) {
        int64_t a_end = a->offset[i] + a->extent[i];
        int64_t b_end = b->offset[i] + b->extent[i];
        int64_t begin = a->offset[i] > b->offset[i] ? a->offset[i] : b->offset[i];
        int64_t end = a_end < b_end ? a_end : b_end;
        if (begin >= end) {
            return false;
        }
        out->offset[i] = begin;
        out->extent[i] = end - begin;
    }
    return true;
}

/* ---- disjoint boxes ------------------------------------------------------------------------- */

static bool share_elements(const box *boxes, size_t i, size_t j, size_t *first, size_t *second) {
    box shared;
    if (!box_intersect(&boxes[i], &boxes[j], &shared)) {
        return false;
    }
    *first = i < j ? i : j;
    *second = i < j ? j : i;
    return true;
}

static bool each_pair_disjoint(const box *boxes, size_t n, size_t *first, size_t *second) {
    for (size_t i = 0; i < n; i++) {
        for (size_t j = i + 1; j < n; j++) {
            if (share_elements(boxes, i, j, first, second)) {
                return false;
            }
        }
    }
    return true;
}

/* The boxes that are not empty, ascending by where they begin along one dimension. */
typedef struct sweep {
    const box *boxes;
    int dimension;
    size_t *order, count;
} sweep;

static int64_t begin_of(const sweep *s, size_t place) {
    return s->boxes[s->order[place]].offset[s->dimension];
}

static int64_t end_of(const sweep *s, size_t place) {
    return begin_of(s, place) + s->boxes[s->order[place]].extent[s->dimension];
}

static int by_begin(const void *a, const void *b, void *context) {
    const sweep *s = context;
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    int64_t x = s->boxes[left].offset[s->dimension], y = s->boxes[right].offset[s->dimension];
    int order = (x > y) - (x < y);
    return order != 0 ? order : (left > right) - (left < right);
}

static void sweep_along(sweep *s, int dimension) {
    s->dimension = dimension;
    qsort_r(s->order, s->count, sizeof *s->order, by_begin, s);
}

/* Pairs that meet along the dimension, each of which would be compared. */
static uint64_t count_meeting(const sweep *s) {
    uint64_t pairs = 0;
    for (size_t i = 0; i < s->count; i++) {
        size_t low = i + 1, high = s->count; /* the first that begins where this one has ended */
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            if (begin_of(s, middle) < end_of(s, i)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        pairs += low - i - 1;
    }
    return pairs;
}

/* Along the dimension that separates them best, so that grids, rows and columns take few
 * comparisons; only boxes that overlap along every dimension take all. */
static bool sweep_disjoint(sweep *s, int ndim, size_t *first, size_t *second) {
    int best = 0;
    uint64_t fewest = UINT64_MAX;
    for (int d = 0; d < ndim && fewest > s->count; d++) {
        sweep_along(s, d);
        uint64_t pairs = count_meeting(s);
        best = pairs < fewest ? d : best;
        fewest = pairs < fewest ? pairs : fewest;
    }
    sweep_along(s, best);
    for (size_t i = 0; i < s->count; i++) {
        for (size_t j = i + 1; j < s->count && begin_of(s, j) < end_of(s, i); j++) {
            if (share_elements(s->boxes, s->order[i], s->order[j], first, second)) {
                return false;
            }
        }
    }
    return true;
}

bool boxes_disjoint(const box *boxes, size_t n, size_t *first, size_t *second) {
    enum { FEW = 16 };
    AUTOFREE size_t *order = n > FEW && boxes[0].ndim > 0 ? mem_alloc(n * sizeof *order) : NULL;
    if (order == NULL) {
        return each_pair_disjoint(boxes, n, first, second);
    }
    sweep s = {.boxes = boxes, .order = order};
    for (size_t i = 0; i < n; i++) {
        if (box_elements(&boxes[i]) > 0) {
            order[s.count++] = i;
        }
    }
    return sweep_disjoint(&s, boxes[0].ndim, first, second);
}

/* ---- together ------------------------------------------------------------------------------- */

bool boxes_cover(const box *boxes, size_t n, int ndim, const int64_t *shape) {
    uint64_t covered = 0;
    for (size_t i = 0; i < n; i++) {
        covered += box_elements(&boxes[i]);
    }
    return covered == shape_elements(ndim, shape);
}

const char *box_text(char *out, size_t size, const box *b) {
    char text[PAWL_MAX_NDIM * 48 + 4];
    size_t at = 0;
    text[at++] = '[';
    for (int i = 0; i < b->ndim && i < PAWL_MAX_NDIM; i++) {
        /* A box that box_check refuses may end beyond int64_t. */
        int64_t end;
        if (__builtin_add_overflow(b->offset[i], b->extent[i], &end)) {
            end = b->extent[i] < 0 ? INT64_MIN : INT64_MAX;
        }
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%" PRId64 ":%" PRId64,
                               i > 0 ? ", " : "", b->offset[i], end);
    }
    snprintf(text + at, sizeof(text) - at, "]");
    if (size > 0 && (size_t)snprintf(out, size, "%s", text) >= size) {
        text_cut(out, size);
    }
    return out;
}

box_runs box_runs_of(const box *inner, const box *outer) {
    assert(box_contains(outer, inner));
    box_runs r = {.inner = *inner, .outer = *outer, .split = inner->ndim, .run = 1, .left = 1};
    if (box_elements(inner) == 0) {
        r.left = 0;
        return r;
    }
    /* A run goes on into an earlier dimension only where all later ones are whole. */
    bool whole = true;
    for (int i = inner->ndim - 1; i >= 0; i--) {
        if (whole) {
            r.split = i;
            r.run *= (uint64_t)inner->extent[i];
        } else {
            r.left *= (uint64_t)inner->extent[i];
        }
        whole = whole && inner->extent[i] == outer->extent[i];
    }
    return r;
}

bool box_runs_next(box_runs *r, uint64_t *first, uint64_t *count) {
    if (r->left == 0) {
        return false;
    }
    uint64_t linear = 0;
    for (int i = 0; i < r->inner.ndim; i++) {
        int64_t within = r->inner.offset[i] - r->outer.offset[i] + r->index[i];
        linear = linear * (uint64_t)r->outer.extent[i] + (uint64_t)within;
    }
    *first = linear;
    *count = r->run;
    r->left--;
    for (int i = r->split - 1; i >= 0; i--) {
        if (++r->index[i] < r->inner.extent[i]) {
            break;
        }
        r->index[i] = 0;
    }
    return true;
}
