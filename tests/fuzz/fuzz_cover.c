/* SPDX-License-Identifier: Apache-2.0 */
/* Any boxes inside a small shape: the verdict is that of counting each element. */
#include "grid.h"

#include "plan/plan.h"

#define MOST_BOXES 24

/* Boxes that cut the last one in two: what is cut again and again covers the shape, mostly. */
static box cut(box *whole, fuzz_bytes *in) {
    box rest = *whole;
    int d = (int)fuzz_below(in, (unsigned)whole->ndim);
    int64_t at = (int64_t)fuzz_below(in, (unsigned)whole->extent[d] + 1);
    whole->extent[d] = at;
    rest.offset[d] += at;
    rest.extent[d] -= at;
    return rest;
}

static size_t take_boxes(const grid *g, fuzz_bytes *in, box *boxes) {
    size_t n = 0;
    bool cuts = fuzz_below(in, 2) == 0;
    if (cuts) {
        boxes[n++] = box_whole(g->ndim, g->shape);
    }
    while (n < MOST_BOXES && !fuzz_done(in)) {
        if (cuts && g->ndim > 0 && fuzz_below(in, 16) != 0) {
            size_t which = fuzz_below(in, (unsigned)n);
            boxes[n] = cut(&boxes[which], in);
            n++;
        } else {
            boxes[n++] = grid_take_box(g, in);
        }
    }
    return n;
}

static void check_fault(const grid *g, const box *boxes, size_t n, const plan_fault *f) {
    box common;
    FUZZ_CHECK(f->hole != f->overlap && box_elements(&f->where) > 0);
    FUZZ_CHECK(box_inside(g->ndim, f->where.offset, f->where.extent, g->shape));
    if (f->overlap) {
        FUZZ_CHECK(f->first < f->second && f->second < n);
        FUZZ_CHECK(box_intersect(&boxes[f->first], &boxes[f->second], &common));
        FUZZ_CHECK(box_equal(&common, &f->where));
        return;
    }
    for (int64_t i = 0; i < grid_elements(g); i++) {
        FUZZ_CHECK(!grid_holds(g, &f->where, i) || g->counts[i] == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_bytes in = {.data = data, .size = size};
    box boxes[MOST_BOXES];
    pawl_error err = ERROR_INIT;
    plan_fault fault;
    bool hole, overlap;
    grid g;
    grid_take(&g, &in, 5);
    size_t n = take_boxes(&g, &in, boxes);
    for (size_t i = 0; i < n; i++) {
        grid_add(&g, &boxes[i]);
    }
    FUZZ_CHECK(plan_cover(g.ndim, g.shape, boxes, n, &fault, &err) == PAWL_OK);
    bool whole = grid_whole(&g, &hole, &overlap);
    FUZZ_CHECK(whole == (!fault.hole && !fault.overlap));
    if (!whole) {
        FUZZ_CHECK(fault.hole ? hole : overlap);
        check_fault(&g, boxes, n, &fault);
    }
    fuzz_accepted += whole;
    return 0;
}
