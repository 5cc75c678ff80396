/* SPDX-License-Identifier: Apache-2.0 */
/* Publishing when something fails: old or new, never neither, and the next attempt succeeds. */
#include "fixtures.h"

#include "lib/simulated_platform.h"

#include <errno.h>

typedef struct fixture {
    simulated_platform os;
    store *mem, *s; /* `s`: with faults */
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    pawl_error err = ERROR_INIT;
    simulated_platform_init(&f->os, 1);
    assert_ok(store_mem(&f->mem, &err), &err);
    assert_ok(store_fault_wrap(f->mem, &f->os.table, &f->s, &err), &err);
    assert_ok(publish(f->mem, "m", "old", 3, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    store_destroy(f->s);
    store_destroy(f->mem);
    mem_free(f);
    return 0;
}

static pawl_status publish_with(fixture *f, store_op op, uint64_t nth, int system_errno,
                                pawl_error *err) {
    store_fault_set(f->s, &(store_fault){.op = op, .nth = nth, .system_errno = system_errno});
    pawl_status status = publish(f->s, "m", "new bytes", 9, err);
    assert_true(store_fault_fired(f->s));
    store_fault_set(f->s, &(store_fault){0});
    return status;
}

/* Whatever fails before the rename is over, the old file stays, and no other file. */
static void test_s07_any_failure_before_the_rename_keeps_the_old_file(void **state) {
    static const store_op ops[] = {STORE_OP_OPEN, STORE_OP_WRITE, STORE_OP_SYNC, STORE_OP_RENAME};
    static const int numbers[] = {EIO, ENOSPC, EACCES, EDQUOT, ESTALE};
    fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(ops); i++) {
        for (size_t j = 0; j < ARRAY_LENGTH(numbers); j++) {
            pawl_error err = ERROR_INIT;
            assert_int_not_equal(publish_with(f, ops[i], 1, numbers[j], &err), PAWL_OK);
            assert_int_equal(err.system_errno, numbers[j]);
            assert_says(err.safe, "m is what it was before");
            assert_text(f->mem, "m", "old");
            assert_names(f->mem, "", "m ");
        }
    }
}

/* The story names the attempt, the file that failed, the range, and what is safe. */
static void test_s06_a_full_disk_is_told_in_full(void **state) {
    pawl_error err = ERROR_INIT;
    assert_fails(publish_with(*state, STORE_OP_WRITE, 1, ENOSPC, &err), PAWL_ENOSPACE, &err);
    assert_string_equal(error_text(&err), "cannot publish m: cannot write\n"
                                          "  path:     /mem/m.tmp\n"
                                          "  range:    bytes 0 to 8\n"
                                          "  system:   No space left on device (ENOSPC, errno 28)\n"
                                          "  safe:     m is what it was before");
}

/* A failed sync is given up at once: another one might succeed without the bytes. */
static void test_s03_a_failed_sync_is_not_repeated(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_SYNC, .nth = 1, .system_errno = EIO});
    assert_fails(publish(f->s, "m", "new", 3, &err), PAWL_EIO, &err);
    assert_int_equal(store_fault_count(f->s, STORE_OP_SYNC), 1);
    assert_int_equal(store_fault_count(f->s, STORE_OP_RENAME), 0);
}

/* When only the last sync fails, the new file is there and the message says what that means. */
static void test_s08_a_failed_sync_of_the_directory_is_told(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    assert_fails(publish_with(f, STORE_OP_SYNC_DIR, 1, EIO, &err), PAWL_EIO, &err);
    assert_string_equal(error_text(&err),
                        "published m, but cannot make that durable: cannot sync the directory\n"
                        "  path:     /mem\n"
                        "  system:   Input/output error (EIO, errno 5)\n"
                        "  safe:     m is whole; after a power loss it may be the old or the new "
                        "one");
    assert_text(f->mem, "m", "new bytes");
}

/* Writes that come in pieces make the same file. */
static void test_s07_short_writes_are_gone_on_with(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_WRITE, .nth = 1, .shorten = true});
    assert_ok(publish(f->s, "m", "new bytes", 9, &err), &err);
    assert_int_equal(store_fault_count(f->s, STORE_OP_WRITE), 2);
    assert_text(f->mem, "m", "new bytes");
}

