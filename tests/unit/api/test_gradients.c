/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients against variables (J05), and the data position after a restore (J06). */
#include "lib/test.h"

#include <pawl/pawl.h>

#include <math.h>
#include <string.h>

static const int64_t matrix[] = {2, 3};
static float values[6] = {1, 2, 3, 4, 5, 6};

static pawl_array array_of(const char *name, pawl_dtype dtype, int ndim, const int64_t *shape,
                           const void *data) {
    return (pawl_array){.name = name, .dtype = dtype, .ndim = ndim, .shape = shape, .data = data};
}

static pawl_array good(const char *name) {
    return array_of(name, PAWL_F32, 2, matrix, values);
}

static pawl_status check_one(pawl_array gradient, pawl_error *err) {
    pawl_array variable = good("dense/kernel");
    return pawl_check_gradients(&variable, 1, &gradient, 1, sizeof(pawl_array), err);
}

static void test_what_fits_passes(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    const pawl_array variables[] = {good("a"), good("b")};
    const pawl_array gradients[] = {good("a"), good("b")};
    assert_ok(pawl_check_gradients(variables, 2, gradients, 2, sizeof(pawl_array), &err), &err);
    assert_ok(pawl_check_gradients(NULL, 0, NULL, 0, sizeof(pawl_array), &err), &err);
}

static void test_j05_a_variable_without_gradient(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    const pawl_array variables[] = {good("a"), good("b")};
    const pawl_array gradients[] = {good("b")};
    assert_fails(pawl_check_gradients(variables, 2, gradients, 1, sizeof(pawl_array), &err),
                 PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt, "the variable `a` has no gradient");
    assert_string_equal(err.entry, "a");
    assert_string_equal(err.expected, "2 gradients for 2 variables");
    assert_string_equal(err.found, "1 gradient");
}

static void test_j05_a_gradient_without_variable(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    const pawl_array variables[] = {good("a")};
    const pawl_array gradients[] = {good("a"), good("b")};
    assert_fails(pawl_check_gradients(variables, 1, gradients, 2, sizeof(pawl_array), &err),
                 PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt, "the gradient of `b` has no variable");
}

static void test_j05_a_repeated_name(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    const pawl_array variables[] = {good("a")};
    const pawl_array gradients[] = {good("a"), good("a")};
    assert_fails(pawl_check_gradients(variables, 1, gradients, 2, sizeof(pawl_array), &err),
                 PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt, "2 gradients for 1 variable: a name is repeated");
}

static void test_j05_another_order(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    const pawl_array variables[] = {good("a"), good("b")};
    const pawl_array gradients[] = {good("b"), good("a")};
    assert_fails(pawl_check_gradients(variables, 2, gradients, 2, sizeof(pawl_array), &err),
                 PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt, "gradient 0 is that of `b`, variable 0 is `a`");
    assert_string_equal(err.next, "bring both lists into the same order");
}

static void test_j05_another_shape(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    const int64_t turned[] = {3, 2};
    assert_fails(check_one(array_of("dense/kernel", PAWL_F32, 2, turned, values), &err),
                 PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt,
                        "the gradient of `dense/kernel` has shape [3, 2], the variable [2, 3]");
    assert_string_equal(err.entry, "dense/kernel");
    assert_string_equal(err.expected, "F32 [2, 3], as the variable");
    assert_string_equal(err.found, "F32 [3, 2]");
}

static void test_j05_another_dtype(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(check_one(array_of("dense/kernel", PAWL_BF16, 2, matrix, values), &err),
                 PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt,
                        "the gradient of `dense/kernel` has dtype BF16, the variable F32");
    assert_string_equal(err.next, "convert the gradient before it is applied");
}

static void test_j05_a_missing_gradient(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(check_one(array_of("dense/kernel", PAWL_F32, 2, matrix, NULL), &err),
                 PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt,
                        "the gradient of `dense/kernel` is missing: it is a null pointer");
    assert_string_equal(err.found, "a null pointer");
}

static void test_j05_nan_is_refused(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    float bad[6] = {1, 2, 3, 4, NAN, NAN};
    assert_fails(check_one(array_of("dense/kernel", PAWL_F32, 2, matrix, bad), &err),
                 PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt,
                        "the gradient of `dense/kernel` is not finite: NaN at element 4");
    assert_string_equal(err.expected, "6 finite elements");
    assert_string_equal(err.found, "2 NaN, 0 infinite");
}

static void test_j05_infinity_is_refused(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    float bad[6] = {1, -INFINITY, 3, 4, NAN, 6};
    assert_fails(check_one(array_of("dense/kernel", PAWL_F32, 2, matrix, bad), &err),
                 PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt, "the gradient of `dense/kernel` is not finite: NaN and "
                                     "infinity, first at element 1");
    assert_string_equal(err.found, "1 NaN, 1 infinite");
}

