/* SPDX-License-Identifier: Apache-2.0 */
/* R11: many ranks restore one step, or none of them does. */
#include "unit/run/joining.h"

#include <pawl/checkpoint.h>

#define COLUMNS 64

typedef struct fixture {
    joining job;
    pawl_state *states[MOST_RANKS];
    float kernel[MOST_RANKS][COLUMNS];
    pawl_restore_options options[MOST_RANKS];
    int64_t step[MOST_RANKS]; /* that the rank asks for; 0: the newest */
    pawl_report *reports[MOST_RANKS];
} fixture;

static pawl_state *new_state(void *kernel, int64_t columns) {
    struct pawl_error err = ERROR_INIT;
    pawl_state *state;
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "model/kernel",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = &columns,
                                .data = kernel,
                                .role = PAWL_ROLE_MODEL};
    assert_ok(state_new(&state, &err), &err);
    assert_ok(state_add_tensor(state, &tensor, &err), &err);
    return state;
}

static void fill(float *kernel, int64_t step) {
    for (int i = 0; i < COLUMNS; i++) {
        kernel[i] = (float)(step + i);
    }
}

/* Steps 100, 200 and 300, by a process alone. */
static void make_steps(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options plain = {.struct_size = sizeof plain};
    float kernel[COLUMNS];
    pawl_run *run;
    pawl_state *state = new_state(kernel, COLUMNS);
    assert_ok(run_open(joining_view_of(&f->job, 0), NULL, platform_system(), &run, &err), &err);
    for (int64_t step = 100; step <= 300; step += 100) {
        fill(kernel, step);
        assert_ok(run_save(run, state, step, &plain, &err), &err);
        assert_ok(run_wait(run, 0, NULL, &err), &err);
    }
    assert_ok(run_close(run, 0, &err), &err);
    state_free(state);
}

static void begin(fixture *f, int world_size, bool connected) {
    memset(f, 0, sizeof *f);
    joining_init(&f->job, world_size, connected);
    make_steps(f);
    joining_open(&f->job);
    for (int r = 0; r < world_size; r++) {
        assert_ok(f->job.status[r], &f->job.err[r]);
        f->states[r] = new_state(f->kernel[r], COLUMNS);
        f->options[r].struct_size = sizeof f->options[r];
    }
}

static void finish(fixture *f) {
    for (int r = 0; r < f->job.world_size; r++) {
        pawl_report_free(f->reports[r]);
        state_free(f->states[r]);
    }
    joining_end(&f->job);
}

static void restore_one(void *context, int r) {
    fixture *f = context;
    if (f->step[r] != 0) {
        f->options[r].step = &f->step[r];
    }
    pawl_report_free(f->reports[r]);
    f->job.err[r] = ERROR_INIT;
    f->job.status[r] =
        run_restore(f->job.runs[r], f->states[r], &f->options[r], &f->reports[r], &f->job.err[r]);
}

static void restore_all(fixture *f) {
    local_group_run(f->job.world_size, restore_one, f);
}

static void assert_restored(fixture *f, int64_t step) {
    float wanted[COLUMNS];
    fill(wanted, step);
    for (int r = 0; r < f->job.world_size; r++) {
        assert_ok(f->job.status[r], &f->job.err[r]);
        assert_memory_equal(f->kernel[r], wanted, sizeof wanted);
        assert_int_equal(f->job.runs[r]->restored_step, step);
        assert_int_equal(pawl_report_step(f->reports[r]), step);
    }
}

static void assert_untouched(const fixture *f) {
    const float zeros[COLUMNS] = {0};
    for (int r = 0; r < f->job.world_size; r++) {
        assert_memory_equal(f->kernel[r], zeros, sizeof zeros);
    }
}

static void test_r11_all_restore_the_newest(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        fixture f;
        begin(&f, 3, connected);
        restore_all(&f);
        assert_restored(&f, 300);
        finish(&f);
    }
}

static void test_r11_all_restore_the_step_that_they_ask_for(void **state) {
    (void)state;
    fixture f;
    begin(&f, 3, true);
    f.step[0] = f.step[1] = f.step[2] = 200;
    restore_all(&f);
    assert_restored(&f, 200);
    finish(&f);
}

