/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring into a provider's memory, replicas in it, and checkpoints as memory. */
#include "lib/device.h"
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "lib/training.h"

#include "restore/restore.h"
#include "run/private.h"

#include <stdio.h>

#define ROWS    900
#define COLUMNS 1111 /* 8 MB of doubles: no row ends where a block does */
#define SMALL   40   /* tensors */
#define SOON_S  0.1

typedef struct fixture {
    store *late, *disk; /* as in lib/training.h */
    pawl_run *run;
    device *device;
    double *saved;
    float small[SMALL][10];
    void *held; /* what a copy that hangs may still write to */
} fixture;

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    const pawl_run_options options = {.struct_size = sizeof options, .deadline_s = 20};
    fixture *f = mem_calloc(1, sizeof *f);
    assert_ok(store_chosen(platform_system(), &f->late, &err), &err);
    assert_ok(store_truth(f->late, &f->disk, &err), &err);
    store *seen;
    assert_ok(store_trace_wrap(f->late, platform_system(), NULL, NULL, &seen, &err), &err);
    assert_ok(run_open(seen, &options, platform_system(), &f->run, &err), &err);
    f->device = device_new(&(device_plan){.seed = 3, .pieces = 3, .idle = 20, .pinned = true});
    f->saved = mem_alloc(sizeof(double) * ROWS * COLUMNS);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        f->saved[i] = (double)i + 0.5;
    }
    for (size_t i = 0; i < sizeof f->small / sizeof(float); i++) {
        (&f->small[0][0])[i] = (float)i;
    }
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct pawl_error err = ERROR_INIT;
    fixture *f = *state;
    device_release(f->device);
    assert_ok(run_close(f->run, 0, &err), &err);
    device_free(f->device);
    store_truth_destroy(f->disk, f->late);
    store_destroy(f->late);
    mem_free(f->saved);
    mem_free(f->held);
    mem_free(f);
    return 0;
}

/* ---- states --------------------------------------------------------------------------------- */

typedef struct large {
    pawl_dtype dtype;
    const int64_t *strides;
    void *data;
    size_t bytes;
    bool host;
} large;

static void add_large(fixture *f, pawl_state *to, large l) {
    static const int64_t shape[] = {ROWS, COLUMNS};
    struct pawl_error err = ERROR_INIT;
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "much",
                                .dtype = l.dtype,
                                .ndim = 2,
                                .shape = shape,
                                .strides = l.strides,
                                .data = l.host ? l.data : device_hold(f->device, l.data, l.bytes),
                                .memory = l.host ? NULL : device_memory(f->device)};
    assert_ok(state_add_tensor(to, &tensor, &err), &err);
}

/* The odd ones in host memory. */
static void add_small(fixture *f, pawl_state *to, float small[SMALL][10]) {
    static const int64_t shape[] = {10};
    struct pawl_error err = ERROR_INIT;
    for (int i = 0; i < SMALL; i++) {
        char name[32];
        bool host = i % 2 != 0;
        snprintf(name, sizeof name, "small/%02d", i);
        const pawl_tensor tensor = {
            .struct_size = sizeof tensor,
            .name = name,
            .dtype = PAWL_F32,
            .ndim = 1,
            .shape = shape,
            .data = host ? (void *)small[i] : device_hold(f->device, small[i], sizeof small[i]),
            .memory = host ? NULL : device_memory(f->device)};
        assert_ok(state_add_tensor(to, &tensor, &err), &err);
    }
}

static pawl_state *state_of(fixture *f, large l, float small[SMALL][10]) {
    struct pawl_error err = ERROR_INIT;
    pawl_state *made;
    assert_ok(state_new(&made, &err), &err);
    add_large(f, made, l);
    add_small(f, made, small);
    return made;
}

static large saved_large(fixture *f) {
    return (large){.dtype = PAWL_F64, .data = f->saved, .bytes = sizeof(double) * ROWS * COLUMNS};
}

static void save(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    pawl_state *made = state_of(f, saved_large(f), f->small);
    assert_ok(run_save(f->run, made, 1, &options, &err), &err);
    assert_ok(run_wait(f->run, 0, NULL, &err), &err);
    state_free(made);
}

static pawl_status restore(fixture *f, large l, float small[SMALL][10], pawl_report **report,
                           pawl_error *err) {
    const pawl_restore_options options = {.struct_size = sizeof options, .cast = PAWL_POLICY_ALLOW};
    pawl_state *wanted = state_of(f, l, small);
    pawl_status status = run_restore(f->run, wanted, &options, report, err);
    state_free(wanted);
    return status;
}

