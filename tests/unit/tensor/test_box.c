/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes against a model that marks every element. */
#include "lib/random.h"
#include "lib/test.h"
#include "tensor/tensor.h"

#include <string.h>

#define MOST_DIMS   4
#define MOST_EXTENT 5
#define MOST_CELLS  (MOST_EXTENT * MOST_EXTENT * MOST_EXTENT * MOST_EXTENT)
#define ROUNDS      5000

/* ---- the model: one mark per element of a shape --------------------------------------------- */

typedef struct model {
    int ndim;
    int64_t shape[MOST_DIMS];
    int64_t cells;
    uint8_t mark[MOST_CELLS];
} model;

static model model_random(test_random *r, int64_t least_extent) {
    model m = {.ndim = (int)random_below(r, MOST_DIMS + 1), .cells = 1};
    for (int i = 0; i < m.ndim; i++) {
        m.shape[i] = random_between(r, least_extent, MOST_EXTENT);
        m.cells *= m.shape[i];
    }
    return m;
}

static void index_of(const model *m, int64_t cell, int64_t *index) {
    for (int i = m->ndim - 1; i >= 0; i--) {
        index[i] = cell % m->shape[i];
        cell /= m->shape[i];
    }
}

static bool holds(const box *b, const int64_t *index) {
    for (int i = 0; i < b->ndim; i++) {
        if (index[i] < b->offset[i] || index[i] >= b->offset[i] + b->extent[i]) {
            return false;
        }
    }
    return true;
}

/* Adds `bit` to the mark of every element of the box. */
static void mark_box(model *m, const box *b, uint8_t bit) {
    for (int64_t cell = 0; cell < m->cells; cell++) {
        int64_t index[MOST_DIMS];
        index_of(m, cell, index);
        if (holds(b, index)) {
            m->mark[cell] |= bit;
        }
    }
}

static int64_t count_marks(const model *m, uint8_t mark) {
    int64_t count = 0;
    for (int64_t cell = 0; cell < m->cells; cell++) {
        count += m->mark[cell] == mark ? 1 : 0;
    }
    return count;
}

static box random_box(test_random *r, const box *within, int64_t least_extent) {
    box b = {.ndim = within->ndim};
    for (int i = 0; i < b.ndim; i++) {
        b.extent[i] = random_between(r, least_extent, within->extent[i]);
        b.offset[i] = within->offset[i] + random_between(r, 0, within->extent[i] - b.extent[i]);
    }
    return b;
}

/* ---- properties ----------------------------------------------------------------------------- */

static void test_intersection_is_what_both_hold(void **state) {
    (void)state;
    test_random r = {30};
    for (int round = 0; round < ROUNDS; round++) {
        model m = model_random(&r, 1);
        box whole = box_whole(m.ndim, m.shape);
        box a = random_box(&r, &whole, 0);
        box b = random_box(&r, &whole, 0);
        mark_box(&m, &a, 1);
        mark_box(&m, &b, 2);
        int64_t shared = count_marks(&m, 3);
        box both;
        assert_int_equal(box_intersect(&a, &b, &both), shared > 0);
        if (shared > 0) {
            assert_int_equal(box_elements(&both), shared);
            mark_box(&m, &both, 4);
            assert_int_equal(count_marks(&m, 7), shared);
        }
    }
}

static void test_containment_is_that_nothing_lies_outside(void **state) {
    (void)state;
    test_random r = {31};
    int contained = 0;
    for (int round = 0; round < ROUNDS; round++) {
        model m = model_random(&r, 1);
        box whole = box_whole(m.ndim, m.shape);
        box outer = random_box(&r, &whole, 0);
        box inner = random_box(&r, round % 2 == 0 ? &whole : &outer, 0);
        mark_box(&m, &outer, 1);
        mark_box(&m, &inner, 2);
        bool wanted = count_marks(&m, 2) == 0;
        assert_int_equal(box_contains(&outer, &inner), wanted);
        contained += wanted ? 1 : 0;
    }
    assert_in_range(contained, ROUNDS / 2, ROUNDS - 100);
}

