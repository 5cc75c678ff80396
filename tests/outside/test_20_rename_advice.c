/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rename advice never exchanges layers: where numbers changed it moves all siblings together, where
 * it does not show which is which it warns; two entries that become one are named as they were
 * saved.
 */
#include "lib/directory.h"
#include "lib/follow_advice.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_ENTRIES 32
#define MAX_RULES   32

/* An entry: its name, its shape, the number that it is filled with. A name with '@' is a slot of
 * the variable behind it, one that ends in '~' is of BF16. */
typedef struct entry {
    const char *name;
    int64_t shape;
    float is;
} entry;

typedef struct fixture {
    char path[64];
    pawl_error *err;
    pawl_run *run;
    float memory[MAX_ENTRIES][8];
    pawl_report *report;
    pawl_rename rules[MAX_RULES];
    pawl_restore_options options;
} fixture;

static void add(fixture *f, pawl_state *s, const entry *e, float *memory) {
    char name[128];
    (void)snprintf(name, sizeof name, "%s", e->name);
    char *variable = strchr(name, '@');
    if (variable != NULL) {
        *variable++ = '\0';
    }
    bool half = name[strlen(name) - 1] == '~';
    name[strlen(name) - (half ? 1 : 0)] = '\0';
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = half ? PAWL_BF16 : PAWL_F32,
                                .ndim = 1,
                                .shape = &e->shape,
                                .data = memory,
                                .role = variable != NULL ? PAWL_ROLE_SLOT : PAWL_ROLE_MODEL,
                                .slot_of = variable,
                                .slot = variable != NULL ? "m" : NULL};
    assert_ok(pawl_state_add_tensor(s, &tensor, f->err), f->err);
}

/* Filled with what they are, or with nothing. */
static pawl_state *build(fixture *f, const entry *entries, int n, int filled) {
    pawl_state *s = NULL;
    assert_ok(pawl_state_new(&s, f->err), f->err);
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < 8; i++) {
            f->memory[k][i] = filled ? entries[k].is : 0;
        }
        add(f, s, &entries[k], f->memory[k]);
    }
    return s;
}

static void save(fixture *f, const entry *entries, int n) {
    pawl_state *s = build(f, entries, n, 1);
    assert_ok(pawl_save(f->run, s, 1, NULL, f->err), f->err);
    assert_ok(pawl_wait(f->run, 60, NULL, f->err), f->err);
    pawl_state_free(s);
}

typedef struct again {
    fixture *f;
    const entry *entries;
    int n;
} again;

static pawl_status restore_again(void *context, const pawl_restore_options *options,
                                 pawl_report **report) {
    const again *a = context;
    pawl_state *s = build(a->f, a->entries, a->n, 0);
    pawl_status status = pawl_restore(a->f->run, s, options, report, a->f->err);
    pawl_state_free(s);
    return status;
}

static const char *why_it_failed(void *context) {
    return pawl_error_text(((const again *)context)->f->err);
}

/* What a refused restore advises is followed, too; that error is the one that is left. */
static pawl_status restore(fixture *f, const entry *entries, int n) {
    again same = {f, entries, n};
    pawl_report_free(f->report);
    f->report = NULL;
    f->options.struct_size = sizeof f->options;
    pawl_status status = restore_again(&same, &f->options, &f->report);
    if (status == PAWL_EMISMATCH) {
        advised all = {.context = &same,
                       .restore = restore_again,
                       .failure = why_it_failed,
                       .options = f->options};
        advice_follow(&all, f->report);
        pawl_report *ignored = NULL;
        status = restore_again(&same, &f->options, &ignored);
        pawl_report_free(ignored);
    }
    return status;
}

static const pawl_report_item *find_renamed(fixture *f, pawl_severity severity) {
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        const pawl_report_item *item = pawl_report_get(f->report, i);
        if (item->difference == PAWL_DIFF_RENAMED && item->severity == severity) {
            return item;
        }
    }
    return NULL;
}

