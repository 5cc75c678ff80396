/* SPDX-License-Identifier: Apache-2.0 */
/* The table of element types against safetensors' own, and shapes. */
#include "lib/test.h"
#include "tensor/tensor.h"

#include <limits.h>
#include <string.h>

#define EXA ((int64_t)1 << 60)

/* As safetensors names and sizes them, in the order in which it sorts them. */
static const struct {
    const char *name;
    int bits;
    size_t alignment;
} wanted[] = {
    {"BOOL", 8, 1},    {"F4", 4, 1},          {"F6_E2M3", 6, 1},     {"F6_E3M2", 6, 1},
    {"U8", 8, 1},      {"I8", 8, 1},          {"F8_E5M2", 8, 1},     {"F8_E4M3", 8, 1},
    {"F8_E8M0", 8, 1}, {"F8_E4M3FNUZ", 8, 1}, {"F8_E5M2FNUZ", 8, 1}, {"I16", 16, 2},
    {"U16", 16, 2},    {"F16", 16, 2},        {"BF16", 16, 2},       {"I32", 32, 4},
    {"U32", 32, 4},    {"F32", 32, 4},        {"C64", 64, 8},        {"F64", 64, 8},
    {"I64", 64, 8},    {"U64", 64, 8},
};

static void test_every_dtype_has_its_name_width_and_alignment(void **state) {
    (void)state;
    assert_int_equal(ARRAY_LENGTH(wanted), PAWL_U64);
    for (int i = 1; i <= (int)PAWL_U64; i++) {
        pawl_dtype dtype = (pawl_dtype)i;
        assert_true(dtype_valid(dtype));
        assert_string_equal(pawl_dtype_name(dtype), wanted[i - 1].name);
        assert_int_equal(pawl_dtype_from_name(wanted[i - 1].name), dtype);
        assert_int_equal(pawl_dtype_bits(dtype), wanted[i - 1].bits);
        assert_int_equal(dtype_alignment(dtype), wanted[i - 1].alignment);
    }
}

static void test_numbers_that_are_no_dtype_have_nothing(void **state) {
    (void)state;
    static const int numbers[] = {0, 23, -1, INT_MAX, INT_MIN};
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        pawl_dtype dtype;
        memcpy(&dtype, &numbers[i], sizeof(dtype));
        assert_false(dtype_valid(dtype));
        assert_null(pawl_dtype_name(dtype));
        assert_int_equal(pawl_dtype_bits(dtype), 0);
        assert_false(dtype_castable(dtype));
    }
}

static void test_names_that_are_no_dtype_give_none(void **state) {
    (void)state;
    assert_int_equal(pawl_dtype_from_name("f32"), 0);
    assert_int_equal(pawl_dtype_from_name("F32 "), 0);
    assert_int_equal(pawl_dtype_from_name(""), 0);
    assert_int_equal(pawl_dtype_from_name(NULL), 0);
}

static void test_four_dtypes_can_be_cast(void **state) {
    (void)state;
    int castable = 0;
    for (int i = 1; i <= (int)PAWL_U64; i++) {
        castable += dtype_castable((pawl_dtype)i) ? 1 : 0;
    }
    assert_int_equal(castable, 4);
    assert_true(dtype_castable(PAWL_F64) && dtype_castable(PAWL_F32));
    assert_true(dtype_castable(PAWL_F16) && dtype_castable(PAWL_BF16));
}

/* ---- shapes --------------------------------------------------------------------------------- */

static void assert_counts(pawl_dtype dtype, int ndim, const int64_t *shape, uint64_t elements,
                          uint64_t bytes) {
    struct pawl_error err = ERROR_INIT;
    uint64_t got_elements = 99;
    uint64_t got_bytes = 99;
    assert_ok(shape_check(dtype, ndim, shape, &got_elements, &got_bytes, &err), &err);
    assert_true(got_elements == elements);
    assert_true(got_bytes == bytes);
    assert_true(shape_elements(ndim, shape) == elements);
    assert_true(shape_bytes(dtype, ndim, shape) == bytes);
    assert_ok(shape_check(dtype, ndim, shape, NULL, NULL, &err), &err);
}

static void test_shapes_are_counted(void **state) {
    (void)state;
    assert_counts(PAWL_F32, 2, (int64_t[]){64, 10}, 640, 2560);
    assert_counts(PAWL_F64, 0, NULL, 1, 8);
    assert_counts(PAWL_C64, 1, (int64_t[]){3}, 3, 24);
    assert_counts(PAWL_BF16, 3, (int64_t[]){2, 0, 7}, 0, 0);
    assert_counts(PAWL_BOOL, 1, (int64_t[]){7}, 7, 7);
    assert_counts(PAWL_F4, 2, (int64_t[]){3, 4}, 12, 6);
    assert_counts(PAWL_F6_E2M3, 1, (int64_t[]){8}, 8, 6);
    assert_counts(PAWL_F6_E3M2, 2, (int64_t[]){2, 2}, 4, 3);
    assert_counts(PAWL_F4, 1, (int64_t[]){0}, 0, 0);
}

