/* SPDX-License-Identifier: Apache-2.0 */
/* R05: rename rules, and the rules that are suggested where names changed. */
#include "lib/failing_memory.h"
#include "match/numbers.h"
#include "unit/match/fixture.h"

#include <stdio.h>
#include <time.h>

static void with_rules(fixture *f, const pawl_rename *rules, size_t n) {
    f->options.renames = rules;
    f->options.rename_count = n;
    match(f);
}

/* ---- rules ---------------------------------------------------------------------------------- */

static void test_r05_rule_pairs_entries_under_a_prefix(void **context) {
    fixture *f = *context;
    const pawl_rename rules[] = {{"dense", "dense_1"}};
    saved_tensor(f, "dense/kernel", PAWL_F32, SHAPE(3));
    saved_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(3));
    saved_tensor(f, "dense_2/kernel", PAWL_F32, SHAPE(3));
    state_tensor(f, "dense_1/kernel", PAWL_F32, SHAPE(3));
    state_slot(f, "opt/m", "dense_1/kernel", "adam/m", SHAPE(3));
    state_tensor(f, "dense_2/kernel", PAWL_F32, SHAPE(3));
    with_rules(f, rules, 1);
    assert_int_equal(pawl_report_count(f->report), 0);
    assert_int_equal(f->match->pair_count, 3);
    assert_string_equal(f->match->pairs[0].source->name, "dense/kernel");
    assert_string_equal(f->match->pairs[0].wanted->name, "dense_1/kernel");
}

static void assert_renamed(fixture *f, const char *from, const char *to, const char *saved,
                           const char *wanted) {
    const pawl_rename rules[] = {{from, to}};
    saved_tensor(f, saved, PAWL_F32, SHAPE(3));
    state_tensor(f, wanted, PAWL_F32, SHAPE(3));
    with_rules(f, rules, 1);
    assert_int_equal(pawl_report_count(f->report), 0);
    assert_int_equal(f->match->pair_count, 1);
}

static void test_r05_rule_fits_a_whole_name(void **context) {
    assert_renamed(*context, "dense", "head", "dense", "head");
}

static void test_r05_empty_target_takes_a_prefix_away(void **context) {
    assert_renamed(*context, "module", "", "module/dense", "dense");
}

static void test_r05_empty_source_puts_a_prefix_in_front(void **context) {
    assert_renamed(*context, "", "module", "dense", "module/dense");
}

static void test_r05_first_rule_that_fits_is_taken(void **context) {
    fixture *f = *context;
    const pawl_rename rules[] = {{"x", "y"}, {"a/b", "c"}, {"a", "d"}, {"c", "e"}};
    saved_tensor(f, "a/b/k", PAWL_F32, SHAPE(3));
    saved_tensor(f, "a/z/k", PAWL_F32, SHAPE(3));
    state_tensor(f, "c/k", PAWL_F32, SHAPE(3));
    state_tensor(f, "d/z/k", PAWL_F32, SHAPE(3));
    with_rules(f, rules, 4);
    assert_int_equal(pawl_report_count(f->report), 0);
    assert_int_equal(f->match->pair_count, 2);
}

static void test_r05_two_entries_on_one_name_are_an_error(void **context) {
    fixture *f = *context;
    const pawl_rename rules[] = {{"a", "c"}, {"b", "c"}};
    saved_tensor(f, "a/k", PAWL_F32, SHAPE(3));
    saved_tensor(f, "b/k", PAWL_F32, SHAPE(3));
    state_tensor(f, "c/k", PAWL_F32, SHAPE(3));
    with_rules(f, rules, 2);
    assert_int_equal(pawl_report_count(f->report), 1);
    assert_int_equal(item(f, 0)->severity, PAWL_SEVERITY_ERROR);
    assert_string_equal(item(f, 0)->text,
                        "\"a/k\" and \"b/k\" of the checkpoint both become \"c/k\" by the rename "
                        "rules; correct the rename rules");
    assert_true(f->match->refused);
}

