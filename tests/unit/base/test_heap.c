/* SPDX-License-Identifier: Apache-2.0 */
/* The heap against a look at every item. */
#include "base/heap.h"
#include "lib/random.h"
#include "lib/test.h"

#define ITEMS 200

static int compare_keys(const void *context, uint32_t a, uint32_t b) {
    const uint32_t *keys = context;
    return (keys[a] > keys[b]) - (keys[a] < keys[b]);
}

static uint32_t least_key(const heap *h, const uint32_t *keys, size_t *times) {
    uint32_t least = UINT32_MAX;
    *times = 0;
    for (size_t i = 0; i < h->count; i++) {
        uint32_t key = keys[h->items[i]];
        *times = key < least ? 1 : *times + (key == least);
        least = key < least ? key : least;
    }
    return least;
}

static void check_least(const heap *h, const uint32_t *keys) {
    uint32_t places[ITEMS];
    size_t times = 0;
    uint32_t least = least_key(h, keys, &times);
    assert_int_equal(heap_least(h, places), times);
    for (size_t k = 0; k < times; k++) {
        assert_int_equal(keys[h->items[places[k]]], least);
        assert_true(k == 0 || places[k - 1] < places[k]);
    }
}

static void fill(heap *h, uint32_t *keys, uint64_t seed) {
    test_random r = {seed};
    h->count = 1 + random_below(&r, ITEMS);
    for (size_t i = 0; i < h->count; i++) {
        keys[i] = (uint32_t)random_below(&r, 40);
        h->items[i] = (uint32_t)i;
    }
    heap_make(h);
}

static void test_the_least_is_in_front(void **state) {
    (void)state;
    uint32_t keys[ITEMS];
    uint32_t items[ITEMS];
    heap h = {.items = items, .compare = compare_keys, .context = keys};
    for (uint64_t seed = 1; seed <= 100; seed++) {
        fill(&h, keys, seed);
        check_least(&h, keys);
        for (size_t i = 0; i < 100; i++) {
            keys[h.items[0]] += (uint32_t)i;
            heap_sink(&h, 0);
            check_least(&h, keys);
        }
    }
}

static void test_items_go_out_in_order_and_in_again(void **state) {
    (void)state;
    uint32_t keys[ITEMS];
    uint32_t items[ITEMS];
    heap h = {.items = items, .compare = compare_keys, .context = keys};
    for (uint64_t seed = 1; seed <= 100; seed++) {
        fill(&h, keys, seed);
        size_t count = h.count;
        for (size_t left = count; left > 0; left--) {
            check_least(&h, keys);
            heap_pop(&h);
            assert_int_equal(h.count, left - 1);
            assert_true(left == count || keys[h.items[left]] <= keys[h.items[left - 1]]);
        }
        for (size_t i = 0; i < count; i++) {
            heap_push(&h);
            check_least(&h, keys);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_least_is_in_front),
        cmocka_unit_test(test_items_go_out_in_order_and_in_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
