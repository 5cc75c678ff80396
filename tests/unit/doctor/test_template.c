/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of models, as JSON. */
#include "lib/test.h"

#include "doctor/template.h"

#include <string.h>

typedef struct made {
    pawl_state *state;
    pawl_status status;
    struct pawl_error err;
} made;

static made decode(const char *text) {
    made m = {.err = ERROR_INIT};
    assert_int_equal(state_new(&m.state, &m.err), PAWL_OK);
    m.status = template_decode(text, strlen(text), m.state, &m.err);
    return m;
}

static const state_entry *entry_of(const made *m, const char *name) {
    assert_int_equal(m->status, PAWL_OK);
    const state_entry *e = state_find(m->state, name);
    assert_non_null(e);
    return e;
}

static void test_entries_by_their_names(void **state) {
    (void)state;
    made m =
        decode("{\"a/w\": {\"shape\": [64, 10], \"dtype\": \"F32\"},"
               " \"a/m\": {\"shape\": [64], \"dtype\": \"bfloat16\", \"slot_of\": \"a/w\","
               "          \"slot\": \"adam/m\"},"
               " \"step\": {\"kind\": \"int64\", \"role\": \"step\", \"value\": 7},"
               " \"rate\": {\"kind\": \"float64\", \"role\": \"hyperparameter\", \"value\": 0.5},"
               " \"on\": {\"kind\": \"bool\", \"value\": true},"
               " \"rng\": {\"kind\": \"bytes\", \"role\": \"rng\", \"per_rank\": true},"
               " \"class\": {\"kind\": \"string\", \"value\": \"a\\u0062c\"},"
               " \"config\": {\"kind\": \"json\", \"value\": {\"x\": [1]}}}");
    const state_entry *w = entry_of(&m, "a/w");
    assert_int_equal(w->dtype, PAWL_F32);
    assert_true(w->ndim == 2 && w->shape[0] == 64 && w->shape[1] == 10);
    assert_int_equal(w->role, PAWL_ROLE_MODEL);
    assert_int_equal(entry_of(&m, "a/m")->role, PAWL_ROLE_SLOT);
    assert_int_equal(entry_of(&m, "a/m")->dtype, PAWL_BF16);
    assert_string_equal(entry_of(&m, "a/m")->slot, "adam/m");
    assert_int_equal(entry_of(&m, "step")->value[0], 7);
    assert_int_equal(entry_of(&m, "rate")->role, PAWL_ROLE_HYPERPARAMETER);
    assert_int_equal(entry_of(&m, "on")->value[0], 1);
    assert_true(entry_of(&m, "rng")->per_rank);
    assert_memory_equal(entry_of(&m, "class")->value, "abc", 3);
    assert_memory_equal(entry_of(&m, "config")->value, "{\"x\": [1]}", 10);
    assert_int_equal(state_count(m.state), 8);
    state_free(m.state);
}

/* As `pawl show --json` prints it: other members, which may look like entries, are passed over. */
static void test_a_list_among_other_members(void **state) {
    (void)state;
    made m = decode("{\"manifest\": {\"files\": []}, \"entries\": ["
                    "{\"name\": \"w\", \"kind\": \"tensor\", \"dtype\": \"F64\", \"shape\": [],"
                    " \"slot_of\": null, \"slot\": null, \"value\": null, \"pieces\": 1},"
                    "{\"name\": \"s\", \"kind\": \"int64\", \"dtype\": null, \"shape\": null}],"
                    " \"more\": 1}");
    assert_int_equal(entry_of(&m, "w")->ndim, 0);
    assert_int_equal(entry_of(&m, "s")->kind, PAWL_KIND_INT64);
    assert_int_equal(state_count(m.state), 2);
    state_free(m.state);
    m = decode("[{\"name\": \"w\", \"dtype\": \"torch.float32\", \"shape\": [3]}]");
    assert_int_equal(entry_of(&m, "w")->dtype, PAWL_F32);
    state_free(m.state);
}

static void assert_refused(const char *text, pawl_status status, const char *words) {
    made m = decode(text);
    assert_int_equal(m.status, status);
    assert_non_null(strstr(error_text(&m.err), words));
    state_free(m.state);
}

