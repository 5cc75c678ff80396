/* SPDX-License-Identifier: Apache-2.0 */
/* Setting and getting values: what is kept, and every refusal with its whole text. */
#include "unit/state/fixture.h"

#include <stdio.h>

static pawl_status set(fixture *f, const char *name, pawl_kind kind, const void *bytes, size_t n) {
    return state_set_value(f->state, name, kind, PAWL_ROLE_OTHER, false, bytes, n, &f->err);
}

static void assert_value_refused(fixture *f, pawl_kind kind, const void *bytes, size_t n,
                                 const char *text) {
    assert_int_equal(set(f, "v", kind, bytes, n), PAWL_EUSAGE);
    assert_status_text(&f->err, PAWL_EUSAGE, text);
    assert_int_equal(state_count(f->state), 0);
}

/* ---- kept ----------------------------------------------------------------------------------- */

static void assert_kept(fixture *f, pawl_kind kind, const void *bytes, size_t n, pawl_dtype dtype,
                        int ndim) {
    const state_entry *e = NULL;
    assert_ok(set(f, "v", kind, bytes, n), &f->err);
    assert_ok(state_get_value(f->state, "v", kind, &e, &f->err), &f->err);
    assert_int_equal(e->value_bytes, n);
    assert_memory_equal(e->value, bytes, n);
    assert_int_equal(e->dtype, dtype);
    assert_int_equal(e->ndim, ndim);
    if (ndim == 1) {
        assert_int_equal(e->shape[0], n);
    }
    assert_int_equal(e->value[n], 0); /* text can be read in place */
    assert_ok(state_remove(f->state, "v", &f->err), &f->err);
}

static void test_values_of_every_kind_are_kept(void **context) {
    fixture *f = *context;
    const double number = 0.001;
    const int64_t integer = -5;
    assert_kept(f, PAWL_KIND_BOOL, "\x01", 1, PAWL_BOOL, 0);
    assert_kept(f, PAWL_KIND_INT64, &integer, 8, PAWL_I64, 0);
    assert_kept(f, PAWL_KIND_FLOAT64, &number, 8, PAWL_F64, 0);
    assert_kept(f, PAWL_KIND_STRING, "AdamW", 5, PAWL_U8, 1);
    assert_kept(f, PAWL_KIND_BYTES, "\0\xff", 2, PAWL_U8, 1);
    assert_kept(f, PAWL_KIND_JSON, "{\"a\": [1, null]}", 16, PAWL_U8, 1);
}

static void test_empty_string_is_kept(void **context) {
    assert_kept(*context, PAWL_KIND_STRING, "", 0, PAWL_U8, 1);
}

static void test_null_bytes_of_length_0_are_kept(void **context) {
    fixture *f = *context;
    assert_ok(set(f, "v", PAWL_KIND_BYTES, NULL, 0), &f->err);
    assert_int_equal(state_find(f->state, "v")->value_bytes, 0);
}

/* Setting replaces; a snapshot keeps the value that it was handed. */
static void test_s02_snapshot_keeps_a_replaced_value(void **context) {
    fixture *f = *context;
    state_snapshot *snapshot = NULL;
    set_text(f, "v", "before");
    assert_ok(state_snapshot_take(f->state, 1, true, &snapshot, &f->err), &f->err);
    set_text(f, "v", "after");
    assert_string_equal(snapshot->entries[0]->value, "before");
    assert_string_equal(state_find(f->state, "v")->value, "after");
    assert_int_equal(state_count(f->state), 1);
    state_snapshot_free(snapshot);
}

/* ---- refused -------------------------------------------------------------------------------- */

static void test_s15_bad_name_is_refused(void **context) {
    fixture *f = *context;
    assert_fails(set(f, "a/", PAWL_KIND_STRING, "x", 1), PAWL_EUSAGE, &f->err);
    assert_string_equal(f->err.attempt, "cannot add the value: its name has an empty component");
}

