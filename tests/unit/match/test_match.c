/* SPDX-License-Identifier: Apache-2.0 */
/* Every difference between a checkpoint and a state, one at a time: as data, and text and all. */
#include "unit/match/fixture.h"

#define ERROR   PAWL_SEVERITY_ERROR
#define WARNING PAWL_SEVERITY_WARNING
#define NOTE    PAWL_SEVERITY_NOTE

/* ---- what fits ------------------------------------------------------------------------------ */

static void test_equal_sides_match_without_a_word(void **context) {
    fixture *f = *context;
    state_tensor(f, "dense/kernel", PAWL_F32, SHAPE(64, 10));
    state_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(64, 10));
    state_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, 0.001);
    state_rank_bytes(f, "rng");
    saved_tensor(f, "dense/kernel", PAWL_F32, SHAPE(64, 10));
    saved_slot(f, "opt/m", "dense/kernel", "adam/m", SHAPE(64, 10));
    saved_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, 0.001);
    saved_rank_bytes(f, "rng");
    match(f);
    assert_int_equal(pawl_report_count(f->report), 0);
    assert_false(f->match->refused);
    assert_pairs(f, 4, 0, 0);
}

/* A source is handed out for a moment only; the match keeps all of it. */
static void test_match_keeps_the_sources(void **context) {
    fixture *f = *context;
    state_tensor(f, "a", PAWL_F32, SHAPE(4));
    state_float(f, "lr", PAWL_ROLE_STEP, 2);
    record_entry *saved = saved_tensor(f, "a", PAWL_F32, SHAPE(4));
    saved->pieces->box_extent[0] = 3;
    saved->pieces->file = 5;
    saved_float(f, "lr", PAWL_ROLE_STEP, 1);
    match(f);
    const record_entry *source = f->match->pairs[0].source;
    arena_free(&f->memory);
    assert_string_equal(source->name, "a");
    assert_int_equal(source->shape[0], 4);
    assert_int_equal(source->pieces->box_extent[0], 3);
    assert_int_equal(source->pieces->box_offset[0], 0);
    assert_int_equal(source->pieces->file, 5);
    double one = 1;
    assert_memory_equal(f->match->pairs[1].source->value, &one, sizeof(one));
    f->record_count = 0;
}

/* Another step, random state or data position is what a restore brings back. */
static void test_other_values_of_other_roles_are_no_difference(void **context) {
    fixture *f = *context;
    state_float(f, "a", PAWL_ROLE_STEP, 1);
    state_float(f, "b", PAWL_ROLE_DATA_POSITION, 1);
    state_float(f, "c", PAWL_ROLE_OTHER, 1);
    saved_float(f, "a", PAWL_ROLE_STEP, 2);
    saved_float(f, "b", PAWL_ROLE_DATA_POSITION, 2);
    saved_float(f, "c", PAWL_ROLE_OTHER, 2);
    match(f);
    assert_int_equal(pawl_report_count(f->report), 0);
    assert_pairs(f, 3, 0, 0);
}

/* ---- R01 ------------------------------------------------------------------------------------ */

/* So that something is left to restore where another entry is taken out. */
static void one_that_fits(fixture *f) {
    state_tensor(f, "fits", PAWL_F32, SHAPE(1));
    saved_tensor(f, "fits", PAWL_F32, SHAPE(1));
}

#define SHAPE_ADVICE                                                                               \
    "; build the model with the checkpoint's shape, or take the entry out of the state and set "   \
    "options.unexpected = PAWL_POLICY_ALLOW to leave it out"

static void test_r01_other_shape(void **context) {
    fixture *f = *context;
    one_that_fits(f);
    state_tensor(f, "dense/kernel", PAWL_F32, SHAPE(64, 12));
    saved_tensor(f, "dense/kernel", PAWL_F32, SHAPE(64, 10));
    match(f);
    assert_only_item(f, PAWL_DIFF_SHAPE, ERROR, "dense/kernel", "[64, 10] F32", "[64, 12] F32",
                     "\"dense/kernel\" is [64, 10] F32 in the checkpoint and [64, 12] F32 in the "
                     "state: dimension 1 differs" SHAPE_ADVICE);
    assert_int_equal(item(f, 0)->dimension, 1);
    assert_pairs(f, 1, 0, 0);
}

