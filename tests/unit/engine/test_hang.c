/* SPDX-License-Identifier: Apache-2.0 */
/* A storage that hangs counts as failed by the deadline, and may answer later (S08). */
#include "unit/engine/saving.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOON_S 0.05

static void until(saving *f, _Atomic int *flag) {
    while (atomic_load(flag) == 0) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
}

/* A save of which the nth operation of this kind hangs; its outcome. */
static pawl_status save_and_hang(saving *f, store_op op, uint64_t nth, pawl_error *story) {
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_plan_fault(f, (store_fault){.op = op, .nth = nth, .hang = true});
    assert_ok(saving_begin(f, &err), &err);
    return saving_wait(f, story, &stats);
}

static void until_ready(saving *f) {
    struct pawl_error err = ERROR_INIT;
    while (engine_ready(f->engine, &err) != PAWL_OK) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
}

static void answer(saving *f) {
    store_fault_release(f->fault);
    saving_plan_fault(f, (store_fault){0});
    until(f, &f->done);
    if (f->engine != NULL) {
        until_ready(f);
    }
}

static void engine_that_watches(saving *f, pawl_io io) {
    saving_engine_with(f, (engine_options){.budget_bytes = 16 * SAVING_BUFFER_BYTES,
                                           .io = io,
                                           .hang_timeout_s = SOON_S});
}

static void test_s08_a_write_that_hangs_is_the_outcome(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    engine_that_watches(f, PAWL_IO_AUTO);
    assert_fails(save_and_hang(f, STORE_OP_WRITE, 3, &story), PAWL_EIO, &story);
    assert_says(story.attempt, "saving step 7: the storage hangs: no answer for ");
    assert_says(story.attempt, " while writing");
    assert_says(story.path, "/step-00000007/data-0123456789ab-1-00000-of-00001.safetensors");
    assert_int_equal(story.offset % 16384, 0);
    assert_true(story.offset == 49152 || f->device != NULL); /* which fills chunks in any order */
    assert_int_equal(story.length, 16384);
    assert_string_equal(story.found, "32.8 kB of 135 kB written");
    assert_string_equal(story.next, "look at the storage (the kernel's log, or the server of a "
                                    "network mount); nothing is saved until it answers");
    assert_int_equal(story.step, 7);
    assert_string_equal(f->calls, "released hung ");
    assert_string_equal(f->hung_story.attempt, story.attempt);
    answer(f);
    assert_string_equal(f->calls, "released hung done ");
    assert_int_equal(f->done_status, PAWL_EIO);
    assert_string_equal(f->done_story.attempt,
                        "saving step 7: the storage answers again, but the save had been given up");
}

static void test_s08_a_sync_that_hangs_is_the_outcome(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    engine_that_watches(f, PAWL_IO_THREADS);
    assert_fails(save_and_hang(f, STORE_OP_SYNC, 1, &story), PAWL_EIO, &story);
    assert_says(story.attempt, " while syncing");
    assert_string_equal(story.found, "135 kB of 135 kB written");
    answer(f);
}

static void test_s08_a_file_that_cannot_be_opened_in_time_is_the_outcome(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    engine_that_watches(f, PAWL_IO_AUTO);
    assert_fails(save_and_hang(f, STORE_OP_OPEN, 1, &story), PAWL_EIO, &story);
    assert_says(story.attempt, " while opening");
    assert_says(story.path, ".safetensors");
    answer(f);
}

static void test_s08_room_that_is_not_reserved_in_time_is_the_outcome(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    engine_that_watches(f, PAWL_IO_AUTO);
    assert_fails(save_and_hang(f, STORE_OP_RESERVE, 1, &story), PAWL_EIO, &story);
    assert_says(story.attempt, " while opening");
    answer(f);
}

static void hang_in_commit(saving *f) {
    while (atomic_load(&f->hung) == 0) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    f->os->sleep_ns(f->os->context, 20000000);
}

