/* SPDX-License-Identifier: Apache-2.0 */
/* Saving into a run, and what it says when it fails: S03, S06, S07, S10, S14, P03, pins, gc. */
#include "lib/training.h"

#include <errno.h>

/* ---- S03, S07: the write fails in the background -------------------------------------------- */

static void fail_writes(training *f, int system_errno) {
    const store_fault plan = {
        .op = STORE_OP_WRITE, .nth = 1, .system_errno = system_errno, .forever = true};
    store_fault_set(f->fault, &plan);
}

static void heal(training *f) {
    const store_fault none = {0};
    store_fault_set(f->fault, &none);
}

static void test_s03_a_failed_write_is_told_at_the_wait_and_in_the_log(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    fail_writes(f, EIO);
    assert_ok(training_begin(f, 20, &err), &err);
    assert_fails(run_wait(f->run, 0, NULL, &err), PAWL_EIO, &err);
    assert_says(err.attempt, "saving step 20");
    assert_says(err.path, "step-00000020/data-");
    assert_says(err.system, "EIO");
    assert_string_equal(err.safe, "step 10 is committed and can be restored");
    assert_int_equal(err.step, 20);
    assert_true(err.has_range);
    assert_says(f->log, "saving step 20");
    heal(f);
    training_save(f, 20);
}

static void test_s03_a_failure_nobody_waited_for_is_told_by_the_next_save_once(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    fail_writes(f, EIO);
    assert_ok(training_begin(f, 20, &err), &err);
    heal(f);
    assert_fails(training_begin(f, 30, &err), PAWL_EIO, &err);
    assert_says(err.attempt, "saving step 20");
    assert_says(err.safe, "this run has no checkpoint yet");
    assert_false(training_exists(f, "step-00000030"));
    training_save(f, 30);
}

static void test_s03_close_tells_a_failure_nobody_has_seen(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    fail_writes(f, EIO);
    assert_ok(training_begin(f, 20, &err), &err);
    heal(f);
    assert_fails(run_close(f->run, 0, &err), PAWL_EIO, &err);
    f->run = NULL;
}

static void test_s07_a_disk_that_fills_up_costs_the_attempt_only(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    fail_writes(f, ENOSPC);
    assert_ok(training_begin(f, 20, &err), &err);
    assert_fails(run_wait(f->run, 0, NULL, &err), PAWL_ENOSPACE, &err);
    assert_says(err.system, "ENOSPC");
    assert_false(training_exists(f, "step-00000020"));
    assert_true(training_committed(f, 10));
    heal(f);
    training_save(f, 20);
    assert_true(training_committed(f, 20));
}

/* ---- S06: no room, found before the first byte ---------------------------------------------- */

static store_space room;

static pawl_status tell_room(store *s, store_space *out, pawl_error *err) {
    (void)s;
    (void)err;
    *out = room;
    return PAWL_OK;
}

/* The next saves find `room` on the disk. */
static void set_room(training *f, store_ops *ops, store_space space) {
    room = space;
    snprintf(room.filesystem, sizeof room.filesystem, "ext4");
    snprintf(room.mount_point, sizeof room.mount_point, "/mnt/ckpt");
    snprintf(room.mount_options, sizeof room.mount_options, "ro,relatime");
    *ops = *f->late->ops;
    ops->space = tell_room;
    f->late->ops = ops;
}

static void assert_no_room(void **state, store_space space, pawl_status status, const char *attempt,
                           const char *found) {
    training *f = *state;
    static store_ops ops;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    set_room(f, &ops, space);
    assert_ok(training_begin(f, 20, &err), &err);
    assert_fails(run_wait(f->run, 0, NULL, &err), status, &err);
    assert_string_equal(err.attempt, attempt);
    assert_string_equal(err.found, found);
    assert_string_equal(err.safe, "step 10 is committed and can be restored");
    assert_true(err.next[0] != '\0');
    assert_false(training_exists(f, "step-00000020"));
}