/* ---- restoring ------------------------------------------------------------------------------ */

static void test_what_was_saved_is_restored_bit_for_bit(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    large l = saved_large(f);
    AUTOFREE double *to = mem_calloc(1, l.bytes);
    float small[SMALL][10] = {{0}};
    save(f);
    l.data = to;
    device_change(f->device, &(device_plan){.seed = 3, .pieces = 3, .pinned = true, .together = 2});
    assert_ok(restore(f, l, small, NULL, &err), &err);
    assert_memory_equal(to, f->saved, l.bytes);
    assert_memory_equal(small, f->small, sizeof small);
    assert_true(device_counted(f->device).most_under_way >= 2);
    assert_int_equal(device_counted(f->device).in_bytes, l.bytes + sizeof small / 2);
}

/* The second save finds snapshot and layout of the first. */
static void test_the_next_save_of_a_state_has_what_the_device_has_then(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    large l = saved_large(f);
    float small[SMALL][10] = {{0}};
    pawl_state *made = state_of(f, l, f->small);
    for (int64_t step = 1; step <= 3; step++) {
        f->saved[5] = (double)step;
        f->small[2][3] = (float)step;
        assert_ok(run_save(f->run, made, step, &options, &err), &err);
        assert_ok(run_wait(f->run, 0, NULL, &err), &err);
        assert_int_equal(f->run->kept.reuses, step - 1);
    }
    state_free(made);
    AUTOFREE double *to = mem_calloc(1, l.bytes);
    l.data = to;
    assert_ok(restore(f, l, small, NULL, &err), &err);
    assert_memory_equal(to, f->saved, l.bytes);
    assert_memory_equal(small, f->small, sizeof small);
}

/* The layout that was kept is of host memory. */
static void test_a_tensor_may_move_to_a_device_between_saves(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    static const int64_t shape[] = {ROWS, COLUMNS};
    const pawl_save_options options = {.struct_size = sizeof options};
    large l = saved_large(f);
    pawl_tensor moved = {.struct_size = sizeof moved,
                         .name = "much",
                         .dtype = PAWL_F64,
                         .ndim = 2,
                         .shape = shape,
                         .data = f->saved};
    const state_tensors one = {.first = &moved, .size = sizeof moved, .count = 1};
    pawl_state *made;
    assert_ok(state_new(&made, &err), &err);
    assert_ok(state_add_tensor(made, &moved, &err), &err);
    assert_ok(run_save(f->run, made, 1, &options, &err), &err);
    assert_ok(run_wait(f->run, 0, NULL, &err), &err);
    AUTOFREE double *there = mem_calloc(1, l.bytes);
    there[9] = 9;
    moved.data = device_hold(f->device, there, l.bytes);
    moved.memory = device_memory(f->device);
    assert_ok(state_update_tensors(made, &one, &err), &err);
    assert_ok(run_save(f->run, made, 2, &options, &err), &err);
    assert_ok(run_wait(f->run, 0, NULL, &err), &err);
    assert_int_equal(device_counted(f->device).out_bytes, l.bytes);
    memset(there, 0x55, l.bytes);
    assert_ok(run_restore(f->run, made, NULL, NULL, &err), &err);
    assert_true(there[0] == 0 && there[9] == 9);
    state_free(made);
}

static void test_what_is_restored_is_cast_and_overflows_are_counted(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_report *report;
    float small[SMALL][10];
    size_t count = (size_t)ROWS * COLUMNS;
    AUTOFREE float *to = mem_calloc(count, sizeof *to);
    f->saved[7] = 1e300;
    f->saved[count - 1] = -1e300;
    save(f);
    const large l = {.dtype = PAWL_F32, .data = to, .bytes = count * sizeof *to};
    assert_ok(restore(f, l, small, &report, &err), &err);
    assert_int_equal(report_counts(report)->cast_overflows, 2);
    for (size_t i = 0; i < count; i++) {
        assert_true(to[i] == (float)f->saved[i]);
    }
    pawl_report_free(report);
}

