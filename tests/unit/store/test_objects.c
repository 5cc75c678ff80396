/* SPDX-License-Identifier: Apache-2.0 */
/* The object store in memory: what it can, what it refuses, and how late it is. */
#include "fixtures.h"

#include "lib/simulated_platform.h"
#include "store/evidence.h"

#include <errno.h>

#define LATE_S 4.0

typedef struct fixture {
    simulated_platform os;
    store *strong, *late, *parts;
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    pawl_error err = ERROR_INIT;
    simulated_platform_init(&f->os, 1);
    f->os.monotonic_ns = UINT64_C(1000000000000);
    const store_objects_options strong = {0}, late = {.late_s = LATE_S},
                                parts = {.part_bytes_min = 4, .parts_max = 3};
    assert_ok(store_objects(&f->os.table, &strong, &f->strong, &err), &err);
    assert_ok(store_objects(&f->os.table, &late, &f->late, &err), &err);
    assert_ok(store_objects(&f->os.table, &parts, &f->parts, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    store_destroy(f->strong);
    store_destroy(f->late);
    store_destroy(f->parts);
    mem_free(f);
    return 0;
}

static const store_tag absent = {{0}};

static void wait_s(fixture *f, double seconds) {
    simulated_platform_advance(&f->os, (uint64_t)(seconds * 1e9));
}

static store_tag put(store *s, const char *path, const char *text, const store_tag *expected) {
    pawl_error err = ERROR_INIT;
    store_tag now = {{0}};
    assert_ok(store_put(s, path, text, strlen(text), expected, &now, &err), &err);
    assert_false(store_tag_same(&now, &absent));
    return now;
}

static void assert_refused(store *s, const char *path, const store_tag *expected) {
    pawl_error err = ERROR_INIT;
    assert_fails(store_put(s, path, "refused", 7, expected, NULL, &err), PAWL_EBUSY, &err);
    assert_true(store_is_refused(&err));
}

static void assert_absent(store *s, const char *path) {
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    store_stat found;
    assert_fails(store_open(s, path, STORE_READ, &f, &err), PAWL_ENOTFOUND, &err);
    assert_fails(store_stat_path(s, path, &found, &err), PAWL_ENOTFOUND, &err);
}

/* Of two who put where nothing is, one succeeds; of two who change a version, too. */
static void test_a_put_is_refused_where_its_condition_does_not_hold(void **state) {
    store *s = ((fixture *)*state)->strong;
    store_tag first = put(s, "d/a", "first", &absent);
    assert_refused(s, "d/a", &absent);
    store_tag second = put(s, "d/a", "second", &first);
    assert_refused(s, "d/a", &first);
    assert_refused(s, "d/none", &first);
    assert_text(s, "d/a", "second");
    (void)put(s, "d/a", "third", &second);
    (void)put(s, "d/a", "fourth", NULL);
    assert_text(s, "d/a", "fourth");
}

/* A version that is no longer there is not removed, and its successor stays. */
static void test_a_removal_is_refused_where_its_condition_does_not_hold(void **state) {
    store *s = ((fixture *)*state)->strong;
    pawl_error err = ERROR_INIT;
    store_tag first = put(s, "a", "first", &absent);
    store_tag second = put(s, "a", "second", &first);
    assert_fails(store_unlink_match(s, "a", &first, &err), PAWL_EBUSY, &err);
    assert_true(store_is_refused(&err));
    assert_text(s, "a", "second");
    assert_ok(store_unlink_match(s, "a", &second, &err), &err);
    assert_absent(s, "a");
    assert_fails(store_unlink_match(s, "a", &second, &err), PAWL_ENOTFOUND, &err);
    assert_ok(store_unlink(s, "a", &err), &err); /* tells nothing */
}

/* What is read tells which version it is. */
static void test_reading_tells_the_version(void **state) {
    store *s = ((fixture *)*state)->strong;
    pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    store_tag now = put(s, "a", "text", NULL), seen;
    assert_ok(store_read_version(s, "a", 10, &text, &seen, &err), &err);
    assert_true(store_tag_same(&now, &seen));
    assert_fails(store_read_version(s, "b", 10, &text, &seen, &err), PAWL_ENOTFOUND, &err);
    assert_true(store_tag_same(&absent, &seen));
}

/* Nothing is renamed, and nothing is changed in place. */
static void test_what_no_object_store_can_is_refused(void **state) {
    store *s = ((fixture *)*state)->strong;
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    (void)put(s, "a", "text", NULL);
    assert_int_not_equal(store_rename(s, "a", "b", &err), PAWL_OK);
    assert_int_not_equal(store_open(s, "a", STORE_UPDATE, &f, &err), PAWL_OK);
    assert_null(f);
    assert_text(s, "a", "text");
    assert_absent(s, "b");
}

/* An upload is seen when it is complete, and not when it is given up. */
static void test_an_upload_is_seen_when_it_is_complete(void **state) {
    store *s = ((fixture *)*state)->strong;
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    assert_ok(store_open(s, "d/a", STORE_CREATE, &f, &err), &err);
    assert_ok(store_write(f, 2, "cd", 2, &err), &err);
    assert_ok(store_write(f, 0, "ab", 2, &err), &err);
    assert_absent(s, "d/a");
    assert_int_equal(store_objects_uploads(s), 1);
    assert_ok(store_sync(f, &err), &err);
    assert_int_equal(store_objects_uploads(s), 0);
    store_close(f);
    assert_text(s, "d/a", "abcd");
    assert_ok(store_open(s, "d/b", STORE_CREATE_BULK, &f, &err), &err);
    assert_ok(store_write(f, 0, "ab", 2, &err), &err);
    store_close(f);
    assert_int_equal(store_objects_uploads(s), 0);
    assert_absent(s, "d/b");
}

/* Whether the name is taken is found out when the upload is complete. */
static void test_an_upload_takes_no_name_that_is_taken(void **state) {
    store *s = ((fixture *)*state)->strong;
    pawl_error err = ERROR_INIT;
    CLEANUP(store_close_pointer) store_file *f = NULL;
    assert_ok(store_open(s, "a", STORE_CREATE, &f, &err), &err);
    (void)put(s, "a", "other", &absent);
    assert_fails(store_sync(f, &err), PAWL_EBUSY, &err);
    assert_true(store_is_refused(&err));
    assert_text(s, "a", "other");
}

static pawl_status upload(store *s, const uint64_t places[][2], size_t count, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *f = NULL;
    TRY(store_open(s, "a", STORE_CREATE, &f, err));
    for (size_t i = 0; i < count; i++) {
        TRY(store_write(f, places[i][0], "0123456789", (size_t)places[i][1], err));
    }
    return store_sync(f, err);
}

/* Parts come in any order, leave no gaps, are large enough, and not too many. */
static void test_parts_are_large_enough_and_not_too_many(void **state) {
    store *s = ((fixture *)*state)->parts;
    pawl_error err = ERROR_INIT;
    const uint64_t gap[][2] = {{0, 4}, {5, 4}}, overlap[][2] = {{0, 5}, {4, 4}},
                   small[][2] = {{0, 3}, {3, 4}}, many[][2] = {{0, 4}, {4, 4}, {8, 4}, {12, 4}},
                   good[][2] = {{9, 2}, {0, 5}, {5, 4}};
    assert_fails(upload(s, gap, 2, &err), PAWL_EINTERNAL, &err);
    assert_fails(upload(s, overlap, 2, &err), PAWL_EINTERNAL, &err);
    assert_fails(upload(s, small, 2, &err), PAWL_EINTERNAL, &err);
    assert_fails(upload(s, many, 4, &err), PAWL_ENOSPACE, &err);
    assert_int_equal(err.system_errno, EFBIG);
    assert_absent(s, "a");
    assert_ok(upload(s, good, 3, &err), &err);
    assert_text(s, "a", "01234012301");
    assert_int_equal(store_objects_uploads(s), 0);
}

/* Directories are the names in them, and a listing tells the sizes. */
static void test_directories_are_what_is_in_them(void **state) {
    store *s = ((fixture *)*state)->strong;
    pawl_error err = ERROR_INIT;
    store_stat found;
    assert_ok(store_make_dir(s, "d", &err), &err);
    assert_fails(store_stat_path(s, "d", &found, &err), PAWL_ENOTFOUND, &err);
    assert_fails(store_list(s, "d", ignore_name, NULL, &err), PAWL_ENOTFOUND, &err);
    assert_names(s, "", "");
    (void)put(s, "d/e/a", "1", NULL);
    (void)put(s, "d/e/b", "22", NULL);
    (void)put(s, "d-", "333", NULL);
    assert_names(s, "", "d d- ");
    assert_names(s, "d", "e ");
    assert_names(s, "d/e", "a b ");
    assert_ok(store_stat_path(s, "d/e", &found, &err), &err);
    assert_int_equal(found.type, STORE_DIR_TYPE);
    assert_fails(store_remove_dir(s, "d", &err), PAWL_EBUSY, &err);
    assert_int_equal(err.system_errno, ENOTEMPTY);
    assert_ok(store_unlink(s, "d/e/a", &err), &err);
    assert_ok(store_unlink(s, "d/e/b", &err), &err);
    assert_ok(store_remove_dir(s, "d", &err), &err);
    assert_names(s, "", "d- ");
}

static pawl_status note_size(void *context, const store_listed *found, pawl_error *err) {
    (void)err;
    assert_true(found->known);
    *(uint64_t *)context += found->size;
    return PAWL_OK;
}

static void test_a_listing_tells_sizes(void **state) {
    store *s = ((fixture *)*state)->strong;
    pawl_error err = ERROR_INIT;
    uint64_t bytes = 0;
    (void)put(s, "a", "1", NULL);
    (void)put(s, "b", "22", NULL);
    assert_ok(store_list(s, "", note_size, &bytes, &err), &err);
    assert_int_equal(bytes, 3);
}

/* An open file cannot be read on when it was replaced. */
static void test_a_replaced_file_is_not_read_on(void **state) {
    store *s = ((fixture *)*state)->strong;
    pawl_error err = ERROR_INIT;
    char byte;
    CLEANUP(store_close_pointer) store_file *f = NULL;
    (void)put(s, "a", "old", NULL);
    assert_ok(store_open(s, "a", STORE_READ, &f, &err), &err);
    assert_ok(store_read(f, 0, &byte, 1, &err), &err);
    (void)put(s, "a", "new", NULL);
    assert_fails(store_read(f, 0, &byte, 1, &err), PAWL_ENOTFOUND, &err);
}

/* Late storage shows for a while what was, but decides conditions on what is. */
static void test_late_storage_is_late_for_a_bounded_time(void **state) {
    fixture *f = *state;
    store *s = f->late;
    pawl_error err = ERROR_INIT;
    assert_false(s->traits.coherent);
    store_tag first = put(s, "a", "first", &absent);
    assert_absent(s, "a");
    assert_names(s, "", "");
    assert_refused(s, "a", &absent);
    wait_s(f, LATE_S);
    assert_text(s, "a", "first");
    store_tag second = put(s, "a", "second", &first);
    wait_s(f, LATE_S / 2);
    assert_text(s, "a", "first");
    assert_ok(store_unlink_match(s, "a", &second, &err), &err);
    assert_text(s, "a", "first");
    wait_s(f, LATE_S / 2);
    assert_text(s, "a", "second");
    (void)put(s, "a", "third", &absent);
    assert_text(s, "a", "second");
    store_objects_catch_up(s);
    assert_text(s, "a", "third");
}

/* Who waits until the storage has caught up sees what was there. */
static void test_late_storage_can_be_waited_for(void **state) {
    fixture *f = *state;
    bool absent_now;
    pawl_error err = ERROR_INIT;
    (void)put(f->late, "a", "text", NULL);
    assert_absent(f->late, "a");
    store_catch_up(f->late);
    assert_text(f->late, "a", "text");
    (void)put(f->late, "b", "text", NULL);
    assert_ok(store_prove_absent(f->late, "b", &absent_now, &err), &err);
    assert_false(absent_now);
    assert_ok(store_prove_absent(f->late, "c", &absent_now, &err), &err);
    assert_true(absent_now);
}

/* A put whose answer was lost was done. */
static void test_a_lost_answer_leaves_what_was_done(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *s;
    assert_ok(store_fault_wrap(f->strong, &f->os.table, &s, &err), &err);
    store_fault_set(
        s, &(store_fault){.op = STORE_OP_PUT, .nth = 1, .system_errno = ETIMEDOUT, .lost = true});
    assert_fails(store_put(s, "a", "text", 4, &absent, NULL, &err), PAWL_ETIMEOUT, &err);
    assert_text(f->strong, "a", "text");
    store_destroy(s);
}

/* A put on a condition is not repeated after a time-out: it would be refused for its own success.
 * One without is, and so is one that was turned away. */
static void test_a_put_on_a_condition_is_not_repeated_after_a_time_out(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *fault, *s;
    assert_ok(store_fault_wrap(f->strong, &f->os.table, &fault, &err), &err);
    store_fault_set(
        fault,
        &(store_fault){.op = STORE_OP_PUT, .nth = 1, .system_errno = ETIMEDOUT, .lost = true});
    assert_ok(store_retry_wrap(fault, &f->os.table, 3, 1000, &s, &err), &err);
    assert_fails(store_put(s, "a", "text", 4, &absent, NULL, &err), PAWL_ETIMEOUT, &err);
    store_fault_set(fault, &(store_fault){.op = STORE_OP_PUT, .nth = 1, .system_errno = ETIMEDOUT});
    assert_ok(store_put(s, "a", "new", 3, NULL, NULL, &err), &err);
    store_fault_set(fault, &(store_fault){.op = STORE_OP_PUT, .nth = 1, .system_errno = EAGAIN});
    (void)put(s, "b", "text", &absent);
    store_destroy(s);
}

/* A filesystem has no versions, and says so. */
static void test_a_filesystem_knows_no_conditions(void **state) {
    (void)state;
    pawl_error err = ERROR_INIT;
    directory dir;
    store *s;
    directory_make(&dir);
    assert_ok(store_posix(dir.path, &s, &err), &err);
    put_text(s, "m", "old");
    assert_fails(store_put(s, "m", "new", 3, NULL, NULL, &err), PAWL_EUNSUPPORTED, &err);
    assert_fails(store_unlink_match(s, "m", &absent, &err), PAWL_EUNSUPPORTED, &err);
    assert_says(err.path, "/m");
    assert_text(s, "m", "old");
    store_destroy(s);
    directory_remove(&dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_put_is_refused_where_its_condition_does_not_hold),
        TEST(test_a_removal_is_refused_where_its_condition_does_not_hold),
        TEST(test_reading_tells_the_version),
        TEST(test_what_no_object_store_can_is_refused),
        TEST(test_an_upload_is_seen_when_it_is_complete),
        TEST(test_an_upload_takes_no_name_that_is_taken),
        TEST(test_parts_are_large_enough_and_not_too_many),
        TEST(test_directories_are_what_is_in_them),
        TEST(test_a_listing_tells_sizes),
        TEST(test_a_replaced_file_is_not_read_on),
        TEST(test_late_storage_is_late_for_a_bounded_time),
        TEST(test_late_storage_can_be_waited_for),
        TEST(test_a_lost_answer_leaves_what_was_done),
        TEST(test_a_put_on_a_condition_is_not_repeated_after_a_time_out),
        cmocka_unit_test(test_a_filesystem_knows_no_conditions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