/* Asks for what all suggestions of that severity say. */
static void follow(fixture *f, pawl_severity severity) {
    size_t count = 0;
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        const pawl_report_item *item = pawl_report_get(f->report, i);
        bool asked = item->difference == PAWL_DIFF_RENAMED && item->severity == severity;
        for (size_t k = 0; asked && k < item->remedy_count; k++) {
            if (item->remedies[k]->from != NULL) {
                f->rules[count++] =
                    (pawl_rename){strdup(item->remedies[k]->from), strdup(item->remedies[k]->to)};
            } else {
                assert_string_equal(item->remedies[k]->option, "cast");
                f->options.cast = item->remedies[k]->policy;
            }
        }
    }
    f->options.renames = f->rules;
    f->options.rename_count = count;
    f->options.rename_size = sizeof(pawl_rename);
}

static void assert_restored(fixture *f, const entry *entries, int n) {
    assert_ok(restore(f, entries, n), f->err);
    for (int k = 0; k < n; k++) {
        if (strchr(entries[k].name, '~') == NULL && f->memory[k][0] != entries[k].is) {
            fail_msg("%s got %g of another", entries[k].name, (double)f->memory[k][0]);
        }
    }
}

#define ENTRIES(list) (list), (int)(sizeof(list) / sizeof *(list))

