/* SPDX-License-Identifier: Apache-2.0 */
/* Reports: text, JSON, what is only counted, and the error that a refused match becomes. */
#include "lib/failing_memory.h"
#include "unit/match/fixture.h"

#include <jansson.h>
#include <stdio.h>

static void two_differences(fixture *f) {
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
    state_tensor(f, "a", PAWL_F32, SHAPE(4));
    saved_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, 0.001);
    state_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, 0.1);
}

static void finish(fixture *f) {
    assert_ok(report_finish(f->report, &f->err), &f->err);
}

/* ---- text ----------------------------------------------------------------------------------- */

static void test_text_of_a_refused_match(void **context) {
    fixture *f = *context;
    two_differences(f);
    match(f);
    assert_ok(report_add_fallback(f->report, 2000, "index-1 is damaged", &f->err), &f->err);
    finish(f);
    assert_string_equal(
        pawl_report_text(f->report),
        "step 1000: nothing was restored: 1 error, 1 warning\n"
        "passed over step 2000: index-1 is damaged\n"
        "error: \"a\" is [3] F32 in the checkpoint and [4] F32 in the state: dimension 0 differs; "
        "build the model with the checkpoint's shape, or take the entry out of the state and set "
        "options.unexpected = PAWL_POLICY_ALLOW to leave it out\n"
        "warning: \"lr\" is 0.001 in the checkpoint and 0.1 in the state: the checkpoint's value "
        "is used; set options.hyperparameter = PAWL_POLICY_CALLER to keep the state's");
    assert_int_equal(report_totals(f->report).fallbacks, 1);
    assert_int_equal(pawl_report_step(f->report), 1000);
}

static void test_text_counts_every_severity(void **context) {
    fixture *f = *context;
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
    saved_tensor(f, "b", PAWL_F32, SHAPE(3));
    saved_tensor(f, "c", PAWL_F32, SHAPE(3));
    state_tensor(f, "a", PAWL_F32, SHAPE(4));
    f->options.unexpected = PAWL_POLICY_ALLOW;
    match(f);
    finish(f);
    assert_memory_equal(pawl_report_text(f->report),
                        "step 1000: nothing was restored: 1 error, 2 notes\nerror: \"a\"", 60);
    assert_non_null(
        strstr(pawl_report_text(f->report),
               "\nnote: \"c\", [3] F32 in the checkpoint, is not in the state: it is left "
               "out"));
}

static void test_r13_text_counts_what_was_restored(void **context) {
    fixture *f = *context;
    match(f);
    *report_counts(f->report) = (pawl_report_counts){
        .restored = 24, .kept = 2, .ignored = 1, .cast = 3, .cast_overflows = 1, .bytes = 1234567};
    finish(f);
    assert_string_equal(
        pawl_report_text(f->report),
        "step 1000: restored 24 entries (1.23 MB), kept 2, left out 1, converted 3, "
        "of which 1 value was too large for the new dtype and became infinite");
}

static void test_text_of_no_checkpoint(void **context) {
    fixture *f = *context;
    match(f);
    report_set_step(f->report, -1);
    assert_string_equal(pawl_report_text(f->report), "");
    finish(f);
    assert_string_equal(pawl_report_text(f->report), "no checkpoint was restored");
}

static void test_finishing_twice_says_it_once(void **context) {
    fixture *f = *context;
    match(f);
    finish(f);
    finish(f);
    assert_string_equal(pawl_report_text(f->report),
                        "step 1000: restored 0 entries (0 B), kept 0, left out 0");
}

static void test_given_text_is_kept(void **context) {
    fixture *f = *context;
    match(f);
    char text[] = "said otherwise";
    pawl_report_item given = {
        .difference = PAWL_DIFF_KIND, .severity = PAWL_SEVERITY_NOTE, .name = "a", .text = text};
    assert_ok(report_add(f->report, &given, &f->err), &f->err);
    text[0] = 'x';
    assert_string_equal(item(f, 0)->text, "said otherwise");
    assert_null(item(f, 0)->state);
    assert_null(pawl_report_get(f->report, 1));
}

/* An item of any difference has words, even when hardly anything is filled in. */
static void test_sparse_items_have_words(void **context) {
    fixture *f = *context;
    match(f);
    for (int d = PAWL_DIFF_SHAPE; d <= PAWL_DIFF_RANKS; d++) {
        for (int s = PAWL_SEVERITY_NOTE; s <= PAWL_SEVERITY_ERROR; s++) {
            pawl_report_item sparse = {.difference = (pawl_difference)d,
                                       .severity = (pawl_severity)s};
            assert_ok(report_add(f->report, &sparse, &f->err), &f->err);
        }
    }
    finish(f);
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        assert_true(strlen(item(f, i)->text) > 10);
        assert_null(strstr(item(f, i)->text, "(null)"));
    }
}

