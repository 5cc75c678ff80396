/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl_checkpoint_diff: each kind of difference, how far numbers are apart, and how much is read:
 * of many small tensors each block at most once, however far the order of names is from that of the
 * files.
 */
#include "lib/directory.h"
#include "lib/failing_memory.h"
#include "lib/test.h"

#include <math.h>
#include <pawl/pawl.h>
#include <string.h>

enum { MANY = 20000, ELEMENTS = 24, BLOCK = 16 * 1024 };

typedef struct fixture {
    char path[64];
    pawl_run *run;
    pawl_checkpoint *a, *b;
    char told[4096]; /* "kind name\n" of each difference */
    pawl_distances distances;
    int ranks, of_ranks;
    int asked, stop_at; /* 0: never */
    uint64_t done_bytes, of_bytes;
} fixture;

static int set_up(void **context) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = mem_calloc(1, sizeof(*f));
    assert_non_null(f);
    directory_new(f->path, "/tmp");
    assert_ok(pawl_run_open(f->path, NULL, &f->run, &err), &err);
    *context = f;
    return 0;
}

static void close_both(fixture *f) {
    pawl_checkpoint_close(f->a);
    pawl_checkpoint_close(f->b);
    f->a = NULL;
    f->b = NULL;
}

static int tear_down(void **context) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *context;
    close_both(f);
    if (f->run != NULL) {
        assert_ok(pawl_run_close(f->run, 0, &err), &err);
    }
    directory_delete(f->path);
    mem_free(f);
    return 0;
}

static pawl_state *new_state(void) {
    struct pawl_error err = ERROR_INIT;
    pawl_state *state = NULL;
    assert_ok(pawl_state_new(&state, &err), &err);
    return state;
}

/* The state is freed. */
static void save(fixture *f, pawl_state *state, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(pawl_save(f->run, state, step, NULL, &err), &err);
    assert_ok(pawl_wait(f->run, 0, NULL, &err), &err);
    pawl_state_free(state);
}

static void open_both(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    const int64_t steps[] = {1, 2};
    const pawl_open_options first = {.struct_size = sizeof(first), .step = &steps[0]};
    const pawl_open_options second = {.struct_size = sizeof(second), .step = &steps[1]};
    assert_ok(pawl_checkpoint_open(f->path, &first, &f->a, &err), &err);
    assert_ok(pawl_checkpoint_open(f->path, &second, &f->b, &err), &err);
}

static void add(pawl_state *state, const char *name, pawl_dtype dtype, int64_t n,
                const void *data) {
    struct pawl_error err = ERROR_INIT;
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = name,
                                .dtype = dtype,
                                .ndim = 1,
                                .shape = &n,
                                .data = (void *)(uintptr_t)data};
    assert_ok(pawl_state_add_tensor(state, &tensor, &err), &err);
}

/* ---- the callbacks ---- */

static void on_difference(void *context, const pawl_diff_item *d) {
    fixture *f = context;
    size_t used = strlen(f->told);
    assert_int_equal(d->struct_size, sizeof(*d));
    (void)snprintf(f->told + used, sizeof(f->told) - used, "%s %s\n", pawl_diff_kind_name(d->kind),
                   d->name);
    if (d->distances != NULL) {
        f->distances = *d->distances;
    }
    f->ranks = d->ranks;
    f->of_ranks = d->of_ranks;
}

static void on_progress(void *context, uint64_t done_bytes, uint64_t of_bytes) {
    fixture *f = context;
    assert_true(done_bytes <= of_bytes);
    f->done_bytes = done_bytes;
    f->of_bytes = of_bytes;
}

static int is_stop_wanted(void *context) {
    fixture *f = context;
    return ++f->asked == f->stop_at;
}

static pawl_status compare(fixture *f, int structure_only, pawl_diff_result *found,
                           pawl_error *err) {
    const pawl_diff_options options = {.struct_size = sizeof(options),
                                       .difference = on_difference,
                                       .progress = on_progress,
                                       .context = f,
                                       .structure_only = structure_only,
                                       .stop = is_stop_wanted};
    f->told[0] = '\0';
    f->asked = 0;
    *found = (pawl_diff_result){.struct_size = sizeof(*found)};
    return pawl_checkpoint_diff(f->a, f->b, &options, found, err);
}

/* ---- the numbers of two tensors ---- */