static void test_s08_a_commit_that_hangs_may_still_succeed(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    engine_that_watches(f, PAWL_IO_AUTO);
    f->on_commit = hang_in_commit;
    assert_ok(saving_begin(f, &err), &err);
    assert_fails(saving_wait(f, &story, &stats), PAWL_EIO, &story);
    assert_says(story.attempt, " while committing");
    assert_says(story.path, "/step-00000007");
    assert_string_equal(story.found, "135 kB of 135 kB written; the commit is under way and "
                                     "may still succeed");
    until(f, &f->done);
    assert_ok(f->done_status, &f->done_story);
    until_ready(f);
    assert_ok(saving_wait(f, &story, &stats), &story); /* what is true now */
    saving_assert_written(f);
}

static void move_in_commit(saving *f) {
    for (int i = 0; i < 20; i++) {
        f->os->sleep_ns(f->os->context, (uint64_t)(SOON_S * 1e9 / 8));
        engine_made_progress(f->engine);
    }
}

static void test_a_commit_whose_steps_end_does_not_hang(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    engine_that_watches(f, PAWL_IO_AUTO);
    f->on_commit = move_in_commit;
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(saving_wait(f, &story, &stats), &story);
    assert_string_equal(f->calls, "released commit done ");
}

static void test_s08_nothing_is_saved_until_the_storage_answers(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    engine_that_watches(f, PAWL_IO_AUTO);
    assert_fails(save_and_hang(f, STORE_OP_WRITE, 1, &story), PAWL_EIO, &story);
    assert_false(engine_busy(f->engine));
    assert_fails(engine_ready(f->engine, &err), PAWL_EIO, &err);
    const engine_job job = {.layout = f->layout, .store = f->fault, .directory = "", .step = 8};
    assert_fails(engine_begin(f->engine, &job, &err), PAWL_EIO, &err);
    assert_string_equal(err.attempt, "nothing can be saved while the save of step 7 hangs");
    assert_says(err.found, "no answer from the storage for ");
    assert_says(err.next, "pawl_run_close leaves that save behind");
    answer(f);
    saving_remove_files(f);
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(saving_wait(f, &story, &stats), &story);
    saving_assert_written(f);
}

/* A fence that waits for a buffer when the storage hangs need not wait: nothing reads any more. */
static void test_s08_a_fence_lets_go_of_a_save_that_hangs(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine_with(f, (engine_options){.hang_timeout_s = SOON_S});
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 1, .hang = true});
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(engine_fence(f->engine, 30, &err), &err);
    saving_scribble(f);
    until(f, &f->hung);
    answer(f);
}

static void test_s08_an_engine_that_hangs_is_left_behind_at_once(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    struct pawl_error err = ERROR_INIT;
    engine_that_watches(f, PAWL_IO_AUTO);
    assert_fails(save_and_hang(f, STORE_OP_WRITE, 2, &story), PAWL_EIO, &story);
    assert_fails(engine_free(f->engine, 1000, &err), PAWL_EIO, &err);
    f->engine = NULL;
    assert_says(err.attempt, "closing: saving step 7: the storage hangs: no answer for ");
    assert_string_equal(err.next,
                        "look at the storage (the kernel's log, or the server of a network mount)");
    answer(f);
    f->os->sleep_ns(f->os->context, 20000000); /* the thread's last steps */
}

/* Each write takes less than the deadline, all of them take more. */
static void test_a_slow_storage_does_not_hang(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine_with(f, (engine_options){.hang_timeout_s = 0.5});
    saving_plan_fault(
        f, (store_fault){.op = STORE_OP_WRITE, .nth = 1, .forever = true, .delay_ns = 100000000});
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_true(stats.write_s > 0.5);
}

static void test_resting_for_bandwidth_is_not_hanging(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine_with(f, (engine_options){.hang_timeout_s = SOON_S,
                                           .bandwidth_bytes_per_s = SAVING_BUFFER_BYTES * 8});
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(saving_wait(f, &err, &stats), &err);
}

/* How the save ended is known: that is the outcome, though its leftovers cannot be removed. */
static void done_that_hangs(void *context, pawl_status status, pawl_error *err) {
    saving *f = context;
    saving_done(f, status, err);
    while (atomic_load(&f->hung) == 0) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
}

static engine_job job_of(saving *f) {
    return (engine_job){.layout = f->layout,
                        .store = f->fault,
                        .directory = "step-00000007",
                        .step = 7,
                        .context = f,
                        .released = saving_released,
                        .hung = saving_hung,
                        .commit = saving_commit,
                        .done = saving_done};
}

