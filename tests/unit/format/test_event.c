/* SPDX-License-Identifier: Apache-2.0 */
/* A line of events.jsonl: golden lines, both ways, and what is no event. */
#include "lib/locale.h"
#include "lib/test.h"

#include "format/event.h"

#include <math.h>
#include <string.h>

static const pawl_save_stats sample_stats = {.step = 100,
                                             .bytes = 4000,
                                             .files = 2,
                                             .total_s = 2,
                                             .prepare_s = 0.001,
                                             .write_s = 1.5,
                                             .sync_s = 0.25,
                                             .commit_s = 0.125,
                                             .tidy_s = 0.0078125,
                                             .busy_wait_s = 0.5,
                                             .fence_copy_s = 0.03125,
                                             .fence_wait_s = 0.0625,
                                             .fence_copied_bytes = 77,
                                             .budget_bytes = 1 << 23,
                                             .budget_wanted_bytes = 99,
                                             .retries = 3,
                                             .io = "io_uring"};

static pawl_event sample(pawl_event_kind kind) {
    return (pawl_event){.kind = kind,
                        .step = 100,
                        .unix_time_ns = 1700000000123456789,
                        .done_bytes = 4000,
                        .of_bytes = 4000,
                        .seconds = 2};
}

static void encode(const pawl_event *event, const event_restore *restore, buffer *out) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(event_encode(event, restore, out, &err), &err);
    assert_true(out->size < FORMAT_MAX_EVENT_WRITTEN);
}

static void assert_line(const pawl_event *event, const event_restore *restore, const char *line) {
    CLEANUP(buffer_free) buffer out = {0};
    encode(event, restore, &out);
    assert_string_equal((const char *)out.data, line);
}

#define HEAD(kind)                                                                                 \
    "{\"event\":\"" kind                                                                           \
    "\",\"step\":100,\"unix_time_ns\":1700000000123456789,\"time\":\"2023-11-14T22:13:20.123Z\""

static void test_lines_are_golden(void **state) {
    (void)state;
    const pawl_event begun = sample(PAWL_EVENT_SAVE_BEGUN);
    const pawl_event progress = sample(PAWL_EVENT_SAVE_PROGRESS);
    pawl_event ended = sample(PAWL_EVENT_SAVE_ENDED);
    ended.stats = &sample_stats;
    assert_line(&begun, NULL, HEAD("save_begun") ",\"of_bytes\":4000}");
    assert_line(&progress, NULL,
                HEAD("save_progress") ",\"done_bytes\":4000,\"of_bytes\":4000,\"seconds\":2.000000,"
                                      "\"gb_per_s\":0.000002}");
    assert_line(&ended, NULL,
                HEAD("save_ended") ",\"status\":\"ok\",\"done_bytes\":4000,\"of_bytes\":4000,"
                                   "\"seconds\":2.000000,\"gb_per_s\":0.000002,\"files\":2,"
                                   "\"io\":\"io_uring\",\"retries\":3,"
                                   "\"phases\":{\"prepare_s\":0.001000,\"write_s\":1.500000,"
                                   "\"sync_s\":0.250000,\"commit_s\":0.125000},\"tidy_s\":0.007812,"
                                   "\"stall\":{\"busy_wait_s\":0.500000,\"fence_copy_s\":0.031250,"
                                   "\"fence_wait_s\":0.062500,\"fence_copied_bytes\":77},"
                                   "\"budget\":{\"bytes\":8388608,\"wanted_bytes\":99}}");
}

static void test_a_restore_tells_its_verdict(void **state) {
    (void)state;
    const event_fallback damaged = {.step = 200, .why = "a \"bad\" block\n"};
    const event_restore restore = {.counts = {.restored = 7, .kept = 1, .ignored = 2, .cast = 3},
                                   .fallbacks = &damaged,
                                   .fallback_count = 1};
    const pawl_event event = sample(PAWL_EVENT_RESTORED);
    assert_line(&event, &restore,
                HEAD("restored") ",\"status\":\"ok\",\"done_bytes\":4000,\"seconds\":2.000000,"
                                 "\"gb_per_s\":0.000002,\"entries\":{\"restored\":7,\"kept\":1,"
                                 "\"ignored\":2,\"cast\":3,\"cast_overflows\":0},"
                                 "\"fallback_count\":1,\"fallbacks\":[{\"step\":200,"
                                 "\"why\":\"a \\\"bad\\\" block\\u000a\"}]}");
}

