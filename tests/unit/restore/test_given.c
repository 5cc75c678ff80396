/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks restore a checkpoint that each has opened, while others own the run: two ranks have saved
 * it, and three restore it, as threads.
 */
#include "unit/run/joining.h"

#include "restore/restore.h"

#define SAVERS   2
#define VISITORS 3
#define COLUMNS  60 /* which two ranks share, and three */

typedef struct fixture {
    joining savers, visitors;
    pawl_state *saved[SAVERS], *states[VISITORS];
    float rows[SAVERS][COLUMNS], kernel[VISITORS][COLUMNS];
    int64_t step[VISITORS]; /* that the visitor opens */
    double deadline_s;
    bool no_files[VISITORS]; /* it cannot make a file */
    bool cleared[VISITORS];  /* what it removes, rank 0 has removed a moment before */
    store *views[VISITORS];
    pawl_checkpoint *checkpoints[VISITORS];
    pawl_restore_options options[VISITORS];
    pawl_report *reports[VISITORS];
} fixture;

static void add_part(pawl_state *state, const char *name, int rank, int ranks, float *memory) {
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {COLUMNS};
    const int64_t offset[] = {(int64_t)COLUMNS * rank / ranks};
    const int64_t extent[] = {COLUMNS / ranks};
    const pawl_box part = {.offset = offset, .extent = extent, .data = memory};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .nboxes = 1,
                                .boxes = &part,
                                .box_size = sizeof part};
    assert_ok(state_add_tensor(state, &tensor, &err), &err);
}

static float value_of(int64_t step, int i) {
    return (float)(step * 1000 + i);
}

static void save_one(void *context, int r) {
    fixture *f = context;
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options plain = {.struct_size = sizeof plain};
    assert_ok(state_new(&f->saved[r], &err), &err);
    add_part(f->saved[r], "model/kernel", r, SAVERS, f->rows[r]);
    for (int64_t step = 100; step <= 200; step += 100) {
        for (int i = 0; i < COLUMNS / SAVERS; i++) {
            f->rows[r][i] = value_of(step, r * (COLUMNS / SAVERS) + i);
        }
        assert_ok(run_save(f->savers.runs[r], f->saved[r], step, &plain, &err), &err);
        assert_ok(run_wait(f->savers.runs[r], 20, NULL, &err), &err);
    }
}

/* The savers keep the run open. */
static void begin(fixture *f, bool connected) {
    struct pawl_error err = ERROR_INIT;
    memset(f, 0, sizeof *f);
    joining_init(&f->savers, SAVERS, true);
    joining_open(&f->savers);
    for (int r = 0; r < SAVERS; r++) {
        assert_ok(f->savers.status[r], &f->savers.err[r]);
    }
    local_group_run(SAVERS, save_one, f);
    joining_init(&f->visitors, VISITORS, connected);
    f->deadline_s = 20;
    for (int r = 0; r < VISITORS; r++) {
        assert_ok(state_new(&f->states[r], &err), &err);
        f->options[r].struct_size = sizeof f->options[r];
        f->step[r] = CHECKPOINT_NEWEST;
    }
}

static void add_parts(fixture *f) {
    for (int r = 0; r < VISITORS; r++) {
        add_part(f->states[r], "model/kernel", r, VISITORS, f->kernel[r]);
    }
}

/* What a visitor sees of the savers' directory. */
typedef struct visitor_view {
    store_wrapper wrapper;
    const fixture *of;
    int rank;
} visitor_view;

static pawl_status refuse_files(store_wrapper *w, store_call *call, pawl_error *err) {
    const visitor_view *v = (const visitor_view *)w;
    bool makes =
        call->op == STORE_OP_PUT || (call->op == STORE_OP_OPEN && call->mode == STORE_CREATE);
    if (v->of->no_files[v->rank] && makes) {
        return error_sys(err, 13, "create a file");
    }
    if (v->of->cleared[v->rank] && call->op == STORE_OP_UNLINK) {
        struct pawl_error ignored = ERROR_INIT;
        (void)!store_unlink(v->of->savers.disk, call->path, &ignored);
    }
    TRY(store_call_inner(call, err));
    int64_t damaged = v->of->visitors.damaged_step[v->rank];
    if (damaged > 0 && call->op == STORE_OP_READ && strstr(call->file->path, "/data-") != NULL) {
        *(uint8_t *)call->into ^= 1;
    }
    return PAWL_OK;
}

static store *view_of(fixture *f, int r) {
    struct pawl_error err = ERROR_INIT;
    visitor_view *v = mem_calloc(1, sizeof *v);
    assert_non_null(v);
    assert_ok(store_wrapper_init(&v->wrapper, f->savers.disk, &err), &err);
    v->wrapper.around = refuse_files;
    v->of = f;
    v->rank = r;
    return &v->wrapper.base;
}