/* What the comparison of one tensor tells. */
static pawl_distances distances(fixture *f, pawl_dtype dtype, int64_t n, const void *a,
                                const void *b) {
    struct pawl_error err = ERROR_INIT;
    pawl_diff_result found;
    pawl_state *first = new_state();
    pawl_state *second = new_state();
    add(first, "w", dtype, n, a);
    add(second, "w", dtype, n, b);
    save(f, first, 1);
    save(f, second, 2);
    open_both(f);
    assert_ok(compare(f, 0, &found, &err), &err);
    assert_string_equal(f->told, "numbers w\n");
    assert_int_equal(found.different, 1);
    assert_true(found.max_abs == f->distances.max_abs);
    return f->distances;
}

static void test_distance_of_large_integers_is_exact(void **context) {
    const int64_t a[] = {INT64_MAX, INT64_MIN, 7};
    const int64_t b[] = {INT64_MAX - 1, INT64_MAX, 7};
    pawl_distances d = distances(*context, PAWL_I64, 3, a, b);
    assert_int_equal(d.elements, 3);
    assert_int_equal(d.differing, 2);
    assert_true(d.max_abs == 0x1p64 && d.mean_abs == (0x1p64 + 1) / 3);
}

static void test_distance_of_unsigned_integers_is_exact(void **context) {
    const uint64_t a[] = {0, UINT64_MAX};
    const uint64_t b[] = {UINT64_MAX, UINT64_MAX - 1};
    pawl_distances d = distances(*context, PAWL_U64, 2, a, b);
    assert_true(d.differing == 2 && d.max_abs == 0x1p64);
}

static void test_infinities_nans_and_zeros(void **context) {
    const float a[] = {INFINITY, INFINITY, NAN, NAN, 0.0F, 1};
    const float b[] = {INFINITY, 1, 1, NAN, -0.0F, 1.5F};
    pawl_distances d = distances(*context, PAWL_F32, 6, a, b);
    assert_int_equal(d.differing, 4); /* 0.0 and -0.0 do, by 0 */
    assert_int_equal(d.nan_on_one_side, 1);
    assert_true(isinf(d.max_abs));
    assert_true(d.mean_abs == 0.5 / 4); /* of four finite ones: inf-inf, NaN-NaN, zeros, the last */
}

static void test_distance_of_complex_numbers_is_the_magnitude(void **context) {
    const float a[] = {1, 2, 0, 0};
    const float b[] = {4, 6, 0, 0};
    pawl_distances d = distances(*context, PAWL_C64, 2, a, b);
    assert_true(d.differing == 1 && d.max_abs == 5 && d.mean_abs == 2.5);
}

static void test_packed_numbers_are_compared_as_bytes(void **context) {
    const uint8_t a[] = {0x12, 0x34, 0x56};
    const uint8_t b[] = {0x12, 0x35, 0x56};
    pawl_distances d = distances(*context, PAWL_F4, 6, a, b);
    assert_true(d.elements == 3 && d.differing == 1 && d.max_abs == 0 && d.compared == 1);
}

/* More than what is read at once, of a size that does not divide by it. */
static void test_large_tensors_are_read_in_parts(void **context) {
    enum { COUNT = 5 * 1024 * 1024 + 3 };
    AUTOFREE float *a = mem_calloc(COUNT, sizeof(*a));
    AUTOFREE float *b = mem_calloc(COUNT, sizeof(*b));
    assert_true(a != NULL && b != NULL);
    b[0] = 1;
    b[1024 * 1024] = 2; /* the first of a part */
    b[COUNT - 1] = 4;
    pawl_distances d = distances(*context, PAWL_F32, COUNT, a, b);
    assert_int_equal(d.elements, COUNT);
    assert_int_equal(d.differing, 3);
    assert_true(d.max_abs == 4);
    fixture *f = *context;
    assert_true(f->of_bytes >= 2 * (uint64_t)COUNT * sizeof(*a) && f->done_bytes == f->of_bytes);
}

/* ---- kinds of differences ---- */

