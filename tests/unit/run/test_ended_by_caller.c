/* SPDX-License-Identifier: Apache-2.0 */
/* `interrupted` of the options: a caller that does not want to wait any longer ends the call, and
 * nothing is lost. */
#include "lib/training.h"

#include "unit/run/joining.h"

#define RANKS 3

/* How often the caller was asked, and when it ends the call; 0: never. */
typedef struct asked {
    _Atomic unsigned times;
    unsigned ends_at;
    thread_id thread;
    _Atomic bool elsewhere;
} asked;

static int end_at(void *context) {
    asked *a = context;
    a->elsewhere = a->elsewhere || !thread_is_self(a->thread);
    return ++a->times == a->ends_at; /* once: it is not asked again */
}

static void ask_anew(asked *a, unsigned ends_at) {
    a->times = 0;
    a->ends_at = ends_at;
    a->thread = thread_self();
}

/* ---- one process ---- */

static int supply_bias(void *context, int64_t step, const pawl_entry_info *entry,
                       pawl_tensor *tensor) {
    training *f = context;
    (void)step;
    (void)entry;
    tensor->data = f->bias;
    return 1;
}

static pawl_status restore_asking(training *f, bool of_run, asked *a, pawl_error *err) {
    const pawl_restore_options options = {.struct_size = sizeof options,
                                          .supply = supply_bias,
                                          .supply_context = f,
                                          .interrupted = end_at,
                                          .interrupted_context = a};
    return of_run ? run_restore(f->run, f->state, &options, NULL, err)
                  : checkpoint_restore(f->checkpoint, f->state, &options, 0, 1, NULL, err);
}

static void assert_ended(const pawl_error *err, unsigned times, const asked *a) {
    assert_int_equal(err->status, PAWL_ECANCELED);
    assert_says(err->attempt, "restoring");
    assert_says(err->attempt, "interrupted by the caller");
    assert_int_equal(a->times, times);
    assert_true(err->safe[0] == '\0' || strstr(err->safe, "nothing was read") != NULL ||
                strcmp(err->next, "restore again before the state is used") == 0);
}

/* At whatever moment, the next call restores all. */
static void end_at_each_moment(training *f, bool of_run) {
    struct pawl_error err = ERROR_INIT;
    asked a = {0};
    pawl_status status = PAWL_ECANCELED;
    unsigned moments = 0;
    assert_ok(state_remove(f->state, "model/dense/bias", &err), &err);
    while (status != PAWL_OK) {
        err = ERROR_INIT;
        ask_anew(&a, ++moments);
        memset(f->kernel, 0, sizeof f->kernel);
        status = restore_asking(f, of_run, &a, &err);
        if (status != PAWL_OK) {
            assert_ended(&err, moments, &a);
            assert_int_equal(state_count(f->state), 8);
        }
        assert_false(a.elsewhere);
    }
    assert_int_equal(a.times, moments - 1);
    assert_true(moments > (of_run ? 4 : 2));
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    memcpy(kernel, f->kernel, sizeof kernel);
    training_fill(f, 300);
    assert_memory_equal(kernel, f->kernel, sizeof kernel);
}

static void test_a_restore_ends_at_any_moment(void **state) {
    training *f = *state;
    end_at_each_moment(f, true);
    assert_int_equal(f->run->restored_step, 300);
}

static void test_a_restore_without_a_run_ends_at_any_moment(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(training_open(f, 300, &err), &err);
    end_at_each_moment(f, false);
}

/* ---- a save that takes long ---- */

static void begin_hanging(training *f, asked *a) {
    struct pawl_error err = ERROR_INIT;
    training_open_with(f, platform_system(),
                       (pawl_run_options){.interrupted = end_at, .interrupted_context = a});
    training_save(f, 1);
    store_fault_set(f->fault, &(store_fault){.op = STORE_OP_SYNC, .nth = 1, .hang = true});
    assert_ok(training_begin(f, 2, &err), &err);
    while (!store_fault_fired(f->fault)) {
        platform_system()->sleep_ns(platform_system()->context, 1000000);
    }
}

static void test_closing_ends_and_the_run_stays_open(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    asked a = {0};
    begin_hanging(f, &a);
    ask_anew(&a, 2);
    assert_fails(run_close(f->run, 60, &err), PAWL_ECANCELED, &err);
    assert_string_equal(error_text(&err),
                        "close run: waiting for the save of step 2: interrupted by the caller\n"
                        "  safe:     the save goes on; checkpoints that are committed stay as they "
                        "are");
    assert_int_equal(a.times, 2);
    store_fault_release(f->fault);
    assert_ok(run_wait(f->run, 60, NULL, &err), &err);
    assert_true(training_committed(f, 2));
    ask_anew(&a, 1); /* there is nothing to wait for */
    assert_ok(run_close(f->run, 60, &err), &err);
    assert_int_equal(a.times, 0);
    f->run = NULL;
    store_fault_set(f->fault, &(store_fault){0});
}

static void test_a_restore_that_waits_for_a_save_ends(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    asked a = {0};
    begin_hanging(f, &a);
    ask_anew(&a, 2);
    assert_fails(run_restore(f->run, f->state, NULL, NULL, &err), PAWL_ECANCELED, &err);
    assert_says(err.attempt, "waiting for the save of step 2: interrupted by the caller");
    store_fault_release(f->fault);
    assert_ok(run_wait(f->run, 60, NULL, &err), &err);
    ask_anew(&a, 0);
    assert_ok(run_restore(f->run, f->state, NULL, NULL, &err), &err);
    assert_int_equal(f->run->restored_step, 2);
    store_fault_set(f->fault, &(store_fault){0});
}

