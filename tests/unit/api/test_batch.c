/* SPDX-License-Identifier: Apache-2.0 */
/* The batch check: what differs from the first batch is named (J01, J02). */
#include "lib/failing_memory.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <string.h>

static const int64_t images[] = {64, 224, 224, 3};
static const int64_t labels[] = {64};

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    pawl_batch_check *check = NULL;
    assert_ok(pawl_batch_check_new(&check, &err), &err);
    *state = check;
    return 0;
}

static int tear_down(void **state) {
    pawl_batch_check_free(*state);
    return 0;
}

static pawl_status show(pawl_batch_check *check, pawl_dtype image_dtype, int ndim,
                        const int64_t *image_shape, pawl_error *err) {
    const pawl_array batch[] = {
        {.name = "images", .dtype = image_dtype, .ndim = ndim, .shape = image_shape},
        {.name = "labels", .dtype = PAWL_I32, .ndim = 1, .shape = labels}};
    return pawl_batch_check_next(check, batch, 2, sizeof(pawl_array), err);
}

static void show_good(pawl_batch_check *check, int count) {
    struct pawl_error err = ERROR_INIT;
    for (int i = 0; i < count; i++) {
        assert_ok(show(check, PAWL_F32, 4, images, &err), &err);
    }
}

static void test_batches_like_the_first_pass(void **state) {
    show_good(*state, 10);
}

static void test_j01_a_smaller_last_batch(void **state) {
    struct pawl_error err = ERROR_INIT;
    const int64_t remainder[] = {37, 224, 224, 3};
    show_good(*state, 156);
    assert_fails(show(*state, PAWL_F32, 4, remainder, &err), PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt, "batch 156 `images` has shape [37,224,224,3], the first had "
                                     "[64,224,224,3]; drop or pad the remainder");
    assert_string_equal(err.entry, "images");
    assert_string_equal(err.expected, "[64,224,224,3]");
    assert_string_equal(err.found, "[37,224,224,3]");
    assert_string_equal(err.next, "drop or pad the remainder");
}

static void test_a_refused_batch_counts(void **state) {
    struct pawl_error err = ERROR_INIT;
    const int64_t remainder[] = {37, 224, 224, 3};
    show_good(*state, 1);
    assert_fails(show(*state, PAWL_F32, 4, remainder, &err), PAWL_EMISMATCH, &err);
    assert_says(err.attempt, "batch 1 ");
    assert_fails(show(*state, PAWL_F32, 4, remainder, &err), PAWL_EMISMATCH, &err);
    assert_says(err.attempt, "batch 2 ");
}

static void test_j02_another_shape_is_no_remainder(void **state) {
    struct pawl_error err = ERROR_INIT;
    const int64_t other[] = {64, 224, 224, 1};
    const int64_t larger[] = {128, 224, 224, 3};
    show_good(*state, 1);
    assert_fails(show(*state, PAWL_F32, 4, other, &err), PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt, "batch 1 `images` has shape [64,224,224,1], the first had "
                                     "[64,224,224,3]; mend the input");
    assert_fails(show(*state, PAWL_F32, 4, larger, &err), PAWL_EMISMATCH, &err);
    assert_string_equal(err.next, "mend the input");
}

static void test_j02_another_rank(void **state) {
    struct pawl_error err = ERROR_INIT;
    const int64_t flat[] = {64, 150528};
    show_good(*state, 1);
    assert_fails(show(*state, PAWL_F32, 2, flat, &err), PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt, "batch 1 `images` has shape [64,150528], the first had "
                                     "[64,224,224,3]; mend the input");
}

static void test_j02_another_dtype(void **state) {
    struct pawl_error err = ERROR_INIT;
    show_good(*state, 12);
    assert_fails(show(*state, PAWL_U8, 4, images, &err), PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt,
                        "batch 12 `images` has dtype U8, the first had F32; mend the input");
    assert_string_equal(err.entry, "images");
    assert_string_equal(err.expected, "F32");
    assert_string_equal(err.found, "U8");
}

static void test_j02_another_name(void **state) {
    struct pawl_error err = ERROR_INIT;
    const pawl_array fewer[] = {{.name = "labels", .dtype = PAWL_I32, .ndim = 1, .shape = labels}};
    const pawl_array more[] = {{.name = "images", .dtype = PAWL_F32, .ndim = 4, .shape = images},
                               {.name = "labels", .dtype = PAWL_I32, .ndim = 1, .shape = labels},
                               {.name = "weights", .dtype = PAWL_F32, .ndim = 1, .shape = labels}};
    show_good(*state, 1);
    assert_fails(pawl_batch_check_next(*state, fewer, 1, sizeof(pawl_array), &err), PAWL_EMISMATCH,
                 &err);
    assert_string_equal(err.attempt, "batch 1 has no `images`, the first had it; mend the input");
    assert_fails(pawl_batch_check_next(*state, more, 3, sizeof(pawl_array), &err), PAWL_EMISMATCH,
                 &err);
    assert_string_equal(err.attempt, "batch 2 has `weights`, the first had not; mend the input");
    assert_string_equal(err.entry, "weights");
}

