/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A manifest is not seen: once, or by any look, with or without a listing that shows it, or because
 * the kernel remembers that there was none. That is no proof that the step was never committed, so
 * nobody removes its data: not a new owner, not `pawl gc`, not retention.
 */
#include "lag/lag.h"
#include "lag/trainer.h"
#include "lib/test.h"

#include <errno.h>
#include <stdio.h>

#define MOST_LOOKS 9  /* at one manifest, by a job that saves: it makes fewer */
#define GC_LOOKS   15 /* by `pawl gc` */

/* Which looks at a manifest do not show it: `count` of them, from the k-th on, counted from 0. A
 * look of a program may be three of the kernel's. Negative: all of them. */
typedef struct hidden {
    int k, count;
    bool listed; /* listings show it all the same */
} hidden;

static void hide(lag_fs *fs, const char *step, const hidden *h) {
    char text[100];
    snprintf(text, sizeof text, "%s/manifest.json", step);
    lag_rule(fs, &(lag_spoil){.operation = "look",
                              .text = text,
                              .effect = "fail",
                              .error = ENOENT,
                              .first = h->k < 0 ? 1 : (uint64_t)h->k + 1,
                              .count = h->k < 0 ? 0 : (uint64_t)h->count});
    if (!h->listed) {
        lag_rule(fs, &(lag_spoil){.operation = "name", .text = text, .effect = "miss"});
    }
}

/* A run of its own for each case; how it is called on the mount, and where it is behind. */
typedef struct place {
    char name[64], run[1200], truth[1200], story[160];
} place;

static void place_make(place *p, const lag_fs *fs, const hidden *h) {
    static int number;
    snprintf(p->name, sizeof p->name, "run-%d", ++number);
    snprintf(p->run, sizeof p->run, "%s/%s", lag_path(fs), p->name);
    snprintf(p->truth, sizeof p->truth, "%s/%s", lag_behind(fs), p->name);
    const char *listings = h->listed ? "show" : "miss";
    if (h->k < 0) {
        snprintf(p->story, sizeof p->story, "no look shows it, listings %s it", listings);
    } else {
        snprintf(p->story, sizeof p->story, "looks %d to %d do not show it, listings %s it", h->k,
                 h->k + h->count - 1, listings);
    }
}

/* A new owner saves step 4 while step `hidden` is hidden; `keep_last` 0 keeps everything. */
static void new_owner(lag_fs *fs, hidden h, int step_hidden, int64_t keep_last) {
    place p;
    char step[100];
    place_make(&p, fs, &h);
    for (int64_t i = 1; i <= 3; i++) {
        trainer_saves(p.run, i, i);
    }
    snprintf(step, sizeof step, "%s/step-%08d", p.name, step_hidden);
    hide(fs, step, &h);
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .retention =
            &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = keep_last}};
    trainer_told told = trainer_save(p.run, 4, 4, &options);
    assert_string_equal(told.text, "");
    lag_clear(fs);
    for (int64_t i = keep_last > 0 ? 5 - keep_last : 1; i <= 4; i++) {
        trainer_expects(p.truth, i, i, "step %d: %s", step_hidden, p.story);
    }
}

static void test_a_new_owner_removes_no_checkpoint(void **state) {
    lag_fs *fs = *state = lag_start(NULL);
    for (int k = 0; k < MOST_LOOKS; k++) {
        new_owner(fs, (hidden){.k = k, .count = 1, .listed = true}, 2, 0);
        new_owner(fs, (hidden){.k = k, .count = 3, .listed = true}, 2, 0);
    }
}

static void test_a_new_owner_whose_listings_miss_it_too(void **state) {
    lag_fs *fs = *state = lag_start(NULL);
    for (int k = 0; k < MOST_LOOKS; k++) {
        new_owner(fs, (hidden){.k = k, .count = 3}, 2, 0);
    }
}

static void test_a_new_owner_who_never_sees_it(void **state) {
    lag_fs *fs = *state = lag_start(NULL);
    new_owner(fs, (hidden){.k = -1, .listed = true}, 2, 0);
    new_owner(fs, (hidden){.k = -1}, 2, 0);
}