/* The only entry: without it nothing would be restored, and that is no way out. */
static void test_r01_other_shape_of_all_there_is(void **context) {
    fixture *f = *context;
    state_tensor(f, "a", PAWL_F32, SHAPE(4));
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
    match(f);
    assert_only_item(f, PAWL_DIFF_SHAPE, ERROR, "a", "[3] F32", "[4] F32",
                     "\"a\" is [3] F32 in the checkpoint and [4] F32 in the state: dimension 0 "
                     "differs; build the model with the checkpoint's shape");
    assert_int_equal(item(f, 0)->remedy_count, 0);
}

static void test_r01_other_number_of_dimensions(void **context) {
    fixture *f = *context;
    one_that_fits(f);
    state_tensor(f, "a", PAWL_F32, SHAPE(640));
    saved_tensor(f, "a", PAWL_F32, SHAPE(64, 10));
    match(f);
    assert_only_item(
        f, PAWL_DIFF_SHAPE, ERROR, "a", "[64, 10] F32", "[640] F32",
        "\"a\" is [64, 10] F32 in the checkpoint and [640] F32 in the state: the number "
        "of dimensions differs" SHAPE_ADVICE);
    assert_int_equal(item(f, 0)->dimension, -1);
}

/* All differences of all entries are found at once. */
static void test_r01_r02_both_are_reported(void **context) {
    fixture *f = *context;
    state_tensor(f, "a", PAWL_F16, SHAPE(3));
    state_tensor(f, "b", PAWL_F32, SHAPE(3));
    saved_tensor(f, "a", PAWL_F32, SHAPE(2));
    saved_tensor(f, "b", PAWL_F32, SHAPE(2));
    match(f);
    assert_int_equal(pawl_report_count(f->report), 3);
    assert_int_equal(item(f, 0)->difference, PAWL_DIFF_SHAPE);
    assert_int_equal(item(f, 1)->difference, PAWL_DIFF_DTYPE);
    assert_int_equal(item(f, 2)->difference, PAWL_DIFF_SHAPE);
}

/* ---- R02 ------------------------------------------------------------------------------------ */

static void two_dtypes(fixture *f, pawl_dtype saved, pawl_dtype wanted) {
    state_tensor(f, "a", wanted, SHAPE(3));
    saved_tensor(f, "a", saved, SHAPE(3));
}

static void test_r02_other_dtype(void **context) {
    fixture *f = *context;
    two_dtypes(f, PAWL_F32, PAWL_BF16);
    match(f);
    assert_only_item(f, PAWL_DIFF_DTYPE, ERROR, "a", "[3] F32", "[3] BF16",
                     "\"a\" is [3] F32 in the checkpoint and [3] BF16 in the state; set "
                     "options.cast = PAWL_POLICY_ALLOW to convert it");
}

static void test_r02_cast_on_request(void **context) {
    fixture *f = *context;
    two_dtypes(f, PAWL_F32, PAWL_BF16);
    f->options.cast = PAWL_POLICY_ALLOW;
    match(f);
    assert_only_item(
        f, PAWL_DIFF_DTYPE, NOTE, "a", "[3] F32", "[3] BF16",
        "\"a\" is [3] F32 in the checkpoint and [3] BF16 in the state: it is converted");
    assert_pairs(f, 1, 0, 0);
}

static void test_r02_dtypes_that_are_not_converted(void **context) {
    fixture *f = *context;
    two_dtypes(f, PAWL_I32, PAWL_F32);
    f->options.cast = PAWL_POLICY_ALLOW;
    match(f);
    assert_only_item(
        f, PAWL_DIFF_DTYPE, ERROR, "a", "[3] I32", "[3] F32",
        "\"a\" is [3] I32 in the checkpoint and [3] F32 in the state; only F64, F32, F16 "
        "and BF16 are converted into each other: give the state the checkpoint's dtype");
}

/* ---- R03, R04 ------------------------------------------------------------------------------- */

static void one_extra_in_the_state(fixture *f) {
    state_tensor(f, "a", PAWL_F32, SHAPE(3));
    state_tensor(f, "b", PAWL_F32, SHAPE(2));
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
}

static void test_r03_missing_in_the_checkpoint(void **context) {
    fixture *f = *context;
    one_extra_in_the_state(f);
    match(f);
    assert_only_item(f, PAWL_DIFF_MISSING, ERROR, "b", "(absent)", "[2] F32",
                     "\"b\", [2] F32 in the state, is not in the checkpoint; set options.missing = "
                     "PAWL_POLICY_ALLOW to keep the state's value");
}

