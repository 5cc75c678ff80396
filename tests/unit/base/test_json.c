/* SPDX-License-Identifier: Apache-2.0 */
/* json: the grammar of RFC 8259, its bounds, and values that come out as they went in. */
#include "base/json.h"
#include "lib/random.h"
#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pawl_status check_text(const char *text, pawl_error *err) {
    return json_check(text, strlen(text), "text", err);
}

/* Every kind of value, with white space wherever it may stand, is accepted. */
static void test_json_of_the_grammar_is_accepted(void **state) {
    (void)state;
    static const char *const texts[] = {"{}",
                                        "[]",
                                        " \t\r\n{ } \n",
                                        "null",
                                        "true",
                                        "false",
                                        "0",
                                        "-0",
                                        "12",
                                        "-1.5e-3",
                                        "1E+2",
                                        "0.0",
                                        "\"\"",
                                        "\"a\\n\\u00e4\\ud83d\\ude00\\/\\\\\\\"\"",
                                        "[1,2 , [3]]",
                                        "{\"a\":{\"b\":[null]} , \"c\" : 1}",
                                        "1.7976931348623157e308",
                                        "1.7976931348623158e308",
                                        "0.00017976931348623158079e312",
                                        "1e-999",
                                        "1e999",
                                        "[-1.8e308]",
                                        "1e99999999999999999999",
                                        "{\"a\":1,\"a\":2}",
                                        "{\"\\u0000\":\"\\u0000\"}",
                                        "0e999",
                                        "179769313486231570000.0e288",
                                        "\"\xc3\xa4\"",
                                        "123456789012345678901234567890"};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        pawl_error err = ERROR_INIT;
        assert_ok(check_text(texts[i], &err), &err);
    }
}

/* What the grammar does not allow is refused at the byte where it goes wrong. */
static void test_r14_json_outside_the_grammar_is_refused_where_it_goes_wrong(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t position;
    } cases[] = {{"", 0},
                 {" ", 1},
                 {"{", 1},
                 {"[", 1},
                 {"[1", 2},
                 {"[1,", 3},
                 {"[1,]", 3},
                 {"[,1]", 1},
                 {"{\"a\"}", 4},
                 {"{\"a\":}", 5},
                 {"{\"a\":1,}", 7},
                 {"{a:1}", 1},
                 {"{1:1}", 1},
                 {"nul", 0},
                 {"True", 0},
                 {"01", 1},
                 {"-", 1},
                 {"1.", 2},
                 {".5", 0},
                 {"1e", 2},
                 {"1e+", 3},
                 {"+1", 0},
                 {"0x1", 1},
                 {"NaN", 0},
                 {"\"a", 2},
                 {"\"\\x\"", 2},
                 {"\"\\u12g4\"", 5},
                 {"\"\t\"", 1},
                 {"\"\\ud800\"", 7},
                 {"\"\\ud800\\u0041\"", 13},
                 {"\"\\udc00\"", 7},
                 {"{} {}", 3},
                 {"[1 2]", 3},
                 {"[1}", 2},
                 {"{\"a\":1]", 6},
                 {"'a'", 0},
                 {"\"\xff\"", 1},
                 {"\"\xc0\x80\"", 1},
                 {"\xef\xbb\xbf{}", 0},
                 {"Infinity", 0},
                 {"[-Infinity]", 1},
                 {"// x\n1", 0}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pawl_error err = ERROR_INIT;
        assert_fails(check_text(cases[i].text, &err), PAWL_EDAMAGED, &err);
        assert_true(err.has_range);
        assert_int_equal(err.offset, cases[i].position);
    }
}

/* A NUL byte in the text is no end of it. */
static void test_r14_json_with_a_nul_byte_is_refused(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    assert_fails(json_check("\"a\0b\"", 5, "text", &err), PAWL_EDAMAGED, &err);
    assert_fails(json_check("{}\0", 3, "text", &err), PAWL_EDAMAGED, &err);
}

/* Nesting is accepted up to the maximum and refused beyond, whatever is nested. */
static void test_r14_json_nested_too_deep_is_refused(void **state) {
    (void)state;
    for (int depth = PAWL_MAX_JSON_DEPTH; depth <= PAWL_MAX_JSON_DEPTH + 1; depth++) {
        char text[4 * (PAWL_MAX_JSON_DEPTH + 1)];
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        pawl_error err = ERROR_INIT;
        pawl_status status = json_check(text, (size_t)depth * 2, "text", &err);
        assert_int_equal(status, depth == PAWL_MAX_JSON_DEPTH ? PAWL_OK : PAWL_ELIMIT);
    }
}

/* Escapes become the characters they stand for. */
static void test_json_strings_are_decoded(void **state) {
    (void)state;
    static const struct {
        const char *text, *decoded;
    } cases[] = {
        {"\"\"", ""},
        {"\"plain\"", "plain"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
        {"\"\\u0041\\u00e4\\u20AC\\ud83d\\ude00\"", "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\"a\xc3\xa4\\nb\"", "a\xc3\xa4\nb"}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer out = {.data = NULL};
        json_reader r = json_reader_for(cases[i].text, strlen(cases[i].text), 0, "text", &err);
        assert_ok(json_text(&r, &out, &err), &err);
        assert_ok(json_end(&r), &err);
        assert_string_equal((const char *)out.data, cases[i].decoded);
        assert_int_equal(out.size, strlen(cases[i].decoded));
    }
}

/* A string that was written by base comes back. */
static void test_json_strings_round_trip(void **state) {
    (void)state;
    test_random random = {7};
    for (int i = 0; i < 2000; i++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free)
        buffer text = {.data = NULL}, json = {.data = NULL}, back = {.data = NULL};
        for (uint64_t n = random_below(&random, 12); n > 0; n--) {
            static const char *const pieces[] = {
                "a",    "\"",          "\\", "\n", "\x01", "/", "\xc3\xa4", "\xf0\x9f\x98\x80",
                "\x7f", "\xe2\x80\xa8"};
            const char *piece = pieces[random_below(&random, ARRAY_LENGTH(pieces))];
            assert_ok(buffer_append(&text, piece, strlen(piece), &err), &err);
        }
        const char *original = text.data == NULL ? "" : (const char *)text.data;
        assert_ok(buffer_json_string(&json, original, text.size, &err), &err);
        json_reader r = json_reader_for(json.data, json.size, 0, "text", &err);
        assert_ok(json_text(&r, &back, &err), &err);
        assert_ok(json_end(&r), &err);
        assert_string_equal((const char *)back.data, original);
    }
}

