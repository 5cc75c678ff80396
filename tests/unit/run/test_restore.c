/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring: bit for bit, from the newest checkpoint that is whole, or not at all. */
#include "lib/training.h"

#include <errno.h>

#include "lib/failing_memory.h"

static const pawl_restore_options plain = {.struct_size = sizeof(plain)};

/* The state holds what was saved at `step`, tensors and values. */
static void assert_restored(training *f, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    AUTOFREE training *wanted = mem_alloc(sizeof(*wanted));
    *wanted = *f;
    training_make_state(wanted);
    training_fill(wanted, step);
    assert_memory_equal(f->kernel, wanted->kernel, sizeof(f->kernel));
    assert_memory_equal(f->bias, wanted->bias, sizeof(f->bias));
    assert_memory_equal(f->slot, wanted->slot, sizeof(f->slot));
    state_snapshot *left;
    state_snapshot *right;
    assert_ok(state_snapshot_take(f->state, 0, false, &left, &err), &err);
    assert_ok(state_snapshot_take(wanted->state, 0, false, &right, &err), &err);
    assert_int_equal(left->count, right->count);
    for (size_t i = 0; i < left->count; i++) {
        const state_entry *a = left->entries[i];
        const state_entry *b = right->entries[i];
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->value_bytes, b->value_bytes);
        if (a->value_bytes > 0) {
            assert_memory_equal(a->value, b->value, a->value_bytes);
        }
    }
    state_snapshot_free(left);
    state_snapshot_free(right);
    state_free(wanted->state);
}

/* Nothing of the state is as any step left it. */
static void spoil(training *f) {
    training_fill(f, 7);
    memset(f->kernel, 0x11, sizeof(f->kernel));
}

static void flip_kernel(training *f, int64_t step) {
    char path[256];
    training_path(f, step, NAME_KIND_DATA, path);
    training_flip(f, path, training_offset_of(f, step, "model/dense/kernel") + 20000);
}

/* ---- what is restored ---- */

static void test_the_newest_is_restored_bit_for_bit(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_report *report;
    spoil(f);
    assert_ok(run_restore(f->run, f->state, NULL, &report, &err), &err);
    assert_restored(f, 300);
    assert_int_equal(f->run->restored_step, 300);
    assert_int_equal(pawl_report_step(report), 300);
    pawl_report_counts totals = report_totals(report);
    assert_int_equal(totals.restored, 9);
    assert_int_equal(totals.kept, 0);
    assert_int_equal(totals.ignored, 0);
    assert_int_equal(totals.fallbacks, 0);
    assert_true(totals.bytes >= sizeof(f->kernel) + sizeof(f->bias) + sizeof(f->slot));
    assert_says(pawl_report_text(report), "step 300: restored 9 entries");
    pawl_report_free(report);
    assert_string_equal(f->log, "");
}

static void test_a_step_by_number(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t step = 100;
    pawl_restore_options options = plain;
    options.step = &step;
    spoil(f);
    assert_ok(run_restore(f->run, f->state, &options, NULL, &err), &err);
    assert_restored(f, 100);
    assert_int_equal(f->run->restored_step, 100);
}

static void test_without_a_run(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_report *report;
    spoil(f);
    assert_ok(training_open(f, 200, &err), &err);
    assert_ok(checkpoint_restore(f->checkpoint, f->state, &plain, 0, 1, &report, &err), &err);
    assert_restored(f, 200);
    assert_int_equal(pawl_report_step(report), 200);
    pawl_report_free(report);
}

static void test_close_tensors_are_one_read_of_the_file(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(training_open(f, 300, &err), &err);
    store_fault_set(f->fault, &(store_fault){0});
    uint64_t before = checkpoint_reads(f->checkpoint).reads;
    assert_ok(checkpoint_restore(f->checkpoint, f->state, &plain, 0, 1, NULL, &err), &err);
    /* One for the data, one for its checksums, one or two for the entries, one for the rank's
     * bytes. */
    assert_true(checkpoint_reads(f->checkpoint).reads - before <= 5);
}

