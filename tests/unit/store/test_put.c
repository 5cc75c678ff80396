/* SPDX-License-Identifier: Apache-2.0 */
/* Publishing on an object store, where small files are put whole instead of being renamed. */
#include "fixtures.h"

#include "lib/simulated_platform.h"

#include <errno.h>

typedef struct fixture {
    simulated_platform os;
    store *objects, *s; /* `s`: with faults */
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    pawl_error err = ERROR_INIT;
    simulated_platform_init(&f->os, 1);
    assert_ok(store_objects(&f->os.table, &(store_objects_options){0}, &f->objects, &err), &err);
    assert_ok(store_fault_wrap(f->objects, &f->os.table, &f->s, &err), &err);
    put_text(f->objects, "m", "old");
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    store_destroy(f->s);
    store_destroy(f->objects);
    mem_free(f);
    return 0;
}

/* All three ways to publish are one operation, which leaves nothing but the file. */
static void test_publishing_is_one_put(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    assert_ok(publish(f->s, "m", "first", 5, &err), &err);
    assert_text(f->objects, "m", "first");
    assert_ok(store_replace(f->s, "m", "second", 6, &err), &err);
    assert_text(f->objects, "m", "second");
    assert_ok(publish(f->s, "n", "third", 5, &err), &err);
    assert_names(f->objects, "", "m n ");
    assert_int_equal(store_fault_count(f->s, STORE_OP_PUT), 3);
    assert_int_equal(store_fault_count(f->s, STORE_OP_ANY), 3);
}

/* Nothing can be renamed, and the message says what and why. */
static void test_a_rename_is_refused(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    assert_int_not_equal(store_rename(f->s, "m", "n", &err), PAWL_OK);
    assert_string_equal(error_text(&err),
                        "cannot rename the file\n"
                        "  path:     /mem/m\n"
                        "  system:   Operation not supported (EOPNOTSUPP, errno 95)");
    assert_names(f->objects, "", "m ");
}

/* A put that fails keeps the old file, and says so. */
static void test_s07_a_put_that_fails_keeps_the_old_file(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_PUT, .nth = 1, .system_errno = ENOSPC});
    assert_fails(publish(f->s, "m", "new", 3, &err), PAWL_ENOSPACE, &err);
    assert_says(err.attempt, "cannot publish m");
    assert_string_equal(err.safe, "m is what it was before");
    assert_text(f->objects, "m", "old");
}

static pawl_status refuse(void *context, pawl_error *err) {
    (void)context;
    return error_set(err, PAWL_EBUSY, "no longer");
}

/* Whether it may still happen is asked before the put. */
static void test_a_put_asks_whether_it_may(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_publish_end end;
    assert_fails(store_publish(f->s, "m", "t", "new", 3, refuse, NULL, &end, &err), PAWL_EBUSY,
                 &err);
    assert_int_equal(end, STORE_UNPUBLISHED);
    assert_text(f->objects, "m", "old");
    assert_int_equal(store_fault_count(f->s, STORE_OP_ANY), 0);
}

/* A storage that only renames says that it cannot put. */
static void test_storage_without_puts_says_so(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    directory dir;
    store *s;
    directory_make(&dir);
    assert_ok(store_posix(dir.path, &s, &err), &err);
    assert_fails(store_put(s, "m", "new", 3, NULL, NULL, &err), PAWL_EUNSUPPORTED, &err);
    assert_says(err.path, "/m");
    store_destroy(s);
    directory_remove(&dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_publishing_is_one_put), TEST(test_a_rename_is_refused),
        TEST(test_s07_a_put_that_fails_keeps_the_old_file), TEST(test_a_put_asks_whether_it_may),
        cmocka_unit_test(test_storage_without_puts_says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
