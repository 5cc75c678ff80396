/* SPDX-License-Identifier: Apache-2.0 */
/* Many writes at a time: every byte, in whatever order, by whichever queue, with fences, failures
 * and cancels at any moment. */
#include "unit/engine/saving.h"

#include "lib/directory.h"
#include "lib/failing_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK ((int64_t)FORMAT_BLOCK_BYTES)

/* ---- random states -------------------------------------------------------------------------- */

/* Around the edges of blocks and buffers, where a file may begin with a header of 4 KiB. */
static size_t edge_size(test_random *random) {
    static const int64_t edges[] = {0, 1, 4096, BLOCK, 2 * BLOCK, 3 * BLOCK, 5 * BLOCK, 9 * BLOCK};
    static const int64_t headers[] = {0, 4096, 8192};
    int64_t size = edges[random_below(random, ARRAY_LENGTH(edges))] -
                   headers[random_below(random, ARRAY_LENGTH(headers))] +
                   random_between(random, -1, 1);
    return size > 0 ? (size_t)size : 0;
}

static void new_state(saving *f, test_random *random) {
    static const char *const names[SAVING_TENSORS] = {"a", "b", "c", "d", "e"};
    struct pawl_error err = ERROR_INIT;
    plan_layout_free(f->layout);
    state_snapshot_free(f->snapshot);
    f->layout = NULL;
    f->snapshot = NULL;
    state_free(f->state);
    for (size_t i = 0; i < SAVING_TENSORS; i++) {
        mem_free(f->memory[i]);
        f->memory[i] = NULL;
        f->bytes[i] = 0;
    }
    assert_ok(state_new(&f->state, &err), &err);
    size_t count = 1 + random_below(random, SAVING_TENSORS);
    for (size_t i = 0; i < count; i++) {
        saving_add(f, i, names[i], edge_size(random));
    }
    saving_lay_out(f, random_below(random, 3) == 0 ? 1 : 0); /* one file, or one a tensor */
}

static void new_engine(saving *f, test_random *random, pawl_io io) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(engine_free(f->engine, 60, &err), &err);
    f->engine = NULL;
    saving_engine_with(
        f, (engine_options){.budget_bytes = (2 + random_below(random, 12)) * SAVING_BUFFER_BYTES,
                            .in_flight_bytes = (1 + random_below(random, 5)) * SAVING_BUFFER_BYTES,
                            .checking = random_below(random, 4) == 0,
                            .io = io});
}

/* All files as they must be, one after the other. */
static void expect_files(saving *f, buffer *out) {
    struct pawl_error err = ERROR_INIT;
    out->size = 0;
    for (size_t i = 0; i < f->layout->file_count; i++) {
        AUTOFREE uint8_t *bytes = saving_file(f, i);
        assert_ok(buffer_append(out, bytes, f->layout->files[i].bytes, &err), &err);
    }
}

/* What is there, and whether its blocks have the checksums that the commit was told. */
static void assert_files(saving *f, const buffer *wanted) {
    size_t at = 0;
    size_t sum = 0;
    for (size_t i = 0; i < f->layout->file_count; i++) {
        CLEANUP(buffer_free) buffer found = {0};
        saving_read(f, f->layout->files[i].name, &found);
        assert_int_equal(found.size, f->layout->files[i].bytes);
        assert_memory_equal(found.data, wanted->data + at, found.size);
        for (size_t b = 0; b < found.size; b += FORMAT_BLOCK_BYTES) {
            size_t n = found.size - b < FORMAT_BLOCK_BYTES ? found.size - b : FORMAT_BLOCK_BYTES;
            assert_int_equal(f->checksums[sum++], crc32c(0, found.data + b, n));
        }
        at += found.size;
    }
    assert_int_equal(at, wanted->size);
    assert_int_equal(sum, f->checksum_count);
}

static void save_with_a_fence(saving *f, test_random *random) {
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    CLEANUP(buffer_free) buffer wanted = {0};
    expect_files(f, &wanted);
    saving_remove_files(f);
    assert_ok(saving_begin(f, &err), &err);
    if (random_below(random, 4) > 0) {
        f->os->sleep_ns(f->os->context, random_below(random, 300000));
        assert_ok(engine_fence(f->engine, 30, &err), &err);
        saving_scribble(f);
    }
    assert_ok(saving_wait(f, &err, &stats), &err);
    assert_string_equal(f->calls, "released commit done ");
    assert_int_equal(f->engine->buffers_used, 0);
    assert_true(f->engine->buffer_count <= f->engine->buffer_limit);
    assert_files(f, &wanted);
    saving_remove_files(f);
}

