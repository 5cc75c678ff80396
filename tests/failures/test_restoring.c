/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring into a trainer that was changed: what each difference says, before a byte is read. */
#include "failures.h"

static const int64_t kernel_shape[] = {KERNEL_ROWS, KERNEL_COLUMNS};

typedef struct fixture {
    trainer t;
    char path[64];
    uint8_t other[KERNEL_ROWS * (KERNEL_COLUMNS + 2) * sizeof(double)];
} fixture;

static int set_up(void **state) {
    static fixture f;
    const int64_t steps[] = {1000, -1};
    scratch_make(f.path);
    make_run("run", steps);
    memset(f.other, 0x5a, sizeof(f.other));
    trainer_init(&f.t);
    trainer_build(&f.t);
    trainer_open(&f.t, "run");
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    trainer_follow(&f->t);
    trainer_free(&f->t);
    scratch_remove(f->path);
    return 0;
}

static void remove_entry(trainer *t, const char *name) {
    assert_works(pawl_state_remove(t->state, name, t->err), t->err);
}

static void remove_kernel(trainer *t) {
    remove_entry(t, "optimizer/dense/kernel/m");
    remove_entry(t, "dense/kernel");
}

/* Nothing was read: the trainer's memory is as it was. */
static void assert_untouched(const fixture *f) {
    for (size_t i = 0; i < sizeof(f->other); i++) {
        assert_int_equal(f->other[i], 0x5a);
    }
}

static void resize(fixture *f) {
    static const int64_t shape[] = {KERNEL_ROWS, KERNEL_COLUMNS + 2};
    remove_kernel(&f->t);
    trainer_add(&f->t, "dense/kernel", PAWL_F32, 2, shape, f->other);
    trainer_add_slot(&f->t, "optimizer/dense/kernel/m", "dense/kernel", 2, shape, f->t.slot);
}

static void test_r01_r06_a_resized_layer_with_its_slot(void **state) {
    fixture *f = *state;
    resize(f);
    assert_tells(
        trainer_restore(&f->t, NULL), PAWL_EMISMATCH, f->t.err,
        "restoring: checkpoint step 1000 and the state differ in 2 places: \"dense/kernel\" is [4, "
        "8] F32 in the checkpoint and [4, 10] F32 in the state: dimension 1 differs; the optimizer "
        "slot \"adam/m\" of \"dense/kernel\" is [4, 8] F32 in the checkpoint and [4, 10] F32 in "
        "the state, where its variable is [4, 10] F32\n"
        "  path:     {d}/run/step-00001000\n"
        "  safe:     nothing was restored: the state is as it was\n"
        "  next:     build the model with the checkpoint's shape, or take the entry out of the "
        "state and set options.unexpected = PAWL_POLICY_ALLOW to leave it out; build the optimizer "
        "for the model, once that has the checkpoint's shape");
    assert_text(
        pawl_report_text(f->t.report),
        "step 1000: nothing was restored: 2 errors\n"
        "error: \"dense/kernel\" is [4, 8] F32 in the checkpoint and [4, 10] F32 in the "
        "state: dimension 1 differs; build the model with the checkpoint's shape, or take the "
        "entry out of the state and set options.unexpected = PAWL_POLICY_ALLOW to leave it out\n"
        "error: the optimizer slot \"adam/m\" of \"dense/kernel\" is [4, 8] F32 in the "
        "checkpoint and [4, 10] F32 in the state, where its variable is [4, 10] F32; "
        "build the optimizer for the model, once that has the checkpoint's shape");
    assert_untouched(f);
}

