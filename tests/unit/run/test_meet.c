/* SPDX-License-Identifier: Apache-2.0 */
/* Meetings of ranks that have opened a run: their order, their failures, and pawl_meet. */
#include "unit/run/joining.h"

typedef struct fixture {
    joining job;
    const char *what[MOST_RANKS];
    pawl_status comes_with[MOST_RANKS];
    buffer answer[MOST_RANKS];
    double deadline_s;
    bool judge_missing;
} fixture;

static void begin(fixture *f, int world_size, bool connected) {
    memset(f, 0, sizeof *f);
    joining_init(&f->job, world_size, connected);
    joining_open(&f->job);
    for (int r = 0; r < world_size; r++) {
        assert_ok(f->job.status[r], &f->job.err[r]);
        f->what[r] = "test";
    }
}

static void finish(fixture *f) {
    for (int r = 0; r < f->job.world_size; r++) {
        buffer_free(&f->answer[r]);
    }
    joining_end(&f->job);
}

/* All that was handed in, in the order of ranks; "-" for one that did not come. */
static pawl_status join_texts(void *context, job_ranks *ranks, const meet_card *cards,
                              buffer *answer, pawl_error *err) {
    (void)context;
    TRY(ranks_failed(ranks, cards, err));
    for (int r = 0; r < ranks->world_size; r++) {
        const meet_card *c = &cards[r];
        TRY(buffer_append(answer, c->came ? (const void *)c->bytes : "-", c->came ? c->n : 1, err));
    }
    return PAWL_OK;
}

static void meet_one(void *context, int r) {
    fixture *f = context;
    struct pawl_error story = ERROR_INIT;
    char mine[16];
    if (f->what[r] == NULL) {
        return;
    }
    error_set(&story, PAWL_EIO, "the disk of rank %d is gone", r);
    (void)snprintf(mine, sizeof mine, "<%d>", r);
    const meeting m = {.what = f->what[r],
                       .status = f->comes_with[r],
                       .failed = &story,
                       .mine = mine,
                       .mine_bytes = strlen(mine),
                       .judge = join_texts,
                       .judge_missing = f->judge_missing};
    f->job.err[r] = ERROR_INIT;
    f->job.status[r] = ranks_meet(f->job.runs[r]->ranks, &m, &f->answer[r], &f->job.err[r]);
}

static void meet_all(fixture *f) {
    local_group_run(f->job.world_size, meet_one, f);
}

static void test_all_hear_the_same_answer_again_and_again(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        fixture f;
        begin(&f, 4, connected);
        for (int i = 0; i < 5; i++) {
            meet_all(&f);
            for (int r = 0; r < 4; r++) {
                assert_ok(f.job.status[r], &f.job.err[r]);
                assert_int_equal(f.answer[r].size, 12);
                assert_memory_equal(f.answer[r].data, "<0><1><2><3>", 12);
            }
        }
        assert_true(count_names(f.job.disk, "", "meet-") <= 4); /* of the last one only */
        finish(&f);
    }
}

static void test_what_fails_on_one_rank_fails_on_all(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        fixture f;
        begin(&f, 4, connected);
        f.comes_with[2] = PAWL_EIO;
        meet_all(&f);
        assert_all_fail(&f.job, PAWL_EIO, "rank 2 (host {h}): the disk of rank 2 is gone");
        assert_same_everywhere(&f.job);
        f.comes_with[0] = f.comes_with[3] = PAWL_EIO;
        meet_all(&f);
        assert_all_fail(&f.job, PAWL_EIO,
                        "ranks 0, 2 and 3 failed; the first of them: rank 0 (host {h}): the disk "
                        "of rank 0 is gone");
        assert_same_everywhere(&f.job);
        finish(&f);
    }
}

static void test_different_calls_are_told_apart(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        fixture f;
        begin(&f, 3, connected);
        f.what[1] = "restore";
        meet_all(&f);
        assert_all_fail(&f.job, PAWL_EMISMATCH,
                        "test: the ranks do not make the same calls in the same order");
        assert_says(f.job.err[2].found, "rank 1 (host ");
        assert_says(f.job.err[2].found, ": restore, collective call 3");
        finish(&f);
    }
}

/* With MPI a failing callback is a failure of the job; here it must not hang, nor name another. */
static void test_a_callback_that_fails_is_told_with_its_number(void **state) {
    (void)state;
    fixture f;
    begin(&f, 3, true);
    for (int r = 0; r < 3; r++) {
        f.job.runs[r]->ranks->timeout_s = 1;
        local_group_break(f.job.group, r, r == 0 ? 0 : 7);
    }
    meet_all(&f);
    assert_fails(f.job.status[0], PAWL_EPEER, &f.job.err[0]);
    assert_string_equal(f.job.err[0].attempt, "test: ranks 1 and 2 did not come");
    assert_fails(f.job.status[1], PAWL_EPEER, &f.job.err[1]);
    assert_says(f.job.err[1].found, "the group's callback gather failed and returned 7");
    local_group_break(f.job.group, 0, 9);
    meet_all(&f);
    assert_fails(f.job.status[0], PAWL_EPEER, &f.job.err[0]);
    assert_string_equal(f.job.err[0].attempt, "the group's callback gather failed");
    finish(&f);
}

