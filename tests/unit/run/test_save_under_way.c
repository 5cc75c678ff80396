/* SPDX-License-Identifier: Apache-2.0 */
/* While a save is under way, on real threads and a store that hangs: S02, S04, S08, S13. */
#include "lib/training.h"

#include <unistd.h>

static void hang_writes(training *f) {
    const store_fault plan = {.op = STORE_OP_WRITE, .nth = 1, .hang = true};
    store_fault_set(f->fault, &plan);
}

/* The engine's thread has met the fault: from now on a release frees it. */
static void wait_until_hung(training *f) {
    for (int i = 0; i < 5000 && !store_fault_fired(f->fault); i++) {
        usleep(1000);
    }
    assert_true(store_fault_fired(f->fault));
}

static void open_hanging(training *f, pawl_run_options options) {
    training_open_with(f, platform_system(), options);
    training_save(f, 10);
    hang_writes(f);
}

static void test_s02_an_entry_in_flight_cannot_be_removed(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const store_fault plan = {.op = STORE_OP_OPEN, .nth = 1, .hang = true};
    training_open_with(f, platform_system(), (pawl_run_options){0});
    training_save(f, 10);
    store_fault_set(f->fault, &plan); /* before a byte is copied */
    assert_ok(training_begin(f, 20, &err), &err);
    wait_until_hung(f);
    assert_fails(state_remove(f->state, "model/kernel", &err), PAWL_EBUSY, &err);
    assert_string_equal(err.entry, "model/kernel");
    assert_says(error_text(&err), "20");
    assert_says(err.next, "pawl_fence");
    assert_ok(run_fence(f->run, 5, &err), &err);
    assert_ok(state_remove(f->state, "model/kernel", &err), &err);
    store_fault_release(f->fault);
    assert_ok(run_wait(f->run, 5, NULL, &err), &err);
    assert_true(training_committed(f, 20)); /* the save is of the state as it was handed over */
}

static void test_s04_error_while_the_previous_save_runs(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    open_hanging(f, (pawl_run_options){.on_busy = PAWL_ON_BUSY_ERROR});
    assert_ok(training_begin(f, 20, &err), &err);
    wait_until_hung(f);
    assert_fails(training_begin(f, 30, &err), PAWL_EBUSY, &err);
    assert_string_equal(err.attempt, "saving step 30: the save of step 20 is still being written");
    assert_string_equal(err.safe, "step 10 is committed and can be restored");
    store_fault_release(f->fault);
    assert_ok(run_wait(f->run, 5, NULL, &err), &err);
}

static void test_s04_skip_while_the_previous_save_runs(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_save_stats stats;
    open_hanging(f, (pawl_run_options){.on_busy = PAWL_ON_BUSY_SKIP});
    assert_ok(training_begin(f, 20, &err), &err);
    wait_until_hung(f);
    assert_ok(training_begin(f, 30, &err), &err);
    store_fault_release(f->fault);
    assert_ok(run_wait(f->run, 5, &stats, &err), &err);
    assert_int_equal(stats.skipped, 1);
    assert_int_equal(stats.step, 20);
    assert_true(training_committed(f, 20));
    assert_false(training_committed(f, 30));
}

static void test_s04_wait_for_the_previous_save_up_to_the_deadline(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options hasty = {.struct_size = sizeof hasty, .deadline_s = 0.05};
    open_hanging(f, (pawl_run_options){0});
    assert_ok(training_begin(f, 20, &err), &err);
    wait_until_hung(f);
    assert_fails(run_save(f->run, f->state, 30, &hasty, &err), PAWL_ETIMEOUT, &err);
    assert_says(err.attempt, "step 20");
    store_fault_release(f->fault);
    assert_ok(training_begin(f, 30, &err), &err);
    pawl_save_stats stats;
    assert_ok(run_wait(f->run, 5, &stats, &err), &err);
    assert_true(training_committed(f, 20));
    assert_true(training_committed(f, 30));
}

static void test_s08_a_storage_that_hangs_is_an_error_at_the_deadline(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    open_hanging(f, (pawl_run_options){0});
    assert_ok(training_begin(f, 20, &err), &err);
    wait_until_hung(f);
    assert_fails(run_wait(f->run, 0.05, NULL, &err), PAWL_ETIMEOUT, &err);
    assert_says(error_text(&err), "step 20");
    assert_says(err.path, "data-");
    assert_string_equal(err.safe, "step 10 is committed and can be restored");
    store_fault_release(f->fault);
    assert_ok(run_wait(f->run, 5, NULL, &err), &err);
}

/* The trainer's thread asks nothing of the storage, so that does not hold it up. */
static void test_s08_a_storage_that_hangs_stalls_no_training(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const store_fault plan = {.op = STORE_OP_SPACE, .nth = 1, .hang = true};
    training_open_with(f, platform_system(), (pawl_run_options){.hang_deadline_s = 0.1});
    training_save(f, 10);
    store_fault_set(f->fault, &plan);
    assert_ok(training_begin(f, 20, &err), &err);
    assert_ok(run_fence(f->run, 5, &err), &err);
    wait_until_hung(f);
    assert_int_equal(store_fault_count(f->fault, STORE_OP_ANY), 1); /* the one that hangs */
    assert_fails(run_wait(f->run, 5, NULL, &err), PAWL_EIO, &err);
    assert_says(err.attempt, "saving step 20: the storage hangs: no answer for ");
    assert_says(err.attempt, " while preparing its directory");
    assert_says(err.path, "/step-00000020");
    store_fault_release(f->fault);
    for (int i = 0; i < 5000 && training_begin(f, 30, &err) != PAWL_OK; i++) {
        usleep(1000); /* it is refused until the storage has answered */
    }
    assert_ok(run_wait(f->run, 5, NULL, &err), &err);
    assert_true(training_committed(f, 30));
    assert_false(training_exists(f, "step-00000020"));
}

