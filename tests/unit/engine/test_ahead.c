/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers that are made ready ahead of a fence: how many, when they are given back, and that nobody
 * waits for it. On real threads.
 */
#include "unit/engine/saving.h"

#define MANY     64 /* buffers, more than a save needs */
#define CHUNKS   ((f->layout->bytes + SAVING_BUFFER_BYTES - 1) / SAVING_BUFFER_BYTES)
#define PATIENCE 30.0

/* Buffers that nobody uses, with all their memory. */
static size_t count_ready(engine *e) {
    size_t count = 0;
    monitor_enter(&e->monitor);
    for (const engine_buffer *b = e->newest; b != NULL; b = b->older) {
        count += !b->readying && b->has_pages;
    }
    monitor_leave(&e->monitor);
    return count;
}

static size_t count_buffers(engine *e) {
    monitor_enter(&e->monitor);
    size_t count = e->buffer_count;
    monitor_leave(&e->monitor);
    return count;
}

static void wait_for(saving *f, size_t (*count)(engine *e), size_t wanted) {
    uint64_t deadline_ns = platform_deadline_ns(f->os, PATIENCE);
    while (count(f->engine) != wanted && !platform_late(f->os, deadline_ns)) {
        f->os->sleep_ns(f->os->context, 200000);
    }
    assert_int_equal(count(f->engine), wanted);
}

static void engine_ready_first(saving *f, size_t buffers) {
    saving_engine_with(
        f, (engine_options){.budget_bytes = buffers * SAVING_BUFFER_BYTES, .ready_first = true});
}

/* Its file has a name that is free again. */
static void begin(saving *f) {
    struct pawl_error err = ERROR_INIT;
    char path[STORE_MAX_PATH];
    snprintf(path, sizeof(path), "step-00000007/%s", f->layout->files[0].name);
    pawl_status status = store_unlink(f->disk, path, &err);
    assert_true(status == PAWL_OK || status == PAWL_ENOTFOUND);
    err = ERROR_INIT;
    assert_ok(saving_begin(f, &err), &err);
}

/* Nothing is written until end_well. */
static void begin_hanging(saving *f) {
    uint64_t deadline_ns = platform_deadline_ns(f->os, PATIENCE);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 1, .hang = true});
    begin(f);
    while (!store_fault_fired(f->fault) && !platform_late(f->os, deadline_ns)) {
        f->os->sleep_ns(f->os->context, 200000);
    }
    assert_true(store_fault_fired(f->fault));
}

static void end_well(saving *f) {
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    store_fault_release(f->fault);
    assert_ok(saving_wait(f, &err, &stats), &err);
}

static void assert_written(saving *f) {
    CLEANUP(buffer_free) buffer found = {0};
    AUTOFREE uint8_t *wanted = saving_file(f, 0);
    saving_read(f, f->layout->files[0].name, &found);
    assert_int_equal(found.size, f->layout->files[0].bytes);
    assert_memory_equal(found.data, wanted, found.size);
}

static void test_the_first_save_readies_what_its_fence_may_want(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_ready_first(f, MANY);
    begin_hanging(f);
    wait_for(f, count_ready, CHUNKS);
    assert_ok(engine_fence(f->engine, PATIENCE, &err), &err);
    assert_int_equal(count_buffers(f->engine), CHUNKS);
    end_well(f);
    assert_written(f);
    assert_int_equal(count_buffers(f->engine), CHUNKS); /* kept for the next */
}

static void test_no_more_than_the_budget_is_made_ready(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_ready_first(f, 5);
    begin_hanging(f);
    wait_for(f, count_ready, 5);
    assert_fails(engine_fence(f->engine, 0.05, &err), PAWL_ETIMEOUT, &err);
    assert_int_equal(count_buffers(f->engine), 5);
    end_well(f);
    assert_written(f);
}

static void test_what_no_fence_used_is_given_back_and_not_made_again(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_ready_first(f, MANY);
    begin_hanging(f);
    wait_for(f, count_ready, CHUNKS);
    end_well(f);
    wait_for(f, count_buffers, f->engine->slab_buffers);
    begin_hanging(f);
    f->os->sleep_ns(f->os->context, 20000000);
    assert_int_equal(count_buffers(f->engine), f->engine->slab_buffers);
    assert_ok(engine_fence(f->engine, PATIENCE, &err), &err);
    end_well(f);
    assert_written(f);
    assert_int_equal(count_buffers(f->engine), CHUNKS);
}