static void save_two_structures(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    static const float numbers[6] = {1, 2, 3, 4, 5, 6};
    pawl_state *a = new_state();
    pawl_state *b = new_state();
    add(a, "dtype", PAWL_F32, 2, numbers);
    add(b, "dtype", PAWL_I32, 2, numbers);
    add(a, "here", PAWL_F32, 2, numbers);
    add(b, "there", PAWL_F32, 2, numbers);
    add(a, "shape", PAWL_F32, 2, numbers);
    add(b, "shape", PAWL_F32, 3, numbers);
    add(a, "numbers", PAWL_F32, 2, numbers);
    add(b, "numbers", PAWL_F32, 2, numbers + 1);
    add(a, "same", PAWL_F32, 2, numbers);
    add(b, "same", PAWL_F32, 2, numbers);
    add(a, "kind", PAWL_F32, 1, numbers);
    assert_ok(pawl_state_set_int64(b, "kind", PAWL_ROLE_OTHER, 1, &err), &err);
    assert_ok(pawl_state_set_float64(a, "lr", PAWL_ROLE_HYPERPARAMETER, 0.1, &err), &err);
    assert_ok(pawl_state_set_float64(b, "lr", PAWL_ROLE_HYPERPARAMETER, 0.2, &err), &err);
    assert_ok(pawl_state_set_string(a, "role", PAWL_ROLE_OTHER, "x", &err), &err);
    assert_ok(pawl_state_set_string(b, "role", PAWL_ROLE_DATA_POSITION, "x", &err), &err);
    assert_ok(pawl_state_set_rank_bytes(a, "rank", PAWL_ROLE_RNG, "abc", 3, &err), &err);
    assert_ok(pawl_state_set_rank_bytes(b, "rank", PAWL_ROLE_RNG, "abd", 3, &err), &err);
    assert_ok(pawl_state_set_int64(a, "value", PAWL_ROLE_STEP, 1, &err), &err);
    assert_ok(pawl_state_set_int64(b, "value", PAWL_ROLE_STEP, 2, &err), &err);
    save(f, a, 1);
    save(f, b, 2);
    open_both(f);
}

static void test_each_kind_of_difference(void **context) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *context;
    pawl_diff_result found;
    save_two_structures(f);
    assert_ok(compare(f, 0, &found, &err), &err);
    assert_string_equal(f->told, "dtype dtype\nonly_a here\nkind kind\nhyperparameter lr\n"
                                 "numbers numbers\nvalue rank\nrole role\nshape shape\n"
                                 "only_b there\nvalue value\n");
    assert_int_equal(found.same, 1);
    assert_int_equal(found.different, 8);
    assert_int_equal(found.only_a, 1);
    assert_int_equal(found.only_b, 1);
    assert_int_equal(found.uncompared, 0);
    assert_true(found.max_abs == 1);
}

static void test_structure_is_compared_alone(void **context) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *context;
    pawl_diff_result found;
    save_two_structures(f);
    assert_ok(compare(f, 1, &found, &err), &err);
    assert_string_equal(f->told, "dtype dtype\nonly_a here\nkind kind\nhyperparameter lr\n"
                                 "role role\nshape shape\nonly_b there\n");
    assert_int_equal(found.same, 4);
}

static void test_one_handle_twice(void **context) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *context;
    pawl_diff_result found = {.struct_size = sizeof(found)};
    save_two_structures(f);
    assert_ok(pawl_checkpoint_diff(f->a, f->a, NULL, &found, &err), &err);
    assert_int_equal(found.same, 10);
    assert_int_equal(found.different + found.only_a + found.only_b, 0);
}

static void test_names_of_kinds(void **context) {
    (void)context;
    for (int kind = PAWL_ONLY_IN_A; kind <= PAWL_DIFFERS_IN_NUMBERS; kind++) {
        assert_non_null(pawl_diff_kind_name((pawl_diff_kind)kind));
    }
    assert_null(pawl_diff_kind_name((pawl_diff_kind)0));
    assert_null(pawl_diff_kind_name((pawl_diff_kind)(PAWL_DIFFERS_IN_NUMBERS + 1)));
}

/* ---- ends ---- */

static void test_the_caller_stops_it(void **context) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *context;
    pawl_diff_result found;
    save_two_structures(f);
    f->stop_at = 3;
    assert_fails(compare(f, 0, &found, &err), PAWL_ECANCELED, &err);
    assert_string_equal(f->told, "dtype dtype\nonly_a here\n");
    assert_int_equal(found.same + found.different, 0); /* not filled */
}

