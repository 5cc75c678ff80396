/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation, growing arrays, arenas: what they give, and what is left when memory runs out. */
#include "lib/failing_memory.h"
#include "lib/test.h"

#include <string.h>

static void test_zero_bytes_are_a_pointer_to_free(void **state) {
    (void)state;
    AUTOFREE void *a = mem_alloc(0);
    AUTOFREE void *b = mem_calloc(0, 8);
    AUTOFREE void *c = mem_aligned(64, 0);
    AUTOFREE void *d = mem_dup(NULL, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    assert_non_null(d);
}

static void test_calloc_refuses_a_product_that_overflows(void **state) {
    (void)state;
    assert_null(mem_calloc(SIZE_MAX / 4, 8));
}

static void test_calloc_clears(void **state) {
    (void)state;
    static const uint8_t zeros[1000];
    AUTOFREE uint8_t *bytes = mem_calloc(100, 10);
    assert_memory_equal(bytes, zeros, sizeof(zeros));
}

static void test_aligned_memory_is_aligned(void **state) {
    (void)state;
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        AUTOFREE uint8_t *bytes = mem_aligned(alignment, 100);
        assert_int_equal((uintptr_t)bytes % alignment, 0);
        memset(bytes, 1, 100);
    }
}

static void test_copies_are_equal_and_apart(void **state) {
    (void)state;
    char text[] = "dense/kernel";
    AUTOFREE char *copy = mem_strdup(text);
    AUTOFREE char *bytes = mem_dup(text, 5);
    text[0] = 'X';
    assert_string_equal(copy, "dense/kernel");
    assert_memory_equal(bytes, "dense", 5);
}

static void test_live_allocations_are_counted(void **state) {
    (void)state;
    uint64_t before = failing_memory_live();
    void *a = mem_alloc(10);
    char *b = mem_strdup("b");
    void *c = mem_aligned(64, 10);
    assert_int_equal(failing_memory_live(), before + 3);
    mem_free(a);
    mem_free(b);
    mem_free(c);
    mem_free(NULL);
    assert_int_equal(failing_memory_live(), before);
}

static void test_only_the_nth_allocation_fails(void **state) {
    (void)state;
    failing_memory_set(2);
    AUTOFREE void *first = mem_alloc(1);
    assert_false(failing_memory_fired());
    AUTOFREE void *second = mem_alloc(1);
    assert_true(failing_memory_fired());
    AUTOFREE void *third = mem_alloc(1);
    assert_non_null(first);
    assert_null(second);
    assert_non_null(third);
}

static void test_array_grows_and_keeps_what_it_holds(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    AUTOFREE int *items = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 1000; i++) {
        assert_ok(vec_reserve(&items, &capacity, (size_t)i + 1, sizeof(*items), &err), &err);
        items[i] = i;
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(items[i], i);
    }
    assert_int_equal(capacity, 1024);
}

static void test_array_beyond_all_memory_is_refused_and_kept(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    AUTOFREE uint64_t *items = NULL;
    size_t capacity = 0;
    assert_ok(vec_reserve(&items, &capacity, 1, sizeof(*items), &err), &err);
    items[0] = 7;
    assert_fails(vec_reserve(&items, &capacity, SIZE_MAX / 2, sizeof(*items), &err), PAWL_ENOMEM,
                 &err);
    assert_string_equal(err.attempt, "out of memory: more was wanted than can be addressed");
    assert_int_equal(capacity, 8);
    assert_int_equal(items[0], 7);
}

static pawl_status grow_array(void *context, pawl_error *err) {
    (void)context;
    AUTOFREE char *items = NULL;
    size_t capacity = 0;
    for (size_t n = 1; n < 100; n += 10) {
        TRY(vec_reserve(&items, &capacity, n, 1, err));
    }
    return PAWL_OK;
}

static void test_array_survives_every_failing_allocation(void **state) {
    (void)state;
    assert_int_equal(failing_memory_each(grow_array, NULL), 5);
}

static void test_failed_growth_says_how_much(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    AUTOFREE char *items = NULL;
    size_t capacity = 0;
    failing_memory_set(1);
    assert_fails(vec_reserve(&items, &capacity, 2048, 1, &err), PAWL_ENOMEM, &err);
    assert_status_text(&err, PAWL_ENOMEM, "out of memory: 2.05 kB could not be allocated");
}

