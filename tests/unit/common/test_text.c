/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, text for people, checked sums, likeness of names. */
#include "lib/random.h"
#include "lib/test.h"

#include <math.h>
#include <string.h>

static bool valid(const char *text) {
    return utf8_valid(text, strlen(text));
}

static void test_utf8_of_every_length_is_valid(void **state) {
    (void)state;
    assert_true(utf8_valid("", 0));
    assert_true(valid("abc"));
    assert_true(valid("\xc2\x80\xdf\xbf"));
    assert_true(valid("\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf"));
    assert_true(valid("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"));
    assert_true(utf8_valid("a\0b", 3));
}

static void test_bytes_that_are_no_utf8_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "\x80",             /* a continuation alone */
        "\xc3",             /* cut short */
        "\xe2\x82",         /* cut short */
        "\xf0\x9f\x98",     /* cut short */
        "\xc3(",            /* a second byte that is none */
        "\xe2\x82(",        /* a third byte that is none */
        "\xf0\x9f\x98(",    /* a fourth byte that is none */
        "\xc0\xaf",         /* overlong '/' */
        "\xc1\xbf",         /* overlong */
        "\xe0\x9f\xbf",     /* overlong */
        "\xf0\x8f\xbf\xbf", /* overlong */
        "\xed\xa0\x80",     /* a surrogate */
        "\xed\xbf\xbf",     /* a surrogate */
        "\xf4\x90\x80\x80", /* beyond U+10FFFF */
        "\xf5\x80\x80\x80",
        "\xfe",
        "\xff",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        assert_false(valid(bad[i]));
        char after[16] = "ok";
        strcat(after, bad[i]);
        assert_false(valid(after));
    }
}

static void encode(uint32_t point, char out[5]) {
    memset(out, 0, 5);
    if (point < 0x80) {
        out[0] = (char)point;
    } else if (point < 0x800) {
        out[0] = (char)(0xc0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        out[0] = (char)(0xe0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3f));
        out[2] = (char)(0x80 | (point & 0x3f));
    } else {
        out[0] = (char)(0xf0 | point >> 18);
        out[1] = (char)(0x80 | (point >> 12 & 0x3f));
        out[2] = (char)(0x80 | (point >> 6 & 0x3f));
        out[3] = (char)(0x80 | (point & 0x3f));
    }
}

static void test_every_code_point_but_surrogates_is_valid(void **state) {
    (void)state;
    for (uint32_t point = 1; point < 0x120000; point++) {
        char text[5];
        encode(point, text);
        bool wanted = point < 0x110000 && (point < 0xd800 || point > 0xdfff);
        if (valid(text) != wanted) {
            fail_msg("U+%04X", (unsigned)point);
        }
    }
}

static void test_cut_text_ends_in_dots(void **state) {
    (void)state;
    char ascii[8] = "abcdefg";
    text_cut(ascii, sizeof(ascii));
    assert_string_equal(ascii, "abcd...");
    char wide[8] = "abc\xf0\x9f\x98\x80";
    text_cut(wide, sizeof(wide));
    assert_string_equal(wide, "abc...");
}

static void test_amounts_of_bytes_have_three_digits_and_never_a_thousand(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } wanted[] = {
        {0, "0 B"},          {999, "999 B"},           {1000, "1.00 kB"},       {9994, "9.99 kB"},
        {9995, "10.0 kB"},   {99949, "99.9 kB"},       {99950, "100 kB"},       {999499, "999 kB"},
        {999500, "1.00 MB"}, {41234567890, "41.2 GB"}, {UINT64_MAX, "18.4 EB"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(wanted); i++) {
        char out[32];
        assert_string_equal(text_bytes(out, wanted[i].bytes), wanted[i].text);
    }
}

static void test_times_read_well(void **state) {
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } wanted[] = {
        {0, "0 s"},
        {-1, "0 s"},
        {0.0001, "under 1 ms"},
        {0.05, "50 ms"},
        {0.8, "0.8 s"},
        {9.94, "9.9 s"},
        {9.96, "10 s"},
        {59.4, "59 s"},
        {59.6, "1 min 0 s"},
        {200, "3 min 20 s"},
        {3599.6, "1 h 0 min"},
        {90000, "1 d 1 h"},
        {1e15, "11574074074 d 1 h"},
        {INFINITY, "an unlimited time"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(wanted); i++) {
        char out[32];
        assert_string_equal(text_seconds(out, wanted[i].seconds), wanted[i].text);
    }
    char out[32];
    assert_string_equal(text_seconds(out, NAN), "an unlimited time");
}

static void test_sums_and_products_that_overflow_are_seen(void **state) {
    (void)state;
    uint64_t out;
    assert_false(add_overflows(UINT64_MAX - 1, 1, &out));
    assert_true(out == UINT64_MAX);
    assert_true(add_overflows(UINT64_MAX, 1, &out));
    assert_false(multiply_overflows(UINT32_MAX, UINT32_MAX, &out));
    assert_true(out == 0xfffffffe00000001U);
    assert_true(multiply_overflows((uint64_t)1 << 32, (uint64_t)1 << 32, &out));
    assert_false(multiply_overflows(0, UINT64_MAX, &out));
}

static void assert_likeness(const char *a, const char *b, double wanted) {
    assert_true(fabs(text_likeness(a, b) - wanted) < 1e-9);
    assert_true(fabs(text_likeness(b, a) - wanted) < 1e-9);
}

static void test_likeness_is_the_share_that_need_not_change(void **state) {
    (void)state;
    assert_likeness("", "", 1.0);
    assert_likeness("", "abc", 0.0);
    assert_likeness("dense/kernel", "dense/kernel", 1.0);
    assert_likeness("kitten", "sitting", 1.0 - 3.0 / 7.0);
    assert_likeness("dense/kernel", "dense_1/kernel", 1.0 - 2.0 / 14.0);
    assert_likeness("abc", "xyz", 0.0);
}

static void test_likeness_looks_at_256_bytes(void **state) {
    (void)state;
    char a[1000];
    char b[1000];
    memset(a, 'a', sizeof(a));
    memset(b, 'a', sizeof(b));
    memset(b + 256, 'b', sizeof(b) - 256);
    a[999] = '\0';
    b[999] = '\0';
    assert_likeness(a, b, 1.0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_of_every_length_is_valid),
        cmocka_unit_test(test_bytes_that_are_no_utf8_are_refused),
        cmocka_unit_test(test_every_code_point_but_surrogates_is_valid),
        cmocka_unit_test(test_cut_text_ends_in_dots),
        cmocka_unit_test(test_amounts_of_bytes_have_three_digits_and_never_a_thousand),
        cmocka_unit_test(test_times_read_well),
        cmocka_unit_test(test_sums_and_products_that_overflow_are_seen),
        cmocka_unit_test(test_likeness_is_the_share_that_need_not_change),
        cmocka_unit_test(test_likeness_looks_at_256_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
