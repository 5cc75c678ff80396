/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas in providers' memory: compared across ranks, and what becomes of copies that fail or
 * hang. */
#include "job.h"

#include "lib/device.h"

#define SOON_S 0.1

static device *devices[JOB_RANKS];

static int set_up(void **state) {
    static const int64_t columns[] = {JOB_COLUMNS};
    struct pawl_error err = ERROR_INIT;
    job_set_up(state);
    job *j = *state;
    for (int r = 0; r < JOB_RANKS; r++) {
        job_rank *k = &j->ranks[r];
        devices[r] = device_new(&(device_plan){.seed = (uint64_t)r, .pieces = 3, .idle = 20});
        const pawl_tensor bias = {.struct_size = sizeof bias,
                                  .name = "model/bias",
                                  .dtype = PAWL_F32,
                                  .ndim = 1,
                                  .shape = columns,
                                  .data = device_hold(devices[r], k->bias, sizeof k->bias),
                                  .memory = device_memory(devices[r]),
                                  .replicated = 1};
        assert_ok(state_remove(k->state, "model/bias", &err), &err);
        assert_ok(state_add_tensor(k->state, &bias, &err), &err);
    }
    return 0;
}

static int tear_down(void **state) {
    for (int r = 0; r < JOB_RANKS; r++) {
        device_release(devices[r]);
    }
    job_tear_down(state);
    for (int r = 0; r < JOB_RANKS; r++) {
        device_free(devices[r]);
    }
    return 0;
}

static void test_replicas_on_devices_are_compared_and_saved_once(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    for (int64_t step = 10; step <= 30; step += 10) {
        job_save_ok(j, step);
        job_check_rows(j, step);
    }
}

static void test_s12_a_replica_on_a_device_that_differs_is_named(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    for (int r = 0; r < JOB_RANKS; r++) {
        job_fill(&j->ranks[r], 10);
        j->ranks[r].bias[5] += r == 2 ? 1 : 0;
        assert_ok(job_save_rank(&j->ranks[r], 10), &j->ranks[r].err);
    }
    job_wait(j);
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_fails(j->ranks[r].status, PAWL_EMISMATCH, &j->ranks[r].err);
        assert_string_equal(j->ranks[r].err.entry, "model/bias");
    }
    job_save_ok(j, 20);
    job_check_rows(j, 20);
}

static void test_a_replica_that_cannot_be_read_fails_the_save_on_all_ranks(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    device_change(devices[1], &(device_plan){.pieces = 2, .fail_nth = 1, .fail_late = true});
    job_save(j, 10);
    job_wait(j);
    job_all_say(j, PAWL_EIO, "the bus is on fire");
    job_save_ok(j, 20);
    job_check_rows(j, 20);
}

/* The first that is read of a rank without a part of its own to write is the replica. The storage
 * does not answer either: the fence must wait for the one and not for the other. */
static void test_s08_a_fence_does_not_end_before_replicas_are_read(void **state) {
    job *j = *state;
    struct pawl_error err = ERROR_INIT;
    job_open(j, (pawl_run_options){0});
    device_change(devices[3], &(device_plan){.pieces = 2, .hang_nth = 1});
    job_fail(j, 3, (store_fault){.op = STORE_OP_OPEN, .nth = 1, .hang = true});
    job_save(j, 10);
    while (!device_hangs(devices[3])) {
        (void)usleep(1000);
    }
    assert_fails(run_fence(j->ranks[3].run, SOON_S, &err), PAWL_ETIMEOUT, &err);
    assert_string_equal(err.entry, "model/bias");
    assert_says(err.found, "copies from the memory \"device\" have not ended");
    assert_fails(state_remove(j->ranks[3].state, "model/bias", &err), PAWL_EBUSY, &err);
    device_release(devices[3]);
    assert_ok(run_fence(j->ranks[3].run, 30, &err), &err);
    job_release(j, 3);
    job_wait_ok(j);
    job_check_rows(j, 10);
}

/* Each rank writes a slice, which begins somewhere in what the handle stands for. */
static void test_a_large_replica_on_devices_is_written_in_slices(void **state) {
    enum { ROWS = 6000, COLUMNS = 301 };
    static const int64_t shape[] = {ROWS, COLUMNS};
    job *j = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c = NULL;
    size_t bytes = (size_t)ROWS * COLUMNS * sizeof(float);
    float *large[JOB_RANKS];
    job_open(j, (pawl_run_options){0});
    for (int r = 0; r < JOB_RANKS; r++) {
        large[r] = mem_alloc(bytes);
        for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++) {
            large[r][i] = (float)i;
        }
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = "model/large",
                                    .dtype = PAWL_F32,
                                    .ndim = 2,
                                    .shape = shape,
                                    .data = device_hold(devices[r], large[r], bytes),
                                    .memory = device_memory(devices[r]),
                                    .replicated = 1};
        assert_ok(state_add_tensor(j->ranks[r].state, &tensor, &err), &err);
    }
    job_save_ok(j, 10);
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_true(device_counted(devices[r]).out_bytes > bytes / (2 * JOB_RANKS));
    }
    float *found = mem_alloc(bytes);
    const pawl_log none = {0};
    assert_ok(checkpoint_open(j->disk, false, 10, platform_system(), &none, &c, &err), &err);
    assert_ok(checkpoint_read(c, "model/large", NULL, NULL, found, bytes, &err), &err);
    assert_memory_equal(found, large[0], bytes);
    pawl_checkpoint_close(c);
    mem_free(found);
    for (int r = 0; r < JOB_RANKS; r++) {
        mem_free(large[r]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        T(test_replicas_on_devices_are_compared_and_saved_once),
        T(test_s12_a_replica_on_a_device_that_differs_is_named),
        T(test_a_replica_that_cannot_be_read_fails_the_save_on_all_ranks),
        T(test_s08_a_fence_does_not_end_before_replicas_are_read),
        T(test_a_large_replica_on_devices_is_written_in_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