static pawl_status read_u64(const char *text, uint64_t *out, pawl_error *err) {
    json_reader r = json_reader_for(text, strlen(text), 0, "text", err);
    TRY(json_u64(&r, out));
    return json_end(&r);
}

/* Unsigned integers up to the largest are read exactly; everything else is no integer. */
static void test_r14_only_exact_unsigned_integers_are_read(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    uint64_t value = 0;
    assert_ok(read_u64("18446744073709551615", &value, &err), &err);
    assert_true(value == UINT64_MAX);
    assert_ok(read_u64(" 0 ", &value, &err), &err);
    assert_int_equal(value, 0);
    static const char *const wrong[] = {
        "18446744073709551616",   "-1", "-0", "1.0", "1e2", "00", "01", "\"1\"", "", "true",
        "99999999999999999999999"};
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        assert_fails(read_u64(wrong[i], &value, &err), PAWL_EDAMAGED, &err);
    }
}

/* Signed integers keep their sign, and 64 bits is all there is. */
static void test_signed_integers_are_read(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    int64_t value = 0;
    json_reader r = json_reader_for("-9223372036854775807", 20, 0, "text", &err);
    assert_ok(json_i64(&r, &value), &err);
    assert_true(value == -INT64_MAX);
    r = json_reader_for("9223372036854775808", 19, 0, "text", &err);
    assert_fails(json_i64(&r, &value), PAWL_EDAMAGED, &err);
}

/* Passing over a value gives its text, without the white space around it. */
static void test_skipped_values_keep_their_text(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    const char text[] = "{\"a\" :  {\"b\": [1, 2]} , \"c\":3}";
    CLEANUP(buffer_free) buffer key = {.data = NULL};
    json_reader r = json_reader_for(text, strlen(text), 0, "text", &err);
    bool more = false;
    json_span value;
    assert_ok(json_enter(&r, '{'), &err);
    assert_ok(json_key(&r, &key, &more, &err), &err);
    assert_true(more);
    assert_string_equal((const char *)key.data, "a");
    assert_ok(json_skip(&r, &value), &err);
    assert_int_equal(value.n, strlen("{\"b\": [1, 2]}"));
    assert_memory_equal(value.text, "{\"b\": [1, 2]}", value.n);
    assert_ok(json_key(&r, &key, &more, &err), &err);
    assert_string_equal((const char *)key.data, "c");
    assert_ok(json_skip(&r, NULL), &err);
    assert_ok(json_key(&r, &key, &more, &err), &err);
    assert_false(more);
    assert_ok(json_end(&r), &err);
}

/* A name of ours has no NUL; a text that is only compared may have one. */
static void test_json_strings_with_nul_are_kept_on_request(void **state) {
    (void)state;
    for (int nul = 0; nul < 2; nul++) {
        pawl_error err = ERROR_INIT;
        CLEANUP(buffer_free) buffer out = {.data = NULL};
        json_reader r = json_reader_for("\"a\\u0000b\"", 10, 0, "text", &err);
        r.nul = nul;
        assert_int_equal(json_text(&r, &out, &err), nul ? PAWL_OK : PAWL_EDAMAGED);
        if (nul) {
            assert_int_equal(out.size, 3);
            assert_memory_equal(out.data, "a\0b", 3);
        }
    }
}

/* What other writers put for NaN and infinities is named, with what to do. */
static void test_numbers_that_json_lacks_are_named(void **state) {
    (void)state;
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        pawl_error err = ERROR_INIT;
        assert_fails(check_text(words[i], &err), PAWL_EDAMAGED, &err);
        assert_string_equal(err.found, words[i]);
        assert_says(err.next, "write null or a text such as");
    }
}

/* The message says what was read, where it is wrong, what was wanted and what was there. */
static void test_json_refusal_in_words(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    json_reader r = json_reader_for("[1,x]", 5, 100, "header", &err);
    assert_fails(json_skip(&r, NULL), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "the JSON of the header is wrong at byte 103");
    assert_string_equal(err.expected, "a JSON value");
    assert_string_equal(err.found, "'x'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_of_the_grammar_is_accepted),
        cmocka_unit_test(test_r14_json_outside_the_grammar_is_refused_where_it_goes_wrong),
        cmocka_unit_test(test_r14_json_with_a_nul_byte_is_refused),
        cmocka_unit_test(test_r14_json_nested_too_deep_is_refused),
        cmocka_unit_test(test_json_strings_are_decoded),
        cmocka_unit_test(test_json_strings_round_trip),
        cmocka_unit_test(test_r14_only_exact_unsigned_integers_are_read),
        cmocka_unit_test(test_signed_integers_are_read),
        cmocka_unit_test(test_skipped_values_keep_their_text),
        cmocka_unit_test(test_json_strings_with_nul_are_kept_on_request),
        cmocka_unit_test(test_numbers_that_json_lacks_are_named),
        cmocka_unit_test(test_json_refusal_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
