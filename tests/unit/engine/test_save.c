/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a layout: bytes, checksums, callbacks, failures, cancelling. */
#include "unit/engine/saving.h"

#include "lib/failing_memory.h"

#include <errno.h>

static pawl_status save_once(saving *f, pawl_error *story) {
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    assert_ok(saving_begin(f, &err), &err);
    return saving_wait(f, story, &stats);
}

/* ---- what is written ---- */

static void test_files_are_what_the_layout_gathers(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 4 * SAVING_BUFFER_BYTES, false);
    assert_ok(save_once(f, &story), &story);
    saving_assert_written(f);
}

/* Another rank may have removed it as an empty one. */
static void test_a_directory_that_is_gone_is_made_again(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    assert_ok(store_remove_dir(f->disk, "step-00000007", &story), &story);
    saving_engine(f, 4 * SAVING_BUFFER_BYTES, false);
    assert_ok(save_once(f, &story), &story);
    saving_assert_written(f);
}

static void test_callbacks_come_in_order_each_once(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 4 * SAVING_BUFFER_BYTES, false);
    assert_ok(save_once(f, &story), &story);
    assert_string_equal(f->calls, "released commit done ");
}

static void test_a_state_goes_into_several_files(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_lay_out(f, 1);
    assert_true(f->layout->file_count > 1);
    saving_engine(f, 2 * SAVING_BUFFER_BYTES, false);
    assert_ok(save_once(f, &story), &story);
    saving_assert_written(f);
}

static void test_two_buffers_are_enough(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 0, false);
    assert_ok(save_once(f, &story), &story);
    saving_assert_written(f);
}

static void test_an_empty_state_has_a_file(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    state_snapshot_free(f->snapshot);
    f->snapshot = NULL;
    pawl_state *none;
    pawl_state *whole = f->state;
    assert_ok(state_new(&none, &story), &story);
    f->state = none;
    saving_lay_out(f, 0);
    saving_engine(f, 0, false);
    assert_ok(save_once(f, &story), &story);
    saving_assert_written(f);
    f->state = whole;
    state_free(none);
}

static void test_every_file_is_synced_before_the_commit(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_lay_out(f, 1);
    saving_engine(f, 0, false);
    saving_plan_fault(f, (store_fault){0});
    assert_ok(save_once(f, &story), &story);
    assert_int_equal(store_fault_count(f->fault, STORE_OP_SYNC), f->layout->file_count);
}

static void test_many_saves_on_one_engine(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 2 * SAVING_BUFFER_BYTES, false);
    for (int i = 0; i < 20; i++) {
        saving_remove_files(f);
        f->memory[4][i]++;
        assert_ok(save_once(f, &story), &story);
        saving_assert_written(f);
    }
}

static void test_buffers_are_kept_for_the_next_save(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 8 * SAVING_BUFFER_BYTES, false);
    assert_ok(save_once(f, &story), &story);
    size_t count = f->engine->buffer_count;
    uint64_t live = failing_memory_live();
    assert_true(count > 0 && count <= 8);
    saving_remove_files(f);
    assert_ok(save_once(f, &story), &story);
    assert_int_equal(f->engine->buffer_count, count);
    assert_int_equal(f->engine->buffers_used, 0);
    assert_int_equal(failing_memory_live(), live);
}

static void test_statistics_tell_bytes_budget_and_time(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine(f, 3 * SAVING_BUFFER_BYTES + 5, false);
    f->simulated.tick_ns = 1000;
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_int_equal(stats.bytes, f->layout->bytes);
    assert_int_equal(stats.budget_bytes, 3 * SAVING_BUFFER_BYTES);
    assert_true(stats.total_s > 0);
}

static void test_waiting_again_repeats_the_outcome(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    engine_stats stats;
    saving_engine(f, 0, false);
    f->commit_status = PAWL_EBUSY;
    assert_fails(save_once(f, &story), PAWL_EBUSY, &story);
    assert_fails(saving_wait(f, &story, &stats), PAWL_EBUSY, &story);
}

static void test_a_wait_without_a_save_is_good(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    engine_stats stats;
    saving_engine(f, 0, false);
    assert_ok(saving_wait(f, &story, &stats), &story);
    assert_ok(engine_fence(f->engine, 1, &story), &story);
    assert_false(engine_busy(f->engine));
}

