/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of JSON are the doubles that strtod has, whatever the locale and the length. */
#include "common/json.h"
#include "lib/locale.h"
#include "lib/random.h"
#include "lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool agrees(const char *text, bool *rounds) {
    double value = 0;
    double wanted = strtod(text, NULL);
    *rounds = json_number((json_span){text, strlen(text)}, &value);
    return *rounds == (bool)isfinite(wanted) && (!*rounds || value == wanted);
}

static void test_numbers_around_the_edges(void **state) {
    (void)state;
    static const char *const texts[] = {"0",
                                        "-0",
                                        "0.000",
                                        "0e999",
                                        "-1.5e-3",
                                        "1e-999",
                                        "1e308",
                                        "1e309",
                                        "-1e309",
                                        "1E+9999999999999999999999",
                                        "1e-9999999999999999999999",
                                        "0.00017976931348623158079e312",
                                        "179769313486231570000.0e288",
                                        "1.7976931348623158e308",
                                        "1.7976931348623159e308",
                                        "123456789012345678901234567890"};
    bool rounds;
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        assert_true(agrees(texts[i], &rounds));
    }
}

/* Digits of the number halfway beyond the largest double, and of its neighbours. */
static void test_digits_near_the_largest_double(void **state) {
    (void)state;
    static const char halfway[] =
        "17976931348623158079372897140530341507993413271003782693617377"
        "8980444968292764750946649017977587207096330286416692887910946555547851940402";
    test_random random = {8};
    int rounding = 0;
    for (int i = 0; i < 20000; i++) {
        char digits[sizeof(halfway) + 8], text[sizeof(halfway) + 40];
        size_t n = 1 + (size_t)random_below(&random, sizeof(halfway) - 1);
        size_t point = 1 + (size_t)random_below(&random, n);
        memcpy(digits, halfway, n);
        digits[n] = '\0';
        if (random_below(&random, 2) == 0) {
            digits[n - 1] = (char)('0' + random_below(&random, 10));
        }
        if (digits[0] == '0') {
            continue; /* no JSON, with digits behind it */
        }
        int exponent = 309 - (int)point - (int)(random_below(&random, 8) == 0);
        (void)snprintf(text, sizeof(text), "%.*s%s%se%d", (int)point, digits, point < n ? "." : "",
                       digits + point, exponent);
        bool rounds;
        assert_true(agrees(text, &rounds));
        rounding += rounds;
    }
    assert_in_range(rounding, 2000, 19000);
}

/* 2^-1074, the smallest double, and half of it: what lies above the half rounds to the double. */
static void test_a_digit_far_behind_decides(void **state) {
    (void)state;
    char half[1200];
    double value = 1;
    size_t n = (size_t)snprintf(half, sizeof half, "%.1075f", 0x1p-1074);
    assert_true(json_number((json_span){half, n}, &value) && value == 0x1p-1074);
    n = (size_t)snprintf(half, sizeof half, "%.1080Lf", 0x1p-1075L);
    assert_true(json_number((json_span){half, n}, &value) && value == 0);
    half[n - 1] = '1';
    assert_true(json_number((json_span){half, n}, &value) && value == 0x1p-1074);
}

static void test_the_locale_has_no_say(void **state) {
    (void)state;
    double value = 0;
    if (!locale_begin(LOCALE_COMMA)) {
        skip();
    }
    assert_true(json_number((json_span){"1.5", 3}, &value) && value == 1.5);
    locale_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_around_the_edges),
        cmocka_unit_test(test_digits_near_the_largest_double),
        cmocka_unit_test(test_a_digit_far_behind_decides),
        cmocka_unit_test(test_the_locale_has_no_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
