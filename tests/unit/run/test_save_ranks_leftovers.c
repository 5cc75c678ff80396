/* SPDX-License-Identifier: Apache-2.0 */
/* What saves across ranks leave behind, and when it goes (G4). */
#include "job.h"

#include <errno.h>

static bool three_votes(job *j) {
    return count_names(j->disk, "step-00000020", "vote-") == 3;
}

static void test_what_ranks_ahead_have_written_is_spared(void **state) {
    job *j = *state;
    struct pawl_error err = ERROR_INIT;
    job_open(j, (pawl_run_options){.group_deadline_s = 20});
    job_save_ok(j, 10);
    for (int r = 1; r < JOB_RANKS; r++) {
        job_fill(&j->ranks[r], 20);
        assert_ok(job_save_rank(&j->ranks[r], 20), &j->ranks[r].err);
    }
    job_until(three_votes, j);
    assert_ok(run_gc(j->ranks[0].run, false, NULL, NULL, &err), &err);
    job_fill(&j->ranks[0], 20);
    assert_ok(job_save_rank(&j->ranks[0], 20), &j->ranks[0].err);
    job_wait_ok(j);
    job_check_rows(j, 20);
}

/* By rank 2, whose disk stays full. Rank 3 comes to write when the save has failed already, and its
 * files are removed. */
static void leave_data_of_step_20(job *j) {
    job_fail(
        j, 2,
        (store_fault){.op = STORE_OP_RESERVE, .nth = 1, .system_errno = ENOSPC, .forever = true});
    job_fail(j, 3, (store_fault){.op = STORE_OP_SPACE, .nth = 1, .hang = true});
    job_save(j, 20);
    job_rank *first = &j->ranks[0];
    assert_fails(run_wait(first->run, 30, NULL, &first->err), PAWL_ENOSPACE, &first->err);
    job_release(j, 3);
    job_wait(j);
    assert_true(count_names(j->disk, "step-00000020", "data-") > 0);
}

static void test_what_failed_saves_left_goes_before_the_next_one(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    job_save_ok(j, 10);
    leave_data_of_step_20(j);
    job_save(j, 30);
    job_wait(j);
    job_rank *failed = &j->ranks[2];
    assert_fails(failed->status, PAWL_ENOSPACE, &failed->err);
    assert_false(is_there(j->disk, "step-00000020"));
    job_fail(j, 2, (store_fault){0});
    job_save_ok(j, 40);
    job_check_rows(j, 40);
}

/* On the save that is in flight. */
static bool others_have_voted(job *j) {
    char prefix[80];
    pawl_run *run = j->ranks[1].run;
    snprintf(prefix, sizeof prefix, "vote-%.12s-%u-", run->ranks->attempt,
             (unsigned)run->current_number);
    return count_names(j->disk, "step-00000020", prefix) == JOB_RANKS - 1;
}

/* The same step, which other ranks may already be saving again. */
static void test_what_a_failed_save_left_goes_and_the_directory_stays(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    leave_data_of_step_20(j);
    job_fail(j, 2, (store_fault){0});
    job_fail(j, 0, (store_fault){.op = STORE_OP_SYNC_DIR, .nth = 1, .hang = true});
    job_save(j, 20);
    job_until(others_have_voted, j);
    job_release(j, 0);
    job_wait_ok(j);
    job_check_rows(j, 20);
    assert_int_equal(count_names(j->disk, "step-00000020", "data-"), JOB_RANKS);
}

static void note_reason(void *context, const char *path, uint64_t bytes, const char *reason) {
    buffer *list = context;
    struct pawl_error err = ERROR_INIT;
    (void)bytes;
    const char *name = strncmp(path, "step-", 5) == 0 ? path : "RUN";
    assert_ok(buffer_printf(list, &err, "%s: %s\n", name, reason), &err);
}

static void put(job *j, const char *path) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_replace(j->disk, path, "x", 1, &err), &err);
}

static void test_gc_shows_what_ranks_of_another_job_left(void **state) {
    job *j = *state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer list = {0};
    job_open(j, (pawl_run_options){0});
    job_save_ok(j, 10);
    put(j, "outcome-0123456789ab-16");
    put(j, "structure-0123456789ab-00000000-1");
    put(j, "meet-0123456789ab-1-r00002");
    put(j, "step-00000010/vote-0123456789ab-16-r00002");
    put(j, "step-00000010/my-notes");
    put(j, "outcome-mine");
    assert_ok(run_gc(j->ranks[0].run, false, note_reason, &list, &err), &err);
    assert_says((const char *)list.data, "RUN: how a save ended, which every rank knows\n");
    assert_says((const char *)list.data, "RUN: what the ranks of an earlier job agreed on\n");
    assert_says((const char *)list.data, "RUN: of a meeting of ranks that is over\n");
    assert_says((const char *)list.data, "step-00000010/vote-0123456789ab-16-r00002: a vote on a "
                                         "save that has ended\n");
    assert_true(is_there(j->disk, "outcome-mine"));
    assert_true(is_there(j->disk, "step-00000010/my-notes"));
    job_save_ok(j, 20);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, job_set_up, job_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_what_ranks_ahead_have_written_is_spared),
        TEST(test_what_failed_saves_left_goes_before_the_next_one),
        TEST(test_what_a_failed_save_left_goes_and_the_directory_stays),
        TEST(test_gc_shows_what_ranks_of_another_job_left),
    };
    return cmocka_run_group_tests_name("what saves of many ranks leave", tests, NULL, NULL);
}
