/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes that cover a shape, or not: by hand, and against a count of every element. */
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "plan/plan.h"
#include "unit/match/fixture.h"

#include <stdio.h>

#define MAX_ELEMENTS 4096

static box box2(int64_t row, int64_t column, int64_t rows, int64_t columns) {
    return box_of(2, (const int64_t[]){row, column}, (const int64_t[]){rows, columns});
}

static plan_fault cover(int ndim, const int64_t *shape, const box *boxes, size_t n) {
    plan_fault fault;
    struct pawl_error err = ERROR_INIT;
    assert_ok(plan_cover(ndim, shape, boxes, n, &fault, &err), &err);
    return fault;
}

static void assert_hole(const plan_fault *fault, const char *where) {
    char text[256];
    assert_true(fault->hole && !fault->overlap);
    assert_string_equal(box_text(text, sizeof(text), &fault->where), where);
}

static void assert_overlap(const plan_fault *fault, size_t first, size_t second,
                           const char *where) {
    char text[256];
    assert_true(fault->overlap && !fault->hole);
    assert_int_equal(fault->first, first);
    assert_int_equal(fault->second, second);
    assert_string_equal(box_text(text, sizeof(text), &fault->where), where);
}

static void assert_covered(const plan_fault *fault) {
    assert_false(fault->hole || fault->overlap);
}

/* ---- by hand -------------------------------------------------------------------------------- */

static void test_one_box_covers_its_shape(void **context) {
    (void)context;
    const box whole = box2(0, 0, 4, 6);
    plan_fault fault = cover(SHAPE(4, 6), &whole, 1);
    assert_covered(&fault);
}

static void test_nobody_is_a_hole_of_everything(void **context) {
    (void)context;
    plan_fault fault = cover(SHAPE(4, 6), NULL, 0);
    assert_hole(&fault, "[0:4, 0:6]");
}

static void test_a_scalar_is_covered_once(void **context) {
    (void)context;
    const box twice[] = {box_of(0, NULL, NULL), box_of(0, NULL, NULL)};
    plan_fault fault = cover(0, NULL, twice, 1);
    assert_covered(&fault);
    fault = cover(0, NULL, twice, 2);
    assert_overlap(&fault, 0, 1, "[]");
    fault = cover(0, NULL, NULL, 0);
    assert_hole(&fault, "[]");
}

static void test_an_empty_shape_needs_no_box(void **context) {
    (void)context;
    const box empty[] = {box2(0, 0, 0, 6), box2(0, 0, 0, 6)};
    plan_fault fault = cover(SHAPE(0, 6), empty, 2);
    assert_covered(&fault);
}

static void test_empty_boxes_do_not_count(void **context) {
    (void)context;
    const box boxes[] = {box2(2, 1, 0, 3), box2(0, 0, 4, 6), box2(0, 3, 2, 0)};
    plan_fault fault = cover(SHAPE(4, 6), boxes, 3);
    assert_covered(&fault);
}

static void test_a_missing_row_is_a_hole(void **context) {
    (void)context;
    const box boxes[] = {box2(3, 0, 1, 6), box2(0, 0, 2, 6)};
    plan_fault fault = cover(SHAPE(4, 6), boxes, 2);
    assert_hole(&fault, "[2:3, 0:6]");
}

static void test_the_last_columns_missing_in_one_row_are_a_hole(void **context) {
    (void)context;
    const box boxes[] = {box2(0, 0, 2, 6), box2(2, 0, 2, 5)};
    plan_fault fault = cover(SHAPE(4, 6), boxes, 2);
    assert_hole(&fault, "[2:4, 5:6]");
}

static void test_the_same_box_twice_overlaps(void **context) {
    (void)context;
    const box boxes[] = {box2(0, 0, 2, 6), box2(2, 0, 2, 6), box2(0, 0, 2, 6)};
    plan_fault fault = cover(SHAPE(4, 6), boxes, 3);
    assert_overlap(&fault, 0, 2, "[0:2, 0:6]");
}

static void test_a_row_that_two_have_overlaps(void **context) {
    (void)context;
    const box boxes[] = {box2(1, 0, 3, 6), box2(0, 0, 2, 6)};
    plan_fault fault = cover(SHAPE(4, 6), boxes, 2);
    assert_overlap(&fault, 0, 1, "[1:2, 0:6]");
}

/* As many elements as there are, but not the same ones. */
static void test_hole_and_overlap_of_one_size_are_seen(void **context) {
    (void)context;
    const box boxes[] = {box2(0, 0, 2, 6), box2(1, 0, 2, 6)};
    plan_fault fault = cover(SHAPE(4, 6), boxes, 2);
    assert_true(fault.hole || fault.overlap);
}

/* No straight line separates them. */
static void test_boxes_that_interlock_are_covered(void **context) {
    (void)context;
    const box boxes[] = {box2(0, 0, 1, 2), box2(0, 2, 2, 1), box2(2, 1, 1, 2), box2(1, 0, 2, 1),
                         box2(1, 1, 1, 1)};
    plan_fault fault = cover(SHAPE(3, 3), boxes, 5);
    assert_covered(&fault);
    fault = cover(SHAPE(3, 3), boxes, 4);
    assert_hole(&fault, "[1:2, 1:2]");
}