static void test_boxes_are_disjoint_when_no_element_is_in_two(void **state) {
    (void)state;
    test_random r = {32};
    int disjoint = 0;
    for (int round = 0; round < ROUNDS; round++) {
        model m = model_random(&r, 2);
        box whole = box_whole(m.ndim, m.shape);
        box boxes[4];
        size_t n = random_below(&r, 5);
        bool wanted = true;
        size_t first = 99;
        size_t second = 99;
        for (size_t i = 0; i < n; i++) {
            boxes[i] = random_box(&r, &whole, 0);
            for (int d = 0; d < m.ndim; d++) {
                boxes[i].extent[d] = boxes[i].extent[d] > 2 ? 2 : boxes[i].extent[d];
            }
            model once = m;
            mark_box(&once, &boxes[i], 1);
            for (size_t j = 0; j < i; j++) {
                model two = once;
                mark_box(&two, &boxes[j], 2);
                wanted = wanted && count_marks(&two, 3) == 0;
            }
        }
        assert_int_equal(boxes_disjoint(boxes, n, &first, &second), wanted);
        disjoint += wanted ? 1 : 0;
        if (!wanted) {
            box shared;
            assert_true(first < second && second < n);
            assert_true(box_intersect(&boxes[first], &boxes[second], &shared));
        }
    }
    assert_in_range(disjoint, ROUNDS / 5, ROUNDS - ROUNDS / 5);
}

/* The brute-force answer. */
static bool any_pair_shares(const box *boxes, size_t n) {
    box shared;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (box_intersect(&boxes[i], &boxes[j], &shared)) {
                return true;
            }
        }
    }
    return false;
}

static size_t random_cut(test_random *r, box whole, box *pieces, size_t most);

/* Many boxes are sorted before they are compared. */
static void test_many_boxes_are_disjoint_as_few_are(void **state) {
    (void)state;
    enum { MOST = 200 };
    static box boxes[MOST];
    test_random r = {35};
    int disjoint = 0;
    for (int round = 0; round < 500; round++) {
        int64_t shape[] = {random_between(&r, 0, 40), random_between(&r, 1, 40),
                           random_between(&r, 1, 9)};
        box whole = box_whole((int)random_between(&r, 0, 3), shape);
        size_t n = random_cut(&r, whole, boxes, 17 + random_below(&r, MOST - 16));
        size_t first = 99;
        size_t second = 99;
        if (n > 1 && random_below(&r, 2) == 0) { /* one reaches further than it should */
            box *grown = &boxes[random_below(&r, n)];
            int d = (int)random_below(&r, (uint64_t)whole.ndim);
            int64_t room = whole.extent[d] - grown->offset[d];
            grown->extent[d] += grown->extent[d] < room;
        }
        bool wanted = !any_pair_shares(boxes, n);
        assert_int_equal(boxes_disjoint(boxes, n, &first, &second), wanted);
        disjoint += wanted;
        if (!wanted) {
            box shared;
            assert_true(first < second && second < n);
            assert_true(box_intersect(&boxes[first], &boxes[second], &shared));
        }
    }
    assert_in_range(disjoint, 100, 450);
}

/* Cuts a box in two again and again. */
static size_t random_cut(test_random *r, box whole, box *pieces, size_t most) {
    size_t n = 1;
    pieces[0] = whole;
    while (n < most && whole.ndim > 0) {
        box *piece = &pieces[random_below(r, n)];
        int d = (int)random_below(r, (uint64_t)whole.ndim);
        int64_t at = random_between(r, 0, piece->extent[d]);
        pieces[n] = *piece;
        piece->extent[d] = at;
        pieces[n].offset[d] += at;
        pieces[n].extent[d] -= at;
        n++;
    }
    return n;
}

