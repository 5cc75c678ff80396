/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store that forgets: for small scripts, the exact set of worlds that a power loss can leave.
 * In the descriptions, zeros are '_'. Sectors have 4 bytes where a test does not say otherwise.
 */
#include "worlds.h"

#include <errno.h>

static store *strict(void) {
    return new_crash(true, false, 4);
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* What was synced is in every world. */
static void test_s09_synced_bytes_and_names_stay(void **state) {
    store *s = strict();
    (void)state;
    put_durable(s, "a", "text");
    assert_int_equal(store_crash_pending(s), 0);
    ASSERT_WORLDS(s, "a=text ");
    store_destroy(s);
}

/* Bytes that were not synced may be missing, or only their size be there. */
static void test_s09_unsynced_bytes_may_vanish(void **state) {
    store *s = strict();
    (void)state;
    put_text(s, "a", "text");
    sync_dir(s, "");
    ASSERT_WORLDS(s, "a= ", "a=____ ", "a=text ");
    store_destroy(s);
}

/* A write of several sectors may arrive in either half, and each half be torn. */
static void test_s09_a_long_write_may_arrive_in_parts(void **state) {
    store *s = strict();
    (void)state;
    put_text(s, "a", "AAAABBBBCCCCDDDD");
    sync_dir(s, "");
    ASSERT_WORLDS(s, "a= ", "a=AAAA ", "a=AAAABBBB ", "a=________CCCC ", "a=________CCCCDDDD ",
                  "a=AAAA____CCCCDDDD ", "a=AAAABBBBCCCC ", "a=AAAABBBBCCCCDDDD ");
    store_destroy(s);
}

/* An overwrite within a sector happens or does not; it grows nothing, so it cannot be torn. */
static void test_s09_an_overwrite_in_a_sector_is_never_torn(void **state) {
    store *s = strict();
    (void)state;
    put_durable(s, "a", "01234567");
    write_at(s, "a", 5, "XY");
    ASSERT_WORLDS(s, "a=01234567 ", "a=01234XY7 ");
    store_destroy(s);
}

/* Writes to one file have no order. */
static void test_s09_writes_may_arrive_in_any_order(void **state) {
    store *s = strict();
    (void)state;
    put_durable(s, "a", "01234567");
    write_at(s, "a", 0, "AB");
    write_at(s, "a", 4, "CD");
    ASSERT_WORLDS(s, "a=01234567 ", "a=AB234567 ", "a=0123CD67 ", "a=AB23CD67 ");
    store_destroy(s);
}

/* A sync of one file does nothing for another. */
static void test_s09_a_sync_is_for_one_file(void **state) {
    store *s = strict();
    (void)state;
    put_durable(s, "a", "1");
    put_durable(s, "b", "1");
    write_at(s, "a", 0, "2");
    write_at(s, "b", 0, "2");
    sync_file(s, "a");
    ASSERT_WORLDS(s, "a=2 b=1 ", "a=2 b=2 ");
    store_destroy(s);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Syncing a file does not make its name durable. */
static void test_s09_a_synced_file_may_lose_its_name(void **state) {
    store *s = strict();
    (void)state;
    put_text(s, "a", "text");
    sync_file(s, "a");
    ASSERT_WORLDS(s, "", "a=text ");
    store_destroy(s);
}

/* A directory is lost with all that is in it until the one above it is synced. */
static void test_s09_a_new_directory_may_be_lost_with_its_files(void **state) {
    store *s = strict();
    (void)state;
    make_dir(s, "d");
    put_text(s, "d/a", "text");
    sync_file(s, "d/a");
    sync_dir(s, "d");
    ASSERT_WORLDS(s, "", "d/ d/a=text ");
    sync_dir(s, "");
    ASSERT_WORLDS(s, "d/ d/a=text ");
    store_destroy(s);
}

/* A rename over a file leaves the old or the new one, never none, never both. */
static void test_s09_a_rename_is_atomic(void **state) {
    store *s = strict();
    (void)state;
    put_durable(s, "a", "new");
    put_durable(s, "b", "old");
    rename_file(s, "a", "b");
    ASSERT_WORLDS(s, "a=new b=old ", "b=new ");
    store_destroy(s);
}

/* Renaming what was not synced may replace good bytes by none. */
static void test_s09_a_rename_of_unsynced_bytes_is_dangerous(void **state) {
    store *s = strict();
    (void)state;
    put_durable(s, "b", "old");
    put_text(s, "a", "new");
    rename_file(s, "a", "b");
    ASSERT_WORLDS(s, "b=old ", "a= b=old ", "a=___ b=old ", "a=new b=old ", "b= ", "b=___ ",
                  "b=new ");
    store_destroy(s);
}

/* Without atomic renames the target may be gone; the source is still there then. */
static void test_s09_a_rename_that_is_not_atomic_may_lose_the_target(void **state) {
    store *s = new_crash(false, false, 4);
    (void)state;
    put_durable(s, "a", "new");
    put_durable(s, "b", "old");
    rename_file(s, "a", "b");
    ASSERT_WORLDS(s, "a=new b=old ", "a=new ", "b=new ");
    store_destroy(s);
}

/* A removal is undone by a power loss until the directory is synced. */
static void test_s09_a_removal_may_be_undone(void **state) {
    store *s = strict();
    (void)state;
    put_durable(s, "a", "text");
    unlink_file(s, "a");
    ASSERT_WORLDS(s, "a=text ", "");
    sync_dir(s, "");
    ASSERT_WORLDS(s, "");
    store_destroy(s);
}

/* Names of one directory survive as any subset, where no order is promised. */
static void test_s09_unordered_names_survive_as_any_subset(void **state) {
    store *s = strict();
    (void)state;
    put_text(s, "a", "");
    put_text(s, "b", "");
    put_text(s, "c", "");
    ASSERT_WORLDS(s, "", "a= ", "b= ", "c= ", "a= b= ", "a= c= ", "b= c= ", "a= b= c= ");
    store_destroy(s);
}

/* Where order is promised, they survive as a prefix. */
static void test_s09_ordered_names_survive_as_a_prefix(void **state) {
    store *s = new_crash(true, true, 4);
    (void)state;
    put_text(s, "a", "");
    put_text(s, "b", "");
    ASSERT_WORLDS(s, "", "a= ", "a= b= ");
    store_destroy(s);
}

/* The order is that of one directory only. */
static void test_s09_ordered_names_are_so_per_directory(void **state) {
    store *s = new_crash(true, true, 4);
    (void)state;
    make_dir(s, "d");
    sync_dir(s, "");
    put_text(s, "a", "");
    put_text(s, "d/b", "");
    ASSERT_WORLDS(s, "d/ ", "a= d/ ", "d/ d/b= ", "a= d/ d/b= ");
    store_destroy(s);
}

/* What happened to one name happened in order, always. */
static void test_s09_one_name_is_always_in_order(void **state) {
    store *s = strict();
    (void)state;
    put_durable(s, "a", "1");
    put_durable(s, "b", "2");
    put_durable(s, "c", "3");
    rename_file(s, "b", "a");
    rename_file(s, "c", "a");
    ASSERT_WORLDS(s, "a=1 b=2 c=3 ", "a=2 c=3 ", "a=3 ");
    store_destroy(s);
}

/* A directory that is removed takes its removals with it; that is one world, not several. */
static void test_s09_a_removed_directory_is_one_world(void **state) {
    store *s = strict();
    pawl_error err = ERROR_INIT;
    world_list list = {0};
    (void)state;
    make_dir(s, "d");
    put_text(s, "d/a", "1");
    put_text(s, "d/b", "2");
    sync_file(s, "d/a");
    sync_file(s, "d/b");
    sync_dir(s, "d");
    sync_dir(s, "");
    unlink_file(s, "d/a");
    unlink_file(s, "d/b");
    assert_ok(store_remove_dir(s, "d", &err), &err);
    assert_int_equal(visit_worlds(s, note_world, &list), 5);
    assert_int_equal(list.repeated, 0);
    world_list_clear(&list);
    ASSERT_WORLDS(s, "d/ d/a=1 d/b=2 ", "d/ d/a=1 ", "d/ d/b=2 ", "d/ ", "");
    store_destroy(s);
}

/* Once its removal is durable, nothing is pending for a file, not even what is still written to
 * it. */
static void test_a_removed_file_is_forgotten(void **state) {
    store *s = strict();
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    (void)state;
    assert_ok(store_open(s, "a", STORE_CREATE, &f, &err), &err);
    assert_ok(store_write(f, 0, "text", 4, &err), &err);
    assert_ok(store_unlink(s, "a", &err), &err);
    assert_int_equal(store_crash_pending(s), 3);
    sync_dir(s, "");
    assert_int_equal(store_crash_pending(s), 0);
    assert_ok(store_write(f, 4, "more", 4, &err), &err);
    assert_int_equal(store_crash_pending(s), 0);
    store_close(f);
    ASSERT_WORLDS(s, "");
    store_destroy(s);
}

/* ---- asking for worlds ---------------------------------------------------------------------- */

static bool is_refused(const store *s, const bool *keep, size_t count, size_t torn) {
    pawl_error err = ERROR_INIT;
    store *world = NULL;
    pawl_status status = store_crash_world(s, keep, count, torn, &world, &err);
    if (status == PAWL_OK) {
        store_destroy(world);
        return false;
    }
    assert_status_text(&err, PAWL_EUSAGE, "no power loss leaves this combination of changes");
    return true;
}

/* Combinations that cannot be, or only repeat another world, are refused. */
static void test_impossible_combinations_are_refused(void **state) {
    store *s = strict();
    (void)state;
    put_text(s, "a", "text"); /* items: the creation, the write */
    assert_int_equal(store_crash_pending(s), 2);
    assert_true(is_refused(s, (bool[]){true, true}, 1, SIZE_MAX));
    assert_true(is_refused(s, (bool[]){true, true, true}, 3, SIZE_MAX));
    assert_true(is_refused(s, (bool[]){false, true}, 2, SIZE_MAX));
    assert_true(is_refused(s, (bool[]){true, true}, 2, 0));  /* a creation is not torn */
    assert_true(is_refused(s, (bool[]){true, false}, 2, 1)); /* nor is what was lost */
    assert_true(is_refused(s, (bool[]){true, true}, 2, 2));
    assert_false(is_refused(s, (bool[]){true, true}, 2, 1));
    assert_false(is_refused(s, (bool[]){true, true}, 2, SIZE_MAX));
    unlink_file(s, "a");
    assert_true(is_refused(s, (bool[]){true, true, true}, 3, 1)); /* nor what was removed */
    assert_false(is_refused(s, (bool[]){true, true, true}, 3, SIZE_MAX));
    store_destroy(s);
}

/* A world is a store of its own: what happens there or here does not show in the other. */
static void test_worlds_are_independent(void **state) {
    store *s = strict(), *world = NULL;
    pawl_error err = ERROR_INIT;
    (void)state;
    put_durable(s, "a", "text");
    assert_ok(store_crash_world(s, NULL, 0, SIZE_MAX, &world, &err), &err);
    assert_string_equal(world->traits.kind, "mem");
    write_at(world, "a", 0, "TEXT");
    put_text(world, "b", "");
    write_at(s, "a", 3, "!");
    assert_text(s, "a", "tex!");
    assert_text(world, "a", "TEXT");
    store_destroy(s);
    assert_text(world, "a", "TEXT");
    store_destroy(world);
}

/* Reads see the newest state, whatever is durable. */
static void test_readers_see_the_newest_state(void **state) {
    store *s = strict();
    (void)state;
    put_durable(s, "a", "old");
    write_at(s, "a", 0, "new");
    put_text(s, "b", "pending");
    assert_text(s, "a", "new");
    assert_text(s, "b", "pending");
    store_destroy(s);
}

/* ---- stopping the machine ------------------------------------------------------------------- */

/* What changes something or syncs is counted; looking, and what fails, is not. */
static void test_only_changes_and_syncs_are_counted(void **state) {
    store *s = strict();
    pawl_error err = ERROR_INIT;
    store_file *f = NULL;
    (void)state;
    make_dir(s, "d");
    put_text(s, "d/a", "text");
    sync_file(s, "d/a");
    rename_file(s, "d/a", "d/b");
    unlink_file(s, "d/b");
    sync_dir(s, "d");
    assert_ok(store_remove_dir(s, "d", &err), &err);
    assert_int_equal(store_crash_operations(s), 8);
    assert_false(is_there(s, "a"));
    assert_names(s, "", "");
    assert_fails(store_open(s, "a", STORE_READ, &f, &err), PAWL_ENOTFOUND, &err);
    assert_fails(store_unlink(s, "a", &err), PAWL_ENOTFOUND, &err);
    assert_int_equal(store_crash_operations(s), 8);
    store_destroy(s);
}

/* After as many operations as were allowed everything fails, and nothing changes any more. */
static void test_s09_a_stopped_machine_does_nothing(void **state) {
    store *s = strict();
    pawl_error err = ERROR_INIT;
    operation_stage stage;
    (void)state;
    operation_stage_set(&stage, s);
    store_crash_stop_after(s, 1);
    assert_ok(operation_do(&stage, STORE_OP_READ, &err), &err);
    assert_ok(operation_do(&stage, STORE_OP_WRITE, &err), &err);
    uint64_t before = store_crash_operations(s);
    for (store_op op = STORE_OP_OPEN; op < STORE_OP_ANY; op++) {
        assert_fails(operation_do(&stage, op, &err), PAWL_EIO, &err);
        assert_memory_equal(err.attempt, "the machine has stopped", 23);
    }
    assert_int_equal(store_crash_operations(s), before);
    store_crash_stop_after(s, UINT64_MAX);
    for (store_op op = STORE_OP_OPEN; op < STORE_OP_ANY; op++) {
        if (op != STORE_OP_PUT) { /* this storage renames */
            assert_ok(operation_do(&stage, op, &err), &err);
        }
    }
    operation_stage_clear(&stage);
    store_destroy(s);
}

/* The message of a stopped machine names the file. */
static void test_s09_a_stopped_machine_names_the_file(void **state) {
    store *s = strict();
    pawl_error err = ERROR_INIT;
    (void)state;
    store_crash_stop_after(s, 0);
    assert_fails(store_make_dir(s, "d", &err), PAWL_EIO, &err);
    assert_string_equal(error_text(&err), "the machine has stopped\n"
                                          "  path:     /mem/d\n"
                                          "  system:   Input/output error (EIO, errno 5)");
    store_destroy(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_s09_synced_bytes_and_names_stay),
        cmocka_unit_test(test_s09_unsynced_bytes_may_vanish),
        cmocka_unit_test(test_s09_a_long_write_may_arrive_in_parts),
        cmocka_unit_test(test_s09_an_overwrite_in_a_sector_is_never_torn),
        cmocka_unit_test(test_s09_writes_may_arrive_in_any_order),
        cmocka_unit_test(test_s09_a_sync_is_for_one_file),
        cmocka_unit_test(test_s09_a_synced_file_may_lose_its_name),
        cmocka_unit_test(test_s09_a_new_directory_may_be_lost_with_its_files),
        cmocka_unit_test(test_s09_a_rename_is_atomic),
        cmocka_unit_test(test_s09_a_rename_of_unsynced_bytes_is_dangerous),
        cmocka_unit_test(test_s09_a_rename_that_is_not_atomic_may_lose_the_target),
        cmocka_unit_test(test_s09_a_removal_may_be_undone),
        cmocka_unit_test(test_s09_unordered_names_survive_as_any_subset),
        cmocka_unit_test(test_s09_ordered_names_survive_as_a_prefix),
        cmocka_unit_test(test_s09_ordered_names_are_so_per_directory),
        cmocka_unit_test(test_s09_one_name_is_always_in_order),
        cmocka_unit_test(test_s09_a_removed_directory_is_one_world),
        cmocka_unit_test(test_a_removed_file_is_forgotten),
        cmocka_unit_test(test_impossible_combinations_are_refused),
        cmocka_unit_test(test_worlds_are_independent),
        cmocka_unit_test(test_readers_see_the_newest_state),
        cmocka_unit_test(test_only_changes_and_syncs_are_counted),
        cmocka_unit_test(test_s09_a_stopped_machine_does_nothing),
        cmocka_unit_test(test_s09_a_stopped_machine_names_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
