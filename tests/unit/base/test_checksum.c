/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums: the values that their specifications have, and sums of parts joined. */
#include "lib/test.h"

#include "base/checksum_join.h"

#define BYTES 5000u

static void test_the_values_of_the_specifications(void **state) {
    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(crc32_zip(0, "123456789", 9), 0xcbf43926);
}

static void test_a_sum_goes_on_where_the_one_before_ended(void **state) {
    (void)state;
    assert_int_equal(crc32c(crc32c(0, "1234", 4), "56789", 5), 0xe3069283);
    assert_int_equal(crc32_zip(crc32_zip(0, "1234", 4), "56789", 5), 0xcbf43926);
}

static void test_sums_of_two_parts_joined_are_that_of_both(void **state) {
    (void)state;
    static uint8_t bytes[BYTES];
    for (size_t i = 0; i < BYTES; i++) {
        bytes[i] = (uint8_t)(i * 37 + i / 256);
    }
    for (size_t cut = 0; cut <= BYTES; cut += cut < 70 ? 1 : 577) {
        size_t n = BYTES - cut;
        uint32_t left = crc32c(0, bytes, cut);
        uint32_t right = crc32c(0, bytes + cut, n);
        assert_int_equal(crc32c_join(left, right, n), crc32c(0, bytes, BYTES));
        left = crc32_zip(0, bytes, cut);
        right = crc32_zip(0, bytes + cut, n);
        assert_int_equal(crc32_zip_join(left, right, n), crc32_zip(0, bytes, BYTES));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_values_of_the_specifications),
        cmocka_unit_test(test_a_sum_goes_on_where_the_one_before_ended),
        cmocka_unit_test(test_sums_of_two_parts_joined_are_that_of_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