static void test_buffers_are_whole_blocks(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_options options = {.platform = f->os, .buffer_bytes = 1000};
    assert_fails(engine_new(&options, &f->engine, &err), PAWL_EINTERNAL, &err);
}

/* ---- failures ---- */

static void test_s03_a_write_that_fails_names_step_file_and_range(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 0, false);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 3, .system_errno = EIO});
    assert_fails(save_once(f, &story), PAWL_EIO, &story);
    assert_string_equal(f->calls, "released done ");
    assert_int_equal(f->done_status, PAWL_EIO);
    assert_says(story.attempt, "saving step 7: writing bytes 49152 to 65535: ");
    assert_says(story.path, "/step-00000007/data-0123456789ab-1-00000-of-00001.safetensors");
    assert_says(story.system, "(EIO, errno 5)");
    assert_int_equal(story.step, 7);
    assert_true(story.has_range);
    assert_int_equal(story.offset, 49152);
    assert_int_equal(story.length, 16384);
}

static void test_a_sync_that_fails_is_not_a_commit(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 0, false);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_SYNC, .nth = 1, .system_errno = EIO});
    assert_fails(save_once(f, &story), PAWL_EIO, &story);
    assert_string_equal(f->calls, "released done ");
}

static void test_a_save_that_cannot_be_prepared_opens_no_file(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 0, false);
    saving_plan_fault(f, (store_fault){0}); /* counts from here */
    f->prepare_status = PAWL_ENOSPACE;
    assert_fails(save_once(f, &story), PAWL_ENOSPACE, &story);
    assert_string_equal(story.attempt, "saving step 7: preparing refused");
    assert_string_equal(f->calls, "released done ");
    assert_int_equal(store_fault_count(f->fault, STORE_OP_ANY), 0);
}

static void test_a_file_that_cannot_be_made_is_not_a_commit(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 0, false);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_OPEN, .nth = 1, .system_errno = ENOSPC});
    assert_fails(save_once(f, &story), PAWL_ENOSPACE, &story);
    assert_string_equal(f->calls, "released done ");
}

static void test_a_commit_that_fails_is_the_outcome(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 0, false);
    f->commit_status = PAWL_EBUSY;
    assert_fails(save_once(f, &story), PAWL_EBUSY, &story);
    assert_string_equal(story.attempt, "saving step 7: commit refused");
    assert_string_equal(f->calls, "released commit done ");
}

static void test_the_save_after_a_failure_works(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 0, false);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 2, .system_errno = ENOSPC});
    assert_fails(save_once(f, &story), PAWL_ENOSPACE, &story);
    saving_remove_files(f);
    assert_ok(save_once(f, &story), &story);
    saving_assert_written(f);
}

static void test_short_writes_are_gone_on_with(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 0, false);
    saving_plan_fault(
        f, (store_fault){.op = STORE_OP_WRITE, .nth = 1, .forever = true, .shorten = true});
    assert_ok(save_once(f, &story), &story);
    saving_assert_written(f);
}

static void test_a_thread_that_cannot_start_is_told_at_once(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, 0, false);
    f->simulated.thread_start_fails = true;
    assert_fails(saving_begin(f, &err), PAWL_ENOMEM, &err);
    assert_string_equal(f->calls, "");
    assert_false(engine_busy(f->engine));
    f->simulated.thread_start_fails = false;
    assert_ok(saving_begin(f, &err), &err);
}

static pawl_status save_with_failing_memory(void *context, pawl_error *err) {
    return saving_whole(
        context, (engine_options){.budget_bytes = 2 * SAVING_BUFFER_BYTES, .checking = true}, err);
}

static void test_every_allocation_may_fail(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(save_with_failing_memory(f, &err), &err); /* the store's directory has its room now */
    assert_true(failing_memory_each(save_with_failing_memory, f) > 5);
}

/* ---- cancelling ---- */

static void cancel_now(saving *f) {
    engine_cancel(f->engine);
}

static void test_a_cancel_during_the_commit_is_too_late(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 0, false);
    f->on_commit = cancel_now;
    assert_ok(save_once(f, &story), &story);
    assert_string_equal(f->calls, "released commit done ");
}

