/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of many megabytes: restored, cast, cut and verified by several threads. */
#include "lib/training.h"

#define ROWS    1200
#define COLUMNS 1111 /* 10 MB: no row ends where a block does */

typedef struct fixture {
    store *disk;
    pawl_run *run;
    double *saved;
    pawl_checkpoint *checkpoint;
} fixture;

static double value_of(size_t i) {
    return (double)i + 0.5;
}

static pawl_state *state_of(pawl_dtype dtype, const int64_t *strides, void *data) {
    static const int64_t shape[] = {ROWS, COLUMNS};
    struct pawl_error err = ERROR_INIT;
    pawl_state *made;
    assert_ok(state_new(&made, &err), &err);
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "much",
                                .dtype = dtype,
                                .ndim = 2,
                                .shape = shape,
                                .strides = strides,
                                .data = data};
    assert_ok(state_add_tensor(made, &tensor, &err), &err);
    return made;
}

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    store *seen;
    fixture *f = mem_calloc(1, sizeof(*f));
    assert_ok(store_mem(&f->disk, &err), &err);
    assert_ok(store_trace_wrap(f->disk, platform_system(), NULL, NULL, &seen, &err), &err);
    assert_ok(run_open(seen, NULL, platform_system(), &f->run, &err), &err);
    f->saved = mem_alloc(sizeof(double) * ROWS * COLUMNS);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        f->saved[i] = value_of(i);
    }
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *state;
    pawl_checkpoint_close(f->checkpoint);
    assert_ok(run_close(f->run, 0, &err), &err);
    store_destroy(f->disk);
    mem_free(f->saved);
    mem_free(f);
    return 0;
}

static void save(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof(options)};
    pawl_state *made = state_of(PAWL_F64, NULL, f->saved);
    assert_ok(run_save(f->run, made, 1, &options, &err), &err);
    assert_ok(run_wait(f->run, 0, NULL, &err), &err);
    state_free(made);
    assert_ok(checkpoint_open(f->disk, false, 1, platform_system(), NULL, &f->checkpoint, &err),
              &err);
}

static pawl_status restore(fixture *f, pawl_dtype dtype, const int64_t *strides, void *to,
                           pawl_report **report, pawl_error *err) {
    const pawl_restore_options options = {.struct_size = sizeof(options),
                                          .cast = PAWL_POLICY_ALLOW};
    pawl_state *wanted = state_of(dtype, strides, to);
    pawl_status status = checkpoint_restore(f->checkpoint, wanted, &options, 0, 1, report, err);
    state_free(wanted);
    return status;
}

static void flip(fixture *f, uint64_t at) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error err = ERROR_INIT;
    char path[256];
    store_file *file;
    uint8_t byte;
    struct source *from = f->checkpoint->source;
    snprintf(path, sizeof(path), "step-00000001/%s", from->ops->file(from, 0).name);
    assert_ok(store_open(f->disk, path, STORE_UPDATE, &file, &err), &err);
    assert_ok(store_read(file, at, &byte, 1, &err), &err);
    byte ^= 0x40;
    assert_ok(store_write(file, at, &byte, 1, &err), &err);
    store_close(file);
}

/* ---- restoring ---- */

static void test_a_large_tensor_is_restored_bit_for_bit(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    AUTOFREE double *to = mem_calloc((size_t)ROWS * COLUMNS, sizeof(*to));
    save(f);
    assert_ok(restore(f, PAWL_F64, NULL, to, NULL, &err), &err);
    assert_memory_equal(to, f->saved, sizeof(*to) * ROWS * COLUMNS);
}

static void test_into_memory_of_another_order(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t strides[] = {sizeof(double), ROWS * sizeof(double)};
    AUTOFREE double *to = mem_calloc((size_t)ROWS * COLUMNS, sizeof(*to));
    save(f);
    assert_ok(restore(f, PAWL_F64, strides, to, NULL, &err), &err);
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t column = 0; column < COLUMNS; column++) {
            assert_true(to[column * ROWS + row] == value_of(row * COLUMNS + column));
        }
    }
}

static void test_overflows_of_a_cast_are_counted_over_all_threads(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_report *report;
    uint64_t overflows = 0;
    AUTOFREE float *to = mem_calloc((size_t)ROWS * COLUMNS, sizeof(*to));
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i += 1000) {
        f->saved[i] = 1e300;
        overflows++;
    }
    save(f);
    assert_ok(restore(f, PAWL_F32, NULL, to, &report, &err), &err);
    assert_int_equal(report_totals(report).cast_overflows, overflows);
    pawl_report_free(report);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        assert_true(to[i] == (float)f->saved[i]);
    }
}

