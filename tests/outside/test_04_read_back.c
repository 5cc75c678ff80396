/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing is written that cannot be read: what a save accepts is restored equal, and what could not
 * be restored is refused before anything is written.
 */
#include "unit/store/fixtures.h"

#include <pawl/pawl.h>

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <sys/stat.h>

typedef struct fixture {
    directory dir;
    char path[128];
    pawl_state *state;
    pawl_run *run;
    pawl_error *err;
    float weight;
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    directory_make(&f->dir);
    (void)snprintf(f->path, sizeof(f->path), "%s/run", f->dir.path);
    f->err = pawl_error_new();
    const pawl_tensor tensor = {
        .struct_size = sizeof(tensor), .name = "w", .dtype = PAWL_F32, .data = &f->weight};
    assert_ok(pawl_state_new(&f->state, f->err), f->err);
    assert_ok(pawl_state_add_tensor(f->state, &tensor, f->err), f->err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    (void)pawl_run_close(f->run, 0, NULL);
    pawl_state_free(f->state);
    pawl_error_free(f->err);
    directory_remove(&f->dir);
    mem_free(f);
    return 0;
}

static pawl_status open_as(fixture *f, const char *framework) {
    const pawl_run_options options = {
        .struct_size = sizeof(options),
        .retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = 1},
        .framework = framework};
    assert_ok(pawl_run_close(f->run, 0, f->err), f->err);
    f->run = NULL;
    return pawl_run_open(f->path, &options, &f->run, f->err);
}

/* The save begins, is committed, and is what a restore takes; or it is refused at once. */
static pawl_status save_with(fixture *f, int64_t step, const pawl_metric *metrics, size_t count) {
    const pawl_save_options options = {.struct_size = sizeof(options),
                                       .metrics = metrics,
                                       .metric_count = count,
                                       .metric_size = sizeof(pawl_metric)};
    f->weight = (float)step;
    pawl_status status = pawl_save(f->run, f->state, step, &options, f->err);
    if (status != PAWL_OK) {
        return status;
    }
    assert_ok(pawl_wait(f->run, 0, NULL, f->err), f->err);
    f->weight = -1;
    assert_ok(pawl_restore(f->run, f->state, NULL, NULL, f->err), f->err);
    assert_true(f->weight == (float)step);
    return PAWL_OK;
}

static void save(fixture *f, int64_t step) {
    assert_ok(save_with(f, step, NULL, 0), f->err);
}

static void assert_no_step(const fixture *f, int64_t step) {
    char path[256];
    struct stat found;
    (void)snprintf(path, sizeof(path), "%s/step-%08lld", f->path, (long long)step);
    assert_int_not_equal(stat(path, &found), 0);
}

static void assert_framework(const fixture *f, const char *expected) {
    pawl_checkpoint *checkpoint;
    pawl_checkpoint_info info = {.struct_size = sizeof info};
    assert_ok(pawl_checkpoint_open(f->path, NULL, &checkpoint, f->err), f->err);
    assert_ok(pawl_checkpoint_describe(checkpoint, &info, f->err), f->err);
    assert_string_equal(info.framework, expected);
    pawl_checkpoint_close(checkpoint);
}

/* `n` bytes of `c`, to be freed. */
static char *text_of(size_t n, char c) {
    char *text = mem_alloc(n + 1);
    assert_non_null(text);
    memset(text, c, n);
    text[n] = '\0';
    return text;
}

/* ---- framework ------------------------------------------------------------------------------ */

/* The longest is read back; a longer one is refused, and takes no checkpoint with it. */
static void test_a_framework_too_long_costs_no_checkpoint(void **state) {
    fixture *f = *state;
    AUTOFREE char *longest = text_of(PAWL_MAX_FRAMEWORK_BYTES, 'f');
    AUTOFREE char *longer = text_of(PAWL_MAX_FRAMEWORK_BYTES + 1, 'f');
    AUTOFREE char *longest_by_far = text_of(1 << 20, 'f');
    assert_ok(open_as(f, longest), f->err);
    save(f, 1);
    assert_framework(f, longest);
    const char *const refused[] = {longer, longest_by_far};
    for (size_t i = 0; i < ARRAY_LENGTH(refused); i++) {
        assert_fails(open_as(f, refused[i]), PAWL_ELIMIT, f->err);
        assert_null(f->run);
        assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), "framework");
        assert_says(pawl_error_get(f->err, PAWL_ERROR_EXPECTED), "4096");
    }
    assert_ok(open_as(f, NULL), f->err);
    assert_ok(pawl_restore(f->run, f->state, NULL, NULL, f->err), f->err);
}

