/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's error: filled by failures only, NULL where nobody asks, and its parts. */
#include "lib/test.h"

#include <pawl/pawl.h>

#include <string.h>

static void test_a_new_error_tells_nothing(void **state) {
    (void)state;
    pawl_error *err = pawl_error_new();
    assert_non_null(err);
    assert_int_equal(pawl_error_status(err), PAWL_OK);
    assert_int_equal(pawl_error_errno(err), 0);
    assert_int_equal(pawl_error_step(err), -1);
    assert_int_equal(pawl_error_range(err, NULL, NULL), 0);
    for (int part = PAWL_ERROR_ATTEMPT; part <= PAWL_ERROR_NEXT; part++) {
        assert_null(pawl_error_get(err, (pawl_error_part)part));
    }
    pawl_error_free(err);
}

static void test_no_error_is_asked_like_an_empty_one(void **state) {
    (void)state;
    assert_int_equal(pawl_error_status(NULL), PAWL_OK);
    assert_int_equal(pawl_error_errno(NULL), 0);
    assert_int_equal(pawl_error_step(NULL), -1);
    assert_int_equal(pawl_error_range(NULL, NULL, NULL), 0);
    assert_null(pawl_error_get(NULL, PAWL_ERROR_ATTEMPT));
    assert_string_equal(pawl_error_text(NULL), "");
    assert_string_equal(pawl_error_json(NULL), "{}");
    pawl_error_free(NULL);
}

static void test_a_failure_fills_it(void **state) {
    (void)state;
    pawl_error *err = pawl_error_new();
    pawl_catalog *catalog = NULL;
    assert_int_equal(pawl_catalog_open("/no/such/run", NULL, &catalog, err), PAWL_ENOTFOUND);
    assert_null(catalog);
    assert_int_equal(pawl_error_status(err), PAWL_ENOTFOUND);
    assert_string_equal(pawl_error_get(err, PAWL_ERROR_ATTEMPT),
                        "the path \"/no/such/run\": there is no such directory");
    assert_string_equal(pawl_error_get(err, PAWL_ERROR_PATH), "/no/such/run");
    assert_null(pawl_error_get(err, PAWL_ERROR_ENTRY));
    assert_string_equal(pawl_error_get(err, PAWL_ERROR_EXPECTED), "a directory");
    assert_string_equal(pawl_error_get(err, PAWL_ERROR_FOUND),
                        "/ exists, but there is no no in it");
    assert_non_null(pawl_error_get(err, PAWL_ERROR_NEXT));
    assert_says(pawl_error_text(err), "\n  path:     /no/such/run\n");
    assert_says(pawl_error_json(err), "\"/no/such/run\"");
    pawl_error_free(err);
}

static void test_a_success_leaves_it_alone(void **state) {
    (void)state;
    pawl_error *err = pawl_error_new();
    pawl_state *trainer = NULL;
    assert_int_equal(pawl_state_new(NULL, err), PAWL_EUSAGE);
    assert_int_equal(pawl_state_new(&trainer, err), PAWL_OK);
    assert_int_equal(pawl_error_status(err), PAWL_EUSAGE);
    assert_string_equal(pawl_error_get(err, PAWL_ERROR_ATTEMPT),
                        "pawl_state_new: state is a null pointer");
    pawl_state_free(trainer);
    pawl_error_free(err);
}

static void test_the_status_is_returned_without_an_error(void **state) {
    (void)state;
    pawl_checkpoint *checkpoint = NULL;
    assert_int_equal(pawl_checkpoint_open("/no/such/run", NULL, &checkpoint, NULL), PAWL_ENOTFOUND);
    assert_null(checkpoint);
}

static void test_a_range_is_told(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    uint64_t offset = 0;
    uint64_t length = 0;
    error_range(&err, 5, 7);
    assert_int_equal(pawl_error_range(&err, &offset, &length), 1);
    assert_int_equal(offset, 5);
    assert_int_equal(length, 7);
    assert_int_equal(pawl_error_range(&err, NULL, NULL), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_error_tells_nothing),
        cmocka_unit_test(test_no_error_is_asked_like_an_empty_one),
        cmocka_unit_test(test_a_failure_fills_it),
        cmocka_unit_test(test_a_success_leaves_it_alone),
        cmocka_unit_test(test_the_status_is_returned_without_an_error),
        cmocka_unit_test(test_a_range_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
