/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying a checkpoint: every byte counts, every problem is told, with the entries
 * it hits (R08). */
#include "lib/training.h"

#include "lib/failing_memory.h"

#define KEPT 64

typedef struct told {
    size_t count;
    char file[KEPT][128];
    char entry[KEPT][128];
    uint64_t offset[KEPT], length[KEPT];
    char text[KEPT][2048];
    uint64_t done_bytes, of_bytes;
} told;

static void take_problem(void *context, const pawl_problem *problem) {
    told *t = context;
    if (t->count < KEPT) {
        snprintf(t->file[t->count], sizeof(t->file[0]), "%s", problem->file);
        snprintf(t->entry[t->count], sizeof(t->entry[0]), "%s",
                 problem->entry != NULL ? problem->entry : "");
        snprintf(t->text[t->count], sizeof(t->text[0]), "%s", problem->text);
        t->offset[t->count] = problem->offset;
        t->length[t->count] = problem->length;
    }
    t->count++;
}

static void take_progress(void *context, uint64_t done, uint64_t of) {
    told *t = context;
    assert_true(done >= t->done_bytes && done <= of);
    t->done_bytes = done;
    t->of_bytes = of;
}

static pawl_status verify(training *f, uint64_t most, told *t, pawl_verify_result *result,
                          pawl_error *err) {
    const pawl_verify_options options = {.struct_size = sizeof(options),
                                         .problem = take_problem,
                                         .progress = take_progress,
                                         .context = t,
                                         .max_problems = most};
    *t = (told){0};
    return checkpoint_verify(f->checkpoint, &options, result, err);
}

static void test_a_whole_checkpoint_verifies(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    static told t;
    pawl_verify_result result;
    assert_ok(training_open(f, 300, &err), &err);
    assert_ok(verify(f, 0, &t, &result, &err), &err);
    assert_int_equal(result.files, 3);
    assert_int_equal(result.entries, 9);
    assert_int_equal(result.problems, 0);
    assert_int_equal(result.bytes, t.of_bytes);
    assert_int_equal(t.done_bytes, t.of_bytes);
    assert_int_equal(t.count, 0);
    assert_ok(checkpoint_verify(f->checkpoint, NULL, &result, &err), &err);
}

