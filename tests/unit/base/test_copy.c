/* SPDX-License-Identifier: Apache-2.0 */
/* Copies past the caches have the same bytes as others, and touch nothing around them. */
#include "lib/random.h"
#include "lib/test.h"

#include "base/base.h"

#include <string.h>

#define MOST ((size_t)9000)
#define PAD  ((size_t)128)

static void assert_copies(const uint8_t *from, size_t n, size_t to_shift) {
    static uint8_t memory[MOST + 2 * PAD];
    uint8_t *to = memory + PAD + to_shift - PAD / 2;
    memset(memory, 0xa5, sizeof(memory));
    mem_copy_past_caches(to, from, n);
    mem_copies_end();
    assert_memory_equal(to, from, n);
    for (const uint8_t *at = memory; at < memory + sizeof(memory); at++) {
        assert_true((at >= to && at < to + n) || *at == 0xa5);
    }
}

static void test_any_length_and_alignment(void **state) {
    (void)state;
    static uint8_t source[MOST + PAD];
    test_random random = {.state = 1};
    for (size_t i = 0; i < sizeof(source); i++) {
        source[i] = (uint8_t)random_next(&random);
    }
    static const size_t lengths[] = {0,    1,    63,   64,   65,   2047, 2048, 2049,
                                     2111, 2112, 2113, 4095, 4096, 4097, MOST};
    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        for (size_t shift = 0; shift < 64; shift++) {
            assert_copies(source + (shift * 7) % 64, lengths[i], shift);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_length_and_alignment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