static void test_strided_device_memory_is_filled_run_by_run(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    float small[SMALL][10];
    const int64_t strides[] = {(COLUMNS + 3) * 8, 8};
    size_t bytes = (size_t)ROWS * (COLUMNS + 3) * 8;
    AUTOFREE double *to = mem_alloc(bytes);
    memset(to, 0x11, bytes);
    save(f);
    const large l = {.dtype = PAWL_F64, .strides = strides, .data = to, .bytes = bytes};
    assert_ok(restore(f, l, small, NULL, &err), &err);
    uint64_t between = 0x1111111111111111u;
    for (size_t r = 0; r < ROWS; r++) {
        const double *row = to + r * (COLUMNS + 3);
        assert_memory_equal(row, f->saved + r * COLUMNS, COLUMNS * 8);
        assert_memory_equal(row + COLUMNS, &between, 8);
    }
}

/* A part of what one process saved in one box. */
static void test_another_box_than_was_saved_is_restored(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    static const int64_t shape[] = {ROWS, COLUMNS};
    static const int64_t offset[] = {100, 200};
    static const int64_t extent[] = {50, 300};
    const pawl_restore_options options = {.struct_size = sizeof options,
                                          .unexpected = PAWL_POLICY_ALLOW};
    AUTOFREE double *to = mem_calloc(50 * 300, sizeof *to);
    pawl_state *wanted;
    const pawl_box part = {.offset = offset,
                           .extent = extent,
                           .data = device_hold(f->device, to, 50 * 300 * sizeof *to)};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "much",
                                .dtype = PAWL_F64,
                                .ndim = 2,
                                .shape = shape,
                                .nboxes = 1,
                                .box_size = sizeof part,
                                .boxes = &part,
                                .memory = device_memory(f->device)};
    save(f);
    assert_ok(state_new(&wanted, &err), &err);
    assert_ok(state_add_tensor(wanted, &tensor, &err), &err);
    assert_ok(run_restore(f->run, wanted, &options, NULL, &err), &err);
    state_free(wanted);
    for (size_t r = 0; r < 50; r++) {
        assert_memory_equal(to + r * 300, f->saved + (100 + r) * COLUMNS + 200, 300 * 8);
    }
}

typedef struct odd {
    uint8_t packed[30], bytes[7];
    double scalar;
} odd;

static pawl_state *odd_state(fixture *f, odd *memory) {
    static const int64_t packed[] = {6, 10};
    static const int64_t bytes[] = {7, 1};
    static const int64_t none[] = {0, 5};
    struct pawl_error err = ERROR_INIT;
    pawl_state *made;
    pawl_tensor tensors[] = {
        {.name = "packed", .dtype = PAWL_F4, .ndim = 2, .shape = packed, .data = memory->packed},
        {.name = "bytes", .dtype = PAWL_U8, .ndim = 2, .shape = bytes, .data = memory->bytes},
        {.name = "scalar", .dtype = PAWL_F64, .data = &memory->scalar},
        {.name = "none", .dtype = PAWL_I64, .ndim = 2, .shape = none, .data = memory}};
    assert_ok(state_new(&made, &err), &err);
    for (size_t i = 0; i < ARRAY_LENGTH(tensors); i++) {
        tensors[i].struct_size = sizeof tensors[i];
        tensors[i].memory = device_memory(f->device);
        tensors[i].data = device_hold(f->device, tensors[i].data, sizeof *memory);
        assert_ok(state_add_tensor(made, &tensors[i], &err), &err);
    }
    return made;
}

static void test_packed_elements_a_scalar_and_nothing_are_there_again(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    test_random random = {.state = 8};
    odd saved;
    odd found = {.scalar = 0};
    random_fill(&random, &saved, sizeof saved);
    pawl_state *made = odd_state(f, &saved);
    assert_ok(run_save(f->run, made, 1, &options, &err), &err);
    assert_ok(run_wait(f->run, 0, NULL, &err), &err);
    state_free(made);
    made = odd_state(f, &found);
    assert_ok(run_restore(f->run, made, NULL, NULL, &err), &err);
    state_free(made);
    assert_memory_equal(found.packed, saved.packed, sizeof found.packed);
    assert_memory_equal(found.bytes, saved.bytes, sizeof found.bytes);
    assert_memory_equal(&found.scalar, &saved.scalar, sizeof found.scalar);
}

static void test_a_copy_that_fails_fails_the_restore_naming_the_tensor(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    float small[SMALL][10];
    large l = saved_large(f);
    AUTOFREE double *to = mem_calloc(1, l.bytes);
    l.data = to;
    save(f);
    device_change(f->device, &(device_plan){.pieces = 2, .fail_nth = 2, .fail_late = true});
    assert_fails(restore(f, l, small, NULL, &err), PAWL_EIO, &err);
    assert_says(err.attempt, "copying to the memory \"device\": the bus is on fire");
    assert_true(strcmp(err.entry, "much") == 0 || strncmp(err.entry, "small/", 6) == 0);
    assert_ok(restore(f, l, small, NULL, &err), &err);
    assert_memory_equal(to, f->saved, l.bytes);
}