static void test_s06_too_few_bytes(void **state) {
    assert_no_room(
        state,
        (store_space){.free_bytes = 12000, .free_inodes = UINT64_MAX, .max_file_bytes = UINT64_MAX},
        PAWL_ENOSPACE, "saving step 20: there is not enough room for the checkpoint",
        "12.0 kB free on the filesystem at /mnt/ckpt (ext4)");
}

static void test_s06_too_few_inodes(void **state) {
    assert_no_room(
        state,
        (store_space){.free_bytes = UINT64_MAX, .free_inodes = 3, .max_file_bytes = UINT64_MAX},
        PAWL_ENOSPACE, "saving step 20: there are not enough inodes for the checkpoint's files",
        "3 free on the filesystem at /mnt/ckpt (ext4)");
}

static void test_s06_a_file_size_limit(void **state) {
    assert_no_room(
        state,
        (store_space){.free_bytes = UINT64_MAX, .free_inodes = UINT64_MAX, .max_file_bytes = 1000},
        PAWL_ENOSPACE, "saving step 20: the checkpoint's largest file is larger than files may be",
        "a limit of 1.00 kB (ulimit -f, or that of ext4 at /mnt/ckpt)");
}

static void test_p03_a_read_only_mount(void **state) {
    assert_no_room(state,
                   (store_space){.free_bytes = UINT64_MAX,
                                 .free_inodes = UINT64_MAX,
                                 .max_file_bytes = UINT64_MAX,
                                 .read_only = true},
                   PAWL_EPERMISSION, "saving step 20: the filesystem is mounted read-only",
                   "ext4 at /mnt/ckpt (ro,relatime)");
}

/* ---- S14 and what else retention, removal and gc must leave alone --------------------------- */

static pawl_run_options keep_one(void) {
    static const pawl_retention last = {.struct_size = sizeof last, .keep_last = 1};
    return (pawl_run_options){.retention = &last};
}

static void test_s14_a_checkpoint_that_is_being_read_stays_until_it_is_closed(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_log silent = {0};
    simulated_platform reader;
    pawl_checkpoint *checkpoint;
    training_open_with(f, &f->os.table, keep_one());
    training_save(f, 10);
    simulated_platform_init(&reader, 2);
    f->os.others = PROCESS_ALIVE;
    assert_ok(checkpoint_open(f->disk, false, 10, &reader.table, &silent, &checkpoint, &err), &err);
    training_save(f, 20);
    assert_true(training_committed(f, 10));
    float values[4][8];
    assert_ok(checkpoint_read(checkpoint, "model/kernel", NULL, NULL, values, sizeof values, &err),
              &err);
    pawl_checkpoint_close(checkpoint);
    training_save(f, 30);
    assert_false(training_exists(f, "step-00000010"));
    assert_false(training_exists(f, "step-00000020"));
}

static void test_s14_a_pinned_checkpoint_stays(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, keep_one());
    training_save(f, 10);
    assert_ok(run_pin(f->run, 10, true, &err), &err);
    training_save(f, 20);
    assert_true(training_committed(f, 10));
    assert_ok(run_pin(f->run, 10, false, &err), &err);
    training_save(f, 30);
    assert_false(training_committed(f, 10));
}

static void test_s14_a_failed_save_removes_nothing_older(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, keep_one());
    training_save(f, 10);
    fail_writes(f, EIO);
    assert_ok(training_begin(f, 20, &err), &err);
    assert_fails(run_wait(f->run, 0, NULL, &err), PAWL_EIO, &err);
    heal(f);
    assert_true(training_committed(f, 10));
}

static void test_the_last_good_checkpoint_is_removed_by_force_only(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    assert_fails(run_remove(f->run, 10, false, &err), PAWL_EBUSY, &err);
    assert_string_equal(err.attempt, "step 10 is the last good checkpoint of this run");
    assert_ok(run_remove(f->run, 10, true, &err), &err);
    assert_false(training_exists(f, "step-00000010"));
    assert_fails(run_remove(f->run, 10, true, &err), PAWL_ENOTFOUND, &err);
}

/* Each sync waits for the disk: data, index, manifest; their directory before and after the
 * manifest is there, and the run's. On an object store: data and index are completed; placeholder,
 * owner, manifest, `latest` and events are put. The first save also looks for what others left
 * behind. */