static void test_r02_another_dtype(void **state) {
    fixture *f = *state;
    remove_kernel(&f->t);
    trainer_add(&f->t, "dense/kernel", PAWL_BF16, 2, kernel_shape, f->other);
    trainer_add_slot(&f->t, "optimizer/dense/kernel/m", "dense/kernel", 2, kernel_shape, f->t.slot);
    assert_tells(trainer_restore(&f->t, NULL), PAWL_EMISMATCH, f->t.err,
                 "restoring: checkpoint step 1000 and the state differ in 1 place: "
                 "\"dense/kernel\" is [4, 8] F32 in the checkpoint and [4, 8] BF16 in the state\n"
                 "  path:     {d}/run/step-00001000\n"
                 "  safe:     nothing was restored: the state is as it was\n"
                 "  next:     set options.cast = PAWL_POLICY_ALLOW to convert it; with this it "
                 "restores");
    assert_text(pawl_report_text(f->t.report),
                "step 1000: nothing was restored: 1 error\n"
                "error: \"dense/kernel\" is [4, 8] F32 in the checkpoint and [4, 8] BF16 in the "
                "state; set options.cast = PAWL_POLICY_ALLOW to convert it");
    assert_untouched(f);
}

static void test_r02_a_cast_on_request_is_told(void **state) {
    fixture *f = *state;
    const pawl_restore_options cast = {.struct_size = sizeof(cast), .cast = PAWL_POLICY_ALLOW};
    remove_kernel(&f->t);
    trainer_add(&f->t, "dense/kernel", PAWL_BF16, 2, kernel_shape, f->other);
    trainer_add_slot(&f->t, "optimizer/dense/kernel/m", "dense/kernel", 2, kernel_shape, f->t.slot);
    assert_works(trainer_restore(&f->t, &cast), f->t.err);
    assert_text(pawl_report_text(f->t.report),
                "step 1000: restored 8 entries (347 B), kept 0, left out 0, converted 1\n"
                "note: \"dense/kernel\" is [4, 8] F32 in the checkpoint and [4, 8] BF16 in the "
                "state: it is converted");
}

static void test_r03_a_new_layer(void **state) {
    fixture *f = *state;
    const pawl_restore_options keep = {.struct_size = sizeof(keep), .missing = PAWL_POLICY_ALLOW};
    trainer_add(&f->t, "head/kernel", PAWL_F32, 2, kernel_shape, f->other);
    assert_tells(trainer_restore(&f->t, NULL), PAWL_EMISMATCH, f->t.err,
                 "restoring: checkpoint step 1000 and the state differ in 1 place: "
                 "\"head/kernel\", [4, 8] F32 in the state, is not in the checkpoint\n"
                 "  path:     {d}/run/step-00001000\n"
                 "  safe:     nothing was restored: the state is as it was\n"
                 "  next:     set options.missing = PAWL_POLICY_ALLOW to keep the state's value; "
                 "with this it restores 8 of the state's 9 entries, and 1 stays as it is");
    assert_text(pawl_report_text(f->t.report),
                "step 1000: nothing was restored: 1 error\n"
                "error: \"head/kernel\", [4, 8] F32 in the state, is not in the checkpoint; set "
                "options.missing = PAWL_POLICY_ALLOW to keep the state's value");
    assert_works(trainer_restore(&f->t, &keep), f->t.err);
    assert_text(pawl_report_text(f->t.report),
                "step 1000: restored 8 entries (347 B), kept 1, left out 0\n"
                "note: \"head/kernel\", [4, 8] F32 in the state, is not in the checkpoint: the "
                "state's value is kept");
    assert_untouched(f);
}