static void test_r03_missing_on_request(void **context) {
    fixture *f = *context;
    one_extra_in_the_state(f);
    f->options.missing = PAWL_POLICY_ALLOW;
    match(f);
    assert_only_item(
        f, PAWL_DIFF_MISSING, NOTE, "b", "(absent)", "[2] F32",
        "\"b\", [2] F32 in the state, is not in the checkpoint: the state's value is kept");
    assert_pairs(f, 1, 1, 0);
}

static void one_extra_in_the_checkpoint(fixture *f) {
    state_tensor(f, "a", PAWL_F32, SHAPE(3));
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
    saved_tensor(f, "b", PAWL_F32, SHAPE(2));
}

static void test_r04_unexpected_in_the_checkpoint(void **context) {
    fixture *f = *context;
    one_extra_in_the_checkpoint(f);
    match(f);
    assert_only_item(f, PAWL_DIFF_UNEXPECTED, ERROR, "b", "[2] F32", "(absent)",
                     "\"b\", [2] F32 in the checkpoint, is not in the state; set "
                     "options.unexpected = PAWL_POLICY_ALLOW to leave it out");
}

static void test_r04_unexpected_on_request(void **context) {
    fixture *f = *context;
    one_extra_in_the_checkpoint(f);
    f->options.unexpected = PAWL_POLICY_ALLOW;
    match(f);
    assert_only_item(f, PAWL_DIFF_UNEXPECTED, NOTE, "b", "[2] F32", "(absent)",
                     "\"b\", [2] F32 in the checkpoint, is not in the state: it is left out");
    assert_pairs(f, 1, 0, 1);
}

static void test_r03_r04_values_show_what_they_are(void **context) {
    fixture *f = *context;
    state_tensor(f, "a", PAWL_F32, SHAPE(3));
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
    state_value(f, "flag", PAWL_KIND_BOOL, PAWL_ROLE_OTHER, "\x01", 1);
    saved_value(f, "text", PAWL_KIND_STRING, PAWL_ROLE_OTHER, "a \"b\"\n", 6);
    match(f);
    assert_int_equal(pawl_report_count(f->report), 2);
    assert_string_equal(item(f, 0)->checkpoint, "\"a \\\"b\\\"\\u000a\"");
    assert_string_equal(item(f, 1)->state, "true");
}

/* ---- R07 ------------------------------------------------------------------------------------ */

static void other_learning_rate(fixture *f, pawl_policy policy) {
    saved_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, 0.001);
    state_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, 0.1);
    f->options.hyperparameter = policy;
    match(f);
}

static void test_r07_checkpoint_stands_by_default(void **context) {
    fixture *f = *context;
    other_learning_rate(f, PAWL_POLICY_DEFAULT);
    assert_only_item(
        f, PAWL_DIFF_HYPERPARAMETER, WARNING, "lr", "0.001", "0.1",
        "\"lr\" is 0.001 in the checkpoint and 0.1 in the state: the checkpoint's value "
        "is used; set options.hyperparameter = PAWL_POLICY_CALLER to keep the state's");
    assert_pairs(f, 1, 0, 0);
    assert_false(f->match->pairs[0].keep_caller);
}

static void test_r07_caller_stands_on_request(void **context) {
    fixture *f = *context;
    other_learning_rate(f, PAWL_POLICY_CALLER);
    assert_only_item(f, PAWL_DIFF_HYPERPARAMETER, WARNING, "lr", "0.001", "0.1",
                     "\"lr\" is 0.001 in the checkpoint and 0.1 in the state: the state's value "
                     "is used");
    assert_pairs(f, 1, 1, 0);
    assert_true(f->match->pairs[0].keep_caller);
}

static void test_r07_error_on_request(void **context) {
    fixture *f = *context;
    other_learning_rate(f, PAWL_POLICY_ERROR);
    assert_only_item(
        f, PAWL_DIFF_HYPERPARAMETER, ERROR, "lr", "0.001", "0.1",
        "\"lr\" is 0.001 in the checkpoint and 0.1 in the state; set options.hyperparameter = "
        "PAWL_POLICY_CHECKPOINT to take the checkpoint's value, or set options.hyperparameter = "
        "PAWL_POLICY_CALLER to keep the state's");
}