static void test_a_save_syncs_what_it_promises_and_no_more(void **state) {
    training *f = *state;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    heal(f); /* counts from here on */
    training_save(f, 20);
    if (f->disk->traits.objects) {
        assert_int_equal(store_fault_count(f->fault, STORE_OP_SYNC), 2);
        assert_int_equal(store_fault_count(f->fault, STORE_OP_PUT), 5);
        return;
    }
    assert_int_equal(store_fault_count(f->fault, STORE_OP_SYNC), 3);
    assert_int_equal(store_fault_count(f->fault, STORE_OP_SYNC_DIR), 3);
}

#define MANY 20000

static void add_many(training *f) {
    static const int64_t one[] = {1};
    static float values[MANY];
    struct pawl_error err = ERROR_INIT;
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof name, "part%d/%d", i % 7, i);
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = name,
                                    .dtype = PAWL_F32,
                                    .ndim = 1,
                                    .shape = one,
                                    .data = &values[i]};
        assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    }
}

/* The entries of an index that is encoded while the data is written: all of them, in order, with
 * the checksums that the data has. */
static void test_many_entries_are_all_in_the_index(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *checkpoint;
    pawl_verify_result result;
    pawl_entries *walk;
    pawl_entry_info info;
    char before[64] = "";
    int count = 0, more = 1;
    training_open_with(f, platform_system(), (pawl_run_options){0});
    add_many(f);
    training_save(f, 10);
    assert_ok(checkpoint_open(f->disk, false, 10, platform_system(), NULL, &checkpoint, &err),
              &err);
    assert_ok(checkpoint_verify(checkpoint, NULL, &result, &err), &err);
    assert_ok(entries_open(checkpoint, "", &walk, &err), &err);
    for (assert_ok(entries_next(walk, &info, &more, &err), &err); more != 0;
         assert_ok(entries_next(walk, &info, &more, &err), &err)) {
        assert_true(strcmp(before, info.name) < 0);
        snprintf(before, sizeof before, "%s", info.name);
        count++;
    }
    assert_int_equal(count, MANY + 1);
    pawl_entries_free(walk);
    pawl_checkpoint_close(checkpoint);
}

static void test_gc_removes_leftovers_and_nothing_of_others(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    assert_ok(store_make_dir(f->disk, "step-00000020", &err), &err);
    put_text(f->disk, "step-00000020/data-0123456789ab-1-00000-of-00001.safetensors", "left over");
    put_text(f->disk, "step-00000020/notes.txt", "someone's notes");
    assert_ok(store_make_dir(f->disk, "step-00000030", &err), &err);
    put_text(f->disk, "step-00000030/index-0123456789ab-2", "left over");
    put_text(f->disk, "step-00000010/index-0123456789ab-3", "left over");
    assert_ok(run_gc(f->run, false, NULL, NULL, &err), &err);
    assert_false(
        training_exists(f, "step-00000020/data-0123456789ab-1-00000-of-00001.safetensors"));
    assert_true(training_exists(f, "step-00000020/notes.txt"));
    assert_false(training_exists(f, "step-00000030"));
    assert_false(training_exists(f, "step-00000010/index-0123456789ab-3"));
    assert_true(training_committed(f, 10));
}

static void test_gc_leaves_a_step_whose_manifest_cannot_be_read(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    assert_ok(store_make_dir(f->disk, "step-00000020", &err), &err);
    put_text(f->disk, "step-00000020/index-0123456789ab-1", "perhaps precious");
    put_text(f->disk, "step-00000020/manifest.json", "{}");
    assert_ok(run_gc(f->run, false, NULL, NULL, &err), &err);
    assert_true(training_exists(f, "step-00000020/index-0123456789ab-1"));
}

static void count_garbage(void *context, const char *path, uint64_t bytes, const char *reason) {
    (void)bytes;
    assert_non_null(path);
    assert_non_null(reason);
    (*(int *)context)++;
}