static void test_damage_is_told_with_the_entry_and_its_bytes(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    static told t;
    pawl_verify_result result;
    char path[256];
    training_path(f, 300, NAME_KIND_DATA, path);
    uint64_t offset = training_offset_of(f, 300, "optimizer/m");
    training_flip(f, path, offset + 17000);
    assert_ok(training_open(f, 300, &err), &err);
    assert_fails(verify(f, 0, &t, &result, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(t.count, 1);
    assert_string_equal(t.file[0], path + strlen("step-00000300/"));
    assert_string_equal(t.entry[0], "optimizer/m");
    uint64_t block = (offset + 17000) / FORMAT_BLOCK_BYTES * FORMAT_BLOCK_BYTES;
    assert_int_equal(t.offset[0], block);
    assert_int_equal(t.length[0], FORMAT_BLOCK_BYTES);
    assert_says(t.text[0], "optimizer/m, bytes ");
    assert_says(t.text[0], " of 32768: bytes ");
    assert_says(t.text[0], path);
    assert_says(t.text[0], "stored in the index");
    assert_says(err.attempt, "step 300 has 1 problem, the first: optimizer/m, bytes ");
    assert_string_equal(err.entry, "optimizer/m");
    assert_string_equal(err.safe, "step 200 is committed; check it with: pawl verify /mem@200");
    assert_int_equal(result.problems, 1);
}

static void test_damage_between_entries_hits_none(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    static told t;
    pawl_verify_result result;
    char path[256];
    CLEANUP(buffer_free) buffer bytes = {0};
    const int64_t shape[] = {40000};
    AUTOFREE uint8_t *large = mem_calloc(1, 40000);
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "a/large/name",
                                .dtype = PAWL_U8,
                                .ndim = 1,
                                .shape = shape,
                                .data = large};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    for (int i = 0; i < 300; i++) { /* a header of more than a block, so that one is header alone */
        char name[64];
        snprintf(name, sizeof(name), "value/of/a/long/name/to/fill/the/header/%d", i);
        training_set(f, name, PAWL_KIND_BOOL, PAWL_ROLE_OTHER, false, "\1", 1);
    }
    training_save(f, 400);
    training_path(f, 400, NAME_KIND_DATA, path);
    training_flip(f, path, 5000);
    assert_ok(training_open(f, 400, &err), &err);
    assert_fails(verify(f, 0, &t, &result, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(t.count, 1);
    assert_string_equal(t.entry[0], "");
    assert_int_equal(t.offset[0], 0);
    assert_ok(state_remove(f->state, "a/large/name", &err), &err);
}

static void test_several_entries_in_one_block_are_all_named(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    static told t;
    pawl_verify_result result;
    char path[256];
    char all[1024] = "";
    training_path(f, 300, NAME_KIND_DATA, path);
    training_flip(f, path, training_offset_of(f, 300, "step"));
    assert_ok(training_open(f, 300, &err), &err);
    assert_fails(verify(f, 0, &t, &result, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(t.count, result.problems);
    for (size_t i = 0; i < t.count; i++) {
        size_t at = strlen(all);
        snprintf(all + at, sizeof(all) - at, "%s ", t.entry[i]);
    }
    assert_says(all, "step ");
    assert_says(all, "optimizer/rate ");
}

static void test_verifying_goes_on_after_damage(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    static told t;
    pawl_verify_result result;
    char data[256];
    training_path(f, 300, NAME_KIND_DATA, data);
    training_flip(f, data, training_offset_of(f, 300, "model/dense/kernel") + 20000);
    assert_ok(training_open(f, 300, &err), &err);
    training_truncate(f, data, 70000);
    training_catch_up(f);
    assert_fails(verify(f, 0, &t, &result, &err), PAWL_EDAMAGED, &err);
    assert_true(t.count >= 2);
}

static void test_a_data_file_that_vanished_hits_all_its_entries(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    static told t;
    pawl_verify_result result;
    char data[256];
    training_path(f, 300, NAME_KIND_DATA, data);
    assert_ok(training_open(f, 300, &err), &err);
    assert_ok(store_unlink(f->disk, data, &err), &err);
    training_catch_up(f);
    assert_fails(verify(f, 0, &t, &result, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(t.count, 9);
    assert_says(t.text[0], "a data file of the checkpoint is missing");
}

static void test_a_damaged_index_is_told(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    static told t;
    pawl_verify_result result;
    char path[256];
    training_path(f, 300, NAME_KIND_INDEX, path);
    training_flip(f, path, 60);
    assert_ok(training_open(f, 300, &err), &err);
    assert_fails(verify(f, 0, &t, &result, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(t.count, 1);
    assert_string_equal(t.file[0], path + strlen("step-00000300/"));
    assert_says(t.text[0], "the index of the checkpoint is damaged");
}

static void test_enough_is_enough(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    static told t;
    pawl_verify_result result;
    char data[256];
    training_path(f, 300, NAME_KIND_DATA, data);
    assert_ok(training_open(f, 300, &err), &err);
    assert_ok(store_unlink(f->disk, data, &err), &err);
    training_catch_up(f);
    assert_fails(verify(f, 3, &t, &result, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(t.count, 3);
    assert_int_equal(result.problems, 3);
}

/* Every byte of every file of a small checkpoint, and every length of every file. */
static void test_r08_no_flipped_byte_and_no_truncation_goes_unseen(void **state) {
    training *f = *state;
    static told t;
    static const name_kind kinds[] = {NAME_KIND_MANIFEST, NAME_KIND_INDEX, NAME_KIND_DATA};
    for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
        char path[256];
        CLEANUP(buffer_free) buffer bytes = {0};
        training_path(f, 300, kinds[k], path);
        training_take_file(f, path, &bytes);
        size_t step = bytes.size / 400 + 1; /* a sample here; the proofs try all */
        for (size_t at = 0; at < bytes.size; at += step) {
            for (int truncate = 0; truncate < 2; truncate++) {
                struct pawl_error err = ERROR_INIT;
                pawl_verify_result result;
                bytes.data[at] ^= 0x01;
                put_anew(f->disk, path, bytes.data, truncate != 0 ? at : bytes.size);
                bytes.data[at] ^= 0x01;
                pawl_status status = training_open(f, 300, &err);
                if (status == PAWL_OK) {
                    status = verify(f, 0, &t, &result, &err);
                }
                if (status != PAWL_EDAMAGED) {
                    assert_int_equal(kinds[k], NAME_KIND_MANIFEST); /* of another version */
                    assert_int_equal(status, PAWL_EUNSUPPORTED);
                }
                assert_says(err.path, path);
            }
        }
        put_anew(f->disk, path, bytes.data, bytes.size);
    }
}

static pawl_status verify_with_failing_memory(void *context, pawl_error *err) {
    training *f = context;
    pawl_verify_result result;
    return checkpoint_verify(f->checkpoint, NULL, &result, err);
}

static void test_every_allocation_may_fail(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(training_open(f, 300, &err), &err);
    assert_ok(verify_with_failing_memory(f, &err), &err);
    assert_true(failing_memory_each(verify_with_failing_memory, f) > 5);
}

static int stop_at_once(void *context) {
    (*(int *)context)++;
    return 1;
}

static void test_a_verification_can_be_stopped(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    int asked = 0;
    pawl_verify_result result;
    const pawl_verify_options options = {
        .struct_size = sizeof options, .stop = stop_at_once, .context = &asked};
    assert_ok(training_open(f, 200, &err), &err);
    assert_fails(checkpoint_verify(f->checkpoint, &options, &result, &err), PAWL_ECANCELED, &err);
    assert_string_equal(err.attempt, "the verification was stopped by its caller");
    assert_int_equal(asked, 1);
    assert_int_equal(result.problems, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define STEPS(test) cmocka_unit_test_setup_teardown(test, training_set_up_steps, training_tear_down)
        STEPS(test_a_whole_checkpoint_verifies),
        STEPS(test_damage_is_told_with_the_entry_and_its_bytes),
        STEPS(test_damage_between_entries_hits_none),
        STEPS(test_several_entries_in_one_block_are_all_named),
        STEPS(test_verifying_goes_on_after_damage),
        STEPS(test_a_data_file_that_vanished_hits_all_its_entries),
        STEPS(test_a_damaged_index_is_told),
        STEPS(test_enough_is_enough),
        STEPS(test_a_verification_can_be_stopped),
        STEPS(test_r08_no_flipped_byte_and_no_truncation_goes_unseen),
        STEPS(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