static void be_slow(void *context, const store_trace_event *event) {
    (void)context;
    if (event->op == STORE_OP_SPACE || event->op == STORE_OP_MAKE_DIR) {
        usleep(400000);
    }
}

/* Each answer takes less than the deadline, both of them take more. */
static void test_a_save_that_is_slowly_prepared_does_not_hang(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    f->after = be_slow;
    training_open_with(f, platform_system(), (pawl_run_options){.hang_deadline_s = 0.6});
    assert_ok(training_begin(f, 20, &err), &err);
    assert_ok(run_wait(f->run, 30, NULL, &err), &err);
}

static void test_s13_a_final_save_that_fits_is_durable(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    training_open_with(f, platform_system(), (pawl_run_options){0});
    assert_ok(run_save_final(f->run, f->state, 20, &options, 5, &err), &err);
    assert_true(training_committed(f, 20));
}

static void test_s13_a_final_save_that_does_not_fit_says_so(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    open_hanging(f, (pawl_run_options){0});
    assert_fails(run_save_final(f->run, f->state, 20, &options, 0.05, &err), PAWL_ETIMEOUT, &err);
    assert_string_equal(err.attempt, "the final save of step 20 did not fit into the grace time");
    assert_says(err.found, "written; the save was given up");
    assert_string_equal(err.safe, "step 10 is committed and can be restored");
    store_fault_release(f->fault);
    assert_fails(run_wait(f->run, 5, NULL, &err), PAWL_ECANCELED, &err);
    assert_false(training_exists(f, "step-00000020"));
}

static void test_s13_a_final_save_that_never_began_says_what_took_its_time(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    open_hanging(f, (pawl_run_options){0});
    assert_ok(run_save(f->run, f->state, 20, &options, &err), &err);
    assert_fails(run_save_final(f->run, f->state, 30, &options, 0.05, &err), PAWL_ETIMEOUT, &err);
    assert_string_equal(err.attempt, "the final save of step 30 was not begun: the save of step 20 "
                                     "took all of the grace time");
    assert_says(err.found, "of step 20 written; the save was given up");
    store_fault_release(f->fault);
    assert_fails(run_wait(f->run, 5, NULL, &err), PAWL_ECANCELED, &err);
    assert_false(training_exists(f, "step-00000030"));
}

/* Promise 6: a commit that hangs was not given up, and may yet succeed. */
static void test_s13_a_final_save_whose_commit_hangs_is_not_called_given_up(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    bool objects = f->disk->traits.objects; /* where a placeholder and the owner are put before */
    const store_fault plan = {
        .op = objects ? STORE_OP_PUT : STORE_OP_RENAME, .nth = objects ? 3 : 1, .hang = true};
    training_open_with(f, platform_system(), (pawl_run_options){0});
    training_save(f, 10);
    store_fault_set(f->fault, &plan);
    assert_fails(run_save_final(f->run, f->state, 20, &options, 1, &err), PAWL_ETIMEOUT, &err);
    assert_true(store_fault_fired(f->fault));
    assert_says(err.found, "written; the commit is under way and may still succeed");
    store_fault_release(f->fault);
    assert_ok(run_wait(f->run, 5, NULL, &err), &err);
    assert_true(training_committed(f, 20));
}

static void test_tensors_that_a_save_reads_are_not_restored_into(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const store_fault plan = {.op = STORE_OP_OPEN, .nth = 1, .hang = true};
    const pawl_restore_options options = {.struct_size = sizeof options};
    pawl_checkpoint *checkpoint;
    training_open_with(f, platform_system(), (pawl_run_options){0});
    training_save(f, 10);
    store_fault_set(f->fault, &plan); /* before a byte is copied */
    assert_ok(training_begin(f, 20, &err), &err);
    wait_until_hung(f);
    assert_ok(checkpoint_open(f->disk, false, 10, platform_system(), NULL, &checkpoint, &err),
              &err);
    assert_fails(checkpoint_restore(checkpoint, f->state, &options, 0, 1, NULL, &err), PAWL_EBUSY,
                 &err);
    assert_string_equal(err.entry, "model/kernel");
    assert_says(err.attempt, "the save of step 20 still reads it");
    assert_says(err.next, "pawl_fence");
    assert_ok(run_fence(f->run, 5, &err), &err);
    assert_ok(checkpoint_restore(checkpoint, f->state, &options, 0, 1, NULL, &err), &err);
    pawl_checkpoint_close(checkpoint);
    store_fault_release(f->fault);
    assert_ok(run_wait(f->run, 5, NULL, &err), &err);
}

#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, training_set_up_threads, training_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s02_an_entry_in_flight_cannot_be_removed),
        TEST(test_s04_error_while_the_previous_save_runs),
        TEST(test_s04_skip_while_the_previous_save_runs),
        TEST(test_s04_wait_for_the_previous_save_up_to_the_deadline),
        TEST(test_s08_a_storage_that_hangs_is_an_error_at_the_deadline),
        TEST(test_s08_a_storage_that_hangs_stalls_no_training),
        TEST(test_a_save_that_is_slowly_prepared_does_not_hang),
        TEST(test_s13_a_final_save_that_fits_is_durable),
        TEST(test_s13_a_final_save_that_does_not_fit_says_so),
        TEST(test_s13_a_final_save_that_never_began_says_what_took_its_time),
        TEST(test_s13_a_final_save_whose_commit_hangs_is_not_called_given_up),
        TEST(test_tensors_that_a_save_reads_are_not_restored_into),
    };
    return cmocka_run_group_tests_name("a save under way", tests, NULL, NULL);
}
