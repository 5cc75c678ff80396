/* SPDX-License-Identifier: Apache-2.0 */
/* Views through the public calls: a few rows of many, read by several threads. */
#include "unit/store/fixtures.h"

#include <pawl/pawl.h>

#include <pthread.h>

#define ROWS    512u
#define COLUMNS 256u
#define THREADS 4u

typedef struct fixture {
    directory dir;
    pawl_error *err;
    pawl_checkpoint *checkpoint;
    float weights[ROWS][COLUMNS];
} fixture;

static void save(fixture *f, const char *path) {
    static const int64_t shape[] = {ROWS, COLUMNS};
    pawl_state *saved = NULL;
    pawl_run *run = NULL;
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "weights",
                                .dtype = PAWL_F32,
                                .ndim = 2,
                                .shape = shape,
                                .data = f->weights};
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        f->weights[i / COLUMNS][i % COLUMNS] = (float)i;
    }
    assert_ok(pawl_state_new(&saved, f->err), f->err);
    assert_ok(pawl_state_add_tensor(saved, &tensor, f->err), f->err);
    assert_ok(pawl_run_open(path, NULL, &run, f->err), f->err);
    assert_ok(pawl_save(run, saved, 1, NULL, f->err), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    pawl_state_free(saved);
}

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    char path[128];
    directory_make(&f->dir);
    (void)snprintf(path, sizeof(path), "%s/run", f->dir.path);
    f->err = pawl_error_new();
    save(f, path);
    assert_ok(pawl_checkpoint_open(path, NULL, &f->checkpoint, f->err), f->err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    pawl_checkpoint_close(f->checkpoint);
    pawl_error_free(f->err);
    directory_remove(&f->dir);
    mem_free(f);
    return 0;
}

static pawl_view *open_view(fixture *f) {
    pawl_view *view = NULL;
    assert_ok(pawl_view_open(f->checkpoint, "weights", 0, &view, f->err), f->err);
    return view;
}

static const void *row_of(fixture *f, pawl_view *view, size_t row) {
    const void *bytes = NULL;
    assert_ok(
        pawl_view_bytes(view, row * sizeof(f->weights[0]), sizeof(f->weights[0]), &bytes, f->err),
        f->err);
    return bytes;
}

static void test_some_rows_of_many(void **state) {
    fixture *f = *state;
    pawl_view_info info = {.struct_size = sizeof info};
    pawl_view *view = open_view(f);
    assert_ok(pawl_view_describe(view, &info, f->err), f->err);
    assert_int_equal(info.bytes, sizeof(f->weights));
    for (size_t row = 3; row < ROWS; row += 100) {
        assert_memory_equal(row_of(f, view, row), f->weights[row], sizeof(f->weights[0]));
    }
    pawl_read_stats reads = {.struct_size = sizeof reads};
    assert_ok(pawl_checkpoint_reads(f->checkpoint, &reads, f->err), f->err);
    assert_true(reads.bytes < sizeof(f->weights) / 2);
    pawl_view_close(view);
}

static void test_a_failure_leaves_nothing(void **state) {
    fixture *f = *state;
    pawl_view *view = (pawl_view *)f;
    const void *bytes = f;
    assert_fails(pawl_view_open(f->checkpoint, "weight", 0, &view, f->err), PAWL_ENOTFOUND, f->err);
    assert_null(view);
    view = open_view(f);
    assert_fails(pawl_view_bytes(view, sizeof(f->weights), 1, &bytes, f->err), PAWL_EUSAGE, f->err);
    assert_null(bytes);
    pawl_view_close(view);
}

typedef struct looking {
    const float *rows;
    size_t count;
    double sum;
} looking;

static void *look(void *context) {
    looking *l = context;
    for (size_t i = 0; i < l->count * COLUMNS; i++) {
        l->sum += (double)l->rows[i];
    }
    return NULL;
}

/* What was handed out may be read by any thread while its owner goes on verifying. */
static void test_threads_read_what_was_handed_out(void **state) {
    fixture *f = *state;
    const size_t rows = ROWS / THREADS;
    pthread_t threads[THREADS];
    looking parts[THREADS];
    pawl_view *view = open_view(f);
    for (size_t i = 0; i < THREADS; i++) {
        const void *bytes = NULL;
        assert_ok(pawl_view_bytes(view, i * rows * sizeof(f->weights[0]),
                                  rows * sizeof(f->weights[0]), &bytes, f->err),
                  f->err);
        parts[i] = (looking){.rows = bytes, .count = rows};
        assert_int_equal(pthread_create(&threads[i], NULL, look, &parts[i]), 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        looking wanted = {.rows = f->weights[i * rows], .count = rows};
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        (void)look(&wanted);
        assert_true(parts[i].sum == wanted.sum);
    }
    pawl_view_close(view);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_some_rows_of_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_failure_leaves_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_threads_read_what_was_handed_out, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