/* Nothing was learnt from it: the next one is the first. */
static void test_a_save_that_failed_says_nothing_of_fences(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    engine_ready_first(f, MANY);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_OPEN, .nth = 1, .system_errno = 5});
    assert_ok(saving_begin(f, &err), &err);
    assert_fails(saving_wait(f, &err, &stats), PAWL_EIO, &err);
    begin_hanging(f);
    wait_for(f, count_ready, CHUNKS);
    end_well(f);
}

/* Unless it was asked for, nothing is made before the first fence: it may never come. */
static void test_nothing_is_guessed_unasked(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, MANY * SAVING_BUFFER_BYTES, false);
    begin_hanging(f);
    f->os->sleep_ns(f->os->context, 20000000);
    assert_int_equal(count_buffers(f->engine), f->engine->slab_buffers);
    assert_ok(engine_fence(f->engine, PATIENCE, &err), &err);
    assert_int_equal(count_buffers(f->engine), CHUNKS);
    end_well(f);
}

static void test_all_is_made_ready_at_once_and_stays(void **state) {
    saving *f = *state;
    saving_engine_with(
        f, (engine_options){.budget_bytes = MANY * SAVING_BUFFER_BYTES, .make_ready = true});
    wait_for(f, count_ready, MANY);
    begin_hanging(f);
    end_well(f);
    assert_written(f);
    assert_int_equal(count_ready(f->engine), MANY);
}

/* Two buffers: while one is being made ready and the other holds the file's first chunk, there is
 * none. The save waits for it, and does not run out of memory. */
static void test_the_smallest_budget_is_made_ready(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    for (int i = 0; i < 50; i++) {
        saving_engine_with(
            f, (engine_options){.budget_bytes = 2 * SAVING_BUFFER_BYTES, .make_ready = true});
        begin(f);
        assert_ok(saving_wait(f, &err, &stats), &err);
        assert_ok(engine_free(f->engine, PATIENCE, &err), &err);
        f->engine = NULL;
    }
    assert_written(f);
}

/* One that is being made ready is no other's: here the test is who makes it ready. */
static engine_buffer *take_unready(saving *f, size_t most) {
    monitor_enter(&f->engine->monitor);
    engine_buffer *b = engine_buffer_unready(f->engine, most);
    monitor_leave(&f->engine->monitor);
    assert_non_null(b);
    return b;
}

static void hand_in(saving *f, engine_buffer *b) {
    monitor_enter(&f->engine->monitor);
    engine_buffer_made(f->engine, b);
    monitor_leave(&f->engine->monitor);
}

static size_t count_free(const engine *e, const engine_buffer *which) {
    size_t count = 0;
    for (const engine_buffer *b = e->free_staging; b != NULL; b = b->next) {
        count += b == which;
    }
    return count;
}

static void test_a_save_leaves_alone_what_is_being_made_ready(void **state) {
    saving *f = *state;
    saving_engine(f, MANY * SAVING_BUFFER_BYTES, false);
    begin_hanging(f);
    end_well(f);
    engine_buffer *b = take_unready(f, MANY);
    assert_true(engine_buffer_give_memory(f->engine, b));
    begin_hanging(f);
    end_well(f);
    assert_int_equal(count_free(f->engine, b), 0);
    hand_in(f, b);
    assert_int_equal(count_free(f->engine, b), 1);
}

static void test_a_save_waits_for_the_only_buffer(void **state) {
    saving *f = *state;
    saving_engine_with(
        f, (engine_options){.budget_bytes = 2 * SAVING_BUFFER_BYTES, .make_ready = true});
    wait_for(f, count_ready, 2);
    monitor_enter(&f->engine->monitor);
    f->engine->free_streaming->has_pages = false;
    monitor_leave(&f->engine->monitor);
    engine_buffer *b = take_unready(f, 2);
    begin(f);
    f->os->sleep_ns(f->os->context, 20000000);
    hand_in(f, b);
    end_well(f);
    assert_written(f);
}