static void visit_one(void *context, int r) {
    fixture *f = context;
    rank_group *group;
    job_ranks *ranks;
    pawl_error *err = &f->visitors.err[r];
    pawl_group given = {.struct_size = sizeof given, .launch = "visit.0"};
    if (f->visitors.group != NULL) {
        given = local_group_of(f->visitors.group, r);
    }
    given.rank = r;
    given.world_size = VISITORS;
    *err = ERROR_INIT;
    f->views[r] = view_of(f, r);
    assert_ok(checkpoint_open(f->views[r], false, f->step[r], platform_system(), NULL,
                              &f->checkpoints[r], err),
              err);
    assert_ok(group_new(&given, &group, err), err);
    assert_ok(ranks_new(group, platform_system(), &ranks, err), err);
    ranks->timeout_s = f->deadline_s;
    f->visitors.status[r] =
        restore_given(ranks, f->checkpoints[r], f->states[r], &f->options[r], &f->reports[r], err);
    ranks_free(ranks);
}

static void finish(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    assert_int_equal(count_names(f->savers.disk, "", "visit-"), 0); /* nothing stays */
    for (int r = 0; r < VISITORS; r++) {
        pawl_report_free(f->reports[r]);
        pawl_checkpoint_close(f->checkpoints[r]);
        store_destroy(f->views[r]);
        state_free(f->states[r]);
    }
    for (int r = 0; r < SAVERS; r++) { /* they own it still */
        const pawl_save_options plain = {.struct_size = sizeof plain};
        assert_ok(run_save(f->savers.runs[r], f->saved[r], 300, &plain, &err), &err);
    }
    for (int r = 0; r < SAVERS; r++) {
        assert_ok(run_wait(f->savers.runs[r], 20, NULL, &err), &err);
        state_free(f->saved[r]);
    }
    joining_end(&f->visitors);
    joining_end(&f->savers);
}

static void assert_untouched(const fixture *f) {
    const float zeros[COLUMNS] = {0};
    for (int r = 0; r < VISITORS; r++) {
        assert_memory_equal(f->kernel[r], zeros, sizeof zeros);
    }
}

static void test_three_ranks_restore_what_two_saved(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        fixture f;
        begin(&f, connected);
        add_parts(&f);
        local_group_run(VISITORS, visit_one, &f);
        for (int r = 0; r < VISITORS; r++) {
            assert_ok(f.visitors.status[r], &f.visitors.err[r]);
            assert_int_equal(pawl_report_step(f.reports[r]), 200);
            for (int i = 0; i < COLUMNS / VISITORS; i++) {
                assert_true(f.kernel[r][i] == value_of(200, r * (COLUMNS / VISITORS) + i));
            }
        }
        finish(&f);
    }
}

/* Rank 0 removes what an earlier start left while others try whether they can make files. */
static void test_files_that_rank_0_cleared_are_no_failure(void **state) {
    (void)state;
    fixture f;
    begin(&f, false);
    add_parts(&f);
    f.cleared[1] = f.cleared[2] = true;
    local_group_run(VISITORS, visit_one, &f);
    for (int r = 0; r < VISITORS; r++) {
        assert_ok(f.visitors.status[r], &f.visitors.err[r]);
    }
    finish(&f);
}

static void test_r11_different_steps_are_named_with_their_ranks(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        fixture f;
        begin(&f, connected);
        add_parts(&f);
        f.step[1] = 100;
        local_group_run(VISITORS, visit_one, &f);
        for (int r = 0; r < VISITORS; r++) {
            struct pawl_error *err = &f.visitors.err[r];
            assert_fails(f.visitors.status[r], PAWL_EMISMATCH, err);
            assert_string_equal(err->attempt, r == 1 ? "restoring step 100: the ranks have opened "
                                                       "different checkpoints"
                                                     : "restoring step 200: the ranks have opened "
                                                       "different checkpoints");
            assert_says(err->found, "ranks 0 and 2: step 200 (attempt ");
            assert_says(err->found, "; rank 1: step 100 (attempt ");
            assert_string_equal(err->safe, "nothing was read into any state");
            assert_null(f.reports[r]);
        }
        assert_untouched(&f);
        finish(&f);
    }
}

static void test_s11_a_rank_that_does_not_come_is_named_in_time(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        fixture f;
        begin(&f, connected);
        add_parts(&f);
        f.deadline_s = 1;
        double begun_s = test_now_s();
        local_group_run(VISITORS - 1, visit_one, &f);
        assert_true(test_now_s() - begun_s < 5);
        for (int r = 0; r < VISITORS - 1; r++) {
            assert_fails(f.visitors.status[r], PAWL_EPEER, &f.visitors.err[r]);
            assert_string_equal(f.visitors.err[r].attempt,
                                "restoring step 200: restore: rank 2 did not come");
        }
        assert_untouched(&f);
        finish(&f);
    }
}

