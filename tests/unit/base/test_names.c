/* SPDX-License-Identifier: Apache-2.0 */
/* Names of entries, checksums. */
#include "lib/random.h"
#include "lib/test.h"

#include <string.h>

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
    return cmocka_run_group_tests(tests, NULL, NULL);
}
