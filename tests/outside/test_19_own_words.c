/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A report advises in the words of the interface, and also as data, from which a caller makes words
 * of its own: setting a remedy's option to its value allows the difference that it was given for.
 */
#include "lib/directory.h"
#include "lib/follow_advice.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_RULES 8

typedef struct fixture {
    char path[64];
    pawl_error *err;
    pawl_run *run;
    float memory[64];
    char log[2000];
} fixture;

static void keep_log(void *context, pawl_log_level level, const char *text) {
    fixture *f = context;
    (void)level;
    (void)snprintf(f->log, sizeof f->log, "%s", text);
}

static void add(fixture *f, pawl_state *s, const char *name, pawl_dtype dtype, int64_t elements,
                const char *slot_of) {
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = dtype,
                                .ndim = 1,
                                .shape = &elements,
                                .data = f->memory,
                                .role = slot_of != NULL ? PAWL_ROLE_SLOT : PAWL_ROLE_MODEL,
                                .slot_of = slot_of,
                                .slot = slot_of != NULL ? "m" : NULL};
    assert_ok(pawl_state_add_tensor(s, &tensor, f->err), f->err);
}

/* What every state of these tests has, and a hyperparameter of that value. */
static pawl_state *build(fixture *f, const char *optimizer, double rate) {
    pawl_state *s = NULL;
    assert_ok(pawl_state_new(&s, f->err), f->err);
    add(f, s, "kept", PAWL_F32, 3, NULL);
    assert_ok(
        pawl_state_set_string(s, PAWL_OPTIMIZER_CLASS, PAWL_ROLE_HYPERPARAMETER, optimizer, f->err),
        f->err);
    assert_ok(pawl_state_set_float64(s, "rate", PAWL_ROLE_HYPERPARAMETER, rate, f->err), f->err);
    assert_ok(pawl_state_set_json(s, "batch", PAWL_ROLE_BATCH_SIGNATURE, rate > 0.5 ? "[2]" : "[1]",
                                  f->err),
              f->err);
    return s;
}

static int set_up(void **state) {
    fixture *f = *state = calloc(1, sizeof *f);
    const pawl_log log = {sizeof log, keep_log, f, PAWL_LOG_WARN};
    const pawl_run_options options = {
        .struct_size = sizeof options, .log = &log, .no_event_file = 1};
    directory_new(f->path, "/tmp");
    f->err = pawl_error_new();
    assert_ok(pawl_run_open(f->path, &options, &f->run, f->err), f->err);
    pawl_state *s = build(f, "adam", 0.1);
    add(f, s, "gone", PAWL_F32, 5, NULL);
    add(f, s, "half", PAWL_F32, 7, NULL);
    add(f, s, "opt/kept", PAWL_F32, 3, "kept");
    add(f, s, "old/w", PAWL_F32, 9, NULL);
    add(f, s, "old/b", PAWL_F32, 8, NULL);
    assert_ok(pawl_save(f->run, s, 1, NULL, f->err), f->err);
    assert_ok(pawl_wait(f->run, 60, NULL, f->err), f->err);
    pawl_state_free(s);
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    assert_ok(pawl_run_close(f->run, 60, f->err), f->err);
    pawl_error_free(f->err);
    directory_delete(f->path);
    free(f);
    return 0;
}

/* Everything differs: an entry less, one more, another dtype, name, optimizer, value. */
static pawl_state *build_another(fixture *f) {
    pawl_state *s = build(f, "sgd", 0.9);
    add(f, s, "half", PAWL_F16, 7, NULL);
    add(f, s, "more", PAWL_F32, 2, NULL);
    add(f, s, "new/w", PAWL_F32, 9, NULL);
    add(f, s, "new/b", PAWL_F32, 8, NULL);
    return s;
}

static const pawl_restore_options strict = {
    .struct_size = sizeof strict, .hyperparameter = PAWL_POLICY_ERROR, .batch = PAWL_POLICY_ERROR};

/* ---- a caller that knows nothing but names and values --------------------------------------- */

typedef struct asked {
    pawl_restore_options options;
    pawl_rename rules[MAX_RULES];
} asked;

static pawl_policy policy_of(const char *value) {
    static const char *const words[] = {"", "error", "allow", "checkpoint", "caller"};
    for (int i = 1; i < 5; i++) {
        if (strcmp(words[i], value) == 0) {
            return (pawl_policy)i;
        }
    }
    fail_msg("%s is no policy", value);
    return PAWL_POLICY_DEFAULT;
}

static void ask(asked *a, const pawl_remedy *remedy) {
    pawl_restore_options *o = &a->options;
    const struct {
        const char *name;
        pawl_policy *field;
    } policies[] = {{"missing", &o->missing}, {"unexpected", &o->unexpected},
                    {"cast", &o->cast},       {"hyperparameter", &o->hyperparameter},
                    {"batch", &o->batch},     {"per_rank", &o->per_rank}};
    if (strcmp(remedy->option, "model_only") == 0) {
        o->model_only = atoi(remedy->value); /* NOLINT(cert-err34-c) */
        return;
    }
    if (strcmp(remedy->option, "renames") == 0) {
        a->rules[o->rename_count++] = (pawl_rename){remedy->from, remedy->to};
        o->renames = a->rules;
        o->rename_size = sizeof *a->rules;
        return;
    }
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        if (strcmp(remedy->option, policies[i].name) == 0) {
            assert_int_equal(policy_of(remedy->value), remedy->policy);
            *policies[i].field = remedy->policy;
            return;
        }
    }
    fail_msg("%s is no option", remedy->option);
}

/* Does a report speak of that difference as an error? */
static int is_refused(const pawl_report *report, const pawl_report_item *like) {
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        if (item->difference == like->difference && item->severity == PAWL_SEVERITY_ERROR &&
            strcmp(item->name, like->name) == 0) {
            return 1;
        }
    }
    return 0;
}