static void test_r04_a_layer_that_is_gone(void **state) {
    fixture *f = *state;
    const pawl_restore_options leave = {.struct_size = sizeof(leave),
                                        .unexpected = PAWL_POLICY_ALLOW};
    remove_entry(&f->t, "optimizer/dense/kernel/m");
    assert_tells(
        trainer_restore(&f->t, NULL), PAWL_EMISMATCH, f->t.err,
        "restoring: checkpoint step 1000 and the state differ in 1 place: the optimizer slot "
        "\"adam/m\" of \"dense/kernel\", [4, 8] F32 in the checkpoint, is not in the state\n"
        "  path:     {d}/run/step-00001000\n"
        "  safe:     nothing was restored: the state is as it was\n"
        "  next:     set options.model_only = 1 to restore the model alone, or set "
        "options.unexpected = PAWL_POLICY_ALLOW to leave it out; with one of these it restores");
    remove_entry(&f->t, "random");
    assert_tells(
        trainer_restore(&f->t, NULL), PAWL_EMISMATCH, f->t.err,
        "restoring: checkpoint step 1000 and the state differ in 2 places: the optimizer "
        "slot \"adam/m\" of \"dense/kernel\", [4, 8] F32 in the checkpoint, is not in the "
        "state; \"random\", bytes for each rank in the checkpoint, is not in the state\n"
        "  path:     {d}/run/step-00001000\n"
        "  safe:     nothing was restored: the state is as it was\n"
        "  next:     set options.unexpected = PAWL_POLICY_ALLOW to leave it out; with this "
        "it restores");
    assert_works(trainer_restore(&f->t, &leave), f->t.err);
    assert_text(pawl_report_text(f->t.report),
                "step 1000: restored 6 entries (211 B), kept 0, left out 2\n"
                "note: the optimizer slot \"adam/m\" of \"dense/kernel\", [4, 8] F32 in the "
                "checkpoint, is not in the state: it is left out\n"
                "note: \"random\", bytes for each rank in the checkpoint, is not in the state: it "
                "is left out");
}

static void test_r05_a_renamed_layer_is_recognised_and_restored_by_the_rule(void **state) {
    fixture *f = *state;
    const pawl_rename renames[] = {{.from = "dense", .to = "dense_1"},
                                   {.from = "optimizer/dense", .to = "optimizer/dense_1"}};
    const pawl_restore_options rename = {.struct_size = sizeof(rename),
                                         .renames = renames,
                                         .rename_count = 2,
                                         .rename_size = sizeof(pawl_rename)};
    remove_kernel(&f->t);
    trainer_add(&f->t, "dense_1/kernel", PAWL_F32, 2, kernel_shape, f->t.kernel);
    trainer_add_slot(&f->t, "optimizer/dense_1/kernel/m", "dense_1/kernel", 2, kernel_shape,
                     f->t.slot);
    assert_tells(
        trainer_restore(&f->t, NULL), PAWL_EMISMATCH, f->t.err,
        "restoring: checkpoint step 1000 and the state differ in 4 places: \"dense/kernel\", [4, "
        "8] F32 in the checkpoint, is not in the state; the optimizer slot \"adam/m\" of "
        "\"dense/kernel\", [4, 8] F32 in the checkpoint, is not in the state; \"dense_1/kernel\", "
        "[4, 8] F32 in the state, is not in the checkpoint; and 1 more\n"
        "  path:     {d}/run/step-00001000\n"
        "  safe:     nothing was restored: the state is as it was\n"
        "  next:     renamed? 2 entries match after \"dense\" -> \"dense_1\", \"optimizer/dense\" "
        "-> "
        "\"optimizer/dense_1\"; add {\"dense\", \"dense_1\"}, {\"optimizer/dense\", "
        "\"optimizer/dense_1\"} to options.renames, all of them; with these it restores");
    assert_text(
        pawl_report_text(f->t.report),
        "step 1000: nothing was restored: 4 errors, 1 note\n"
        "error: \"dense/kernel\", [4, 8] F32 in the checkpoint, is not in the state; set "
        "options.unexpected = PAWL_POLICY_ALLOW to leave it out\n"
        "error: the optimizer slot \"adam/m\" of \"dense/kernel\", [4, 8] F32 in the checkpoint, "
        "is not in the state; set options.unexpected = PAWL_POLICY_ALLOW to leave it out\n"
        "error: \"dense_1/kernel\", [4, 8] F32 in the state, is not in the checkpoint; set "
        "options.missing = PAWL_POLICY_ALLOW to keep the state's value\n"
        "error: the optimizer slot \"adam/m\" of \"dense_1/kernel\", [4, 8] F32 in the state, is "
        "not in the checkpoint; set "
        "options.missing = PAWL_POLICY_ALLOW to keep the state's value\n"
        "note: renamed? 2 entries match after \"dense\" -> \"dense_1\", \"optimizer/dense\" -> "
        "\"optimizer/dense_1\"; add {\"dense\", \"dense_1\"}, {\"optimizer/dense\", "
        "\"optimizer/dense_1\"} to options.renames, all of them");
    assert_works(trainer_restore(&f->t, &rename), f->t.err);
    assert_true(f->t.kernel[0][1] == 1001.0F);
}

