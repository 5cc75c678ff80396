/* SPDX-License-Identifier: Apache-2.0 */
/* Copy on fence: when the trainer's memory is let go, and what waiting says. */
#include "unit/engine/asking.h"
#include "unit/engine/saving.h"

/* Begins a save whose nth write hangs, and waits until it does. */
static void begin_hanging(saving *f, store_op op, uint64_t nth) {
    struct pawl_error err = ERROR_INIT;
    saving_plan_fault(f, (store_fault){.op = op, .nth = nth, .hang = true});
    assert_ok(saving_begin(f, &err), &err);
    while (!store_fault_fired(f->fault)) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
}

static void keep_copy(saving *f, buffer *out) {
    struct pawl_error err = ERROR_INIT;
    const plan_file *file = &f->layout->files[0];
    AUTOFREE uint8_t *bytes = saving_file(f, 0);
    assert_ok(buffer_append(out, bytes, file->bytes, &err), &err);
}

/* File 0 is what was kept before the tensors changed. */
static void assert_file_is(saving *f, const buffer *wanted) {
    CLEANUP(buffer_free) buffer found = {0};
    saving_read(f, f->layout->files[0].name, &found);
    assert_int_equal(found.size, wanted->size);
    assert_memory_equal(found.data, wanted->data, wanted->size);
}

static void test_a_fence_copies_what_the_budget_holds_and_returns(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    CLEANUP(buffer_free) buffer wanted = {0};
    keep_copy(f, &wanted);
    saving_engine(f, 64 * SAVING_BUFFER_BYTES, false);
    begin_hanging(f, STORE_OP_WRITE, 1);
    assert_ok(engine_fence(f->engine, 30, &err), &err);
    assert_string_equal(f->calls, "released ");
    saving_scribble(f);
    store_fault_release(f->fault);
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_file_is(f, &wanted);
    assert_true(stats.fence_copy_s > 0);
    uint64_t buffers = (f->layout->bytes + SAVING_BUFFER_BYTES - 1) / SAVING_BUFFER_BYTES;
    assert_int_equal(stats.budget_wanted_bytes, buffers * SAVING_BUFFER_BYTES);
}

static void test_s05_a_fence_never_takes_more_than_the_budget(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, 3 * SAVING_BUFFER_BYTES, false);
    begin_hanging(f, STORE_OP_WRITE, 1);
    assert_fails(engine_fence(f->engine, 0.05, &err), PAWL_ETIMEOUT, &err);
    assert_int_equal(f->engine->buffer_count, 3);
    store_fault_release(f->fault);
    assert_ok(engine_fence(f->engine, 30, &err), &err);
}

static void test_s05_a_fence_without_room_waits_for_writes_and_says_how_long(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine(f, SAVING_BUFFER_BYTES, false);
    saving_plan_fault(
        f, (store_fault){.op = STORE_OP_WRITE, .nth = 1, .forever = true, .delay_ns = 2000000});
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(engine_fence(f->engine, 30, &err), &err);
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_true(stats.fence_wait_s > 0.001);
    assert_true(stats.budget_wanted_bytes > stats.budget_bytes);
    saving_assert_written(f);
}

static void test_s08_a_fence_that_times_out_names_step_file_and_bytes(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, SAVING_BUFFER_BYTES, false);
    begin_hanging(f, STORE_OP_WRITE, 3);
    assert_fails(engine_fence(f->engine, -1, &err), PAWL_ETIMEOUT, &err);
    assert_says(err.attempt,
                "waiting until the save lets go of the tensors: the data files of step "
                "7 had no time to end");
    assert_says(err.path, "/step-00000007/data-0123456789ab-1-00000-of-00001.safetensors");
    assert_string_equal(err.found, "32.8 kB of 135 kB written");
    assert_string_equal(err.safe,
                        "the save goes on; checkpoints that are committed stay as they are");
    assert_int_equal(err.step, 7);
    assert_true(err.has_range);
    store_fault_release(f->fault);
}

static void test_a_fence_after_a_failure_is_good(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine(f, SAVING_BUFFER_BYTES, false);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 2, .system_errno = 5});
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(engine_fence(f->engine, 30, &err), &err);
    assert_fails(saving_wait(f, &err, &stats), PAWL_EIO, &err);
    assert_string_equal(f->calls, "released done ");
}

