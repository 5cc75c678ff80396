/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that open a run together, or learn together why they cannot. */
#include "unit/run/joining.h"

#include <limits.h>
#include <unistd.h>

static void assert_all_open(joining *j) {
    for (int r = 0; r < j->world_size; r++) {
        assert_ok(j->status[r], &j->err[r]);
        assert_int_equal(j->runs[r]->ranks->rank, r);
        assert_string_equal(j->runs[r]->ranks->attempt, j->runs[0]->ranks->attempt);
        assert_int_equal(strlen(j->runs[r]->ranks->attempt), 12);
        assert_true((j->runs[r]->owner != NULL) == (r == 0));
    }
}

static void test_ranks_open_a_run_by_their_callbacks(void **state) {
    (void)state;
    joining j;
    joining_init(&j, 4, true);
    joining_open(&j);
    assert_all_open(&j);
    assert_int_equal(count_names(j.disk, "", "meet-"), 0);
    joining_end(&j);
}

static void test_ranks_open_a_run_through_files(void **state) {
    (void)state;
    joining j;
    joining_init(&j, 4, false);
    joining_open(&j);
    assert_all_open(&j);
    joining_close(&j);
    assert_int_equal(count_names(j.disk, "", "meet-"),
                     1); /* the last answer: someone may look for it */
    joining_end(&j);
}

static void test_p05_ranks_that_have_no_such_directory_are_named_on_all(void **state) {
    (void)state;
    joining j;
    joining_init(&j, 5, true);
    j.options.group_deadline_s = 1;
    j.absent[1] = j.absent[3] = j.absent[4] = true;
    joining_open(&j);
    assert_all_fail(
        &j, PAWL_ENOTFOUND,
        "open run: ranks 1, 3 and 4 on host {h} cannot see the directory of rank 0 on host {h}");
    assert_same_everywhere(&j);
    joining_end(&j);
}

static void test_p06_ranks_with_another_directory_are_named_on_all(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    joining j;
    joining_init(&j, 4, true);
    j.options.group_deadline_s = 1;
    assert_ok(store_chosen(platform_system(), &j.others[3], &err), &err);
    joining_open(&j);
    assert_all_fail(&j, PAWL_ENOTFOUND,
                    "open run: rank 3 on host {h} cannot see what rank 0 on host {h} wrote");
    assert_same_everywhere(&j);
    joining_end(&j);
}

static void test_s11_a_rank_that_does_not_come_is_named_on_all(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        joining j;
        joining_init(&j, 4, connected);
        j.options.group_deadline_s = 1;
        j.stays_away[1] = j.stays_away[2] = true;
        joining_open(&j);
        assert_all_fail(&j, PAWL_EPEER, "open run: ranks 1 and 2 did not come");
        assert_same_everywhere(&j);
        joining_end(&j);
    }
}

static void test_s11_rank_0_that_does_not_come_is_named_on_all(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        joining j;
        joining_init(&j, 3, connected);
        j.options.group_deadline_s = 1;
        j.stays_away[0] = true;
        joining_open(&j);
        assert_all_fail(&j, PAWL_EPEER, "open run: rank 0 did not answer");
        joining_end(&j);
    }
}

static void test_what_rank_0_cannot_open_no_rank_can(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        struct pawl_error err = ERROR_INIT;
        joining j;
        pawl_run *other;
        joining_init(&j, 3, connected);
        assert_ok(run_open(joining_view_of(&j, 0), NULL, platform_system(), &other, &err), &err);
        j.options.takeover_wait_s = -1;
        joining_open(&j);
        assert_all_fail(
            &j, PAWL_EBUSY,
            "rank 0 (host {h}): open run: another handle of this process writes to this run");
        assert_same_everywhere(&j);
        assert_ok(run_close(other, 0, &err), &err);
        joining_end(&j);
    }
}

static void test_options_that_one_rank_cannot_mean_are_told_to_all(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        joining j;
        joining_init(&j, 3, connected);
        j.budget[1] = 1;
        joining_open(&j);
        assert_all_fail(&j, PAWL_EUSAGE,
                        "rank 1 (host {h}): open run: the option budget_bytes has "
                        "an invalid value");
        assert_same_everywhere(&j);
        joining_end(&j);
    }
}