static pawl_report *restore(fixture *f, const pawl_restore_options *options, pawl_status *status) {
    pawl_state *s = build_another(f);
    pawl_report *report = NULL;
    *status = pawl_restore(f->run, s, options, &report, f->err);
    pawl_state_free(s);
    return report;
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* Each remedy of each error, asked for by its own, allows that difference. */
static void test_each_remedy_allows_its_difference(void **state) {
    fixture *f = *state;
    pawl_status status = PAWL_OK;
    pawl_report *report = restore(f, &strict, &status);
    int remedies = 0;
    assert_int_equal(status, PAWL_EMISMATCH);
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        for (size_t k = 0; item->severity == PAWL_SEVERITY_ERROR && k < item->remedy_count; k++) {
            asked a = {.options = strict};
            ask(&a, item->remedies[k]);
            pawl_report *again = restore(f, &a.options, &status);
            int refused = is_refused(again, item);
            pawl_report_free(again);
            assert_false(refused);
            remedies++;
        }
    }
    assert_true(remedies >= 10);
    pawl_report_free(report);
}

/* All that the report says to ask for, the rename first: then everything is restored. */
static void test_all_remedies_together_restore(void **state) {
    fixture *f = *state;
    pawl_status status = PAWL_OK;
    pawl_report *report = restore(f, &strict, &status);
    asked a = {.options = strict};
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        for (size_t k = 0; k < item->remedy_count; k++) {
            if (strcmp(item->remedies[k]->option, "model_only") != 0) {
                ask(&a, item->remedies[k]);
            }
        }
    }
    assert_int_equal(a.options.rename_count, 1);
    assert_string_equal(a.rules[0].from, "old");
    assert_string_equal(a.rules[0].to, "new");
    pawl_report *again = restore(f, &a.options, &status);
    assert_ok(status, f->err);
    pawl_report_counts counts = {.struct_size = sizeof counts};
    assert_ok(pawl_report_totals(again, &counts, f->err), f->err);
    assert_int_equal(counts.restored, 4); /* kept, half, new/w and new/b */
    pawl_report_free(again);
    pawl_report_free(report);
}

static pawl_status restore_again(void *context, const pawl_restore_options *options,
                                 pawl_report **report) {
    pawl_status status = PAWL_OK;
    *report = restore(context, options, &status);
    return status;
}

static const char *why_it_failed(void *context) {
    return pawl_error_text(((fixture *)context)->err);
}

/* Each remedy leaves as many errors as it says, and what is advised together restores. */
static void test_what_is_advised_comes_true(void **state) {
    fixture *f = *state;
    pawl_status status = PAWL_OK;
    pawl_report *report = restore(f, &strict, &status);
    advised all = {
        .context = f, .restore = restore_again, .failure = why_it_failed, .options = strict};
    assert_int_equal(status, PAWL_EMISMATCH);
    assert_int_equal(pawl_report_next(report)->remain, 0);
    advice_follow(&all, report);
    assert_true(all.followed >= 10);
    pawl_report_free(report);
}

/* The sentence is the description, and the next step in the interface's own words. */
static void test_texts_name_the_options_of_the_interface(void **state) {
    fixture *f = *state;
    pawl_status status = PAWL_OK;
    pawl_report *report = restore(f, &strict, &status);
    assert_null(strstr(pawl_report_text(report), "--"));
    assert_null(strstr(pawl_error_text(f->err), "--"));
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        size_t length = strlen(item->description);
        assert_memory_equal(item->text, item->description, length);
        assert_null(strstr(item->description, "options."));
        assert_int_equal(item->change != NULL || item->remedy_count > 0, item->text[length] == ';');
        assert_true(item->change == NULL || strstr(item->change, "options.") == NULL);
    }
    assert_non_null(strstr(pawl_report_text(report),
                           "set options.unexpected = PAWL_POLICY_ALLOW to leave it out"));
    assert_non_null(strstr(pawl_report_text(report), "add {\"old\", \"new\"} to options.renames"));
    pawl_report_free(report);
}

/* Who takes the report has the next step from there; the log has it for those who do not. */
static void test_the_log_tells_what_a_report_does_not(void **state) {
    fixture *f = *state;
    pawl_state *s = build(f, "adam", 0.2);
    const pawl_restore_options options = {.struct_size = sizeof options,
                                          .unexpected = PAWL_POLICY_ALLOW};
    pawl_report *report = NULL;
    assert_ok(pawl_restore(f->run, s, &options, &report, f->err), f->err);
    assert_non_null(strstr(f->log, "\"rate\" is 0.1 in the checkpoint and 0.2 in the state"));
    assert_null(strstr(f->log, "options."));
    assert_string_equal(pawl_report_get(report, pawl_report_count(report) - 1)->remedies[0]->value,
                        "caller");
    pawl_report_free(report);
    assert_ok(pawl_state_set_float64(s, "rate", PAWL_ROLE_HYPERPARAMETER, 0.2, f->err), f->err);
    assert_ok(pawl_restore(f->run, s, &options, NULL, f->err), f->err);
    assert_non_null(strstr(f->log, "set options.hyperparameter = PAWL_POLICY_CALLER"));
    pawl_state_free(s);
}

int main(void) {
#define TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_each_remedy_allows_its_difference),
        TEST(test_all_remedies_together_restore),
        TEST(test_what_is_advised_comes_true),
        TEST(test_texts_name_the_options_of_the_interface),
        TEST(test_the_log_tells_what_a_report_does_not),
    };
    return cmocka_run_group_tests_name("advice in the caller's own words", tests, NULL, NULL);
}
