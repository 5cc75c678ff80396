/* SPDX-License-Identifier: Apache-2.0 */
/* R06: another optimizer, and slots that are missing, extra, or do not fit their variables. */
#include "unit/match/fixture.h"

#define ERROR   PAWL_SEVERITY_ERROR
#define WARNING PAWL_SEVERITY_WARNING

#define MODEL_ONLY "set options.model_only = 1 to restore the model alone"
#define SAME_SLOT                                                                                  \
    "give the state's entry the role, the slot and the variable that it was saved with"
#define ASSEMBLE "; build the optimizer with the settings that it was saved with, or " MODEL_ONLY

static void one_variable(fixture *f) {
    state_tensor(f, "dense/kernel", PAWL_F32, SHAPE(64, 10));
    saved_tensor(f, "dense/kernel", PAWL_F32, SHAPE(64, 10));
}

static void test_r06_slot_missing(void **context) {
    fixture *f = *context;
    one_variable(f);
    state_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(64, 10));
    match(f);
    assert_only_item(
        f, PAWL_DIFF_SLOT, ERROR, "opt/m", "(absent)", "[64, 10] F32",
        "the optimizer slot \"adam/m\" of \"dense/kernel\", [64, 10] F32 in the state, "
        "is not in the checkpoint; " MODEL_ONLY
        ", or set options.missing = PAWL_POLICY_ALLOW to keep the state's value");
    assert_string_equal(item(f, 0)->other_name, "dense/kernel");
}

static void test_r06_slot_unexpected(void **context) {
    fixture *f = *context;
    one_variable(f);
    saved_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(64, 10));
    match(f);
    assert_only_item(f, PAWL_DIFF_SLOT, ERROR, "opt/m", "[64, 10] F32", "(absent)",
                     "the optimizer slot \"adam/m\" of \"dense/kernel\", [64, 10] F32 in the "
                     "checkpoint, is not in the state; " MODEL_ONLY
                     ", or set options.unexpected = PAWL_POLICY_ALLOW to leave it out");
    assert_string_equal(item(f, 0)->other_name, "dense/kernel");
}

static void test_r06_slots_on_request(void **context) {
    fixture *f = *context;
    one_variable(f);
    saved_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(64, 10));
    state_slot(f, "opt/v", "dense/kernel", "adam/v", SHAPE(64, 10));
    f->options.missing = PAWL_POLICY_ALLOW;
    f->options.unexpected = PAWL_POLICY_ALLOW;
    match(f);
    assert_false(f->match->refused);
    assert_string_equal(item(f, 0)->text,
                        "the optimizer slot \"adam/m\" of \"dense/kernel\", [64, 10] F32 in the "
                        "checkpoint, is not in the state: it is left out");
    assert_string_equal(item(f, 1)->text,
                        "the optimizer slot \"adam/v\" of \"dense/kernel\", [64, 10] F32 in the "
                        "state, is not in the checkpoint: the state's value is kept");
    assert_pairs(f, 1, 1, 1);
}

/* Of a slot that has its variable's shape, and was saved with another. */
static void test_r06_slot_does_not_fit_its_variable(void **context) {
    fixture *f = *context;
    one_variable(f);
    state_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(64, 10));
    saved_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(64, 12));
    match(f);
    assert_only_item(
        f, PAWL_DIFF_SLOT, ERROR, "opt/m", "[64, 12] F32", "[64, 10] F32",
        "the optimizer slot \"adam/m\" of \"dense/kernel\" is [64, 12] F32 in the "
        "checkpoint and [64, 10] F32 in the state, where its variable is [64, 10] "
        "F32 in both: the slot was saved with another shape than its variable" ASSEMBLE);
    assert_int_equal(item(f, 0)->dimension, 1);
}

/* Neither has its variable's shape: other settings of a factored optimizer. */
static void test_r06_slot_of_a_shape_of_its_own(void **context) {
    fixture *f = *context;
    one_variable(f);
    state_slot(f, "opt/r", "dense/kernel", "adafactor/r", SHAPE(64));
    saved_slot(f, "opt/r", "dense/kernel", "adafactor/r", SHAPE(10));
    match(f);
    assert_only_item(f, PAWL_DIFF_SLOT, ERROR, "opt/r", "[10] F32", "[64] F32",
                     "the optimizer slot \"adafactor/r\" of \"dense/kernel\" is [10] F32 in the "
                     "checkpoint and [64] F32 in the state, where its variable is [64, 10] F32 in "
                     "both" ASSEMBLE);
}

