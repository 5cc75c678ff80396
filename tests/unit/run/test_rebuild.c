/* SPDX-License-Identifier: Apache-2.0 */
/* A new index from the data files alone. */
#include "lib/training.h"

static void verify_step(training *f, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    pawl_verify_result result;
    assert_ok(training_open(f, step, &err), &err);
    assert_ok(checkpoint_verify(f->checkpoint, NULL, &result, &err), &err);
    pawl_checkpoint_close(f->checkpoint);
    f->checkpoint = NULL;
}

static void assert_restores(training *f, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    const pawl_restore_options options = {.struct_size = sizeof(options), .step = &step};
    AUTOFREE training *wanted = mem_alloc(sizeof(*wanted));
    training_fill(f, 7);
    assert_ok(run_restore(f->run, f->state, &options, NULL, &err), &err);
    *wanted = *f;
    training_make_state(wanted);
    training_fill(wanted, step);
    state_free(wanted->state);
    assert_memory_equal(f->kernel, wanted->kernel, sizeof(f->kernel));
    assert_memory_equal(f->bias, wanted->bias, sizeof(f->bias));
    assert_memory_equal(f->slot, wanted->slot, sizeof(f->slot));
}

static void test_an_index_is_made_anew_and_the_manifest_keeps_what_it_said(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    pawl_checkpoint_info info;
    assert_ok(training_open(f, 200, &err), &err);
    checkpoint_describe(f->checkpoint, &info);
    int64_t saved_ns = info.unix_time_ns;
    assert_true(saved_ns >= 1700000000000000000 && saved_ns <= f->os.unix_time_ns);
    training_path(f, 200, NAME_KIND_INDEX, path);
    training_flip(f, path, 50);
    assert_ok(run_rebuild(f->run, 200, false, &err), &err);
    verify_step(f, 200);
    assert_restores(f, 200);
    assert_ok(training_open(f, 200, &err), &err);
    checkpoint_describe(f->checkpoint, &info);
    assert_int_equal(info.unix_time_ns, saved_ns);
    assert_string_equal(info.framework, "tests 1.0");
    assert_says(info.manifest_json, "\"loss\": 0.5");
    assert_int_equal(info.entries, 9);
}

static void test_the_old_index_is_removed(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    store_stat found;
    training_path(f, 200, NAME_KIND_INDEX, path);
    assert_ok(run_rebuild(f->run, 200, false, &err), &err);
    assert_fails(store_stat_path(f->disk, path, &found, &err), PAWL_ENOTFOUND, &err);
}

static void test_without_a_manifest_one_is_made(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    training_path(f, 200, NAME_KIND_INDEX, path);
    assert_ok(store_unlink(f->disk, path, &err), &err);
    assert_ok(store_unlink(f->disk, "step-00000200/manifest.json", &err), &err);
    assert_ok(run_rebuild(f->run, 200, false, &err), &err);
    verify_step(f, 200);
    assert_restores(f, 200);
    assert_says(f->log, "step 200 is rebuilt without its manifest: the time and the metrics of its "
                        "save are lost: ");
}

static void test_several_files_are_put_together(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {4, 4};
    const int64_t offsets[][2] = {{0, 0}, {2, 0}};
    const int64_t extent[] = {2, 4};
    int32_t memory[2][8] = {{1, 2, 3, 4, 5, 6, 7, 8}, {9, 10, 11, 12, 13, 14, 15, 16}};
    int32_t whole[16];
    pawl_box boxes[2];
    for (size_t i = 0; i < 2; i++) {
        boxes[i] = (pawl_box){.offset = offsets[i], .extent = extent, .data = memory[i]};
    }
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "sharded",
                                .dtype = PAWL_I32,
                                .ndim = 2,
                                .shape = shape,
                                .nboxes = 2,
                                .boxes = boxes};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    training_save(f, 400);
    put_anew(f->disk, "step-00000400/manifest.json", "", 0);
    assert_ok(run_rebuild(f->run, 400, false, &err), &err);
    assert_ok(training_open(f, 400, &err), &err);
    assert_ok(checkpoint_read(f->checkpoint, "sharded", NULL, NULL, whole, sizeof(whole), &err),
              &err);
    for (int32_t i = 0; i < 16; i++) {
        assert_int_equal(whole[i], i + 1);
    }
    pawl_checkpoint_close(f->checkpoint);
    f->checkpoint = NULL;
    char path[256];
    training_path(f, 400, NAME_KIND_DATA, path);
    assert_ok(store_unlink(f->disk, "step-00000400/manifest.json", &err), &err);
    assert_ok(store_unlink(f->disk, path, &err), &err);
    assert_fails(run_rebuild(f->run, 400, false, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt,
                        "rebuilding step 400: step 400 has no complete set of data files");
    assert_string_equal(err.found, "1 of them");
}

