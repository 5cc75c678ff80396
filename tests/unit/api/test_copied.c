/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that pawl_save copies: they may change as soon as it returns. */
#include "unit/store/fixtures.h"

#include <pawl/pawl.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SMALL      ((size_t)40000)
#define LARGE      ((size_t)3 << 20) /* 12 MiB of U32, more than the least budget */
#define MIN_BUDGET ((size_t)8 << 20)
#define SLOW       ((uint64_t)24 << 20) /* bytes per second: the save lasts for a while */

typedef struct fixture {
    directory dir;
    char path[128];
    pawl_error *err;
    pawl_run *run;
    pawl_state *state;
    uint32_t *means, *averaged, *kernel; /* `kernel` is read in place */
} fixture;

static void fill(uint32_t *numbers, size_t count, uint32_t first) {
    for (size_t i = 0; i < count; i++) {
        numbers[i] = first + (uint32_t)i;
    }
}

static void open_run(fixture *f, const pawl_run_options *options) {
    assert_ok(pawl_run_open(f->path, options, &f->run, f->err), f->err);
}

static void add(fixture *f, const char *name, const uint32_t *data, size_t count, bool copied) {
    const int64_t shape[] = {(int64_t)count};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = PAWL_U32,
                                .ndim = 1,
                                .shape = shape,
                                .data = (void *)(uintptr_t)data,
                                .copied = copied};
    assert_ok(pawl_state_add_tensor(f->state, &tensor, f->err), f->err);
}

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    directory_make(&f->dir);
    (void)snprintf(f->path, sizeof(f->path), "%s/run", f->dir.path);
    f->err = pawl_error_new();
    f->means = mem_calloc(SMALL, sizeof(uint32_t));
    f->averaged = mem_calloc(LARGE, sizeof(uint32_t));
    f->kernel = mem_calloc(LARGE, sizeof(uint32_t));
    assert_ok(pawl_state_new(&f->state, f->err), f->err);
    add(f, "model/averaged", f->averaged, LARGE, true);
    add(f, "model/kernel", f->kernel, LARGE, false);
    add(f, "model/means", f->means, SMALL, true);
    assert_ok(pawl_state_set_int64(f->state, "train/step", PAWL_ROLE_STEP, 1, f->err), f->err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    pawl_run_close(f->run, 30, f->err);
    pawl_state_free(f->state);
    pawl_error_free(f->err);
    directory_remove(&f->dir);
    mem_free(f->means);
    mem_free(f->averaged);
    mem_free(f->kernel);
    mem_free(f);
    return 0;
}

static void change_copied(fixture *f) {
    memset(f->means, 0xaa, SMALL * sizeof(uint32_t));
    memset(f->averaged, 0xbb, LARGE * sizeof(uint32_t));
}

static void save(fixture *f, int64_t step) {
    assert_ok(pawl_fence(f->run, 0, f->err), f->err);
    fill(f->means, SMALL, (uint32_t)step);
    fill(f->averaged, LARGE, (uint32_t)(step + 1));
    fill(f->kernel, LARGE, (uint32_t)(step + 2));
    assert_ok(pawl_save(f->run, f->state, step, NULL, f->err), f->err);
}

static void assert_numbers(const uint32_t *numbers, size_t count, uint32_t first) {
    for (size_t i = 0; i < count; i++) {
        if (numbers[i] != first + (uint32_t)i) {
            fail_msg("element %zu is %u", i, numbers[i]);
        }
    }
}

static void assert_restored(fixture *f, int64_t step) {
    change_copied(f);
    memset(f->kernel, 0xcc, LARGE * sizeof(uint32_t));
    const pawl_restore_options options = {.struct_size = sizeof options, .step = &step};
    assert_ok(pawl_restore(f->run, f->state, &options, NULL, f->err), f->err);
    assert_numbers(f->means, SMALL, (uint32_t)step);
    assert_numbers(f->averaged, LARGE, (uint32_t)(step + 1));
    assert_numbers(f->kernel, LARGE, (uint32_t)(step + 2));
}

static pawl_run_options slow(size_t budget_bytes) {
    return (pawl_run_options){.struct_size = sizeof(pawl_run_options),
                              .bandwidth_bytes_per_s = SLOW,
                              .budget_bytes = budget_bytes};
}

/* Slow enough for a machine that stands still for a second or two: what the least budget has no
 * room for is not written meanwhile. */
