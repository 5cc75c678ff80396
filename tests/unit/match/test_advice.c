/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The next step is proven: what leads nowhere is not offered, and what is advised together says
 * what it leaves. That each advice does what the report says is checked wherever a test of this
 * folder matches (follow.h).
 */
#include "lib/failing_memory.h"
#include "unit/match/fixture.h"

#include <stdio.h>

static void both(fixture *f, const char *name, int ndim, const int64_t *shape) {
    saved_tensor(f, name, PAWL_F32, ndim, shape);
    state_tensor(f, name, PAWL_F32, ndim, shape);
}

static const pawl_report_item *find_item(fixture *f, pawl_difference difference, const char *name) {
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        const pawl_report_item *it = item(f, i);
        if (it->difference == difference && strcmp(it->name, name) == 0) {
            return it;
        }
    }
    fail_msg("%s is not in the report", name);
    return NULL;
}

static const pawl_remedy *offered(const pawl_report_item *it, const char *option) {
    for (size_t k = 0; k < it->remedy_count; k++) {
        if (strcmp(it->remedies[k]->option, option) == 0) {
            return it->remedies[k];
        }
    }
    return NULL;
}

static bool is_offered_anywhere(fixture *f, const char *option) {
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        if (offered(item(f, i), option) != NULL) {
            return true;
        }
    }
    return false;
}

static void assert_next(fixture *f, size_t remedies, int64_t remain, const char *text) {
    const pawl_report_advice *next = pawl_report_next(f->report);
    assert_non_null(next);
    assert_int_equal(match_error(f->report, &f->err), PAWL_EMISMATCH);
    assert_string_equal(f->err.next, text);
    assert_int_equal(next->remedy_count, remedies);
    assert_int_equal(next->remain, remain);
}

/* ---- the model alone ------------------------------------------------------------------------ */

static void other_optimizer(fixture *f) {
    saved_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(4, 8));
    saved_value(f, PAWL_OPTIMIZER_CLASS, PAWL_KIND_STRING, PAWL_ROLE_HYPERPARAMETER, "Adam", 4);
    state_value(f, PAWL_OPTIMIZER_CLASS, PAWL_KIND_STRING, PAWL_ROLE_HYPERPARAMETER, "SGD", 3);
}

/* Another optimizer, and a model that has other shapes: it cannot be restored alone either. */
static void test_r01_model_only_is_not_offered_for_a_model_of_another_shape(void **context) {
    fixture *f = *context;
    both(f, "embedding", SHAPE(9));
    saved_tensor(f, "dense/kernel", PAWL_F32, SHAPE(4, 8));
    state_tensor(f, "dense/kernel", PAWL_F32, SHAPE(4, 10));
    other_optimizer(f);
    match(f);
    assert_false(is_offered_anywhere(f, "model_only"));
    assert_next(f, 1, 2,
                "set options.unexpected = PAWL_POLICY_ALLOW to leave it out; then 2 differences "
                "remain, first that of \"dense/kernel\": make the model's own entries fit first: "
                "as they are, it cannot be restored alone; build the model with the checkpoint's "
                "shape, or take the entry out of the state and set options.unexpected = "
                "PAWL_POLICY_ALLOW to leave it out");
}

/* A slot goes with its variable, which no option makes fit. */
static void test_r06_model_only_is_not_offered_for_slots_of_other_shapes(void **context) {
    fixture *f = *context;
    both(f, "embedding", SHAPE(9));
    saved_tensor(f, "dense/kernel", PAWL_F32, SHAPE(4, 8));
    state_tensor(f, "dense/kernel", PAWL_F32, SHAPE(4, 10));
    saved_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(4, 8));
    state_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(4, 10));
    match(f);
    assert_false(is_offered_anywhere(f, "model_only"));
    assert_string_equal(find_item(f, PAWL_DIFF_SLOT, "opt/m")->change,
                        "build the optimizer for the model, once that has the checkpoint's shape");
}

