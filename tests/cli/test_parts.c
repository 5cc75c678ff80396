/* SPDX-License-Identifier: Apache-2.0 */
/* The command's own parts that its output alone would test poorly: slices, sizes, text, numbers. */
#include "cli.h"
#include "doctor_words.h"
#include "json.h"
#include "numbers.h"
#include "slices.h"
#include "text.h"
#include "verbs.h"

#include <math.h>
#include <pawl/pawl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- slices ---- */

/* The row-major place of an element. */
static uint64_t place_of(const slices *s, const int64_t *index) {
    uint64_t place = 0;
    for (int i = 0; i < s->ndim; i++) {
        place = place * (uint64_t)s->shape[i] + (uint64_t)index[i];
    }
    return place;
}

/* The slices of a shape follow each other without a gap, and none is too large. */
static void check_slices(int ndim, const int64_t *shape, uint64_t most) {
    uint64_t elements = 1;
    uint64_t next = 0;
    for (int i = 0; i < ndim; i++) {
        elements *= (uint64_t)shape[i];
    }
    slices s = slices_of(ndim, shape, most);
    while (slices_next(&s)) {
        int64_t last[PAWL_MAX_NDIM];
        for (int i = 0; i < ndim; i++) {
            assert_true(s.extent[i] > 0 && s.offset[i] + s.extent[i] <= shape[i]);
            last[i] = s.offset[i] + s.extent[i] - 1;
        }
        assert_true(s.elements > 0 && s.elements <= most);
        assert_int_equal(place_of(&s, s.offset), next);
        assert_int_equal(place_of(&s, last), next + s.elements - 1);
        next += s.elements;
    }
    assert_int_equal(next, elements);
    assert_false(slices_next(&s));
}

static void test_slices_of_every_small_shape_cover_it_in_order(void **state) {
    (void)state;
    int64_t shape[4];
    for (int code = 0; code < 5 * 5 * 5 * 5; code++) {
        for (int i = 0, rest = code; i < 4; i++, rest /= 5) {
            shape[i] = rest % 5;
        }
        for (int ndim = 0; ndim <= 4; ndim++) {
            for (uint64_t most = 1; most <= 30; most += most < 6 ? 1 : 7) {
                check_slices(ndim, shape, most);
            }
        }
    }
}

static void test_slices_of_a_huge_shape_do_not_overflow(void **state) {
    (void)state;
    slices s = slices_of(3, (int64_t[]){INT64_MAX / 4, 2, 2}, UINT64_MAX);
    assert_true(slices_next(&s));
    assert_true(s.elements >= UINT64_C(1) << 61);
    s = slices_of(1, (int64_t[]){INT64_MAX}, 1000);
    assert_true(slices_next(&s));
    assert_int_equal(s.elements, 1000);
}

/* ---- sizes and times ---- */

static void test_sizes_are_read_in_decimal_and_binary_units(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"1", 1},
        {"1000", 1000},
        {"40GB", 40000000000},
        {"1.5 TB", 1500000000000},
        {"512MiB", 536870912},
        {"2k", 2000},
        {"2Ki", 2048},
        {"7b", 7},
        {"9223372036854775807", INT64_MAX},
        {"9007199254740993 B", 9007199254740993},
    };
    static const char *const bad[] = {"",     "GB",  "-1",   "0",   "1.2.3",      "1XB",
                                      "1GBs", "inf", "0x10", "1e3", "99999999EB", " 1"};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(text_parse_bytes(good[i].text, &bytes));
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(text_parse_bytes(bad[i], &bytes));
    }
}

static void test_times_before_1970_round_down(void **state) {
    (void)state;
    char out[TEXT_SIZE];
    assert_string_equal(text_time_utc(out, -1), "1969-12-31T23:59:59.999999999Z");
    assert_string_equal(text_time_utc(out, 1), "1970-01-01T00:00:00.000000001Z");
    assert_string_equal(text_time_local(out, 0), "-");
}

/* ---- text ---- */

static void expect_safe(const char *text, bool keep_lines, const char *wanted) {
    char *safe = text_safe(text, strlen(text), keep_lines);
    assert_string_equal(safe, wanted);
    free(safe);
}

static void test_what_could_harm_a_terminal_is_escaped(void **state) {
    (void)state;
    expect_safe("plain caf\u00e9 \u65e5\u672c", false, "plain caf\u00e9 \u65e5\u672c");
    expect_safe("\033[31m\a\x7f", false, "\\x1b[31m\\x07\\x7f");
    expect_safe("\xc2\x9b"
                "31m",
                false, "\\xc2\\x9b31m");
    expect_safe("a\u202eb", false, "a\\xe2\\x80\\xaeb");
    expect_safe("a\nb", false, "a\\x0ab");
    expect_safe("a\nb", true, "a\nb");
}