static void test_r05_rule_that_makes_no_name_is_refused(void **context) {
    fixture *f = *context;
    const pawl_rename rules[] = {{"a", "../b"}};
    saved_tensor(f, "a/k", PAWL_F32, SHAPE(3));
    state_tensor(f, "b/k", PAWL_F32, SHAPE(3));
    f->options.renames = rules;
    f->options.rename_count = 1;
    assert_int_equal(try_match(f), PAWL_EUSAGE);
    assert_status_text(
        &f->err, PAWL_EUSAGE,
        "the rename rule {\"a\", \"../b\"} makes a name that has a component \"..\"\n"
        "  entry:    a/k\n"
        "  found:    \"../b/k\"\n"
        "  next:     mend options.renames");
}

static void test_r05_rule_without_names_is_refused(void **context) {
    fixture *f = *context;
    const pawl_rename rules[] = {{"a", "b"}, {NULL, "c"}};
    f->options.renames = rules;
    f->options.rename_count = 2;
    assert_int_equal(try_match(f), PAWL_EUSAGE);
    assert_string_equal(f->err.attempt, "cannot restore: options.renames[1] has a NULL name");
}

/* ---- suggestions ---------------------------------------------------------------------------- */

static size_t suggestions(fixture *f, const pawl_report_item **first) {
    size_t n = 0;
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        const pawl_report_item *it = item(f, i);
        if (it->difference == PAWL_DIFF_RENAMED && it->severity == PAWL_SEVERITY_NOTE) {
            *first = n++ == 0 ? it : *first;
        }
    }
    return n;
}

static void assert_one_suggestion(fixture *f, const char *text) {
    const pawl_report_item *only = NULL;
    match(f);
    assert_int_equal(suggestions(f, &only), 1);
    assert_string_equal(only->text, text);
}

static char *long_name(fixture *f, size_t head, size_t tail, const char *ending) {
    char *name = arena_alloc(&f->memory, head + tail + 32);
    assert_non_null(name);
    memset(name, 'n', head);
    name[head] = '/';
    memset(name + head + 1, 'm', tail);
    (void)snprintf(name + head + 1 + tail, 31, "%s", ending);
    return name;
}

/* The prefix's rule would make a name of 1100 bytes of the entry beside: the whole name's does. */
static void test_r05_suggestion_that_would_make_a_long_name(void **context) {
    fixture *f = *context;
    const pawl_report_item *only = NULL;
    saved_tensor(f, long_name(f, 400, 0, "w"), PAWL_F32, SHAPE(3));
    saved_tensor(f, long_name(f, 400, 600, ""), PAWL_F32, SHAPE(4));
    state_tensor(f, long_name(f, 500, 0, "w"), PAWL_F32, SHAPE(3));
    match(f);
    assert_int_equal(suggestions(f, &only), 1);
    assert_int_equal(only->count, 1);
    assert_string_equal(only->remedies[0]->from, long_name(f, 400, 0, "w"));
}

/* Layers of kernel and bias, each of its own shape. */
static void add_layers(fixture *f, int layers, const char *saved, const char *wanted) {
    char name[64];
    for (int i = 0; i < layers; i++) {
        for (int bias = 0; bias < 2; bias++) {
            const char *leaf = bias ? "bias" : "kernel";
            int64_t shape[] = {10 + i, bias ? 1 : 5};
            snprintf(name, sizeof(name), "%s/%d/%s", saved, i, leaf);
            saved_tensor(f, name, PAWL_F32, 2, shape);
            snprintf(name, sizeof(name), "%s/%d/%s", wanted, i, leaf);
            state_tensor(f, name, PAWL_F32, 2, shape);
        }
    }
}

static void test_r05_suggests_a_renamed_layer(void **context) {
    fixture *f = *context;
    add_layers(f, 12, "dense", "dense_1");
    const pawl_report_item *only = NULL;
    match(f);
    assert_int_equal(suggestions(f, &only), 1);
    assert_string_equal(only->text, "renamed? 24 entries match after \"dense\" -> \"dense_1\"; add "
                                    "{\"dense\", \"dense_1\"} to options.renames");
    assert_string_equal(only->name, "dense");
    assert_string_equal(only->other_name, "dense_1");
    assert_int_equal(only->count, 24);
    assert_true(f->match->refused); /* a suggestion changes nothing by itself */
}