/* The large tensor, in memory that stays until the device is gone. */
static large held_large(fixture *f) {
    large l = saved_large(f);
    f->held = mem_calloc(1, l.bytes);
    l.data = f->held;
    return l;
}

/* ---- without memory ------------------------------------------------------------------------- */

/* A thread that lacks memory may leave its work to others: then nothing fails. */
static void assert_no_memory(pawl_status status, pawl_error *err) {
    if (status != PAWL_OK) {
        assert_fails(status, PAWL_ENOMEM, err);
    }
}

static void test_any_allocation_of_a_restore_may_fail(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    float small[SMALL][10] = {{0}};
    save(f);
    pawl_state *wanted = state_of(f, held_large(f), small);
    assert_ok(run_restore(f->run, wanted, NULL, NULL, &err), &err);
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        failing_memory_set(nth);
        pawl_status status = run_restore(f->run, wanted, NULL, NULL, &err);
        failed = failing_memory_fired();
        failing_memory_set(0);
        assert_no_memory(status, &err);
        assert_true(failed || status == PAWL_OK);
    }
    assert_memory_equal(f->held, f->saved, saved_large(f).bytes);
    state_free(wanted);
}

static void test_any_allocation_of_a_save_may_fail(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    pawl_state *made = state_of(f, saved_large(f), f->small);
    bool failed = true;
    for (uint64_t nth = 1; failed; nth++) {
        failing_memory_set(nth);
        pawl_status status = run_save(f->run, made, (int64_t)nth, &options, &err);
        status = status == PAWL_OK ? run_wait(f->run, 0, NULL, &err) : status;
        failed = failing_memory_fired();
        failing_memory_set(0);
        assert_no_memory(status, &err);
        assert_true(failed || status == PAWL_OK);
    }
    state_free(made);
}

/* Left behind until the device answers, with its buffers and the names of its copies, while the
 * state is gone. What has not begun by then never does. */
static void test_s08_a_restore_does_not_wait_for_a_copy_that_hangs(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    float small[SMALL][10];
    save(f);
    large l = held_large(f);
    f->run->timeout_s = SOON_S;
    uint64_t before = device_counted(f->device).starts;
    device_change(f->device, &(device_plan){.pieces = 2, .hang_nth = 1, .hang_inside = true});
    assert_fails(restore(f, l, small, NULL, &err), PAWL_EIO, &err);
    assert_says(err.attempt, "the memory \"device\" hangs: no copy to it has ended for ");
    assert_true(strcmp(err.entry, "much") == 0 || strncmp(err.entry, "small/", 6) == 0);
    assert_says(err.next, "their memory must stay valid");
    device_release(f->device);
    const platform *os = platform_system();
    while (device_counted(f->device).under_way > 0) {
        os->sleep_ns(os->context, 1000000);
    }
    assert_int_equal(device_counted(f->device).starts, before + 1);
    f->run->timeout_s = 20;
}

static void free_ranks(job_ranks **ranks) {
    ranks_free(*ranks);
}

/* Without the run, by a group: its deadline is what is waited for. */
static void test_s08_a_group_does_not_wait_for_a_copy_that_hangs(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    rank_group *group;
    CLEANUP(free_ranks) job_ranks *ranks = NULL;
    pawl_checkpoint *c = NULL;
    pawl_state *wanted;
    save(f);
    wanted = state_of(f, held_large(f), f->small);
    assert_ok(checkpoint_open(f->disk, false, 1, platform_system(), NULL, &c, &err), &err);
    assert_ok(group_new(NULL, &group, &err), &err);
    assert_ok(ranks_new(group, platform_system(), &ranks, &err), &err);
    ranks->timeout_s = SOON_S;
    device_change(f->device, &(device_plan){.pieces = 2, .hang_nth = 2});
    assert_fails(restore_given(ranks, c, wanted, NULL, NULL, &err), PAWL_EIO, &err);
    assert_says(err.attempt, "the memory \"device\" hangs: no copy to it has ended for ");
    pawl_checkpoint_close(c);
    state_free(wanted);
}