static void save_many(saving *f, uint64_t seed, pawl_io io) {
    test_random random = {.state = seed};
    for (int i = 0; i < 60; i++) {
        new_engine(f, &random, io);
        for (int k = 0; k < 3; k++) {
            new_state(f, &random);
            save_with_a_fence(f, &random);
        }
    }
}

static void test_any_state_in_line(void **state) {
    save_many(*state, 21, PAWL_IO_AUTO);
}

static void test_any_state_by_threads(void **state) {
    save_many(*state, 22, PAWL_IO_THREADS);
}

/* ---- on a real filesystem ------------------------------------------------------------------- */

static char directory[64];

static int set_up_disk(void **state) {
    struct pawl_error err = ERROR_INIT;
    saving_set_up_threads(state);
    saving *f = *state;
    store_destroy(f->fault);
    store_destroy(f->disk);
    directory_new(directory, "/tmp");
    assert_ok(store_posix(directory, &f->disk, &err), &err);
    assert_ok(store_fault_wrap(f->disk, f->os, &f->fault, &err), &err);
    assert_ok(store_make_dir(f->disk, "step-00000007", &err), &err);
    return 0;
}

static int tear_down_disk(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(engine_free(f->engine, 60, &err), &err);
    f->engine = NULL;
    assert_ok(store_remove_dir(f->disk, "step-00000007", &err), &err); /* nothing is left in it */
    directory_delete(directory);
    return saving_tear_down(state);
}

/* The queue moves the store's own files: a wrapper would have it fall back to the wrapper's calls.
 */
static void without_faults(saving *f) {
    store *wrapper = f->fault;
    f->fault = f->disk;
    f->disk = wrapper;
}

static void on_disk(saving *f, uint64_t seed, pawl_io io) {
    without_faults(f);
    save_many(f, seed, io);
    without_faults(f);
}

static void test_any_state_on_disk_by_threads(void **state) {
    on_disk(*state, 23, PAWL_IO_THREADS);
}

static void test_any_state_on_disk_through_the_page_cache(void **state) {
    on_disk(*state, 24, PAWL_IO_BUFFERED);
}

static void test_any_state_on_disk_by_a_ring(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_options options = {.platform = f->os, .io = PAWL_IO_URING};
    pawl_status status = engine_new(&options, &f->engine, &err);
    if (status == PAWL_EUNSUPPORTED) {
        print_message("SKIP: %s\n", error_text(&err));
        skip();
    }
    assert_ok(status, &err);
    on_disk(f, 25, PAWL_IO_URING);
}

/* ---- failures and cancels with many writes under way ---------------------------------------- */

static void test_any_operation_may_fail(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_lay_out(f, 1);
    saving_engine_with(f, (engine_options){.budget_bytes = 8 * SAVING_BUFFER_BYTES,
                                           .in_flight_bytes = 4 * SAVING_BUFFER_BYTES});
    uint64_t nth = 1;
    for (;; nth++) {
        saving_remove_files(f);
        saving_plan_fault(
            f, (store_fault){.op = STORE_OP_ANY, .nth = nth, .system_errno = EIO, .forever = true});
        assert_ok(saving_begin(f, &err), &err);
        assert_ok(engine_fence(f->engine, 30, &err), &err);
        pawl_status outcome = saving_wait(f, &err, &stats);
        if (!store_fault_fired(f->fault)) {
            assert_ok(outcome, &err);
            break;
        }
        assert_fails(outcome, PAWL_EIO, &err);
        assert_string_equal(f->calls, "released done ");
        assert_int_equal(f->engine->under_way, 0);
        assert_int_equal(f->engine->buffers_used, 0);
    }
    assert_true(nth > 10);
    saving_assert_written(f);
}

static pawl_status save_with_failing_memory(void *context, pawl_error *err) {
    return saving_whole(context,
                        (engine_options){.budget_bytes = 6 * SAVING_BUFFER_BYTES,
                                         .in_flight_bytes = 4 * SAVING_BUFFER_BYTES},
                        err);
}

static void test_every_allocation_may_fail_with_several_files(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_lay_out(f, 1);
    assert_ok(save_with_failing_memory(f, &err), &err);
    assert_true(failing_memory_each(save_with_failing_memory, f) > 10);
}

/* A fence that gets no memory goes on with the buffers that there are. */
static void test_a_fence_without_memory_waits_for_writes(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine_with(f, (engine_options){.budget_bytes = 64 * SAVING_BUFFER_BYTES});
    saving_plan_fault(
        f, (store_fault){.op = STORE_OP_WRITE, .nth = 1, .forever = true, .delay_ns = 1000000});
    for (uint64_t nth = 1; nth < 8; nth++) {
        saving_remove_files(f);
        assert_ok(saving_begin(f, &err), &err);
        failing_memory_set(nth);
        assert_ok(engine_fence(f->engine, 30, &err), &err);
        failing_memory_set(0);
        if (saving_wait(f, &err, &stats) == PAWL_OK) { /* the store itself may lack memory */
            saving_assert_written(f);
        }
    }
}