/* What is suggested works. */
static void test_r05_suggestion_pairs_everything(void **context) {
    fixture *f = *context;
    const pawl_rename rules[] = {{"dense", "dense_1"}};
    add_layers(f, 12, "dense", "dense_1");
    with_rules(f, rules, 1);
    assert_int_equal(pawl_report_count(f->report), 0);
    assert_int_equal(f->match->pair_count, 24);
}

static void test_r05_suggests_taking_a_prefix_away(void **context) {
    fixture *f = *context;
    add_layers(f, 3, "module/encoder", "encoder");
    assert_one_suggestion(f, "renamed? 6 entries match after \"module\" -> \"\"; add {\"module\", "
                             "\"\"} to options.renames");
}

static void test_r05_suggests_putting_a_prefix_in_front(void **context) {
    fixture *f = *context;
    add_layers(f, 3, "encoder", "model/encoder");
    assert_one_suggestion(f, "renamed? 6 entries match after \"\" -> \"model\"; add {\"\", "
                             "\"model\"} to options.renames");
}

/* Some of what stands below the prefix still matches: the rule must not take it along. */
static void test_r05_suggestion_breaks_no_pair(void **context) {
    fixture *f = *context;
    saved_tensor(f, "net/a/kernel", PAWL_F32, SHAPE(3));
    state_tensor(f, "net/a/kernel", PAWL_F32, SHAPE(3));
    saved_tensor(f, "net/b/kernel", PAWL_F32, SHAPE(4));
    state_tensor(f, "net2/b/kernel", PAWL_F32, SHAPE(4));
    assert_one_suggestion(f, "renamed? 1 entry matches after \"net/b\" -> \"net2/b\"; add "
                             "{\"net/b\", \"net2/b\"} to options.renames");
}

/* The same where other names stand between the prefix and what is below it. */
static void test_r05_suggestion_breaks_no_pair_far_away(void **context) {
    fixture *f = *context;
    char name[32];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "net-%d", i);
        saved_tensor(f, name, PAWL_F32, SHAPE(3));
        state_tensor(f, name, PAWL_F32, SHAPE(3));
    }
    saved_tensor(f, "net/a/kernel", PAWL_F32, SHAPE(3));
    state_tensor(f, "net/a/kernel", PAWL_F32, SHAPE(3));
    saved_tensor(f, "net/b/kernel", PAWL_F32, SHAPE(4));
    state_tensor(f, "net2/b/kernel", PAWL_F32, SHAPE(4));
    assert_one_suggestion(f, "renamed? 1 entry matches after \"net/b\" -> \"net2/b\"; add "
                             "{\"net/b\", \"net2/b\"} to options.renames");
}

/* An entry of just the prefix's name is below the rule as well. */
static void test_r05_suggestion_leaves_an_entry_of_the_prefix(void **context) {
    fixture *f = *context;
    saved_tensor(f, "net", PAWL_F32, SHAPE(3));
    state_tensor(f, "net", PAWL_F32, SHAPE(3));
    saved_tensor(f, "net/b/kernel", PAWL_F32, SHAPE(4));
    state_tensor(f, "net2/b/kernel", PAWL_F32, SHAPE(4));
    assert_one_suggestion(f, "renamed? 1 entry matches after \"net/b\" -> \"net2/b\"; add "
                             "{\"net/b\", \"net2/b\"} to options.renames");
}

static void test_r05_suggests_a_renamed_leaf(void **context) {
    fixture *f = *context;
    saved_tensor(f, "dense/gamma", PAWL_F32, SHAPE(3));
    saved_tensor(f, "dense/kernel", PAWL_F32, SHAPE(3));
    state_tensor(f, "dense/gamma_1", PAWL_F32, SHAPE(3));
    state_tensor(f, "dense/kernel", PAWL_F32, SHAPE(3));
    assert_one_suggestion(f, "renamed? 1 entry matches after \"dense/gamma\" -> \"dense/gamma_1\"; "
                             "add {\"dense/gamma\", \"dense/gamma_1\"} to options.renames");
}

static void assert_no_suggestion(fixture *f) {
    const pawl_report_item *first = NULL;
    match(f);
    assert_int_equal(suggestions(f, &first), 0);
}

