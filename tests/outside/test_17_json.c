/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any JSON text of RFC 8259 can be a value, and stays what it is: in the state, in a checkpoint, in
 * an index that was rebuilt, when it is restored and compared, and as the command shows it.
 */
#include "lib/directory.h"
#include "lib/random.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* numpy.random.default_rng(0).bit_generator.state, by json.dumps: integers of 128 bits. */
#define PCG64(increment)                                                                           \
    "{\"bit_generator\": \"PCG64\", \"state\": {\"state\": "                                       \
    "35399562948360463058890781895381311971, \"inc\": " increment                                  \
    "}, \"has_uint32\": 0, \"uinteger\": 0}"
#define INCREMENT "87136372517582989555478159403783844777"
#define NEXT_ONE  "87136372517582989555478159403783844778"

typedef struct fixture {
    char path[64];
    pawl_error *err;
    char out[65536]; /* of the command */
} fixture;

static int set_up(void **state) {
    fixture *f = *state = calloc(1, sizeof *f);
    directory_new(f->path, "/tmp");
    f->err = pawl_error_new();
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    directory_delete(f->path);
    pawl_error_free(f->err);
    free(f);
    return 0;
}

/* Runs the command in the directory of the runs; returns what its shell does. */
static int command(fixture *f, const char *arguments) {
    char line[512];
    (void)snprintf(line, sizeof line, "cd '%s' && %s %s 2>&1", f->path, PAWL_COMMAND, arguments);
    FILE *from = popen(line, "r");
    assert_non_null(from);
    size_t n = fread(f->out, 1, sizeof f->out - 1, from);
    f->out[n] = '\0';
    int ended = pclose(from);
    return WEXITSTATUS(ended);
}

static void assert_shown(const fixture *f, const char *text) {
    if (strstr(f->out, text) == NULL) {
        fail_msg("no %s in %s", text, f->out);
    }
}

/* ---- a run with such values ------------------------------------------------------------------ */

typedef struct value {
    const char *name;
    pawl_role role;
    const char *json;
} value;

static char deepest[2 * PAWL_MAX_JSON_DEPTH + 1];

static const value values[] = {
    {"rng", PAWL_ROLE_RNG, PCG64(INCREMENT)},
    {"seed", PAWL_ROLE_HYPERPARAMETER, PCG64(INCREMENT)},
    {"huge", PAWL_ROLE_HYPERPARAMETER, " [1e400, -1E-400,0.10 ]"},
    {"deep", PAWL_ROLE_HYPERPARAMETER, deepest},
    {"twice", PAWL_ROLE_HYPERPARAMETER, "{\"a\": 1, \"a\": 2}"},
    {"nul", PAWL_ROLE_HYPERPARAMETER, "\"\\u0000\\u0041\""},
    {"batch", PAWL_ROLE_BATCH_SIGNATURE, "{\"images\": [18446744073709551616]}"},
};

static pawl_state *state_of(fixture *f, const value *all, size_t count) {
    pawl_state *made = NULL;
    assert_ok(pawl_state_new(&made, f->err), f->err);
    for (size_t i = 0; i < count; i++) {
        assert_ok(pawl_state_set_json(made, all[i].name, all[i].role, all[i].json, f->err), f->err);
    }
    return made;
}

static pawl_run *open_run(fixture *f, const char *name) {
    char path[128];
    pawl_run *run = NULL;
    (void)snprintf(path, sizeof path, "%s/%s", f->path, name);
    assert_ok(pawl_run_open(path, NULL, &run, f->err), f->err);
    return run;
}

static void save(fixture *f, const char *name, const value *all, size_t count) {
    pawl_run *run = open_run(f, name);
    pawl_state *state = state_of(f, all, count);
    assert_ok(pawl_save(run, state, 1, NULL, f->err), f->err);
    assert_ok(pawl_wait(run, 60, NULL, f->err), f->err);
    assert_ok(pawl_run_close(run, 60, f->err), f->err);
    pawl_state_free(state);
}