static void test_p05_a_rank_that_waits_in_vain_names_its_working_directory(void **state) {
    (void)state;
    char cwd[PATH_MAX];
    char next[PATH_MAX + 200];
    joining j;
    joining_init(&j, 2, false);
    j.options.group_deadline_s = 1;
    j.given = "runs/a";
    j.absent[1] = true;
    joining_open(&j);
    assert_non_null(getcwd(cwd, sizeof cwd));
    (void)snprintf(next, sizeof next,
                   "see whether rank 0 runs, and whether its directory is on storage that this "
                   "host shares; the path is relative to the working directory %.200s: give all "
                   "ranks the absolute path",
                   cwd);
    assert_fails(j.status[1], PAWL_ENOTFOUND, &j.err[1]);
    assert_string_equal(j.err[1].next, next);
    joining_end(&j);
}

static void test_ranks_of_jobs_of_different_size_are_told_apart(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        joining j;
        joining_init(&j, 3, connected);
        j.sizes[2] = 4;
        joining_open(&j);
        assert_all_fail(&j, PAWL_EMISMATCH, "open run: the ranks do not agree how many they are");
        assert_same_everywhere(&j);
        joining_end(&j);
    }
}

static void test_ranks_of_different_launches_are_told_apart(void **state) {
    (void)state;
    joining j;
    joining_init(&j, 3, true);
    j.launch[0] = j.launch[1] = "job.1";
    j.launch[2] = "job.0";
    joining_open(&j);
    assert_all_fail(&j, PAWL_EMISMATCH, "open run: the ranks are of different starts of a job");
    assert_same_everywhere(&j);
    joining_end(&j);
}

static void test_two_processes_of_one_number_are_told_apart(void **state) {
    (void)state;
    joining j;
    joining_init(&j, 3, true);
    j.ranks[2] = 1;
    joining_open(&j);
    assert_all_fail(&j, PAWL_EMISMATCH,
                    "open run: a process's rank is not the one that the group gives it");
    assert_same_everywhere(&j);
    joining_end(&j);
}

/* What an earlier job with the same launch left is not taken for this one's. */
static void test_files_of_an_earlier_start_do_not_confuse(void **state) {
    (void)state;
    joining j;
    joining_init(&j, 4, false);
    j.options.group_deadline_s = 1;
    j.stays_away[1] = true;
    joining_open(&j);
    assert_int_equal(j.status[2], PAWL_EPEER);
    assert_true(count_names(j.disk, "", "meet-") >= 2);
    j.stays_away[1] = false;
    j.options.group_deadline_s = 20;
    joining_open(&j);
    assert_all_open(&j);
    joining_end(&j);
}

#define OPENS 20

/* Each goes on as fast as it can: who has closed the run comes to open it again while others still
 * look for the last answer of before. */
static void open_and_close_again(void *context, int r) {
    joining *j = context;
    for (int i = 0; i < OPENS && (i == 0 || j->status[r] == PAWL_OK); i++) {
        joining_open_one(j, r);
        if (j->status[r] == PAWL_OK) {
            j->status[r] = run_close(j->runs[r], 0, &j->err[r]);
            j->runs[r] = NULL;
        }
    }
}

static void test_one_start_opens_a_run_any_number_of_times(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        joining j;
        joining_init(&j, 4, connected);
        j.options.group_deadline_s = 4;
        local_group_run(4, open_and_close_again, &j);
        for (int r = 0; r < 4; r++) {
            assert_ok(j.status[r], &j.err[r]);
        }
        assert_true(count_names(j.disk, "", "meet-") <= 4); /* of the last opening only */
        joining_end(&j);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_open_a_run_by_their_callbacks),
        cmocka_unit_test(test_ranks_open_a_run_through_files),
        cmocka_unit_test(test_p05_ranks_that_have_no_such_directory_are_named_on_all),
        cmocka_unit_test(test_p06_ranks_with_another_directory_are_named_on_all),
        cmocka_unit_test(test_s11_a_rank_that_does_not_come_is_named_on_all),
        cmocka_unit_test(test_s11_rank_0_that_does_not_come_is_named_on_all),
        cmocka_unit_test(test_what_rank_0_cannot_open_no_rank_can),
        cmocka_unit_test(test_options_that_one_rank_cannot_mean_are_told_to_all),
        cmocka_unit_test(test_p05_a_rank_that_waits_in_vain_names_its_working_directory),
        cmocka_unit_test(test_ranks_of_jobs_of_different_size_are_told_apart),
        cmocka_unit_test(test_ranks_of_different_launches_are_told_apart),
        cmocka_unit_test(test_two_processes_of_one_number_are_told_apart),
        cmocka_unit_test(test_files_of_an_earlier_start_do_not_confuse),
        cmocka_unit_test(test_one_start_opens_a_run_any_number_of_times),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