/* The copy that hangs would come over what is restored meanwhile. */
static void test_nothing_is_restored_into_tensors_that_a_copy_may_still_change(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    float small[SMALL][10] = {{0}};
    const platform *os = platform_system();
    save(f);
    pawl_state *wanted = state_of(f, held_large(f), small);
    f->run->timeout_s = SOON_S;
    device_change(f->device, &(device_plan){.pieces = 2, .hang_nth = 1});
    assert_fails(run_restore(f->run, wanted, NULL, NULL, &err), PAWL_EIO, &err);
    f->run->timeout_s = 20;
    assert_fails(run_restore(f->run, wanted, NULL, NULL, &err), PAWL_EBUSY, &err);
    assert_says(err.attempt, "copies to it of a restore that was given up have not ended");
    assert_string_equal(err.entry, "much");
    assert_string_equal(err.safe, "nothing was restored");
    device_release(f->device);
    pawl_status status;
    while ((status = run_restore(f->run, wanted, NULL, NULL, &err)) == PAWL_EBUSY) {
        os->sleep_ns(os->context, 1000000);
    }
    assert_ok(status, &err);
    assert_memory_equal(f->held, f->saved, saved_large(f).bytes);
    assert_memory_equal(small, f->small, sizeof small);
    assert_ok(state_remove(wanted, "much", &err), &err);
    state_free(wanted);
}

/* One bit of the large tensor, in the last third of the data file. */
static void damage(store *disk) {
    CLEANUP(buffer_free) buffer bytes = {0};
    struct pawl_error err = ERROR_INIT;
    training seen = {.disk = disk};
    char path[256];
    training_path(&seen, 1, NAME_KIND_DATA, path);
    assert_ok(store_read_file(disk, path, 1u << 30, &bytes, &err), &err);
    training_flip(&seen, path, bytes.size * 2 / 3);
}

/* The copies that hang are of a step that is damaged: an older one, restored instead, would be
 * overwritten by them later. */
static void test_no_older_step_is_restored_while_a_copy_hangs(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    float small[SMALL][10];
    const pawl_save_options options = {.struct_size = sizeof options};
    pawl_state *made = state_of(f, saved_large(f), f->small);
    for (int64_t step = 0; step <= 1; step++) {
        assert_ok(run_save(f->run, made, step, &options, &err), &err);
        assert_ok(run_wait(f->run, 0, NULL, &err), &err);
    }
    state_free(made);
    damage(f->disk);
    large l = held_large(f);
    f->run->timeout_s = SOON_S;
    device_change(f->device, &(device_plan){.pieces = 2, .hang_nth = 1});
    assert_fails(restore(f, l, small, NULL, &err), PAWL_EIO, &err);
    assert_says(err.attempt, "the memory \"device\" hangs: no copy to it has ended for ");
    f->run->timeout_s = 20;
}

/* Nothing that is not verified gets to a device. */
static void test_damage_is_not_copied_to_a_device(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_restore_options options = {.struct_size = sizeof options};
    save(f);
    damage(f->disk);
    uint64_t before = device_counted(f->device).in_bytes;
    AUTOFREE double *to = mem_calloc(1, saved_large(f).bytes);
    large l = saved_large(f);
    l.data = to;
    pawl_state *wanted;
    assert_ok(state_new(&wanted, &err), &err);
    add_large(f, wanted, l);
    float small[SMALL][10];
    add_small(f, wanted, small);
    assert_fails(run_restore(f->run, wanted, &options, NULL, &err), PAWL_EDAMAGED, &err);
    state_free(wanted);
    assert_true(device_counted(f->device).in_bytes > before);
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
        assert_true(to[i] == 0 || to[i] == f->saved[i]);
    }
}

static void test_memory_that_can_only_be_read_is_refused_before_anything_is_read(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    float small[SMALL][10];
    device *other = f->device;
    f->device = device_new(&(device_plan){.pieces = 1, .read_only = true});
    AUTOFREE double *to = mem_calloc(1, saved_large(f).bytes);
    large l = saved_large(f);
    l.data = to;
    save(f);
    assert_fails(restore(f, l, small, NULL, &err), PAWL_EUSAGE, &err);
    assert_says(err.attempt, "nothing can be restored into the tensor: its memory, \"device\", can "
                             "only be read from");
    assert_string_equal(err.entry, "much");
    device_free(f->device);
    f->device = other;
}

/* ---- closing -------------------------------------------------------------------------------- */

