/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor that one rank holds in a thousand boxes and more, saved, and restored in other boxes. */
#include "lib/training.h"

#define ROWS     120
#define COLUMNS  200
#define ELEMENTS ((size_t)ROWS * COLUMNS)
#define STEP     7

typedef struct fixture {
    store *disk;
    pawl_run *run;
    float *memory; /* of boxes, one after the other */
    pawl_state *state;
    pawl_checkpoint *checkpoint;
} fixture;

static float value_of(int64_t row, int64_t column) {
    return (float)(row * COLUMNS + column) + 0.25F;
}

/* The numbers of `rows` x `columns` boxes of equal size. */
typedef struct grid {
    int64_t rows, columns;
    int64_t offset[PAWL_MAX_BOXES][2], extent[2];
} grid;

static size_t grid_make(grid *g, int64_t rows, int64_t columns) {
    size_t n = 0;
    *g = (grid){.rows = rows, .columns = columns, .extent = {ROWS / rows, COLUMNS / columns}};
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            g->offset[n][0] = r * g->extent[0];
            g->offset[n++][1] = c * g->extent[1];
        }
    }
    return n;
}

/* Where an element of box `i` is in memory. */
static float *element_of(const fixture *f, const grid *g, size_t i, int64_t row, int64_t column) {
    return &f->memory[((int64_t)i * g->extent[0] + row) * g->extent[1] + column];
}

/* The state in these boxes; filled: with what is saved. */
static void build(fixture *f, const grid *g, size_t n, bool filled) {
    static const int64_t shape[] = {ROWS, COLUMNS};
    struct pawl_error err = ERROR_INIT;
    AUTOFREE pawl_box *boxes = mem_calloc(n, sizeof *boxes);
    for (size_t i = 0; i < n; i++) {
        boxes[i] = (pawl_box){
            .offset = g->offset[i], .extent = g->extent, .data = element_of(f, g, i, 0, 0)};
        for (int64_t r = 0; r < g->extent[0]; r++) {
            for (int64_t c = 0; c < g->extent[1]; c++) {
                *element_of(f, g, i, r, c) =
                    filled ? value_of(g->offset[i][0] + r, g->offset[i][1] + c) : 0;
            }
        }
    }
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "model/w",
                                .dtype = PAWL_F32,
                                .ndim = 2,
                                .shape = shape,
                                .nboxes = n,
                                .boxes = boxes};
    if (f->state != NULL) {
        state_free(f->state);
    }
    assert_ok(state_new(&f->state, &err), &err);
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
}

static void save(fixture *f, int64_t step) {
    const pawl_save_options options = {.struct_size = sizeof options};
    struct pawl_error err = ERROR_INIT;
    assert_ok(run_save(f->run, f->state, step, &options, &err), &err);
    assert_ok(run_wait(f->run, 30, NULL, &err), &err);
}

static void restore_into(fixture *f, int64_t rows, int64_t columns) {
    static grid g;
    struct pawl_error err = ERROR_INIT;
    pawl_restore_options options = {.struct_size = sizeof options};
    size_t n = grid_make(&g, rows, columns);
    build(f, &g, n, false);
    assert_ok(run_restore(f->run, f->state, &options, NULL, &err), &err);
    for (size_t i = 0; i < n; i++) {
        for (int64_t r = 0; r < g.extent[0]; r++) {
            for (int64_t c = 0; c < g.extent[1]; c++) {
                assert_true(*element_of(f, &g, i, r, c) ==
                            value_of(g.offset[i][0] + r, g.offset[i][1] + c));
            }
        }
    }
}

static void open_checkpoint(fixture *f) {
    const pawl_log none = {0};
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint_close(f->checkpoint);
    assert_ok(checkpoint_open(f->disk, false, STEP, platform_system(), &none, &f->checkpoint, &err),
              &err);
}

static int set_up(void **state) {
    static grid g;
    struct pawl_error err = ERROR_INIT;
    store *seen;
    fixture *f = mem_calloc(1, sizeof *f);
    f->memory = mem_calloc(ELEMENTS, sizeof *f->memory);
    assert_ok(store_mem(&f->disk, &err), &err);
    assert_ok(store_trace_wrap(f->disk, platform_system(), NULL, NULL, &seen, &err), &err);
    assert_ok(run_open(seen, NULL, platform_system(), &f->run, &err), &err);
    assert_int_equal(grid_make(&g, 40, 25), 1000);
    build(f, &g, 1000, true);
    save(f, STEP);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *state;
    pawl_checkpoint_close(f->checkpoint);
    assert_ok(run_close(f->run, 0, &err), &err);
    state_free(f->state);
    store_destroy(f->disk);
    mem_free(f->memory);
    mem_free(f);
    return 0;
}

static void test_a_thousand_boxes_are_restored_in_other_boxes(void **state) {
    fixture *f = *state;
    restore_into(f, 1, 1);
    restore_into(f, 40, 25);
    restore_into(f, 20, 50);
    restore_into(f, 3, 8);
    restore_into(f, 120, 1);
}

/* Each box a file would be a thousand files. */
static void test_they_lie_in_a_few_files(void **state) {
    fixture *f = *state;
    assert_int_equal(count_names(f->disk, "step-00000007", "data-"), 64);
}

static void test_slices_and_all_bytes_verify(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t offset[] = {17, 3};
    const int64_t extent[] = {2, 190};
    float slice[2][190];
    pawl_verify_result result = {.struct_size = sizeof result};
    open_checkpoint(f);
    assert_ok(checkpoint_read(f->checkpoint, "model/w", offset, extent, slice, sizeof slice, &err),
              &err);
    for (int r = 0; r < 2; r++) {
        for (int c = 0; c < 190; c++) {
            assert_true(slice[r][c] == value_of(17 + r, 3 + c));
        }
    }
    assert_ok(checkpoint_verify(f->checkpoint, NULL, &result, &err), &err);
}

/* From the data files alone, in which further boxes have keys that are no names. */
static void test_a_rebuilt_index_has_all_of_them(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint_info info;
    assert_ok(run_rebuild(f->run, STEP, false, &err), &err);
    open_checkpoint(f);
    checkpoint_describe(f->checkpoint, &info);
    assert_int_equal(info.entries, 1);
    restore_into(f, 20, 50);
}

/* As many as there may be; the second save has the layout of the first. */
static void test_the_most_boxes_are_saved_again_and_again(void **state) {
    static grid g;
    fixture *f = *state;
    size_t n = grid_make(&g, 40, 100);
    build(f, &g, n, true);
    save(f, STEP + 1);
    save(f, STEP + 2);
    restore_into(f, 20, 200);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_thousand_boxes_are_restored_in_other_boxes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_they_lie_in_a_few_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slices_and_all_bytes_verify, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_rebuilt_index_has_all_of_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_most_boxes_are_saved_again_and_again, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