static void test_unknown_difference_is_a_defect(void **context) {
    fixture *f = *context;
    match(f);
    pawl_report_item odd = {.difference = (pawl_difference)12, .severity = PAWL_SEVERITY_NOTE};
    assert_fails(report_add(f->report, &odd, &f->err), PAWL_EINTERNAL, &f->err);
    odd = (pawl_report_item){.difference = PAWL_DIFF_SHAPE};
    assert_fails(report_add(f->report, &odd, &f->err), PAWL_EINTERNAL, &f->err);
    assert_int_equal(pawl_report_count(f->report), 0);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void test_json_of_a_refused_match(void **context) {
    fixture *f = *context;
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
    state_tensor(f, "a", PAWL_F32, SHAPE(4));
    saved_tensor(f, "fits", PAWL_F32, SHAPE(3));
    state_tensor(f, "fits", PAWL_F32, SHAPE(3));
    match(f);
    assert_ok(report_add_fallback(f->report, 2000, "a \"b\"", &f->err), &f->err);
    finish(f);
    assert_string_equal(
        pawl_report_json(f->report),
        "{\"step\":1000,\"totals\":{\"restored\":0,\"kept\":0,\"ignored\":0,\"cast\":0,"
        "\"cast_overflows\":0,\"bytes\":0,\"fallbacks\":1},"
        "\"found\":{\"errors\":1,\"warnings\":0,\"notes\":0},"
        "\"unlisted\":{\"errors\":0,\"warnings\":0,\"notes\":0},"
        "\"passed_over\":[{\"step\":2000,\"why\":\"a \\\"b\\\"\"}],"
        "\"next\":{\"remedies\":[],\"remain\":1},"
        "\"items\":[{\"difference\":\"shape\",\"severity\":\"error\",\"name\":\"a\","
        "\"other_name\":null,\"checkpoint\":\"[3] F32\",\"state\":\"[4] F32\",\"dimension\":0,"
        "\"count\":1,\"text\":\"\\\"a\\\" is [3] F32 in the checkpoint and [4] F32 in the state: "
        "dimension 0 differs; build the model with the checkpoint's shape, or take the entry out "
        "of the state and set options.unexpected = PAWL_POLICY_ALLOW to leave it out\","
        "\"description\":\"\\\"a\\\" is [3] F32 in the checkpoint and [4] F32 in the state: "
        "dimension 0 differs\",\"change\":\"build the model with the checkpoint's shape\","
        "\"remedies\":[{\"option\":\"unexpected\",\"value\":\"allow\",\"from\":null,\"to\":null,"
        "\"before\":\"take the entry out of the state\",\"effect\":\"leave it out\","
        "\"remain\":0}],\"saved_as\":null,\"remains\":true}]}");
}

/* What another parser makes of it, with every difference in it. */
static void test_json_parses(void **context) {
    fixture *f = *context;
    match(f);
    for (int d = PAWL_DIFF_SHAPE; d <= PAWL_DIFF_RANKS; d++) {
        pawl_report_item one = {.difference = (pawl_difference)d,
                                .severity = PAWL_SEVERITY_WARNING,
                                .name = "\"\\\t\xff"};
        assert_ok(report_add(f->report, &one, &f->err), &f->err);
    }
    finish(f);
    json_t *parsed = json_loads(pawl_report_json(f->report), 0, NULL);
    assert_non_null(parsed);
    assert_int_equal(json_array_size(json_object_get(parsed, "items")), PAWL_DIFF_RANKS);
    json_decref(parsed);
}

/* ---- limits --------------------------------------------------------------------------------- */

static void many_missing(fixture *f, int count) {
    char name[32];
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof(name), "t/%d", i);
        state_tensor(f, name, PAWL_F32, SHAPE(1));
    }
}

/* Some thousands of a kind are kept as data, the rest is counted; none crowds out another kind. */
static void test_further_items_are_counted(void **context) {
    fixture *f = *context;
    many_missing(f, 4146);
    saved_float(f, "z", PAWL_ROLE_HYPERPARAMETER, 1);
    state_float(f, "z", PAWL_ROLE_HYPERPARAMETER, 2);
    match(f);
    finish(f);
    assert_int_equal(pawl_report_count(f->report), 4097);
    const char *text = pawl_report_text(f->report);
    assert_memory_equal(text, "step 1000: nothing was restored: 4146 errors, 1 warning\n", 56);
    assert_string_equal(strrchr(text, '\n'),
                        "\nand more that are counted, but not listed: 50 errors");
    assert_int_equal(match_error(f->report, &f->err), PAWL_EMISMATCH);
    assert_says(f->err.attempt, "differ in 4146 places");
    assert_says(f->err.attempt, "; and 4143 more");
}