static void test_what_is_no_utf8_is_escaped(void **state) {
    (void)state;
    expect_safe("\xff\xfe", false, "\\xff\\xfe");
    expect_safe("\xc0\xaf", false, "\\xc0\\xaf");          /* overlong '/' */
    expect_safe("\xed\xa0\x80", false, "\\xed\\xa0\\x80"); /* a surrogate */
    expect_safe("\xe2\x82", false, "\\xe2\\x82");          /* cut short */
}

static void test_shortening_keeps_both_ends_and_whole_characters(void **state) {
    (void)state;
    char *text = text_shorten("\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9\u00e9z", 7);
    assert_string_equal(text, "\u00e9\u00e9...\u00e9z");
    free(text);
    text = text_shorten("short", 5);
    assert_string_equal(text, "short");
    free(text);
}

/* At any width what is left fits, is UTF-8, and is cut before no character that combines. */
static void test_what_is_shortened_fits_and_keeps_characters_whole(void **state) {
    (void)state;
    static const char *const texts[] = {
        "kernel",
        "\u6a21\u578b\u6743\u91cd\u77e9\u9635",
        "e\u0301e\u0301e\u0301e\u0301e\u0301e\u0301",
        "a\u6a21\u0301b\u578b\u0301c\u6743\u0301",
        "\U0001f600\U0001f600\U0001f600",
        "\u0301\u0301\u0301",
        "",
    };
    (void)setenv("LC_ALL", "C.UTF-8", 1);
    for (int known = 0; known < 2; known++) {
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            for (size_t columns = 0; columns < 20; columns++) {
                char *cut = text_shorten(texts[i], columns);
                char *safe = text_safe(cut, strlen(cut), false);
                const char *dots = strstr(cut, known ? "\u2026" : "...");
                assert_true(text_columns(cut) <= columns);
                assert_string_equal(safe, cut); /* UTF-8 */
                if (known && dots != NULL) {
                    assert_int_not_equal(strncmp(dots + 3, "\u0301", 2), 0);
                }
                free(safe);
                free(cut);
            }
        }
        text_begin_columns();
    }
    assert_int_equal(text_columns("\u6a21e\u0301"), 3);
}

static void test_the_nearest_word_is_near(void **state) {
    (void)state;
    static const char *const words[] = {"show", "verify", "diff", NULL};
    assert_string_equal(text_nearest("shwo", words), "show");
    assert_string_equal(text_nearest("verfiy", words), "verify");
    assert_null(text_nearest("rebuild", words));
    assert_null(text_nearest("", words));
}

/* ---- targets ---- */

static void expect_target(const char *text, const char *run, bool has_step, int64_t step) {
    target t = target_parse(text);
    assert_string_equal(t.run, run);
    assert_int_equal(t.has_step, has_step);
    assert_int_equal(t.step, step);
    target_free(&t);
}

static void test_a_step_follows_the_last_at_sign_or_there_is_none(void **state) {
    (void)state;
    expect_target("run", "run", false, NEWEST_STEP);
    expect_target("run@7", "run", true, 7);
    expect_target("run@newest", "run", true, NEWEST_STEP);
    expect_target("run@latest", "run", true, NEWEST_STEP);
    expect_target("me@host/run@12@0034", "me@host/run@12", true, 34);
    expect_target("me@host/run", "me@host/run", false, NEWEST_STEP);
    expect_target("run@7/", "run@7/", false, NEWEST_STEP);
    expect_target("run@", "run@", false, NEWEST_STEP);
    expect_target("run@-1", "run@-1", false, NEWEST_STEP);
    expect_target("run@99999999999999999999", "run@99999999999999999999", false, NEWEST_STEP);
    expect_target("@7", "@7", false, NEWEST_STEP);
}

/* ---- numbers ---- */

static void test_number_text_reads_back_as_the_same_number(void **state) {
    (void)state;
    char out[NUMBER_SIZE];
    assert_string_equal(number_text(out, 0.1, 17), "0.1");
    assert_string_equal(number_text(out, 1.0 / 3, 17), "0.3333333333333333");
    assert_string_equal(number_text(out, 1.0 / 3, 6), "0.333333");
    assert_string_equal(number_text(out, -INFINITY, 6), "-inf");
    const float tenth = 0.1F;
    assert_string_equal(numbers_element(out, PAWL_F32, &tenth, 0), "0.1");
    const float pair[] = {1.5F, -2.0F};
    assert_string_equal(numbers_element(out, PAWL_C64, pair, 0), "1.5-2j");
    const uint64_t most = UINT64_MAX;
    assert_string_equal(numbers_element(out, PAWL_U64, &most, 6), "18446744073709551615");
}