static void test_a_judge_may_ask_for_those_that_came(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        fixture f;
        begin(&f, 3, connected);
        f.judge_missing = true;
        f.job.runs[0]->ranks->timeout_s = f.job.runs[2]->ranks->timeout_s = 1;
        f.what[1] = NULL; /* it stays away */
        meet_all(&f);
        for (int r = 0; r < 3; r += 2) {
            assert_ok(f.job.status[r], &f.job.err[r]);
            assert_int_equal(f.answer[r].size, 7);
            assert_memory_equal(f.answer[r].data, "<0>-<2>", 7);
        }
        finish(&f);
    }
}

/* ---- pawl_meet ------------------------------------------------------------------------------ */

static void exchange_one(void *context, int r) {
    fixture *f = context;
    f->job.err[r] = ERROR_INIT;
    f->job.status[r] = run_meet(f->job.runs[r], f->deadline_s, &f->job.err[r]);
}

static void exchange_all(fixture *f) {
    local_group_run(f->job.world_size, exchange_one, f);
    for (int r = 0; r < f->job.world_size; r++) {
        assert_ok(f->job.status[r], &f->job.err[r]);
    }
}

static void test_pawl_meet_tells_rank_0_who_has_voted(void **state) {
    (void)state;
    fixture f;
    unsigned char came[3] = {0};
    begin(&f, 3, true);
    notes_set_voted(f.job.runs[1]->ranks, 4);
    notes_set_voted(f.job.runs[2]->ranks, 5);
    exchange_all(&f);
    notes_get_voted(f.job.runs[0]->ranks, 5, came);
    assert_false(came[0] || came[1]);
    assert_true(came[2]);
    notes_get_voted(f.job.runs[0]->ranks, 4, came);
    assert_true(came[1]);
    finish(&f);
}

static void test_s11_pawl_meet_names_who_is_late(void **state) {
    (void)state;
    fixture f;
    begin(&f, 3, true);
    f.deadline_s = 1;
    local_group_run(2, exchange_one, &f);
    for (int r = 0; r < 2; r++) {
        assert_status_text(&f.job.err[r], PAWL_EPEER,
                           "pawl_meet: rank 2 did not come in time\n"
                           "  path:     /mem\n"
                           "  safe:     this run has no checkpoint yet\n"
                           "  next:     nothing depends on this call: the save goes on; see what "
                           "holds them up");
    }
    finish(&f);
}

static void test_pawl_meet_does_nothing_without_callbacks(void **state) {
    (void)state;
    fixture f;
    begin(&f, 2, false);
    local_group_run(1, exchange_one, &f);
    assert_ok(f.job.status[0], &f.job.err[0]);
    finish(&f);
}

static void test_housekeeping_is_rank_0s(void **state) {
    (void)state;
    fixture f;
    struct pawl_error err = ERROR_INIT;
    begin(&f, 2, true);
    pawl_run *guest = f.job.runs[1];
    assert_fails(run_gc(guest, false, NULL, NULL, &err), PAWL_EUSAGE, &err);
    assert_fails(run_pin(guest, 1, true, &err), PAWL_EUSAGE, &err);
    assert_fails(run_remove(guest, 1, true, &err), PAWL_EUSAGE, &err);
    assert_fails(run_rebuild(guest, 1, false, &err), PAWL_EUSAGE, &err);
    assert_status_text(&err, PAWL_EUSAGE,
                       "pawl_run_rebuild: rank 1 does not own the run\n"
                       "  path:     /mem\n"
                       "  safe:     nothing was done\n"
                       "  next:     call it on rank 0");
    finish(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_hear_the_same_answer_again_and_again),
        cmocka_unit_test(test_what_fails_on_one_rank_fails_on_all),
        cmocka_unit_test(test_different_calls_are_told_apart),
        cmocka_unit_test(test_a_callback_that_fails_is_told_with_its_number),
        cmocka_unit_test(test_a_judge_may_ask_for_those_that_came),
        cmocka_unit_test(test_pawl_meet_tells_rank_0_who_has_voted),
        cmocka_unit_test(test_s11_pawl_meet_names_who_is_late),
        cmocka_unit_test(test_pawl_meet_does_nothing_without_callbacks),
        cmocka_unit_test(test_housekeeping_is_rank_0s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
