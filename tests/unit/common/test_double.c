/* SPDX-License-Identifier: Apache-2.0 */
/* Doubles as text for machines: shortest, exact, and the same in every locale. */
#include "lib/locale.h"
#include "lib/random.h"
#include "lib/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    double number;
    const char *text;
} golden[] = {
    {0, "0"},
    {-0.0, "-0"},
    {30, "30"},
    {0.1, "0.1"},
    {-2.5, "-2.5"},
    {1.0 / 3, "0.3333333333333333"},
    {0.1 + 0.2, "0.30000000000000004"},
    {1e22, "1e+22"},
    {-1.5e-300, "-1.5e-300"},
    {DBL_MAX, "1.7976931348623157e+308"},
    {-DBL_MIN, "-2.2250738585072014e-308"},
    {9007199254740993.0, "9007199254740992"},
};

static void assert_golden(void) {
    for (size_t i = 0; i < ARRAY_LENGTH(golden); i++) {
        char out[DOUBLE_CHARS];
        assert_string_equal(text_double(out, golden[i].number), golden[i].text);
    }
}

static void test_the_shortest_text_of_32_bits(void **state) {
    static const struct {
        float number;
        const char *text;
    } singles[] = {{0.001F, "0.001"},
                   {0.1F, "0.1"},
                   {-0.0F, "-0"},
                   {1.0F / 3, "0.33333334"},
                   {FLT_MAX, "3.4028235e+38"},
                   {16777216.0F, "16777216"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(singles); i++) {
        char out[DOUBLE_CHARS];
        assert_string_equal(text_single(out, singles[i].number), singles[i].text);
    }
}

static void test_the_shortest_text_that_reads_back(void **state) {
    (void)state;
    assert_golden();
}

static void test_any_double_reads_back(void **state) {
    (void)state;
    test_random random = {7};
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = random_next(&random);
        double number;
        char out[DOUBLE_CHARS];
        memcpy(&number, &bits, sizeof number);
        if (isfinite(number) && strtod(text_double(out, number), NULL) != number) {
            fail_msg("%a became %s", number, out);
        }
    }
}

static void in_locale(test_locale which) {
    if (!locale_begin(which)) {
        skip();
    }
    assert_golden();
    locale_end();
}

static void test_a_point_where_the_locale_has_a_comma(void **state) {
    (void)state;
    in_locale(LOCALE_COMMA);
}

static void test_a_point_where_the_locale_has_two_bytes(void **state) {
    (void)state;
    in_locale(LOCALE_WIDE);
}

static void assert_json(double number, const char *text) {
    CLEANUP(buffer_free) buffer out = {0};
    struct pawl_error err = ERROR_INIT;
    assert_ok(buffer_json_number(&out, number, &err), &err);
    assert_int_equal(out.size, strlen(text));
    assert_string_equal((const char *)out.data, text);
}

static void test_what_is_not_finite_is_a_string_in_json(void **state) {
    (void)state;
    assert_json(-0.25, "-0.25");
    assert_json(INFINITY, "\"inf\"");
    assert_json(-INFINITY, "\"-inf\"");
    assert_json(fabs((double)NAN), "\"nan\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_shortest_text_of_32_bits),
        cmocka_unit_test(test_the_shortest_text_that_reads_back),
        cmocka_unit_test(test_any_double_reads_back),
        cmocka_unit_test(test_a_point_where_the_locale_has_a_comma),
        cmocka_unit_test(test_a_point_where_the_locale_has_two_bytes),
        cmocka_unit_test(test_what_is_not_finite_is_a_string_in_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