static void test_s08_a_removal_that_hangs_leaves_the_outcome_that_was(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    engine_stats stats;
    engine_job job = job_of(f);
    job.done = done_that_hangs;
    engine_that_watches(f, PAWL_IO_AUTO);
    f->commit_status = PAWL_EBUSY;
    assert_ok(engine_begin(f->engine, &job, &err), &err);
    assert_fails(saving_wait(f, &story, &stats), PAWL_EBUSY, &story);
    assert_fails(engine_ready(f->engine, &err), PAWL_EIO, &err);
    atomic_store(&f->hung, 1);
    until_ready(f);
    assert_fails(saving_wait(f, &story, &stats), PAWL_EBUSY, &story);
}

static void committed_before_it_hangs(saving *f) {
    engine_committed(f->engine);
    while (engine_busy(f->engine)) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    until(f, &f->hung);
}

/* What is left to be done after the commit may hang: the checkpoint is there all the same. */
static void test_s08_what_hangs_after_the_commit_is_no_failure(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    engine_stats stats;
    engine_that_watches(f, PAWL_IO_AUTO);
    f->on_commit = committed_before_it_hangs;
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(saving_wait(f, &story, &stats), &story);
    assert_fails(engine_ready(f->engine, &err), PAWL_EIO, &err);
    assert_string_equal(f->calls, "released commit ");
    atomic_store(&f->hung, 1);
    until_ready(f);
    assert_string_equal(f->calls, "released commit done ");
    assert_ok(saving_wait(f, &story, &stats), &story);
}

static void progress_that_hangs(void *context, uint64_t written, uint64_t of) {
    (void)written;
    (void)of;
    until(context, &((saving *)context)->hung);
}

/* Whoever is told how far a save is may write that to the storage, when nothing else is under way.
 */
static void test_s08_progress_that_cannot_be_told_is_the_outcome(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    engine_stats stats;
    engine_job job = job_of(f);
    job.progress = progress_that_hangs;
    saving_engine_with(f, (engine_options){.hang_timeout_s = SOON_S,
                                           .bandwidth_bytes_per_s = SAVING_BUFFER_BYTES * 4});
    assert_ok(engine_begin(f->engine, &job, &err), &err);
    assert_fails(saving_wait(f, &story, &stats), PAWL_EIO, &story);
    assert_says(story.attempt, " while telling how far the save is");
    until_ready(f);
}

static void progress_after_the_end(void *context, uint64_t written, uint64_t of) {
    (void)written;
    (void)of;
    saving *f = context;
    f->progress_calls += atomic_load(&f->hung) != 0;
}

/* That nothing answers is an end; what is told after it would be of a save that goes on. */
static void test_s08_no_progress_is_told_of_a_save_that_was_given_up(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    engine_stats stats;
    engine_job job = job_of(f);
    job.progress = progress_after_the_end;
    saving_engine_with(
        f, (engine_options){.budget_bytes = 16 * SAVING_BUFFER_BYTES, .hang_timeout_s = 1.2});
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 3, .hang = true});
    assert_ok(engine_begin(f->engine, &job, &err), &err);
    assert_fails(saving_wait(f, &story, &stats), PAWL_EIO, &story);
    answer(f);
    assert_int_equal(f->progress_calls, 0);
}

static _Atomic int listener_returns;

static void listener_that_hangs(void *context, pawl_error *story) {
    saving_hung(context, story);
    until(context, &listener_returns);
}

/* Whoever is told that a save hangs may hang, too: in a log on the same storage. */
static void test_s08_closing_does_not_wait_for_whoever_is_told(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_job job = job_of(f);
    job.hung = listener_that_hangs;
    atomic_store(&listener_returns, 0);
    engine_that_watches(f, PAWL_IO_AUTO);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 2, .hang = true});
    assert_ok(engine_begin(f->engine, &job, &err), &err);
    until(f, &f->hung);
    assert_fails(engine_free(f->engine, SOON_S, &err), PAWL_ETIMEOUT, &err);
    f->engine = NULL;
    atomic_store(&listener_returns, 1);
    answer(f);
    f->os->sleep_ns(f->os->context, 20000000); /* the threads' last steps */
}