static void test_arena_gives_aligned_memory_of_any_size_that_stays(void **state) {
    (void)state;
    CLEANUP(arena_free) arena a = {0};
    uint8_t *given[500];
    for (size_t i = 0; i < 500; i++) {
        given[i] = arena_alloc(&a, i * 37 % 5000);
        assert_non_null(given[i]);
        assert_int_equal((uintptr_t)given[i] % 8, 0);
        memset(given[i], (int)(i % 251), i * 37 % 5000);
    }
    for (size_t i = 0; i < 500; i++) {
        for (size_t j = 0; j < i * 37 % 5000; j++) {
            assert_int_equal(given[i][j], i % 251);
        }
    }
}

static void test_an_arena_takes_back_what_the_last_one_does_not_need(void **state) {
    (void)state;
    CLEANUP(arena_free) arena a = {0};
    char *first = arena_alloc(&a, 1000);
    assert_non_null(first);
    arena_trim(&a, first, 3);
    char *second = arena_alloc(&a, 100000); /* in a block of its own */
    assert_non_null(second);
    arena_trim(&a, second, 1);
    char *third = arena_alloc(&a, 1);
    assert_ptr_equal(third, first + 8);
}

static void test_arena_holds_text(void **state) {
    (void)state;
    CLEANUP(arena_free) arena a = {0};
    assert_string_equal(arena_strdup(&a, "abc"), "abc");
    assert_string_equal(arena_printf(&a, "%d-%s", 7, "x"), "7-x");
    assert_string_equal(arena_printf(&a, "%s", ""), "");
}

static void test_arena_refuses_more_than_can_be_addressed(void **state) {
    (void)state;
    CLEANUP(arena_free) arena a = {0};
    assert_null(arena_alloc(&a, SIZE_MAX));
    assert_null(arena_alloc(&a, SIZE_MAX - 8));
    assert_null(arena_alloc(&a, PTRDIFF_MAX));
}

static void test_arena_uses_few_allocations_for_many_small_things(void **state) {
    (void)state;
    CLEANUP(arena_free) arena a = {0};
    uint64_t before = failing_memory_live();
    for (int i = 0; i < 100000; i++) {
        assert_non_null(arena_alloc(&a, 24));
    }
    assert_in_range(failing_memory_live() - before, 1, 30);
}

static pawl_status fill_arena(void *context, pawl_error *err) {
    (void)context;
    CLEANUP(arena_free) arena a = {0};
    for (size_t i = 0; i < 40; i++) {
        if (arena_alloc(&a, 1000) == NULL || arena_printf(&a, "%zu", i) == NULL ||
            arena_strdup(&a, "abc") == NULL || arena_alloc(&a, 9000) == NULL) {
            return error_nomem(err, 1000);
        }
    }
    return PAWL_OK;
}

static void test_arena_survives_every_failing_allocation(void **state) {
    (void)state;
    assert_in_range(failing_memory_each(fill_arena, NULL), 2, 60);
}

static int tear_down(void **state) {
    (void)state;
    failing_memory_set(0);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zero_bytes_are_a_pointer_to_free),
        cmocka_unit_test(test_calloc_refuses_a_product_that_overflows),
        cmocka_unit_test(test_calloc_clears),
        cmocka_unit_test(test_aligned_memory_is_aligned),
        cmocka_unit_test(test_copies_are_equal_and_apart),
        cmocka_unit_test(test_live_allocations_are_counted),
        cmocka_unit_test_teardown(test_only_the_nth_allocation_fails, tear_down),
        cmocka_unit_test(test_array_grows_and_keeps_what_it_holds),
        cmocka_unit_test(test_array_beyond_all_memory_is_refused_and_kept),
        cmocka_unit_test(test_array_survives_every_failing_allocation),
        cmocka_unit_test_teardown(test_failed_growth_says_how_much, tear_down),
        cmocka_unit_test(test_arena_gives_aligned_memory_of_any_size_that_stays),
        cmocka_unit_test(test_an_arena_takes_back_what_the_last_one_does_not_need),
        cmocka_unit_test(test_arena_holds_text),
        cmocka_unit_test(test_arena_refuses_more_than_can_be_addressed),
        cmocka_unit_test(test_arena_uses_few_allocations_for_many_small_things),
        cmocka_unit_test(test_arena_survives_every_failing_allocation),
    };
    return cmocka_run_group_tests_name("base memory", tests, NULL, NULL);
}