static int set_up(void **state) {
    fixture *f = *state = calloc(1, sizeof *f);
    const pawl_run_options options = {.struct_size = sizeof options, .no_event_file = 1};
    directory_new(f->path, "/tmp");
    f->err = pawl_error_new();
    assert_ok(pawl_run_open(f->path, &options, &f->run, f->err), f->err);
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    assert_ok(pawl_run_close(f->run, 60, f->err), f->err);
    pawl_report_free(f->report);
    pawl_error_free(f->err);
    for (int i = 0; i < MAX_RULES; i++) {
        free((char *)(uintptr_t)f->rules[i].from);
        free((char *)(uintptr_t)f->rules[i].to);
    }
    directory_delete(f->path);
    free(f);
    return 0;
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* Nothing shows whether the layers were numbered anew: no suggestion, and a warning that the name
 * which matches may be another layer's; all renames together where they were. */
static void test_siblings_that_are_alike_are_a_warning(void **state) {
    fixture *f = *state;
    static const entry saved[] = {{"dense/w", 4, 1}, {"dense_1/w", 4, 2}};
    static const entry wanted[] = {{"dense_1/w", 4, 1}, {"dense_2/w", 4, 2}};
    save(f, ENTRIES(saved));
    assert_int_equal(restore(f, ENTRIES(wanted)), PAWL_EMISMATCH);
    assert_null(find_renamed(f, PAWL_SEVERITY_NOTE));
    const pawl_report_item *warning = find_renamed(f, PAWL_SEVERITY_WARNING);
    assert_non_null(warning);
    assert_string_equal(
        warning->text,
        "renumbered? \"dense\" -> \"dense_1\", \"dense_1\" -> \"dense_2\" would pair 2 entries; "
        "their names differ in numbers alone, so those that match by name may have been "
        "renumbered, "
        "too; compare the two models, and if their entries were renumbered, add {\"dense\", "
        "\"dense_1\"}, {\"dense_1\", \"dense_2\"} to options.renames, all of them");
    assert_non_null(strstr(pawl_error_text(f->err),
                           "to options.renames, all of them; if they were not, set options."
                           "unexpected = PAWL_POLICY_ALLOW to leave it out, and set options."));
    follow(f, PAWL_SEVERITY_WARNING);
    assert_restored(f, ENTRIES(wanted));
}

/* Even where what is left over is allowed, it is said. */
static void test_the_warning_comes_with_a_restore_that_works(void **state) {
    fixture *f = *state;
    static const entry saved[] = {{"dense/w", 4, 1}, {"dense_1/w", 4, 2}};
    static const entry wanted[] = {{"dense_1/w", 4, 2}, {"dense_2/w", 4, 0}};
    save(f, ENTRIES(saved));
    f->options.missing = PAWL_POLICY_ALLOW;
    f->options.unexpected = PAWL_POLICY_ALLOW;
    assert_restored(f, ENTRIES(wanted));
    assert_non_null(find_renamed(f, PAWL_SEVERITY_WARNING));
}

/* Shapes show it: each kernel has its place, and the biases, which are alike, go along. */
static void test_siblings_that_shapes_tell_apart_move_together(void **state) {
    fixture *f = *state;
    static const entry saved[] = {{"dense/kernel", 3, 1},
                                  {"dense/bias", 4, 2},
                                  {"dense_1/kernel", 5, 3},
                                  {"dense_1/bias", 4, 4},
                                  {"m/dense/kernel@dense/kernel", 3, 5},
                                  {"m/dense/bias@dense/bias", 1, 6},
                                  {"m/dense_1/kernel@dense_1/kernel", 5, 7},
                                  {"m/dense_1/bias@dense_1/bias", 1, 8}};
    static const entry wanted[] = {{"dense_1/kernel", 3, 1},
                                   {"dense_1/bias", 4, 2},
                                   {"dense_2/kernel", 5, 3},
                                   {"dense_2/bias", 4, 4},
                                   {"m/dense_1/kernel@dense_1/kernel", 3, 5},
                                   {"m/dense_1/bias@dense_1/bias", 1, 6},
                                   {"m/dense_2/kernel@dense_2/kernel", 5, 7},
                                   {"m/dense_2/bias@dense_2/bias", 1, 8}};
    save(f, ENTRIES(saved));
    assert_int_equal(restore(f, ENTRIES(wanted)), PAWL_EMISMATCH);
    const pawl_report_item *note = find_renamed(f, PAWL_SEVERITY_NOTE);
    assert_non_null(note);
    assert_int_equal(note->count, 8);
    assert_int_equal(note->remedy_count, 4);
    follow(f, PAWL_SEVERITY_NOTE);
    assert_restored(f, ENTRIES(wanted));
}

/* Layers of a list, named as PyTorch does: one rule for each entry, and all of them one shift. */
static void test_a_list_of_layers_moves_as_one(void **state) {
    fixture *f = *state;
    char names[2][24][32];
    entry saved[24];
    entry wanted[24];
    for (int i = 0; i < 12; i++) {
        for (int side = 0; side < 2; side++) {
            (void)snprintf(names[side][i], 32, "layers.%d.weight", i + 12 * side);
            (void)snprintf(names[side][i + 12], 32, "layers.%d.bias", i + 12 * side);
        }
        saved[i] = (entry){.name = names[0][i], .shape = 4, .is = (float)(i + 1)};
        saved[i + 12] = (entry){.name = names[0][i + 12], .shape = 2, .is = (float)(i + 101)};
        wanted[i] = (entry){.name = names[1][i], .shape = 4, .is = (float)(i + 1)};
        wanted[i + 12] = (entry){.name = names[1][i + 12], .shape = 2, .is = (float)(i + 101)};
    }
    save(f, saved, 24);
    assert_int_equal(restore(f, wanted, 24), PAWL_EMISMATCH);
    const pawl_report_item *note = find_renamed(f, PAWL_SEVERITY_NOTE);
    assert_non_null(note);
    assert_int_equal(note->count, 24);
    follow(f, PAWL_SEVERITY_NOTE);
    assert_restored(f, wanted, 24);
}

/* One layer less, and all alike: which one went does not show, and no rename is suggested. */
static void test_a_layer_that_went_is_not_guessed(void **state) {
    fixture *f = *state;
    static const entry saved[] = {{"b_3/w", 4, 1}, {"b_4/w", 4, 2}, {"b_5/w", 4, 3}};
    static const entry wanted[] = {{"b_1/w", 4, 1}, {"b_2/w", 4, 3}};
    save(f, ENTRIES(saved));
    assert_int_equal(restore(f, ENTRIES(wanted)), PAWL_EMISMATCH);
    assert_null(find_renamed(f, PAWL_SEVERITY_NOTE));
}

/* Another prefix and other numbers at once. */
static void test_a_prefix_and_numbers_are_not_guessed(void **state) {
    fixture *f = *state;
    static const entry saved[] = {{"old/0/w", 4, 1}, {"old/1/w", 4, 2}, {"old/2/w", 4, 3}};
    static const entry wanted[] = {{"new/1/w", 4, 1}, {"new/2/w", 4, 2}, {"new/3/w", 4, 3}};
    save(f, ENTRIES(saved));
    assert_int_equal(restore(f, ENTRIES(wanted)), PAWL_EMISMATCH);
    assert_null(find_renamed(f, PAWL_SEVERITY_NOTE));
}

/* Two prefixes for one, as good as each other. */
static void test_two_prefixes_that_do_as_well_are_none(void **state) {
    fixture *f = *state;
    static const entry saved[] = {{"encoder/w", 4, 1}, {"encoder/b", 2, 2}};
    static const entry wanted[] = {
        {"encoder_a/w", 4, 1}, {"encoder_a/b", 2, 2}, {"encoder_b/w", 4, 1}, {"encoder_b/b", 2, 2}};
    save(f, ENTRIES(saved));
    assert_int_equal(restore(f, ENTRIES(wanted)), PAWL_EMISMATCH);
    assert_null(find_renamed(f, PAWL_SEVERITY_NOTE));
}

/* One part of a model takes over the words that another gives up: each of its entries keeps the
 * beginning of its name in one candidate, and the end in another. */
static void test_words_that_change_their_place_are_not_guessed(void **state) {
    fixture *f = *state;
    static const struct {
        entry saved[4], wanted[4];
    } cases[] = {{{{"decoder/block_1/kernel", 4, 3},
                   {"decoder/block_2/kernel", 5, 4},
                   {"encoder/layers_1/kernel", 4, 1},
                   {"encoder/layers_2/kernel", 5, 2}},
                  {{"decoder/dense_1/kernel", 4, 3},
                   {"decoder/dense_2/kernel", 5, 4},
                   {"encoder/block_1/kernel", 4, 1},
                   {"encoder/block_2/kernel", 5, 2}}},
                 {{{"decoder/layers_0/kernel", 4, 3},
                   {"decoder/layers_1/kernel", 5, 4},
                   {"encoder/layers/0/kernel", 4, 1},
                   {"encoder/layers/1/kernel", 5, 2}},
                  {{"decoder/layers/0/kernel", 4, 3},
                   {"decoder/layers/1/kernel", 5, 4},
                   {"encoder/layers0/kernel", 4, 1},
                   {"encoder/layers1/kernel", 5, 2}}},
                 {{{"decoder/block_1/kernel", 4, 3},
                   {"decoder/block_2/kernel", 5, 4},
                   {"layers_1/kernel", 4, 1},
                   {"layers_2/kernel", 5, 2}},
                  {{"block_1/kernel", 4, 1},
                   {"block_2/kernel", 5, 2},
                   {"decoder/dense_1/kernel", 4, 3},
                   {"decoder/dense_2/kernel", 5, 4}}}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        save(f, cases[i].saved, 4);
        assert_int_equal(restore(f, cases[i].wanted, 4), PAWL_EMISMATCH);
        assert_null(find_renamed(f, PAWL_SEVERITY_NOTE));
    }
}

/* A prefix is the same prefix in another dtype; the cast is asked for as well. */
static void test_a_prefix_survives_another_dtype(void **state) {
    fixture *f = *state;
    static const entry saved[] = {{"module/w", 4, 1}, {"module/b", 2, 2}};
    static const entry wanted[] = {{"w~", 4, 1}, {"b", 2, 2}};
    save(f, ENTRIES(saved));
    assert_int_equal(restore(f, ENTRIES(wanted)), PAWL_EMISMATCH);
    assert_non_null(find_renamed(f, PAWL_SEVERITY_NOTE));
    follow(f, PAWL_SEVERITY_NOTE);
    assert_string_equal(f->rules[0].from, "module");
    assert_string_equal(f->rules[0].to, "");
    assert_restored(f, ENTRIES(wanted));
}

/* ---- rules ---------------------------------------------------------------------------------- */

/* Both are named as they were saved: in the difference and in the error. */
static void test_two_that_become_one_are_named(void **state) {
    fixture *f = *state;
    static const entry saved[] = {{"first/w", 4, 1}, {"second/w", 4, 2}};
    static const entry wanted[] = {{"third/w", 4, 1}};
    static const pawl_rename rules[] = {{"first", "third"}, {"second", "third"}};
    save(f, ENTRIES(saved));
    f->options.renames = rules;
    f->options.rename_count = 2;
    f->options.rename_size = sizeof(pawl_rename);
    assert_int_equal(restore(f, ENTRIES(wanted)), PAWL_EMISMATCH);
    const char *attempt = pawl_error_get(f->err, PAWL_ERROR_ATTEMPT);
    assert_says(attempt, "\"first/w\" and \"second/w\" of the checkpoint both become \"third/w\"");
    const pawl_report_item *item = find_renamed(f, PAWL_SEVERITY_ERROR);
    assert_string_equal(item->name, "second/w");
    assert_string_equal(item->saved_as, "first/w");
}

/* The same where the state has nothing of that name. */
static void test_two_that_become_one_that_is_not_wanted_are_named(void **state) {
    fixture *f = *state;
    static const entry saved[] = {{"a", 4, 1}, {"b", 4, 2}, {"c", 4, 3}};
    static const entry wanted[] = {{"c", 4, 3}};
    static const pawl_rename rules[] = {{"a", "b"}};
    save(f, ENTRIES(saved));
    f->options.renames = rules;
    f->options.rename_count = 1;
    f->options.rename_size = sizeof(pawl_rename);
    assert_int_equal(restore(f, ENTRIES(wanted)), PAWL_EMISMATCH);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                "\"b\" (saved as \"a\"), [4] F32 in the checkpoint, is not in the state");
}

