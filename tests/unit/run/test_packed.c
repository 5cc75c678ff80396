/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of less than a byte, saved in some boxes and restored in others. */
#include "lib/training.h"

#define ROWS      6
#define COLUMNS   8
#define MOST_BYTE ((size_t)ROWS * COLUMNS)

typedef struct fixture {
    store *disk;
    pawl_run *run;
} fixture;

/* Ways to cut [ROWS, COLUMNS] in two along a dimension. */
typedef struct cut {
    int dimension; /* -1: not cut */
    int64_t at;
} cut;

static size_t boxes_of(cut c, int64_t offsets[2][2], int64_t extents[2][2]) {
    for (int i = 0; i < 2; i++) {
        offsets[i][0] = offsets[i][1] = 0;
        extents[i][0] = ROWS;
        extents[i][1] = COLUMNS;
    }
    if (c.dimension < 0) {
        return 1;
    }
    offsets[1][c.dimension] = extents[0][c.dimension] = c.at;
    extents[1][c.dimension] -= c.at;
    return 2;
}

static pawl_state *state_of(pawl_dtype dtype, cut c, uint8_t memory[2][MOST_BYTE]) {
    static const int64_t shape[] = {ROWS, COLUMNS};
    struct pawl_error err = ERROR_INIT;
    int64_t offsets[2][2], extents[2][2];
    pawl_state *state;
    size_t n = boxes_of(c, offsets, extents);
    const pawl_box boxes[] = {{.offset = offsets[0], .extent = extents[0], .data = memory[0]},
                              {.offset = offsets[1], .extent = extents[1], .data = memory[1]}};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "model/w",
                                .dtype = dtype,
                                .ndim = 2,
                                .shape = shape,
                                .nboxes = n,
                                .boxes = boxes};
    assert_ok(state_new(&state, &err), &err);
    assert_ok(state_add_tensor(state, &tensor, &err), &err);
    return state;
}

/* The dense bytes of the whole: byte i of the tensor is i. Rows are whole bytes, and so is each
 * cut. */
static void fill_or_check(pawl_dtype dtype, cut c, uint8_t memory[2][MOST_BYTE], bool check) {
    int64_t offsets[2][2], extents[2][2];
    size_t bits = (size_t)pawl_dtype_bits(dtype), row = COLUMNS * bits / 8;
    size_t n = boxes_of(c, offsets, extents);
    for (size_t i = 0; i < n; i++) {
        size_t first = (size_t)offsets[i][1] * bits / 8, width = (size_t)extents[i][1] * bits / 8;
        for (size_t at = 0; at < (size_t)extents[i][0] * width; at++) {
            size_t of_row = (size_t)offsets[i][0] + at / width;
            uint8_t wanted = (uint8_t)(of_row * row + first + at % width);
            if (check) {
                assert_int_equal(memory[i][at], wanted);
            } else {
                memory[i][at] = wanted;
            }
        }
    }
}

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    store *seen;
    fixture *f = mem_calloc(1, sizeof *f);
    assert_ok(store_mem(&f->disk, &err), &err);
    assert_ok(store_trace_wrap(f->disk, platform_system(), NULL, NULL, &seen, &err), &err);
    assert_ok(run_open(seen, NULL, platform_system(), &f->run, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *state;
    assert_ok(run_close(f->run, 0, &err), &err);
    store_destroy(f->disk);
    mem_free(f);
    return 0;
}

static void save_cut(fixture *f, pawl_dtype dtype, cut c, int64_t step) {
    const pawl_save_options options = {.struct_size = sizeof options};
    struct pawl_error err = ERROR_INIT;
    uint8_t memory[2][MOST_BYTE];
    fill_or_check(dtype, c, memory, false);
    pawl_state *state = state_of(dtype, c, memory);
    assert_ok(run_save(f->run, state, step, &options, &err), &err);
    assert_ok(run_wait(f->run, 30, NULL, &err), &err);
    state_free(state);
}

static pawl_status restore_cut(fixture *f, pawl_dtype dtype, cut c, pawl_error *err) {
    const pawl_restore_options options = {.struct_size = sizeof options};
    uint8_t memory[2][MOST_BYTE] = {{0}};
    pawl_state *state = state_of(dtype, c, memory);
    pawl_status status = run_restore(f->run, state, &options, NULL, err);
    if (status == PAWL_OK) {
        fill_or_check(dtype, c, memory, true);
    }
    state_free(state);
    return status;
}

/* Each cut to each other one. */
static void test_boxes_are_restored_in_other_boxes(void **state) {
    static const pawl_dtype dtypes[] = {PAWL_F4, PAWL_F6_E2M3, PAWL_F6_E3M2};
    static const cut cuts[] = {{-1, 0}, {0, 1}, {0, 4}, {1, 4}};
    fixture *f = *state;
    int64_t step = 0;
    for (size_t d = 0; d < ARRAY_LENGTH(dtypes); d++) {
        for (size_t from = 0; from < ARRAY_LENGTH(cuts); from++) {
            save_cut(f, dtypes[d], cuts[from], ++step);
            for (size_t to = 0; to < ARRAY_LENGTH(cuts); to++) {
                struct pawl_error err = ERROR_INIT;
                assert_ok(restore_cut(f, dtypes[d], cuts[to], &err), &err);
            }
        }
    }
}

static void test_a_cut_within_a_byte_is_refused(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    save_cut(f, PAWL_F4, (cut){-1, 0}, 1);
    assert_fails(restore_cut(f, PAWL_F4, (cut){1, 3}, &err), PAWL_EUNSUPPORTED, &err);
    assert_string_equal(err.entry, "model/w");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_boxes_are_restored_in_other_boxes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_cut_within_a_byte_is_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