static void test_r11_different_steps_are_named_with_their_ranks(void **state) {
    (void)state;
    fixture f;
    begin(&f, 4, true);
    f.step[0] = f.step[3] = 200;
    f.step[1] = 300;
    restore_all(&f);
    for (int r = 0; r < 4; r++) {
        assert_status_text(&f.job.err[r], PAWL_EMISMATCH,
                           "restoring: the ranks ask for different steps\n"
                           "  path:     /mem\n"
                           "  expected: the same step on all 4 ranks\n"
                           "  found:    ranks 0 and 3: step 200; rank 1: step 300; rank 2: the "
                           "newest step\n"
                           "  safe:     nothing was read into any state\n"
                           "  next:     give all ranks the same step, or none: rank 0 then chooses "
                           "the newest");
        assert_null(f.reports[r]);
    }
    assert_untouched(&f);
    finish(&f);
}

/* Damage that one rank alone meets is enough. */
static void test_r11_what_is_damaged_for_one_rank_all_pass_over(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        fixture f;
        begin(&f, 3, connected);
        f.job.damaged_step[2] = 300;
        restore_all(&f);
        assert_restored(&f, 200);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(report_totals(f.reports[r]).fallbacks, 1);
            assert_says(pawl_report_text(f.reports[r]), "rank 2 (host ");
        }
        assert_says(f.job.log, "step 300 is damaged and is passed over for the next older one: "
                               "rank 2 (host ");
        finish(&f);
    }
}

static void test_r11_without_fallback_damage_on_one_rank_fails_on_all(void **state) {
    (void)state;
    fixture f;
    begin(&f, 3, true);
    f.job.damaged_step[1] = 300;
    f.options[1].no_fallback = 1;
    restore_all(&f);
    for (int r = 0; r < 3; r++) {
        assert_fails(f.job.status[r], PAWL_EDAMAGED, &f.job.err[r]);
        assert_says(f.job.err[r].attempt, "restoring: rank 1 (host ");
    }
    finish(&f);
}

static void test_r11_what_does_not_fit_one_rank_fails_on_all_untouched(void **state) {
    (void)state;
    fixture f;
    begin(&f, 3, true);
    state_free(f.states[1]);
    f.states[1] = new_state(f.kernel[1], COLUMNS / 2);
    restore_all(&f);
    for (int r = 0; r < 3; r++) {
        assert_fails(f.job.status[r], PAWL_EMISMATCH, &f.job.err[r]);
        assert_non_null(f.reports[r]);
        assert_true((strstr(f.job.err[r].attempt, "rank 1 (host ") == NULL) == (r == 1));
        assert_true((strstr(pawl_report_text(f.reports[r]), "[64]") != NULL) == (r == 1));
    }
    assert_untouched(&f);
    finish(&f);
}

/* Rank 0 alone may remove, so its mark is enough. */
static void test_only_rank_0_marks_what_is_read(void **state) {
    (void)state;
    fixture f;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    begin(&f, 3, true);
    restore_all(&f);
    assert_ok(store_names(f.job.disk, "step-00000300", 100, &memory, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        assert_true(strncmp(names[i], "reader-", 7) != 0); /* and it is gone again */
    }
    finish(&f);
}

static void test_s11_a_rank_that_does_not_restore_is_named(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        fixture f;
        begin(&f, 3, connected);
        for (int r = 0; r < 3; r++) {
            f.job.runs[r]->ranks->timeout_s = 1;
        }
        local_group_run(2, restore_one, &f);
        for (int r = 0; r < 2; r++) {
            assert_fails(f.job.status[r], PAWL_EPEER, &f.job.err[r]);
            assert_string_equal(f.job.err[r].attempt, "restoring: restore: rank 2 did not come");
        }
        assert_untouched(&f);
        finish(&f);
    }
}

/* ---- memory that is given when it is asked for ---- */

typedef struct supplier {
    float *kernel;
    char asked[64];
} supplier;