static void save_all(fixture *f, const char *name) {
    memset(deepest, '[', PAWL_MAX_JSON_DEPTH);
    memset(deepest + PAWL_MAX_JSON_DEPTH, ']', PAWL_MAX_JSON_DEPTH);
    save(f, name, values, ARRAY_LENGTH(values));
}

/* Into a state that has other values: every bit comes back. */
static void assert_restores(fixture *f, const char *name) {
    value other[ARRAY_LENGTH(values)];
    pawl_run *run = open_run(f, name);
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        bool kept = values[i].role == PAWL_ROLE_BATCH_SIGNATURE; /* the caller's stands */
        other[i] = (value){values[i].name, values[i].role, kept ? values[i].json : "0"};
    }
    pawl_state *state = state_of(f, other, ARRAY_LENGTH(other));
    assert_ok(pawl_restore(run, state, NULL, NULL, f->err), f->err);
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        const char *json = NULL;
        assert_ok(pawl_state_get_string(state, values[i].name, &json, f->err), f->err);
        assert_string_equal(json, values[i].json);
    }
    pawl_state_free(state);
    assert_ok(pawl_run_close(run, 60, f->err), f->err);
}

static void test_any_json_is_saved_and_restored_bit_for_bit(void **state) {
    fixture *f = *state;
    save_all(f, "run");
    assert_restores(f, "run");
}

static void test_any_json_outlives_its_index(void **state) {
    fixture *f = *state;
    save_all(f, "run");
    assert_int_equal(command(f, "verify run"), 0);
    char line[160];
    (void)snprintf(line, sizeof line, "rm %s/run/step-00000001/index-* %s/run/step-*/manifest.json",
                   f->path, f->path);
    assert_int_equal(system(line), 0);
    assert_int_equal(command(f, "rebuild run@1"), 0);
    assert_restores(f, "run");
}

/* ---- shown ----------------------------------------------------------------------------------- */

static void test_no_number_is_rounded_where_it_is_shown(void **state) {
    fixture *f = *state;
    save_all(f, "run");
    assert_int_equal(command(f, "show run"), 0);
    assert_int_equal(command(f, "show run rng"), 0);
    assert_shown(f, INCREMENT);
    assert_int_equal(command(f, "show --json run rng"), 0);
    assert_shown(f, "\"inc\": " INCREMENT "}");
    assert_int_equal(command(f, "show --json run"), 0);
    assert_shown(f, "\"seed\": " PCG64(INCREMENT));
    assert_shown(f, "[1e400, -1E-400,0.10 ]");
}

static void test_what_show_json_prints_is_json(void **state) {
    fixture *f = *state;
    char line[256];
    save_all(f, "run");
    (void)snprintf(line, sizeof line,
                   "cd '%s' && %s show --json run | python3 -c 'import json, sys\n"
                   "h = json.load(sys.stdin)[\"manifest\"][\"hyperparameters\"]\n"
                   "sys.exit(h[\"seed\"][\"state\"][\"inc\"] != " INCREMENT ")'",
                   f->path, PAWL_COMMAND);
    assert_int_equal(system(line), 0);
}

/* ---- compared -------------------------------------------------------------------------------- */

static char *report_of(fixture *f, const char *json) {
    pawl_run *run = open_run(f, "run");
    pawl_report *report = NULL;
    const value now = {"seed", PAWL_ROLE_HYPERPARAMETER, json};
    pawl_state *state = state_of(f, &now, 1);
    assert_ok(pawl_restore(run, state, NULL, &report, f->err), f->err);
    char *text = strdup(pawl_report_text(report));
    pawl_report_free(report);
    pawl_state_free(state);
    assert_ok(pawl_run_close(run, 60, f->err), f->err);
    return text;
}

