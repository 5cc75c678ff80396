/* SPDX-License-Identifier: Apache-2.0 */
/* Text for people, UTF-8, names of entries, checked sums, checksums. */
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

static void test_amounts_of_bytes_read_well(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes;
        const char *text;
    } wanted[] = {
        {0, "0 bytes"},           {1, "1 byte"},
        {704, "704 bytes"},       {999, "999 bytes"},
        {1000, "1.0 kB"},         {1049, "1.0 kB"},
        {1050, "1.1 kB"},         {999949, "999.9 kB"},
        {999950, "1.0 MB"},       {41200000000, "41.2 GB"},
        {999950000000, "1.0 TB"}, {1500000000000000, "1.5 PB"},
        {UINT64_MAX, "18.4 EB"},
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

static void assert_name_refused(const char *name, size_t n, const char *why) {
    const char *got = "(none)";
    assert_false(entry_name_valid(name, n, &got));
    assert_string_equal(got, why);
    assert_false(entry_name_valid(name, n, NULL));
}

static void test_s15_names_that_entries_may_have(void **state) {
    (void)state;
    static const char *const good[] = {
        "a", "model/dense/kernel",        "a.b/..c/d..", "...",     "a b",
        "~", "\xc3\xa9/\xf0\x9f\x98\x80", "a\\b",        "\xc2\xa0"};
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        const char *why = "(none)";
        assert_true(entry_name_valid(good[i], strlen(good[i]), &why));
        assert_string_equal(why, "(none)");
    }
}

static void test_s15_empty_name_is_refused(void **state) {
    (void)state;
    assert_name_refused("", 0, "is empty");
}

static void test_s15_too_long_name_is_refused_and_the_longest_is_not(void **state) {
    (void)state;
    char name[PAWL_MAX_NAME_BYTES + 1];
    memset(name, 'n', sizeof(name));
    assert_true(entry_name_valid(name, PAWL_MAX_NAME_BYTES, NULL));
    assert_name_refused(name, PAWL_MAX_NAME_BYTES + 1, "is longer than 1024 bytes");
}

static void test_s15_nul_in_a_name_is_refused(void **state) {
    (void)state;
    assert_name_refused("a\0b", 3, "has a NUL character");
}

static void test_s15_name_that_is_no_utf8_is_refused(void **state) {
    (void)state;
    assert_name_refused("a\xff", 2, "is not UTF-8");
    assert_name_refused("\xc0\xae", 2, "is not UTF-8");
}

static void test_s15_control_characters_in_a_name_are_refused(void **state) {
    (void)state;
    assert_name_refused("a\nb", 3, "has a control character");
    assert_name_refused("\x7f", 1, "has a control character");
    assert_name_refused("a\x1b[2J", 5, "has a control character");
    assert_name_refused("a\xc2\x9b", 3, "has a control character");
}

static void test_s15_leading_slash_is_refused(void **state) {
    (void)state;
    assert_name_refused("/etc/passwd", 11, "begins with '/'");
}

static void test_s15_empty_components_are_refused(void **state) {
    (void)state;
    assert_name_refused("a//b", 4, "has an empty component");
    assert_name_refused("a/", 2, "has an empty component");
}

static void test_s15_dot_components_are_refused(void **state) {
    (void)state;
    assert_name_refused("..", 2, "has a component \"..\"");
    assert_name_refused("a/../b", 6, "has a component \"..\"");
    assert_name_refused("a/..", 4, "has a component \"..\"");
    assert_name_refused(".", 1, "has a component \".\"");
    assert_name_refused("./a", 3, "has a component \".\"");
}

/* The polynomial, one bit at a time. */
static uint32_t slow_crc32c(const uint8_t *bytes, size_t n) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
        }
    }
    return ~crc;
}

static void test_checksums_are_those_of_rfc_3720(void **state) {
    (void)state;
    uint8_t bytes[32];
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof(bytes));
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[i] = i;
    }
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
    for (uint8_t i = 0; i < 32; i++) {
        bytes[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x113fdb5c);
    assert_int_equal(crc32c(0, "", 0), 0);
}

static void test_checksum_goes_on_over_any_split_and_copies(void **state) {
    (void)state;
    enum { MOST = 40000 };
    test_random r = {22};
    AUTOFREE uint8_t *from = mem_alloc(MOST);
    AUTOFREE uint8_t *to = mem_alloc(MOST);
    random_fill(&r, from, MOST);
    for (int i = 0; i < 200; i++) {
        size_t n = random_below(&r, i < 100 ? 300 : MOST);
        size_t split = random_below(&r, n + 1);
        uint32_t wanted = slow_crc32c(from, n);
        assert_int_equal(crc32c(0, from, n), wanted);
        assert_int_equal(crc32c(crc32c(0, from, split), from + split, n - split), wanted);
        memset(to, 0, MOST);
        uint32_t crc = crc32c_copy(0, to, from, split);
        crc = crc32c_copy(crc, to + split, from + split, n - split);
        assert_int_equal(crc, wanted);
        assert_memory_equal(to, from, n);
        assert_true(n == MOST || to[n] == 0);
    }
}

static void test_masked_checksum_is_leveldbs_and_comes_back(void **state) {
    (void)state;
    uint32_t crc = crc32c(0, "foo", 3);
    assert_int_equal(crc32c_mask(0), 0xa282ead8);
    assert_int_equal(crc32c_mask(1), 0xa284ead8);
    assert_int_not_equal(crc32c_mask(crc), crc);
    assert_int_equal(crc32c_unmask(crc32c_mask(crc)), crc);
    assert_int_equal(crc32c_unmask(crc32c_unmask(crc32c_mask(crc32c_mask(crc)))), crc);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_of_every_length_is_valid),
        cmocka_unit_test(test_bytes_that_are_no_utf8_are_refused),
        cmocka_unit_test(test_every_code_point_but_surrogates_is_valid),
        cmocka_unit_test(test_cut_text_ends_in_dots),
        cmocka_unit_test(test_amounts_of_bytes_read_well),
        cmocka_unit_test(test_times_read_well),
        cmocka_unit_test(test_sums_and_products_that_overflow_are_seen),
        cmocka_unit_test(test_likeness_is_the_share_that_need_not_change),
        cmocka_unit_test(test_likeness_looks_at_256_bytes),
        cmocka_unit_test(test_s15_names_that_entries_may_have),
        cmocka_unit_test(test_s15_empty_name_is_refused),
        cmocka_unit_test(test_s15_too_long_name_is_refused_and_the_longest_is_not),
        cmocka_unit_test(test_s15_nul_in_a_name_is_refused),
        cmocka_unit_test(test_s15_name_that_is_no_utf8_is_refused),
        cmocka_unit_test(test_s15_control_characters_in_a_name_are_refused),
        cmocka_unit_test(test_s15_leading_slash_is_refused),
        cmocka_unit_test(test_s15_empty_components_are_refused),
        cmocka_unit_test(test_s15_dot_components_are_refused),
        cmocka_unit_test(test_checksums_are_those_of_rfc_3720),
        cmocka_unit_test(test_checksum_goes_on_over_any_split_and_copies),
        cmocka_unit_test(test_masked_checksum_is_leveldbs_and_comes_back),
    };
    return cmocka_run_group_tests_name("base text", tests, NULL, NULL);
}
