/* SPDX-License-Identifier: Apache-2.0 */
/* json_same: texts that say the same are equal however they are written, and no others. */
#include "base/json.h"
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "lib/test.h"

#include <stdio.h>
#include <string.h>

typedef struct pair {
    const char *a, *b;
} pair;

static bool same(const char *a, const char *b) {
    return json_same(a, strlen(a), b, strlen(b));
}

static void test_what_says_the_same_is_the_same(void **state) {
    (void)state;
    static const pair pairs[] = {
        {"{\"a\": 1, \"b\": [true, null]}", " {\"b\":[true,null],\n\"a\":1}"},
        {"1", "1.0"},
        {"1", "10e-1"},
        {"-120", "-1.2E+2"},
        {"0", "-0.000e99"},
        {"1e400", "10e399"},
        {"0.001", "1e-3"},
        {"1e99999999999999999999", "1e99999999999999999999"},
        {"\"\\u0041\\u00e4\\ud83d\\ude00\\/\"", "\"A\xc3\xa4\xf0\x9f\x98\x80/\""},
        {"{\"\\u0000\": \"\\u0000\"}", "{\"\\u0000\":\"\\u0000\"}"},
        {"{\"a\":1,\"a\":2,\"b\":3}", "{\"b\":3,\"a\":1,\"a\":2}"},
        {"[]", "[ ]"},
        {"\"\"", "\"\""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(pairs); i++) {
        if (!same(pairs[i].a, pairs[i].b) || !same(pairs[i].b, pairs[i].a)) {
            fail_msg("%s and %s", pairs[i].a, pairs[i].b);
        }
    }
}

static void test_what_says_something_else_differs(void **state) {
    (void)state;
    static const pair pairs[] = {
        {"35399562948360463058890781895381311971", "35399562948360463058890781895381311972"},
        {"0.1000000000000000000000000001", "0.1"},
        {"1e400", "1e401"},
        {"1e99999999999999999999", "1e99999999999999999998"},
        {"1", "-1"},
        {"1", "10"},
        {"1", "\"1\""},
        {"0", "false"},
        {"null", "0"},
        {"true", "false"},
        {"[]", "{}"},
        {"[1,2]", "[2,1]"},
        {"[1]", "[1,1]"},
        {"{\"a\":1}", "{\"b\":1}"},
        {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
        {"{\"a\":1,\"a\":2}", "{\"a\":2,\"a\":1}"},
        {"\"a\"", "\"a\\u0000\""},
        {"\"\"", "[]"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(pairs); i++) {
        if (same(pairs[i].a, pairs[i].b) || same(pairs[i].b, pairs[i].a)) {
            fail_msg("%s and %s", pairs[i].a, pairs[i].b);
        }
    }
}

/* ---- numbers of any size -------------------------------------------------------------------- */

/* Digits, and a power of ten, in one of the ways to write them. */
static void write_number(test_random *random, const char *digits, int power, char *out,
                         size_t size) {
    int point = (int)random_below(random, strlen(digits) + 1);
    int zeros = (int)random_below(random, 5);
    int behind = (int)(strlen(digits) - (size_t)point);
    (void)snprintf(out, size, "%.*s%s%s%s%.*se%d", point, digits, point == 0 ? "0" : "",
                   behind + zeros > 0 ? "." : "", digits + point, zeros, "0000", power + behind);
}

static void test_a_number_is_the_same_however_it_is_written(void **state) {
    (void)state;
    test_random random = {17};
    for (int i = 0; i < 5000; i++) {
        char digits[60];
        char texts[3][128];
        size_t n = 1 + random_below(&random, 58);
        int power = (int)random_below(&random, 2000) - 1000;
        for (size_t d = 0; d < n; d++) {
            digits[d] = (char)('0' + random_below(&random, 10));
        }
        digits[0] = digits[0] == '0' ? '1' : digits[0];
        digits[n] = '\0';
        write_number(&random, digits, power, texts[0], sizeof texts[0]);
        write_number(&random, digits, power, texts[1], sizeof texts[1]);
        size_t other = random_below(&random, n);
        digits[other] = digits[other] == '9' ? '8' : (char)(digits[other] + 1);
        write_number(&random, digits, power, texts[2], sizeof texts[2]);
        if (!same(texts[0], texts[1]) || same(texts[0], texts[2])) {
            fail_msg("%s, %s and %s", texts[0], texts[1], texts[2]);
        }
    }
}

static void test_what_is_no_json_or_too_long_is_the_same_as_nothing(void **state) {
    (void)state;
    static char large[PAWL_MAX_VALUE_BYTES + 1];
    memset(large, ' ', sizeof large);
    large[0] = '1';
    assert_false(same("{", "{"));
    assert_false(json_same(large, sizeof large, large, sizeof large));
    assert_true(json_same(large, sizeof large - 1, "1", 1));
}

static pawl_status compare(void *context, pawl_error *err) {
    (void)context;
    static const char a[] = "{\"a\":[1,2,{\"b\":\"c\"}]}";
    static const char b[] = "{\"a\": [1.0, 2, {\"b\": \"c\"}]}";
    return json_same(a, sizeof a - 1, b, sizeof b - 1) ? PAWL_OK : error_nomem(err, 1);
}

/* It says "not the same" then, and leaves nothing behind. */
static void test_out_of_memory_is_no_equality(void **state) {
    (void)state;
    assert_true(failing_memory_each(compare, NULL) > 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_says_the_same_is_the_same),
        cmocka_unit_test(test_what_says_something_else_differs),
        cmocka_unit_test(test_a_number_is_the_same_however_it_is_written),
        cmocka_unit_test(test_what_is_no_json_or_too_long_is_the_same_as_nothing),
        cmocka_unit_test(test_out_of_memory_is_no_equality),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