static void test_r06_another_optimizer(void **state) {
    fixture *f = *state;
    const pawl_restore_options model = {.struct_size = sizeof(model), .model_only = 1};
    remove_entry(&f->t, "optimizer/dense/kernel/m");
    assert_works(pawl_state_set_string(f->t.state, PAWL_OPTIMIZER_CLASS, PAWL_ROLE_HYPERPARAMETER,
                                       "sgd", f->t.err),
                 f->t.err);
    assert_tells(trainer_restore(&f->t, NULL), PAWL_EMISMATCH, f->t.err,
                 "restoring: checkpoint step 1000 and the state differ in 2 places: the optimizer "
                 "changed from \"adam\" in the checkpoint to \"sgd\" in the state (1 slot in the "
                 "checkpoint only, 0 in the state only); the optimizer slot \"adam/m\" of "
                 "\"dense/kernel\", [4, 8] F32 in the checkpoint, is not in the state\n"
                 "  path:     {d}/run/step-00001000\n"
                 "  safe:     nothing was restored: the state is as it was\n"
                 "  next:     set options.model_only = 1 to restore the model alone; with this it "
                 "restores 1 of the state's 7 entries, and 6 stay as they are");
    assert_text(
        pawl_report_text(f->t.report),
        "step 1000: nothing was restored: 2 errors\n"
        "error: the optimizer slot \"adam/m\" of \"dense/kernel\", [4, 8] F32 in the checkpoint, "
        "is not in the state; set options.model_only = 1 to restore the model alone, or set "
        "options.unexpected = PAWL_POLICY_ALLOW to leave it out\n"
        "error: the optimizer changed from \"adam\" in the checkpoint to \"sgd\" in the state (1 "
        "slot in the checkpoint only, 0 in the state only); set options.model_only = 1 to restore "
        "the model alone");
    assert_works(trainer_restore(&f->t, &model), f->t.err);
    assert_text(pawl_report_text(f->t.report),
                "step 1000: restored 1 entry (128 B), kept 6, left out 7");
}

static void test_r06_a_slot_that_does_not_fit_its_variable(void **state) {
    fixture *f = *state;
    static const int64_t shape[] = {KERNEL_ROWS};
    remove_entry(&f->t, "optimizer/dense/kernel/m");
    trainer_add_slot(&f->t, "optimizer/dense/kernel/m", "dense/kernel", 1, shape, f->other);
    assert_tells(
        trainer_restore(&f->t, NULL), PAWL_EMISMATCH, f->t.err,
        "restoring: checkpoint step 1000 and the state differ in 1 place: the optimizer slot "
        "\"adam/m\" of \"dense/kernel\" is [4, 8] F32 in the checkpoint and [4] F32 in the state, "
        "where its variable is [4, 8] F32 in both: the slot was saved with its variable's shape\n"
        "  path:     {d}/run/step-00001000\n"
        "  safe:     nothing was restored: the state is as it was\n"
        "  next:     build the optimizer with the settings that it was saved with, or set "
        "options.model_only = 1 to restore the model alone; with this it restores 1 of the state's "
        "8 entries, and 7 stay as they are");
    assert_untouched(f);
}

