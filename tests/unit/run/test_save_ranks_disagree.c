/* SPDX-License-Identifier: Apache-2.0 */
/* S12: ranks that do not save the same, and how they find together again. */
#include "job.h"

static void save_step(job_rank *r, const void *with) {
    int64_t step = *(const int64_t *)with;
    job_fill(r, step);
    if (job_save_rank(r, step) == PAWL_OK) {
        r->status = run_wait(r->run, 30, &r->stats, &r->err);
    }
}

/* Rank `odd` has called pawl_save once more, or less, than the others. */
static void save_until_together(job *j, int odd, bool more) {
    job_open(j, (pawl_run_options){0});
    job_save_ok(j, 10);
    for (int r = 0; r < JOB_RANKS; r++) {
        if ((r == odd) == more) {
            assert_ok(job_save_rank(&j->ranks[r], 15), &j->ranks[r].err);
        }
    }
    int64_t step = 20;
    while (step < 70 && !job_committed(j, step)) {
        step += 10;
        job_all(j, save_step, &step);
    }
    assert_true(job_committed(j, step));
    job_save_ok(j, 100);
    job_check_rows(j, 100);
}

static void test_s12_a_rank_that_saved_once_more_finds_back(void **state) {
    save_until_together(*state, 2, true);
}

static void test_s12_rank_0_that_saved_once_more_is_found_back_to(void **state) {
    save_until_together(*state, 0, true);
}

static void test_s12_a_rank_that_saved_once_less_finds_back(void **state) {
    save_until_together(*state, 2, false);
}

static void test_s12_a_rank_that_saves_another_step_is_named(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){.group_deadline_s = 60});
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_ok(job_save_rank(&j->ranks[r], r == 2 ? 11 : 10), &j->ranks[r].err);
    }
    job_wait(j);
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_fails(j->ranks[r].status, PAWL_EMISMATCH, &j->ranks[r].err);
        assert_says(j->ranks[r].err.attempt, r == 2
                                                 ? "rank 0 (host a, pid 1000) saves another one"
                                                 : "rank 2 (host a, pid 1002) saves another one");
        assert_string_equal(j->ranks[r].err.expected,
                            r == 2 ? "step 11, as this rank (rank 2)" : "step 10, as rank 0");
        assert_string_equal(j->ranks[r].err.found, r == 2 ? "step 10" : "step 11");
    }
    job_save_ok(j, 20);
    job_close(j);
    assert_false(is_there(j->disk, "step-00000010"));
    assert_false(is_there(j->disk, "step-00000011"));
}

static void test_s12_ranks_that_hold_one_box_twice_are_named(void **state) {
    job *j = *state;
    struct pawl_error err = ERROR_INIT;
    job_open(j, (pawl_run_options){0});
    static const int64_t shape[] = {4};
    for (int r = 0; r < 2; r++) {
        const pawl_tensor twice = {.struct_size = sizeof twice,
                                   .name = "model/twice",
                                   .dtype = PAWL_F32,
                                   .ndim = 1,
                                   .shape = shape,
                                   .data = j->ranks[r].bias};
        assert_ok(state_add_tensor(j->ranks[r].state, &twice, &err), &err);
    }
    job_save(j, 10);
    job_wait(j);
    job_all_say(j, PAWL_EMISMATCH, "saving step 10: ");
    assert_false(job_committed(j, 10));
    for (int r = 0; r < 2; r++) {
        assert_ok(state_remove(j->ranks[r].state, "model/twice", &err), &err);
    }
    job_save_ok(j, 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, job_set_up, job_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s12_a_rank_that_saved_once_more_finds_back),
        TEST(test_s12_rank_0_that_saved_once_more_is_found_back_to),
        TEST(test_s12_a_rank_that_saved_once_less_finds_back),
        TEST(test_s12_a_rank_that_saves_another_step_is_named),
        TEST(test_s12_ranks_that_hold_one_box_twice_are_named),
    };
    return cmocka_run_group_tests_name("ranks that disagree", tests, NULL, NULL);
}