static void test_null_arguments_are_refused(void **context) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *context;
    pawl_diff_result found = {.struct_size = sizeof(found)};
    save_two_structures(f);
    assert_fails(pawl_checkpoint_diff(NULL, f->b, NULL, &found, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "pawl_checkpoint_diff: a is a null pointer");
    assert_fails(pawl_checkpoint_diff(f->a, NULL, NULL, &found, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "pawl_checkpoint_diff: b is a null pointer");
    assert_fails(pawl_checkpoint_diff(f->a, f->b, NULL, NULL, &err), PAWL_EUSAGE, &err);
    found.struct_size = 0;
    assert_fails(pawl_checkpoint_diff(f->a, f->b, NULL, &found, &err), PAWL_EUSAGE, &err);
}

/* Handles of their own each time, which may keep memory. False: no allocation was left to fail. */
static bool compare_failing(fixture *f, uint64_t nth) {
    struct pawl_error err = ERROR_INIT;
    pawl_diff_result found;
    uint64_t before = failing_memory_live();
    open_both(f);
    failing_memory_set(nth);
    pawl_status status = compare(f, 0, &found, &err);
    bool fired = failing_memory_fired();
    failing_memory_set(0);
    close_both(f);
    assert_int_equal(failing_memory_live(), before);
    if (fired) {
        assert_fails(status, PAWL_ENOMEM, &err);
    } else {
        assert_ok(status, &err);
    }
    return fired;
}

static void test_each_allocation_may_fail(void **context) {
    uint64_t nth = 1;
    save_two_structures(*context);
    close_both(*context);
    while (compare_failing(*context, nth)) {
        nth++;
    }
    assert_true(nth > 20);
}

/* ---- how much is read ---- */

/* Dtypes alternate, and each lies by itself in the file. */
static pawl_state *many_tensors(char *memory) {
    static const pawl_dtype dtypes[] = {PAWL_F64, PAWL_BF16, PAWL_F32, PAWL_U8};
    pawl_state *state = new_state();
    for (size_t i = 0; i < MANY; i++) {
        char name[24];
        (void)snprintf(name, sizeof(name), "group%02zu/tensor%05zu", i / 1000, i);
        add(state, name, dtypes[i % 4], ELEMENTS, memory + i * ELEMENTS * 8);
    }
    return state;
}

static uint64_t reads_of(const pawl_checkpoint *c) {
    pawl_read_stats stats = {.struct_size = sizeof(stats)};
    struct pawl_error err = ERROR_INIT;
    assert_ok(pawl_checkpoint_reads(c, &stats, &err), &err);
    return stats.reads;
}

/* Step 2 has another number in every 100th tensor. */
static void save_many(fixture *f) {
    AUTOFREE char *memory = mem_calloc(MANY, (size_t)ELEMENTS * 8);
    assert_non_null(memory);
    save(f, many_tensors(memory), 1);
    for (size_t i = 0; i < MANY; i += 100) {
        memory[i * ELEMENTS * 8 + 7] = 64;
    }
    save(f, many_tensors(memory), 2);
    open_both(f);
}

static void test_each_block_is_read_at_most_once(void **context) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *context;
    pawl_diff_result found;
    pawl_checkpoint_info info = {.struct_size = sizeof(info)};
    save_many(f);
    uint64_t opened = reads_of(f->a);
    assert_ok(compare(f, 0, &found, &err), &err);
    assert_int_equal(found.same, MANY - MANY / 100);
    assert_int_equal(found.different, MANY / 100);
    const char *earlier = strstr(f->told, "tensor00100");
    const char *later = strstr(f->told, "tensor00200");
    assert_true(earlier != NULL && later != NULL && earlier < later);
    assert_ok(pawl_checkpoint_describe(f->a, &info, &err), &err);
    uint64_t blocks = info.data_bytes / BLOCK + info.data_files;
    uint64_t index_blocks = 2 * info.index_bytes / 4096; /* walked, and searched */
    assert_true(reads_of(f->a) - opened <= blocks + index_blocks + 50);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_distance_of_large_integers_is_exact),
        TEST(test_distance_of_unsigned_integers_is_exact),
        TEST(test_infinities_nans_and_zeros),
        TEST(test_distance_of_complex_numbers_is_the_magnitude),
        TEST(test_packed_numbers_are_compared_as_bytes),
        TEST(test_large_tensors_are_read_in_parts),
        TEST(test_each_kind_of_difference),
        TEST(test_structure_is_compared_alone),
        TEST(test_one_handle_twice),
        cmocka_unit_test(test_names_of_kinds),
        TEST(test_the_caller_stops_it),
        TEST(test_null_arguments_are_refused),
        TEST(test_each_allocation_may_fail),
        TEST(test_each_block_is_read_at_most_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