/* A float32's digits, where it was one: frameworks keep a rate in 32 bits. */
static void test_r07_rates_of_32_bits_are_short(void **context) {
    fixture *f = *context;
    saved_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, (double)0.001F);
    state_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, 0.1);
    saved_float(f, "momentum", PAWL_ROLE_HYPERPARAMETER, 0.3333333333333333);
    state_float(f, "momentum", PAWL_ROLE_HYPERPARAMETER, (double)1e-7F);
    match(f);
    assert_string_equal(item(f, 0)->checkpoint, "0.001");
    assert_string_equal(item(f, 0)->state, "0.1");
    assert_string_equal(item(f, 1)->checkpoint, "0.3333333333333333");
    assert_string_equal(item(f, 1)->state, "1e-07");
}

/* Two that would be written alike show what differs. */
static void test_r07_the_same_rate_in_32_and_64_bits(void **context) {
    fixture *f = *context;
    saved_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, (double)0.001F);
    state_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, 0.001);
    match(f);
    assert_string_equal(item(f, 0)->checkpoint, "0.0010000000474974513");
    assert_string_equal(item(f, 0)->state, "0.001");
}

static void rate_and_schedule(fixture *f, pawl_policy policy) {
    static const char schedule[] = "{\"class\": \"CosineDecay\"}";
    saved_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, 0.01);
    state_value(f, "lr", PAWL_KIND_JSON, PAWL_ROLE_HYPERPARAMETER, schedule, sizeof(schedule) - 1);
    state_float(f, "step", PAWL_ROLE_STEP, 1);
    saved_float(f, "step", PAWL_ROLE_STEP, 1);
    f->options.hyperparameter = policy;
    match(f);
}

/* A5c: a constant rate was saved, and the program has a schedule. */
static void test_r06_r07_a_schedule_in_the_place_of_a_rate(void **context) {
    fixture *f = *context;
    rate_and_schedule(f, PAWL_POLICY_DEFAULT);
    assert_only_item(f, PAWL_DIFF_KIND, ERROR, "lr", "float64 0.01",
                     "json {\"class\": \"CosineDecay\"}",
                     "\"lr\" is of another kind: float64 0.01 in the checkpoint, json {\"class\": "
                     "\"CosineDecay\"} in the state; give the state's entry the checkpoint's kind, "
                     "or set options.hyperparameter = PAWL_POLICY_CALLER to keep the state's, or "
                     "take the entry out of the state and set options.unexpected = "
                     "PAWL_POLICY_ALLOW to leave it out");
}

static void test_r06_r07_the_callers_schedule_stands_on_request(void **context) {
    fixture *f = *context;
    rate_and_schedule(f, PAWL_POLICY_CALLER);
    assert_only_item(f, PAWL_DIFF_KIND, WARNING, "lr", "float64 0.01",
                     "json {\"class\": \"CosineDecay\"}",
                     "\"lr\" is of another kind: float64 0.01 in the checkpoint, json {\"class\": "
                     "\"CosineDecay\"} in the state: the state's value is used");
    assert_pairs(f, 2, 1, 0);
    assert_true(f->match->pairs[0].keep_caller);
}

static void test_r07_integers_show_their_digits(void **context) {
    fixture *f = *context;
    saved_value(f, "n", PAWL_KIND_INT64, PAWL_ROLE_HYPERPARAMETER,
                "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    state_value(f, "n", PAWL_KIND_INT64, PAWL_ROLE_HYPERPARAMETER, "\x40\x01\0\0\0\0\0\0", 8);
    match(f);
    assert_string_equal(item(f, 0)->checkpoint, "-1");
    assert_string_equal(item(f, 0)->state, "320");
}

/* JSON is compared as JSON: order of keys and white space do not count. */
static void test_r07_json_of_one_meaning_is_equal(void **context) {
    fixture *f = *context;
    saved_value(f, "h", PAWL_KIND_JSON, PAWL_ROLE_HYPERPARAMETER, "{\"a\":1,\"b\":2}", 13);
    state_value(f, "h", PAWL_KIND_JSON, PAWL_ROLE_HYPERPARAMETER, "{\"b\": 2, \"a\": 1}", 16);
    match(f);
    assert_int_equal(pawl_report_count(f->report), 0);
}

static void test_r07_other_json(void **context) {
    fixture *f = *context;
    saved_value(f, "h", PAWL_KIND_JSON, PAWL_ROLE_HYPERPARAMETER, "{\"a\":\n1}", 8);
    state_value(f, "h", PAWL_KIND_JSON, PAWL_ROLE_HYPERPARAMETER, "[]", 2);
    match(f);
    assert_string_equal(item(f, 0)->checkpoint, "{\"a\": 1}");
    assert_string_equal(item(f, 0)->state, "[]");
}

static void test_r07_equal_nan_is_no_difference(void **context) {
    fixture *f = *context;
    saved_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, __builtin_nan(""));
    state_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, __builtin_nan(""));
    match(f);
    assert_int_equal(pawl_report_count(f->report), 0);
}

