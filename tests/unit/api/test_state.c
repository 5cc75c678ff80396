/* SPDX-License-Identifier: Apache-2.0 */
/* The public calls of a state: values there and back, and what callers get wrong. */
#include "lib/test.h"

#include <pawl/pawl.h>

#include <string.h>

static int set_up(void **state) {
    pawl_state *trainer = NULL;
    assert_int_equal(pawl_state_new(&trainer, NULL), PAWL_OK);
    *state = trainer;
    return 0;
}

static int tear_down(void **state) {
    pawl_state_free(*state);
    return 0;
}

static void test_values_come_back(void **state) {
    pawl_state *s = *state;
    struct pawl_error err = ERROR_INIT;
    int flag = 0;
    int64_t integer = 0;
    double number = 0;
    const char *text = NULL;
    const void *bytes = NULL;
    size_t size = 0;
    assert_ok(pawl_state_set_bool(s, "flag", PAWL_ROLE_OTHER, 7, &err), &err);
    assert_ok(pawl_state_set_int64(s, "step", PAWL_ROLE_STEP, INT64_MIN, &err), &err);
    assert_ok(pawl_state_set_float64(s, "rate", PAWL_ROLE_HYPERPARAMETER, -0.5, &err), &err);
    assert_ok(pawl_state_set_string(s, "class", PAWL_ROLE_HYPERPARAMETER, "adam", &err), &err);
    assert_ok(pawl_state_set_json(s, "position", PAWL_ROLE_DATA_POSITION, "{\"a\":[1]}", &err),
              &err);
    assert_ok(pawl_state_set_bytes(s, "bytes", PAWL_ROLE_OTHER, "a\0b", 3, &err), &err);
    assert_ok(pawl_state_set_rank_bytes(s, "rng", PAWL_ROLE_RNG, NULL, 0, &err), &err);
    assert_int_equal(pawl_state_count(s), 7);
    assert_ok(pawl_state_get_bool(s, "flag", &flag, &err), &err);
    assert_int_equal(flag, 1);
    assert_ok(pawl_state_get_int64(s, "step", &integer, &err), &err);
    assert_true(integer == INT64_MIN);
    assert_ok(pawl_state_get_float64(s, "rate", &number, &err), &err);
    assert_true(number == -0.5);
    assert_ok(pawl_state_get_string(s, "class", &text, &err), &err);
    assert_string_equal(text, "adam");
    assert_ok(pawl_state_get_string(s, "position", &text, &err), &err);
    assert_string_equal(text, "{\"a\":[1]}");
    assert_ok(pawl_state_get_bytes(s, "bytes", &bytes, &size, &err), &err);
    assert_int_equal(size, 3);
    assert_memory_equal(bytes, "a\0b", 3);
    assert_ok(pawl_state_get_bytes(s, "rng", &bytes, &size, &err), &err);
    assert_int_equal(size, 0);
}

static void test_another_kind_is_refused(void **state) {
    pawl_state *s = *state;
    struct pawl_error err = ERROR_INIT;
    double number;
    const char *text;
    assert_ok(pawl_state_set_int64(s, "step", PAWL_ROLE_STEP, 1, &err), &err);
    assert_fails(pawl_state_get_float64(s, "step", &number, &err), PAWL_EUSAGE, &err);
    assert_fails(pawl_state_get_string(s, "step", &text, &err), PAWL_EUSAGE, &err);
    assert_fails(pawl_state_get_string(s, "none", &text, &err), PAWL_ENOTFOUND, &err);
}

static void test_what_is_removed_is_gone(void **state) {
    pawl_state *s = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(pawl_state_set_int64(s, "step", PAWL_ROLE_STEP, 1, &err), &err);
    assert_ok(pawl_state_remove(s, "step", &err), &err);
    assert_int_equal(pawl_state_count(s), 0);
    assert_fails(pawl_state_remove(s, "step", &err), PAWL_ENOTFOUND, &err);
}