static void test_the_order_of_entries_does_not_matter(void **state) {
    struct pawl_error err = ERROR_INIT;
    const pawl_array turned[] = {{.name = "labels", .dtype = PAWL_I32, .ndim = 1, .shape = labels},
                                 {.name = "images", .dtype = PAWL_F32, .ndim = 4, .shape = images}};
    show_good(*state, 1);
    assert_ok(pawl_batch_check_next(*state, turned, 2, sizeof(pawl_array), &err), &err);
}

static void test_j02_f64_is_refused_in_the_first_batch(void **state) {
    struct pawl_error err = ERROR_INIT;
    assert_fails(show(*state, PAWL_F64, 4, images, &err), PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt,
                        "batch 0 `images` has dtype F64; accelerators compute it slowly "
                        "or not at all");
    assert_string_equal(err.next,
                        "convert it to F32 in the input (NumPy makes F64 unless told otherwise)");
    assert_null(pawl_batch_check_signature(*state));
    show_good(*state, 1); /* the next one is the first */
}

static void test_j02_what_is_no_array_is_refused(void **state) {
    struct pawl_error err = ERROR_INIT;
    const int64_t unknown[] = {-1, 3};
    assert_fails(show(*state, (pawl_dtype)99, 4, images, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "batch 0 `images` has no dtype: it may be text, or ragged");
    assert_fails(show(*state, PAWL_F32, 4, NULL, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "batch 1 `images` has no shape: it may be ragged");
    assert_fails(show(*state, PAWL_F32, 2, unknown, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "batch 2 `images` has a dimension of unknown size");
}

/* Whoever knows what an entry is instead of an array says it. */
static void test_j02_text_and_ragged_entries_are_named(void **state) {
    struct pawl_error err = ERROR_INIT;
    const pawl_array batch[] = {{.name = "a", .dtype = PAWL_I32, .ndim = 1, .shape = labels},
                                {.name = "words", .instead = "text"}};
    assert_fails(pawl_batch_check_next(*state, batch, 2, sizeof(pawl_array), &err), PAWL_EUSAGE,
                 &err);
    assert_string_equal(err.attempt, "batch 0 `words` is text");
    assert_string_equal(err.entry, "words");
    assert_string_equal(err.next, "a batch is made of arrays of one dtype and one shape: pad what "
                                  "is ragged, turn text into numbers");
}

static void test_a_repeated_name_is_refused(void **state) {
    struct pawl_error err = ERROR_INIT;
    const pawl_array twice[] = {{.name = "a", .dtype = PAWL_I32, .ndim = 1, .shape = labels},
                                {.name = "a", .dtype = PAWL_I32, .ndim = 1, .shape = labels}};
    assert_fails(pawl_batch_check_next(*state, twice, 2, sizeof(pawl_array), &err), PAWL_EUSAGE,
                 &err);
    assert_string_equal(err.attempt, "batch 0 `a` is there more than once");
}

static void test_the_signature_is_json_of_the_first_batch(void **state) {
    assert_null(pawl_batch_check_signature(*state));
    show_good(*state, 2);
    assert_string_equal(pawl_batch_check_signature(*state),
                        "{\"images\":{\"dtype\":\"F32\",\"shape\":[64,224,224,3]},"
                        "\"labels\":{\"dtype\":\"I32\",\"shape\":[64]}}");
    assert_null(pawl_batch_check_signature(NULL));
}

static void test_null_pointers_are_refused(void **state) {
    struct pawl_error err = ERROR_INIT;
    const pawl_array one = {.name = "a", .dtype = PAWL_I32, .ndim = 0};
    assert_fails(pawl_batch_check_next(NULL, &one, 1, sizeof(pawl_array), &err), PAWL_EUSAGE, &err);
    assert_fails(pawl_batch_check_next(*state, NULL, 1, sizeof(pawl_array), &err), PAWL_EUSAGE,
                 &err);
    assert_fails(pawl_batch_check_new(NULL, &err), PAWL_EUSAGE, &err);
    assert_int_equal(pawl_batch_check_next(*state, &one, 1, sizeof(pawl_array), NULL), PAWL_OK);
}

static pawl_status check_with_failing_memory(void *context, pawl_error *err) {
    (void)context;
    pawl_batch_check *check = NULL;
    TRY(pawl_batch_check_new(&check, err));
    pawl_status status = show(check, PAWL_F32, 4, images, err);
    if (status == PAWL_OK) {
        status = show(check, PAWL_F32, 4, images, err);
    }
    pawl_batch_check_free(check);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    (void)state;
    assert_true(failing_memory_each(check_with_failing_memory, NULL) > 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_batches_like_the_first_pass),
        TEST(test_j01_a_smaller_last_batch),
        TEST(test_a_refused_batch_counts),
        TEST(test_j02_another_shape_is_no_remainder),
        TEST(test_j02_another_rank),
        TEST(test_j02_another_dtype),
        TEST(test_j02_another_name),
        TEST(test_the_order_of_entries_does_not_matter),
        TEST(test_j02_f64_is_refused_in_the_first_batch),
        TEST(test_j02_what_is_no_array_is_refused),
        TEST(test_j02_text_and_ragged_entries_are_named),
        TEST(test_a_repeated_name_is_refused),
        TEST(test_the_signature_is_json_of_the_first_batch),
        TEST(test_null_pointers_are_refused),
        TEST(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
