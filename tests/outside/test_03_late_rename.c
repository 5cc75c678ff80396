/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rename of a manifest answers an error and takes effect later, and the temporary file cannot
 * be removed at once either. Whenever that is, no committed checkpoint is lost or damaged, and no
 * damaged step appears; and a job that was told of a failure was told that the step may be
 * committed, if it came to be.
 */
#include "lag/lag.h"
#include "lag/trainer.h"
#include "lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ALWAYS 99 /* unlinks that fail */

typedef enum moment { DURING_THE_SAVE, AFTER_THE_SAVE, AFTER_THE_NEXT_JOB, MOMENTS } moment;

static const char *const moment_names[MOMENTS] = {"during the save", "after the save",
                                                  "after the next job"};

typedef struct history {
    lag_fs *fs;
    int error;   /* what the rename answers */
    int unlinks; /* of the temporary file, that answer the same */
    bool again;  /* step 2 was committed before */
    moment when; /* the rename takes effect */
    trainer_told told;
    char run[1200], truth[1200], story[200];
} history;

static void spoil(const history *h) {
    lag_rule(h->fs, &(lag_spoil){.operation = "rename",
                                 .text = "/manifest.json",
                                 .effect = "late",
                                 .error = h->error,
                                 .count = 1,
                                 .delay_ms = h->when == DURING_THE_SAVE ? 30 : LAG_HELD_MS});
    if (h->unlinks > 0) {
        lag_rule(h->fs, &(lag_spoil){.operation = "unlink",
                                     .text = "/manifest.json.",
                                     .effect = "fail",
                                     .error = h->error,
                                     .count = (uint64_t)h->unlinks});
    }
}

/* Step 2 holds what the save that answered strangely had, or what there was before it. */
static void look(const history *h, const char *when) {
    trainer_expects(h->truth, 1, 1, "%s, seen %s", h->story, when);
    int64_t version = trainer_version(h->truth, 2);
    if (version == 2) {
        if (h->told.status != PAWL_OK && !trainer_leaves_open(&h->told)) {
            fail_msg("%s, seen %s: step 2 is committed, and its saver was told otherwise:\n%s",
                     h->story, when, h->told.text);
        }
        return;
    }
    if (h->told.status == PAWL_OK || version != (h->again ? 1 : TRAINER_ABSENT)) {
        fail_msg("%s, seen %s: step 2 holds version %lld (0: absent, -1: damaged), its saver was "
                 "told '%s'",
                 h->story, when, (long long)version, pawl_status_name(h->told.status));
    }
}

static void run_history(history *h) {
    snprintf(h->story, sizeof h->story,
             "rename answers %d, done %s, %d unlinks fail, step saved %s", h->error,
             moment_names[h->when], h->unlinks, h->again ? "again" : "anew");
    trainer_saves(h->run, 1, 1);
    if (h->again) {
        trainer_saves(h->run, 2, 1);
    }
    spoil(h);
    h->told = trainer_save(h->run, 2, 2, NULL);
    assert_true(lag_hits(h->fs) > 0);
    if (h->when != AFTER_THE_NEXT_JOB) {
        lag_settle(h->fs);
    }
    look(h, "after the save");
    lag_clear(h->fs);
    trainer_saves(h->run, 3, 3);
    look(h, "after the next job");
    lag_settle(h->fs);
    look(h, "at the end");
    trainer_saves(h->run, 4, 4);
    look(h, "after one more job");
    trainer_expects(h->truth, 3, 3, "%s", h->story);
    trainer_expects(h->truth, 4, 4, "%s", h->story);
}

static void try_all(void **state, bool again, moment when) {
    static const int errors[] = {EIO, ETIMEDOUT, EINPROGRESS};
    static const int unlinks[] = {0, 1, 2, 3, ALWAYS};
    lag_fs *fs = *state = lag_start(NULL);
    for (size_t u = 0; u < sizeof unlinks / sizeof unlinks[0]; u++) {
        /* Over all tests each error meets each number of unlinks. */
        history h = {.fs = fs,
                     .error = errors[(u + when + again) % (sizeof errors / sizeof errors[0])],
                     .unlinks = unlinks[u],
                     .again = again,
                     .when = when};
        snprintf(h.run, sizeof h.run, "%s/run-%zu", lag_path(fs), u);
        snprintf(h.truth, sizeof h.truth, "%s/run-%zu", lag_behind(fs), u);
        run_history(&h);
    }
}

static void test_new_step_during_the_save(void **state) {
    try_all(state, false, DURING_THE_SAVE);
}

static void test_new_step_after_the_save(void **state) {
    try_all(state, false, AFTER_THE_SAVE);
}

static void test_new_step_after_the_next_job(void **state) {
    try_all(state, false, AFTER_THE_NEXT_JOB);
}

static void test_saved_again_during_the_save(void **state) {
    try_all(state, true, DURING_THE_SAVE);
}

static void test_saved_again_after_the_save(void **state) {
    try_all(state, true, AFTER_THE_SAVE);
}

static void test_saved_again_after_the_next_job(void **state) {
    try_all(state, true, AFTER_THE_NEXT_JOB);
}

/* A removal that failed takes effect when the step has been saved again, or would have been. */
static void test_a_removal_takes_effect_after_the_step_is_saved_again(void **state) {
    static const int errors[] = {EIO, ETIMEDOUT, EINTR};
    char run[1200], truth[1200], words[1300];
    lag_fs *fs = *state = lag_start(NULL);
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        snprintf(run, sizeof run, "%s/run-%zu", lag_path(fs), i);
        snprintf(truth, sizeof truth, "%s/run-%zu", lag_behind(fs), i);
        trainer_saves(run, 1, 1);
        trainer_saves(run, 2, 2);
        lag_rule(fs, &(lag_spoil){.operation = "unlink",
                                  .text = "/step-00000001/manifest.json",
                                  .effect = "late",
                                  .error = errors[i],
                                  .count = 1,
                                  .delay_ms = LAG_HELD_MS});
        snprintf(words, sizeof words, "rm %s@1", run);
        assert_int_not_equal(trainer_command(PAWL_COMMAND, words, NULL, 0), 0);
        assert_int_equal(lag_hits(fs), 1);
        lag_clear(fs);
        trainer_told told = trainer_save(run, 1, 3, NULL);
        lag_settle(fs);
        if (told.status == PAWL_OK) {
            trainer_expects(truth, 1, 3, "removed late (%d), told durable", errors[i]);
        } else if (told.status != PAWL_EBUSY) {
            fail_msg("removed late (%d), and saving the step again says:\n%s", errors[i],
                     told.text);
        }
        trainer_expects(truth, 2, 2, "removed late (%d)", errors[i]);
        assert_int_not_equal(trainer_version(truth, 1), TRAINER_DAMAGED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_new_step_during_the_save, lag_tear_down),
        cmocka_unit_test_teardown(test_new_step_after_the_save, lag_tear_down),
        cmocka_unit_test_teardown(test_new_step_after_the_next_job, lag_tear_down),
        cmocka_unit_test_teardown(test_saved_again_during_the_save, lag_tear_down),
        cmocka_unit_test_teardown(test_saved_again_after_the_save, lag_tear_down),
        cmocka_unit_test_teardown(test_saved_again_after_the_next_job, lag_tear_down),
        cmocka_unit_test_teardown(test_a_removal_takes_effect_after_the_step_is_saved_again,
                                  lag_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