static void test_r06_factored_slots_are_paired(void **context) {
    fixture *f = *context;
    one_variable(f);
    state_slot(f, "opt/r", "dense/kernel", "adafactor/r", SHAPE(64));
    saved_slot(f, "opt/r", "dense/kernel", "adafactor/r", SHAPE(64));
    state_slot(f, "opt/c", "dense/kernel", "adafactor/c", SHAPE(1, 10));
    saved_slot(f, "opt/c", "dense/kernel", "adafactor/c", SHAPE(1, 10));
    match(f);
    assert_int_equal(pawl_report_count(f->report), 0);
    assert_int_equal(f->match->pair_count, 3);
}

/* A row that has the length which it was saved with fits, whatever became of its variable; a slot
 * that had its variable's shape does not. */
static void test_r06_slot_of_a_variable_that_has_another_shape(void **context) {
    fixture *f = *context;
    saved_tensor(f, "w", PAWL_F32, SHAPE(64, 10));
    state_tensor(f, "w", PAWL_F32, SHAPE(64, 12));
    state_slot(f, "opt/m", "w", "m", SHAPE(64, 10));
    saved_slot(f, "opt/m", "w", "m", SHAPE(64, 10));
    state_slot(f, "opt/r", "w", "r", SHAPE(64));
    saved_slot(f, "opt/r", "w", "r", SHAPE(64));
    match(f);
    assert_int_equal(pawl_report_count(f->report), 2);
    assert_int_equal(item(f, 0)->difference, PAWL_DIFF_SHAPE);
    assert_string_equal(
        item(f, 1)->text,
        "the optimizer slot \"m\" of \"w\" is [64, 10] F32, as its variable was "
        "when it was saved; the variable is [64, 12] F32 now, so the slot does not fit it; "
        "rebuild the optimizer for the model");
}

/* Both kinds of difference tell what a slot is called in the checkpoint. */
static void test_r06_slot_that_a_rule_moved(void **context) {
    fixture *f = *context;
    const pawl_rename rules[] = {{"old", "opt"}};
    saved_tensor(f, "w", PAWL_F32, SHAPE(64, 10));
    state_tensor(f, "w", PAWL_F32, SHAPE(64, 12));
    saved_slot(f, "old/m", "w", "m", SHAPE(64, 10));
    state_slot(f, "opt/m", "w", "m", SHAPE(64, 10));
    saved_slot(f, "old/r", "w", "r", SHAPE(10));
    state_slot(f, "opt/r", "w", "r", SHAPE(12));
    f->options.renames = rules;
    f->options.rename_count = 1;
    match(f);
    assert_int_equal(pawl_report_count(f->report), 3);
    assert_string_equal(item(f, 1)->name, "opt/r");
    assert_non_null(item(f, 1)->saved_as);
    assert_string_equal(item(f, 1)->saved_as, "old/r");
    assert_non_null(strstr(item(f, 1)->text, "\"r\" of \"w\" (saved as \"old/r\") is [10] F32"));
    assert_string_equal(item(f, 2)->name, "opt/m");
    assert_non_null(item(f, 2)->saved_as);
    assert_string_equal(item(f, 2)->saved_as, "old/m");
    assert_non_null(strstr(item(f, 2)->text, "\"m\" of \"w\" (saved as \"old/m\") is [64, 10]"));
}

/* The names agree, but what is behind them does not: m would become v. */
static void test_r06_slot_of_another_kind(void **context) {
    fixture *f = *context;
    one_variable(f);
    state_slot(f, "opt/0", "dense/kernel", "adam/m", SHAPE(64, 10));
    saved_slot(f, "opt/0", "dense/kernel", "adam/v", SHAPE(64, 10));
    match(f);
    assert_only_item(
        f, PAWL_DIFF_SLOT, ERROR, "opt/0", "slot \"adam/v\" of \"dense/kernel\"",
        "slot \"adam/m\" of \"dense/kernel\"",
        "the optimizer slot \"opt/0\" of \"dense/kernel\" is slot \"adam/v\" of "
        "\"dense/kernel\" in the checkpoint and slot \"adam/m\" of \"dense/kernel\" in "
        "the state; " SAME_SLOT ", or " MODEL_ONLY);
}

