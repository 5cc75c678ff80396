/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_group_discover, and groups in options, as callers of other versions hand them in. */
#include "lib/test.h"

#include <pawl/pawl.h>

#include <string.h>

static const char *const environment[] = {"PMI_RANK=1", "PMI_SIZE=2", "PMI_JOBID=7", NULL};

static void test_nothing_is_refused(void **state) {
    (void)state;
    pawl_group_found found = {.struct_size = sizeof found};
    pawl_error *err = pawl_error_new();
    assert_int_equal(pawl_group_discover(NULL, &found, NULL), PAWL_EUSAGE);
    assert_int_equal(pawl_group_discover(environment, NULL, err), PAWL_EUSAGE);
    assert_says(pawl_error_get(err, PAWL_ERROR_ATTEMPT),
                "pawl_group_discover: found is a null pointer");
    found.struct_size = 0;
    assert_int_equal(pawl_group_discover(environment, &found, err), PAWL_EUSAGE);
    assert_says(pawl_error_get(err, PAWL_ERROR_ATTEMPT),
                "struct_size of pawl_group_found is not set");
    pawl_error_free(err);
}

static void test_an_environment_is_read(void **state) {
    (void)state;
    pawl_group_found found = {.struct_size = sizeof found};
    assert_int_equal(pawl_group_discover(environment, &found, NULL), PAWL_OK);
    assert_int_equal(found.struct_size, sizeof found);
    assert_int_equal(found.rank, 1);
    assert_int_equal(found.world_size, 2);
    assert_string_equal(found.source, "PMI");
    assert_string_equal(found.launch, "PMI:7:-");
}

static void test_an_older_struct_is_filled_as_far_as_it_goes(void **state) {
    (void)state;
    pawl_group_found found = {.struct_size = sizeof found};
    memset(&found, 'x', sizeof found);
    found.struct_size = offsetof(pawl_group_found, launch);
    assert_int_equal(pawl_group_discover(environment, &found, NULL), PAWL_OK);
    assert_int_equal(found.struct_size, offsetof(pawl_group_found, launch));
    assert_string_equal(found.source, "PMI");
    assert_int_equal(found.local_rank, -1);
    assert_int_equal(found.launch[0], 'x');
}

static void test_a_failure_leaves_what_was_there(void **state) {
    (void)state;
    static const char *const bad[] = {"PMI_RANK=x", NULL};
    pawl_group_found found = {.struct_size = sizeof found, .rank = 77};
    assert_int_equal(pawl_group_discover(bad, &found, NULL), PAWL_EUSAGE);
    assert_int_equal(found.rank, 77);
}

static void test_a_group_without_its_size_opens_no_run(void **state) {
    (void)state;
    const pawl_group group = {.world_size = 1};
    const pawl_run_options options = {.struct_size = sizeof options, .group = &group};
    pawl_error *err = pawl_error_new();
    pawl_run *run = NULL;
    assert_int_equal(pawl_run_open("nowhere/at/all", &options, &run, err), PAWL_EUSAGE);
    assert_says(pawl_error_get(err, PAWL_ERROR_ATTEMPT), "struct_size of pawl_group is not set");
    assert_null(run);
    pawl_error_free(err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_refused),
        cmocka_unit_test(test_an_environment_is_read),
        cmocka_unit_test(test_an_older_struct_is_filled_as_far_as_it_goes),
        cmocka_unit_test(test_a_failure_leaves_what_was_there),
        cmocka_unit_test(test_a_group_without_its_size_opens_no_run),
    };
    return cmocka_run_group_tests_name("group", tests, NULL, NULL);
}