/* What a model lacks can be allowed: then it is restored alone, and both are said. */
static void test_r06_model_only_together_with_what_the_model_lacks(void **context) {
    fixture *f = *context;
    both(f, "dense/kernel", SHAPE(4, 8));
    state_tensor(f, "head", PAWL_F32, SHAPE(3));
    other_optimizer(f);
    match(f);
    const pawl_remedy *just_model =
        offered(find_item(f, PAWL_DIFF_OPTIMIZER, "optimizer/class"), "model_only");
    assert_non_null(just_model);
    assert_int_equal(just_model->remain, 1);
    assert_next(f, 2, 0,
                "set options.model_only = 1 to restore the model alone, and set options.missing = "
                "PAWL_POLICY_ALLOW to keep the state's value; with these it restores 1 of the "
                "state's 3 entries, and 2 stay as they are");
}

/* Only one entry fits: nobody takes that for a restore of the model. */
static void test_r13_an_advice_that_restores_almost_nothing_says_so(void **context) {
    fixture *f = *context;
    saved_tensor(f, "old/kernel", PAWL_F64, SHAPE(4, 8));
    both(f, "step", SHAPE(1));
    state_tensor(f, "kernel", PAWL_F32, SHAPE(5, 8));
    state_tensor(f, "bias", PAWL_F32, SHAPE(7));
    match(f);
    assert_next(f, 2, 0,
                "set options.unexpected = PAWL_POLICY_ALLOW to leave it out, and set "
                "options.missing = PAWL_POLICY_ALLOW to keep the state's value; with these it "
                "restores only 1 of the state's 3 entries, and 2 stay as they are, 2 of the "
                "model's 3 among them");
}

/* ---- names ---------------------------------------------------------------------------------- */

/* A throwaway model was built first: Keras numbers the layers of the next from 1. */
static void keras_layer(fixture *f, bool saved, const char *layer, int64_t in, int64_t out) {
    static const char *const leaves[] = {"kernel", "bias"};
    char name[64];
    char slot[64];
    for (int k = 0; k < 2; k++) {
        const int64_t shape[] = {k == 0 ? in : out, out};
        (void)snprintf(name, sizeof name, "%s/%s", layer, leaves[k]);
        (void)snprintf(slot, sizeof slot, "optimizer/%s_%s_momentum", layer, leaves[k]);
        if (saved) {
            saved_tensor(f, name, PAWL_F32, 2 - k, shape + k);
            saved_slot(f, slot, name, "momentum", 2 - k, shape + k);
        } else {
            state_tensor(f, name, PAWL_F32, 2 - k, shape + k);
            state_slot(f, slot, name, "momentum", 2 - k, shape + k);
        }
    }
}

static void assert_exchanges_nothing(fixture *f) {
    for (size_t i = 0; i < f->match->pair_count; i++) {
        const char *from = f->match->pairs[i].source->name;
        const char *to = f->match->pairs[i].wanted->name;
        bool first = strstr(from, "dense_1") == NULL;
        assert_int_equal(first, strstr(to, "dense_2") == NULL);
    }
}

static void follow_rules_of(fixture *f, pawl_severity severity) {
    static pawl_rename rules[64];
    size_t count = 0;
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        const pawl_report_item *it = item(f, i);
        bool asked = it->difference == PAWL_DIFF_RENAMED && it->severity == severity;
        for (size_t k = 0; asked && k < it->remedy_count; k++) {
            const char *from = it->remedies[k]->from;
            const char *to = it->remedies[k]->to;
            rules[count++] =
                (pawl_rename){fixture_copy(f, from, strlen(from)), fixture_copy(f, to, strlen(to))};
        }
    }
    assert_true(count > 0);
    f->options.renames = rules;
    f->options.rename_count = count;
    match(f);
}

/* Layers of one shape, numbered anew: all by one shift, as a question; not `dense` -> `dense_2`. */
static void test_r05_numbered_layers_of_one_shape_move_as_one(void **context) {
    fixture *f = *context;
    keras_layer(f, true, "dense", 6, 6);
    keras_layer(f, true, "dense_1", 6, 6);
    keras_layer(f, false, "dense_1", 6, 6);
    keras_layer(f, false, "dense_2", 6, 6);
    match(f);
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        for (size_t k = 0; k < item(f, i)->remedy_count; k++) {
            const pawl_remedy *r = item(f, i)->remedies[k];
            assert_false(r->from != NULL && strcmp(r->from, "dense") == 0 &&
                         strcmp(r->to, "dense_2") == 0);
        }
    }
    follow_rules_of(f, PAWL_SEVERITY_WARNING);
    assert_false(f->match->refused);
    assert_int_equal(f->match->pair_count, 8);
    assert_exchanges_nothing(f);
}