static void test_pieces_of_a_shape_are_disjoint_and_cover_it(void **state) {
    (void)state;
    test_random r = {33};
    for (int round = 0; round < ROUNDS; round++) {
        model m = model_random(&r, 0);
        box pieces[6];
        size_t n = random_cut(&r, box_whole(m.ndim, m.shape), pieces, 6);
        size_t first;
        size_t second;
        assert_true(boxes_disjoint(pieces, n, &first, &second));
        assert_true(boxes_cover(pieces, n, m.ndim, m.shape));
        size_t left_out = random_below(&r, n);
        bool empty = box_elements(&pieces[left_out]) == 0;
        pieces[left_out] = pieces[n - 1];
        assert_int_equal(boxes_cover(pieces, n - 1, m.ndim, m.shape), empty);
    }
}

/* Runs mark elements of inner, ascending, apart from the one before, in the end all of them. */
static void check_runs(const model *m, const box *inner, const box *outer) {
    model within = {.ndim = m->ndim, .cells = (int64_t)box_elements(outer)};
    box shifted = *inner;
    for (int i = 0; i < m->ndim; i++) {
        within.shape[i] = outer->extent[i];
        shifted.offset[i] -= outer->offset[i];
    }
    mark_box(&within, &shifted, 1);
    box_runs runs = box_runs_of(inner, outer);
    uint64_t first;
    uint64_t count;
    uint64_t after = 0;
    bool any = false;
    while (box_runs_next(&runs, &first, &count)) {
        assert_true(count > 0);
        assert_true(!any || first > after);
        for (uint64_t i = first; i < first + count; i++) {
            assert_int_equal(within.mark[i], 1);
            within.mark[i] = 2;
        }
        after = first + count;
        any = true;
    }
    assert_int_equal(count_marks(&within, 1), 0);
    assert_false(box_runs_next(&runs, &first, &count));
}

static void test_runs_are_exactly_the_elements_ascending_and_maximal(void **state) {
    (void)state;
    test_random r = {34};
    for (int round = 0; round < ROUNDS; round++) {
        model m = model_random(&r, 0);
        box whole = box_whole(m.ndim, m.shape);
        box outer = random_box(&r, &whole, 0);
        box inner = random_box(&r, &outer, 0);
        check_runs(&m, &inner, &outer);
        check_runs(&m, &outer, &outer);
    }
}

/* ---- single cases --------------------------------------------------------------------------- */

static void test_scalar_is_one_run_of_one(void **state) {
    (void)state;
    box scalar = box_whole(0, NULL);
    box_runs runs = box_runs_of(&scalar, &scalar);
    uint64_t first = 99;
    uint64_t count = 99;
    assert_true(box_runs_next(&runs, &first, &count));
    assert_int_equal(first, 0);
    assert_int_equal(count, 1);
    assert_false(box_runs_next(&runs, &first, &count));
}

static void test_whole_rows_are_one_run(void **state) {
    (void)state;
    box outer = box_whole(3, (int64_t[]){8, 4, 6});
    box rows = box_of(3, (int64_t[]){2, 0, 0}, (int64_t[]){3, 4, 6});
    box_runs runs = box_runs_of(&rows, &outer);
    uint64_t first;
    uint64_t count;
    assert_true(box_runs_next(&runs, &first, &count));
    assert_int_equal(first, 48);
    assert_int_equal(count, 72);
    assert_false(box_runs_next(&runs, &first, &count));
}

static void test_equal_boxes_agree_in_all(void **state) {
    (void)state;
    box a = box_of(2, (int64_t[]){1, 2}, (int64_t[]){3, 4});
    box b = a;
    assert_true(box_equal(&a, &b));
    b.extent[1] = 5;
    assert_false(box_equal(&a, &b));
    b = a;
    b.offset[0] = 0;
    assert_false(box_equal(&a, &b));
    b = a;
    b.ndim = 1;
    assert_false(box_equal(&a, &b));
}