static void test_r05_other_shapes_are_not_paired(void **context) {
    saved_tensor(*context, "dense/kernel", PAWL_F32, SHAPE(3));
    state_tensor(*context, "dense_1/kernel", PAWL_F32, SHAPE(4));
    assert_no_suggestion(*context);
}

/* A cast is another option, and needed as well. */
static void test_r05_other_dtypes_that_can_be_cast_are_paired(void **context) {
    saved_tensor(*context, "dense/kernel", PAWL_F32, SHAPE(3));
    state_tensor(*context, "dense_1/kernel", PAWL_F16, SHAPE(3));
    assert_one_suggestion(*context,
                          "renamed? 1 entry matches after \"dense\" -> \"dense_1\"; add "
                          "{\"dense\", \"dense_1\"} to options.renames, and set options.cast = "
                          "PAWL_POLICY_ALLOW to convert what has another dtype");
    const pawl_report_item *only = NULL;
    assert_int_equal(suggestions(*context, &only), 1);
    assert_int_equal(only->remedy_count, 2);
    assert_string_equal(only->remedies[1]->option, "cast");
}

static void test_r05_other_dtypes_that_cannot_be_cast_are_not_paired(void **context) {
    saved_tensor(*context, "dense/kernel", PAWL_F32, SHAPE(3));
    state_tensor(*context, "dense_1/kernel", PAWL_I32, SHAPE(3));
    assert_no_suggestion(*context);
}

static void test_r05_unlike_names_are_not_paired(void **context) {
    saved_tensor(*context, "encoder/attention/query", PAWL_F32, SHAPE(3));
    state_tensor(*context, "z", PAWL_F32, SHAPE(3));
    assert_no_suggestion(*context);
}

static void test_r05_two_renamed_layers_are_two_suggestions(void **context) {
    fixture *f = *context;
    const pawl_report_item *first = NULL;
    add_layers(f, 4, "encoder", "enc");
    add_layers(f, 2, "head", "top");
    match(f);
    assert_int_equal(suggestions(f, &first), 2);
    assert_int_equal(first->count, 8);
    assert_string_equal(first->name, "encoder");
}

/* More than a reader would take in. */
static void test_r05_suggestions_are_few(void **context) {
    fixture *f = *context;
    const pawl_report_item *first = NULL;
    char saved[32];
    char wanted[32];
    for (int i = 0; i < 12; i++) {
        snprintf(saved, sizeof(saved), "old_%d/w", i);
        snprintf(wanted, sizeof(wanted), "older_%d/w", i);
        saved_tensor(f, saved, PAWL_F32, SHAPE(3, i + 1));
        state_tensor(f, wanted, PAWL_F32, SHAPE(3, i + 1));
    }
    match(f);
    assert_int_equal(suggestions(f, &first), 8);
}

/* An entry for which a rule was given is not suggested another. */
static void test_r05_no_second_suggestion(void **context) {
    fixture *f = *context;
    const pawl_report_item *first = NULL;
    const pawl_rename rules[] = {{"dense", "wrong"}};
    add_layers(f, 2, "dense", "dense_1");
    with_rules(f, rules, 1);
    assert_int_equal(suggestions(f, &first), 0);
}

/* Thousands of entries of one shape on both sides: found, and in bounded time. */
static void test_r05_many_entries_of_one_shape(void **context) {
    fixture *f = *context;
    const pawl_report_item *first = NULL;
    char name[64];
    for (int i = 0; i < 6000; i++) {
        snprintf(name, sizeof(name), "old/block_%d/w", i);
        saved_tensor(f, name, PAWL_F32, SHAPE(3));
        snprintf(name, sizeof(name), "new/block_%d/w", i);
        state_tensor(f, name, PAWL_F32, SHAPE(3));
    }
    match(f);
    assert_true(suggestions(f, &first) >= 1);
    assert_string_equal(first->name, "old");
    assert_string_equal(first->other_name, "new");
    assert_true(first->count > 1000);
    assert_says(first->text, " or more entries match after \"old\" -> \"new\"");
}

/* ---- numbers -------------------------------------------------------------------------------- */