/* Bytes that are no UTF-8 are refused, not replaced. */
static void test_a_framework_that_is_no_utf8_is_not_rewritten(void **state) {
    fixture *f = *state;
    static const char *const bad[] = {"caf\xe9",      "\xff",          "\xc3",    "\xc0\x80",
                                      "\xed\xa0\x80", "a\x80\xc3\xa4", "\xe2\x82"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        assert_fails(open_as(f, bad[i]), PAWL_EUSAGE, f->err);
        assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), "framework");
        assert_says(pawl_error_get(f->err, PAWL_ERROR_EXPECTED), "UTF-8");
    }
}

/* Every character that is UTF-8, the strange ones too, comes back as it was. */
static void test_a_framework_comes_back_as_it_was(void **state) {
    fixture *f = *state;
    static const char *const good[] = {
        "", "caf\xc3\xa9 a\"b\\c/d\b\f\n\r\t \x01\x1f \x7f\xc2\x80 \\u0000 "
            "\xef\xbf\xbd\xef\xbb\xbf \xf0\x9f\x98\x80\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        assert_ok(open_as(f, good[i]), f->err);
        save(f, (int64_t)i);
        assert_framework(f, good[i]);
    }
}

/* ---- metrics -------------------------------------------------------------------------------- */

typedef struct many_metrics {
    pawl_metric *metrics;
    char *names;
} many_metrics;

/* Names of `n` bytes each. */
static many_metrics metrics_of(size_t count, size_t n) {
    many_metrics m = {.metrics = mem_calloc(count, sizeof(pawl_metric)),
                      .names = mem_calloc(count, n + 1)};
    assert_true(m.metrics != NULL && m.names != NULL);
    for (size_t i = 0; i < count; i++) {
        char *name = m.names + i * (n + 1);
        char digits[16];
        memset(name, '"', n); /* two bytes each in JSON */
        (void)snprintf(digits, sizeof(digits), "%06zu", i);
        memcpy(name, digits, 6);
        m.metrics[i] = (pawl_metric){name, (double)i};
    }
    return m;
}

static void free_metrics(many_metrics *m) {
    mem_free(m->metrics);
    mem_free(m->names);
}

static void test_metrics_are_as_many_as_can_be_read(void **state) {
    fixture *f = *state;
    static const struct {
        size_t count, bytes;
        pawl_status status;
    } cases[] = {{1000, 10, PAWL_OK},
                 {PAWL_MAX_METRICS, 50, PAWL_OK},
                 {1, PAWL_MAX_NAME_BYTES, PAWL_OK},
                 {PAWL_MAX_METRICS + 1, 10, PAWL_ELIMIT},
                 {1000000, 10, PAWL_ELIMIT},
                 {1, PAWL_MAX_NAME_BYTES + 1, PAWL_ELIMIT},
                 {100, 1 << 16, PAWL_ELIMIT}};
    assert_ok(open_as(f, NULL), f->err);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        CLEANUP(free_metrics) many_metrics m = metrics_of(cases[i].count, cases[i].bytes);
        pawl_status status = save_with(f, (int64_t)i, m.metrics, cases[i].count);
        assert_int_equal(status, cases[i].status);
        if (status != PAWL_OK) {
            assert_no_step(f, (int64_t)i);
        }
    }
}