/* Shapes show that they were numbered anew: a suggestion, which restores by itself. */
static void test_r05_numbered_layers_of_other_shapes_move_as_one(void **context) {
    fixture *f = *context;
    keras_layer(f, true, "dense", 6, 7);
    keras_layer(f, true, "dense_1", 7, 3);
    keras_layer(f, false, "dense_1", 6, 7);
    keras_layer(f, false, "dense_2", 7, 3);
    match(f);
    const pawl_report_advice *next = pawl_report_next(f->report);
    assert_int_equal(next->remain, 0);
    assert_non_null(next->remedies[0]->from);
    follow_rules_of(f, PAWL_SEVERITY_NOTE);
    assert_false(f->match->refused);
    assert_int_equal(f->match->pair_count, 8);
    assert_exchanges_nothing(f);
}

/* The rules come first, and only what they leave is to be allowed. */
static void test_r05_only_what_the_rules_leave_is_to_be_allowed(void **context) {
    fixture *f = *context;
    saved_tensor(f, "encoder/w", PAWL_F32, SHAPE(3, 5));
    saved_tensor(f, "encoder/b", PAWL_F32, SHAPE(5));
    state_tensor(f, "enc/w", PAWL_F32, SHAPE(3, 5));
    state_tensor(f, "enc/b", PAWL_F32, SHAPE(5));
    state_tensor(f, "head", PAWL_F32, SHAPE(7));
    match(f);
    assert_next(f, 2, 0,
                "renamed? 2 entries match after \"encoder\" -> \"enc\"; add {\"encoder\", \"enc\"} "
                "to options.renames; set options.missing = PAWL_POLICY_ALLOW to keep the state's "
                "value; with these it restores 2 of the state's 3 entries, and 1 stays as it is");
}

/* Of one entry with another last name only its type speaks for the rename: it is a question, and no
 * part of what is advised. The prefix is renamed, though one entry of it went and another came. */
static void test_r05_one_entry_of_another_name_is_a_question(void **context) {
    fixture *f = *context;
    static const char *const names[] = {"in/w", "in/b", "mid/w", "mid/b", "output/w"};
    char name[32];
    for (int i = 0; i < 5; i++) {
        (void)snprintf(name, sizeof name, "net/%s", names[i]);
        saved_tensor(f, name, PAWL_F32, SHAPE(20 + i));
        (void)snprintf(name, sizeof name, "model/%s", names[i]);
        state_tensor(f, name, PAWL_F32, SHAPE(20 + i));
    }
    saved_tensor(f, "net/output/scale", PAWL_F32, SHAPE(9));
    state_tensor(f, "model/output/bias", PAWL_F32, SHAPE(9));
    match(f);
    const pawl_report_advice *next = pawl_report_next(f->report);
    size_t rules = 0;
    for (size_t i = 0; i < next->remedy_count; i++) {
        const pawl_remedy *r = next->remedies[i];
        rules += r->from != NULL;
        assert_true(r->from == NULL || strcmp(r->from, "net/output/scale") != 0);
    }
    assert_true(rules > 0);
    assert_int_equal(next->remedy_count, rules + 2);
    assert_int_equal(next->remain, 0);
    assert_int_equal(match_error(f->report, &f->err), PAWL_EMISMATCH);
    assert_says(f->err.next, "renamed? 1 entry matches after \"net/output/scale\" -> ");
}

/* ---- nothing -------------------------------------------------------------------------------- */

/* Allowing all that differs would restore nothing: that is not offered, on neither side. */
static void test_r13_allowing_everything_is_no_way_out(void **context) {
    fixture *f = *context;
    saved_tensor(f, "encoder/attention/query", PAWL_F32, SHAPE(3));
    state_tensor(f, "z", PAWL_F32, SHAPE(4));
    match(f);
    assert_false(is_offered_anywhere(f, "missing"));
    assert_false(is_offered_anywhere(f, "unexpected"));
    assert_next(f, 0, 2,
                "compare the names (pawl show lists the checkpoint's): as they are, no entry of "
                "the checkpoint fits one of the state; or restore another checkpoint");
}

/* ---- together ------------------------------------------------------------------------------- */