static void test_a_dry_run_of_gc_tells_and_removes_nothing(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    int count = 0;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    assert_ok(store_make_dir(f->disk, "step-00000020", &err), &err);
    put_text(f->disk, "step-00000020/index-0123456789ab-1", "left over");
    assert_ok(run_gc(f->run, true, count_garbage, &count, &err), &err);
    assert_int_equal(count, 1);
    assert_true(training_exists(f, "step-00000020/index-0123456789ab-1"));
}

/* ---- S10: a writer that was paused --------------------------------------------------------- */

static void pause_at(training *f, store_op op, uint64_t nth, uint64_t seconds) {
    const store_fault plan = {.op = op, .nth = nth, .delay_ns = seconds * UINT64_C(1000000000)};
    store_fault_set(f->fault, &plan);
}

static void test_s10_a_manifest_that_is_late_is_not_published(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){.lease_s = 30});
    training_save(f, 10);
    if (f->disk->traits.objects) {
        pause_at(f, STORE_OP_PUT, 2, 20); /* placeholder, owner */
    } else {
        pause_at(f, STORE_OP_SYNC, 3, 20); /* data, index, manifest */
    }
    assert_ok(training_begin(f, 20, &err), &err);
    assert_true(store_fault_fired(f->fault));
    assert_fails(run_wait(f->run, 0, NULL, &err), PAWL_EBUSY, &err);
    assert_says(err.attempt, "the ownership of the run could not be renewed in time");
    assert_false(training_committed(f, 20));
    if (!f->disk->traits.objects) { /* someone else may be about to save into the directory */
        assert_true(training_exists(f, "step-00000020"));
    }
    heal(f);
    training_save(f, 20);
}

#define SUCCESSOR_FILE "step-00000020/data-ba9876543210-1-00000-of-00001.safetensors"

#define PAUSE_S 60

/* Another host takes the run over and begins to save, while this process is paused. */
static void succeed(void *context, uint64_t ns) {
    training *f = context;
    struct pawl_error err = ERROR_INIT;
    if (ns < PAUSE_S * UINT64_C(1000000000)) {
        return;
    }
    training_usurp(f);
    (void)!store_make_dir(f->disk, "step-00000020", &err);
    put_text(f->disk, SUCCESSOR_FILE, "not yet committed");
    f->os.on_sleep = NULL;
}

static void test_s10_a_sweep_that_was_paused_leaves_its_successors_files(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){.lease_s = 30});
    training_save(f, 10);
    assert_ok(store_make_dir(f->disk, "step-00000020", &err), &err);
    put_text(f->disk, "step-00000020/index-0123456789ab-2", "left over");
    f->os.on_sleep = succeed;
    f->os.on_sleep_context = f;
    pause_at(f, STORE_OP_SYNC_DIR, 1, PAUSE_S); /* of step 20 */
    assert_fails(run_gc(f->run, false, NULL, NULL, &err), PAWL_EBUSY, &err);
    assert_true(training_exists(f, SUCCESSOR_FILE));
    assert_true(training_exists(f, "step-00000020/index-0123456789ab-2"));
}

static void test_s10_a_succeeded_owner_neither_pins_nor_removes(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    training_save(f, 20);
    training_usurp(f);
    assert_fails(run_pin(f->run, 10, true, &err), PAWL_EBUSY, &err);
    assert_false(training_exists(f, "step-00000010/pinned"));
    assert_fails(run_remove(f->run, 10, false, &err), PAWL_EBUSY, &err);
    assert_fails(run_gc(f->run, false, NULL, NULL, &err), PAWL_EBUSY, &err);
    assert_true(training_committed(f, 10));
}

static void test_a_lease_beyond_all_measure_is_refused(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    store *seen;
    const pawl_run_options options = {.struct_size = sizeof options, .lease_s = 1e300};
    assert_ok(store_trace_wrap(f->fault, &f->os.table, NULL, NULL, &seen, &err), &err);
    assert_fails(run_open(seen, &options, &f->os.table, &f->run, &err), PAWL_ELIMIT, &err);
    assert_says(err.attempt, "lease_s");
    assert_says(err.found, "1e+300");
    f->run = NULL;
}

/* ---- restoring beside a save ---------------------------------------------------------------- */