/* What one rank lacks another holds; what nobody wants is unexpected on all of them. */
static void test_r04_what_all_want_together_decides(void **state) {
    (void)state;
    fixture f;
    begin(&f, true);
    add_part(f.states[0], "model/kernel", 0, 1, f.kernel[0]);
    local_group_run(VISITORS, visit_one, &f);
    for (int r = 0; r < VISITORS; r++) {
        assert_ok(f.visitors.status[r], &f.visitors.err[r]);
    }
    assert_true(f.kernel[0][COLUMNS - 1] == value_of(200, COLUMNS - 1));
    finish(&f);
    begin(&f, true);
    local_group_run(VISITORS, visit_one, &f);
    for (int r = 0; r < VISITORS; r++) {
        assert_fails(f.visitors.status[r], PAWL_EMISMATCH, &f.visitors.err[r]);
        assert_says(pawl_report_text(f.reports[r]), "model/kernel");
    }
    finish(&f);
}

static void test_r11_what_does_not_fit_one_rank_fails_on_all_untouched(void **state) {
    (void)state;
    fixture f;
    begin(&f, false);
    add_parts(&f);
    add_part(f.states[1], "model/other", 0, 1, f.kernel[1]);
    local_group_run(VISITORS, visit_one, &f);
    for (int r = 0; r < VISITORS; r++) {
        assert_fails(f.visitors.status[r], PAWL_EMISMATCH, &f.visitors.err[r]);
        assert_true((strstr(f.visitors.err[r].attempt, "rank 1 (host ") == NULL) == (r == 1));
        assert_true((strstr(pawl_report_text(f.reports[r]), "model/other") != NULL) == (r == 1));
        assert_says(pawl_report_text(f.reports[r]),
                    r == 1 ? "step 200: nothing was restored: 1 error"
                           : "step 200: nothing was restored: the state of another rank does not "
                             "fit");
    }
    assert_untouched(&f);
    finish(&f);
}

static void test_r11_damage_for_one_rank_fails_on_all(void **state) {
    (void)state;
    fixture f;
    begin(&f, true);
    add_parts(&f);
    f.visitors.damaged_step[2] = 200;
    local_group_run(VISITORS, visit_one, &f);
    for (int r = 0; r < VISITORS; r++) {
        assert_fails(f.visitors.status[r], PAWL_EDAMAGED, &f.visitors.err[r]);
        assert_says(f.visitors.err[r].attempt, "restoring step 200: rank 2 (host ");
        assert_string_equal(f.visitors.err[r].entry, "model/kernel");
    }
    finish(&f);
}

/* P02: without callbacks the ranks need files; with them they need none. */
static void test_p02_a_rank_that_cannot_write_says_what_it_needs(void **state) {
    (void)state;
    fixture f;
    begin(&f, false);
    add_parts(&f);
    f.deadline_s = 1;
    f.no_files[1] = true;
    local_group_run(VISITORS, visit_one, &f);
    struct pawl_error *err = &f.visitors.err[1];
    assert_fails(f.visitors.status[1], PAWL_EPERMISSION, err);
    assert_says(err->attempt, "restoring step 200: ranks without callbacks meet through files in "
                              "the run's directory, and this process cannot make any there: ");
    assert_says(err->next, "give the group its callbacks gather and broadcast");
    for (int r = 0; r < VISITORS; r += 2) {
        assert_fails(f.visitors.status[r], PAWL_EPEER, &f.visitors.err[r]);
        assert_says(f.visitors.err[r].attempt, "rank 1 did not come");
    }
    assert_untouched(&f);
    finish(&f);
    begin(&f, true);
    add_parts(&f);
    f.no_files[0] = f.no_files[1] = f.no_files[2] = true;
    local_group_run(VISITORS, visit_one, &f);
    for (int r = 0; r < VISITORS; r++) {
        assert_ok(f.visitors.status[r], &f.visitors.err[r]);
    }
    finish(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_ranks_restore_what_two_saved),
        cmocka_unit_test(test_files_that_rank_0_cleared_are_no_failure),
        cmocka_unit_test(test_r11_different_steps_are_named_with_their_ranks),
        cmocka_unit_test(test_s11_a_rank_that_does_not_come_is_named_in_time),
        cmocka_unit_test(test_r04_what_all_want_together_decides),
        cmocka_unit_test(test_r11_what_does_not_fit_one_rank_fails_on_all_untouched),
        cmocka_unit_test(test_r11_damage_for_one_rank_fails_on_all),
        cmocka_unit_test(test_p02_a_rank_that_cannot_write_says_what_it_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