static void test_what_is_written_is_read_back(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer out = {0};
    CLEANUP(event_decoded_free) event_decoded got = {0};
    pawl_event ended = sample(PAWL_EVENT_SAVE_ENDED);
    ended.status = PAWL_ENOSPACE;
    ended.message = "no room: \"/run\"\t\xc3\xa9";
    ended.stats = &sample_stats;
    encode(&ended, NULL, &out);
    assert_true(event_decode(out.data, out.size, &got));
    assert_int_equal(got.event.kind, PAWL_EVENT_SAVE_ENDED);
    assert_int_equal(got.event.step, 100);
    assert_int_equal(got.event.unix_time_ns, ended.unix_time_ns);
    assert_int_equal(got.event.status, PAWL_ENOSPACE);
    assert_string_equal(got.event.message, ended.message);
    assert_int_equal(got.event.done_bytes, 4000);
    assert_true(got.event.seconds == 2);
    assert_string_equal(got.event.json, (const char *)out.data);
    const pawl_save_stats *s = got.event.stats;
    assert_non_null(s);
    assert_string_equal(s->io, "io_uring");
    assert_true(s->prepare_s == 0.001 && s->write_s == 1.5 && s->sync_s == 0.25 &&
                s->commit_s == 0.125 && s->busy_wait_s == 0.5 && s->fence_copy_s == 0.03125 &&
                s->fence_wait_s == 0.0625 && s->total_s == 2 && s->tidy_s == 0.007812);
    assert_true(s->bytes == 4000 && s->files == 2 && s->retries == 3 && s->step == 100);
    assert_true(s->fence_copied_bytes == 77 && s->budget_bytes == 1 << 23 &&
                s->budget_wanted_bytes == 99);
}

/* Each alone would be rounded up. */
static void test_what_adds_up_does_so_in_a_line(void **state) {
    (void)state;
    CLEANUP(buffer_free) buffer out = {0};
    const pawl_save_stats stats = {.total_s = 4.8e-6,
                                   .busy_wait_s = 1.6e-6,
                                   .prepare_s = 1.6e-6,
                                   .commit_s = 1.6e-6,
                                   .tidy_s = 3e-6};
    pawl_event ended = sample(PAWL_EVENT_SAVE_ENDED);
    ended.stats = &stats;
    ended.seconds = stats.total_s;
    encode(&ended, NULL, &out);
    assert_says((const char *)out.data, "\"seconds\":0.000004,");
    assert_says((const char *)out.data, "\"prepare_s\":0.000001,");
    assert_says((const char *)out.data, "\"commit_s\":0.000001}");
    assert_says((const char *)out.data, "\"busy_wait_s\":0.000001,");
    assert_says((const char *)out.data, "\"tidy_s\":0.000003,");
}

/* The longest texts, of characters that take most room, do not pass the bound. */
static void test_a_line_has_an_end(void **state) {
    (void)state;
    char text[8192];
    CLEANUP(buffer_free) buffer out = {0};
    CLEANUP(event_decoded_free) event_decoded got = {0};
    memset(text, '\001', sizeof text);
    text[sizeof text - 1] = '\0';
    event_fallback many[20];
    for (size_t i = 0; i < ARRAY_LENGTH(many); i++) {
        many[i] = (event_fallback){.step = INT64_MAX, .why = text};
    }
    const event_restore restore = {.counts = {UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2,
                                              UINT64_MAX / 2, UINT64_MAX / 2, UINT64_MAX / 2,
                                              UINT64_MAX / 2},
                                   .fallbacks = many,
                                   .fallback_count = ARRAY_LENGTH(many)};
    pawl_event event = sample(PAWL_EVENT_RESTORED);
    event.message = text;
    event.step = INT64_MAX;
    encode(&event, &restore, &out);
    assert_true(event_decode(out.data, out.size, &got));
    assert_true(strstr(got.event.message, "...") != NULL);
}