static void test_null_with_bytes_is_refused(void **context) {
    assert_value_refused(*context, PAWL_KIND_BYTES, NULL, 3,
                         "cannot set the value: it is NULL, but has 3 bytes\n  entry:    v");
}

static void test_number_of_another_size_is_refused(void **context) {
    assert_value_refused(*context, PAWL_KIND_INT64, "1234", 4,
                         "cannot set the value: it is of kind int64, but has 4 bytes\n"
                         "  entry:    v\n"
                         "  expected: 8");
}

static void test_bool_that_is_neither_is_refused(void **context) {
    assert_value_refused(*context, PAWL_KIND_BOOL, "\x02", 1,
                         "cannot set the value: it is a bool that is neither 0 nor 1\n"
                         "  entry:    v");
}

static void test_string_with_nul_is_refused(void **context) {
    assert_value_refused(*context, PAWL_KIND_STRING, "a\0b", 3,
                         "cannot set the value: it is a string with a NUL character\n"
                         "  entry:    v");
}

static void test_string_not_utf8_is_refused(void **context) {
    assert_value_refused(*context, PAWL_KIND_STRING, "a\xc3", 2,
                         "cannot set the value: it is a string that is not UTF-8\n"
                         "  entry:    v\n"
                         "  next:     set it as bytes, or encode it as UTF-8");
}

static void test_json_that_does_not_parse_is_refused(void **context) {
    assert_value_refused(*context, PAWL_KIND_JSON, "{\"a\": }", 7,
                         "cannot set the value: the JSON of the value is wrong at byte 6\n"
                         "  entry:    v\n"
                         "  expected: a JSON value\n"
                         "  found:    '}'");
}

/* RFC 8259 sets no bounds to a number, and lets keys occur twice and texts have U+0000. */
static void test_json_of_any_grammar_is_kept(void **context) {
    static const char *const texts[] = {"35399562948360463058890781895381311971", "-1e400",
                                        "{\"a\": 1, \"a\": 2}", "\"\\u0000\""};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        assert_kept(*context, PAWL_KIND_JSON, texts[i], strlen(texts[i]), PAWL_U8, 1);
    }
}

static void test_nan_in_json_is_refused_with_what_to_do(void **context) {
    assert_value_refused(*context, PAWL_KIND_JSON, "[NaN]", 5,
                         "cannot set the value: the JSON of the value is wrong at byte 1\n"
                         "  entry:    v\n"
                         "  expected: a JSON value\n"
                         "  found:    NaN\n"
                         "  next:     JSON has no NaN (RFC 8259): write null or a text such as "
                         "\"NaN\"; a value of its own can be set as a float64, which keeps it");
}

static void test_empty_json_is_refused(void **context) {
    fixture *f = *context;
    assert_fails(set(f, "v", PAWL_KIND_JSON, "", 0), PAWL_EUSAGE, &f->err);
    assert_string_equal(f->err.found, "the end of the text");
}

static void test_json_is_as_deep_as_its_maximum(void **context) {
    fixture *f = *context;
    enum { MOST = PAWL_MAX_JSON_DEPTH };
    char json[2 * MOST + 2];
    memset(json, '[', MOST + 1);
    memset(json + MOST + 1, ']', MOST + 1);
    assert_ok(set(f, "fits", PAWL_KIND_JSON, json + 1, (size_t)2 * MOST), &f->err);
    assert_fails(set(f, "v", PAWL_KIND_JSON, json, sizeof json), PAWL_ELIMIT, &f->err);
    assert_status_text(&f->err, PAWL_ELIMIT,
                       "cannot set the value: the JSON of the value is nested deeper than 512 "
                       "objects and lists at byte 512\n"
                       "  entry:    v");
}

/* What is closed again does not count. */
static void test_wide_json_is_taken(void **context) {
    fixture *f = *context;
    char json[302] = "[";
    for (size_t i = 0; i < 100; i++) {
        memcpy(json + 1 + 3 * i, i < 50 ? "[]," : "{},", 3);
    }
    json[300] = ']';
    assert_ok(set(f, "v", PAWL_KIND_JSON, json, 301), &f->err);
}

