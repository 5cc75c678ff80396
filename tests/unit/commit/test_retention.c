/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints each rule keeps (retention_choose), as a function of steps, times
 * and metrics. */
#include "lib/test.h"

#include "commit/commit.h"

#include <math.h>
#include <stdio.h>

#define HOUR_NS INT64_C(3600000000000)

/* Ten checkpoints, steps 100 to 1000, one an hour, with a metric that is best in the middle. */
static void make_steps(retention_step steps[10]) {
    static const double loss[10] = {9, 7, 5, 3, 1, 2, 4, 6, 8, 8};
    for (int i = 0; i < 10; i++) {
        steps[i] = (retention_step){.step = 100 * (i + 1),
                                    .unix_time_ns = (i + 1) * HOUR_NS,
                                    .has_metric = true,
                                    .metric = loss[i]};
    }
}

/* The kept steps, in hundreds, as a word: "8 9 10". */
static const char *kept(const pawl_retention *policy, retention_step steps[10], char out[64]) {
    size_t at = 0;
    retention_choose(policy, 1000, steps, 10);
    out[0] = '\0';
    for (int i = 0; i < 10; i++) {
        if (steps[i].keep) {
            at += (size_t)snprintf(out + at, 64 - at, "%s%d", at > 0 ? " " : "", i + 1);
        }
    }
    return out;
}

static void assert_kept(pawl_retention policy, const char *expected) {
    retention_step steps[10];
    char out[64];
    make_steps(steps);
    assert_string_equal(kept(&policy, steps, out), expected);
}

static void test_without_rules_everything_stays(void **state) {
    (void)state;
    assert_kept((pawl_retention){0}, "1 2 3 4 5 6 7 8 9 10");
}

static void test_keep_last_keeps_the_newest(void **state) {
    (void)state;
    assert_kept((pawl_retention){.keep_last = 3}, "8 9 10");
}

static void test_keep_every_steps_keeps_the_multiples_and_the_newest(void **state) {
    (void)state;
    assert_kept((pawl_retention){.keep_every_steps = 400}, "4 8 10");
}

static void test_keep_every_hours_keeps_one_of_each_stretch(void **state) {
    (void)state;
    assert_kept((pawl_retention){.keep_every_hours = 4}, "1 5 9 10");
}

static void test_a_clock_that_was_wrong_once_does_not_end_keep_every_hours(void **state) {
    (void)state;
    retention_step steps[10];
    char out[64];
    const pawl_retention policy = {.keep_every_hours = 4};
    make_steps(steps);
    steps[1].unix_time_ns = INT64_C(4000000000000000000); /* far in the future */
    assert_string_equal(kept(&policy, steps, out), "1 2 3 7 10");
}

static void test_keep_best_by_smallest(void **state) {
    (void)state;
    assert_kept((pawl_retention){.keep_best = 2, .metric = "loss"}, "5 6 10");
}

static void test_keep_best_by_largest_prefers_the_newer_of_equals(void **state) {
    (void)state;
    assert_kept((pawl_retention){.keep_best = 2, .metric = "loss", .metric_max = 1}, "1 10");
}

static void test_rules_add_up(void **state) {
    (void)state;
    assert_kept(
        (pawl_retention){.keep_last = 1, .keep_every_steps = 500, .keep_best = 1, .metric = "loss"},
        "5 10");
}

static void test_a_pinned_step_stays(void **state) {
    (void)state;
    retention_step steps[10];
    char out[64];
    const pawl_retention policy = {.keep_last = 1};
    make_steps(steps);
    steps[2].pinned = true;
    assert_string_equal(kept(&policy, steps, out), "3 10");
}

static void test_a_step_without_the_metric_is_never_best(void **state) {
    (void)state;
    retention_step steps[10];
    char out[64];
    const pawl_retention policy = {.keep_best = 1, .metric = "loss"};
    make_steps(steps);
    steps[4].has_metric = false;
    steps[5].metric = NAN;
    assert_string_equal(kept(&policy, steps, out), "4 10");
}

static void test_the_step_just_committed_stays_although_it_is_not_the_newest(void **state) {
    (void)state;
    retention_step steps[10];
    const pawl_retention policy = {.keep_last = 1};
    make_steps(steps);
    retention_choose(&policy, 300, steps, 10);
    assert_true(steps[2].keep);
    assert_true(steps[9].keep);
    assert_false(steps[3].keep);
}

static void test_the_newest_stays_although_another_was_just_committed(void **state) {
    (void)state;
    retention_step steps[10];
    const pawl_retention policy = {.keep_every_steps = 500};
    make_steps(steps);
    steps[9].step = 1001;
    retention_choose(&policy, 300, steps, 10);
    assert_true(steps[9].keep);
    assert_false(steps[8].keep);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_rules_everything_stays),
        cmocka_unit_test(test_keep_last_keeps_the_newest),
        cmocka_unit_test(test_keep_every_steps_keeps_the_multiples_and_the_newest),
        cmocka_unit_test(test_keep_every_hours_keeps_one_of_each_stretch),
        cmocka_unit_test(test_a_clock_that_was_wrong_once_does_not_end_keep_every_hours),
        cmocka_unit_test(test_keep_best_by_smallest),
        cmocka_unit_test(test_keep_best_by_largest_prefers_the_newer_of_equals),
        cmocka_unit_test(test_rules_add_up),
        cmocka_unit_test(test_a_pinned_step_stays),
        cmocka_unit_test(test_a_step_without_the_metric_is_never_best),
        cmocka_unit_test(test_the_newest_stays_although_another_was_just_committed),
        cmocka_unit_test(test_the_step_just_committed_stays_although_it_is_not_the_newest),
    };
    return cmocka_run_group_tests_name("retention", tests, NULL, NULL);
}