static void test_box_inside_its_shape_passes(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    int64_t shape[] = {64, 0};
    box b = box_of(2, (int64_t[]){64, 0}, (int64_t[]){0, 0});
    assert_ok(box_check(&b, 2, shape, &err), &err);
    b = box_of(2, (int64_t[]){0, 0}, (int64_t[]){64, 0});
    assert_ok(box_check(&b, 2, shape, &err), &err);
    b = box_whole(0, NULL);
    assert_ok(box_check(&b, 0, NULL, &err), &err);
}

static void test_box_that_sticks_out_is_refused(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    int64_t shape[] = {64, 256};
    box b = box_of(2, (int64_t[]){0, 128}, (int64_t[]){64, 129});
    assert_fails(box_check(&b, 2, shape, &err), PAWL_EUSAGE, &err);
    assert_status_text(&err, PAWL_EUSAGE,
                       "the box sticks out of its tensor in dimension 1\n"
                       "  expected: a box inside the shape [64, 256]\n"
                       "  found:    [0:64, 128:257]");
}

static void test_box_of_extreme_numbers_is_refused_without_overflow(void **state) {
    (void)state;
    static const int64_t numbers[] = {-1, INT64_MAX, INT64_MIN, INT64_MAX - 1};
    struct pawl_error err = ERROR_INIT;
    int64_t shape[] = {10};
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        for (size_t j = 0; j < ARRAY_LENGTH(numbers); j++) {
            box b = box_of(1, &numbers[i], &numbers[j]);
            assert_fails(box_check(&b, 1, shape, &err), PAWL_EUSAGE, &err);
        }
        box small_extent = box_of(1, &numbers[i], (int64_t[]){1});
        assert_fails(box_check(&small_extent, 1, shape, &err), PAWL_EUSAGE, &err);
        box small_offset = box_of(1, (int64_t[]){1}, &numbers[i]);
        assert_fails(box_check(&small_offset, 1, shape, &err), PAWL_EUSAGE, &err);
    }
}

static void test_box_of_another_rank_is_refused(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    box b = box_whole(1, (int64_t[]){4});
    assert_fails(box_check(&b, 2, (int64_t[]){4, 4}, &err), PAWL_EUSAGE, &err);
    assert_status_text(&err, PAWL_EUSAGE,
                       "the box has another number of dimensions than its tensor\n"
                       "  expected: 2\n  found:    1");
}

static void test_box_reads_as_ranges(void **state) {
    (void)state;
    char out[32];
    box b = box_of(2, (int64_t[]){0, 128}, (int64_t[]){64, 128});
    assert_string_equal(box_text(out, sizeof(out), &b), "[0:64, 128:256]");
    assert_string_equal(box_text(out, 12, &b), "[0:64, 1...");
    b = box_whole(0, NULL);
    assert_string_equal(box_text(out, sizeof(out), &b), "[]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intersection_is_what_both_hold),
        cmocka_unit_test(test_containment_is_that_nothing_lies_outside),
        cmocka_unit_test(test_boxes_are_disjoint_when_no_element_is_in_two),
        cmocka_unit_test(test_many_boxes_are_disjoint_as_few_are),
        cmocka_unit_test(test_pieces_of_a_shape_are_disjoint_and_cover_it),
        cmocka_unit_test(test_runs_are_exactly_the_elements_ascending_and_maximal),
        cmocka_unit_test(test_scalar_is_one_run_of_one),
        cmocka_unit_test(test_whole_rows_are_one_run),
        cmocka_unit_test(test_equal_boxes_agree_in_all),
        cmocka_unit_test(test_box_inside_its_shape_passes),
        cmocka_unit_test(test_box_that_sticks_out_is_refused),
        cmocka_unit_test(test_box_of_extreme_numbers_is_refused_without_overflow),
        cmocka_unit_test(test_box_of_another_rank_is_refused),
        cmocka_unit_test(test_box_reads_as_ranges),
    };
    return cmocka_run_group_tests_name("tensor box", tests, NULL, NULL);
}