/* One element of each dtype, as bits: what it is. */
static void test_j05_every_float_dtype(void **state) {
    (void)state;
    static const struct {
        pawl_dtype dtype;
        uint64_t bits;
        bool finite;
    } elements[] = {
        {PAWL_F64, 0x7ff0000000000000u, false},
        {PAWL_F64, 0x7ff0000000000001u, false},
        {PAWL_F64, 0x7fefffffffffffffu, true},
        {PAWL_F32, 0xff800000u, false},
        {PAWL_F32, 0x7f7fffffu, true},
        {PAWL_F16, 0x7c00u, false},
        {PAWL_F16, 0xfe01u, false},
        {PAWL_F16, 0x7bffu, true},
        {PAWL_BF16, 0x7f80u, false},
        {PAWL_BF16, 0x7f7fu, true},
        {PAWL_F8_E5M2, 0x7cu, false},
        {PAWL_F8_E5M2, 0xfdu, false},
        {PAWL_F8_E5M2, 0x7bu, true},
        {PAWL_F8_E4M3, 0x7fu, false},
        {PAWL_F8_E4M3, 0xffu, false},
        {PAWL_F8_E4M3, 0x7eu, true},
        {PAWL_F8_E8M0, 0xffu, false},
        {PAWL_F8_E8M0, 0x7fu, true},
        {PAWL_F8_E4M3FNUZ, 0x80u, false},
        {PAWL_F8_E4M3FNUZ, 0xffu, true},
        {PAWL_F8_E5M2FNUZ, 0x80u, false},
        {PAWL_F8_E5M2FNUZ, 0x7fu, true},
        {PAWL_C64, 0x7f80000000000000u, false},
        {PAWL_C64, 0x0000000000000000u, true},
        {PAWL_I64, 0xffffffffffffffffu, true},
        {PAWL_U8, 0xffu, true},
        {PAWL_BOOL, 1u, true},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(elements); i++) {
        struct pawl_error err = ERROR_INIT;
        pawl_array a = array_of("x", elements[i].dtype, 0, NULL, &elements[i].bits);
        pawl_status status = pawl_check_gradients(&a, 1, &a, 1, sizeof(pawl_array), &err);
        assert_int_equal(status, elements[i].finite ? PAWL_OK : PAWL_EMISMATCH);
    }
}

static void test_bad_arrays_are_the_callers_fault(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(check_one(array_of(NULL, PAWL_F32, 2, matrix, values), &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "gradient 0 has no name");
    assert_fails(check_one(array_of("x", PAWL_F32, 2, NULL, values), &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "gradient `x` has no shape");
    assert_fails(check_one(array_of("x", PAWL_F32, 99, matrix, values), &err), PAWL_ELIMIT, &err);
    assert_int_equal(pawl_check_gradients(NULL, 1, NULL, 1, sizeof(pawl_array), NULL), PAWL_EUSAGE);
}

/* ---- J06 ---- */

static void test_j06_the_data_position(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    pawl_state *trainer = NULL;
    assert_ok(pawl_state_new(&trainer, &err), &err);
    assert_ok(pawl_state_set_int64(trainer, "data/position", PAWL_ROLE_DATA_POSITION, 1280, &err),
              &err);
    assert_ok(pawl_check_data_position(trainer, "data/position", 1280, &err), &err);
    assert_fails(pawl_check_data_position(trainer, "data/position", 0, &err), PAWL_EMISMATCH, &err);
    assert_string_equal(err.attempt, "the checkpoint was saved at data position 1280, the loader "
                                     "stands at 0");
    assert_string_equal(err.entry, "data/position");
    assert_string_equal(err.expected, "1280, as restored");
    assert_string_equal(err.found, "0");
    assert_string_equal(err.next, "move the loader on to 1280 before training goes on, or examples "
                                  "are seen twice");
    assert_fails(pawl_check_data_position(trainer, "data/position", 2000, &err), PAWL_EMISMATCH,
                 &err);
    assert_string_equal(err.next, "move the loader back to 1280 before training goes on, or "
                                  "examples are left out");
    assert_fails(pawl_check_data_position(trainer, "other", 0, &err), PAWL_ENOTFOUND, &err);
    pawl_state_free(trainer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fits_passes),
        cmocka_unit_test(test_j05_a_variable_without_gradient),
        cmocka_unit_test(test_j05_a_gradient_without_variable),
        cmocka_unit_test(test_j05_a_repeated_name),
        cmocka_unit_test(test_j05_another_order),
        cmocka_unit_test(test_j05_another_shape),
        cmocka_unit_test(test_j05_another_dtype),
        cmocka_unit_test(test_j05_a_missing_gradient),
        cmocka_unit_test(test_j05_nan_is_refused),
        cmocka_unit_test(test_j05_infinity_is_refused),
        cmocka_unit_test(test_j05_every_float_dtype),
        cmocka_unit_test(test_bad_arrays_are_the_callers_fault),
        cmocka_unit_test(test_j06_the_data_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
