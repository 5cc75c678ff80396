/* SPDX-License-Identifier: Apache-2.0 */
/* What a survey finds below a directory, in what order, and where it ends. */
#include "unit/foreign/made.h"

#include "lib/failing_memory.h"
#include "survey/private.h"

#include <errno.h>

static int set_up(void **state) {
    struct pawl_error err = ERROR_INIT;
    store *s;
    assert_ok(store_mem(&s, &err), &err);
    *state = s;
    return 0;
}

static int tear_down(void **state) {
    store_destroy(*state);
    return 0;
}

static void make_directory(store *s, const char *name) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(s, name, &err), &err);
}

static pawl_survey *look(store *s) {
    struct pawl_error err = ERROR_INIT;
    pawl_survey *v = NULL;
    assert_ok(survey_open(s, s, &v, &err), &err);
    return v;
}

static void test_the_step_of_a_name(void **state) {
    static const struct {
        const char *path;
        int64_t step;
    } cases[] = {
        {"ckpt-3", 3},
        {"runs/2000", 2000},
        {"step_100", 100},
        {"global_step1000", 1000},
        {"checkpoint-500", 500},
        {"checkpoint-500/model.safetensors", 500},
        {"model.ckpt-7", 7},
        {"iter_0001000", 1000},
        {"epoch=3-step=20.ckpt", 20},
        {"x.weights.05.h5", 5},
        {"model-00001-of-00002.safetensors", -1},
        {"rng_state_0.pth", -1},
        {"m", -1},
        {".", -1},
        {"9999999999999999999999", -1},
        {"a/b/step_1/c/d", -1},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        if (survey_step_of(cases[i].path) != cases[i].step) {
            fail_msg("%s: %lld", cases[i].path, (long long)survey_step_of(cases[i].path));
        }
    }
}

static void test_numbers_are_ordered_by_their_value(void **state) {
    static const char *const ascending[] = {"a",    "a/z", "a-1",     "b/ckpt-2", "b/ckpt-10",
                                            "c007", "c7",  "c7/step", "c08",      "c10"};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(ascending); i++) {
        for (size_t j = 0; j < ARRAY_LENGTH(ascending); j++) {
            int order = survey_compare(ascending[i], ascending[j]);
            if ((order > 0) - (order < 0) != (i > j) - (i < j)) {
                fail_msg("%s, %s: %d", ascending[i], ascending[j], order);
            }
        }
    }
}

static void test_too_many_directories_are_left_out_and_told(void **state) {
    store *s = *state;
    char name[32];
    make_file(s, "a.safetensors", "{}", 2, 0);
    for (int i = 0; i <= PAWL_SURVEY_MAX_DIRECTORIES; i++) {
        (void)snprintf(name, sizeof(name), "d%d", i);
        make_directory(s, name);
    }
    pawl_survey *v = look(s);
    assert_int_equal(pawl_survey_count(v), 1);
    assert_string_equal(pawl_survey_get(v, 0)->path, "a.safetensors");
    assert_string_equal(pawl_survey_left_out(v), "more than 10000 directories or 200000 names");
    pawl_survey_free(v);
}

/* The item `item`, "" for the step itself, as two processes leave it before it is put together. */
static void make_step_of_orbax(store *s, const char *step, const char *item, bool merged) {
    static const char *const directories[] = {"", "/ocdbt.process_0", "/ocdbt.process_1"};
    char path[STORE_MAX_PATH];
    make_directory(s, step);
    (void)snprintf(path, sizeof(path), "%s/_CHECKPOINT_METADATA", step);
    make_file(s, path, "{}", 2, 0);
    for (size_t i = item[0] != '\0' ? 0 : 1; i < ARRAY_LENGTH(directories); i++) {
        (void)snprintf(path, sizeof(path), "%s%s%s", step, item, directories[i]);
        make_directory(s, path);
    }
    (void)snprintf(path, sizeof(path), "%s%s/manifest.ocdbt", step, item);
    if (merged) {
        make_file(s, path, "", -1, 0);
    }
}

static void test_a_step_of_orbax_that_was_not_put_together_is_unfinished(void **state) {
    store *s = *state;
    static const char *const items[] = {"", "/default", "/state"};
    for (size_t i = 0; i < ARRAY_LENGTH(items); i++) {
        make_step_of_orbax(s, i == 0 ? "0" : i == 1 ? "2" : "4", items[i], true);
        make_step_of_orbax(s, i == 0 ? "1" : i == 1 ? "3" : "5", items[i], false);
    }
    pawl_survey *v = look(s);
    assert_int_equal(pawl_survey_count(v), 6);
    for (size_t i = 0; i < 6; i++) {
        const pawl_found *f = pawl_survey_get(v, i);
        assert_int_equal(f->step, i);
        assert_int_equal(f->status, i % 2 == 0 ? PAWL_STEP_COMMITTED : PAWL_STEP_UNFINISHED);
        if (i % 2 == 1) {
            assert_non_null(strstr(f->why, "was not put together"));
        }
    }
    pawl_survey_free(v);
}