/* Empty names: in front of all, taken away, and of a whole name nothing is left. */
static void test_empty_names_in_rules(void **state) {
    fixture *f = *state;
    static const entry saved[] = {{"a/w", 4, 1}, {"b", 4, 2}};
    static const entry front[] = {{"x/a/w", 4, 1}, {"x/b", 4, 2}};
    static const entry away[] = {{"w", 4, 1}, {"b", 4, 2}};
    static const entry same[] = {{"a/w", 4, 1}, {"b", 4, 2}};
    static const pawl_rename rules[] = {{"", "x"}, {"a", ""}, {"", ""}, {"b", ""}, {"a/", "c/"}};
    save(f, ENTRIES(saved));
    f->options.rename_count = 1;
    f->options.rename_size = sizeof(pawl_rename);
    f->options.renames = &rules[0];
    assert_restored(f, ENTRIES(front));
    f->options.renames = &rules[1];
    assert_restored(f, ENTRIES(away));
    f->options.renames = &rules[2];
    assert_restored(f, ENTRIES(same));
    f->options.renames = &rules[3];
    assert_int_equal(restore(f, ENTRIES(same)), PAWL_EUSAGE);
    f->options.renames = &rules[4];
    assert_int_equal(restore(f, ENTRIES(same)), PAWL_EUSAGE);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                "options.renames[0].from can match no name");
    f->options.renames = NULL;
    f->options.rename_count = 0;
    f->options.rename_size = sizeof(pawl_rename);
}

int main(void) {
#define TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_siblings_that_are_alike_are_a_warning),
        TEST(test_the_warning_comes_with_a_restore_that_works),
        TEST(test_siblings_that_shapes_tell_apart_move_together),
        TEST(test_a_list_of_layers_moves_as_one),
        TEST(test_a_layer_that_went_is_not_guessed),
        TEST(test_a_prefix_and_numbers_are_not_guessed),
        TEST(test_two_prefixes_that_do_as_well_are_none),
        TEST(test_words_that_change_their_place_are_not_guessed),
        TEST(test_a_prefix_survives_another_dtype),
        TEST(test_two_that_become_one_are_named),
        TEST(test_two_that_become_one_that_is_not_wanted_are_named),
        TEST(test_empty_names_in_rules),
    };
    return cmocka_run_group_tests_name("rename advice", tests, NULL, NULL);
}