static void test_most_dimensions_are_counted(void **state) {
    (void)state;
    int64_t shape[PAWL_MAX_NDIM];
    for (int i = 0; i < PAWL_MAX_NDIM; i++) {
        shape[i] = i < 20 ? 2 : 1;
    }
    assert_counts(PAWL_U8, PAWL_MAX_NDIM, shape, 1 << 20, 1 << 20);
}

static void test_largest_counts_are_2_to_the_62(void **state) {
    (void)state;
    assert_counts(PAWL_U8, 2, (int64_t[]){EXA, 4}, (uint64_t)1 << 62, (uint64_t)1 << 62);
    assert_counts(PAWL_F64, 1, (int64_t[]){EXA / 2}, (uint64_t)EXA / 2, (uint64_t)1 << 62);
    assert_counts(PAWL_F4, 2, (int64_t[]){EXA, 4}, (uint64_t)1 << 62, (uint64_t)1 << 61);
    assert_counts(PAWL_F6_E2M3, 2, (int64_t[]){EXA, 4}, (uint64_t)1 << 62, (uint64_t)3 << 60);
}

static void assert_refused_as(pawl_status status, pawl_dtype dtype, int ndim, const int64_t *shape,
                              const char *text) {
    struct pawl_error err = ERROR_INIT;
    uint64_t elements = 99;
    assert_fails(shape_check(dtype, ndim, shape, &elements, NULL, &err), status, &err);
    assert_status_text(&err, status, text);
    assert_int_equal(elements, 99);
}

static void assert_refused(pawl_dtype dtype, int ndim, const int64_t *shape, const char *text) {
    assert_refused_as(PAWL_EUSAGE, dtype, ndim, shape, text);
}

static void test_s15_negative_extent_is_refused(void **state) {
    (void)state;
    assert_refused(PAWL_F32, 2, (int64_t[]){64, -1},
                   "the shape cannot be used: an extent is negative\n  found:    [64, -1]");
    assert_refused(PAWL_F32, 2, (int64_t[]){0, INT64_MIN},
                   "the shape cannot be used: an extent is negative\n"
                   "  found:    [0, -9223372036854775808]");
}

static void test_s15_too_many_dimensions_are_refused(void **state) {
    (void)state;
    int64_t shape[PAWL_MAX_NDIM + 1] = {0};
    assert_refused_as(PAWL_ELIMIT, PAWL_F32, PAWL_MAX_NDIM + 1, shape,
                      "the shape cannot be used: it has too many dimensions\n"
                      "  expected: 0 to 32 dimensions (PAWL_MAX_NDIM)\n  found:    33");
}

static void test_s15_negative_number_of_dimensions_is_refused(void **state) {
    (void)state;
    assert_refused(PAWL_F32, -1, (int64_t[]){1},
                   "the shape cannot be used: its number of dimensions is negative\n"
                   "  expected: 0 to 32 dimensions (PAWL_MAX_NDIM)\n  found:    -1");
}

static void test_s15_shape_that_is_a_null_pointer_is_refused(void **state) {
    (void)state;
    assert_refused(PAWL_F32, 1, NULL, "the shape cannot be used: it is a null pointer");
}

static void test_s15_elements_that_overflow_are_refused(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {
        {EXA, 4, 2},
        {INT64_MAX, 1, 1},
        {INT64_MAX, INT64_MAX, INT64_MAX},
        {(int64_t)1 << 32, (int64_t)1 << 32, 1}, /* the product is 2^64: 0 in 64 bits */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(shapes); i++) {
        struct pawl_error err = ERROR_INIT;
        assert_fails(shape_check(PAWL_U8, 3, shapes[i], NULL, NULL, &err), PAWL_ELIMIT, &err);
        assert_string_equal(err.attempt,
                            "the shape cannot be used: it holds more than 2^62 elements or bytes");
    }
}

/* What such a shape would make of a data file, other readers of safetensors refuse. */
static void test_extents_that_overflow_before_the_zero_are_refused(void **state) {
    (void)state;
    assert_refused_as(
        PAWL_ELIMIT, PAWL_U8, 3, (int64_t[]){EXA, EXA, 0},
        "the shape cannot be used: its extents before the 0 multiply to more than 2^62, "
        "which a data file cannot say\n"
        "  found:    [1152921504606846976, 1152921504606846976, 0]");
}

static void test_an_extent_of_zero_makes_a_tensor_empty_however_large_the_others_are(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {
        {0, 5, INT64_MAX}, {EXA, 0, INT64_MAX}, {EXA, 4, 0}, {0, 0, 0}};
    for (size_t i = 0; i < ARRAY_LENGTH(shapes); i++) {
        for (int dtype = PAWL_BOOL; dtype <= PAWL_U64; dtype++) {
            struct pawl_error err = ERROR_INIT;
            uint64_t elements = 9, bytes = 9;
            assert_ok(shape_check((pawl_dtype)dtype, 3, shapes[i], &elements, &bytes, &err), &err);
            assert_int_equal(elements, 0);
            assert_int_equal(bytes, 0);
            assert_int_equal(shape_bytes((pawl_dtype)dtype, 3, shapes[i]), 0);
        }
    }
}