/* ---- the error ------------------------------------------------------------------------------ */

static void test_r01_error_of_one_difference(void **context) {
    fixture *f = *context;
    two_differences(f);
    match(f);
    assert_int_equal(match_error(f->report, &f->err), PAWL_EMISMATCH);
    assert_status_text(
        &f->err, PAWL_EMISMATCH,
        "checkpoint step 1000 and the state differ in 1 place: \"a\" is [3] F32 in "
        "the checkpoint and [4] F32 in the state: dimension 0 differs\n"
        "  safe:     nothing was restored: the state is as it was\n"
        "  next:     build the model with the checkpoint's shape, or take the entry out of the "
        "state and set options.unexpected = PAWL_POLICY_ALLOW to leave it out");
    assert_int_equal(f->err.step, 1000);
}

static void test_error_without_a_step(void **context) {
    fixture *f = *context;
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
    state_tensor(f, "a", PAWL_F16, SHAPE(4));
    saved_tensor(f, "fits", PAWL_F32, SHAPE(3));
    state_tensor(f, "fits", PAWL_F32, SHAPE(3));
    match(f);
    report_set_step(f->report, -1);
    assert_int_equal(match_error(f->report, &f->err), PAWL_EMISMATCH);
    assert_status_text(
        &f->err, PAWL_EMISMATCH,
        "the checkpoint and the state differ in 2 places: \"a\" is [3] F32 in the checkpoint and "
        "[4] "
        "F16 in the state: dimension 0 differs; \"a\" is [3] F32 in the checkpoint and [4] F16 in "
        "the "
        "state\n"
        "  safe:     nothing was restored: the state is as it was\n"
        "  next:     set options.cast = PAWL_POLICY_ALLOW to convert it; then 1 difference "
        "remains, "
        "that of \"a\": build the model with the checkpoint's shape, or take the entry out of the "
        "state and set options.unexpected = PAWL_POLICY_ALLOW to leave it out");
    assert_int_equal(f->err.step, -1);
}

static void test_r05_error_suggests_the_rename_first(void **context) {
    fixture *f = *context;
    saved_tensor(f, "dense/kernel", PAWL_F32, SHAPE(3));
    saved_tensor(f, "dense/bias", PAWL_F32, SHAPE(2));
    state_tensor(f, "dense_1/kernel", PAWL_F32, SHAPE(3));
    state_tensor(f, "dense_1/bias", PAWL_F32, SHAPE(2));
    match(f);
    assert_int_equal(match_error(f->report, &f->err), PAWL_EMISMATCH);
    assert_status_text(
        &f->err, PAWL_EMISMATCH,
        "checkpoint step 1000 and the state differ in 4 places: \"dense/bias\", [2] F32 in the "
        "checkpoint, is not in the state; \"dense/kernel\", [3] F32 in the checkpoint, is not in "
        "the "
        "state; \"dense_1/bias\", [2] F32 in the state, is not in the checkpoint; and 1 more\n"
        "  safe:     nothing was restored: the state is as it was\n"
        "  next:     renamed? 2 entries match after \"dense\" -> \"dense_1\"; add {\"dense\", "
        "\"dense_1\"} to options.renames; with this it restores");
}

static void test_r06_error_names_the_optimizer_first(void **context) {
    fixture *f = *context;
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
    state_tensor(f, "a", PAWL_F32, SHAPE(3));
    saved_slot(f, "opt/m", "a", "adam/m", SHAPE(3));
    state_slot(f, "opt/p", "a", "momentum", SHAPE(3));
    saved_value(f, PAWL_OPTIMIZER_CLASS, PAWL_KIND_STRING, PAWL_ROLE_HYPERPARAMETER, "AdamW", 5);
    state_value(f, PAWL_OPTIMIZER_CLASS, PAWL_KIND_STRING, PAWL_ROLE_HYPERPARAMETER, "SGD", 3);
    match(f);
    assert_int_equal(match_error(f->report, &f->err), PAWL_EMISMATCH);
    assert_status_text(
        &f->err, PAWL_EMISMATCH,
        "checkpoint step 1000 and the state differ in 3 places: the optimizer changed from "
        "\"AdamW\" "
        "in the checkpoint to \"SGD\" in the state (1 slot in the checkpoint only, 1 in the state "
        "only); the optimizer slot \"adam/m\" of \"a\", [3] F32 in the checkpoint, is not in the "
        "state; the optimizer slot \"momentum\" of \"a\", [3] F32 in the state, is not in the "
        "checkpoint\n"
        "  safe:     nothing was restored: the state is as it was\n"
        "  next:     set options.model_only = 1 to restore the model alone; with this it "
        "restores 1 of the state's 3 entries, and 2 stay as they are");
}