static void test_s08_a_wait_that_times_out_says_how_far_the_save_is(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    engine_stats stats;
    pawl_status outcome;
    uint64_t written;
    uint64_t of;
    saving_engine(f, SAVING_BUFFER_BYTES, false);
    begin_hanging(f, STORE_OP_SYNC, 1);
    assert_fails(engine_wait(f->engine, 0.02, NULL, &outcome, &story, &stats, &err), PAWL_ETIMEOUT,
                 &err);
    assert_says(err.attempt, "waiting for the save: the data files of step 7 took longer than ");
    assert_string_equal(err.found, "135 kB of 135 kB written");
    assert_true(engine_busy(f->engine));
    engine_written(f->engine, &written, &of);
    assert_int_equal(written, of);
    assert_int_equal(of, f->layout->bytes);
    store_fault_release(f->fault);
    assert_ok(saving_wait(f, &story, &stats), &story);
}

/* ---- questions that copy nothing ---- */

static void test_whether_it_is_fenced_is_told_without_a_copy(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine(f, 64 * SAVING_BUFFER_BYTES, false);
    assert_true(engine_fenced(f->engine));
    begin_hanging(f, STORE_OP_WRITE, 1);
    assert_false(engine_fenced(f->engine));
    assert_false(engine_fenced(f->engine));
    assert_string_equal(f->calls, "");
    assert_ok(engine_fence(f->engine, 30, &err), &err);
    assert_true(engine_fenced(f->engine));
    store_fault_release(f->fault);
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_true(engine_fenced(f->engine));
}

static void test_without_a_fence_it_is_fenced_once_all_is_read(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine(f, SAVING_BUFFER_BYTES, false);
    assert_ok(saving_begin(f, &err), &err);
    while (!engine_fenced(f->engine)) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_int_equal(stats.fence_copied_bytes, 0);
    saving_assert_written(f);
}

static void test_after_a_failure_it_is_fenced(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine(f, SAVING_BUFFER_BYTES, false);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 2, .system_errno = 5});
    assert_ok(saving_begin(f, &err), &err);
    while (!engine_fenced(f->engine)) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    assert_fails(saving_wait(f, &err, &stats), PAWL_EIO, &err);
}

/* ---- single tensors that are let go ---- */

static const char *const names[SAVING_TENSORS] = {"model/a", "model/b", "model/c", "model/d",
                                                  "model/e"};

/* Changes every tensor that is let go, and counts those that have bytes. */
static size_t scribble_what_is_let_go(saving *f) {
    uint8_t fenced[SAVING_TENSORS];
    size_t count = 0;
    engine_fenced_entries(f->engine, names, SAVING_TENSORS, fenced);
    for (size_t i = 0; i < SAVING_TENSORS; i++) {
        if (fenced[i] != 0 && f->bytes[i] > 0) {
            memset(f->memory[i], 0xee, f->bytes[i]);
            count++;
        }
    }
    return count;
}

static void test_tensors_that_are_let_go_one_by_one_may_change(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    CLEANUP(buffer_free) buffer wanted = {0};
    keep_copy(f, &wanted);
    saving_engine(f, 3 * SAVING_BUFFER_BYTES, false);
    assert_int_equal(scribble_what_is_let_go(f), 4); /* no save needs them */
    for (size_t i = 0; i < SAVING_TENSORS; i++) {
        saving_fill(f, i);
    }
    begin_hanging(f, STORE_OP_WRITE, 2);
    while (scribble_what_is_let_go(f) == 0) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    assert_in_range(scribble_what_is_let_go(f), 1, 3); /* the last one is not read yet */
    assert_false(engine_fenced(f->engine));
    store_fault_release(f->fault);
    while (scribble_what_is_let_go(f) < 4) {
    }
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_file_is(f, &wanted);
}

static void test_where_others_read_the_tensors_none_is_let_go_before_all_are(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    uint8_t fenced[SAVING_TENSORS];
    saving_engine(f, 3 * SAVING_BUFFER_BYTES, false);
    f->read_elsewhere = true;
    begin_hanging(f, STORE_OP_WRITE, 2);
    for (int i = 0; i < 100; i++) {
        engine_fenced_entries(f->engine, names, SAVING_TENSORS, fenced);
        assert_null(memchr(fenced, 1, SAVING_TENSORS));
        f->os->sleep_ns(f->os->context, 100000);
    }
    store_fault_release(f->fault);
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_int_equal(scribble_what_is_let_go(f), 4);
}

static void test_a_tensor_that_the_save_does_not_have_is_let_go(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    static const char *const others[] = {"model", "model/a", "model/aa", "z"};
    uint8_t fenced[4];
    saving_engine(f, SAVING_BUFFER_BYTES, false);
    f->prepare_waits = true;
    assert_ok(saving_begin(f, &err), &err);
    engine_fenced_entries(f->engine, others, 4, fenced);
    f->prepare_waits = false;
    assert_memory_equal(fenced, ((const uint8_t[]){1, 0, 1, 1}), 4);
    assert_ok(saving_wait(f, &err, &stats), &err);
}

/* ---- waits that the caller ends ---- */