/* A value that only the data file holds cannot be compared: it counts as another one. */
static void test_r07_value_that_is_not_in_the_index(void **context) {
    fixture *f = *context;
    record_entry *e = saved_value(f, "lr", PAWL_KIND_FLOAT64, PAWL_ROLE_HYPERPARAMETER, "", 0);
    e->value = NULL;
    state_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, 0.1);
    match(f);
    assert_only_item(
        f, PAWL_DIFF_HYPERPARAMETER, WARNING, "lr", "float64", "0.1",
        "\"lr\" is float64 in the checkpoint and 0.1 in the state: the checkpoint's "
        "value is used; set options.hyperparameter = PAWL_POLICY_CALLER to keep the state's");
    assert_null(f->match->pairs[0].source->value);
}

/* Both sides fit a line, however long the values are. */
static void test_r07_long_values_are_cut(void **context) {
    fixture *f = *context;
    char text[1000];
    memset(text, '\\', sizeof(text));
    saved_value(f, "a", PAWL_KIND_STRING, PAWL_ROLE_HYPERPARAMETER, text, sizeof(text));
    state_value(f, "a", PAWL_KIND_STRING, PAWL_ROLE_HYPERPARAMETER, "short", 5);
    match(f);
    const char *side = item(f, 0)->checkpoint;
    assert_true(strlen(side) > 200 && strlen(side) < 256);
    assert_memory_equal(side, "\"\\\\\\", 4);
    assert_string_equal(side + strlen(side) - 6, "\\\\...\"");
}

/* What a tensor holds is not known before it is read, but the policy is. */
static void test_r07_tensor_of_the_caller_is_kept(void **context) {
    fixture *f = *context;
    pawl_tensor t = a_tensor("lr", PAWL_F32, 0, NULL);
    t.role = PAWL_ROLE_HYPERPARAMETER;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
    saved_tensor(f, "lr", PAWL_F32, 0, NULL);
    f->options.hyperparameter = PAWL_POLICY_CALLER;
    match(f);
    assert_true(f->match->pairs[0].keep_caller);
    assert_pairs(f, 1, 1, 0);
}

/* ---- kinds ---------------------------------------------------------------------------------- */

#define KIND_ADVICE                                                                                \
    "; give the state's entry the checkpoint's kind, or take the entry out of the state and set "  \
    "options.unexpected = PAWL_POLICY_ALLOW to leave it out"

static void test_tensor_against_value(void **context) {
    fixture *f = *context;
    one_that_fits(f);
    saved_tensor(f, "x", PAWL_F32, SHAPE(3));
    state_float(f, "x", PAWL_ROLE_OTHER, 0.5);
    match(f);
    assert_only_item(
        f, PAWL_DIFF_KIND, ERROR, "x", "tensor [3] F32", "float64 0.5",
        "\"x\" is of another kind: tensor [3] F32 in the checkpoint, float64 0.5 in the "
        "state" KIND_ADVICE);
}

static void test_value_of_each_rank_against_common_value(void **context) {
    fixture *f = *context;
    one_that_fits(f);
    saved_value(f, "x", PAWL_KIND_BYTES, PAWL_ROLE_RNG, "abc", 3);
    state_rank_bytes(f, "x");
    match(f);
    assert_only_item(f, PAWL_DIFF_KIND, ERROR, "x", "3 B", "bytes for each rank",
                     "\"x\" is of another kind: 3 B in the checkpoint, bytes for each rank "
                     "in the state" KIND_ADVICE);
}

/* ---- J06 ------------------------------------------------------------------------------------ */

static void other_batches(fixture *f) {
    saved_value(f, "batch", PAWL_KIND_JSON, PAWL_ROLE_BATCH_SIGNATURE, "{\"x\":[64]}", 10);
    state_value(f, "batch", PAWL_KIND_JSON, PAWL_ROLE_BATCH_SIGNATURE, "{\"x\":[32]}", 10);
}