static int supply(void *context, int64_t step, const pawl_entry_info *entry, pawl_tensor *tensor) {
    supplier *s = context;
    size_t at = strlen(s->asked);
    (void)snprintf(s->asked + at, sizeof s->asked - at, "%lld %s, ", (long long)step, entry->name);
    tensor->data = s->kernel;
    return s->kernel != NULL;
}

static int give_up(void *context, int64_t step, const pawl_entry_info *entry, pawl_tensor *tensor) {
    return supply(context, step, entry, tensor) - 2;
}

/* States without tensors; the ranks from `from` on have no memory either. */
static void lack_tensors(fixture *f, supplier *s, int from) {
    struct pawl_error err = ERROR_INIT;
    for (int r = 0; r < f->job.world_size; r++) {
        assert_ok(state_remove(f->states[r], "model/kernel", &err), &err);
        s[r] = (supplier){.kernel = r < from ? f->kernel[r] : NULL};
        f->options[r].supply = supply;
        f->options[r].supply_context = &s[r];
    }
}

static void test_each_rank_supplies_by_itself_for_each_step(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        fixture f;
        supplier s[3];
        begin(&f, 3, connected);
        lack_tensors(&f, s, 3);
        f.job.damaged_step[2] = 300;
        restore_all(&f);
        assert_restored(&f, 200);
        for (int r = 0; r < 3; r++) {
            assert_string_equal(s[r].asked, "300 model/kernel, 200 model/kernel, ");
            assert_int_equal(state_count(f.states[r]), 1);
        }
        finish(&f);
    }
}

/* What another rank has is not unexpected; what none has is, on all. */
static void test_some_ranks_may_decline(void **state) {
    (void)state;
    fixture f;
    supplier s[3];
    begin(&f, 3, true);
    lack_tensors(&f, s, 1);
    restore_all(&f);
    for (int r = 0; r < 3; r++) {
        assert_ok(f.job.status[r], &f.job.err[r]);
        assert_int_equal(state_count(f.states[r]), r == 0);
    }
    float wanted[COLUMNS];
    fill(wanted, 300);
    assert_memory_equal(f.kernel[0], wanted, sizeof wanted);
    assert_ok(state_remove(f.states[0], "model/kernel", &f.job.err[0]), &f.job.err[0]);
    s[0].kernel = NULL;
    restore_all(&f);
    for (int r = 0; r < 3; r++) {
        assert_fails(f.job.status[r], PAWL_EMISMATCH, &f.job.err[r]);
        assert_int_equal(state_count(f.states[r]), 0);
    }
    finish(&f);
}

/* What one rank cannot take none restores, and all states are as they were. */
static void test_a_rank_that_gives_up_ends_it_for_all(void **state) {
    (void)state;
    fixture f;
    supplier s[3];
    begin(&f, 3, true);
    lack_tensors(&f, s, 3);
    f.options[1].supply = give_up;
    restore_all(&f);
    for (int r = 0; r < 3; r++) {
        assert_fails(f.job.status[r], PAWL_ECANCELED, &f.job.err[r]);
        assert_says(f.job.err[r].attempt, "restoring: rank 1 (host ");
        assert_int_equal(state_count(f.states[r]), 0);
    }
    assert_untouched(&f);
    finish(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_r11_all_restore_the_newest),
        cmocka_unit_test(test_r11_all_restore_the_step_that_they_ask_for),
        cmocka_unit_test(test_r11_different_steps_are_named_with_their_ranks),
        cmocka_unit_test(test_r11_what_is_damaged_for_one_rank_all_pass_over),
        cmocka_unit_test(test_r11_without_fallback_damage_on_one_rank_fails_on_all),
        cmocka_unit_test(test_r11_what_does_not_fit_one_rank_fails_on_all_untouched),
        cmocka_unit_test(test_only_rank_0_marks_what_is_read),
        cmocka_unit_test(test_s11_a_rank_that_does_not_restore_is_named),
        cmocka_unit_test(test_each_rank_supplies_by_itself_for_each_step),
        cmocka_unit_test(test_some_ranks_may_decline),
        cmocka_unit_test(test_a_rank_that_gives_up_ends_it_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