static void test_r08_damage_names_the_tensor_and_is_not_placed(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    AUTOFREE double *to = mem_calloc((size_t)ROWS * COLUMNS, sizeof(*to));
    save(f);
    flip(f, 6u << 20);
    flip(f, 9u << 20);
    assert_fails(restore(f, PAWL_F64, NULL, to, NULL, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.entry, "much");
    assert_int_equal(err.offset, 6u << 20);
    assert_says(err.attempt, "of the 10665600 of much[0:1200, 0:1111]");
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        assert_true(to[i] == 0 || to[i] == value_of(i));
    }
}

/* ---- slices ---- */

static pawl_status read_slice(fixture *f, int64_t column, double *to, pawl_error *err) {
    const int64_t offset[] = {1, column};
    const int64_t extent[] = {ROWS - 1, COLUMNS - column};
    size_t bytes = (size_t)(ROWS - 1) * (size_t)(COLUMNS - column) * sizeof(*to);
    return checkpoint_read(f->checkpoint, "much", offset, extent, to, bytes, err);
}

static void test_a_large_slice(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    AUTOFREE double *to = mem_calloc((size_t)ROWS * COLUMNS, sizeof(*to));
    save(f);
    for (size_t column = 0; column < 20; column += 7) {
        size_t at = 0;
        assert_ok(read_slice(f, (int64_t)column, to, &err), &err);
        for (size_t row = 1; row < ROWS; row++) {
            for (size_t c = column; c < COLUMNS; c++) {
                assert_true(to[at++] == value_of(row * COLUMNS + c));
            }
        }
    }
}

static void test_r08_damage_of_a_large_slice(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    AUTOFREE double *to = mem_calloc((size_t)ROWS * COLUMNS, sizeof(*to));
    save(f);
    flip(f, 6u << 20);
    assert_fails(read_slice(f, 3, to, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.entry, "much");
    assert_int_equal(err.offset, 6u << 20);
}

/* What was told of a restore. */
typedef struct told {
    uint64_t done, of;
    thread_id thread;
} told;

static void tell(void *context, uint64_t done, uint64_t of) {
    told *t = context;
    assert_true(thread_is_self(t->thread));
    assert_true(done >= t->done && done <= of && (t->of == 0 || t->of == of));
    t->done = done;
    t->of = of;
}

static void test_a_restore_tells_progress(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    AUTOFREE double *to = mem_calloc((size_t)ROWS * COLUMNS, sizeof(*to));
    told last = {.thread = thread_self()};
    const pawl_restore_options options = {
        .struct_size = sizeof(options), .progress = tell, .progress_context = &last};
    save(f);
    pawl_state *state_to = state_of(PAWL_F64, NULL, to);
    assert_ok(checkpoint_restore(f->checkpoint, state_to, &options, 0, 1, NULL, &err), &err);
    assert_memory_equal(to, f->saved, sizeof(double) * ROWS * COLUMNS);
    assert_int_equal(last.done, sizeof(double) * ROWS * COLUMNS);
    assert_int_equal(last.of, last.done);
    state_free(state_to);
}

/* ---- verifying ---- */

static void count_progress(void *context, uint64_t done, uint64_t of) {
    uint64_t *last = context;
    assert_true(done > *last && done <= of);
    *last = done;
}

static void test_verifying_tells_progress_and_all_damage(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_verify_result result;
    uint64_t last = 0;
    const pawl_verify_options options = {
        .struct_size = sizeof(options), .progress = count_progress, .context = &last};
    save(f);
    assert_ok(checkpoint_verify(f->checkpoint, &options, &result, &err), &err);
    assert_int_equal(last, result.bytes);
    flip(f, 9u << 20);
    flip(f, 6u << 20);
    last = 0;
    assert_fails(checkpoint_verify(f->checkpoint, &options, &result, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(result.problems, 2);
    assert_int_equal(err.offset, 6u << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_a_large_tensor_is_restored_bit_for_bit),
        TEST(test_into_memory_of_another_order),
        TEST(test_overflows_of_a_cast_are_counted_over_all_threads),
        TEST(test_r08_damage_names_the_tensor_and_is_not_placed),
        TEST(test_a_large_slice),
        TEST(test_r08_damage_of_a_large_slice),
        TEST(test_a_restore_tells_progress),
        TEST(test_verifying_tells_progress_and_all_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
