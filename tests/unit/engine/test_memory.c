/* SPDX-License-Identifier: Apache-2.0 */
/* Saving tensors that are in a provider's memory: what is copied when, failures, hangs, buffers.
 * The tests of fences, hangs, checking and failures run on a device, too, in their own programs. */
#include "unit/engine/saving.h"

#define SOON_S  0.05
#define HANGS_S 0.25 /* far longer than a thread waits for a processor */

static void pause_ms(saving *f, uint64_t ms) {
    f->os->sleep_ns(f->os->context, ms * 1000000);
}

static void until(saving *f, _Atomic int *flag) {
    while (atomic_load(flag) == 0) {
        pause_ms(f, 1);
    }
}

static void until_copy_hangs(saving *f) {
    while (!device_hangs(f->device)) {
        pause_ms(f, 1);
    }
}

static pawl_status save_once(saving *f, pawl_error *story) {
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    assert_ok(saving_begin(f, &err), &err);
    return saving_wait(f, story, &stats);
}

static void change(saving *f, device_plan plan) {
    plan.seed = 9;
    plan.pinned = true;
    device_change(f->device, &plan);
}

/* ---- what is copied ---- */

/* The first copy lasts until others are under way. */
static void test_many_copies_are_under_way_while_writes_hang(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, 64 * SAVING_BUFFER_BYTES, false);
    change(f, (device_plan){.pieces = 50, .idle = 50, .together = 2});
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 1, .hang = true});
    assert_ok(saving_begin(f, &err), &err);
    assert_ok(engine_fence(f->engine, 30, &err), &err);
    assert_in_range(device_counted(f->device).most_under_way, 2, 4);
    while (!store_fault_fired(f->fault)) {
        pause_ms(f, 1);
    }
    store_fault_release(f->fault);
    assert_ok(saving_wait(f, &err, &(engine_stats){0}), &err);
}

/* A chunk of several tensors is one call. */
static void test_small_tensors_are_copied_together(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 64 * SAVING_BUFFER_BYTES, false);
    assert_ok(save_once(f, &story), &story);
    saving_assert_written(f);
    device_count count = device_counted(f->device);
    assert_true(count.copies > count.starts);
    assert_true(count.starts <= f->layout->bytes / SAVING_BUFFER_BYTES + 1);
    assert_int_equal(count.out_bytes, f->bytes[0] + f->bytes[1] + f->bytes[2] + f->bytes[4]);
}

static void test_tensors_of_host_and_device_are_saved_together(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    const int64_t shape[] = {7 * FORMAT_BLOCK_BYTES + 5};
    AUTOFREE uint8_t *host = mem_alloc((size_t)shape[0]);
    memset(host, 0x5a, (size_t)shape[0]);
    for (int i = 0; i < 2; i++) {
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = i == 0 ? "model/b2" : "model/z",
                                    .dtype = PAWL_U8,
                                    .ndim = 1,
                                    .shape = shape,
                                    .data = host};
        assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    }
    saving_lay_out(f, 0);
    saving_engine(f, 5 * SAVING_BUFFER_BYTES, false);
    assert_ok(save_once(f, &story), &story);
    saving_assert_written(f);
    saving_engine_free_now(f);
    state_snapshot_let_go(f->snapshot);
    assert_ok(state_remove(f->state, "model/b2", &err), &err);
    assert_ok(state_remove(f->state, "model/z", &err), &err);
    saving_lay_out(f, 0);
}

/* Every other row, and the rows backwards. */
static void test_strided_boxes_are_copied_run_by_run(void **state) {
    enum { ROWS = 200, COLUMNS = 96 };
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    const int64_t shape[] = {ROWS, COLUMNS};
    const int64_t every_other[] = {2 * COLUMNS * 4, 4};
    AUTOFREE float *rows = mem_calloc((size_t)2 * ROWS * COLUMNS, sizeof(float));
    for (size_t i = 0; i < (size_t)2 * ROWS * COLUMNS; i++) {
        rows[i] = (float)i;
    }
    size_t bytes = (size_t)2 * ROWS * COLUMNS * sizeof(float);
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "rows",
                                .dtype = PAWL_F32,
                                .ndim = 2,
                                .shape = shape,
                                .strides = every_other,
                                .data = device_hold(f->device, rows, bytes),
                                .memory = device_memory(f->device)};
    pawl_state *whole = f->state;
    assert_ok(state_new(&f->state, &err), &err);
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    saving_lay_out(f, 0);
    saving_engine(f, 3 * SAVING_BUFFER_BYTES, false);
    assert_ok(save_once(f, &story), &story);
    CLEANUP(buffer_free) buffer found = {0};
    saving_read(f, f->layout->files[0].name, &found);
    const uint8_t *at = found.data + f->layout->pieces[0].offset;
    for (size_t r = 0; r < ROWS; r++) {
        assert_memory_equal(at + r * COLUMNS * 4, rows + 2 * r * COLUMNS, COLUMNS * sizeof(float));
    }
    saving_engine_free_now(f);
    state_free(f->state);
    f->state = whole;
    saving_lay_out(f, 0);
}