static void test_hyperparameters_differ_in_the_last_digit_of_a_large_integer(void **state) {
    fixture *f = *state;
    const value seed = {"seed", PAWL_ROLE_HYPERPARAMETER, PCG64(INCREMENT)};
    save(f, "run", &seed, 1);
    char *same = report_of(f, "{\"has_uint32\":0,\"uinteger\":0,\"bit_generator\":\"PCG64\","
                              "\"state\":{\"inc\":" INCREMENT ".0,"
                              "\"state\":35399562948360463058890781895381311971}}");
    assert_null(strstr(same, "seed"));
    free(same);
    char *other = report_of(f, PCG64(NEXT_ONE));
    assert_non_null(strstr(other, "seed"));
    free(other);
}

static void test_diff_tells_the_last_digit_of_a_large_integer(void **state) {
    fixture *f = *state;
    const value seed = {"seed", PAWL_ROLE_HYPERPARAMETER, INCREMENT};
    const value next = {"seed", PAWL_ROLE_HYPERPARAMETER, NEXT_ONE};
    save(f, "a", &seed, 1);
    save(f, "b", &next, 1);
    assert_int_equal(command(f, "diff a b"), 3);
    assert_shown(f, INCREMENT " -> " NEXT_ONE);
    assert_int_equal(command(f, "diff --json a b"), 3);
    assert_shown(f, ": " INCREMENT);
    assert_shown(f, ": " NEXT_ONE);
    assert_int_equal(command(f, "diff a a"), 0);
}

/* ---- accepted -------------------------------------------------------------------------------- */

/* Much of what can be JSON, and some of what nearly is. */
static void generate(test_random *random, int depth, char *out, size_t *n) {
    static const char *const pieces[] = {"0",           "-0",
                                         "12",          "01",
                                         "-",           "1.5",
                                         "1.",          ".5",
                                         "1e5",         "1E+400",
                                         "1e",          "123456789012345678901234567890",
                                         "true",        "null",
                                         "nul",         "NaN",
                                         "Infinity",    "-Infinity",
                                         "\"\"",        "\"a\\n\"",
                                         "\"\\u0000\"", "\"\\ud83d\\ude00\"",
                                         "\"\\ud800\"", "\"\xc3\xa4\"",
                                         "\"\xff\"",    "\"\\x\"",
                                         "\"\t\"",      "\"\xed\xa0\x80\"",
                                         "\"\\u12\"",   "'a'"};
    static const char *const blanks[] = {"", "", "", " ", "\n", "\t", "\r", "\v", "//"};
    uint64_t kind = depth > 0 ? random_below(random, 5) : 0;
    uint64_t good = random_below(random, 3); /* mostly no mistake */
    char open = kind == 1 ? '[' : '{';
    if (kind != 1 && kind != 2) {
        uint64_t most = good > 0 ? 3 : ARRAY_LENGTH(pieces);
        *n += (size_t)sprintf(out + *n, "%s", pieces[random_below(random, most)]);
        return;
    }
    out[(*n)++] = open;
    for (uint64_t i = 0, items = random_below(random, 4); i < items; i++) {
        bool comma = i > 0 ? random_below(random, 60) > 0 : random_below(random, 60) == 0;
        *n += (size_t)sprintf(out + *n, "%s%s%s", comma ? "," : "",
                              blanks[random_below(random, good > 0 ? 7 : ARRAY_LENGTH(blanks))],
                              open == '{' ? "\"k\":" : "");
        generate(random, depth - 1, out, n);
    }
    out[(*n)++] = random_below(random, 60) == 0 ? (char)(open + 1) : (char)(open + 2);
}

/* Reads a line of hexadecimal digits for each text; says "1" for what json.loads takes, but for the
 * three that it takes beyond RFC 8259 and 7493. */
static const char judge[] =
    "import json, sys\n"
    "if hasattr(sys, 'set_int_max_str_digits'): sys.set_int_max_str_digits(0)\n"
    "def refuse(word): raise ValueError(word)\n"
    "for line in sys.stdin:\n"
    "    try:\n"
    "        value = json.loads(bytes.fromhex(line).decode('utf-8'), parse_constant=refuse,\n"
    "                           object_pairs_hook=list)\n"
    "        json.dumps(value, ensure_ascii=False).encode('utf-8')\n"
    "        print(1)\n"
    "    except ValueError:\n"
    "        print(0)\n";