static pawl_run_options at_bandwidth(uint64_t bytes_per_s) {
    return (pawl_run_options){.struct_size = sizeof(pawl_run_options),
                              .bandwidth_bytes_per_s = bytes_per_s,
                              .budget_bytes = MIN_BUDGET,
                              .in_flight_bytes = (size_t)1 << 20};
}

static void test_they_may_change_when_save_returns(void **state) {
    fixture *f = *state;
    const pawl_run_options options = slow(0);
    open_run(f, &options);
    for (int64_t step = 1; step <= 3; step++) {
        save(f, step);
        change_copied(f);
        assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
        assert_restored(f, step);
    }
}

static void test_a_full_budget_makes_save_wait_for_writes(void **state) {
    fixture *f = *state;
    pawl_save_stats stats = {.struct_size = sizeof stats};
    const pawl_run_options options = at_bandwidth((uint64_t)2 << 20);
    open_run(f, &options);
    save(f, 1);
    change_copied(f);
    assert_ok(pawl_wait(f->run, 0, &stats, f->err), f->err);
    assert_true(stats.fence_wait_s > 0);
    assert_int_equal(stats.budget_bytes, MIN_BUDGET);
    assert_true(stats.budget_wanted_bytes > MIN_BUDGET);
    assert_restored(f, 1);
}

/* Either fits into the deadline, both together do not. */
static void test_waiting_for_the_save_before_takes_from_the_deadline(void **state) {
    fixture *f = *state;
    const pawl_save_options options = {.struct_size = sizeof options, .deadline_s = 9};
    const pawl_run_options run = at_bandwidth((uint64_t)2 << 20);
    open_run(f, &run);
    assert_ok(pawl_state_remove(f->state, "model/averaged", f->err), f->err);
    assert_ok(pawl_save(f->run, f->state, 1, NULL, f->err), f->err); /* 12 MiB: 6 s */
    assert_ok(pawl_fence(f->run, 0, f->err), f->err);                /* after about 2 s */
    add(f, "model/averaged", f->averaged, LARGE, true);
    add(f, "model/further", f->kernel, LARGE, true); /* 16 of 24 MiB have to be written: 8 s */
    assert_fails(pawl_save(f->run, f->state, 2, &options, f->err), PAWL_ETIMEOUT, f->err);
    assert_ok(pawl_cancel(f->run, 0, f->err), f->err);
}

/* The run's own deadline would be longer than this test may take. */
static void test_without_time_nothing_is_waited_for(void **state) {
    fixture *f = *state;
    const pawl_save_options now = {.struct_size = sizeof now, .deadline_s = -1};
    pawl_run_options run = at_bandwidth(1000); /* the storage as good as hangs */
    run.deadline_s = 3600;
    open_run(f, &run);
    assert_fails(pawl_save(f->run, f->state, 1, &now, f->err), PAWL_ETIMEOUT, f->err);
    assert_non_null(strstr(pawl_error_text(f->err), "had no time to end"));
    assert_fails(pawl_wait(f->run, 0, NULL, f->err), PAWL_ECANCELED, f->err);
    assert_fails(pawl_save_final(f->run, f->state, 2, NULL, 0, f->err), PAWL_ETIMEOUT, f->err);
    assert_fails(pawl_wait(f->run, 0, NULL, f->err), PAWL_ECANCELED, f->err);
}

static void test_without_time_what_fits_is_copied(void **state) {
    fixture *f = *state;
    const pawl_save_options now = {.struct_size = sizeof now, .deadline_s = -1};
    const pawl_run_options run = slow(0);
    open_run(f, &run);
    fill(f->means, SMALL, 1);
    fill(f->averaged, LARGE, 2);
    fill(f->kernel, LARGE, 3);
    assert_ok(pawl_save(f->run, f->state, 1, &now, f->err), f->err);
    change_copied(f);
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
    assert_restored(f, 1);
}

static void test_checking_mode_does_not_take_the_change_for_a_fault(void **state) {
    fixture *f = *state;
    pawl_run_options options = slow(0);
    options.checking = 1;
    open_run(f, &options);
    save(f, 1);
    change_copied(f);
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
    assert_restored(f, 1);
}