static void test_a_cast_is_counted(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {TRAINING_COLUMNS};
    double bias[TRAINING_COLUMNS];
    pawl_report *report;
    pawl_restore_options options = plain;
    options.cast = PAWL_POLICY_ALLOW;
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "model/dense/bias",
                                .dtype = PAWL_F64,
                                .ndim = 1,
                                .shape = shape,
                                .data = bias};
    assert_ok(state_remove(f->state, "model/dense/bias", &err), &err);
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    assert_ok(run_restore(f->run, f->state, &options, &report, &err), &err);
    assert_int_equal(report_totals(report).cast, 1);
    pawl_report_free(report);
    training_fill(f, 300);
    for (size_t i = 0; i < TRAINING_COLUMNS; i++) {
        assert_true(bias[i] == (double)f->bias[i]);
    }
}

/* ---- mismatch ---- */

static void test_a_mismatch_leaves_the_state_untouched(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const uint8_t extra = 1;
    pawl_report *report = NULL;
    AUTOFREE training *before = mem_alloc(sizeof(*before));
    training_set(f, "added", PAWL_KIND_BOOL, PAWL_ROLE_OTHER, false, &extra, 1);
    spoil(f);
    *before = *f;
    assert_fails(run_restore(f->run, f->state, NULL, &report, &err), PAWL_EMISMATCH, &err);
    assert_memory_equal(f->kernel, before->kernel, sizeof(f->kernel));
    assert_memory_equal(f->bias, before->bias, sizeof(f->bias));
    assert_says(err.attempt, "restoring: ");
    assert_says(err.attempt, "added");
    assert_string_equal(err.path, "/mem/step-00000300");
    assert_non_null(report);
    assert_int_equal(pawl_report_count(report), 1);
    assert_int_equal(pawl_report_get(report, 0)->difference, PAWL_DIFF_MISSING);
    pawl_report_free(report);
    assert_int_equal(f->run->restored_step, -1);
}

static void test_missing_entries_are_kept_when_allowed(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const uint8_t extra = 1;
    pawl_report *report;
    pawl_restore_options options = plain;
    options.missing = PAWL_POLICY_ALLOW;
    training_set(f, "added", PAWL_KIND_BOOL, PAWL_ROLE_OTHER, false, &extra, 1);
    assert_ok(run_restore(f->run, f->state, &options, &report, &err), &err);
    assert_int_equal(report_totals(report).kept, 1);
    assert_int_equal(report_totals(report).restored, 9);
    pawl_report_free(report);
}

static void test_r07_the_callers_hyperparameter_stands_when_asked(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const double rate = 0.1;
    const state_entry *entry;
    double found;
    pawl_restore_options options = plain;
    options.hyperparameter = PAWL_POLICY_CALLER;
    training_set(f, "optimizer/rate", PAWL_KIND_FLOAT64, PAWL_ROLE_HYPERPARAMETER, false, &rate, 8);
    assert_ok(run_restore(f->run, f->state, &options, NULL, &err), &err);
    assert_ok(state_get_value(f->state, "optimizer/rate", PAWL_KIND_FLOAT64, &entry, &err), &err);
    memcpy(&found, entry->value, sizeof(found));
    assert_true(found == rate);
    assert_says(f->log, "restoring step 300: \"optimizer/rate\" is ");
    assert_says(f->log, "the state's value is used");
}

/* ---- damage and fallback (R08) ---- */

static void test_r08_a_damaged_newest_falls_back_loudly(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_report *report;
    flip_kernel(f, 300);
    spoil(f);
    assert_ok(run_restore(f->run, f->state, NULL, &report, &err), &err);
    assert_restored(f, 200);
    assert_int_equal(f->run->restored_step, 200);
    assert_int_equal(pawl_report_step(report), 200);
    assert_int_equal(report_totals(report).fallbacks, 1);
    assert_says(pawl_report_text(report), "300");
    assert_says(pawl_report_text(report), "model/dense/kernel");
    assert_says(f->log, "step 300 is damaged and is passed over for the next older one: ");
    assert_says(f->log, "model/dense/kernel");
    pawl_report_free(report);
}

static void test_r08_two_damaged_ones_fall_back_twice(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_report *report;
    char path[256];
    flip_kernel(f, 300);
    training_path(f, 200, NAME_KIND_INDEX, path);
    training_truncate(f, path, 10);
    assert_ok(run_restore(f->run, f->state, NULL, &report, &err), &err);
    assert_restored(f, 100);
    assert_int_equal(report_totals(report).fallbacks, 2);
    pawl_report_free(report);
}