static void test_names_of_metrics_are_refused_or_read_back(void **state) {
    fixture *f = *state;
    static const char *const bad[] = {"", "\xff", "a\nb", "/a", "a//b", "..", "a/./b", "caf\xe9"};
    static const char *const good[] = {"loss", "caf\xc3\xa9", "a\"b", "a\\b", "val/loss", "..."};
    assert_ok(open_as(f, NULL), f->err);
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        const pawl_metric metric = {bad[i], 1};
        assert_fails(save_with(f, 1, &metric, 1), PAWL_EUSAGE, f->err);
        assert_no_step(f, 1);
    }
    const pawl_metric twice[] = {{"b", 1}, {"a", 1}, {"b", 2}};
    assert_fails(save_with(f, 1, twice, 3), PAWL_EUSAGE, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                "metric 2 is also that of an earlier one");
    pawl_metric metrics[ARRAY_LENGTH(good)];
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        metrics[i] = (pawl_metric){good[i], 1};
    }
    assert_ok(save_with(f, 1, metrics, ARRAY_LENGTH(good)), f->err);
}

/* Numbers come back exactly; those that JSON lacks as what they are called. */
static void test_values_of_metrics_come_back(void **state) {
    fixture *f = *state;
    static const double values[] = {0,       -0.0,    0.1,      1e20,  9007199254740993.0,
                                    DBL_MAX, DBL_MIN, -DBL_MAX, 5e-324};
    pawl_catalog *catalog;
    pawl_metric metrics[ARRAY_LENGTH(values) + 3] = {{"a", 0}};
    char names[ARRAY_LENGTH(metrics)][8];
    const double odd[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (size_t i = 0; i < ARRAY_LENGTH(metrics); i++) {
        (void)snprintf(names[i], sizeof(names[i]), "m%zu", i);
        metrics[i].name = names[i];
        metrics[i].value = i < 3 ? odd[i] : values[i - 3];
    }
    assert_ok(open_as(f, NULL), f->err);
    assert_ok(save_with(f, 1, metrics, ARRAY_LENGTH(metrics)), f->err);
    assert_ok(pawl_catalog_open(f->path, NULL, &catalog, f->err), f->err);
    json_t *parsed = json_loads(pawl_catalog_get(catalog, 0)->metrics_json, 0, NULL);
    assert_int_equal(json_object_size(parsed), ARRAY_LENGTH(metrics));
    for (size_t i = 0; i < ARRAY_LENGTH(metrics); i++) {
        const json_t *value = json_object_get(parsed, names[i]);
        assert_true(i < 3 ? json_is_string(value) : json_number_value(value) == metrics[i].value);
    }
    json_decref(parsed);
    pawl_catalog_free(catalog);
}

/* ---- entries -------------------------------------------------------------------------------- */

/* More than a manifest can show is refused before anything is written, where it can be told. */
static void test_hyperparameters_beyond_the_manifest_are_refused_first(void **state) {
    fixture *f = *state;
    AUTOFREE char *text = text_of(PAWL_MAX_VALUE_BYTES, '"'); /* two bytes each in JSON */
    char name[32];
    assert_ok(open_as(f, NULL), f->err);
    for (int i = 0; i < 31; i++) {
        (void)snprintf(name, sizeof(name), "h/%d", i);
        assert_ok(pawl_state_set_string(f->state, name, PAWL_ROLE_HYPERPARAMETER, text, f->err),
                  f->err);
    }
    save(f, 1);
    for (int i = 31; i < 33; i++) {
        (void)snprintf(name, sizeof(name), "h/%d", i);
        assert_ok(pawl_state_set_string(f->state, name, PAWL_ROLE_HYPERPARAMETER, text, f->err),
                  f->err);
    }
    assert_fails(save_with(f, 2, NULL, 0), PAWL_ELIMIT, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_NEXT), "hyperparameters");
    assert_no_step(f, 2);
}