static void test_a_wait_ends_when_the_caller_says_so(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    engine_stats stats;
    pawl_status outcome;
    asked a = {.ends_at = 3, .thread = thread_self()};
    interrupt stop = {.ask = end_at, .context = &a};
    saving_engine(f, SAVING_BUFFER_BYTES, false);
    begin_hanging(f, STORE_OP_SYNC, 1);
    double begun_s = test_now_s();
    assert_fails(engine_wait(f->engine, 60, &stop, &outcome, &story, &stats, &err), PAWL_ECANCELED,
                 &err);
    assert_true(test_now_s() - begun_s < 10);
    assert_string_equal(error_text(&err),
                        "waiting for the save of step 7: interrupted by the caller\n"
                        "  safe:     the save goes on; checkpoints that are committed stay as they "
                        "are");
    assert_int_equal(err.step, 7);
    assert_int_equal(a.times, 3);
    assert_false(a.elsewhere);
    assert_true(engine_busy(f->engine));
    /* It is not asked again, until the question is a new one. */
    assert_fails(engine_wait(f->engine, 60, &stop, &outcome, &story, &stats, &err), PAWL_ECANCELED,
                 &err);
    assert_int_equal(a.times, 3);
    store_fault_release(f->fault);
    assert_ok(saving_wait(f, &story, &stats), &story);
    saving_assert_written(f);
}

/* A job that ends, as a run's does, by freeing what it was handed. */
typedef struct ending {
    saving *saving;
    char *directory;
    _Atomic int ended, go_on;
} ending;

static void ending_released(void *context) {
    (void)context;
}

static pawl_status ending_commit(void *context, const engine_file *files, pawl_error *err) {
    (void)context;
    (void)files;
    (void)err;
    return PAWL_OK;
}

static void ending_done(void *context, pawl_status status, pawl_error *err) {
    (void)status;
    (void)err;
    ending *e = context;
    mem_free(e->directory);
    plan_layout_free(e->saving->layout);
    e->saving->layout = NULL;
    atomic_store(&e->ended, 1);
    while (atomic_load(&e->go_on) == 0) {
        platform_system()->sleep_ns(platform_system()->context, 1000000);
    }
}

static void test_a_wait_or_a_fence_while_the_job_ends_uses_nothing_of_it(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    engine_stats stats;
    pawl_status outcome;
    ending e = {.saving = f, .directory = mem_strdup("step-00000007")};
    const engine_job job = {.layout = f->layout,
                            .store = f->fault,
                            .directory = e.directory,
                            .step = 7,
                            .context = &e,
                            .released = ending_released,
                            .commit = ending_commit,
                            .done = ending_done};
    saving_engine(f, SAVING_BUFFER_BYTES, false);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 1, .system_errno = 5});
    assert_ok(engine_begin(f->engine, &job, &err), &err);
    while (atomic_load(&e.ended) == 0) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    assert_fails(engine_wait(f->engine, 0, NULL, &outcome, &story, &stats, &err), PAWL_ETIMEOUT,
                 &err);
    assert_says(err.path, "/step-00000007/data-");
    assert_ok(engine_fence(f->engine, -1, &err), &err);
    atomic_store(&e.go_on, 1);
    assert_fails(saving_wait(f, &story, &stats), PAWL_EIO, &story);
}

static void test_one_save_at_a_time(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, SAVING_BUFFER_BYTES, false);
    begin_hanging(f, STORE_OP_WRITE, 1);
    assert_fails(saving_begin(f, &err), PAWL_EINTERNAL, &err);
    store_fault_release(f->fault);
}

static void test_s08_an_engine_whose_storage_hangs_is_left_behind(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, SAVING_BUFFER_BYTES, false);
    begin_hanging(f, STORE_OP_WRITE, 2);
    assert_fails(engine_free(f->engine, 0.02, &err), PAWL_ETIMEOUT, &err);
    f->engine = NULL;
    assert_says(err.attempt, "closing: the data files of step 7 took longer than ");
    assert_string_equal(err.safe,
                        "checkpoints that are committed stay as they are; this one is given up");
    store_fault_release(f->fault);
    while (atomic_load(&f->done) == 0) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    assert_int_equal(f->done_status, PAWL_ECANCELED);
    assert_string_equal(f->calls, "released done ");
    f->os->sleep_ns(f->os->context, 20000000); /* the thread's last steps */
}

/* The trainer and the engine's thread take turns at the chunks; no byte is lost or
 * written twice. */