static void stop_once(void *context, const store_trace_event *event) {
    saving *f = context;
    if (event->op == STORE_OP_WRITE && atomic_exchange(&f->hung, 1) == 0) {
        f->os->sleep_ns(f->os->context, 150000000);
        kill(getpid(), SIGSTOP);
        f->os->sleep_ns(f->os->context, 50000000); /* others of this process run before us */
    }
}

/* In a child: is the outcome of a save good that is stopped while it writes? */
static bool save_and_be_stopped(saving *f) {
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    engine_job job = job_of(f);
    saving_engine_with(f, (engine_options){.io = PAWL_IO_THREADS, .hang_timeout_s = 0.5});
    return store_trace_wrap(f->fault, f->os, stop_once, f, (store **)&job.store, &err) == PAWL_OK &&
           engine_begin(f->engine, &job, &err) == PAWL_OK &&
           saving_wait(f, &err, &stats) == PAWL_OK;
}

static void test_s08_a_process_that_was_stopped_does_not_hang(void **state) {
    saving *f = *state;
    int ended = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(save_and_be_stopped(f) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &ended, WUNTRACED), child);
    assert_true(WIFSTOPPED(ended));
    f->os->sleep_ns(f->os->context, 1000000000);
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define THREADS(t) cmocka_unit_test_setup_teardown(t, saving_set_up_threads, saving_tear_down)
        THREADS(test_s08_a_write_that_hangs_is_the_outcome),
        THREADS(test_s08_a_sync_that_hangs_is_the_outcome),
        THREADS(test_s08_a_file_that_cannot_be_opened_in_time_is_the_outcome),
        THREADS(test_s08_room_that_is_not_reserved_in_time_is_the_outcome),
        THREADS(test_s08_a_commit_that_hangs_may_still_succeed),
        THREADS(test_a_commit_whose_steps_end_does_not_hang),
        THREADS(test_s08_nothing_is_saved_until_the_storage_answers),
        THREADS(test_s08_a_fence_lets_go_of_a_save_that_hangs),
        THREADS(test_s08_an_engine_that_hangs_is_left_behind_at_once),
        THREADS(test_a_slow_storage_does_not_hang),
        THREADS(test_resting_for_bandwidth_is_not_hanging),
        THREADS(test_s08_a_removal_that_hangs_leaves_the_outcome_that_was),
        THREADS(test_s08_what_hangs_after_the_commit_is_no_failure),
        THREADS(test_s08_progress_that_cannot_be_told_is_the_outcome),
        THREADS(test_s08_no_progress_is_told_of_a_save_that_was_given_up),
        THREADS(test_s08_closing_does_not_wait_for_whoever_is_told),
        THREADS(test_s08_a_process_that_was_stopped_does_not_hang),
        SAVING_DEVICE(test_s08_a_write_that_hangs_is_the_outcome),
        SAVING_DEVICE(test_s08_a_sync_that_hangs_is_the_outcome),
        SAVING_DEVICE(test_s08_a_file_that_cannot_be_opened_in_time_is_the_outcome),
        SAVING_DEVICE(test_s08_room_that_is_not_reserved_in_time_is_the_outcome),
        SAVING_DEVICE(test_s08_a_commit_that_hangs_may_still_succeed),
        SAVING_DEVICE(test_a_commit_whose_steps_end_does_not_hang),
        SAVING_DEVICE(test_s08_nothing_is_saved_until_the_storage_answers),
        SAVING_DEVICE(test_s08_a_fence_lets_go_of_a_save_that_hangs),
        SAVING_DEVICE(test_s08_an_engine_that_hangs_is_left_behind_at_once),
        SAVING_DEVICE(test_a_slow_storage_does_not_hang),
        SAVING_DEVICE(test_resting_for_bandwidth_is_not_hanging),
        SAVING_DEVICE(test_s08_a_removal_that_hangs_leaves_the_outcome_that_was),
        SAVING_DEVICE(test_s08_what_hangs_after_the_commit_is_no_failure),
        SAVING_DEVICE(test_s08_progress_that_cannot_be_told_is_the_outcome),
        SAVING_DEVICE(test_s08_no_progress_is_told_of_a_save_that_was_given_up),
        SAVING_DEVICE(test_s08_closing_does_not_wait_for_whoever_is_told),
        SAVING_DEVICE(test_s08_a_process_that_was_stopped_does_not_hang),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