static void assert_numbers(const char *name, const char *like, int count, const uint32_t *values) {
    char mask[2][PAWL_MAX_NAME_BYTES + 1];
    numbers n;
    numbers_read(like, mask[1], &n);
    numbers_read(name, mask[0], &n);
    assert_string_equal(mask[0], mask[1]);
    assert_int_equal(n.count, count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(n.value[i], values[i]);
    }
}

/* A component ends in a number, if only in that of the first. */
static void test_numbers_of_names(void **context) {
    (void)context;
    assert_numbers("dense/kernel", "dense_7/kernel_3", 2, (uint32_t[]){0, 0});
    assert_numbers("dense_12/kernel", "dense/kernel", 2, (uint32_t[]){12, 0});
    assert_numbers("layers.10.weight", "layers.9.weight", 2, (uint32_t[]){10, 0});
    assert_numbers("a/007/w", "a/1/w", 4, (uint32_t[]){0, 7, 0, 0});
    assert_numbers("w_1234567890", "w_1234567890", 1, (uint32_t[]){0});
    assert_numbers("_1", "_1", 2, (uint32_t[]){1, 0});
}

/* What stands behind the last number that is counted is text. */
static void test_numbers_without_end(void **context) {
    (void)context;
    char name[PAWL_MAX_NAME_BYTES + 1];
    char mask[PAWL_MAX_NAME_BYTES + 1];
    numbers n;
    for (size_t i = 0; i < sizeof(name) - 1; i++) {
        name[i] = "1.2/3_4_"[i % 8];
    }
    name[sizeof(name) - 1] = '\0';
    numbers_read(name, mask, &n);
    assert_int_equal(n.count, NUMBERS_MAX);
    assert_true(strlen(mask) <= strlen(name));
}

/* ---- behind given rules --------------------------------------------------------------------- */

static size_t renamed_items(fixture *f) {
    size_t n = 0;
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        n += item(f, i)->difference == PAWL_DIFF_RENAMED;
    }
    return n;
}

/* The given rule wins over all behind it, so {"old", "old_1"} would do nothing. */
static void test_r05_no_suggestion_for_what_a_rule_renamed(void **context) {
    fixture *f = *context;
    const pawl_rename rules[] = {{"old", "new"}};
    saved_tensor(f, "old/w", PAWL_F32, SHAPE(3));
    state_tensor(f, "new/w", PAWL_F32, SHAPE(4));
    saved_tensor(f, "x", PAWL_F32, SHAPE(9)); /* loose, as one of the checkpoint has to be */
    state_tensor(f, "old_1/w", PAWL_F32, SHAPE(3));
    with_rules(f, rules, 1);
    assert_int_equal(renamed_items(f), 0);
}

static void assert_no_rule_from(fixture *f, const char *name) {
    assert_int_equal(renamed_items(f), 1);
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        for (size_t k = 0; k < item(f, i)->remedy_count; k++) {
            const char *from = item(f, i)->remedies[k]->from;
            assert_true(from == NULL || strcmp(from, name) != 0);
        }
    }
}

/* A slot that a given rule moved does not follow its variable by another rule. */
static void test_r05_no_suggestion_for_a_slot_that_a_rule_renamed(void **context) {
    fixture *f = *context;
    const pawl_rename rules[] = {{"m/a", "m/b"}};
    saved_tensor(f, "encoder/w", PAWL_F32, SHAPE(3));
    saved_slot(f, "m/a", "encoder/w", "m", SHAPE(3));
    state_tensor(f, "encoder_1/w", PAWL_F32, SHAPE(3));
    saved_tensor(f, "other/w", PAWL_F32, SHAPE(5));
    state_tensor(f, "other/w", PAWL_F32, SHAPE(5));
    state_slot(f, "m/b", "other/w", "m", SHAPE(3));
    state_slot(f, "m/c", "encoder_1/w", "m", SHAPE(3));
    with_rules(f, rules, 1);
    assert_no_rule_from(f, "m/a");
}

