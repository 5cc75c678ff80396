/* SPDX-License-Identifier: Apache-2.0 */
/* A failure that one rank tells the others arrives whole, or cut, never otherwise. */
#include "lib/test.h"

#include "ranks/ranks.h"

#include <errno.h>
#include <string.h>

static struct pawl_error whole_failure(void) {
    struct pawl_error failed = ERROR_INIT;
    error_sys(&failed, EIO, "cannot write %s", "a file");
    error_path(&failed, "/runs/a/step-00000300");
    error_entry(&failed, "model/kernel");
    error_expected(&failed, "4096 bytes");
    error_found(&failed, "512 bytes");
    error_safe(&failed, "step 200 is committed");
    error_next(&failed, "look at the disk");
    error_step(&failed, 300);
    error_range(&failed, 4096, 512);
    return failed;
}

static void test_a_failure_arrives_whole(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error failed = whole_failure();
    struct pawl_error told = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    assert_ok(failure_encode(&failed, SIZE_MAX, &bytes, &err), &err);
    assert_ok(failure_decode(bytes.data, bytes.size, &told, &err), &err);
    assert_int_equal(told.system_errno, EIO);
    assert_string_equal(error_json(&told), error_json(&failed));
}

static void test_the_longest_texts_are_cut_first(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error failed = whole_failure();
    struct pawl_error told = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    memset(failed.attempt, 'a', 1000);
    failed.attempt[1000] = '\0';
    assert_ok(failure_encode(&failed, 512, &bytes, &err), &err);
    assert_true(bytes.size <= 512);
    assert_ok(failure_decode(bytes.data, bytes.size, &told, &err), &err);
    assert_says(told.attempt, "aaa...");
    assert_string_equal(told.path, failed.path);
    assert_string_equal(told.next, failed.next);
}

static void test_what_is_no_text_becomes_question_marks(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error failed = whole_failure();
    struct pawl_error told = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    error_path(&failed, "/runs/\xff\xc3\xa9");
    assert_ok(failure_encode(&failed, SIZE_MAX, &bytes, &err), &err);
    assert_ok(failure_decode(bytes.data, bytes.size, &told, &err), &err);
    assert_string_equal(told.path, "/runs/?\xc3\xa9");
}

/* Cut anywhere, and with any byte more, it is refused. */
static void test_a_failure_that_is_not_whole_is_refused(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error failed = whole_failure();
    struct pawl_error told = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    assert_ok(failure_encode(&failed, SIZE_MAX, &bytes, &err), &err);
    for (size_t n = 0; n < bytes.size; n++) {
        assert_fails(failure_decode(bytes.data, n, &told, &err), PAWL_EDAMAGED, &err);
    }
    assert_ok(buffer_append(&bytes, "x", 1, &err), &err);
    assert_fails(failure_decode(bytes.data, bytes.size, &told, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(told.attempt, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failure_arrives_whole),
        cmocka_unit_test(test_the_longest_texts_are_cut_first),
        cmocka_unit_test(test_what_is_no_text_becomes_question_marks),
        cmocka_unit_test(test_a_failure_that_is_not_whole_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
