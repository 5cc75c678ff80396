/* SPDX-License-Identifier: Apache-2.0 */
/* What a save takes from the trainer and the storage: buffers, writes at a time, bandwidth, threads
 * that are tuned; and the progress that it tells. */
#include "unit/engine/saving.h"

#define MIB ((size_t)1 << 20)

/* ---- buffers ---- */

static size_t size_for(size_t budget_bytes, size_t in_flight_bytes, uint64_t bandwidth) {
    const engine_options options = {.in_flight_bytes = in_flight_bytes,
                                    .bandwidth_bytes_per_s = bandwidth};
    return engine_buffer_size(&options, budget_bytes);
}

static void test_buffers_fit_the_budget(void **state) {
    (void)state;
    assert_int_equal(size_for(256 * MIB, 32 * MIB, 0), 4 * MIB);
    assert_int_equal(size_for(32 * MIB, 32 * MIB, 0), 4 * MIB);
    assert_int_equal(size_for(31 * MIB, 32 * MIB, 0), 2 * MIB);
    assert_int_equal(size_for(8 * MIB, 32 * MIB, 0), MIB);
    assert_int_equal(size_for(256 * MIB, MIB, 0), MIB / 8);
    assert_int_equal(size_for(0, 32 * MIB, 0), MIB / 16);
    assert_int_equal(size_for(256 * MIB, 32 * MIB, 8 * MIB), MIB);
    assert_int_equal(size_for(256 * MIB, 32 * MIB, 1), MIB / 16);
}

static size_t buffers_used(saving *f) {
    monitor_enter(&f->engine->monitor);
    size_t used = f->engine->buffers_used;
    monitor_leave(&f->engine->monitor);
    return used;
}

static void assert_in_use(saving *f, size_t writes, size_t buffers) {
    for (int i = 0; i < 20000 && (store_fault_count(f->fault, STORE_OP_WRITE) < writes ||
                                  buffers_used(f) < buffers);
         i++) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    f->os->sleep_ns(f->os->context, 20000000); /* no more follows */
    assert_int_equal(store_fault_count(f->fault, STORE_OP_WRITE), writes);
    assert_int_equal(buffers_used(f), buffers);
}

/* While every write hangs: as many bytes as engine.h says are being written, two buffers more are
 * filled, and a fence copies the rest. */
static void test_a_save_uses_what_the_defaults_say_and_no_more(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    const engine_options options = {
        .platform = f->os, .budget_bytes = 256 * MIB, .io = PAWL_IO_THREADS};
    const int64_t shape = (int64_t)(2 * ENGINE_IN_FLIGHT_BYTES);
    AUTOFREE uint8_t *large = mem_calloc(1, (size_t)shape);
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "model/large",
                                .dtype = PAWL_U8,
                                .ndim = 1,
                                .shape = &shape,
                                .data = large};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    saving_lay_out(f, 0);
    assert_ok(engine_new(&options, &f->engine, &err), &err);
    saving_plan_fault(f,
                      (store_fault){.op = STORE_OP_WRITE, .nth = 1, .forever = true, .hang = true});
    assert_ok(saving_begin(f, &err), &err);
    size_t writes = ENGINE_IN_FLIGHT_BYTES / ENGINE_BUFFER_BYTES;
    assert_in_use(f, writes, writes + 2);
    assert_ok(engine_fence(f->engine, 30, &err), &err);
    assert_in_use(f, writes, f->layout->bytes / ENGINE_BUFFER_BYTES + 1);
    saving_plan_fault(f, (store_fault){0});
    store_fault_release(f->fault);
    assert_ok(saving_wait(f, &err, &stats), &err);
}

static void test_a_small_save_takes_no_more_memory_than_it_has_bytes(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    const engine_options options = {.platform = f->os, .budget_bytes = 256 * MIB};
    assert_ok(engine_new(&options, &f->engine, &err), &err);
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(saving_wait(f, &err, &stats), &err);
    saving_assert_written(f);
    assert_string_equal(stats.io, "in line");
    assert_null(f->engine->slab);
    assert_null(f->engine->queue);
    assert_int_equal(f->engine->buffer_count, 1);
    assert_true(f->engine->newest->capacity < f->layout->bytes + STORE_DIRECT_ALIGNMENT);
}

/* ---- bandwidth ---- */

static void test_writes_are_paced(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    uint64_t bandwidth = 2 * SAVING_BUFFER_BYTES;
    saving_engine_with(f, (engine_options){.budget_bytes = 8 * SAVING_BUFFER_BYTES,
                                           .bandwidth_bytes_per_s = bandwidth});
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(saving_wait(f, &err, &stats), &err);
    saving_assert_written(f);
    double least_s = (double)(f->layout->bytes - 2 * SAVING_BUFFER_BYTES) / (double)bandwidth;
    double most_s = (double)f->layout->bytes / (double)bandwidth;
    assert_true(stats.write_s >= least_s && stats.write_s <= most_s);
    assert_int_equal(f->simulated.slept_ns, (uint64_t)(stats.total_s * 1e9 + 0.5));
}

