/* SPDX-License-Identifier: Apache-2.0 */
/* Names of steps that belong to a file, a link or a pipe: each verb, and a job that saves, says so
 * about that one and goes on with the others, and touches none of them. */
#include "lib/at_step.h"
#include "outside/small_run.h"

#define LEFTOVER "step-00000200/index-aaaaaaaaaaaa-9"

static void put(const small_run *s, const char *name) {
    small_write(directory_path(s->path, name), "mine", 4);
}

/* Steps 10 and 20; a file, a link and a pipe in the place of others; and a leftover behind them. */
static int set_up(void **state) {
    (void)small_set_up(state);
    small_run *f = *state;
    pawl_run *run = small_open_keeping(f, 0);
    assert_ok(small_save_to(f, run, 10), f->err);
    assert_ok(small_save_to(f, run, 20), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    put(f, "step-00000005");
    assert_int_equal(mkdir(directory_path(f->path, "elsewhere"), 0777), 0);
    put(f, "elsewhere/index-aaaaaaaaaaaa-9");
    assert_int_equal(symlink("elsewhere", directory_path(f->path, "step-00000015")), 0);
    assert_int_equal(mkfifo(directory_path(f->path, "step-00000099"), 0666), 0);
    assert_int_equal(mkdir(directory_path(f->path, "step-00000200"), 0777), 0);
    put(f, LEFTOVER);
    return 0;
}

static void assert_strangers_stay(const small_run *f) {
    struct stat found;
    assert_int_equal(lstat(directory_path(f->path, "step-00000005"), &found), 0);
    assert_true(S_ISREG(found.st_mode) && found.st_size == 4);
    assert_int_equal(lstat(directory_path(f->path, "step-00000015"), &found), 0);
    assert_true(S_ISLNK(found.st_mode));
    assert_int_equal(lstat(directory_path(f->path, "step-00000099"), &found), 0);
    assert_true(S_ISFIFO(found.st_mode));
    assert_int_equal(access(directory_path(f->path, "elsewhere/index-aaaaaaaaaaaa-9"), F_OK), 0);
}

static void count(void *context, const char *path, uint64_t bytes, const char *reason) {
    (void)path, (void)bytes, (void)reason;
    ++*(int *)context;
}

/* gc names each of them, and removes what lies behind them. */
static void test_28_gc_tells_of_each_and_goes_on(void **state) {
    small_run *f = *state;
    int removed = 0;
    pawl_run *run = small_open_keeping(f, 0);
    assert_ok(pawl_run_gc(run, 0, count, &removed, f->err), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    assert_int_equal(removed, 1);
    assert_int_equal(access(directory_path(f->path, "step-00000200"), F_OK), -1);
    assert_says(f->log, "step-00000005 has the name of a step");
    assert_says(f->log, "step-00000015 has the name of a step");
    assert_says(f->log, "step-00000099 has the name of a step");
    assert_strangers_stay(f);
}

/* A directory in the place of a file is left, and does not keep the rest of its step. */
static void test_28_a_directory_named_as_a_file_stays(void **state) {
    small_run *f = *state;
    int removed = 0;
    assert_int_equal(
        mkdir(
            directory_path(f->path, "step-00000200/data-aaaaaaaaaaaa-9-00000-of-00001.safetensors"),
            0777),
        0);
    put(f, "step-00000200/data-aaaaaaaaaaaa-9-00000-of-00001.safetensors/x");
    pawl_run *run = small_open_keeping(f, 0);
    assert_ok(pawl_run_gc(run, 0, count, &removed, f->err), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    assert_int_equal(removed, 1);
    assert_int_equal(access(directory_path(f->path, LEFTOVER), F_OK), -1);
    assert_says(f->log, "of-00001.safetensors is left alone");
    put(f, "step-00000200/data-aaaaaaaaaaaa-9-00000-of-00001.safetensors/x");
}

/* A list has them, as what they are, beside the checkpoints. */
static void test_28_a_list_shows_them(void **state) {
    small_run *f = *state;
    static const struct {
        int64_t step;
        pawl_step_status status;
        const char *why;
    } expected[] = {{5, PAWL_STEP_UNFINISHED, "found a file"},
                    {10, PAWL_STEP_COMMITTED, NULL},
                    {15, PAWL_STEP_UNFINISHED, "found a link, pipe or device"},
                    {20, PAWL_STEP_COMMITTED, NULL},
                    {99, PAWL_STEP_UNFINISHED, "found a link, pipe or device"},
                    {200, PAWL_STEP_UNFINISHED, "no manifest"}};
    pawl_catalog *catalog;
    assert_ok(pawl_catalog_open(f->path, NULL, &catalog, f->err), f->err);
    assert_int_equal(pawl_catalog_count(catalog), ARRAY_LENGTH(expected));
    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++) {
        const pawl_step_info *step = pawl_catalog_get(catalog, i);
        assert_int_equal(step->step, expected[i].step);
        assert_int_equal(step->status, expected[i].status);
        if (expected[i].why != NULL) {
            assert_says(step->why, expected[i].why);
        }
    }
    pawl_catalog_free(catalog);
}

/* The newest is found though `latest` names one of them, and one that is asked for is none. */
static void test_28_readers_pass_them_over(void **state) {
    small_run *f = *state;
    pawl_checkpoint *checkpoint;
    pawl_checkpoint_info about = {.struct_size = sizeof about};
    FILE *latest = fopen(directory_path(f->path, "latest"), "w");
    assert_non_null(latest);
    assert_true(fputs("step-00000099\n", latest) >= 0);
    assert_int_equal(fclose(latest), 0);
    assert_ok(pawl_checkpoint_open(f->path, NULL, &checkpoint, f->err), f->err);
    assert_ok(pawl_checkpoint_describe(checkpoint, &about, f->err), f->err);
    assert_int_equal(about.step, 20);
    pawl_checkpoint_close(checkpoint);
    assert_fails(pawl_checkpoint_open(f->path, AT_STEP(15), &checkpoint, f->err), PAWL_ENOTFOUND,
                 f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_FOUND), "a link, pipe or device of that name");
}

/* A job cannot save that step and says why; it saves and removes the others, and the leftover. */
static void test_28_a_job_goes_on(void **state) {
    small_run *f = *state;
    pawl_run *run = small_open_keeping(f, 1);
    assert_fails(small_save_to(f, run, 99), PAWL_EDAMAGED, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), "step-00000099 has the name of a step");
    assert_ok(small_save_to(f, run, 100), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    assert_int_equal(access(directory_path(f->path, "step-00000010"), F_OK), -1);
    assert_int_equal(access(directory_path(f->path, "step-00000020"), F_OK), -1);
    assert_int_equal(access(directory_path(f->path, "step-00000200"), F_OK), -1);
    assert_int_equal(access(directory_path(f->path, "step-00000100/manifest.json"), F_OK), 0);
    assert_strangers_stay(f);
}

/* Removing and rebuilding say that there is no such step. */
static void test_28_housekeeping_refuses_them(void **state) {
    small_run *f = *state;
    pawl_run *run = small_open_keeping(f, 0);
    assert_fails(pawl_run_remove(run, 5, 1, f->err), PAWL_ENOTFOUND, f->err);
    assert_fails(pawl_run_rebuild(run, 5, 0, f->err), PAWL_EDAMAGED, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), "step-00000005 has the name of a step");
    assert_ok(pawl_run_remove(run, 10, 0, f->err), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    assert_strangers_stay(f);
}

#define STRANGERS_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, small_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        STRANGERS_TEST(test_28_gc_tells_of_each_and_goes_on),
        STRANGERS_TEST(test_28_a_directory_named_as_a_file_stays),
        STRANGERS_TEST(test_28_a_list_shows_them),
        STRANGERS_TEST(test_28_readers_pass_them_over),
        STRANGERS_TEST(test_28_a_job_goes_on),
        STRANGERS_TEST(test_28_housekeeping_refuses_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