/* The save that read the tensor, to compare it later, has failed and ended; the copy has not. */
static void test_s08_closing_tells_of_a_copy_that_no_save_waits_for(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_run_options options = {
        .struct_size = sizeof options, .deadline_s = 20, .hang_deadline_s = SOON_S, .checking = 1};
    const pawl_save_options save_options = {.struct_size = sizeof save_options};
    store *disk;
    pawl_run *run;
    assert_ok(store_mem(&disk, &err), &err);
    assert_ok(run_open(disk, &options, platform_system(), &run, &err), &err);
    pawl_state *made = state_of(f, saved_large(f), f->small);
    device_change(f->device, &(device_plan){.pieces = 2, .hang_nth = 1});
    assert_fails(run_save(run, made, 1, &save_options, &err), PAWL_EIO, &err);
    assert_fails(run_close(run, 0, &err), PAWL_EIO, &err);
    assert_says(err.attempt, "close run: closing: the memory \"device\" hangs");
    assert_says(err.next, "keep the tensors' memory valid until the process ends");
    state_free(made);
}

/* ---- what a state refuses ------------------------------------------------------------------- */

static pawl_status add(const pawl_memory *memory, const int64_t *strides, pawl_error *err) {
    static const int64_t shape[] = {64, 64};
    pawl_state *made;
    pawl_status status = state_new(&made, err);
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "t",
                                .dtype = PAWL_F32,
                                .ndim = 2,
                                .shape = shape,
                                .strides = strides,
                                .memory = memory};
    status = status == PAWL_OK ? state_add_tensor(made, &tensor, err) : status;
    state_free(made);
    return status;
}

static void test_a_provider_that_is_not_whole_is_refused(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_memory memory = *device_memory(f->device);
    assert_ok(add(&memory, NULL, &err), &err); /* its handle may be NULL */
    memory.struct_size = 8;
    assert_fails(add(&memory, NULL, &err), PAWL_EUSAGE, &err);
    assert_says(err.attempt, "struct_size of its memory is not set");
    memory = *device_memory(f->device);
    memory.start_out = NULL;
    assert_fails(add(&memory, NULL, &err), PAWL_EUSAGE, &err);
    assert_says(err.attempt, "its memory has no start_out");
    memory = *device_memory(f->device);
    memory.release = NULL;
    assert_fails(add(&memory, NULL, &err), PAWL_EUSAGE, &err);
    assert_says(err.attempt, "one of allocate and release alone");
    memory = *device_memory(f->device);
    memory.name = "a\nb";
    assert_fails(add(&memory, NULL, &err), PAWL_EUSAGE, &err);
    assert_says(err.attempt, "its memory has no name that can be shown");
}

static void test_strides_that_make_tiny_copies_are_refused(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t transposed[] = {4, 64 * 4};
    const int64_t rows[] = {-512, 4};
    assert_fails(add(device_memory(f->device), transposed, &err), PAWL_EUNSUPPORTED, &err);
    assert_says(err.attempt, "its strides make too many small copies");
    assert_string_equal(err.expected, "runs of at least 256 bytes, or at most 1024 runs");
    assert_string_equal(err.found, "4096 runs of 4 bytes");
    assert_ok(add(device_memory(f->device), rows, &err), &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        T(test_what_was_saved_is_restored_bit_for_bit),
        T(test_the_next_save_of_a_state_has_what_the_device_has_then),
        T(test_a_tensor_may_move_to_a_device_between_saves),
        T(test_what_is_restored_is_cast_and_overflows_are_counted),
        T(test_strided_device_memory_is_filled_run_by_run),
        T(test_another_box_than_was_saved_is_restored),
        T(test_packed_elements_a_scalar_and_nothing_are_there_again),
        T(test_a_copy_that_fails_fails_the_restore_naming_the_tensor),
        T(test_any_allocation_of_a_restore_may_fail),
        T(test_any_allocation_of_a_save_may_fail),
        T(test_s08_a_restore_does_not_wait_for_a_copy_that_hangs),
        T(test_s08_a_group_does_not_wait_for_a_copy_that_hangs),
        T(test_nothing_is_restored_into_tensors_that_a_copy_may_still_change),
        T(test_no_older_step_is_restored_while_a_copy_hangs),
        T(test_damage_is_not_copied_to_a_device),
        T(test_memory_that_can_only_be_read_is_refused_before_anything_is_read),
        T(test_s08_closing_tells_of_a_copy_that_no_save_waits_for),
        T(test_a_provider_that_is_not_whole_is_refused),
        T(test_strides_that_make_tiny_copies_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