static void test_two_complete_sets_are_not_chosen_between(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char from[256];
    CLEANUP(buffer_free) buffer bytes = {0};
    training_path(f, 200, NAME_KIND_DATA, from);
    training_take_file(f, from, &bytes);
    put_anew(f->disk, "step-00000200/data-0123456789ab-9-00000-of-00001.safetensors", bytes.data,
             bytes.size);
    assert_ok(store_unlink(f->disk, "step-00000200/manifest.json", &err), &err);
    assert_fails(run_rebuild(f->run, 200, false, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt,
                        "rebuilding step 200: step 200 has data files of more than one save");
    assert_says(err.found, "data-0123456789ab-9-... and data-");
}

static void test_data_of_another_step_is_refused(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char from[256];
    char to[256];
    CLEANUP(buffer_free) buffer bytes = {0};
    training_path(f, 100, NAME_KIND_DATA, from);
    training_path(f, 200, NAME_KIND_DATA, to);
    training_take_file(f, from, &bytes);
    put_anew(f->disk, to, bytes.data, bytes.size);
    training_catch_up(f);
    assert_fails(run_rebuild(f->run, 200, true, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "rebuilding step 200: reading a data file: the data files do not "
                             "belong together: ");
    assert_string_equal(err.expected, "step 200");
    assert_string_equal(err.found, "step 100");
    assert_says(err.path, to);
}

static void test_a_truncated_data_file_is_refused_and_nothing_changes(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    CLEANUP(buffer_free) buffer before = {0};
    CLEANUP(buffer_free) buffer after = {0};
    training_path(f, 200, NAME_KIND_DATA, path);
    training_truncate(f, path, 9000);
    training_take_file(f, "step-00000200/manifest.json", &before);
    assert_fails(run_rebuild(f->run, 200, false, &err), PAWL_EDAMAGED, &err);
    training_take_file(f, "step-00000200/manifest.json", &after);
    assert_int_equal(before.size, after.size);
    assert_memory_equal(before.data, after.data, before.size);
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* Step 200 with its data file alone, changed at [at, at + n). */
static void leave_only_data(training *f, size_t at, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    char path[256];
    CLEANUP(buffer_free) buffer data = {0};
    training_path(f, 200, NAME_KIND_INDEX, path);
    assert_ok(store_unlink(f->disk, path, &err), &err);
    assert_ok(store_unlink(f->disk, "step-00000200/manifest.json", &err), &err);
    training_path(f, 200, NAME_KIND_DATA, path);
    training_take_file(f, path, &data);
    memcpy(data.data + at, bytes, n);
    put_anew(f->disk, path, data.data, data.size);
    training_catch_up(f);
}

static void test_s09_zeros_where_writes_did_not_arrive_are_refused(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    static const uint8_t zeros[4096];
    char path[256];
    uint64_t at = training_offset_of(f, 200, "optimizer/m");
    leave_only_data(f, (size_t)at + 8192, zeros, sizeof(zeros));
    training_path(f, 200, NAME_KIND_DATA, path);
    assert_fails(run_rebuild(f->run, 200, false, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt,
                        "rebuilding step 200: reading a data file: the bytes of the data file are "
                        "not those that its writer finished it with");
    assert_says(err.path, path);
    assert_string_equal(err.safe, "nothing was changed");
    assert_says(err.next, "to take what is there now for what was written: pawl rebuild --force ");
    assert_fails(training_open(f, 200, &err), PAWL_ENOTFOUND, &err);
}

static void test_what_is_there_is_taken_when_insisted_upon(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    leave_only_data(f, (size_t)training_offset_of(f, 200, "model/dense/bias"), "bits", 4);
    assert_ok(run_rebuild(f->run, 200, true, &err), &err);
    assert_says(f->log, " now is taken for what was written: the bytes of the data file are not "
                        "those that its writer finished it with");
    verify_step(f, 200);
}

static void
test_s09_a_file_that_was_not_finished_is_refused_whatever_is_insisted_upon(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    leave_only_data(f, DATA_SUM_AT, DATA_SUM_UNFINISHED, DATA_SUM_DIGITS);
    for (int force = 0; force < 2; force++) {
        assert_fails(run_rebuild(f->run, 200, force != 0, &err), PAWL_EDAMAGED, &err);
        assert_string_equal(err.attempt,
                            "rebuilding step 200: reading a data file: the data file is not "
                            "finished: its writer did not get to the end");
    }
}

static void test_a_wrong_digit_is_refused(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    CLEANUP(buffer_free) buffer data = {0};
    training_path(f, 200, NAME_KIND_DATA, path);
    training_take_file(f, path, &data);
    char digit = data.data[DATA_SUM_AT + 3] == '0' ? '1' : '0';
    leave_only_data(f, DATA_SUM_AT + 3, &digit, 1);
    assert_fails(run_rebuild(f->run, 200, false, &err), PAWL_EDAMAGED, &err);
    assert_says(err.expected, "which stands in its header");
}

/* Tools that write the header anew leave the key out, and so did earlier versions. */
static void test_a_file_without_a_sum_is_taken_as_it_is(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    leave_only_data(f, DATA_SUM_AT - strlen("pawl_sum\":\""), "older___", strlen("older___"));
    assert_ok(run_rebuild(f->run, 200, false, &err), &err);
    assert_restores(f, 200);
}

static void test_a_step_that_is_not_there(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(run_rebuild(f->run, 150, false, &err), PAWL_ENOTFOUND, &err);
    assert_fails(run_rebuild(f->run, -1, false, &err), PAWL_EUSAGE, &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define STEPS(test) cmocka_unit_test_setup_teardown(test, training_set_up_steps, training_tear_down)
        STEPS(test_an_index_is_made_anew_and_the_manifest_keeps_what_it_said),
        STEPS(test_the_old_index_is_removed),
        STEPS(test_without_a_manifest_one_is_made),
        STEPS(test_several_files_are_put_together),
        STEPS(test_two_complete_sets_are_not_chosen_between),
        STEPS(test_data_of_another_step_is_refused),
        STEPS(test_a_truncated_data_file_is_refused_and_nothing_changes),
        STEPS(test_s09_zeros_where_writes_did_not_arrive_are_refused),
        STEPS(test_what_is_there_is_taken_when_insisted_upon),
        STEPS(test_s09_a_file_that_was_not_finished_is_refused_whatever_is_insisted_upon),
        STEPS(test_a_wrong_digit_is_refused),
        STEPS(test_a_file_without_a_sum_is_taken_as_it_is),
        STEPS(test_a_step_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