static void test_a_cancel_waits_for_what_is_under_way(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine_with(f, (engine_options){.budget_bytes = 16 * SAVING_BUFFER_BYTES,
                                           .in_flight_bytes = 3 * SAVING_BUFFER_BYTES,
                                           .io = PAWL_IO_THREADS});
    saving_plan_fault(f,
                      (store_fault){.op = STORE_OP_WRITE, .nth = 1, .forever = true, .hang = true});
    assert_ok(saving_begin(f, &err), &err);
    while (store_fault_count(f->fault, STORE_OP_WRITE) < 3) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    assert_true(engine_cancel(f->engine));
    f->os->sleep_ns(f->os->context, 20000000);
    assert_true(engine_busy(f->engine));
    assert_int_equal(atomic_load(&f->done), 0); /* the files are still being written to */
    saving_plan_fault(f, (store_fault){0});
    store_fault_release(f->fault);
    assert_fails(saving_wait(f, &err, &stats), PAWL_ECANCELED, &err);
    assert_string_equal(err.attempt,
                        "saving step 7: the save was cancelled after 49.2 kB of 135 kB");
    assert_string_equal(f->calls, "released done ");
}

static void test_no_more_is_under_way_than_asked(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine_with(f, (engine_options){.budget_bytes = 16 * SAVING_BUFFER_BYTES,
                                           .in_flight_bytes = 3 * SAVING_BUFFER_BYTES,
                                           .io = PAWL_IO_THREADS});
    saving_plan_fault(f,
                      (store_fault){.op = STORE_OP_WRITE, .nth = 1, .forever = true, .hang = true});
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(engine_fence(f->engine, 30, &err), &err);
    f->os->sleep_ns(f->os->context, 20000000);
    assert_int_equal(store_fault_count(f->fault, STORE_OP_WRITE), 3);
    saving_plan_fault(f, (store_fault){0});
}

/* Its sum is in it. */
typedef struct order {
    uint64_t at[64];
    size_t count;
} order;

static void note_write(void *context, const store_trace_event *event) {
    order *o = context;
    if (event->op == STORE_OP_WRITE && o->count < ARRAY_LENGTH(o->at)) {
        o->at[o->count++] = event->at;
    }
}

static void test_the_beginning_of_a_file_is_written_after_the_rest_was_taken(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    order o = {.count = 0};
    store *fault = f->fault;
    assert_ok(store_trace_wrap(fault, f->os, note_write, &o, &f->fault, &err), &err);
    saving_engine(f, 4 * SAVING_BUFFER_BYTES, false);
    assert_ok(saving_begin(f, &err), &err);
    pawl_status outcome = saving_wait(f, &err, &stats);
    store_destroy(f->fault);
    f->fault = fault;
    assert_ok(outcome, &err);
    assert_int_equal(o.count, 9);
    assert_true(o.at[7] == 0 || o.at[8] == 0); /* one at a time: the last may be ready by then */
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define SIMULATED(test) cmocka_unit_test_setup_teardown(test, saving_set_up, saving_tear_down)
#define THREADS(t)      cmocka_unit_test_setup_teardown(t, saving_set_up_threads, saving_tear_down)
#define DISK(t)         cmocka_unit_test_setup_teardown(t, set_up_disk, tear_down_disk)
        SIMULATED(test_any_state_in_line),
        THREADS(test_any_state_by_threads),
        DISK(test_any_state_on_disk_by_threads),
        DISK(test_any_state_on_disk_through_the_page_cache),
        DISK(test_any_state_on_disk_by_a_ring),
        SIMULATED(test_any_operation_may_fail),
        THREADS(test_any_operation_may_fail),
        SIMULATED(test_every_allocation_may_fail_with_several_files),
        THREADS(test_a_fence_without_memory_waits_for_writes),
        THREADS(test_a_cancel_waits_for_what_is_under_way),
        THREADS(test_no_more_is_under_way_than_asked),
        SIMULATED(test_the_beginning_of_a_file_is_written_after_the_rest_was_taken),
        SAVING_DEVICE(test_any_state_by_threads),
        SAVING_DEVICE(test_any_operation_may_fail),
        SAVING_DEVICE(test_a_fence_without_memory_waits_for_writes),
        SAVING_DEVICE(test_a_cancel_waits_for_what_is_under_way),
        SAVING_DEVICE(test_no_more_is_under_way_than_asked),
        SAVING_DEVICE_IN_LINE(test_any_state_in_line),
        SAVING_DEVICE_IN_LINE(test_any_operation_may_fail),
        SAVING_DEVICE_IN_LINE(test_every_allocation_may_fail_with_several_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
