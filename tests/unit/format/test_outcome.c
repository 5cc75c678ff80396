/* SPDX-License-Identifier: Apache-2.0 */
/* How a save of many ranks ended, as a file: both ways, and what is refused. */
#include "lib/test.h"

#include "format/outcome.h"

#include <string.h>

static void encode(save_end end, const char *story, buffer *out) {
    struct pawl_error err = ERROR_INIT;
    const save_outcome o = {
        .end = end, .step = 7, .story = (const uint8_t *)story, .story_bytes = strlen(story)};
    assert_ok(outcome_encode(&o, out, &err), &err);
}

static void test_what_was_written_is_read(void **state) {
    (void)state;
    static const char *const stories[] = {"", "rank 3 failed", "nobody knows"};
    for (int end = SAVE_END_COMMITTED; end <= SAVE_END_UNKNOWN; end++) {
        CLEANUP(buffer_free) buffer bytes = {0};
        struct pawl_error err = ERROR_INIT;
        save_outcome o;
        encode((save_end)end, stories[end - 1], &bytes);
        assert_ok(outcome_decode(bytes.data, bytes.size, &o, &err), &err);
        assert_int_equal(o.end, end);
        assert_int_equal(o.step, 7);
        assert_int_equal(o.story_bytes, strlen(stories[end - 1]));
        assert_memory_equal(o.story, stories[end - 1], o.story_bytes);
    }
}

static void test_every_changed_or_missing_byte_is_noticed(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer bytes = {0};
    encode(SAVE_END_FAILED, "rank 3 failed", &bytes);
    for (size_t i = 0; i < bytes.size; i++) {
        struct pawl_error err = ERROR_INIT;
        save_outcome o;
        bytes.data[i] ^= 1;
        assert_int_not_equal(outcome_decode(bytes.data, bytes.size, &o, &err), PAWL_OK);
        bytes.data[i] ^= 1;
        assert_fails(outcome_decode(bytes.data, i, &o, &err), PAWL_EDAMAGED, &err);
    }
}

/* Neither written nor, when some other writer made it, read. */
static void test_an_end_that_no_save_has_is_refused(void **state) {
    (void)state;
    static const uint8_t story[] = "but why";
    static const save_outcome cases[] = {
        {.end = SAVE_END_COMMITTED, .story = story, .story_bytes = 7},
        {.end = SAVE_END_FAILED},
        {.end = (save_end)4, .story = story, .story_bytes = 7},
        {.end = (save_end)0, .story = story, .story_bytes = 7},
        {.end = SAVE_END_COMMITTED, .step = -1}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer bytes = {0};
        save_outcome back;
        assert_fails(outcome_encode(&cases[i], &bytes, &err), PAWL_EINTERNAL, &err);
        assert_ok(buffer_append(&bytes, "pawl-end", 8, &err), &err);
        assert_ok(buffer_u32le(&bytes, OUTCOME_VERSION, &err), &err);
        assert_ok(buffer_u32le(&bytes, cases[i].end, &err), &err);
        assert_ok(buffer_u64le(&bytes, (uint64_t)cases[i].step, &err), &err);
        assert_ok(buffer_u32le(&bytes, (uint32_t)cases[i].story_bytes, &err), &err);
        assert_ok(buffer_append(&bytes, cases[i].story, cases[i].story_bytes, &err), &err);
        assert_ok(buffer_u32le(&bytes, crc32c(0, bytes.data, bytes.size), &err), &err);
        assert_fails(outcome_decode(bytes.data, bytes.size, &back, &err), PAWL_EDAMAGED, &err);
    }
}

static void test_a_story_that_is_too_long_is_not_written(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer bytes = {0};
    struct pawl_error err = ERROR_INIT;
    AUTOFREE uint8_t *story = mem_calloc(OUTCOME_MAX_STORY + 1, 1);
    const save_outcome o = {
        .end = SAVE_END_FAILED, .story = story, .story_bytes = OUTCOME_MAX_STORY + 1};
    assert_fails(outcome_encode(&o, &bytes, &err), PAWL_ELIMIT, &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_written_is_read),
        cmocka_unit_test(test_every_changed_or_missing_byte_is_noticed),
        cmocka_unit_test(test_an_end_that_no_save_has_is_refused),
        cmocka_unit_test(test_a_story_that_is_too_long_is_not_written),
    };
    return cmocka_run_group_tests_name("outcome of a save", tests, NULL, NULL);
}
