/* SPDX-License-Identifier: Apache-2.0 */
/* Replicas that pawl_save copies: what is compared across ranks is read before it returns, too. */
#include "job.h"

#define SMALL ((size_t)10000)  /* compared in each save */
#define LARGE ((size_t)400000) /* written in slices, by all ranks */

static float small[JOB_RANKS][SMALL], large[JOB_RANKS][LARGE];

static void add(job_rank *r, const char *name, const float *data, size_t count) {
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {(int64_t)count};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = (void *)(uintptr_t)data,
                                .replicated = 1,
                                .copied = 1};
    assert_ok(state_add_tensor(r->state, &tensor, &err), &err);
}

static void fill(float *numbers, size_t count, int64_t step) {
    for (size_t i = 0; i < count; i++) {
        numbers[i] = (float)step + (float)(i % 1000);
    }
}

static void save_and_change(job *j, int64_t step) {
    for (int r = 0; r < JOB_RANKS; r++) {
        job_fill(&j->ranks[r], step);
        fill(small[r], SMALL, step);
        fill(large[r], LARGE, step);
        assert_ok(job_save_rank(&j->ranks[r], step), &j->ranks[r].err);
        memset(small[r], 0x11 * (r + 1), sizeof small[r]);
        memset(large[r], 0x11 * (r + 1), sizeof large[r]);
    }
}

static void assert_saved(job *j, const char *name, size_t count, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    static float found[LARGE], wanted[LARGE];
    pawl_checkpoint *c;
    const pawl_log none = {0};
    fill(wanted, count, step);
    assert_ok(checkpoint_open(j->disk, false, step, platform_system(), &none, &c, &err), &err);
    assert_ok(checkpoint_read(c, name, NULL, NULL, found, count * sizeof found[0], &err), &err);
    assert_memory_equal(found, wanted, count * sizeof found[0]);
    pawl_checkpoint_close(c);
}

static void save_replicas(job *j, bool checking) {
    job_open(j, (pawl_run_options){.checking = checking});
    for (int r = 0; r < JOB_RANKS; r++) {
        add(&j->ranks[r], "model/small", small[r], SMALL);
        add(&j->ranks[r], "model/large", large[r], LARGE);
    }
    for (int64_t step = 10; step <= 30; step += 10) {
        save_and_change(j, step);
        job_wait_ok(j);
        assert_saved(j, "model/small", SMALL, step);
        assert_saved(j, "model/large", LARGE, step);
        job_check_rows(j, step);
    }
}

static void test_replicas_may_change_when_save_returns(void **state) {
    save_replicas(*state, false);
}

static void test_replicas_may_change_where_all_are_compared(void **state) {
    save_replicas(*state, true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, job_set_up, job_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_replicas_may_change_when_save_returns),
        TEST(test_replicas_may_change_where_all_are_compared),
    };
    return cmocka_run_group_tests_name("replicas that are copied", tests, NULL, NULL);
}