/* ---- many ranks ---- */

static void ask_rank(joining *j, int rank, asked *a) {
    j->interrupted[rank] = end_at;
    j->interrupted_context[rank] = a;
}

/* Rank 0, which waits for a rank that does not come, and a rank that waits for rank 0. Rank 1 hears
 * of it; rank 0, which may have read the other's card before, does at the next meeting. */
static void test_opening_together_ends(void **state) {
    (void)state;
    for (int who = 0; who < 2; who++) {
        joining j;
        asked a = {.ends_at = 14}; /* in about a second */
        joining_init(&j, RANKS, false);
        j.options.group_deadline_s = who == 0 ? 60 : 4;
        j.stays_away[2] = true;
        ask_rank(&j, who, &a);
        double begun_s = test_now_s();
        joining_open(&j);
        assert_true(test_now_s() - begun_s < 20);
        assert_int_equal(a.times, 14);
        assert_fails(j.status[1], PAWL_ECANCELED, &j.err[1]);
        assert_says(j.err[1].attempt, "open run: interrupted by the caller");
        assert_true(j.status[0] == PAWL_ECANCELED || (who == 1 && j.status[0] == PAWL_EPEER));
        joining_end(&j);
    }
}

static void test_waiting_for_the_directory_ends(void **state) {
    (void)state;
    joining j;
    asked a = {.ends_at = 2};
    joining_init(&j, RANKS, false);
    j.options.group_deadline_s = 60;
    j.stays_away[0] = j.stays_away[2] = true;
    j.absent[1] = true;
    ask_rank(&j, 1, &a);
    joining_open(&j);
    assert_fails(j.status[1], PAWL_ECANCELED, &j.err[1]);
    assert_string_equal(
        j.err[1].attempt,
        "open run: waiting for rank 0 to make the directory: interrupted by the caller");
    joining_end(&j);
}

typedef struct group {
    joining job;
    asked asked[RANKS];
    pawl_state *states[RANKS];
    float weights[RANKS][64];
} group;

static void save_one(void *context, int r) {
    static const int64_t shape[] = {64};
    static const pawl_save_options plain = {.struct_size = sizeof plain};
    group *g = context;
    struct pawl_error err = ERROR_INIT;
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "weights",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .replicated = 1,
                                .data = g->weights[r]};
    for (int i = 0; i < 64; i++) {
        g->weights[r][i] = (float)i;
    }
    assert_ok(state_new(&g->states[r], &err), &err);
    assert_ok(state_add_tensor(g->states[r], &tensor, &err), &err);
    assert_ok(run_save(g->job.runs[r], g->states[r], 1, &plain, &err), &err);
    assert_ok(run_wait(g->job.runs[r], 20, NULL, &err), &err);
    memset(g->weights[r], 0, sizeof g->weights[r]);
}

static void restore_one(void *context, int r) {
    group *g = context;
    g->asked[r].thread = thread_self();
    g->job.err[r] = ERROR_INIT;
    g->job.status[r] = run_restore(g->job.runs[r], g->states[r], NULL, NULL, &g->job.err[r]);
}

/* One rank ends it, at some moment: no rank takes that for success but where all do. */
static bool end_one(bool connected, int who, unsigned moment) {
    group g = {0};
    joining_init(&g.job, RANKS, connected);
    g.job.options.group_deadline_s = 2;
    ask_rank(&g.job, who, &g.asked[who]);
    joining_open(&g.job);
    for (int r = 0; r < RANKS; r++) {
        assert_ok(g.job.status[r], &g.job.err[r]);
    }
    local_group_run(RANKS, save_one, &g);
    ask_anew(&g.asked[who], moment);
    local_group_run(RANKS, restore_one, &g);
    bool all = g.job.status[who] == PAWL_OK;
    for (int r = 0; r < RANKS; r++) {
        pawl_status status = g.job.status[r];
        assert_true(all ? status == PAWL_OK : status == PAWL_ECANCELED || status == PAWL_EPEER);
        state_free(g.states[r]);
    }
    assert_int_equal(g.job.status[who], all ? PAWL_OK : PAWL_ECANCELED);
    joining_end(&g.job);
    return all;
}

static void test_a_restore_together_ends_at_any_moment(void **state) {
    (void)state;
    for (int connected = 0; connected < 2; connected++) {
        for (int who = 0; who < 2; who++) {
            for (unsigned moment = 1; moment <= 6; moment++) {
                (void)end_one(connected, who, moment);
            }
            assert_true(end_one(connected, who, 0));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define STEPS(test) cmocka_unit_test_setup_teardown(test, training_set_up_steps, training_tear_down)
#define THREADS(test)                                                                              \
    cmocka_unit_test_setup_teardown(test, training_set_up_threads, training_tear_down)
        STEPS(test_a_restore_ends_at_any_moment),
        STEPS(test_a_restore_without_a_run_ends_at_any_moment),
        THREADS(test_closing_ends_and_the_run_stays_open),
        THREADS(test_a_restore_that_waits_for_a_save_ends),
        cmocka_unit_test(test_opening_together_ends),
        cmocka_unit_test(test_waiting_for_the_directory_ends),
        cmocka_unit_test(test_a_restore_together_ends_at_any_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