static void test_they_may_be_moved_removed_and_restored_meanwhile(void **state) {
    fixture *f = *state;
    const int64_t shape[] = {(int64_t)SMALL};
    static uint32_t elsewhere[SMALL];
    const pawl_tensor moved = {.struct_size = sizeof moved,
                               .name = "model/means",
                               .dtype = PAWL_U32,
                               .ndim = 1,
                               .shape = shape,
                               .data = elsewhere,
                               .copied = 1};
    const pawl_run_options options = at_bandwidth((uint64_t)4 << 20);
    open_run(f, &options);
    save(f, 1);
    assert_ok(pawl_state_update_tensors(f->state, &moved, 1, f->err), f->err);
    assert_ok(pawl_state_remove(f->state, "model/averaged", f->err), f->err);
    assert_fails(pawl_state_remove(f->state, "model/kernel", f->err), PAWL_EBUSY, f->err);
    memset(f->averaged, 0xbb, LARGE * sizeof(uint32_t));
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
    add(f, "model/averaged", f->averaged, LARGE, true);
    assert_ok(pawl_restore(f->run, f->state, NULL, NULL, f->err), f->err);
    assert_numbers(elsewhere, SMALL, 1);
    assert_numbers(f->averaged, LARGE, 2);
}

static void test_a_save_of_nothing_else_is_one(void **state) {
    fixture *f = *state;
    const pawl_run_options options = slow(0);
    open_run(f, &options);
    assert_ok(pawl_state_remove(f->state, "model/kernel", f->err), f->err);
    assert_ok(pawl_state_remove(f->state, "train/step", f->err), f->err);
    save(f, 1);
    change_copied(f);
    assert_ok(pawl_fence(f->run, 30, f->err), f->err); /* of a save that lets go by itself */
    assert_int_equal(pawl_fenced(f->run), 1);
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
    assert_ok(pawl_restore(f->run, f->state, NULL, NULL, f->err), f->err);
    assert_numbers(f->averaged, LARGE, 2);
}

static void assert_numbers_saved(fixture *f, int64_t step, const char *name, uint32_t first) {
    static uint32_t found[SMALL];
    pawl_checkpoint *checkpoint = NULL;
    const int64_t origin[] = {0};
    const int64_t extent[] = {(int64_t)SMALL};
    const pawl_open_options options = {.struct_size = sizeof options, .step = &step};
    assert_ok(pawl_checkpoint_open(f->path, &options, &checkpoint, f->err), f->err);
    assert_ok(pawl_checkpoint_read(checkpoint, name, origin, extent, found, sizeof found, f->err),
              f->err);
    assert_numbers(found, SMALL, first);
    pawl_checkpoint_close(checkpoint);
}

static int when_told(void *context) {
    return atomic_load((atomic_int *)context);
}

/* A tensor whose provider has it when `there` is set. */
static void add_late(fixture *f, atomic_int *there) {
    static pawl_shadow shadow;
    static pawl_memory memory;
    const int64_t shape[] = {(int64_t)SMALL};
    shadow = (pawl_shadow){
        .struct_size = sizeof shadow, .name = "GPU 0", .ready = when_told, .context = there};
    memory.struct_size = sizeof memory;
    assert_ok(pawl_shadow_memory(&shadow, &memory, f->err), f->err);
    const pawl_tensor late = {.struct_size = sizeof late,
                              .name = "model/late",
                              .dtype = PAWL_U32,
                              .ndim = 1,
                              .shape = shape,
                              .data = f->means,
                              .memory = &memory,
                              .copied = 1};
    assert_ok(pawl_state_add_tensor(f->state, &late, f->err), f->err);
}

static void test_s08_a_copy_that_does_not_end_gives_the_save_up(void **state) {
    fixture *f = *state;
    static const char late[] = "copying tensors: the copies of step 2 took longer than";
    static atomic_int there;
    const pawl_save_options options = {.struct_size = sizeof options, .deadline_s = 2};
    const pawl_run_options run = slow(0);
    open_run(f, &run);
    save(f, 1);
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
    add_late(f, &there);
    assert_fails(pawl_save(f->run, f->state, 2, &options, f->err), PAWL_ETIMEOUT, f->err);
    assert_non_null(strstr(pawl_error_text(f->err), late));
    assert_non_null(strstr(pawl_error_text(f->err), "model/late"));
    assert_non_null(strstr(pawl_error_text(f->err), "step 1"));
    assert_fails(pawl_state_remove(f->state, "model/late", f->err), PAWL_EBUSY, f->err);
    atomic_store(&there, 1);
    assert_fails(pawl_wait(f->run, 0, NULL, f->err), PAWL_ECANCELED, f->err);
    assert_ok(pawl_save(f->run, f->state, 3, NULL, f->err), f->err);
    change_copied(f);
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
    assert_numbers_saved(f, 3, "model/late", 1);
}