/* A disk that fills up in the middle of a file leaves the old one, and the message has the rest. */
static void test_s07_a_write_that_fails_halfway_names_what_is_missing(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *half = NULL;
    assert_ok(store_fault_wrap(f->s, &f->os.table, &half, &err), &err);
    store_fault_set(half, &(store_fault){.op = STORE_OP_WRITE, .nth = 1, .shorten = true});
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_WRITE, .nth = 2, .system_errno = ENOSPC});
    assert_fails(publish(half, "m", "new bytes", 9, &err), PAWL_ENOSPACE, &err);
    store_destroy(half);
    assert_true(err.has_range && err.offset == 4 && err.length == 5);
    assert_text(f->mem, "m", "old");
}

/* A stale temporary file that cannot be removed stops the attempt before anything is changed. */
static void test_s08_a_temporary_that_cannot_be_removed_is_told(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    put_text(f->mem, "m.tmp", "stale");
    assert_fails(publish_with(f, STORE_OP_UNLINK, 1, EACCES, &err), PAWL_EPERMISSION, &err);
    assert_string_equal(error_text(&err), "cannot publish m: cannot remove the file\n"
                                          "  path:     /mem/m.tmp\n"
                                          "  system:   Permission denied (EACCES, errno 13)\n"
                                          "  safe:     m is what it was before");
    assert_text(f->mem, "m", "old");
}

/* With every operation failing in turn, for ever from there, the file is always old or new. */
static void test_s08_a_storage_that_goes_away_leaves_old_or_new(void **state) {
    fixture *f = *state;
    bool seen_old = false, seen_new = false;
    for (uint64_t nth = 1;; nth++) {
        pawl_error err = ERROR_INIT;
        buffer got = {0};
        store_fault_set(
            f->s,
            &(store_fault){.op = STORE_OP_ANY, .nth = nth, .forever = true, .system_errno = EIO});
        pawl_status status = publish(f->s, "m", "new", 3, &err);
        bool fired = store_fault_fired(f->s);
        assert_int_equal(status, fired ? PAWL_EIO : PAWL_OK);
        assert_ok(store_read_file(f->mem, "m", 10, &got, &err), &err);
        bool is_old = strcmp((char *)got.data, "old") == 0;
        assert_true(is_old || strcmp((char *)got.data, "new") == 0);
        buffer_free(&got);
        seen_old = seen_old || is_old;
        seen_new = seen_new || !is_old;
        assert_ok(publish(f->mem, "m", "old", 3, &err), &err);
        if (!fired) {
            break;
        }
    }
    assert_true(seen_old && seen_new);
}

/* What nothing depends on is exchanged without waiting; a failure keeps the old file. */
static void test_replacing_syncs_nothing(void **state) {
    static const store_op ops[] = {STORE_OP_OPEN, STORE_OP_WRITE, STORE_OP_RENAME};
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    for (size_t i = 0; i < ARRAY_LENGTH(ops); i++) {
        store_fault_set(f->s, &(store_fault){.op = ops[i], .nth = 1, .system_errno = EIO});
        assert_fails(store_replace(f->s, "m", "new", 3, &err), PAWL_EIO, &err);
        assert_says(err.safe, "m is what it was before");
        assert_text(f->mem, "m", "old");
        assert_names(f->mem, "", "m ");
    }
    store_fault_set(f->s, &(store_fault){0});
    put_text(f->mem, "m.tmp", "stale");
    assert_ok(store_replace(f->s, "m", "new bytes", 9, &err), &err);
    assert_text(f->mem, "m", "new bytes");
    assert_names(f->mem, "", "m ");
    assert_int_equal(store_fault_count(f->s, STORE_OP_SYNC), 0);
    assert_int_equal(store_fault_count(f->s, STORE_OP_SYNC_DIR), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s07_any_failure_before_the_rename_keeps_the_old_file),
        TEST(test_s06_a_full_disk_is_told_in_full),
        TEST(test_s03_a_failed_sync_is_not_repeated),
        TEST(test_s08_a_failed_sync_of_the_directory_is_told),
        TEST(test_s07_short_writes_are_gone_on_with),
        TEST(test_s07_a_write_that_fails_halfway_names_what_is_missing),
        TEST(test_s08_a_temporary_that_cannot_be_removed_is_told),
        TEST(test_s08_a_storage_that_goes_away_leaves_old_or_new),
        TEST(test_replacing_syncs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