static void test_r08_without_fallback_damage_is_the_failure(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_report *report = NULL;
    pawl_restore_options options = plain;
    options.no_fallback = 1;
    flip_kernel(f, 300);
    assert_fails(run_restore(f->run, f->state, &options, &report, &err), PAWL_EDAMAGED, &err);
    assert_null(report);
    assert_string_equal(err.entry, "model/dense/kernel");
    assert_int_equal(err.step, 300);
    assert_string_equal(err.safe, "step 200 is committed; check it with: pawl verify /mem@200");
    assert_string_equal(f->log, "");
}

static void test_r08_a_step_by_number_never_falls_back(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t step = 300;
    pawl_restore_options options = plain;
    options.step = &step;
    flip_kernel(f, 300);
    assert_fails(run_restore(f->run, f->state, &options, NULL, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(f->run->restored_step, -1);
}

static void test_r08_when_all_are_damaged_the_newest_tells(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    flip_kernel(f, 100);
    flip_kernel(f, 200);
    flip_kernel(f, 300);
    assert_fails(run_restore(f->run, f->state, NULL, NULL, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "restoring: none of 3 checkpoints is intact; the newest: ");
    assert_int_equal(err.step, 300);
    assert_int_equal(f->run->restored_step, -1);
}

static void test_r08_damage_never_reaches_the_tensor(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_restore_options options = plain;
    options.no_fallback = 1;
    flip_kernel(f, 300);
    spoil(f);
    assert_fails(run_restore(f->run, f->state, &options, NULL, &err), PAWL_EDAMAGED, &err);
    float spoiled;
    memset(&spoiled, 0x11, sizeof(spoiled));
    assert_true(f->kernel[39][8] == spoiled); /* byte 20000 */
    assert_true(f->kernel[39][9] == spoiled);
}

/* With `missing` allowed, an older step could leave bytes of the newer one in an entry it lacks. */
static void test_a_fallback_never_mixes_two_steps(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {4};
    double added[4] = {1, 2, 3, 4};
    pawl_restore_options options = plain;
    options.missing = PAWL_POLICY_ALLOW;
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "model/added",
                                .dtype = PAWL_F64,
                                .ndim = 1,
                                .shape = shape,
                                .data = added};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    training_save(f, 400);
    flip_kernel(f, 400);
    assert_fails(run_restore(f->run, f->state, &options, NULL, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "restoring: step 400 is damaged, and an older checkpoint does not "
                             "restore everything that was already read of it");
    assert_string_equal(err.entry, "model/added");
    assert_int_equal(err.step, 400);
}

static void test_an_older_step_that_does_not_fit_is_no_way_out(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const uint8_t extra = 1;
    training_set(f, "added", PAWL_KIND_BOOL, PAWL_ROLE_OTHER, false, &extra, 1);
    training_save(f, 400);
    flip_kernel(f, 400);
    assert_fails(run_restore(f->run, f->state, NULL, NULL, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "restoring: step 400 is damaged, its bytes are in part in the tensors "
                             "already, and the next older checkpoint does not fit the state: ");
    assert_string_equal(err.safe, "the checkpoints are as they were; the state is not");
}

static void test_storage_that_fails_is_no_damage(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    store_fault_set(
        f->fault,
        &(store_fault){.op = STORE_OP_READ, .nth = 1, .system_errno = 5, .forever = true});
    assert_fails(run_restore(f->run, f->state, NULL, NULL, &err), PAWL_EIO, &err);
    assert_string_equal(f->log, "");
}

/* Marks whose removal failed would make each next restore longer. */
static void remove_marks(training *f) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error err = ERROR_INIT;
    char path[64];
    char **names;
    size_t count;
    assert_ok(store_names(f->disk, "step-00000300", 100, &memory, &names, &count, &err), &err);
    for (size_t i = 0; i < count; i++) {
        if (name_classify(names[i], NULL) == NAME_KIND_READER) {
            snprintf(path, sizeof(path), "step-00000300/%s", names[i]);
            assert_ok(store_unlink(f->disk, path, &err), &err);
        }
    }
}

/* An operation that fails may end the restore; it may not make an older step the newest. */
static void test_storage_that_fails_never_means_an_older_step(void **state) {
    training *f = *state;
    bool fired = true;
    for (uint64_t nth = 1; fired; nth++) {
        struct pawl_error err = ERROR_INIT;
        const store_fault plan = {.op = STORE_OP_ANY, .nth = nth, .system_errno = EIO};
        const store_fault none = {0};
        store_fault_set(f->fault, &plan);
        f->run->restored_step = -1;
        pawl_status status = run_restore(f->run, f->state, NULL, NULL, &err);
        fired = store_fault_count(f->fault, STORE_OP_ANY) >= nth;
        store_fault_set(f->fault, &none);
        remove_marks(f);
        if (status == PAWL_OK) {
            assert_int_equal(f->run->restored_step, 300);
        } else {
            assert_int_equal(status, PAWL_EIO);
        }
    }
}

static void test_r12_a_newer_format_is_not_fallen_back_from(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    CLEANUP(buffer_free) buffer text = {0};
    const char *path = "step-00000300/manifest.json";
    training_take_file(f, path, &text);
    char *version = strstr((char *)text.data, "\"format_version\": 1");
    char *tail = strstr((char *)text.data, "  \"crc32c\": \"");
    assert_true(version != NULL && tail != NULL);
    version[strlen("\"format_version\": ")] = '2';
    snprintf(tail, 28, "  \"crc32c\": \"%08x\"\n}",
             crc32c(0, text.data, (size_t)(tail - (char *)text.data)));
    text.data[text.size - 1] = '\n';
    put_anew(f->disk, path, text.data, text.size);
    assert_fails(run_restore(f->run, f->state, NULL, NULL, &err), PAWL_EUNSUPPORTED, &err);
    assert_string_equal(err.path, "/mem/step-00000300/manifest.json");
}

/* ---- nothing there (R09) ---- */

static void test_r09_an_empty_run(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_open_run(f);
    assert_fails(run_restore(f->run, f->state, NULL, NULL, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.attempt, "restoring: there is no checkpoint here");
    assert_string_equal(err.found, "a run that has no checkpoint yet");
}

static void test_r09_a_step_that_is_not_there(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t step = 150;
    pawl_restore_options options = plain;
    options.step = &step;
    assert_fails(run_restore(f->run, f->state, &options, NULL, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.attempt,
                        "restoring: opening a checkpoint: there is no checkpoint of step 150");
}

static pawl_status restore_with_failing_memory(void *context, pawl_error *err) {
    training *f = context;
    pawl_report *report = NULL;
    pawl_status status = run_restore(f->run, f->state, NULL, &report, err);
    pawl_report_free(report);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_close_run(f);
    f->no_event_file = 1; /* neither events */
    training_open_run(f);
    f->os.identity_fails = true; /* nor a reader's mark, which would do without memory */
    assert_ok(restore_with_failing_memory(f, &err), &err);
    assert_true(failing_memory_each(restore_with_failing_memory, f) > 50);
    assert_restored(f, 300);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define STEPS(test) cmocka_unit_test_setup_teardown(test, training_set_up_steps, training_tear_down)
#define EMPTY(test) cmocka_unit_test_setup_teardown(test, training_set_up, training_tear_down)
        STEPS(test_the_newest_is_restored_bit_for_bit),
        STEPS(test_a_step_by_number),
        STEPS(test_without_a_run),
        STEPS(test_close_tensors_are_one_read_of_the_file),
        STEPS(test_a_cast_is_counted),
        STEPS(test_a_mismatch_leaves_the_state_untouched),
        STEPS(test_missing_entries_are_kept_when_allowed),
        STEPS(test_r07_the_callers_hyperparameter_stands_when_asked),
        STEPS(test_r08_a_damaged_newest_falls_back_loudly),
        STEPS(test_r08_two_damaged_ones_fall_back_twice),
        STEPS(test_r08_without_fallback_damage_is_the_failure),
        STEPS(test_r08_a_step_by_number_never_falls_back),
        STEPS(test_r08_when_all_are_damaged_the_newest_tells),
        STEPS(test_r08_damage_never_reaches_the_tensor),
        STEPS(test_a_fallback_never_mixes_two_steps),
        STEPS(test_an_older_step_that_does_not_fit_is_no_way_out),
        STEPS(test_storage_that_fails_is_no_damage),
        STEPS(test_storage_that_fails_never_means_an_older_step),
        STEPS(test_r12_a_newer_format_is_not_fallen_back_from),
        EMPTY(test_r09_an_empty_run),
        STEPS(test_r09_a_step_that_is_not_there),
        STEPS(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
