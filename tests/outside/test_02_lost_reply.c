/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reply is lost: the rename of a manifest is done, and answers an error. Where the mount keeps
 * for a while that a name does not exist, the look that follows does not show the manifest. The
 * step is whole all the same, and whoever saved it is told that it is committed, or that it may be.
 */
#include "lag/lag.h"
#include "lag/trainer.h"
#include "lib/test.h"

#include <errno.h>
#include <stdio.h>

#define STORY "negative names kept %g s, rename done and answered %d, step saved %s"

static void lose_reply(lag_fs *fs, double negative_s, int error, bool again) {
    char run[1200], truth[1200];
    snprintf(run, sizeof run, "%s/run-%d-%d", lag_path(fs), error, again);
    snprintf(truth, sizeof truth, "%s/run-%d-%d", lag_behind(fs), error, again);
    const char *how = again ? "again" : "anew";
    trainer_saves(run, 1, 1);
    if (again) {
        trainer_saves(run, 2, 1);
    }
    lag_rule(fs, &(lag_spoil){.operation = "rename",
                              .text = "/manifest.json",
                              .effect = "lose",
                              .error = error,
                              .count = 1});
    trainer_told told = trainer_save(run, 2, 2, NULL);
    assert_int_equal(lag_hits(fs), 1);
    lag_clear(fs);
    trainer_expects(truth, 2, 2, STORY, negative_s, error, how);
    if (told.status != PAWL_OK && !trainer_leaves_open(&told)) {
        fail_msg(STORY ": the error does not say that step 2 may be committed:\n%s", negative_s,
                 error, how, told.text);
    }
    trainer_saves(run, 3, 3); /* another job, which removes what failed saves left */
    for (int64_t step = 1; step <= 3; step++) {
        trainer_expects(truth, step, step, STORY ", then step 3 saved", negative_s, error, how);
    }
}

static void try_all(void **state, double negative_s) {
    lag_fs *fs = *state = lag_start(&(lag_options){.negative_s = negative_s});
    const int errors[] = {EIO, ETIMEDOUT};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        lose_reply(fs, negative_s, errors[i], false);
        lose_reply(fs, negative_s, errors[i], true);
    }
}

static void test_where_looks_are_the_truth(void **state) {
    try_all(state, 0);
}

static void test_where_absence_is_kept_for_a_second(void **state) {
    try_all(state, 1);
}

static void test_where_absence_is_kept_for_a_minute(void **state) {
    try_all(state, 60);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_where_looks_are_the_truth, lag_tear_down),
        cmocka_unit_test_teardown(test_where_absence_is_kept_for_a_second, lag_tear_down),
        cmocka_unit_test_teardown(test_where_absence_is_kept_for_a_minute, lag_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