static void test_the_checkpoint_continued_from_stays_until_a_newer_one_is(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t ten = 10;
    const pawl_restore_options from_ten = {.struct_size = sizeof from_ten, .step = &ten};
    training_open_with(f, &f->os.table, keep_one());
    training_save(f, 10);
    assert_ok(run_pin(f->run, 10, true, &err), &err);
    training_save(f, 20);
    assert_ok(run_pin(f->run, 10, false, &err), &err);
    assert_ok(run_restore(f->run, f->state, &from_ten, NULL, &err), &err);
    training_save(f, 5);
    assert_true(training_committed(f, 10));
    training_save(f, 30);
    assert_false(training_exists(f, "step-00000010"));
}

/* ---- replacing ------------------------------------------------------------------------------ */

static void test_saving_a_step_again_replaces_it_and_its_files(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    arena memory = {0};
    char **names;
    size_t count;
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 10);
    training_save(f, 10);
    assert_ok(store_names(f->disk, "step-00000010", 100, &memory, &names, &count, &err), &err);
    assert_int_equal(count, 3); /* data, index, manifest */
    arena_free(&memory);
}

/* ---- when is a save due? -------------------------------------------------------------------- */

static void test_a_save_is_due_by_steps_once_a_step(void **state) {
    training *f = *state;
    training_open_with(f, &f->os.table, (pawl_run_options){.save_every_steps = 10});
    assert_false(run_due(f->run, 0));
    assert_false(run_due(f->run, 9));
    assert_true(run_due(f->run, 10));
    training_save(f, 10);
    assert_false(run_due(f->run, 10));
    assert_true(run_due(f->run, 20));
}

static void test_a_save_is_due_by_seconds_since_the_last(void **state) {
    training *f = *state;
    training_open_with(f, &f->os.table, (pawl_run_options){.save_every_s = 60});
    assert_false(run_due(f->run, 1));
    simulated_platform_advance(&f->os, UINT64_C(61000000000));
    assert_true(run_due(f->run, 2));
    training_save(f, 2);
    assert_false(run_due(f->run, 3));
}

#define TEST(function)                                                                             \
    cmocka_unit_test_setup_teardown(function, training_set_up_small, training_tear_down)
#define TEST_THREADS(function)                                                                     \
    cmocka_unit_test_setup_teardown(function, training_set_up_threads, training_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s03_a_failed_write_is_told_at_the_wait_and_in_the_log),
        TEST(test_s03_a_failure_nobody_waited_for_is_told_by_the_next_save_once),
        TEST(test_s03_close_tells_a_failure_nobody_has_seen),
        TEST(test_s07_a_disk_that_fills_up_costs_the_attempt_only),
        TEST(test_s06_too_few_bytes),
        TEST(test_s06_too_few_inodes),
        TEST(test_s06_a_file_size_limit),
        TEST(test_p03_a_read_only_mount),
        TEST(test_s14_a_checkpoint_that_is_being_read_stays_until_it_is_closed),
        TEST(test_s14_a_pinned_checkpoint_stays),
        TEST(test_s14_a_failed_save_removes_nothing_older),
        TEST(test_the_last_good_checkpoint_is_removed_by_force_only),
        TEST(test_a_save_syncs_what_it_promises_and_no_more),
        TEST_THREADS(test_many_entries_are_all_in_the_index),
        TEST(test_gc_removes_leftovers_and_nothing_of_others),
        TEST(test_gc_leaves_a_step_whose_manifest_cannot_be_read),
        TEST(test_a_dry_run_of_gc_tells_and_removes_nothing),
        TEST(test_s10_a_manifest_that_is_late_is_not_published),
        TEST(test_s10_a_sweep_that_was_paused_leaves_its_successors_files),
        TEST(test_s10_a_succeeded_owner_neither_pins_nor_removes),
        TEST(test_a_lease_beyond_all_measure_is_refused),
        TEST(test_the_checkpoint_continued_from_stays_until_a_newer_one_is),
        TEST(test_saving_a_step_again_replaces_it_and_its_files),
        TEST(test_a_save_is_due_by_steps_once_a_step),
        TEST(test_a_save_is_due_by_seconds_since_the_last),
    };
    return cmocka_run_group_tests_name("save", tests, NULL, NULL);
}