/* Of two shapes neither is chosen, nor are they one behind the other. */
static void test_a_key_that_comes_twice(void **state) {
    (void)state;
    assert_refused("{\"a\": {\"shape\": [1], \"shape\": [2], \"dtype\": \"F32\"}}", PAWL_EUSAGE,
                   "each key of an entry once");
    assert_refused("{\"a\": {\"shape\": [1], \"dtype\": \"F32\", \"dtype\": \"F64\"}}", PAWL_EUSAGE,
                   "each key of an entry once");
    assert_refused("{\"a\": {\"name\": \"b\", \"shape\": [1], \"dtype\": \"F32\"}}", PAWL_EUSAGE,
                   "each key of an entry once");
    assert_refused("{\"a\": {\"kind\": \"int64\", \"value\": 1, \"value\": 2}}", PAWL_EUSAGE,
                   "each key of an entry once");
}

static void test_a_model_of_nothing_or_of_slots_alone(void **state) {
    (void)state;
    assert_refused("{}", PAWL_EUSAGE, "the description of the model has no entries");
    assert_refused("[]", PAWL_EUSAGE, "the description of the model has no entries");
    assert_refused(
        "{\"a\": {\"shape\": [1], \"dtype\": \"F32\", \"slot_of\": \"b\", \"slot\": \"m\"}}",
        PAWL_EUSAGE, "the state has no entry of that name");
}

static void test_what_is_no_description_is_refused(void **state) {
    (void)state;
    assert_refused("", PAWL_EDAMAGED, "wrong at byte 0");
    assert_refused("{\"w\": {\"shape\": [4]", PAWL_EDAMAGED, "the end of the text");
    assert_refused("[{\"name\": \"w\"}] x", PAWL_EUSAGE, "a \"shape\"");
    assert_refused("[{\"name\": \"w\", \"shape\": [1], \"dtype\": \"F32\"}] x", PAWL_EDAMAGED, "");
    assert_refused("{\"w\": 5}", PAWL_EUSAGE, "an object with \"shape\" and \"dtype\"");
    assert_refused("{\"w\": {\"shape\": [4]}}", PAWL_EUSAGE, "a \"dtype\"");
    assert_refused("{\"w\": {\"shape\": [4], \"dtype\": \"F33\"}}", PAWL_EUSAGE, "F33");
    assert_refused("{\"w\": {\"shape\": [-4], \"dtype\": \"F32\"}}", PAWL_EUSAGE, "negative");
    assert_refused("{\"w\": {\"shape\": [1.5], \"dtype\": \"F32\"}}", PAWL_EDAMAGED, "");
    assert_refused("{\"w\": {\"kind\": \"tensors\"}}", PAWL_EUSAGE, "a \"kind\"");
    assert_refused("{\"w\": {\"kind\": \"bool\", \"role\": \"x\"}}", PAWL_EUSAGE, "a \"role\"");
    assert_refused("{\"w\": {\"kind\": \"int64\", \"value\": \"x\"}}", PAWL_EDAMAGED, "");
    assert_refused("{\"../w\": {\"kind\": \"bool\"}}", PAWL_EUSAGE, "");
    assert_refused("[{\"kind\": \"bool\"}]", PAWL_EUSAGE, "a \"name\"");
    assert_refused("{\"w\": {\"kind\": \"bool\"}, \"w\": {\"kind\": \"int64\"}}", PAWL_EUSAGE, "w");
    assert_refused("{\"w\": {\"shape\": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                   "1,1,1,1,1,1,1,1,1,1,1,1,1], \"dtype\": \"F32\"}}",
                   PAWL_EUSAGE, "fewer dimensions");
    assert_refused("{\"w\": {\"shape\": [4611686018427387904, 8], \"dtype\": \"F32\"}}",
                   PAWL_ELIMIT, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries_by_their_names),
        cmocka_unit_test(test_a_list_among_other_members),
        cmocka_unit_test(test_what_is_no_description_is_refused),
        cmocka_unit_test(test_a_key_that_comes_twice),
        cmocka_unit_test(test_a_model_of_nothing_or_of_slots_alone),
    };
    return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}