static void test_j06_other_batches_warn(void **context) {
    fixture *f = *context;
    other_batches(f);
    match(f);
    assert_only_item(f, PAWL_DIFF_BATCH, WARNING, "batch", "{\"x\":[64]}", "{\"x\":[32]}",
                     "the batches changed: \"batch\" is {\"x\":[64]} in the checkpoint and "
                     "{\"x\":[32]} in the state: the state's value is used");
    assert_true(f->match->pairs[0].keep_caller);
}

static void test_j06_other_batches_are_an_error_on_request(void **context) {
    fixture *f = *context;
    other_batches(f);
    f->options.batch = PAWL_POLICY_ERROR;
    match(f);
    assert_only_item(f, PAWL_DIFF_BATCH, ERROR, "batch", "{\"x\":[64]}", "{\"x\":[32]}",
                     "the batches changed: \"batch\" is {\"x\":[64]} in the checkpoint and "
                     "{\"x\":[32]} in the state; feed the batches that the checkpoint was trained "
                     "with, or set options.batch = PAWL_POLICY_ALLOW to go on with other batches");
}

/* ---- R10 ------------------------------------------------------------------------------------ */

/* A value of each of `ranks` ranks. */
static void saved_ranks(fixture *f, const char *name, int ranks) {
    saved_rank_bytes(f, name);
    record_entry *e = &f->records[f->record_count - 1];
    e->pieces = arena_alloc(&f->memory, (size_t)ranks * sizeof(*e->pieces));
    assert_non_null(e->pieces);
    e->piece_count = (size_t)ranks;
    for (int i = 0; i < ranks; i++) {
        e->pieces[i] = (record_piece){.rank = i, .offset = FORMAT_DATA_ALIGNMENT, .bytes = 4};
    }
}

static void match_on_ranks(fixture *f, pawl_policy policy, int saved, int rank, int world_size) {
    saved_ranks(f, "rng", saved);
    state_rank_bytes(f, "rng");
    f->options.per_rank = policy;
    f->saved_world_size = saved;
    f->rank = rank;
    f->world_size = world_size;
    match(f);
}

static void assert_pair_is(fixture *f, bool keep_caller) {
    assert_int_equal(f->match->pair_count, 1);
    assert_int_equal(f->match->pairs[0].keep_caller, keep_caller);
    assert_int_equal(report_counts(f->report)->kept, keep_caller);
}

static void test_r10_other_number_of_ranks(void **context) {
    fixture *f = *context;
    match_on_ranks(f, PAWL_POLICY_DEFAULT, 4, 0, 1);
    assert_only_item(
        f, PAWL_DIFF_RANKS, ERROR, "rng", "4 ranks", "1 rank",
        "each rank has its own \"rng\": the checkpoint is of 4 ranks, the state of 1 "
        "rank; restore with as many ranks as saved it, or set options.per_rank = "
        "PAWL_POLICY_ALLOW to restore each rank's own value where it was saved, or set "
        "options.per_rank = PAWL_POLICY_CALLER to keep the state's values on all ranks");
}

static void test_r10_as_many_ranks_take_their_own_whatever_the_policy(void **context) {
    fixture *f = *context;
    match_on_ranks(f, PAWL_POLICY_CALLER, 4, 3, 4);
    assert_int_equal(pawl_report_count(f->report), 0);
    assert_pair_is(f, false);
}

static void test_r10_a_rank_of_fewer_takes_its_own(void **context) {
    fixture *f = *context;
    match_on_ranks(f, PAWL_POLICY_ALLOW, 6, 1, 3);
    assert_only_item(f, PAWL_DIFF_RANKS, PAWL_SEVERITY_WARNING, "rng", "6 ranks", "3 ranks",
                     "each rank has its own \"rng\": the checkpoint is of 6 ranks, the state of 3 "
                     "ranks: rank 1 of 3 takes its own; the values of ranks 3 to 5 are left out");
    assert_pair_is(f, false);
}

static void test_r10_one_value_that_nobody_takes_is_named(void **context) {
    fixture *f = *context;
    match_on_ranks(f, PAWL_POLICY_ALLOW, 4, 2, 3);
    assert_only_item(f, PAWL_DIFF_RANKS, PAWL_SEVERITY_WARNING, "rng", "4 ranks", "3 ranks",
                     "each rank has its own \"rng\": the checkpoint is of 4 ranks, the state of 3 "
                     "ranks: rank 2 of 3 takes its own; the value of rank 3 is left out");
}