static void two_slots(fixture *f, pawl_dtype saved, pawl_dtype wanted, int64_t elements) {
    one_variable(f);
    pawl_tensor t = a_tensor("opt/m", wanted, SHAPE(64, 10));
    t.role = PAWL_ROLE_SLOT;
    t.slot_of = "dense/kernel";
    t.slot = "adam/m";
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
    saved_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(64, elements));
    f->records[f->record_count - 1].dtype = saved;
    match(f);
}

#define SLOT_SIDES                                                                                 \
    "the optimizer slot \"adam/m\" of \"dense/kernel\" is [64, 10] F32 in the checkpoint and "     \
    "[64, 10] BF16 in the state"

static void test_r06_slot_of_another_dtype(void **context) {
    fixture *f = *context;
    two_slots(f, PAWL_F32, PAWL_BF16, 10);
    assert_only_item(f, PAWL_DIFF_SLOT, ERROR, "opt/m", "[64, 10] F32", "[64, 10] BF16",
                     SLOT_SIDES
                     "; set options.cast = PAWL_POLICY_ALLOW to convert it, or " MODEL_ONLY);
    assert_string_equal(item(f, 0)->other_name, "dense/kernel");
}

static void test_r06_slot_is_cast_on_request(void **context) {
    fixture *f = *context;
    f->options.cast = PAWL_POLICY_ALLOW;
    two_slots(f, PAWL_F32, PAWL_BF16, 10);
    assert_only_item(f, PAWL_DIFF_SLOT, PAWL_SEVERITY_NOTE, "opt/m", "[64, 10] F32",
                     "[64, 10] BF16", SLOT_SIDES ": it is converted");
    assert_pairs(f, 2, 0, 0);
}

static void test_r06_slot_whose_dtype_is_not_converted(void **context) {
    fixture *f = *context;
    two_slots(f, PAWL_I32, PAWL_F32, 10);
    assert_string_equal(item(f, 0)->change,
                        "only F64, F32, F16 and BF16 are converted into each other: give the state "
                        "the checkpoint's dtype");
    assert_int_equal(item(f, 0)->remedy_count, 1);
}

/* One difference, of which both sides tell all. */
static void test_r06_slot_of_another_shape_and_dtype(void **context) {
    fixture *f = *context;
    two_slots(f, PAWL_F32, PAWL_BF16, 12);
    assert_int_equal(pawl_report_count(f->report), 1);
    assert_string_equal(item(f, 0)->checkpoint, "[64, 12] F32");
    assert_string_equal(item(f, 0)->state, "[64, 10] BF16");
}

/* The model alone lacks the entry, so that is no way out. */
static void test_r06_variable_that_was_a_slot(void **context) {
    fixture *f = *context;
    state_tensor(f, "a", PAWL_F32, SHAPE(3));
    saved_slot(f, "a", "b", "adam/m", SHAPE(3));
    match(f);
    assert_only_item(f, PAWL_DIFF_SLOT, ERROR, "a", "slot \"adam/m\" of \"b\"", "no slot",
                     "the optimizer slot \"a\" of \"b\" is slot \"adam/m\" of \"b\" in the "
                     "checkpoint and no slot in the state; " SAME_SLOT);
}

static void other_optimizer(fixture *f) {
    one_variable(f);
    saved_value(f, PAWL_OPTIMIZER_CLASS, PAWL_KIND_STRING, PAWL_ROLE_HYPERPARAMETER, "AdamW", 5);
    state_value(f, PAWL_OPTIMIZER_CLASS, PAWL_KIND_STRING, PAWL_ROLE_HYPERPARAMETER, "SGD", 3);
}