/* JSON has no other numbers, and a comma is none whatever the locale of the process. */
static void test_numbers_are_numbers(void **state) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, -1, 1e300, 0.5};
    (void)state;
    bool comma = locale_begin(LOCALE_COMMA);
    for (size_t i = 0; i < ARRAY_LENGTH(odd); i++) {
        CLEANUP(buffer_free) buffer out = {0};
        CLEANUP(event_decoded_free) event_decoded got = {0};
        pawl_event event = sample(PAWL_EVENT_SAVE_PROGRESS);
        event.seconds = odd[i];
        encode(&event, NULL, &out);
        assert_true(event_decode(out.data, out.size, &got));
        assert_true(got.event.seconds >= 0 && got.event.seconds < 1e10);
    }
    locale_end();
    if (!comma) {
        skip();
    }
}

static void test_r14_what_is_no_event(void **state) {
    static const char *const lines[] = {
        "",
        "{}",
        "[]",
        "null",
        "7",
        "{\"event\":\"save_begun\"}",
        "{\"event\":\"save_begun\",\"step\":1}",
        "{\"event\":\"save_begun\",\"unix_time_ns\":1}",
        "{\"event\":\"dance\",\"step\":1,\"unix_time_ns\":1}",
        "{\"event\":3,\"step\":1,\"unix_time_ns\":1}",
        "{\"event\":\"restored\",\"step\":-2,\"unix_time_ns\":1}",
        "{\"event\":\"restored\",\"step\":1.5,\"unix_time_ns\":1}",
        "{\"event\":\"restored\",\"step\":1,\"unix_time_ns\":-1}",
        "{\"event\":\"restored\",\"step\":1,\"unix_time_ns\":1,\"status\":\"fine\"}",
        "{\"event\":\"restored\",\"step\":1,\"unix_time_ns\":1,\"message\":1}",
        "{\"event\":\"restored\",\"step\":1,\"unix_time_ns\":1,\"seconds\":-1}",
        "{\"event\":\"restored\",\"step\":1,\"unix_time_ns\":1,\"seconds\":\"1\"}",
        "{\"event\":\"restored\",\"step\":1,\"unix_time_ns\":1,\"done_bytes\":-1}",
        "{\"event\":\"restored\",\"step\":1,\"unix_time_ns\":1,\"done_bytes\":1e3}",
        "{\"event\":\"restored\",\"step\":1,\"unix_time_ns\":99999999999999999999}",
        "{\"event\":\"save_ended\",\"step\":1,\"unix_time_ns\":1,\"phases\":7}",
        "{\"event\":\"save_ended\",\"step\":1,\"unix_time_ns\":1,\"phases\":{\"write_s\":\"\"}}",
        "{\"event\":\"save_ended\",\"step\":1,\"unix_time_ns\":1,\"io\":null}",
        "{\"event\":\"save_ended\",\"step\":1,\"unix_time_ns\":1,\"step\":2}",
        "{\"event\":\"save_ended\",\"step\":1,\"unix_time_ns\":1,\"io\":\"\xff\"}",
        "{\"event\":\"save_ended\",\"step\":1,\"unix_time_ns\":1} x",
        "{\"event\":\"save_ended\",\"step\":1,\"unix_time_ns\":1",
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        event_decoded got;
        if (event_decode(lines[i], strlen(lines[i]), &got)) {
            fail_msg("taken for an event: %s", lines[i]);
        }
    }
    static const char with_nul[] = "{\"event\":\"restored\",\"step\":1,\"unix_time_ns\":1}\0 more";
    event_decoded ignored;
    assert_false(event_decode(with_nul, sizeof with_nul - 1, &ignored));
}

static void test_members_of_a_newer_version_are_passed_over(void **state) {
    static const char line[] = "{\"event\":\"save_ended\",\"step\":1,\"unix_time_ns\":1,"
                               "\"colour\":\"blue\",\"phases\":{\"dance_s\":{}}}";
    CLEANUP(event_decoded_free) event_decoded got = {0};
    (void)state;
    assert_true(event_decode(line, strlen(line), &got));
    assert_non_null(got.event.stats);
    assert_string_equal(got.event.stats->io, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_are_golden),
        cmocka_unit_test(test_a_restore_tells_its_verdict),
        cmocka_unit_test(test_what_adds_up_does_so_in_a_line),
        cmocka_unit_test(test_what_is_written_is_read_back),
        cmocka_unit_test(test_a_line_has_an_end),
        cmocka_unit_test(test_numbers_are_numbers),
        cmocka_unit_test(test_r14_what_is_no_event),
        cmocka_unit_test(test_members_of_a_newer_version_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