/* Nor does one that fits, and whose variable's name is another's now. */
static void test_r05_no_suggestion_for_a_pair_of_slots_by_a_rule(void **context) {
    fixture *f = *context;
    const pawl_rename rules[] = {{"m/a", "m/b"}};
    saved_tensor(f, "dense/w", PAWL_F32, SHAPE(3));
    saved_tensor(f, "dense_1/w", PAWL_F32, SHAPE(3));
    saved_slot(f, "m/a", "dense_1/w", "m", SHAPE(3));
    state_tensor(f, "dense_1/w", PAWL_F32, SHAPE(3));
    state_tensor(f, "dense_2/w", PAWL_F32, SHAPE(3));
    state_slot(f, "m/b", "dense_1/w", "m", SHAPE(3));
    state_slot(f, "m/c", "dense_2/w", "m", SHAPE(3));
    with_rules(f, rules, 1);
    assert_no_rule_from(f, "m/a");
}

/* ---- bounds --------------------------------------------------------------------------------- */

static pawl_status match_once(void *context, pawl_error *err) {
    fixture *f = context;
    match_result *made = NULL;
    pawl_report *report = NULL;
    entry_source source = fixture_source(f);
    pawl_status status = report_new(&report, err);
    if (status == PAWL_OK) {
        status = match_make(f->snapshot, source, &f->options, &alone, report, &made, err);
    }
    match_free(made);
    pawl_report_free(report);
    return status;
}

/* CPU time of a match, the least of a few. */
static double match_seconds(fixture *f) {
    struct timespec before;
    struct timespec after;
    f->options.missing = PAWL_POLICY_ALLOW;
    f->options.unexpected = PAWL_POLICY_ALLOW;
    match(f); /* sorts the records and takes the snapshot */
    double least = 1e9;
    for (int i = 0; i < 3; i++) {
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
        assert_ok(match_once(f, &f->err), &f->err);
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
        double seconds = (double)(after.tv_sec - before.tv_sec) +
                         1e-9 * (double)(after.tv_nsec - before.tv_nsec);
        least = seconds < least ? seconds : least;
    }
    return least;
}

static int set_up_again(void **context) {
    tear_down(context);
    return set_up(context);
}

/* Layers with so many entries each, each of a shape of its own; they were numbered anew, and are
 * one more. */
static double seconds_of_layers(void **context, int fitting, int kinds) {
    fixture *f = *context;
    char name[64];
    for (int i = 0; i < kinds; i++) {
        for (int layer = 0; layer < 4; layer++) {
            (void)snprintf(name, sizeof(name), "l_%d/x%d", layer, i);
            if (layer < 2) {
                saved_tensor(f, name, PAWL_F32, SHAPE(10 + i));
            }
            if (layer > 0) {
                state_tensor(f, name, PAWL_F32, SHAPE(10 + i));
            }
        }
    }
    for (int i = 0; i < fitting; i++) {
        (void)snprintf(name, sizeof(name), "l_%d/x%d", 4 + i, i % 50);
        saved_tensor(f, name, PAWL_F32, SHAPE(10 + i % 50));
        state_tensor(f, name, PAWL_F32, SHAPE(10 + i % 50));
    }
    saved_tensor(f, "moved/w", PAWL_F32, SHAPE(4));
    state_tensor(f, "moved_1/w", PAWL_F32, SHAPE(4));
    double seconds = match_seconds(f);
    assert_int_equal(set_up_again(context), 0);
    return seconds;
}

/* Of each kind the first without a partner is looked for among its own siblings alone. */
static void test_r05_many_kinds_beside_many_siblings(void **context) {
    double few = seconds_of_layers(context, 50000, 50);
    double many = seconds_of_layers(context, 50000, 1500);
    print_message("%.3f s, %.3f s\n", few, many);
    assert_true(many < 4 * few);
}

/* A layer with so many entries, numbered anew. */
static double seconds_of_layer(void **context, int entries) {
    fixture *f = *context;
    char name[64];
    saved_tensor(f, "stays", PAWL_F32, SHAPE(3));
    state_tensor(f, "stays", PAWL_F32, SHAPE(3));
    for (int i = 0; i < entries; i++) {
        (void)snprintf(name, sizeof(name), "layer/x%dx", i);
        saved_tensor(f, name, PAWL_F32, SHAPE(3));
        (void)snprintf(name, sizeof(name), "layer_1/x%dx", i);
        state_tensor(f, name, PAWL_F32, SHAPE(3));
    }
    double seconds = match_seconds(f);
    assert_int_equal(set_up_again(context), 0);
    return seconds;
}