/* JSON that a state takes is JSON that a checkpoint can hold, at the edges of numbers too. */
static void test_json_that_is_taken_is_read_back(void **state) {
    fixture *f = *state;
    static const char *const texts[] = {
        "1.7976931348623157e308",
        "1.7976931348623158e308", /* rounds to the largest double */
        "-1.7976931348623158e+308",
        "179769313486231580793728971405303415079934132710037826936173778980444968292764750946649017"
        "977587207096330286416692887910946555547851940402630657488671505820681908902000708383676273"
        "854845817711531764475730270069855571366959622842914819860834936475292719074168444365510704"
        "342711559699508093042880177904174497791.9",
        "1.7976931348623159e308",
        "1e309",
        "1e-400",
        "5e-324",
        "0.00000000000000000000e999999",
        " \t\n{\"a\" : [1, 2]} \r\n",
        "\"\\ud83d\\ude00\\u007f\x7f\"",
        "\"\\ud83d\"",
        "\"\\u0000\"",
        "null",
        "9223372036854775807",
        "9223372036854775808",
        "{\"a\":1,\"a\":2}",
        "[]",
        ""};
    bool taken[ARRAY_LENGTH(texts)] = {false};
    char name[16];
    assert_ok(open_as(f, NULL), f->err);
    for (int role = PAWL_ROLE_HYPERPARAMETER; role <= PAWL_ROLE_BATCH_SIGNATURE; role += 4) {
        size_t count = 0;
        for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
            (void)snprintf(name, sizeof(name), "j/%zu", i);
            if (taken[i]) {
                assert_ok(pawl_state_remove(f->state, name, f->err), f->err);
            }
            taken[i] =
                pawl_state_set_json(f->state, name, (pawl_role)role, texts[i], f->err) == PAWL_OK;
            count += taken[i];
        }
        assert_int_equal(count, ARRAY_LENGTH(texts) - 2); /* half of a pair, and nothing */
        save(f, role);
        for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
            const char *back = NULL;
            (void)snprintf(name, sizeof(name), "j/%zu", i);
            if (taken[i]) {
                assert_ok(pawl_state_get_string(f->state, name, &back, f->err), f->err);
                assert_string_equal(back, texts[i]);
            }
        }
    }
}

static void test_slots_are_refused_or_read_back(void **state) {
    fixture *f = *state;
    AUTOFREE char *longest = text_of(PAWL_MAX_NAME_BYTES, 's');
    AUTOFREE char *longer = text_of(PAWL_MAX_NAME_BYTES + 1, 's');
    AUTOFREE char *longest_by_far = text_of(1 << 20, 's');
    const char *const slots[] = {longest, "caf\xc3\xa9", "a\"b", "",
                                 "\xff",  "a\nb",        longer, longest_by_far};
    char name[16];
    float m = 0;
    assert_ok(open_as(f, NULL), f->err);
    for (size_t i = 0; i < ARRAY_LENGTH(slots); i++) {
        (void)snprintf(name, sizeof(name), "m/%zu", i);
        pawl_tensor slot = {.struct_size = sizeof(slot),
                            .name = name,
                            .dtype = PAWL_F32,
                            .data = &m,
                            .role = PAWL_ROLE_SLOT,
                            .slot_of = "w",
                            .slot = slots[i]};
        pawl_status status = pawl_state_add_tensor(f->state, &slot, f->err);
        assert_int_equal(status, i < 3 ? PAWL_OK : i < 6 ? PAWL_EUSAGE : PAWL_ELIMIT);
    }
    save(f, 1);
}

/* Retention by a metric that no metric can be called would keep nothing. */
static void test_retention_goes_by_a_name_that_a_metric_can_have(void **state) {
    fixture *f = *state;
    pawl_retention best = {.struct_size = sizeof(best), .keep_best = 1, .metric = "caf\xe9"};
    const pawl_run_options options = {.struct_size = sizeof(options), .retention = &best};
    assert_fails(pawl_run_open(f->path, &options, &f->run, f->err), PAWL_EUSAGE, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), "retention.metric");
    best.metric = "caf\xc3\xa9";
    assert_ok(pawl_run_open(f->path, &options, &f->run, f->err), f->err);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_framework_too_long_costs_no_checkpoint),
        TEST(test_a_framework_that_is_no_utf8_is_not_rewritten),
        TEST(test_a_framework_comes_back_as_it_was),
        TEST(test_metrics_are_as_many_as_can_be_read),
        TEST(test_names_of_metrics_are_refused_or_read_back),
        TEST(test_values_of_metrics_come_back),
        TEST(test_hyperparameters_beyond_the_manifest_are_refused_first),
        TEST(test_json_that_is_taken_is_read_back),
        TEST(test_slots_are_refused_or_read_back),
        TEST(test_retention_goes_by_a_name_that_a_metric_can_have),
    };
    return cmocka_run_group_tests_name("what is written is read back", tests, NULL, NULL);
}