static void test_an_overlap_among_boxes_that_interlock_is_found(void **context) {
    (void)context;
    const box boxes[] = {box2(0, 0, 1, 2), box2(0, 2, 2, 1), box2(2, 1, 1, 2), box2(1, 0, 2, 2)};
    plan_fault fault = cover(SHAPE(3, 3), boxes, 4);
    assert_overlap(&fault, 2, 3, "[2:3, 1:2]");
}

/* ---- against a count ------------------------------------------------------------------------ */

static void count_box(const box *b, const int64_t *shape, uint8_t *counts) {
    box whole = box_whole(b->ndim, shape);
    box_runs runs = box_runs_of(b, &whole);
    uint64_t first = 0;
    uint64_t n = 0;
    while (box_runs_next(&runs, &first, &n)) {
        for (uint64_t i = 0; i < n; i++) {
            counts[first + i]++;
        }
    }
}

/* Cuts one of the boxes in two, so that they still cover. */
static size_t cut_random_box(test_random *r, box *boxes, size_t n) {
    size_t i = (size_t)random_below(r, n);
    int d = (int)random_below(r, (uint64_t)boxes[i].ndim);
    if (boxes[i].extent[d] < 2) {
        return n;
    }
    int64_t left = random_between(r, 1, boxes[i].extent[d] - 1);
    boxes[n] = boxes[i];
    boxes[n].offset[d] += left;
    boxes[n].extent[d] -= left;
    boxes[i].extent[d] = left;
    return n + 1;
}

/* Moves an edge of one box: a hole, an overlap, both or neither. */
static void shift_random_box(test_random *r, box *b, const int64_t *shape) {
    int d = (int)random_below(r, (uint64_t)b->ndim);
    int64_t end = b->offset[d] + b->extent[d];
    if (random_below(r, 2) == 0) {
        b->offset[d] = random_between(r, 0, end);
        b->extent[d] = end - b->offset[d];
    } else {
        b->extent[d] = random_between(r, 0, shape[d] - b->offset[d]);
    }
}

static void assert_where(const plan_fault *fault, const box *boxes, const int64_t *shape,
                         const uint8_t *counts) {
    uint8_t where[MAX_ELEMENTS] = {0};
    box both;
    assert_true(box_elements(&fault->where) > 0);
    count_box(&fault->where, shape, where);
    for (size_t i = 0; i < MAX_ELEMENTS; i++) {
        if (where[i] > 0) {
            assert_true(fault->hole ? counts[i] == 0 : counts[i] > 1);
        }
    }
    if (fault->overlap) {
        assert_true(fault->first < fault->second);
        assert_true(box_intersect(&boxes[fault->first], &boxes[fault->second], &both));
        assert_true(box_equal(&both, &fault->where));
    }
}

/* Seed 1: random partitions of small shapes, most of them spoiled by one to three moved edges. */
static void test_random_boxes_are_as_a_count_says(void **context) {
    (void)context;
    test_random r = {.state = 1};
    int faults = 0;
    for (int i = 0; i < 20000; i++) {
        int64_t shape[3];
        int ndim = (int)random_between(&r, 1, 3);
        for (int d = 0; d < ndim; d++) {
            shape[d] = random_between(&r, 1, 10);
        }
        box boxes[64] = {box_whole(ndim, shape)};
        size_t n = 1;
        for (uint64_t cuts = random_below(&r, 40); cuts > 0; cuts--) {
            n = cut_random_box(&r, boxes, n);
        }
        for (uint64_t moved = random_below(&r, 4); moved > 0; moved--) {
            shift_random_box(&r, &boxes[random_below(&r, n)], shape);
        }
        uint8_t counts[MAX_ELEMENTS] = {0};
        bool wrong = false;
        for (size_t k = 0; k < n; k++) {
            count_box(&boxes[k], shape, counts);
        }
        for (uint64_t k = 0; k < shape_elements(ndim, shape); k++) {
            wrong = wrong || counts[k] != 1;
        }
        plan_fault fault = cover(ndim, shape, boxes, n);
        assert_int_equal(fault.hole || fault.overlap, wrong);
        if (wrong) {
            faults++;
            assert_where(&fault, boxes, shape, counts);
        }
    }
    assert_true(faults > 5000 && faults < 18000);
}

/* ---- many ----------------------------------------------------------------------------------- */

static void shuffle(test_random *r, box *boxes, size_t n) {
    for (size_t i = n; i > 1; i--) {
        size_t k = (size_t)random_below(r, i);
        box other = boxes[i - 1];
        boxes[i - 1] = boxes[k];
        boxes[k] = other;
    }
}