static void test_r06_optimizer_changed(void **context) {
    fixture *f = *context;
    other_optimizer(f);
    match(f);
    assert_only_item(f, PAWL_DIFF_OPTIMIZER, ERROR, "optimizer/class", "\"AdamW\"", "\"SGD\"",
                     "the optimizer changed from \"AdamW\" in the checkpoint to \"SGD\" in the "
                     "state; " MODEL_ONLY);
}

static void test_r06_optimizer_changed_with_its_slots(void **context) {
    fixture *f = *context;
    other_optimizer(f);
    saved_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(64, 10));
    saved_slot(f, "opt/v", "dense/kernel", "adam/v", SHAPE(64, 10));
    state_slot(f, "opt/momentum", "dense/kernel", "momentum", SHAPE(64, 10));
    state_slot(f, "opt/t", "dense/kernel", "t", 0, NULL);
    state_slot(f, "opt/u", "dense/kernel", "u", 0, NULL);
    match(f);
    assert_true(f->match->refused);
    bool found = false;
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        if (item(f, i)->difference == PAWL_DIFF_OPTIMIZER) {
            assert_string_equal(
                item(f, i)->text,
                "the optimizer changed from \"AdamW\" in the checkpoint to \"SGD\" in the state (2 "
                "slots in the checkpoint only, 3 in the state only); " MODEL_ONLY);
            found = true;
        }
    }
    assert_true(found);
}

static void test_r06_optimizer_changed_with_slots_on_one_side(void **context) {
    fixture *f = *context;
    other_optimizer(f);
    saved_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(64, 10));
    match(f);
    assert_int_equal(pawl_report_count(f->report), 2);
    assert_string_equal(item(f, 1)->text,
                        "the optimizer changed from \"AdamW\" in the checkpoint to \"SGD\" in the "
                        "state (1 slot in the checkpoint only, 0 in the state only); " MODEL_ONLY);
}

static void test_r06_model_alone(void **context) {
    fixture *f = *context;
    other_optimizer(f);
    saved_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(64, 10));
    state_slot(f, "opt/momentum", "dense/kernel", "momentum", SHAPE(64, 10));
    saved_rank_bytes(f, "rng");
    f->saved_world_size = 4;
    f->options.model_only = 1;
    match(f);
    assert_int_equal(pawl_report_count(f->report), 0);
    assert_false(f->match->refused);
    assert_pairs(f, 1, 2, 3);
}

/* The caller's hyperparameters stand, the class of its optimizer among them. */
static void test_r06_optimizer_of_the_caller(void **context) {
    fixture *f = *context;
    other_optimizer(f);
    f->options.hyperparameter = PAWL_POLICY_CALLER;
    match(f);
    assert_only_item(f, PAWL_DIFF_OPTIMIZER, WARNING, "optimizer/class", "\"AdamW\"", "\"SGD\"",
                     "the optimizer changed from \"AdamW\" in the checkpoint to \"SGD\" in the "
                     "state: the state's value is used");
    assert_pairs(f, 2, 1, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_BOTH(test_r06_slot_missing),
        WITH_BOTH(test_r06_slot_unexpected),
        WITH_BOTH(test_r06_slots_on_request),
        WITH_BOTH(test_r06_slot_does_not_fit_its_variable),
        WITH_BOTH(test_r06_slot_of_a_shape_of_its_own),
        WITH_BOTH(test_r06_factored_slots_are_paired),
        WITH_BOTH(test_r06_slot_of_a_variable_that_has_another_shape),
        WITH_BOTH(test_r06_slot_that_a_rule_moved),
        WITH_BOTH(test_r06_slot_of_another_kind),
        WITH_BOTH(test_r06_variable_that_was_a_slot),
        WITH_BOTH(test_r06_slot_of_another_dtype),
        WITH_BOTH(test_r06_slot_is_cast_on_request),
        WITH_BOTH(test_r06_slot_whose_dtype_is_not_converted),
        WITH_BOTH(test_r06_slot_of_another_shape_and_dtype),
        WITH_BOTH(test_r06_optimizer_changed),
        WITH_BOTH(test_r06_optimizer_changed_with_its_slots),
        WITH_BOTH(test_r06_optimizer_changed_with_slots_on_one_side),
        WITH_BOTH(test_r06_model_alone),
        WITH_BOTH(test_r06_optimizer_of_the_caller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