static void test_what_remains_is_said(void **context) {
    fixture *f = *context;
    both(f, "a", SHAPE(3));
    saved_tensor(f, "b", PAWL_F32, SHAPE(5));
    state_tensor(f, "c", PAWL_F32, SHAPE(7));
    saved_tensor(f, "d", PAWL_F32, SHAPE(2));
    state_tensor(f, "d", PAWL_F32, SHAPE(4));
    saved_tensor(f, "e", PAWL_I32, SHAPE(2));
    state_tensor(f, "e", PAWL_F32, SHAPE(2));
    match(f);
    assert_int_equal(find_item(f, PAWL_DIFF_MISSING, "c")->remains, 0);
    assert_int_equal(find_item(f, PAWL_DIFF_SHAPE, "d")->remains, 1);
    assert_int_equal(offered(find_item(f, PAWL_DIFF_MISSING, "c"), "missing")->remain, 3);
    assert_next(f, 2, 2,
                "set options.unexpected = PAWL_POLICY_ALLOW to leave it out, and set "
                "options.missing = PAWL_POLICY_ALLOW to keep the state's value; then 2 differences "
                "remain, first that of \"d\": build the model with the checkpoint's shape, or take "
                "the entry out of the state and set options.unexpected = PAWL_POLICY_ALLOW to "
                "leave it out; only F64, F32, F16 and BF16 are converted into each other: give the "
                "state the checkpoint's dtype");
}

/* Of a job a rank does not know whether the others fit, too. */
static void test_r11_a_rank_promises_nothing_for_the_others(void **context) {
    fixture *f = *context;
    both(f, "a", SHAPE(3));
    state_tensor(f, "b", PAWL_F32, SHAPE(3));
    f->job = true;
    f->world_size = 2;
    match(f);
    assert_int_equal(offered(find_item(f, PAWL_DIFF_MISSING, "b"), "missing")->remain, -1);
    assert_next(f, 1, -1, "set options.missing = PAWL_POLICY_ALLOW to keep the state's value");
}

/* A source that cannot begin anew: nothing is tried, and nothing is promised. */
static void test_nothing_is_promised_where_nothing_can_be_tried(void **context) {
    fixture *f = *context;
    both(f, "a", SHAPE(3));
    state_tensor(f, "b", PAWL_F32, SHAPE(3));
    match(f);
    entry_source once = fixture_source(f);
    once.again = NULL;
    pawl_report_free(f->report);
    match_free(f->match);
    f->match = NULL;
    assert_ok(report_new(&f->report, &f->err), &f->err);
    assert_ok(match_make(f->snapshot, once, &f->options, &alone, f->report, &f->match, &f->err),
              &f->err);
    assert_null(pawl_report_next(f->report));
    assert_int_equal(find_item(f, PAWL_DIFF_MISSING, "b")->remedies[0]->remain, -1);
    assert_int_equal(match_error(f->report, &f->err), PAWL_EMISMATCH);
    assert_string_equal(f->err.next,
                        "set options.missing = PAWL_POLICY_ALLOW to keep the state's value");
}

/* ---- cost ----------------------------------------------------------------------------------- */

typedef struct counting {
    fixture *f;
    int walks;
} counting;

static pawl_status counting_next(void *context, const record_entry **out, pawl_error *err) {
    counting *c = context;
    c->walks += c->f->next == 0;
    return fixture_next(c->f, out, err);
}

static pawl_status counting_again(void *context, pawl_error *err) {
    return fixture_again(((counting *)context)->f, err);
}

/* However many entries differ, there are as many trials as kinds of remedies. */
static void test_trials_do_not_grow_with_the_differences(void **context) {
    fixture *f = *context;
    char name[32];
    both(f, "a", SHAPE(3));
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(name, sizeof name, "lost/%d", i);
        saved_tensor(f, name, PAWL_F32, SHAPE(2));
        (void)snprintf(name, sizeof name, "new/%d", i);
        state_tensor(f, name, PAWL_F16, SHAPE(3));
        (void)snprintf(name, sizeof name, "other/%d", i);
        saved_tensor(f, name, PAWL_F32, SHAPE(2));
        state_tensor(f, name, PAWL_F32, SHAPE(4));
    }
    match(f);
    counting c = {.f = f};
    const entry_source source = {.context = &c, .next = counting_next, .again = counting_again};
    fixture_source(f);
    pawl_report *report = NULL;
    match_result *made = NULL;
    assert_ok(report_new(&report, &f->err), &f->err);
    assert_ok(match_make(f->snapshot, source, &f->options, &alone, report, &made, &f->err),
              &f->err);
    match_free(made);
    pawl_report_free(report);
    /* the match, all together, and each of: missing, unexpected, taken out */
    assert_int_equal(c.walks, 5);
}