static void test_a_cancel_stops_before_the_next_write(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine(f, 0, false);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 2, .hang = true});
    assert_ok(saving_begin(f, &err), &err);
    while (!store_fault_fired(f->fault)) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    engine_cancel(f->engine);
    store_fault_release(f->fault);
    assert_fails(saving_wait(f, &err, &stats), PAWL_ECANCELED, &err);
    assert_string_equal(err.attempt,
                        "saving step 7: the save was cancelled after 32.8 kB of 135 kB");
    assert_string_equal(f->calls, "released done ");
    assert_int_equal(store_fault_count(f->fault, STORE_OP_WRITE), 2);
}

static void test_a_cancel_without_a_save_is_nothing(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 0, false);
    engine_cancel(f->engine);
    assert_ok(save_once(f, &story), &story);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define SIMULATED(test) cmocka_unit_test_setup_teardown(test, saving_set_up, saving_tear_down)
#define THREADS(t)      cmocka_unit_test_setup_teardown(t, saving_set_up_threads, saving_tear_down)
        SIMULATED(test_files_are_what_the_layout_gathers),
        SIMULATED(test_a_directory_that_is_gone_is_made_again),
        THREADS(test_files_are_what_the_layout_gathers),
        SIMULATED(test_callbacks_come_in_order_each_once),
        THREADS(test_callbacks_come_in_order_each_once),
        SIMULATED(test_a_state_goes_into_several_files),
        THREADS(test_a_state_goes_into_several_files),
        SIMULATED(test_two_buffers_are_enough),
        THREADS(test_two_buffers_are_enough),
        SIMULATED(test_an_empty_state_has_a_file),
        SIMULATED(test_every_file_is_synced_before_the_commit),
        SIMULATED(test_many_saves_on_one_engine),
        THREADS(test_many_saves_on_one_engine),
        SIMULATED(test_buffers_are_kept_for_the_next_save),
        SIMULATED(test_statistics_tell_bytes_budget_and_time),
        SIMULATED(test_waiting_again_repeats_the_outcome),
        SIMULATED(test_a_wait_without_a_save_is_good),
        SIMULATED(test_buffers_are_whole_blocks),
        SIMULATED(test_s03_a_write_that_fails_names_step_file_and_range),
        THREADS(test_s03_a_write_that_fails_names_step_file_and_range),
        SIMULATED(test_a_sync_that_fails_is_not_a_commit),
        SIMULATED(test_a_file_that_cannot_be_made_is_not_a_commit),
        SIMULATED(test_a_save_that_cannot_be_prepared_opens_no_file),
        SIMULATED(test_a_commit_that_fails_is_the_outcome),
        SIMULATED(test_the_save_after_a_failure_works),
        THREADS(test_the_save_after_a_failure_works),
        SIMULATED(test_short_writes_are_gone_on_with),
        SIMULATED(test_a_thread_that_cannot_start_is_told_at_once),
        SIMULATED(test_every_allocation_may_fail),
        SIMULATED(test_a_cancel_during_the_commit_is_too_late),
        THREADS(test_a_cancel_during_the_commit_is_too_late),
        THREADS(test_a_cancel_stops_before_the_next_write),
        SIMULATED(test_a_cancel_without_a_save_is_nothing),
        SAVING_DEVICE(test_files_are_what_the_layout_gathers),
        SAVING_DEVICE(test_callbacks_come_in_order_each_once),
        SAVING_DEVICE(test_a_state_goes_into_several_files),
        SAVING_DEVICE(test_two_buffers_are_enough),
        SAVING_DEVICE(test_many_saves_on_one_engine),
        SAVING_DEVICE(test_s03_a_write_that_fails_names_step_file_and_range),
        SAVING_DEVICE(test_the_save_after_a_failure_works),
        SAVING_DEVICE(test_a_cancel_during_the_commit_is_too_late),
        SAVING_DEVICE(test_a_cancel_stops_before_the_next_write),
        SAVING_DEVICE_IN_LINE(test_files_are_what_the_layout_gathers),
        SAVING_DEVICE_IN_LINE(test_a_state_goes_into_several_files),
        SAVING_DEVICE_IN_LINE(test_two_buffers_are_enough),
        SAVING_DEVICE_IN_LINE(test_many_saves_on_one_engine),
        SAVING_DEVICE_IN_LINE(test_the_save_after_a_failure_works),
        SAVING_DEVICE_IN_LINE(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