static void test_fences_at_any_moment(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    test_random random = {.state = 11};
    engine_stats stats;
    saving_engine(f, 3 * SAVING_BUFFER_BYTES, false);
    for (int i = 0; i < 100; i++) {
        CLEANUP(buffer_free) buffer wanted = {0};
        CLEANUP(buffer_free) buffer found = {0};
        random_fill(&random, f->memory[4], f->bytes[4]);
        random_fill(&random, f->memory[1], f->bytes[1]);
        keep_copy(f, &wanted);
        saving_remove_files(f);
        assert_ok(saving_begin(f, &err), &err);
        f->os->sleep_ns(f->os->context, random_below(&random, 200000));
        assert_ok(engine_fence(f->engine, 30, &err), &err);
        saving_scribble(f);
        assert_ok(saving_wait(f, &err, &stats), &err);
        assert_string_equal(f->calls, "released commit done ");
        saving_read(f, f->layout->files[0].name, &found);
        assert_memory_equal(found.data, wanted.data, wanted.size);
    }
}

/* Before the save has begun to write, while it writes, and after its end: both outcomes come, and
 * the callbacks are those of the outcome. */
static void test_cancels_at_any_moment(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    test_random random = {.state = 12};
    engine_stats stats;
    int saved = 0;
    int cancelled = 0;
    saving_engine(f, 2 * SAVING_BUFFER_BYTES, false);
    for (uint64_t i = 0; i < 100 || saved == 0 || cancelled == 0; i++) {
        assert_true(i < 1000); /* else one of the outcomes never comes */
        saving_remove_files(f);
        assert_ok(saving_begin(f, &err), &err);
        f->os->sleep_ns(f->os->context, random_below(&random, 20 * i * i));
        engine_cancel(f->engine);
        assert_ok(engine_fence(f->engine, 30, &err), &err);
        pawl_status outcome = saving_wait(f, &err, &stats);
        assert_true(outcome == PAWL_OK || outcome == PAWL_ECANCELED);
        assert_string_equal(f->calls,
                            outcome == PAWL_OK ? "released commit done " : "released done ");
        saved += outcome == PAWL_OK;
        cancelled += outcome == PAWL_ECANCELED;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define THREADS(t) cmocka_unit_test_setup_teardown(t, saving_set_up_threads, saving_tear_down)
        THREADS(test_a_fence_copies_what_the_budget_holds_and_returns),
        THREADS(test_s05_a_fence_never_takes_more_than_the_budget),
        THREADS(test_s05_a_fence_without_room_waits_for_writes_and_says_how_long),
        THREADS(test_s08_a_fence_that_times_out_names_step_file_and_bytes),
        THREADS(test_a_fence_after_a_failure_is_good),
        THREADS(test_s08_a_wait_that_times_out_says_how_far_the_save_is),
        THREADS(test_a_wait_or_a_fence_while_the_job_ends_uses_nothing_of_it),
        THREADS(test_one_save_at_a_time),
        THREADS(test_s08_an_engine_whose_storage_hangs_is_left_behind),
        THREADS(test_fences_at_any_moment),
        THREADS(test_cancels_at_any_moment),
        THREADS(test_whether_it_is_fenced_is_told_without_a_copy),
        THREADS(test_without_a_fence_it_is_fenced_once_all_is_read),
        SAVING_DEVICE(test_without_a_fence_it_is_fenced_once_all_is_read),
        THREADS(test_after_a_failure_it_is_fenced),
        THREADS(test_tensors_that_are_let_go_one_by_one_may_change),
        SAVING_DEVICE(test_tensors_that_are_let_go_one_by_one_may_change),
        THREADS(test_where_others_read_the_tensors_none_is_let_go_before_all_are),
        THREADS(test_a_tensor_that_the_save_does_not_have_is_let_go),
        THREADS(test_a_wait_ends_when_the_caller_says_so),
        SAVING_DEVICE(test_whether_it_is_fenced_is_told_without_a_copy),
        SAVING_DEVICE(test_after_a_failure_it_is_fenced),
        SAVING_DEVICE(test_a_fence_copies_what_the_budget_holds_and_returns),
        SAVING_DEVICE(test_s05_a_fence_never_takes_more_than_the_budget),
        SAVING_DEVICE(test_s05_a_fence_without_room_waits_for_writes_and_says_how_long),
        SAVING_DEVICE(test_s08_a_fence_that_times_out_names_step_file_and_bytes),
        SAVING_DEVICE(test_a_fence_after_a_failure_is_good),
        SAVING_DEVICE(test_s08_a_wait_that_times_out_says_how_far_the_save_is),
        SAVING_DEVICE(test_a_wait_or_a_fence_while_the_job_ends_uses_nothing_of_it),
        SAVING_DEVICE(test_one_save_at_a_time),
        SAVING_DEVICE(test_s08_an_engine_whose_storage_hangs_is_left_behind),
        SAVING_DEVICE(test_fences_at_any_moment),
        SAVING_DEVICE(test_cancels_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