static void test_s05_buffers_of_the_provider_are_within_the_budget(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, 3 * SAVING_BUFFER_BYTES, false);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_WRITE, .nth = 1, .hang = true});
    assert_ok(saving_begin(f, &err), &err);
    assert_fails(engine_fence(f->engine, 0.1, &err), PAWL_ETIMEOUT, &err);
    assert_int_equal(device_counted(f->device).most_pinned, 3 * SAVING_BUFFER_BYTES);
    store_fault_release(f->fault);
    assert_ok(engine_fence(f->engine, 30, &err), &err);
    assert_ok(saving_wait(f, &err, &(engine_stats){0}), &err);
    assert_int_equal(device_counted(f->device).most_pinned, 3 * SAVING_BUFFER_BYTES);
}

static void test_a_provider_without_room_for_buffers_is_named(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, 8 * SAVING_BUFFER_BYTES, false);
    change(f, (device_plan){.pieces = 2, .no_room = true});
    assert_fails(saving_begin(f, &err), PAWL_ENOMEM, &err);
    assert_says(err.attempt, "starting to save step 7: the memory \"device\" allocates no staging "
                             "buffer: NULL for ");
    assert_says(err.next, "lower budget_bytes");
    change(f, (device_plan){.pieces = 2});
    assert_ok(save_once(f, &err), &err);
    saving_assert_written(f);
}

/* ---- failures ---- */

static void fail_once(saving *f, bool late) {
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 8 * SAVING_BUFFER_BYTES, false);
    change(f, (device_plan){.pieces = 2, .fail_nth = 3, .fail_late = late});
    assert_fails(save_once(f, &story), PAWL_EIO, &story);
    assert_string_equal(story.attempt, "saving step 7: copying from the memory \"device\": the bus "
                                       "is on fire");
    assert_string_equal(story.entry, "model/b");
    assert_says(story.next, "find out why it failed where that memory is");
    assert_string_equal(f->calls, "released done ");
    assert_int_equal(f->engine->buffers_used, 0);
    change(f, (device_plan){.pieces = 2});
    saving_remove_files(f);
    assert_ok(save_once(f, &story), &story);
    saving_assert_written(f);
}

static void test_a_copy_that_cannot_start_names_the_tensor(void **state) {
    fail_once(*state, false);
}

static void test_a_copy_that_fails_names_the_tensor(void **state) {
    fail_once(*state, true);
}

static void test_any_copy_may_fail(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    saving_engine(f, 3 * SAVING_BUFFER_BYTES, false);
    uint64_t nth = 1;
    for (;; nth++) {
        saving_remove_files(f);
        change(f, (device_plan){.pieces = 2, .fail_nth = nth, .fail_late = nth % 2 == 0});
        assert_ok(saving_begin(f, &err), &err);
        assert_ok(engine_fence(f->engine, 30, &err), &err);
        pawl_status status = saving_wait(f, &story, &(engine_stats){0});
        if (status == PAWL_OK) {
            break;
        }
        assert_fails(status, PAWL_EIO, &story);
        assert_int_equal(f->engine->buffers_used, 0);
    }
    assert_true(nth > 5);
    saving_assert_written(f);
}

/* ---- copies that never end ---- */

static void engine_that_watches(saving *f) {
    saving_engine_with(
        f, (engine_options){.budget_bytes = 16 * SAVING_BUFFER_BYTES, .hang_timeout_s = HANGS_S});
}

static void begin_hanging(saving *f, bool inside) {
    struct pawl_error err = ERROR_INIT;
    change(f, (device_plan){.pieces = 2, .hang_nth = 3, .hang_inside = inside});
    assert_ok(saving_begin(f, &err), &err);
    until_copy_hangs(f);
    for (int quiet = 0; !inside && quiet < 5; pause_ms(f, 1)) { /* all others have ended */
        quiet = device_counted(f->device).under_way == 1 ? quiet + 1 : 0;
    }
}

static void answer(saving *f) {
    struct pawl_error err = ERROR_INIT;
    device_release(f->device);
    until(f, &f->done);
    while (f->engine != NULL && engine_ready(f->engine, &err) != PAWL_OK) {
        pause_ms(f, 1);
    }
}