static void test_the_same_texts_are_json_as_for_another_reader(void **state) {
    fixture *f = *state;
    enum { TEXTS = 20000, ROOM = 4096 };
    test_random random = {17};
    char text[ROOM];
    char path[128];
    char line[256];
    AUTOFREE char *ours = calloc(TEXTS, 1);
    pawl_state *values_of = NULL;
    int taken = 0;
    assert_ok(pawl_state_new(&values_of, f->err), f->err);
    (void)snprintf(path, sizeof path, "%s/texts", f->path);
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    for (int i = 0; i < TEXTS; i++) {
        size_t n = 0;
        generate(&random, 3, text, &n);
        text[n] = '\0';
        pawl_status status = pawl_state_set_json(values_of, "v", PAWL_ROLE_OTHER, text, f->err);
        assert_true(status == PAWL_OK || status == PAWL_EUSAGE);
        ours[i] = status == PAWL_OK;
        taken += ours[i];
        for (size_t k = 0; k < n; k++) {
            (void)fprintf(to, "%02x", (unsigned char)text[k]);
        }
        (void)fputc('\n', to);
    }
    assert_int_equal(fclose(to), 0);
    assert_in_range(taken, TEXTS / 10, TEXTS * 9 / 10);
    (void)snprintf(path, sizeof path, "%s/judge.py", f->path);
    to = fopen(path, "w");
    assert_non_null(to);
    (void)fputs(judge, to);
    assert_int_equal(fclose(to), 0);
    (void)snprintf(line, sizeof line, "python3 %s/judge.py <%s/texts", f->path, f->path);
    FILE *from = popen(line, "r");
    assert_non_null(from);
    for (int i = 0; i < TEXTS; i++) {
        assert_non_null(fgets(line, sizeof line, from));
        if ((line[0] == '1') != (ours[i] != 0)) {
            fail_msg("text %d: %s here, %s", i, ours[i] ? "taken" : "refused", line);
        }
    }
    assert_int_equal(pclose(from), 0);
    pawl_state_free(values_of);
}

static void test_what_is_no_json_is_refused_with_a_reason(void **state) {
    fixture *f = *state;
    static const struct {
        const char *json, *words;
    } cases[] = {
        {"[1, NaN]", "JSON has no NaN (RFC 8259): write null or a text"},
        {"-Infinity", "JSON has no -Infinity (RFC 8259): write null or a text"},
        {"\"\\ud800\"", "expected: a low surrogate after a high one"},
        {"\"\xff\"", "expected: text in UTF-8"},
    };
    pawl_state *made = NULL;
    assert_ok(pawl_state_new(&made, f->err), f->err);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(pawl_state_set_json(made, "v", PAWL_ROLE_OTHER, cases[i].json, f->err),
                         PAWL_EUSAGE);
        if (strstr(pawl_error_text(f->err), cases[i].words) == NULL) {
            fail_msg("%s", pawl_error_text(f->err));
        }
    }
    pawl_state_free(made);
}

int main(void) {
#define TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_any_json_is_saved_and_restored_bit_for_bit),
        TEST(test_any_json_outlives_its_index),
        TEST(test_no_number_is_rounded_where_it_is_shown),
        TEST(test_what_show_json_prints_is_json),
        TEST(test_hyperparameters_differ_in_the_last_digit_of_a_large_integer),
        TEST(test_diff_tells_the_last_digit_of_a_large_integer),
        TEST(test_the_same_texts_are_json_as_for_another_reader),
        TEST(test_what_is_no_json_is_refused_with_a_reason),
    };
    return cmocka_run_group_tests_name("JSON of a caller", tests, NULL, NULL);
}