/* What stands around a layer that moved is looked at once, not for each of its entries. */
static void test_r05_many_entries_of_a_layer(void **context) {
    double few = seconds_of_layer(context, 500);
    double many = seconds_of_layer(context, 4000);
    print_message("%.3f s, %.3f s\n", few, many);
    assert_true(many < 24 * few);
}

/* Renamed layers, layers numbered anew, slots, shapes: and each allocation fails once. */
static void test_r05_every_allocation_fails_once(void **context) {
    fixture *f = *context;
    add_layers(f, 2, "encoder", "enc");
    saved_tensor(f, "dense/w", PAWL_F32, SHAPE(3));
    saved_tensor(f, "dense_1/w", PAWL_F32, SHAPE(3));
    saved_tensor(f, "dense_1/x", PAWL_F32, SHAPE(7));
    saved_slot(f, "m/dense", "dense/w", "m", SHAPE(3));
    state_tensor(f, "dense_1/w", PAWL_F32, SHAPE(3));
    state_tensor(f, "dense_1/x", PAWL_F32, SHAPE(8));
    state_tensor(f, "dense_2/w", PAWL_F32, SHAPE(3));
    state_slot(f, "m/dense_1", "dense_1/w", "m", SHAPE(3));
    match(f); /* sorts the records and takes the snapshot */
    assert_true(failing_memory_each(match_once, f) > 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_BOTH(test_r05_rule_pairs_entries_under_a_prefix),
        WITH_BOTH(test_r05_rule_fits_a_whole_name),
        WITH_BOTH(test_r05_empty_target_takes_a_prefix_away),
        WITH_BOTH(test_r05_empty_source_puts_a_prefix_in_front),
        WITH_BOTH(test_r05_first_rule_that_fits_is_taken),
        WITH_BOTH(test_r05_two_entries_on_one_name_are_an_error),
        WITH_BOTH(test_r05_rule_that_makes_no_name_is_refused),
        WITH_BOTH(test_r05_rule_without_names_is_refused),
        WITH_BOTH(test_r05_suggests_a_renamed_layer),
        WITH_BOTH(test_r05_suggestion_pairs_everything),
        WITH_BOTH(test_r05_suggests_taking_a_prefix_away),
        WITH_BOTH(test_r05_suggests_putting_a_prefix_in_front),
        WITH_BOTH(test_r05_suggestion_breaks_no_pair),
        WITH_BOTH(test_r05_suggestion_breaks_no_pair_far_away),
        WITH_BOTH(test_r05_suggestion_leaves_an_entry_of_the_prefix),
        WITH_BOTH(test_r05_suggests_a_renamed_leaf),
        WITH_BOTH(test_r05_other_shapes_are_not_paired),
        WITH_BOTH(test_r05_other_dtypes_that_can_be_cast_are_paired),
        WITH_BOTH(test_r05_other_dtypes_that_cannot_be_cast_are_not_paired),
        WITH_BOTH(test_r05_unlike_names_are_not_paired),
        WITH_BOTH(test_r05_two_renamed_layers_are_two_suggestions),
        WITH_BOTH(test_r05_suggestions_are_few),
        WITH_BOTH(test_r05_no_second_suggestion),
        WITH_BOTH(test_r05_many_entries_of_one_shape),
        WITH_BOTH(test_r05_suggestion_that_would_make_a_long_name),
        WITH_BOTH(test_r05_no_suggestion_for_what_a_rule_renamed),
        WITH_BOTH(test_r05_no_suggestion_for_a_slot_that_a_rule_renamed),
        WITH_BOTH(test_r05_no_suggestion_for_a_pair_of_slots_by_a_rule),
        WITH_BOTH(test_r05_many_kinds_beside_many_siblings),
        WITH_BOTH(test_r05_many_entries_of_a_layer),
        WITH_BOTH(test_r05_every_allocation_fails_once),
        cmocka_unit_test(test_numbers_of_names),
        cmocka_unit_test(test_numbers_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