/* ---- failures ------------------------------------------------------------------------------- */

static pawl_status prove_once(void *context, pawl_error *err) {
    fixture *f = context;
    match_result *made = NULL;
    pawl_report *report = NULL;
    pawl_status status = report_new(&report, err);
    if (status == PAWL_OK) {
        status =
            match_make(f->snapshot, fixture_source(f), &f->options, &alone, report, &made, err);
    }
    if (status == PAWL_OK && match_error(report, err) == PAWL_ENOMEM) {
        status = PAWL_ENOMEM;
    }
    match_free(made);
    pawl_report_free(report);
    return status;
}

static void everything(fixture *f) {
    both(f, "a", SHAPE(3));
    saved_tensor(f, "encoder/w", PAWL_F32, SHAPE(3, 5));
    state_tensor(f, "enc/w", PAWL_F16, SHAPE(3, 5));
    saved_tensor(f, "d", PAWL_F32, SHAPE(2));
    state_tensor(f, "d", PAWL_F32, SHAPE(4));
    state_tensor(f, "head", PAWL_F32, SHAPE(7));
    saved_slot(f, "opt/a", "a", "m", SHAPE(3));
}

static void test_each_allocation_fails_once(void **context) {
    fixture *f = *context;
    everything(f);
    match(f);
    assert_true(failing_memory_each(prove_once, f) > 100);
}

typedef struct breaking {
    fixture *f;
    int left;
} breaking;

static pawl_status breaking_next(void *context, const record_entry **out, pawl_error *err) {
    breaking *b = context;
    if (b->left-- == 0) {
        return error_set(err, PAWL_EIO, "the index cannot be read any more");
    }
    return fixture_next(b->f, out, err);
}

static pawl_status breaking_again(void *context, pawl_error *err) {
    return fixture_again(((breaking *)context)->f, err);
}

/* A trial that cannot read the entries ends the match as the match itself would. */
static void test_a_source_that_fails_in_a_trial_is_passed_up(void **context) {
    fixture *f = *context;
    everything(f);
    match(f);
    pawl_status status = PAWL_EIO;
    int n = 0;
    for (; status != PAWL_OK && n < 1000; n++) {
        breaking b = {.f = f, .left = n};
        const entry_source source = {.context = &b, .next = breaking_next, .again = breaking_again};
        pawl_report *report = NULL;
        match_result *made = NULL;
        fixture_source(f);
        assert_ok(report_new(&report, &f->err), &f->err);
        status = match_make(f->snapshot, source, &f->options, &alone, report, &made, &f->err);
        assert_true(status == PAWL_OK || status == PAWL_EIO);
        match_free(made);
        pawl_report_free(report);
    }
    assert_true(n > 20 && n < 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_BOTH(test_r01_model_only_is_not_offered_for_a_model_of_another_shape),
        WITH_BOTH(test_r06_model_only_is_not_offered_for_slots_of_other_shapes),
        WITH_BOTH(test_r06_model_only_together_with_what_the_model_lacks),
        WITH_BOTH(test_r13_an_advice_that_restores_almost_nothing_says_so),
        WITH_BOTH(test_r05_numbered_layers_of_one_shape_move_as_one),
        WITH_BOTH(test_r05_numbered_layers_of_other_shapes_move_as_one),
        WITH_BOTH(test_r05_only_what_the_rules_leave_is_to_be_allowed),
        WITH_BOTH(test_r05_one_entry_of_another_name_is_a_question),
        WITH_BOTH(test_r13_allowing_everything_is_no_way_out),
        WITH_BOTH(test_what_remains_is_said),
        WITH_BOTH(test_r11_a_rank_promises_nothing_for_the_others),
        WITH_BOTH(test_nothing_is_promised_where_nothing_can_be_tried),
        WITH_BOTH(test_trials_do_not_grow_with_the_differences),
        WITH_BOTH(test_each_allocation_fails_once),
        WITH_BOTH(test_a_source_that_fails_in_a_trial_is_passed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