static void test_s08_memory_that_hangs_is_not_waited_for_until_the_deadline(void **state) {
    fixture *f = *state;
    static atomic_int there;
    pawl_run_options run = slow(0);
    run.hang_deadline_s = 3;
    run.deadline_s = 3600;
    open_run(f, &run);
    add_late(f, &there);
    assert_fails(pawl_save(f->run, f->state, 1, NULL, f->err), PAWL_EIO, f->err);
    assert_non_null(strstr(pawl_error_text(f->err), "the memory \"GPU 0\" hangs"));
    atomic_store(&there, 1);
    assert_ok(pawl_fence(f->run, 30, f->err), f->err);
    while (pawl_save(f->run, f->state, 2, NULL, f->err) == PAWL_EIO) { /* until it is given up */
        (void)usleep(1000);
    }
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
}

/* Without time to wait a provider gets a moment. */
static void test_without_time_a_provider_is_not_waited_for(void **state) {
    fixture *f = *state;
    static atomic_int there;
    const pawl_save_options now = {.struct_size = sizeof now, .deadline_s = -1};
    const pawl_run_options run = slow(0);
    open_run(f, &run);
    add_late(f, &there);
    assert_fails(pawl_save(f->run, f->state, 1, &now, f->err), PAWL_ETIMEOUT, f->err);
    assert_non_null(strstr(pawl_error_text(f->err), "had no time to end"));
    atomic_store(&there, 1);
    assert_fails(pawl_wait(f->run, 0, NULL, f->err), PAWL_ECANCELED, f->err);
}

/* ---- `interrupted`, which is asked meanwhile ---- */

typedef struct caller {
    fixture *of;
    int asked;
    pawl_status waited, closed, removed;
} caller;

/* Calls what it must not; last on a state that then forgets the save, which has been committed. */
static int calls_back(void *context) {
    caller *c = context;
    char manifest[192];
    (void)snprintf(manifest, sizeof manifest, "%s/step-00000001/manifest.json", c->of->path);
    if (c->of->run != NULL && c->asked++ == 0) {
        pawl_error *err = pawl_error_new();
        c->waited = pawl_wait(c->of->run, 0, NULL, err);
        assert_non_null(strstr(pawl_error_text(err), "the run's own `interrupted` callback"));
        c->closed = pawl_run_close(c->of->run, 0, err);
        for (int i = 0; i < 3000 && access(manifest, F_OK) != 0; i++) {
            (void)usleep(10000);
        }
        (void)usleep(100000);
        c->removed = pawl_state_remove(c->of->state, "model/means", err);
        pawl_error_free(err);
    }
    return 0;
}

static void test_interrupted_makes_no_calls_on_the_run(void **state) {
    fixture *f = *state;
    caller c = {.of = f};
    pawl_run_options run = at_bandwidth((uint64_t)2 << 20);
    run.interrupted = calls_back;
    run.interrupted_context = &c;
    open_run(f, &run);
    assert_ok(pawl_state_remove(f->state, "model/kernel", f->err), f->err);
    save(f, 1);
    assert_true(c.asked > 0);
    assert_int_equal(c.waited, PAWL_EUSAGE);
    assert_int_equal(c.closed, PAWL_EUSAGE);
    assert_int_equal(c.removed, PAWL_OK);
    change_copied(f);
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
    assert_numbers_saved(f, 1, "model/means", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_they_may_change_when_save_returns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_budget_makes_save_wait_for_writes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_waiting_for_the_save_before_takes_from_the_deadline,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_time_nothing_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_time_what_fits_is_copied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_checking_mode_does_not_take_the_change_for_a_fault,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_they_may_be_moved_removed_and_restored_meanwhile,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_save_of_nothing_else_is_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_s08_memory_that_hangs_is_not_waited_for_until_the_deadline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_s08_a_copy_that_does_not_end_gives_the_save_up, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_without_time_a_provider_is_not_waited_for, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_interrupted_makes_no_calls_on_the_run, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