static void test_s08_a_fence_waits_for_copies_and_says_for_which(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, 16 * SAVING_BUFFER_BYTES, false);
    begin_hanging(f, false);
    assert_fails(engine_fence(f->engine, SOON_S, &err), PAWL_ETIMEOUT, &err);
    assert_says(err.attempt, "waiting until the save lets go of the tensors: the copies of step 7 "
                             "took longer than ");
    assert_string_equal(err.entry, "model/b");
    assert_says(err.found, "; copies from the memory \"device\" have not ended");
    assert_says(err.next, "if no more is copied, look at that device");
    assert_string_equal(f->calls, "");
    device_release(f->device);
    assert_ok(engine_fence(f->engine, 30, &err), &err);
    assert_string_equal(f->calls, "released ");
    assert_ok(saving_wait(f, &err, &(engine_stats){0}), &err);
}

static void hang_and_answer(saving *f, bool inside) {
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    engine_that_watches(f);
    begin_hanging(f, inside);
    assert_fails(saving_wait(f, &story, &(engine_stats){0}), PAWL_EIO, &story);
    assert_says(story.attempt,
                "saving step 7: the memory \"device\" hangs: no copy from it has ended for ");
    assert_string_equal(story.entry, "model/b");
    assert_says(story.next, "look at the device (its driver's log); the tensors stay in use");
    assert_string_equal(f->calls, "hung ");
    assert_fails(engine_fence(f->engine, SOON_S, &err), PAWL_ETIMEOUT, &err);
    assert_fails(engine_ready(f->engine, &err), PAWL_EIO, &err);
    assert_says(err.found, "no answer from the memory \"device\" for ");
    answer(f);
    assert_string_equal(f->calls, "hung released done ");
    assert_fails(f->done_status, PAWL_EIO, &f->done_story);
    assert_string_equal(f->done_story.attempt,
                        "saving step 7: the memory \"device\" answers again, "
                        "but the save had been given up");
    saving_remove_files(f);
    change(f, (device_plan){.pieces = 2});
    assert_ok(save_once(f, &story), &story);
    saving_assert_written(f);
}

static void test_s08_a_copy_that_hangs_is_the_outcome_and_keeps_the_tensors(void **state) {
    hang_and_answer(*state, false);
}

static void test_s08_a_provider_that_does_not_return_is_the_outcome(void **state) {
    hang_and_answer(*state, true);
}

static void test_s08_a_cancel_does_not_wait_for_a_copy_that_hangs(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    pawl_status outcome;
    saving_engine(f, 16 * SAVING_BUFFER_BYTES, false);
    begin_hanging(f, false);
    assert_true(engine_cancel(f->engine));
    assert_fails(engine_wait(f->engine, SOON_S, NULL, &outcome, &story, &(engine_stats){0}, &err),
                 PAWL_ETIMEOUT, &err);
    assert_string_equal(f->calls, "");
    device_release(f->device);
    assert_fails(saving_wait(f, &story, &(engine_stats){0}), PAWL_ECANCELED, &story);
    assert_string_equal(f->calls, "released done ");
}

/* The engine's thread, the mover's and the buffers are left behind until the provider answers. */
static void close_while_it_hangs(saving *f, bool inside) {
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, 16 * SAVING_BUFFER_BYTES, false);
    begin_hanging(f, inside);
    assert_fails(engine_free(f->engine, SOON_S, &err), PAWL_ETIMEOUT, &err);
    f->engine = NULL;
    assert_says(err.attempt, "closing: the copies of step 7 took longer than ");
    assert_says(err.next, "keep the tensors' memory valid until the process ends");
    assert_string_equal(f->calls, "");
    answer(f);
    assert_string_equal(f->calls, "released done ");
}

static void test_s08_closing_does_not_wait_for_a_copy_that_hangs(void **state) {
    close_while_it_hangs(*state, false);
}

static void test_s08_closing_does_not_wait_for_a_provider_that_does_not_return(void **state) {
    close_while_it_hangs(*state, true);
}

/* ---- reading everything before the save ---- */

static void test_s08_checking_does_not_wait_for_a_copy_that_hangs(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine_with(f, (engine_options){.budget_bytes = 16 * SAVING_BUFFER_BYTES,
                                           .checking = true,
                                           .hang_timeout_s = SOON_S});
    change(f, (device_plan){.pieces = 2, .hang_nth = 2});
    assert_fails(saving_begin(f, &err), PAWL_EIO, &err);
    assert_string_equal(err.attempt, "starting to save step 7: the memory \"device\" hangs: a copy "
                                     "from it does not end");
    assert_string_equal(err.entry, "model/b");
    assert_fails(engine_free(f->engine, 30, &err), PAWL_EIO, &err);
    f->engine = NULL;
    assert_says(err.attempt, "closing: the memory \"device\" hangs");
    device_release(f->device);
}

