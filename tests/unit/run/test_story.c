/* SPDX-License-Identifier: Apache-2.0 */
/* A failure that one rank tells the others arrives whole, or cut, never otherwise. */
#include "lib/test.h"

#include "run/ranks.h"

#include <errno.h>
#include <string.h>

static struct pawl_error whole_story(void) {
    struct pawl_error story = ERROR_INIT;
    error_sys(&story, EIO, "cannot write %s", "a file");
    error_path(&story, "/runs/a/step-00000300");
    error_entry(&story, "model/kernel");
    error_expected(&story, "4096 bytes");
    error_found(&story, "512 bytes");
    error_safe(&story, "step 200 is committed");
    error_next(&story, "look at the disk");
    error_step(&story, 300);
    error_range(&story, 4096, 512);
    return story;
}

static void test_a_story_arrives_whole(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = whole_story();
    struct pawl_error told = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    assert_ok(story_encode(&story, SIZE_MAX, &bytes, &err), &err);
    assert_ok(story_decode(bytes.data, bytes.size, &told, &err), &err);
    assert_int_equal(told.system_errno, EIO);
    assert_string_equal(error_json(&told), error_json(&story));
}

static void test_the_longest_texts_are_cut_first(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = whole_story();
    struct pawl_error told = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    memset(story.attempt, 'a', 1000);
    story.attempt[1000] = '\0';
    assert_ok(story_encode(&story, 512, &bytes, &err), &err);
    assert_true(bytes.size <= 512);
    assert_ok(story_decode(bytes.data, bytes.size, &told, &err), &err);
    assert_says(told.attempt, "aaa...");
    assert_string_equal(told.path, story.path);
    assert_string_equal(told.next, story.next);
}

static void test_what_is_no_text_becomes_question_marks(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = whole_story();
    struct pawl_error told = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    error_path(&story, "/runs/\xff\xc3\xa9");
    assert_ok(story_encode(&story, SIZE_MAX, &bytes, &err), &err);
    assert_ok(story_decode(bytes.data, bytes.size, &told, &err), &err);
    assert_string_equal(told.path, "/runs/?\xc3\xa9");
}

/* Cut anywhere, and with any byte more, it is refused. */
static void test_a_story_that_is_not_whole_is_refused(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = whole_story();
    struct pawl_error told = ERROR_INIT;
    CLEANUP(buffer_free) buffer bytes = {0};
    assert_ok(story_encode(&story, SIZE_MAX, &bytes, &err), &err);
    for (size_t n = 0; n < bytes.size; n++) {
        assert_fails(story_decode(bytes.data, n, &told, &err), PAWL_EDAMAGED, &err);
    }
    assert_ok(buffer_append(&bytes, "x", 1, &err), &err);
    assert_fails(story_decode(bytes.data, bytes.size, &told, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(told.attempt, "");
}

static void test_the_story_of_a_rank_names_it_and_its_host(void **state) {
    (void)state;
    struct pawl_error story = whole_story();
    story_of_rank(&story, 3, "node7");
    assert_string_equal(story.attempt, "rank 3 (host node7): cannot write a file");
    story = whole_story();
    story_of_rank(&story, 3, "");
    assert_string_equal(story.attempt, "rank 3: cannot write a file");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_story_arrives_whole),
        cmocka_unit_test(test_the_longest_texts_are_cut_first),
        cmocka_unit_test(test_what_is_no_text_becomes_question_marks),
        cmocka_unit_test(test_a_story_that_is_not_whole_is_refused),
        cmocka_unit_test(test_the_story_of_a_rank_names_it_and_its_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