/* Fences, cancels and ends while buffers are being made ready: seeds 1 to 60. */
static void test_fences_and_ends_at_any_moment(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        test_random r = {.state = seed};
        saving_engine_with(
            f, (engine_options){.budget_bytes = (2 + random_below(&r, 12)) * SAVING_BUFFER_BYTES,
                                .make_ready = seed % 3 == 0,
                                .ready_first = seed % 3 == 1});
        f->os->sleep_ns(f->os->context, random_below(&r, 60) * 1000);
        begin(f);
        f->os->sleep_ns(f->os->context, random_below(&r, 200) * 1000);
        bool cancelled = seed % 5 == 0 && engine_cancel(f->engine);
        if (seed % 2 == 0) {
            assert_ok(engine_fence(f->engine, PATIENCE, &err), &err);
        }
        assert_int_equal(saving_wait(f, &err, &stats) == PAWL_OK, !cancelled);
        assert_true(count_buffers(f->engine) <= f->engine->buffer_limit);
        assert_ok(engine_free(f->engine, PATIENCE, &err), &err);
        f->engine = NULL;
    }
}

/* ---- memory of a provider ------------------------------------------------------------------- */

/* Only it allocates and only a copy fills its memory. What was made ready before is freed when the
 * first save finds out that there is a provider, at any moment. */
static void test_a_providers_memory_is_not_made_ready(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        test_random r = {.state = seed};
        saving_engine_with(f, (engine_options){.budget_bytes = MANY * SAVING_BUFFER_BYTES,
                                               .make_ready = seed % 2 == 0,
                                               .ready_first = true});
        f->os->sleep_ns(f->os->context, random_below(&r, 100) * 1000);
        begin_hanging(f);
        f->os->sleep_ns(f->os->context, seed == 1 ? 20000000 : 0);
        assert_int_equal(count_buffers(f->engine), f->engine->slab_buffers);
        assert_ok(engine_fence(f->engine, PATIENCE, &err), &err);
        assert_true(device_counted(f->device).most_pinned <= CHUNKS * SAVING_BUFFER_BYTES);
        end_well(f);
        assert_written(f);
        assert_ok(engine_free(f->engine, PATIENCE, &err), &err);
        f->engine = NULL;
    }
}

/* ---- what fails is a slower fence ----------------------------------------------------------- */

static platform without_ahead;

static pawl_status start_others(void *context, void (*body)(void *), void *argument,
                                platform_thread **thread, pawl_error *err) {
    return body != engine_ahead_body
               ? platform_system()->thread_start(context, body, argument, thread, err)
               : error_set(err, PAWL_EIO, "no more threads");
}

static void test_without_the_thread_the_fence_takes_its_buffers_itself(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    without_ahead = *platform_system();
    without_ahead.thread_start = start_others;
    f->os = &without_ahead;
    for (int ready = 0; ready < 2; ready++) {
        saving_engine_with(f, (engine_options){.budget_bytes = MANY * SAVING_BUFFER_BYTES,
                                               .make_ready = ready != 0,
                                               .ready_first = true});
        begin_hanging(f);
        assert_int_equal(count_buffers(f->engine), f->engine->slab_buffers);
        assert_ok(engine_fence(f->engine, PATIENCE, &err), &err);
        end_well(f);
        assert_written(f);
        assert_ok(engine_free(f->engine, PATIENCE, &err), &err);
        f->engine = NULL;
    }
}

#define ON_THREADS(test)                                                                           \
    cmocka_unit_test_setup_teardown(test, saving_set_up_threads, saving_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_THREADS(test_the_first_save_readies_what_its_fence_may_want),
        ON_THREADS(test_no_more_than_the_budget_is_made_ready),
        ON_THREADS(test_what_no_fence_used_is_given_back_and_not_made_again),
        ON_THREADS(test_a_save_that_failed_says_nothing_of_fences),
        ON_THREADS(test_nothing_is_guessed_unasked),
        ON_THREADS(test_all_is_made_ready_at_once_and_stays),
        ON_THREADS(test_the_smallest_budget_is_made_ready),
        ON_THREADS(test_a_save_leaves_alone_what_is_being_made_ready),
        ON_THREADS(test_a_save_waits_for_the_only_buffer),
        ON_THREADS(test_fences_and_ends_at_any_moment),
        cmocka_unit_test_setup_teardown(test_a_providers_memory_is_not_made_ready,
                                        saving_set_up_device, saving_tear_down),
        ON_THREADS(test_without_the_thread_the_fence_takes_its_buffers_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
