/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saves of the same entries, one after another: they use one layout, and write what they would have
 * written with a layout of their own.
 */
#include "lib/training.h"
#include "unit/run/job.h"

static void keep_data_file(training *f, int64_t step, buffer *out) {
    char path[256];
    training_path(f, step, NAME_KIND_DATA, path);
    training_take_file(f, path, out);
}

/* Saves the step once more, with a layout of its own: its data file is the same. */
static void assert_as_anew(training *f, int64_t step) {
    CLEANUP(buffer_free) buffer again = {0};
    CLEANUP(buffer_free) buffer anew = {0};
    struct pawl_error err = ERROR_INIT;
    uint64_t reuses = f->run->kept.reuses;
    keep_data_file(f, step, &again);
    training_set(f, "extra", PAWL_KIND_BOOL, PAWL_ROLE_OTHER, false, "\x01", 1);
    assert_ok(state_remove(f->state, "extra", &err), &err);
    training_save(f, step);
    assert_int_equal(f->run->kept.reuses, reuses);
    keep_data_file(f, step, &anew);
    assert_int_equal(again.size, anew.size);
    assert_memory_equal(again.data, anew.data, anew.size);
}

static void test_saves_of_the_same_entries_use_one_layout(void **state) {
    training *f = *state;
    training_open_run(f);
    training_save(f, 100);
    training_save(f, 200);
    training_save(f, 300);
    assert_int_equal(f->run->kept.reuses, 2);
    assert_as_anew(f, 300);
    assert_as_anew(f, 200);
    training_save(f, 1000); /* a digit more, and a longer text */
    training_save(f, 1001);
    assert_int_equal(f->run->kept.reuses, 3);
    assert_as_anew(f, 1001);
}

static void test_a_layout_is_used_again_after_saves_that_failed(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const store_fault write_fails = {.op = STORE_OP_WRITE, .nth = 1, .system_errno = 5};
    const store_fault none = {0};
    training_open_with(f, &f->os.table, (pawl_run_options){0});
    training_save(f, 100);
    training_fill(f, 200);
    store_fault_set(f->fault, &write_fails);
    assert_ok(training_begin(f, 200, &err), &err);
    assert_fails(run_wait(f->run, 0, NULL, &err), PAWL_EIO, &err);
    store_fault_set(f->fault, &none);
    training_save(f, 300);
    assert_int_equal(f->run->kept.reuses, 2);
    assert_as_anew(f, 300);
}

/* Refused before it began: the manifest could not be published. */
static void test_a_refused_save_leaves_the_layout_good(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_metric metric = {.name = "", .value = 1};
    const pawl_save_options options = {
        .struct_size = sizeof(options), .metrics = &metric, .metric_count = 1};
    training_open_run(f);
    training_save(f, 100);
    training_fill(f, 200);
    assert_fails(run_save(f->run, f->state, 200, &options, &err), PAWL_EUSAGE, &err);
    assert_ok(state_remove(f->state, "optimizer/m", &err), &err); /* it reads nothing any more */
    training_add(f, "optimizer/m", 1, (const int64_t[]){TRAINING_COLUMNS}, f->slot,
                 "model/dense/kernel");
    training_save(f, 300);
    assert_int_equal(f->run->kept.reuses, 1);
    assert_as_anew(f, 300);
}

static void test_another_state_has_its_own_layout(void **state) {
    training *f = *state;
    training_open_run(f);
    for (int64_t step = 100; step < 110; step++) {
        training_save(f, step);
        state_free(f->state);
        training_make_state(f);
    }
    assert_int_equal(f->run->kept.reuses, 0);
    training_save(f, 200);
    training_save(f, 201);
    assert_int_equal(f->run->kept.reuses, 1);
    assert_as_anew(f, 201);
}

static void test_every_rank_uses_its_layout_again(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    for (int64_t step = 10; step <= 40; step += 10) {
        job_save_ok(j, step);
        job_check_rows(j, step);
    }
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_int_equal(j->ranks[r].run->kept.reuses, 3);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_saves_of_the_same_entries_use_one_layout,
                                        training_set_up, training_tear_down),
        cmocka_unit_test_setup_teardown(test_a_layout_is_used_again_after_saves_that_failed,
                                        training_set_up, training_tear_down),
        cmocka_unit_test_setup_teardown(test_a_refused_save_leaves_the_layout_good, training_set_up,
                                        training_tear_down),
        cmocka_unit_test_setup_teardown(test_another_state_has_its_own_layout, training_set_up,
                                        training_tear_down),
        cmocka_unit_test_setup_teardown(test_every_rank_uses_its_layout_again, job_set_up,
                                        job_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