static void test_null_pointers_are_named(void **state) {
    pawl_state *s = *state;
    struct pawl_error err = ERROR_INIT;
    int64_t integer;
    const void *bytes;
    size_t size;
    assert_fails(pawl_state_set_int64(NULL, "a", PAWL_ROLE_OTHER, 1, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "pawl_state_set_int64: state is a null pointer");
    assert_fails(pawl_state_set_int64(s, NULL, PAWL_ROLE_OTHER, 1, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "pawl_state_set_int64: name is a null pointer");
    assert_fails(pawl_state_set_string(s, "a", PAWL_ROLE_OTHER, NULL, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "pawl_state_set_string: value is a null pointer");
    assert_fails(pawl_state_set_json(s, "a", PAWL_ROLE_OTHER, NULL, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "pawl_state_set_json: json is a null pointer");
    assert_fails(pawl_state_set_bytes(s, "a", PAWL_ROLE_OTHER, NULL, 1, &err), PAWL_EUSAGE, &err);
    assert_fails(pawl_state_get_int64(s, "a", NULL, &err), PAWL_EUSAGE, &err);
    assert_fails(pawl_state_get_int64(NULL, "a", &integer, &err), PAWL_EUSAGE, &err);
    assert_fails(pawl_state_get_string(NULL, NULL, NULL, &err), PAWL_EUSAGE, &err);
    assert_fails(pawl_state_get_bool(s, "a", NULL, &err), PAWL_EUSAGE, &err);
    assert_fails(pawl_state_get_bytes(s, "a", NULL, &size, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "pawl_state_get_bytes: value is a null pointer");
    assert_fails(pawl_state_get_bytes(s, "a", &bytes, NULL, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "pawl_state_get_bytes: size is a null pointer");
    assert_fails(pawl_state_remove(s, NULL, &err), PAWL_EUSAGE, &err);
    assert_fails(pawl_state_add_tensor(s, NULL, &err), PAWL_EUSAGE, &err);
    assert_int_equal(pawl_state_count(NULL), 0);
    pawl_state_free(NULL);
}

/* ---- structs of other versions ---- */

static void test_a_struct_without_its_size_is_refused(void **state) {
    struct pawl_error err = ERROR_INIT;
    const pawl_tensor tensor = {.name = "a", .dtype = PAWL_U8};
    assert_fails(pawl_state_add_tensor(*state, &tensor, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt,
                        "pawl_state_add_tensor: struct_size of pawl_tensor is not set");
    assert_string_equal(err.expected, "sizeof(pawl_tensor)");
    assert_string_equal(err.found, "0");
    assert_string_equal(err.next, "begin with: pawl_tensor it = {.struct_size = sizeof it};");
}

typedef struct newer_tensor {
    pawl_tensor known;
    int64_t unknown;
} newer_tensor;

static newer_tensor tensor_of_tomorrow(void *data) {
    newer_tensor tensor = {
        .known = {
            .struct_size = sizeof(newer_tensor), .name = "a", .dtype = PAWL_U8, .data = data}};
    return tensor;
}

static void test_a_newer_struct_is_taken_while_the_new_is_zero(void **state) {
    struct pawl_error err = ERROR_INIT;
    uint8_t data = 0;
    newer_tensor tensor = tensor_of_tomorrow(&data);
    assert_ok(pawl_state_add_tensor(*state, &tensor.known, &err), &err);
}

static void test_a_newer_struct_is_refused_when_the_new_is_set(void **state) {
    struct pawl_error err = ERROR_INIT;
    uint8_t data = 0;
    newer_tensor tensor = tensor_of_tomorrow(&data);
    tensor.unknown = 1;
    assert_fails(pawl_state_add_tensor(*state, &tensor.known, &err), PAWL_EUNSUPPORTED, &err);
    assert_string_equal(err.attempt, "pawl_state_add_tensor: pawl_tensor has a field set that this "
                                     "library does not know");
    assert_says(err.next, "the program was compiled with a newer pawl than the " PAWL_VERSION);
}

static void test_an_older_struct_has_zero_for_what_it_lacks(void **state) {
    struct pawl_error err = ERROR_INIT;
    uint8_t data = 0;
    pawl_tensor tensor = {.name = "a", .dtype = PAWL_U8, .data = &data};
    tensor.struct_size = offsetof(pawl_tensor, replicated);
    tensor.role = PAWL_ROLE_SLOT; /* not there yet for this caller: no slot_of is asked for */
    assert_ok(pawl_state_add_tensor(*state, &tensor, &err), &err);
    tensor = (pawl_tensor){.name = "b", .dtype = PAWL_U8, .data = &data, .replica = 7};
    tensor.struct_size = offsetof(pawl_tensor, replica);
    assert_ok(pawl_state_add_tensor(*state, &tensor, &err), &err);
}

/* ---- many tensors ---- */

static void test_elements_have_one_struct_size(void **state) {
    struct pawl_error err = ERROR_INIT;
    uint8_t data = 0;
    newer_tensor two[] = {tensor_of_tomorrow(&data), tensor_of_tomorrow(&data)};
    two[1].known.name = "b";
    assert_ok(pawl_state_add_tensors(*state, &two[0].known, 2, &err), &err);
    assert_ok(pawl_state_update_tensors(*state, &two[0].known, 2, &err), &err);
    assert_int_equal(pawl_state_count(*state), 2);
    two[1].known.struct_size = sizeof(pawl_tensor);
    assert_fails(pawl_state_update_tensors(*state, &two[0].known, 2, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "pawl_state_update_tensors: struct_size of tensors[1] is not "
                                     "that of tensors[0]");
    two[1].known.struct_size = sizeof(newer_tensor);
    two[1].unknown = 1;
    assert_fails(pawl_state_add_tensors(*state, &two[0].known, 2, &err), PAWL_EUNSUPPORTED, &err);
    two[0].known.struct_size = 0;
    assert_fails(pawl_state_add_tensors(*state, &two[0].known, 2, &err), PAWL_EUSAGE, &err);
    assert_says(err.attempt, "struct_size of pawl_tensor is not set");
}

static void test_no_count_overflows(void **state) {
    struct pawl_error err = ERROR_INIT;
    uint8_t data = 0;
    const pawl_tensor tensor = {
        .struct_size = sizeof tensor, .name = "a", .dtype = PAWL_U8, .data = &data};
    const size_t counts[] = {SIZE_MAX, SIZE_MAX / sizeof tensor + 2, SIZE_MAX / 2};
    for (size_t i = 0; i < ARRAY_LENGTH(counts); i++) {
        assert_fails(pawl_state_add_tensors(*state, &tensor, counts[i], &err), PAWL_EUSAGE, &err);
        assert_string_equal(err.attempt,
                            "pawl_state_add_tensors: no memory can hold so many tensors");
    }
    assert_ok(pawl_state_add_tensors(*state, NULL, 0, &err), &err);
    assert_ok(pawl_state_update_tensors(*state, NULL, 0, &err), &err);
    assert_int_equal(pawl_state_count(*state), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_values_come_back),
        TEST(test_another_kind_is_refused),
        TEST(test_what_is_removed_is_gone),
        TEST(test_null_pointers_are_named),
        TEST(test_a_struct_without_its_size_is_refused),
        TEST(test_a_newer_struct_is_taken_while_the_new_is_zero),
        TEST(test_a_newer_struct_is_refused_when_the_new_is_set),
        TEST(test_an_older_struct_has_zero_for_what_it_lacks),
        TEST(test_elements_have_one_struct_size),
        TEST(test_no_count_overflows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