static void test_retention_keeps_what_it_must(void **state) {
    lag_fs *fs = *state = lag_start(NULL);
    for (int k = -1; k < MOST_LOOKS; k++) {
        new_owner(fs, (hidden){.k = k, .count = 3, .listed = k % 2 == 0}, 3, 2);
    }
}

static void run_gc(const char *run) {
    char words[1300], output[4096];
    snprintf(words, sizeof words, "gc '%s'", run);
    (void)trainer_command(PAWL_COMMAND, words, output, sizeof output);
}

/* `pawl gc` of an idle run with one checkpoint. */
static void collect(lag_fs *fs, hidden h) {
    place p;
    char step[100];
    place_make(&p, fs, &h);
    trainer_saves(p.run, 7, 7);
    snprintf(step, sizeof step, "%s/step-00000007", p.name);
    hide(fs, step, &h);
    run_gc(p.run);
    lag_clear(fs);
    trainer_expects(p.truth, 7, 7, "pawl gc: %s", p.story);
}

static void test_gc_keeps_what_it_must(void **state) {
    lag_fs *fs = *state = lag_start(NULL);
    for (int k = -1; k < GC_LOOKS; k++) {
        collect(fs, (hidden){.k = k, .count = 1, .listed = true});
        collect(fs, (hidden){.k = k, .count = 3, .listed = true});
    }
}

static void test_gc_when_listings_miss_it_too(void **state) {
    lag_fs *fs = *state = lag_start(NULL);
    for (int k = -1; k < GC_LOOKS; k++) {
        collect(fs, (hidden){.k = k, .count = 3});
    }
}

/* Host A saves step 2; just before it commits, host B looks, and remembers that there is no
 * manifest. Nothing fails here. */
static void look_too_early(lag_fs *fs, char run[1200], char truth[1200]) {
    char manifest[1300], aside[1300], words[1300], output[4096];
    snprintf(run, 1200, "%s/run", lag_path(fs));
    snprintf(truth, 1200, "%s/run", lag_behind(fs));
    snprintf(manifest, sizeof manifest, "%s/step-00000002/manifest.json", truth);
    snprintf(aside, sizeof aside, "%s/aside", lag_behind(fs));
    trainer_saves(truth, 1, 1);
    trainer_saves(truth, 2, 2);
    assert_int_equal(rename(manifest, aside), 0);
    snprintf(words, sizeof words, "ls '%s'", run);
    assert_int_equal(trainer_command(PAWL_COMMAND, words, output, sizeof output), 0);
    assert_int_equal(rename(aside, manifest), 0);
    trainer_expects(truth, 2, 2, "before anybody removes anything");
}

static void test_another_host_looked_too_early(void **state) {
    char run[1200], truth[1200];
    lag_fs *fs = *state = lag_start(&(lag_options){.negative_s = 60});
    look_too_early(fs, run, truth);
    trainer_saves(run, 3, 3); /* host B takes over */
    for (int64_t step = 1; step <= 3; step++) {
        trainer_expects(truth, step, step, "after host B took over");
    }
}

static void test_gc_of_another_host_that_looked_too_early(void **state) {
    char run[1200], truth[1200];
    lag_fs *fs = *state = lag_start(&(lag_options){.negative_s = 60});
    look_too_early(fs, run, truth);
    run_gc(run);
    for (int64_t step = 1; step <= 2; step++) {
        trainer_expects(truth, step, step, "after pawl gc of host B");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_a_new_owner_removes_no_checkpoint, lag_tear_down),
        cmocka_unit_test_teardown(test_a_new_owner_whose_listings_miss_it_too, lag_tear_down),
        cmocka_unit_test_teardown(test_a_new_owner_who_never_sees_it, lag_tear_down),
        cmocka_unit_test_teardown(test_retention_keeps_what_it_must, lag_tear_down),
        cmocka_unit_test_teardown(test_gc_keeps_what_it_must, lag_tear_down),
        cmocka_unit_test_teardown(test_gc_when_listings_miss_it_too, lag_tear_down),
        cmocka_unit_test_teardown(test_another_host_looked_too_early, lag_tear_down),
        cmocka_unit_test_teardown(test_gc_of_another_host_that_looked_too_early, lag_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