/* ---- exit codes ---- */

static void test_no_verb_ends_with_a_code_that_its_help_lacks(void **state) {
    (void)state;
    const verb *doctor = verb_find("doctor");
    const verb *gc = verb_find("gc");
    assert_int_equal(verb_exit_code(gc, EXIT_DIFFERENT), EXIT_DIFFERENT);
    assert_int_equal(verb_exit_code(gc, EXIT_TRY_AGAIN), EXIT_TRY_AGAIN);
    assert_int_equal(verb_exit_code(doctor, EXIT_USAGE), EXIT_USAGE);
    assert_int_equal(verb_exit_code(doctor, EXIT_DIFFERENT), EXIT_DIFFERENT);
    assert_int_equal(verb_exit_code(doctor, EXIT_TRY_AGAIN), EXIT_FAILED);
    assert_int_equal(verb_exit_code(doctor, EXIT_NOT_FOUND), EXIT_FAILED);
    assert_int_equal(verb_exit_code(gc, 99), EXIT_FAILED);
}

/* ---- JSON ---- */

static void test_json_of_a_caller_stays_as_it_is(void **state) {
    (void)state;
    char *text = NULL;
    size_t size = 0;
    json j = {.file = open_memstream(&text, &size)};
    json_begin_array(&j, NULL, JSON_INLINE);
    json_put_text(&j, NULL, "a\"b\n");
    json_put_text(&j, NULL, "\xff");
    json_put_raw_n(&j, NULL, "{\"a\": 1e400}", 12);
    json_put_number(&j, NULL, NAN, 17);
    json_put_number(&j, NULL, 0.1, 17);
    json_close_to(&j, 0);
    fclose(j.file);
    assert_string_equal(text, "[\"a\\\"b\\n\", \"\\uFFFD\", {\"a\": 1e400}, \"nan\", 0.1]\n");
    free(text);
}

static void test_durations_have_three_digits(void **state) {
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0 ms"},          {-1, "0 ms"},          {4e-6, "0 ms"},      {6e-6, "0.01 ms"},
        {0.00999, "9.99 ms"}, {0.009996, "10.0 ms"}, {0.0999, "99.9 ms"}, {0.4314, "431 ms"},
        {0.9996, "1.00 s"},   {9.994, "9.99 s"},     {9.996, "10.0 s"},   {59.96, "1 min 0 s"},
        {200, "3 min 20 s"},  {3599.6, "1 h 0 min"}, {7500, "2 h 5 min"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[TEXT_SIZE];
        assert_string_equal(text_duration(text, cases[i].seconds), cases[i].text);
    }
}

static void test_advice_is_in_words_of_the_command(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"set options.missing = PAWL_POLICY_ALLOW to keep the state's value",
         "restore with missing = allow to keep the state's value"},
        {"set options.model_only = 1 to restore the model alone; 'pawl ls' lists them",
         "restore with model_only = 1 to restore the model alone; 'pawl ls' lists them"},
        {"add {\"a/b\", \"c\"} to options.renames", "give --rename a/b=c"},
        {"add {\"a\", \"\"}, {\"b c\", \"d$e\"} to options.renames, all of them",
         "give --rename a= --rename 'b c=d$e', all of them"},
        {"add {\"it's\", \"x\"} to options.renames", "add {\"it's\", \"x\"} to options.renames"},
        {"add {\"a\", \"b\"}, and more", "add {\"a\", \"b\"}, and more"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *words = doctor_words(cases[i][0]);
        assert_string_equal(words, cases[i][1]);
        free(words);
    }
    assert_null(doctor_words(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_advice_is_in_words_of_the_command),
        cmocka_unit_test(test_durations_have_three_digits),
        cmocka_unit_test(test_slices_of_every_small_shape_cover_it_in_order),
        cmocka_unit_test(test_slices_of_a_huge_shape_do_not_overflow),
        cmocka_unit_test(test_sizes_are_read_in_decimal_and_binary_units),
        cmocka_unit_test(test_times_before_1970_round_down),
        cmocka_unit_test(test_what_could_harm_a_terminal_is_escaped),
        cmocka_unit_test(test_what_is_no_utf8_is_escaped),
        cmocka_unit_test(test_shortening_keeps_both_ends_and_whole_characters),
        cmocka_unit_test(test_the_nearest_word_is_near),
        cmocka_unit_test(test_what_is_shortened_fits_and_keeps_characters_whole),
        cmocka_unit_test(test_a_step_follows_the_last_at_sign_or_there_is_none),
        cmocka_unit_test(test_number_text_reads_back_as_the_same_number),
        cmocka_unit_test(test_no_verb_ends_with_a_code_that_its_help_lacks),
        cmocka_unit_test(test_json_of_a_caller_stays_as_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