static void test_r10_a_rank_of_more_keeps_what_it_has(void **context) {
    fixture *f = *context;
    match_on_ranks(f, PAWL_POLICY_ALLOW, 3, 5, 6);
    assert_only_item(f, PAWL_DIFF_RANKS, PAWL_SEVERITY_WARNING, "rng", "3 ranks", "6 ranks",
                     "each rank has its own \"rng\": the checkpoint is of 3 ranks, the state of 6 "
                     "ranks: rank 5 of 6 keeps the state's value");
    assert_pair_is(f, true);
}

static void test_r10_all_ranks_keep_the_callers(void **context) {
    fixture *f = *context;
    match_on_ranks(f, PAWL_POLICY_CALLER, 3, 1, 2);
    assert_only_item(f, PAWL_DIFF_RANKS, PAWL_SEVERITY_WARNING, "rng", "3 ranks", "2 ranks",
                     "each rank has its own \"rng\": the checkpoint is of 3 ranks, the state of 2 "
                     "ranks: rank 1 of 2 keeps the state's value; the values of ranks 0 to 2 are "
                     "left out");
    assert_pair_is(f, true);
}

static void test_r10_no_other_policy_is_taken(void **context) {
    fixture *f = *context;
    state_rank_bytes(f, "rng");
    f->options.per_rank = PAWL_POLICY_CHECKPOINT;
    assert_int_equal(try_match(f), PAWL_EUSAGE);
    assert_string_equal(
        f->err.attempt,
        "cannot restore: options.per_rank is 3, which is not a policy that it takes");
}

/* ---- R13 ------------------------------------------------------------------------------------ */

static void test_r13_state_that_was_never_built(void **context) {
    fixture *f = *context;
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
    f->options.unexpected = PAWL_POLICY_ALLOW;
    assert_int_equal(try_match(f), PAWL_EUSAGE);
    assert_status_text(&f->err, PAWL_EUSAGE,
                       "cannot restore: the state has no entries\n"
                       "  next:     build the model and add its tensors with "
                       "pawl_state_add_tensor before restoring");
}

static void test_r13_state_without_a_model(void **context) {
    fixture *f = *context;
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
    state_float(f, "lr", PAWL_ROLE_HYPERPARAMETER, 1);
    f->options.model_only = 1;
    assert_int_equal(try_match(f), PAWL_EUSAGE);
    assert_string_equal(f->err.attempt, "cannot restore: the state has no entries of role model");
}

/* With everything allowed to differ, training would start at random weights without a word. */
static void test_r13_nothing_that_fits(void **context) {
    fixture *f = *context;
    saved_tensor(f, "a", PAWL_F32, SHAPE(3));
    state_tensor(f, "b", PAWL_F32, SHAPE(4));
    f->options.missing = PAWL_POLICY_ALLOW;
    f->options.unexpected = PAWL_POLICY_ALLOW;
    assert_int_equal(try_match(f), PAWL_EMISMATCH);
    assert_status_text(&f->err, PAWL_EMISMATCH,
                       "nothing would be restored: no entry of the checkpoint has a counterpart in "
                       "the state\n"
                       "  safe:     the state is as it was\n"
                       "  next:     compare the names (pawl show lists the checkpoint's) and add "
                       "rules to options.renames, or restore another checkpoint");
}

static void test_empty_checkpoint_fits_an_empty_state(void **context) {
    fixture *f = *context;
    match(f);
    assert_pairs(f, 0, 0, 0);
    assert_false(f->match->refused);
}

/* ---- options -------------------------------------------------------------------------------- */

static void test_policy_of_another_option_is_refused(void **context) {
    fixture *f = *context;
    f->options.missing = PAWL_POLICY_CALLER;
    assert_int_equal(try_match(f), PAWL_EUSAGE);
    assert_status_text(&f->err, PAWL_EUSAGE,
                       "cannot restore: options.missing is 4, which is not a policy that it takes\n"
                       "  next:     see pawl_restore_options in pawl/restore.h");
}

static void test_unknown_policy_is_refused(void **context) {
    fixture *f = *context;
    f->options.hyperparameter = (pawl_policy)64;
    assert_int_equal(try_match(f), PAWL_EUSAGE);
    assert_says(f->err.attempt, "options.hyperparameter is 64");
}