/* The longest names there are do not push out what else must be said. */
static void test_error_of_long_names_is_cut(void **context) {
    fixture *f = *context;
    char name[PAWL_MAX_NAME_BYTES + 1];
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    for (int i = 0; i < 3; i++) {
        name[0] = (char)('a' + i);
        state_tensor(f, name, PAWL_F32, SHAPE(3));
    }
    saved_tensor(f, "fits", PAWL_F32, SHAPE(3));
    state_tensor(f, "fits", PAWL_F32, SHAPE(3));
    match(f);
    assert_int_equal(match_error(f->report, &f->err), PAWL_EMISMATCH);
    assert_says(f->err.attempt, "\"ann");
    assert_says(f->err.attempt, "...; \"bnn");
    assert_says(f->err.attempt, "...; \"cnn");
    assert_string_equal(f->err.next,
                        "set options.missing = PAWL_POLICY_ALLOW to keep the state's value; with "
                        "this it restores only 1 of the state's 4 entries, and 3 stay as they are, "
                        "3 of the model's 4 among them");
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Everything that a match can say, at once. */
static void fill_for_memory(fixture *f) {
    two_differences(f);
    saved_tensor(f, "dense/kernel", PAWL_F32, SHAPE(3));
    saved_tensor(f, "dense/bias", PAWL_F32, SHAPE(2));
    state_tensor(f, "dense_1/kernel", PAWL_F32, SHAPE(3));
    state_tensor(f, "dense_1/bias", PAWL_F32, SHAPE(2));
    record_entry *fits = saved_tensor(f, "fits", PAWL_F32, SHAPE(5));
    fits->pieces->box_extent[0] = 4;
    state_tensor(f, "fits", PAWL_F32, SHAPE(5));
    static const pawl_rename rules[] = {{"from", "to"}};
    saved_slot(f, "from/m", "fits", "adam/m", SHAPE(5));
    state_slot(f, "to/m", "fits", "adam/m", SHAPE(5));
    f->options.renames = rules;
    f->options.rename_count = 1;
}

static pawl_status match_and_render(void *context, pawl_error *err) {
    fixture *f = context;
    pawl_report *report = NULL;
    match_result *made = NULL;
    pawl_status status = report_new(&report, err);
    if (status == PAWL_OK) {
        entry_source source = fixture_source(f);
        status = match_make(f->snapshot, source, &f->options, &alone, report, &made, err);
        assert_true((status == PAWL_OK) == (made != NULL));
    }
    if (status == PAWL_OK) {
        status = report_add_fallback(report, 2000, "why", err);
    }
    if (status == PAWL_OK) {
        status = report_finish(report, err);
    }
    match_free(made);
    pawl_report_free(report);
    return status;
}

static void test_match_without_memory_leaks_nothing(void **context) {
    fixture *f = *context;
    fill_for_memory(f);
    match(f); /* sorts the records, takes the snapshot */
    assert_true(failing_memory_each(match_and_render, f) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_BOTH(test_text_of_a_refused_match),
        WITH_BOTH(test_text_counts_every_severity),
        WITH_BOTH(test_r13_text_counts_what_was_restored),
        WITH_BOTH(test_text_of_no_checkpoint),
        WITH_BOTH(test_finishing_twice_says_it_once),
        WITH_BOTH(test_given_text_is_kept),
        WITH_BOTH(test_sparse_items_have_words),
        WITH_BOTH(test_unknown_difference_is_a_defect),
        WITH_BOTH(test_json_of_a_refused_match),
        WITH_BOTH(test_json_parses),
        WITH_BOTH(test_further_items_are_counted),
        WITH_BOTH(test_r01_error_of_one_difference),
        WITH_BOTH(test_error_without_a_step),
        WITH_BOTH(test_r05_error_suggests_the_rename_first),
        WITH_BOTH(test_r06_error_names_the_optimizer_first),
        WITH_BOTH(test_error_of_long_names_is_cut),
        WITH_BOTH(test_match_without_memory_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