/* The model was built anew with another shape, and its optimizer was forgotten. */
static void test_r06_a_slot_that_its_variable_has_outgrown(void **state) {
    fixture *f = *state;
    static const int64_t shape[] = {KERNEL_ROWS, KERNEL_COLUMNS + 2};
    remove_entry(&f->t, "dense/kernel");
    trainer_add(&f->t, "dense/kernel", PAWL_F32, 2, shape, f->other);
    assert_tells(
        trainer_restore(&f->t, NULL), PAWL_EMISMATCH, f->t.err,
        "restoring: checkpoint step 1000 and the state differ in 2 places: \"dense/kernel\" is [4, "
        "8] F32 in the checkpoint and [4, 10] F32 in the state: dimension 1 differs; the optimizer "
        "slot \"adam/m\" of \"dense/kernel\" is [4, 8] F32, as its variable was when it was saved; "
        "the variable is [4, 10] F32 now, so the slot does not fit it\n"
        "  path:     {d}/run/step-00001000\n"
        "  safe:     nothing was restored: the state is as it was\n"
        "  next:     build the model with the checkpoint's shape, or take the entry out of the "
        "state and set options.unexpected = PAWL_POLICY_ALLOW to leave it out; rebuild the "
        "optimizer for the model");
    assert_untouched(f);
}

static void test_r07_a_changed_learning_rate_warns(void **state) {
    fixture *f = *state;
    double rate = 0;
    f->t.learning_rate = 0.1;
    trainer_set(&f->t, 0);
    assert_works(pawl_restore(f->t.run, f->t.state, NULL, NULL, f->t.err), f->t.err);
    assert_text(f->t.log,
                "warning: restoring step 1000: \"optimizer/learning_rate\" is 0.001 in the "
                "checkpoint and 0.1 in the state: the checkpoint's value is used; set "
                "options.hyperparameter = PAWL_POLICY_CALLER to keep the state's\n");
    assert_works(pawl_state_get_float64(f->t.state, "optimizer/learning_rate", &rate, f->t.err),
                 f->t.err);
    assert_true(rate == 0.001);
}

static void test_r07_the_callers_learning_rate_on_request(void **state) {
    fixture *f = *state;
    const pawl_restore_options mine = {.struct_size = sizeof(mine),
                                       .hyperparameter = PAWL_POLICY_CALLER};
    double rate = 0;
    f->t.learning_rate = 0.1;
    trainer_set(&f->t, 0);
    assert_works(trainer_restore(&f->t, &mine), f->t.err);
    assert_text(pawl_report_text(f->t.report),
                "step 1000: restored 7 entries (339 B), kept 1, left out 0\n"
                "warning: \"optimizer/learning_rate\" is 0.001 in the checkpoint and 0.1 in the "
                "state: the state's value is used");
    assert_works(pawl_state_get_float64(f->t.state, "optimizer/learning_rate", &rate, f->t.err),
                 f->t.err);
    assert_true(rate == 0.1);
}

static void test_r07_a_changed_learning_rate_is_an_error_on_request(void **state) {
    fixture *f = *state;
    const pawl_restore_options strict = {.struct_size = sizeof(strict),
                                         .hyperparameter = PAWL_POLICY_ERROR};
    f->t.learning_rate = 0.1;
    trainer_set(&f->t, 0);
    assert_tells(
        trainer_restore(&f->t, &strict), PAWL_EMISMATCH, f->t.err,
        "restoring: checkpoint step 1000 and the state differ in 1 place: "
        "\"optimizer/learning_rate\" is 0.001 in the checkpoint and 0.1 in the state\n"
        "  path:     {d}/run/step-00001000\n"
        "  safe:     nothing was restored: the state is as it was\n"
        "  next:     set options.hyperparameter = PAWL_POLICY_CHECKPOINT to take the checkpoint's "
        "value, or set options.hyperparameter = PAWL_POLICY_CALLER to keep the state's; with one "
        "of these it restores");
}

static void test_r13_the_report_counts_what_was_restored(void **state) {
    fixture *f = *state;
    assert_works(trainer_restore(&f->t, NULL), f->t.err);
    assert_text(pawl_report_text(f->t.report),
                "step 1000: restored 8 entries (347 B), kept 0, left out 0");
}

static void test_r13_a_state_that_was_never_built(void **state) {
    fixture *f = *state;
    pawl_state_free(f->t.state);
    assert_works(pawl_state_new(&f->t.state, f->t.err), f->t.err);
    assert_tells(trainer_restore(&f->t, NULL), PAWL_EUSAGE, f->t.err,
                 "restoring: cannot restore: the state has no entries\n"
                 "  next:     build the model and add its tensors with pawl_state_add_tensor "
                 "before restoring");
}