static void test_a_cancel_does_not_wait_for_bandwidth(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine_with(f, (engine_options){.bandwidth_bytes_per_s = 1});
    assert_ok(saving_begin(f, &err), &err);
    f->os->sleep_ns(f->os->context, 2000000);
    engine_cancel(f->engine);
    assert_fails(saving_wait(f, &err, &stats), PAWL_ECANCELED, &err); /* else in hours */
}

static void test_a_fence_that_fits_the_budget_does_not_wait_for_bandwidth(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine_with(
        f, (engine_options){.budget_bytes = 16 * SAVING_BUFFER_BYTES, .bandwidth_bytes_per_s = 1});
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(engine_fence(f->engine, 30, &err), &err);
    engine_cancel(f->engine);
    assert_fails(saving_wait(f, &err, &stats), PAWL_ECANCELED, &err);
    assert_true(stats.fence_wait_s == 0.0);
    assert_true(stats.fence_copied_bytes > 0);
}

/* ---- progress and statistics ---- */

static void test_progress_is_told_once_a_second(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine_with(f, (engine_options){.budget_bytes = 8 * SAVING_BUFFER_BYTES,
                                           .bandwidth_bytes_per_s = SAVING_BUFFER_BYTES});
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_true(f->progress_calls >= 6 && f->progress_calls <= 9);
    assert_true(f->progress_written > 0);
}

static void test_a_save_that_is_soon_done_tells_no_progress(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine(f, 8 * SAVING_BUFFER_BYTES, false);
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_int_equal(f->progress_calls, 0);
}

static void test_seconds_are_told_by_phase(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    f->simulated.tick_ns = 1000;
    saving_engine(f, 8 * SAVING_BUFFER_BYTES, false);
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_true(stats.write_s > 0 && stats.sync_s > 0 && stats.commit_s > 0);
    assert_true(stats.write_s + stats.sync_s + stats.commit_s <= stats.total_s);
    assert_string_equal(stats.io, "in line");
}

/* ---- threads ---- */

static _Atomic int tuned;

static bool refuse_to_tune(void *context, const thread_tuning *tuning, char why[160]) {
    (void)context;
    assert_int_equal(tuning->cpu_count, 2);
    assert_int_equal(tuning->cpus[1], 3); /* a copy: the caller's are gone */
    snprintf(why, 160, "the processor 3 is not there");
    atomic_fetch_add(&tuned, 1);
    return false;
}

static void note_log(void *context, pawl_log_level level, const char *message) {
    if (level <= PAWL_LOG_WARN) {
        strncat(context, message, 500);
    }
}

static void test_threads_are_tuned_and_a_refusal_is_logged_once(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    char said[1024] = "";
    const pawl_log log = {.write = note_log, .context = said, .level = PAWL_LOG_WARN};
    int cpus[] = {1, 3};
    platform os = *f->os;
    os.thread_tune = refuse_to_tune;
    f->os = &os;
    saving_engine_with(f, (engine_options){.tuning = {.cpus = cpus, .cpu_count = 2},
                                           .log = &log,
                                           .hang_timeout_s = 100});
    cpus[1] = 0;
    atomic_store(&tuned, 0);
    for (int i = 0; i < 2; i++) {
        saving_remove_files(f);
        assert_ok(saving_begin(f, &err), &err);
        assert_ok(saving_wait(f, &err, &stats), &err);
    }
    assert_true(atomic_load(&tuned) >= 2);
    assert_ok(engine_free(f->engine, 60, &err), &err);
    f->engine = NULL;
    f->os = platform_system();
    assert_string_equal(said,
                        "threads that save cannot be tuned as asked: the processor 3 is not there");
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define SIMULATED(test) cmocka_unit_test_setup_teardown(test, saving_set_up, saving_tear_down)
#define THREADS(t)      cmocka_unit_test_setup_teardown(t, saving_set_up_threads, saving_tear_down)
        cmocka_unit_test(test_buffers_fit_the_budget),
        THREADS(test_a_save_uses_what_the_defaults_say_and_no_more),
        THREADS(test_a_small_save_takes_no_more_memory_than_it_has_bytes),
        SIMULATED(test_writes_are_paced),
        THREADS(test_a_cancel_does_not_wait_for_bandwidth),
        THREADS(test_a_fence_that_fits_the_budget_does_not_wait_for_bandwidth),
        SIMULATED(test_progress_is_told_once_a_second),
        SIMULATED(test_a_save_that_is_soon_done_tells_no_progress),
        SIMULATED(test_seconds_are_told_by_phase),
        THREADS(test_threads_are_tuned_and_a_refusal_is_logged_once),
        SAVING_DEVICE(test_a_cancel_does_not_wait_for_bandwidth),
        SAVING_DEVICE(test_a_fence_that_fits_the_budget_does_not_wait_for_bandwidth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