static void test_s15_bytes_that_overflow_are_refused(void **state) {
    (void)state;
    assert_refused_as(PAWL_ELIMIT, PAWL_F64, 1, (int64_t[]){EXA},
                      "the shape cannot be used: it holds more than 2^62 elements or bytes\n"
                      "  found:    [1152921504606846976]");
}

static void test_s15_elements_that_do_not_fill_bytes_are_refused(void **state) {
    (void)state;
    assert_refused(PAWL_F4, 1, (int64_t[]){7},
                   "the shape cannot be used: its elements do not fill whole bytes\n"
                   "  expected: a multiple of 2 elements of F4\n  found:    [7]");
    assert_refused(PAWL_F6_E3M2, 1, (int64_t[]){6},
                   "the shape cannot be used: its elements do not fill whole bytes\n"
                   "  expected: a multiple of 4 elements of F6_E3M2\n  found:    [6]");
    assert_refused(PAWL_F4, 0, NULL,
                   "the shape cannot be used: its elements do not fill whole bytes\n"
                   "  expected: a multiple of 2 elements of F4\n  found:    []");
}

static void test_s15_number_that_is_no_dtype_is_refused(void **state) {
    (void)state;
    assert_refused((pawl_dtype)0, 1, (int64_t[]){1},
                   "the dtype is unknown\n"
                   "  expected: a pawl_dtype, 1 (BOOL) to 22 (U64)\n  found:    0");
}

static void test_shapes_are_equal_by_rank_and_extents(void **state) {
    (void)state;
    assert_true(shape_equal(2, (int64_t[]){2, 3}, 2, (int64_t[]){2, 3}));
    assert_false(shape_equal(2, (int64_t[]){2, 3}, 2, (int64_t[]){3, 2}));
    assert_false(shape_equal(1, (int64_t[]){2}, 2, (int64_t[]){2, 1}));
    assert_true(shape_equal(0, NULL, 0, NULL));
}

static void test_shape_reads_as_a_list(void **state) {
    (void)state;
    char out[64];
    assert_string_equal(shape_text(out, sizeof(out), 2, (int64_t[]){64, 10}), "[64, 10]");
    assert_string_equal(shape_text(out, sizeof(out), 1, (int64_t[]){-5}), "[-5]");
    assert_string_equal(shape_text(out, sizeof(out), 0, NULL), "[]");
}

static void test_shape_too_long_for_its_room_is_cut(void **state) {
    (void)state;
    char out[12];
    int64_t shape[PAWL_MAX_NDIM];
    for (int i = 0; i < PAWL_MAX_NDIM; i++) {
        shape[i] = INT64_MIN;
    }
    assert_string_equal(shape_text(out, sizeof(out), PAWL_MAX_NDIM, shape), "[-922337...");
    assert_string_equal(shape_text(out, sizeof(out), 3, (int64_t[]){100, 20, 3}), "[100, 20...");
    assert_string_equal(shape_text(out, sizeof(out), 3, (int64_t[]){10, 20, 3}), "[10, 20, 3]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_dtype_has_its_name_width_and_alignment),
        cmocka_unit_test(test_numbers_that_are_no_dtype_have_nothing),
        cmocka_unit_test(test_names_that_are_no_dtype_give_none),
        cmocka_unit_test(test_four_dtypes_can_be_cast),
        cmocka_unit_test(test_shapes_are_counted),
        cmocka_unit_test(test_most_dimensions_are_counted),
        cmocka_unit_test(test_largest_counts_are_2_to_the_62),
        cmocka_unit_test(test_s15_negative_extent_is_refused),
        cmocka_unit_test(test_s15_too_many_dimensions_are_refused),
        cmocka_unit_test(test_s15_negative_number_of_dimensions_is_refused),
        cmocka_unit_test(test_s15_shape_that_is_a_null_pointer_is_refused),
        cmocka_unit_test(test_s15_elements_that_overflow_are_refused),
        cmocka_unit_test(test_extents_that_overflow_before_the_zero_are_refused),
        cmocka_unit_test(test_an_extent_of_zero_makes_a_tensor_empty_however_large_the_others_are),
        cmocka_unit_test(test_s15_bytes_that_overflow_are_refused),
        cmocka_unit_test(test_s15_elements_that_do_not_fill_bytes_are_refused),
        cmocka_unit_test(test_s15_number_that_is_no_dtype_is_refused),
        cmocka_unit_test(test_shapes_are_equal_by_rank_and_extents),
        cmocka_unit_test(test_shape_reads_as_a_list),
        cmocka_unit_test(test_shape_too_long_for_its_room_is_cut),
    };
    return cmocka_run_group_tests_name("tensor dtype", tests, NULL, NULL);
}