/* Brackets within a string do not nest. */
static void test_brackets_in_json_strings_are_taken(void **context) {
    fixture *f = *context;
    char json[205];
    memset(json, '[', sizeof(json));
    memcpy(json, "\"\\\"", 3);
    json[203] = '"';
    assert_ok(set(f, "v", PAWL_KIND_JSON, json, 204), &f->err);
}

static void test_value_of_kind_tensor_is_refused(void **context) {
    assert_value_refused(*context, PAWL_KIND_TENSOR, "x", 1,
                         "cannot set the value: it is of no kind that a value can have (1)\n"
                         "  entry:    v");
}

static void test_too_long_value_is_refused(void **context) {
    fixture *f = *context;
    static char bytes[PAWL_MAX_VALUE_BYTES + 1];
    assert_ok(set(f, "fits", PAWL_KIND_BYTES, bytes, PAWL_MAX_VALUE_BYTES), &f->err);
    assert_int_equal(set(f, "v", PAWL_KIND_BYTES, bytes, sizeof(bytes)), PAWL_ELIMIT);
    assert_status_text(&f->err, PAWL_ELIMIT,
                       "cannot set the value: it has 1048577 bytes\n"
                       "  entry:    v\n"
                       "  expected: at most 1048576 bytes (PAWL_MAX_VALUE_BYTES)\n"
                       "  next:     add large data as a tensor of U8");
}

static void test_rank_bytes_may_be_longer(void **context) {
    fixture *f = *context;
    size_t most = PAWL_MAX_RANK_BYTES;
    AUTOFREE char *bytes = mem_calloc(most + 1, 1);
    assert_non_null(bytes);
    assert_ok(state_set_value(f->state, "fits", PAWL_KIND_BYTES, PAWL_ROLE_OTHER, true, bytes, most,
                              &f->err),
              &f->err);
    assert_int_equal(state_set_value(f->state, "v", PAWL_KIND_BYTES, PAWL_ROLE_OTHER, true, bytes,
                                     most + 1, &f->err),
                     PAWL_ELIMIT);
    assert_status_text(&f->err, PAWL_ELIMIT,
                       "cannot set the value: it has 268435457 bytes\n"
                       "  entry:    v\n"
                       "  expected: at most 268435456 bytes (PAWL_MAX_RANK_BYTES)\n"
                       "  next:     add large data as a tensor of U8");
}

static void test_slot_as_value_is_refused(void **context) {
    fixture *f = *context;
    assert_fails(
        state_set_value(f->state, "v", PAWL_KIND_STRING, PAWL_ROLE_SLOT, false, "x", 1, &f->err),
        PAWL_EUSAGE, &f->err);
    assert_status_text(&f->err, PAWL_EUSAGE,
                       "cannot set the value: a value cannot be an optimizer slot\n"
                       "  entry:    v\n"
                       "  next:     add slots as tensors, and numbers of the optimizer as "
                       "hyperparameters");
}

static void test_unknown_role_is_refused(void **context) {
    fixture *f = *context;
    assert_fails(
        state_set_value(f->state, "v", PAWL_KIND_STRING, (pawl_role)-1, false, "x", 1, &f->err),
        PAWL_EUSAGE, &f->err);
    assert_string_equal(f->err.attempt, "cannot set the value: its role is no pawl_role");
}

#define KIND_NEXT "\n  next:     give it another name, or remove the entry first"

static void test_setting_another_kind_is_refused(void **context) {
    fixture *f = *context;
    set_text(f, "v", "text");
    assert_int_equal(set(f, "v", PAWL_KIND_BYTES, "x", 1), PAWL_EUSAGE);
    assert_status_text(&f->err, PAWL_EUSAGE,
                       "cannot set the value: the entry is of another kind\n"
                       "  entry:    v\n"
                       "  expected: a value of kind bytes\n"
                       "  found:    a value of kind string" KIND_NEXT);
    assert_string_equal(state_find(f->state, "v")->value, "text");
}