static void change_batch(fixture *f) {
    assert_works(pawl_state_set_json(
                     f->t.state, "batch", PAWL_ROLE_BATCH_SIGNATURE,
                     "[{\"name\": \"images\", \"dtype\": \"F32\", \"shape\": [32, 28]}]", f->t.err),
                 f->t.err);
}

static void test_j06_other_batches_warn(void **state) {
    fixture *f = *state;
    change_batch(f);
    assert_works(pawl_restore(f->t.run, f->t.state, NULL, NULL, f->t.err), f->t.err);
    assert_text(
        f->t.log,
        "warning: restoring step 1000: the batches changed: \"batch\" is [{\"name\": \"images\", "
        "\"dtype\": \"F32\", \"shape\": [64, 28]}] in the checkpoint and [{\"name\": \"images\", "
        "\"dtype\": \"F32\", \"shape\": [32, 28]}] in the state: the state's value is used\n");
}

static void test_j06_other_batches_are_an_error_on_request(void **state) {
    fixture *f = *state;
    const pawl_restore_options strict = {.struct_size = sizeof(strict), .batch = PAWL_POLICY_ERROR};
    change_batch(f);
    assert_tells(trainer_restore(&f->t, &strict), PAWL_EMISMATCH, f->t.err,
                 "restoring: checkpoint step 1000 and the state differ in 1 place: the batches "
                 "changed: \"batch\" is [{\"name\": \"images\", \"dtype\": \"F32\", \"shape\": "
                 "[64, 28]}] in the checkpoint and [{\"name\": \"images\", \"dtype\": \"F32\", "
                 "\"shape\": [32, 28]}] in the state\n"
                 "  path:     {d}/run/step-00001000\n"
                 "  safe:     nothing was restored: the state is as it was\n"
                 "  next:     feed the batches that the checkpoint was trained with, or set "
                 "options.batch = PAWL_POLICY_ALLOW to go on with other batches; with this it "
                 "restores 7 of the state's 8 entries, and 1 stays as it is");
}

static void test_j06_a_loader_that_stands_elsewhere(void **state) {
    fixture *f = *state;
    assert_works(trainer_restore(&f->t, NULL), f->t.err);
    assert_works(pawl_check_data_position(f->t.state, "data/position", 64000, f->t.err), f->t.err);
    assert_tells(pawl_check_data_position(f->t.state, "data/position", 0, f->t.err), PAWL_EMISMATCH,
                 f->t.err,
                 "the checkpoint was saved at data position 64000, the loader stands at 0\n"
                 "  entry:    data/position\n"
                 "  expected: 64000, as restored\n"
                 "  found:    0\n"
                 "  next:     move the loader on to 64000 before training goes on, or examples are "
                 "seen twice");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_r01_r06_a_resized_layer_with_its_slot),
        TEST(test_r02_another_dtype),
        TEST(test_r02_a_cast_on_request_is_told),
        TEST(test_r03_a_new_layer),
        TEST(test_r04_a_layer_that_is_gone),
        TEST(test_r05_a_renamed_layer_is_recognised_and_restored_by_the_rule),
        TEST(test_r06_another_optimizer),
        TEST(test_r06_a_slot_that_does_not_fit_its_variable),
        TEST(test_r06_a_slot_that_its_variable_has_outgrown),
        TEST(test_r07_a_changed_learning_rate_warns),
        TEST(test_r07_the_callers_learning_rate_on_request),
        TEST(test_r07_a_changed_learning_rate_is_an_error_on_request),
        TEST(test_r13_the_report_counts_what_was_restored),
        TEST(test_r13_a_state_that_was_never_built),
        TEST(test_j06_other_batches_warn),
        TEST(test_j06_other_batches_are_an_error_on_request),
        TEST(test_j06_a_loader_that_stands_elsewhere),
    };
    return cmocka_run_group_tests_name("a changed trainer", tests, NULL, NULL);
}