/* What the trainer's thread reads, as to compare replicas. */
typedef struct reader {
    saving *f;
    pawl_status status;
    struct pawl_error story;
} reader;

static void read_first(void *argument) {
    reader *r = argument;
    const state_entry *entry = r->f->snapshot->entries[0];
    uint8_t bytes[100];
    const engine_wanted wanted = {
        .entry = entry, .box = state_entry_box(entry, 0), .n = sizeof bytes, .to = bytes};
    r->status = engine_copy_out(r->f->engine, &wanted, 1, &r->story);
}

/* Its own copy waits for its turn meanwhile. */
static void test_who_reads_beside_a_save_is_patient_while_other_copies_end(void **state) {
    saving *f = *state;
    reader r = {.f = f, .story = ERROR_INIT};
    platform_thread *thread;
    struct pawl_error err = ERROR_INIT;
    engine_that_watches(f);
    change(f, (device_plan){.pieces = 2, .hang_nth = 1});
    assert_ok(f->os->thread_start(f->os->context, read_first, &r, &thread, &err), &err);
    until_copy_hangs(f);
    uint64_t deadline_ns = platform_deadline_ns(f->os, 2 * HANGS_S);
    while (!platform_late(f->os, deadline_ns)) {
        engine_reading(f->engine); /* as when a copy ends */
        engine_read_ended(f->engine);
        pause_ms(f, 1);
    }
    device_release(f->device);
    f->os->thread_join(f->os->context, thread);
    assert_ok(r.status, &r.story);
}

typedef struct announcer {
    engine *engine;
    atomic_bool ends;
} announcer;

static void announce(void *argument) {
    announcer *a = argument;
    while (!atomic_load(&a->ends)) {
        engine_reading(a->engine);
        engine_read_ended(a->engine);
    }
}

/* It wakes the queue, which a save from another provider replaces. */
static void test_who_reads_beside_a_save_may_end_while_the_next_one_begins(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    announcer a;
    platform_thread *thread;
    saving_engine(f, 16 * SAVING_BUFFER_BYTES, false);
    a.engine = f->engine;
    atomic_init(&a.ends, false);
    assert_ok(save_once(f, &err), &err);
    assert_ok(f->os->thread_start(f->os->context, announce, &a, &thread, &err), &err);
    for (int i = 0; i < 20; i++) {
        engine_buffers_from(f->engine, NULL);
        saving_remove_files(f);
        assert_ok(save_once(f, &err), &err);
    }
    atomic_store(&a.ends, true);
    f->os->thread_join(f->os->context, thread);
    saving_assert_written(f);
}

static void test_checking_on_a_device_that_fails_starts_no_save(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    saving_engine(f, 16 * SAVING_BUFFER_BYTES, true);
    change(f, (device_plan){.pieces = 2, .fail_nth = 2, .fail_late = true});
    assert_fails(saving_begin(f, &err), PAWL_EIO, &err);
    assert_string_equal(err.attempt, "starting to save step 7: copying from the memory \"device\": "
                                     "the bus is on fire");
    assert_ok(save_once(f, &err), &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define DEVICE(t) cmocka_unit_test_setup_teardown(t, saving_set_up_device, saving_tear_down)
        DEVICE(test_many_copies_are_under_way_while_writes_hang),
        DEVICE(test_small_tensors_are_copied_together),
        DEVICE(test_tensors_of_host_and_device_are_saved_together),
        DEVICE(test_strided_boxes_are_copied_run_by_run),
        DEVICE(test_s05_buffers_of_the_provider_are_within_the_budget),
        DEVICE(test_a_provider_without_room_for_buffers_is_named),
        DEVICE(test_a_copy_that_cannot_start_names_the_tensor),
        DEVICE(test_a_copy_that_fails_names_the_tensor),
        DEVICE(test_any_copy_may_fail),
        DEVICE(test_s08_a_fence_waits_for_copies_and_says_for_which),
        DEVICE(test_s08_a_copy_that_hangs_is_the_outcome_and_keeps_the_tensors),
        DEVICE(test_s08_a_provider_that_does_not_return_is_the_outcome),
        DEVICE(test_s08_a_cancel_does_not_wait_for_a_copy_that_hangs),
        DEVICE(test_s08_closing_does_not_wait_for_a_copy_that_hangs),
        DEVICE(test_s08_closing_does_not_wait_for_a_provider_that_does_not_return),
        DEVICE(test_s08_checking_does_not_wait_for_a_copy_that_hangs),
        DEVICE(test_who_reads_beside_a_save_is_patient_while_other_copies_end),
        DEVICE(test_who_reads_beside_a_save_may_end_while_the_next_one_begins),
        DEVICE(test_checking_on_a_device_that_fails_starts_no_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