/* Covers; not without the last box; not when the last is there twice. */
static void assert_sorted_out(box *boxes, size_t n, int ndim, const int64_t *shape) {
    test_random r = {.state = 1};
    shuffle(&r, boxes, n);
    plan_fault fault = cover(ndim, shape, boxes, n);
    assert_covered(&fault);
    fault = cover(ndim, shape, boxes, n - 1);
    assert_true(fault.hole && box_equal(&fault.where, &boxes[n - 1]));
    boxes[n - 2] = boxes[n - 1];
    fault = cover(ndim, shape, boxes, n);
    assert_true(fault.hole || (fault.overlap && fault.first == n - 2 && fault.second == n - 1));
}

static void test_a_grid_of_4096_boxes_is_sorted_out(void **context) {
    (void)context;
    box *boxes = mem_calloc(4096, sizeof(*boxes));
    assert_non_null(boxes);
    for (int i = 0; i < 4096; i++) {
        boxes[i] = box2(i / 64 * 10, i % 64 * 7, 10, 7);
    }
    assert_sorted_out(boxes, 4096, SHAPE(640, 448));
    mem_free(boxes);
}

static void test_100000_rows_are_sorted_out(void **context) {
    (void)context;
    box *boxes = mem_calloc(100000, sizeof(*boxes));
    assert_non_null(boxes);
    for (int i = 0; i < 100000; i++) {
        boxes[i] = box2(i * 3, 0, 3, 1000);
    }
    assert_sorted_out(boxes, 100000, SHAPE(300000, 1000));
    mem_free(boxes);
}

static void test_a_grid_of_three_dimensions_is_sorted_out(void **context) {
    (void)context;
    const size_t n = 40;
    box *boxes = mem_calloc(n * n * n, sizeof(*boxes));
    assert_non_null(boxes);
    for (size_t i = 0; i < n * n * n; i++) {
        const int64_t offset[] = {(int64_t)(i / n / n), (int64_t)(i / n % n), (int64_t)(i % n)};
        boxes[i] = box_of(3, offset, (const int64_t[]){1, 1, 1});
    }
    assert_sorted_out(boxes, n * n * n, SHAPE(40, 40, 40));
    mem_free(boxes);
}

/* Hostile: a row, a column, a row, ... each along all that comes after it. */
static void test_boxes_in_too_many_ways_are_refused(void **context) {
    (void)context;
    const int64_t n = 20000;
    box *boxes = mem_calloc((size_t)(2 * n), sizeof(*boxes));
    struct pawl_error err = ERROR_INIT;
    plan_fault fault;
    assert_non_null(boxes);
    for (int64_t i = 0; i < n; i++) {
        boxes[2 * i] = box2(i, i, 1, n - i);
        boxes[2 * i + 1] = box2(i + 1, i, n - 1 - i, 1);
    }
    pawl_status status = plan_cover(SHAPE(n, n), boxes, (size_t)(2 * n), &fault, &err);
    assert_int_equal(status, PAWL_ELIMIT);
    assert_status_text(&err, PAWL_ELIMIT,
                       "the boxes interlock or overlap in too many ways to be sorted out");
    mem_free(boxes);
}

/* ---- memory --------------------------------------------------------------------------------- */

static pawl_status cover_some(void *context, pawl_error *err) {
    (void)context;
    const box boxes[] = {box2(0, 0, 1, 2), box2(0, 2, 2, 1), box2(2, 1, 1, 2), box2(1, 0, 2, 1),
                         box2(0, 3, 3, 1)};
    plan_fault fault;
    return plan_cover(SHAPE(3, 4), boxes, 5, &fault, err);
}

static void test_cover_without_memory_leaks_nothing(void **context) {
    (void)context;
    assert_true(failing_memory_each(cover_some, NULL) >= 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_box_covers_its_shape),
        cmocka_unit_test(test_nobody_is_a_hole_of_everything),
        cmocka_unit_test(test_a_scalar_is_covered_once),
        cmocka_unit_test(test_an_empty_shape_needs_no_box),
        cmocka_unit_test(test_empty_boxes_do_not_count),
        cmocka_unit_test(test_a_missing_row_is_a_hole),
        cmocka_unit_test(test_the_last_columns_missing_in_one_row_are_a_hole),
        cmocka_unit_test(test_the_same_box_twice_overlaps),
        cmocka_unit_test(test_a_row_that_two_have_overlaps),
        cmocka_unit_test(test_hole_and_overlap_of_one_size_are_seen),
        cmocka_unit_test(test_boxes_that_interlock_are_covered),
        cmocka_unit_test(test_an_overlap_among_boxes_that_interlock_is_found),
        cmocka_unit_test(test_random_boxes_are_as_a_count_says),
        cmocka_unit_test(test_a_grid_of_4096_boxes_is_sorted_out),
        cmocka_unit_test(test_100000_rows_are_sorted_out),
        cmocka_unit_test(test_a_grid_of_three_dimensions_is_sorted_out),
        cmocka_unit_test(test_boxes_in_too_many_ways_are_refused),
        cmocka_unit_test(test_cover_without_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