static void test_p02_what_may_not_be_read_is_not_called_damaged(void **state) {
    store *s = *state;
    store *fault = NULL;
    struct pawl_error err = ERROR_INIT;
    pawl_survey *v = NULL;
    make_file(s, "a.safetensors", "{}", 2, 0);
    make_file(s, "b.npy", "x", -1, 0);
    make_file(s, "m.index", "no table", -1, 0);
    make_file(s, "m.data-00000-of-00001", "", -1, 0);
    assert_ok(store_fault_wrap(s, platform_system(), &fault, &err), &err);
    store_fault_set(
        fault,
        &(store_fault){.op = STORE_OP_OPEN, .nth = 1, .system_errno = EACCES, .forever = true});
    assert_ok(survey_open(fault, fault, &v, &err), &err);
    assert_int_equal(pawl_survey_count(v), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(pawl_survey_get(v, i)->status, PAWL_STEP_UNREADABLE);
        assert_string_equal(pawl_survey_get(v, i)->why, "cannot open the file");
    }
    pawl_survey_free(v);
    store_destroy(fault);
}

/* Nothing says that it is unfinished, so nobody is to remove it. */
static void test_p02_a_run_whose_steps_cannot_be_looked_at_is_not_unfinished(void **state) {
    store *s = *state;
    store *fault = NULL;
    struct pawl_error err = ERROR_INIT;
    make_directory(s, "run");
    make_directory(s, "run/step-00000005");
    make_file(s, "run/events.jsonl", "", -1, 0);
    make_file(s, "run/latest", "", -1, 0);
    static const struct {
        int system_errno;
        pawl_step_status status;
        const char *why;
    } cases[] = {{EACCES, PAWL_STEP_UNREADABLE, "cannot look at its steps"},
                 {EIO, PAWL_STEP_DAMAGED, "cannot look at its steps"},
                 {ENOENT, PAWL_STEP_UNFINISHED, "none of its steps is committed"}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        pawl_survey *v = NULL;
        assert_ok(store_fault_wrap(s, platform_system(), &fault, &err), &err);
        /* After the names of the root and of the run: "run", and three in it. */
        store_fault_set(fault, &(store_fault){.op = STORE_OP_STAT,
                                              .nth = 5,
                                              .system_errno = cases[i].system_errno,
                                              .forever = true});
        assert_ok(survey_open(fault, fault, &v, &err), &err);
        assert_int_equal(pawl_survey_count(v), 1);
        const pawl_found *f = pawl_survey_get(v, 0);
        assert_string_equal(f->path, "run");
        assert_int_equal(f->status, cases[i].status);
        assert_string_equal(f->why, cases[i].why);
        pawl_survey_free(v);
        store_destroy(fault);
    }
}

static pawl_status look_once(void *context, pawl_error *err) {
    pawl_survey *v = NULL;
    pawl_status status = survey_open(context, context, &v, err);
    if (status == PAWL_OK) {
        assert_int_equal(pawl_survey_count(v), 3);
    }
    pawl_survey_free(v);
    return status;
}

static void test_without_memory_it_fails_and_leaks_nothing(void **state) {
    store *s = *state;
    make_directory(s, "d");
    make_file(s, "d/a.safetensors", "{}", 2, 0);
    make_file(s, "d/m.index", "no table", -1, 0);
    make_file(s, "d/m.data-00000-of-00001", "", -1, 0);
    make_directory(s, "orbax");
    make_file(s, "orbax/_CHECKPOINT_METADATA", "", -1, 0);
    make_directory(s, "orbax/default");
    assert_true(failing_memory_each(look_once, s) > 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_step_of_a_name),
        cmocka_unit_test(test_numbers_are_ordered_by_their_value),
        cmocka_unit_test_setup_teardown(test_too_many_directories_are_left_out_and_told, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_step_of_orbax_that_was_not_put_together_is_unfinished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_p02_what_may_not_be_read_is_not_called_damaged, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_p02_a_run_whose_steps_cannot_be_looked_at_is_not_unfinished, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_memory_it_fails_and_leaks_nothing, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