static void test_no_options_are_the_defaults(void **context) {
    fixture *f = *context;
    one_extra_in_the_state(f);
    match(f);
    match_free(f->match);
    f->match = NULL;
    f->next = 0;
    entry_source source = {.context = f, .next = fixture_next};
    assert_ok(match_make(f->snapshot, source, NULL, &alone, f->report, &f->match, &f->err),
              &f->err);
    assert_true(f->match->refused);
}

/* A source that fails ends the match. */
static pawl_status broken_next(void *context, const record_entry **out, pawl_error *err) {
    (void)context;
    (void)out;
    return error_set(err, PAWL_EDAMAGED, "the index is damaged");
}

static void test_source_that_fails_is_passed_up(void **context) {
    fixture *f = *context;
    match_result *made = NULL;
    entry_source source = {.next = broken_next};
    match(f);
    assert_fails(match_make(f->snapshot, source, NULL, &alone, f->report, &made, &f->err),
                 PAWL_EDAMAGED, &f->err);
    assert_null(made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_BOTH(test_equal_sides_match_without_a_word),
        WITH_BOTH(test_match_keeps_the_sources),
        WITH_BOTH(test_other_values_of_other_roles_are_no_difference),
        WITH_BOTH(test_r01_other_shape),
        WITH_BOTH(test_r01_other_shape_of_all_there_is),
        WITH_BOTH(test_r01_other_number_of_dimensions),
        WITH_BOTH(test_r01_r02_both_are_reported),
        WITH_BOTH(test_r02_other_dtype),
        WITH_BOTH(test_r02_cast_on_request),
        WITH_BOTH(test_r02_dtypes_that_are_not_converted),
        WITH_BOTH(test_r03_missing_in_the_checkpoint),
        WITH_BOTH(test_r03_missing_on_request),
        WITH_BOTH(test_r04_unexpected_in_the_checkpoint),
        WITH_BOTH(test_r04_unexpected_on_request),
        WITH_BOTH(test_r03_r04_values_show_what_they_are),
        WITH_BOTH(test_r07_checkpoint_stands_by_default),
        WITH_BOTH(test_r07_caller_stands_on_request),
        WITH_BOTH(test_r07_error_on_request),
        WITH_BOTH(test_r07_rates_of_32_bits_are_short),
        WITH_BOTH(test_r07_the_same_rate_in_32_and_64_bits),
        WITH_BOTH(test_r06_r07_a_schedule_in_the_place_of_a_rate),
        WITH_BOTH(test_r06_r07_the_callers_schedule_stands_on_request),
        WITH_BOTH(test_r07_integers_show_their_digits),
        WITH_BOTH(test_r07_json_of_one_meaning_is_equal),
        WITH_BOTH(test_r07_other_json),
        WITH_BOTH(test_r07_equal_nan_is_no_difference),
        WITH_BOTH(test_r07_value_that_is_not_in_the_index),
        WITH_BOTH(test_r07_long_values_are_cut),
        WITH_BOTH(test_r07_tensor_of_the_caller_is_kept),
        WITH_BOTH(test_tensor_against_value),
        WITH_BOTH(test_value_of_each_rank_against_common_value),
        WITH_BOTH(test_j06_other_batches_warn),
        WITH_BOTH(test_j06_other_batches_are_an_error_on_request),
        WITH_BOTH(test_r10_other_number_of_ranks),
        WITH_BOTH(test_r10_as_many_ranks_take_their_own_whatever_the_policy),
        WITH_BOTH(test_r10_a_rank_of_fewer_takes_its_own),
        WITH_BOTH(test_r10_one_value_that_nobody_takes_is_named),
        WITH_BOTH(test_r10_a_rank_of_more_keeps_what_it_has),
        WITH_BOTH(test_r10_all_ranks_keep_the_callers),
        WITH_BOTH(test_r10_no_other_policy_is_taken),
        WITH_BOTH(test_r13_state_that_was_never_built),
        WITH_BOTH(test_r13_state_without_a_model),
        WITH_BOTH(test_r13_nothing_that_fits),
        WITH_BOTH(test_empty_checkpoint_fits_an_empty_state),
        WITH_BOTH(test_policy_of_another_option_is_refused),
        WITH_BOTH(test_unknown_policy_is_refused),
        WITH_BOTH(test_no_options_are_the_defaults),
        WITH_BOTH(test_source_that_fails_is_passed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
