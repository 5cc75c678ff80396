/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory entries may take where few bytes describe many of them. */
#include "unit/foreign/made_archive.h"

#include "format/limits.h"

#define SMALL "x"

/* What the reader of the format below adds: values of so many bytes, until it is refused. */
static uint64_t described, added;
static size_t each;
static bool allows;

static pawl_status read_values(archive *a, pawl_error *err) {
    static char text[100000];
    char name[32];
    uint32_t file;
    TRY(archive_add_file(a, SMALL, &file, err));
    if (allows) {
        archive_allow(a, described / 2);
        archive_allow(a, described - described / 2);
    }
    memset(text, 'x', sizeof(text));
    for (added = 0; added < 200000; added++) {
        snprintf(name, sizeof(name), "%llu", (unsigned long long)added);
        TRY(archive_add_value(a, name, 0, PAWL_KIND_STRING, text, each, err));
    }
    return PAWL_OK;
}

static const archive_format format = {.name = "test", .unverified = "all", .read = read_values};

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    store *s;
    assert_ok(store_mem(&s, &err), &err);
    put_anew(s, SMALL, "x", 1);
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    store_destroy(*state);
    return 0;
}

static void assert_stops(store *s, size_t bytes, uint64_t of) {
    struct pawl_error err;
    struct source *source;
    each = bytes;
    described = of;
    allows = true;
    assert_fails(made_archive(s, &format, SMALL, &source, &err), PAWL_ELIMIT, &err);
    assert_says(err.attempt, "entries that so few bytes describe");
    uint64_t most = FOREIGN_SHARED_BYTES + FOREIGN_SHARED_FACTOR * of;
    assert_in_range(added, most / 2000 / (bytes + 1), most / (2 * bytes + 1));
}

static void test_r14_large_values_that_few_bytes_describe(void **state) {
    assert_stops(*state, 100000, 0);
    assert_stops(*state, 100000, 300000);
    assert_stops(*state, 100000, 300001);
}

static void test_r14_many_values_that_few_bytes_describe(void **state) {
    assert_stops(*state, 1, 0);
    assert_stops(*state, 1, 1000);
}

static void test_values_that_are_described_one_by_one(void **state) {
    struct pawl_error err;
    struct source *source;
    each = 1;
    described = 4000000;
    for (int i = 0; i < 2; i++) {
        allows = i == 0;
        assert_ok(made_archive(*state, &format, SMALL, &source, &err), &err);
        assert_int_equal(added, 200000);
        source->ops->destroy(source);
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_r14_large_values_that_few_bytes_describe, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_r14_many_values_that_few_bytes_describe, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_values_that_are_described_one_by_one, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
