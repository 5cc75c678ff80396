/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of files that were read already: which are found, and which must be read again. */
#include "lib/test.h"

#include "source/source.h"

typedef struct fixture {
    struct source source;
    source_ops ops;
    source_parts *parts;
    uint8_t bytes[4096];
} fixture;

/* Files 4 to 7 are files 0 to 3 without their first byte; others are made of them. */
static bool in_file(struct source *s, uint32_t *file, uint64_t *at) {
    if (*file >= 2 * s->files) {
        return false;
    }
    *at += *file / s->files;
    *file %= s->files;
    return true;
}

static void set_up(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    *f = (fixture){.ops = {.in_file = in_file}};
    f->source = (struct source){.ops = &f->ops, .files = 4, .sum = crc32_zip};
    for (size_t i = 0; i < sizeof(f->bytes); i++) {
        f->bytes[i] = (uint8_t)(i * 31 + i / 251);
    }
    assert_ok(source_parts_new(&f->parts, &err), &err);
}

static void add(fixture *f, uint32_t file, uint64_t at, size_t n) {
    source_parts_add(f->parts, &f->source, file, at, f->bytes + at, n);
}

static void assert_found(fixture *f, uint32_t file, uint64_t at, uint64_t end, size_t n) {
    source_part part;
    assert_true(source_parts_find(f->parts, file, at, end, &part));
    assert_int_equal(part.bytes, n);
    assert_int_equal(part.sum, crc32_zip(0, f->bytes + at, n));
}

static void assert_missing(fixture *f, uint32_t file, uint64_t at, uint64_t end, uint64_t n) {
    source_part part;
    assert_false(source_parts_find(f->parts, file, at, end, &part));
    assert_int_equal(part.bytes, n);
}

static void test_parts_are_found_in_any_order(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    add(&f, 1, 2000, 100);
    add(&f, 1, 1000, 1000);
    add(&f, 0, 1000, 500);
    assert_found(&f, 1, 1000, 4096, 1000);
    assert_found(&f, 1, 2000, 2100, 100);
    assert_found(&f, 0, 1000, 4096, 500);
    assert_missing(&f, 1, 0, 4096, 1000); /* up to the next part */
    assert_missing(&f, 1, 2100, 4096, 1996);
    assert_missing(&f, 2, 0, 10, 10);
    source_parts_free(f.parts);
}

static void test_a_part_of_more_than_is_asked_for_is_no_part_of_it(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    add(&f, 0, 100, 200);
    assert_missing(&f, 0, 100, 299, 199);
    assert_found(&f, 0, 100, 300, 200);
    source_parts_free(f.parts);
}

static void test_parts_that_overlap_are_read_again(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    add(&f, 0, 100, 200);
    add(&f, 0, 250, 100);
    add(&f, 0, 340, 100);
    add(&f, 0, 440, 10);
    assert_missing(&f, 0, 100, 4096, 340);
    assert_found(&f, 0, 440, 4096, 10);
    source_parts_free(f.parts);
}

static void test_a_part_that_was_read_twice_counts_if_it_was_the_same(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    add(&f, 0, 100, 200);
    add(&f, 0, 100, 200);
    add(&f, 0, 500, 50);
    source_parts_add(f.parts, &f.source, 0, 500, f.bytes, 50); /* other bytes */
    assert_found(&f, 0, 100, 4096, 200);
    assert_missing(&f, 0, 500, 4096, 3596);
    source_parts_free(f.parts);
}

static void test_a_place_is_that_in_the_real_file(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    source_parts_add(f.parts, &f.source, 5, 99, f.bytes + 100, 20);
    add(&f, 9, 300, 20);
    assert_found(&f, 1, 100, 4096, 20);
    assert_missing(&f, 1, 300, 400, 100);
    source_parts_free(f.parts);
}

static void test_what_was_read_is_touched(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    assert_true(source_parts_touch(NULL, 0, 0, 1));
    assert_false(source_parts_touch(f.parts, 0, 0, 4096));
    add(&f, 1, 100, 50);
    assert_false(source_parts_touch(f.parts, 1, 0, 100));
    assert_true(source_parts_touch(f.parts, 1, 0, 101));
    assert_true(source_parts_touch(f.parts, 1, 120, 130));
    assert_true(source_parts_touch(f.parts, 1, 149, 4096));
    assert_false(source_parts_touch(f.parts, 1, 150, 4096));
    assert_false(source_parts_touch(f.parts, 0, 100, 150));
    source_parts_mark(f.parts, 2, 1000);
    assert_true(source_parts_touch(f.parts, 2, 900, 1001));
    assert_false(source_parts_touch(f.parts, 2, 900, 1000));
    assert_false(source_parts_touch(f.parts, 2, 1001, 4096));
    assert_missing(&f, 2, 1000, 1100, 100);
    source_parts_free(f.parts);
}

/* Two views of one storage: its checksum is compared, and that of no other one. */
static void test_parts_that_overlap_touch_what_they_are_of(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    add(&f, 0, 100, 200);
    add(&f, 0, 250, 100);
    assert_true(source_parts_touch(f.parts, 0, 64, 400));
    assert_false(source_parts_touch(f.parts, 0, 400, 4096));
    assert_false(source_parts_touch(f.parts, 3, 0, 4096));
    assert_missing(&f, 0, 100, 400, 300);
    source_parts_free(f.parts);
}

static void test_nothing_is_noted_of_a_source_without_sums(void **state) {
    (void)state;
    fixture f;
    set_up(&f);
    f.source.sum = NULL;
    add(&f, 0, 0, 100);
    assert_missing(&f, 0, 0, 100, 100);
    source_parts_free(f.parts);
    f.parts = NULL;
    assert_missing(&f, 0, 0, 100, 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_found_in_any_order),
        cmocka_unit_test(test_a_part_of_more_than_is_asked_for_is_no_part_of_it),
        cmocka_unit_test(test_parts_that_overlap_are_read_again),
        cmocka_unit_test(test_a_part_that_was_read_twice_counts_if_it_was_the_same),
        cmocka_unit_test(test_a_place_is_that_in_the_real_file),
        cmocka_unit_test(test_what_was_read_is_touched),
        cmocka_unit_test(test_parts_that_overlap_touch_what_they_are_of),
        cmocka_unit_test(test_nothing_is_noted_of_a_source_without_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