static void test_setting_over_a_tensor_is_refused(void **context) {
    fixture *f = *context;
    add_plain(f, "v");
    assert_int_equal(set(f, "v", PAWL_KIND_BYTES, "x", 1), PAWL_EUSAGE);
    assert_status_text(&f->err, PAWL_EUSAGE,
                       "cannot set the value: the entry is of another kind\n"
                       "  entry:    v\n"
                       "  expected: a value of kind bytes\n"
                       "  found:    a tensor [2, 3] F32" KIND_NEXT);
}

/* A value of each rank is never mistaken for one that all share. */
static void test_common_value_over_one_per_rank_is_refused(void **context) {
    fixture *f = *context;
    assert_ok(state_set_value(f->state, "v", PAWL_KIND_BYTES, PAWL_ROLE_RNG, true, "x", 1, &f->err),
              &f->err);
    assert_int_equal(set(f, "v", PAWL_KIND_BYTES, "x", 1), PAWL_EUSAGE);
    assert_status_text(&f->err, PAWL_EUSAGE,
                       "cannot set the value: the entry is of another kind\n"
                       "  entry:    v\n"
                       "  expected: a value of kind bytes\n"
                       "  found:    a value of kind bytes, one for each rank" KIND_NEXT);
}

/* ---- getting -------------------------------------------------------------------------------- */

static void test_getting_an_unknown_name_fails(void **context) {
    fixture *f = *context;
    const state_entry *e = NULL;
    assert_int_equal(state_get_value(f->state, "v", PAWL_KIND_BYTES, &e, &f->err), PAWL_ENOTFOUND);
    assert_status_text(&f->err, PAWL_ENOTFOUND,
                       "cannot get the value: the state has no entry of that name\n"
                       "  entry:    v");
}

static void test_getting_another_kind_fails(void **context) {
    fixture *f = *context;
    const state_entry *e = NULL;
    set_text(f, "v", "text");
    assert_int_equal(state_get_value(f->state, "v", PAWL_KIND_INT64, &e, &f->err), PAWL_EUSAGE);
    assert_status_text(&f->err, PAWL_EUSAGE,
                       "cannot get the value: the entry is of another kind\n"
                       "  entry:    v\n"
                       "  expected: a value of kind int64\n"
                       "  found:    a value of kind string");
    assert_null(e);
}

#define WITH_STATE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_STATE(test_values_of_every_kind_are_kept),
        WITH_STATE(test_empty_string_is_kept),
        WITH_STATE(test_null_bytes_of_length_0_are_kept),
        WITH_STATE(test_s02_snapshot_keeps_a_replaced_value),
        WITH_STATE(test_s15_bad_name_is_refused),
        WITH_STATE(test_null_with_bytes_is_refused),
        WITH_STATE(test_number_of_another_size_is_refused),
        WITH_STATE(test_bool_that_is_neither_is_refused),
        WITH_STATE(test_string_with_nul_is_refused),
        WITH_STATE(test_string_not_utf8_is_refused),
        WITH_STATE(test_json_that_does_not_parse_is_refused),
        WITH_STATE(test_json_of_any_grammar_is_kept),
        WITH_STATE(test_nan_in_json_is_refused_with_what_to_do),
        WITH_STATE(test_empty_json_is_refused),
        WITH_STATE(test_json_is_as_deep_as_its_maximum),
        WITH_STATE(test_wide_json_is_taken),
        WITH_STATE(test_brackets_in_json_strings_are_taken),
        WITH_STATE(test_value_of_kind_tensor_is_refused),
        WITH_STATE(test_too_long_value_is_refused),
        WITH_STATE(test_rank_bytes_may_be_longer),
        WITH_STATE(test_slot_as_value_is_refused),
        WITH_STATE(test_unknown_role_is_refused),
        WITH_STATE(test_setting_another_kind_is_refused),
        WITH_STATE(test_setting_over_a_tensor_is_refused),
        WITH_STATE(test_common_value_over_one_per_rank_is_refused),
        WITH_STATE(test_getting_an_unknown_name_fails),
        WITH_STATE(test_getting_another_kind_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
