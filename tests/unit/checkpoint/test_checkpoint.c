/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a checkpoint, finding and walking entries, reading tensors, slices and ranks' values. */
#include "lib/training.h"

#include "lib/failing_memory.h"

/* ---- opening ---- */

static void test_the_newest_is_opened(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint_info info;
    assert_ok(training_open(f, CHECKPOINT_NEWEST, &err), &err);
    checkpoint_describe(f->checkpoint, &info);
    assert_int_equal(info.step, 300);
    assert_int_equal(info.format_version, FORMAT_VERSION);
    assert_true(f->late != f->disk || info.unix_time_ns == 1700000000000000000);
    assert_int_equal(info.world_size, 1);
    assert_int_equal(info.entries, 9);
    assert_int_equal(info.data_files, 1);
    assert_true(info.data_bytes > 2 * sizeof(f->kernel));
    assert_true(info.index_bytes > 0);
    assert_int_equal(strlen(info.attempt), 12);
    assert_string_equal(info.framework, "tests 1.0");
    assert_string_equal(info.path, "/mem/step-00000300");
    assert_says(info.manifest_json, "\"step\": 300");
}

static void test_a_step_by_number(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(training_open(f, 100, &err), &err);
    assert_int_equal(f->checkpoint->source->step, 100);
}

static void test_the_newest_skips_what_is_not_committed(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_unlink(f->disk, "step-00000300/manifest.json", &err), &err);
    assert_ok(training_open(f, CHECKPOINT_NEWEST, &err), &err);
    assert_int_equal(f->checkpoint->source->step, 200);
}

/* Removes step 300 as soon as its manifest was read, manifest first, as a writer does. */
static void remove_under_the_reader(void *context, const store_trace_event *event) {
    training *f = context;
    struct pawl_error ignored = ERROR_INIT;
    char path[256];
    bool present;
    if (event->op != STORE_OP_READ || strcmp(event->path, "step-00000300/manifest.json") != 0) {
        return;
    }
    assert_ok(step_has_manifest(f->disk, "step-00000300", &present, &ignored), &ignored);
    if (!present) {
        return;
    }
    training_path(f, 300, NAME_KIND_DATA, path);
    assert_ok(store_unlink(f->disk, "step-00000300/manifest.json", &ignored), &ignored);
    assert_ok(store_unlink(f->disk, path, &ignored), &ignored);
}

static void test_s14_a_step_removed_while_it_is_opened_is_not_called_damaged(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    store *traced;
    pawl_checkpoint *c;
    pawl_checkpoint_info info;
    assert_ok(store_trace_wrap(f->disk, &f->os.table, remove_under_the_reader, f, &traced, &err),
              &err);
    assert_ok(checkpoint_open(traced, false, CHECKPOINT_NEWEST, &f->os.table, NULL, &c, &err),
              &err);
    checkpoint_describe(c, &info);
    assert_int_equal(info.step, 200);
    pawl_checkpoint_close(c);
    store_destroy(traced);
}

static void test_r08_the_newest_that_is_damaged_is_not_passed_over(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    training_flip(f, "step-00000300/manifest.json", 40);
    assert_fails(training_open(f, CHECKPOINT_NEWEST, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "opening a checkpoint: ");
    assert_string_equal(err.path, "/mem/step-00000300/manifest.json");
    assert_string_equal(err.safe, "step 200 is committed; check it with: pawl verify /mem@200");
    assert_string_equal(err.next, "restore step 200 instead, once it verifies");
    assert_int_equal(err.step, 300);
}

static void test_a_step_that_is_not_there(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(training_open(f, 150, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.attempt, "opening a checkpoint: there is no checkpoint of step 150");
    assert_string_equal(err.path, "/mem/step-00000150");
    assert_string_equal(err.found, "no such directory");
    assert_string_equal(err.safe, "step 100 is committed; check it with: pawl verify /mem@100");
    assert_string_equal(err.next, "see which steps there are with: pawl ls /mem");
}

static void test_a_step_that_is_unfinished(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_make_dir(f->disk, "step-00000400", &err), &err);
    put_text(f->disk, "step-00000400/index-0123456789ab-1", "");
    assert_fails(training_open(f, 400, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.found, "an unfinished save: it has no manifest");
}

static void test_a_negative_step_is_none(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(training_open(f, -5, &err), PAWL_EUSAGE, &err);
}

static void test_r09_nothing_to_open(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(training_open(f, CHECKPOINT_NEWEST, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.attempt, "opening a checkpoint: there is no checkpoint here");
}

static void test_r08_a_missing_data_file_is_found_at_opening(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    training_path(f, 300, NAME_KIND_DATA, path);
    assert_ok(store_unlink(f->disk, path, &err), &err);
    assert_fails(training_open(f, 300, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt,
                        "opening a checkpoint: a data file of the checkpoint is missing");
    assert_says(err.path, path);
    assert_says(err.expected, "a file of ");
    assert_string_equal(err.found, "no such file");
    assert_says(err.safe, "step 200 is committed");
}

static void test_r08_a_truncated_data_file_is_found_at_opening(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    training_path(f, 300, NAME_KIND_DATA, path);
    training_truncate(f, path, 4097);
    assert_fails(training_open(f, 300, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "a data file of the checkpoint is truncated");
    assert_string_equal(err.found, "4097 bytes");
}

static void test_r08_an_empty_index_is_found_at_opening(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    training_path(f, 300, NAME_KIND_INDEX, path);
    training_truncate(f, path, 0);
    assert_fails(training_open(f, 300, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "the index of the checkpoint is empty");
}

static void test_r08_swapped_data_files_are_found(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char a[256];
    char b[256];
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    CLEANUP(buffer_free) buffer bytes = {0};
    training_path(f, 200, NAME_KIND_DATA, a);
    training_path(f, 300, NAME_KIND_DATA, b);
    training_take_file(f, a, &bytes);
    put_anew(f->disk, b, bytes.data, bytes.size);
    assert_ok(training_open(f, 300, &err), &err); /* same size: only the bytes tell */
    assert_fails(checkpoint_read(f->checkpoint, "model/dense/kernel", NULL, NULL, kernel,
                                 sizeof(kernel), &err),
                 PAWL_EDAMAGED, &err);
}

/* A directory in place of a file, or anything else that is not a regular file. */
static void test_r14_only_regular_files_are_read(void **state) {
    test_skip_on_objects("there is nothing but objects");
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    training_path(f, 300, NAME_KIND_DATA, path);
    assert_ok(store_unlink(f->disk, path, &err), &err);
    assert_ok(store_make_dir(f->disk, path, &err), &err);
    assert_fails(training_open(f, 300, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "is not a regular file");
    assert_string_equal(err.found, "a directory");
}

static pawl_status open_with_failing_memory(void *context, pawl_error *err) {
    training *f = context;
    pawl_checkpoint *c = NULL;
    pawl_entry_info info;
    float bias[TRAINING_COLUMNS];
    TRY(checkpoint_open(f->disk, false, 300, &f->os.table, NULL, &c, err));
    pawl_status status = checkpoint_find(c, "step", &info, err);
    if (status == PAWL_OK) {
        status = checkpoint_read(c, "model/dense/bias", NULL, NULL, bias, sizeof(bias), err);
    }
    pawl_checkpoint_close(c);
    return status;
}

/* The mark of the reader is no part of it: without memory for it the reading goes on. */
static void test_every_allocation_may_fail(void **state) {
    training *f = *state;
    f->os.identity_fails = true;
    assert_true(failing_memory_each(open_with_failing_memory, f) > 20);
}

/* ---- finding ---- */

static void test_a_tensor_is_found(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_entry_info info;
    assert_ok(training_open(f, 300, &err), &err);
    assert_ok(checkpoint_find(f->checkpoint, "model/dense/kernel", &info, &err), &err);
    assert_string_equal(info.name, "model/dense/kernel");
    assert_int_equal(info.kind, PAWL_KIND_TENSOR);
    assert_int_equal(info.role, PAWL_ROLE_MODEL);
    assert_null(info.slot_of);
    assert_int_equal(info.dtype, PAWL_F32);
    assert_int_equal(info.ndim, 2);
    assert_int_equal(info.shape[0], TRAINING_ROWS);
    assert_int_equal(info.shape[1], TRAINING_COLUMNS);
    assert_int_equal(info.bytes, sizeof(f->kernel));
    assert_int_equal(info.pieces, 1);
    assert_null(info.value);
}

static void test_a_slot_names_its_variable(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_entry_info info;
    assert_ok(training_open(f, 300, &err), &err);
    assert_ok(checkpoint_find(f->checkpoint, "optimizer/m", &info, &err), &err);
    assert_int_equal(info.role, PAWL_ROLE_SLOT);
    assert_string_equal(info.slot_of, "model/dense/kernel");
    assert_string_equal(info.slot, "adam/m");
}

static void test_values_are_found_with_their_bytes(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_entry_info info;
    assert_ok(training_open(f, 300, &err), &err);
    assert_ok(checkpoint_find(f->checkpoint, "step", &info, &err), &err);
    assert_int_equal(info.kind, PAWL_KIND_INT64);
    assert_int_equal(info.bytes, 8);
    assert_int_equal(*(const int64_t *)info.value, 300);
    assert_ok(checkpoint_find(f->checkpoint, "optimizer/rate", &info, &err), &err);
    assert_true(*(const double *)info.value == 0.001);
    assert_ok(checkpoint_find(f->checkpoint, "optimizer/class", &info, &err), &err);
    assert_int_equal(info.bytes, 4);
    assert_memory_equal(info.value, "adam", 4);
}

static void test_a_value_of_each_rank_has_no_common_value(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_entry_info info;
    assert_ok(training_open(f, 300, &err), &err);
    assert_ok(checkpoint_find(f->checkpoint, "rng", &info, &err), &err);
    assert_true(info.per_rank);
    assert_null(info.value);
    assert_int_equal(info.bytes, 24);
    assert_int_equal(info.pieces, 1);
}

static void test_a_name_that_is_not_there_has_a_near_miss(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_entry_info info;
    assert_ok(training_open(f, 300, &err), &err);
    assert_fails(checkpoint_find(f->checkpoint, "model/dense/kernl", &info, &err), PAWL_ENOTFOUND,
                 &err);
    assert_string_equal(err.attempt, "the checkpoint has no entry of this name");
    assert_string_equal(err.entry, "model/dense/kernl");
    assert_string_equal(err.next, "did you mean model/dense/kernel?");
    assert_fails(checkpoint_find(f->checkpoint, "dense/bias", &info, &err), PAWL_ENOTFOUND, &err);
    assert_string_equal(err.next, "did you mean model/dense/bias?");
}

static void test_a_name_unlike_any_other_gets_the_list(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_entry_info info;
    assert_ok(training_open(f, 300, &err), &err);
    assert_fails(checkpoint_find(f->checkpoint, "zzzzzzzzzzzzzzzz", &info, &err), PAWL_ENOTFOUND,
                 &err);
    assert_string_equal(err.next, "see its entries with: pawl show /mem@300");
}

/* ---- walking ---- */

static size_t walk(training *f, const char *prefix, char *names, size_t size) {
    struct pawl_error err = ERROR_INIT;
    pawl_entries *entries;
    pawl_entry_info info;
    size_t count = 0;
    int more = 1;
    names[0] = '\0';
    assert_ok(entries_open(f->checkpoint, prefix, &entries, &err), &err);
    for (;;) {
        assert_ok(entries_next(entries, &info, &more, &err), &err);
        if (more == 0) {
            break;
        }
        size_t at = strlen(names);
        snprintf(names + at, size - at, "%s ", info.name);
        count++;
    }
    pawl_entries_free(entries);
    return count;
}

static void test_all_entries_in_order(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char names[512];
    assert_ok(training_open(f, 300, &err), &err);
    assert_int_equal(walk(f, "", names, sizeof(names)), 9);
    assert_string_equal(names, "data/position model/dense/bias model/dense/kernel optimizer/class "
                               "optimizer/m optimizer/rate rng shuffled step ");
}

static void test_entries_of_a_prefix(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char names[512];
    assert_ok(training_open(f, 300, &err), &err);
    assert_int_equal(walk(f, "optimizer/", names, sizeof(names)), 3);
    assert_string_equal(names, "optimizer/class optimizer/m optimizer/rate ");
    assert_int_equal(walk(f, "step", names, sizeof(names)), 1);
    assert_int_equal(walk(f, "stepp", names, sizeof(names)), 0);
    assert_int_equal(walk(f, "a", names, sizeof(names)), 0);
}

/* ---- reading ---- */

static void test_a_whole_tensor(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    assert_ok(training_open(f, 200, &err), &err);
    assert_ok(checkpoint_read(f->checkpoint, "model/dense/kernel", NULL, NULL, kernel,
                              sizeof(kernel), &err),
              &err);
    training_fill(f, 200);
    assert_memory_equal(kernel, f->kernel, sizeof(kernel));
}

static void assert_slice(training *f, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    struct pawl_error err = ERROR_INIT;
    const int64_t offset[] = {row, column};
    const int64_t extent[] = {rows, columns};
    size_t bytes = (size_t)(rows * columns) * sizeof(float);
    AUTOFREE float *slice = mem_alloc(bytes);
    assert_ok(checkpoint_read(f->checkpoint, "optimizer/m", offset, extent, slice, bytes, &err),
              &err);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            assert_true(slice[r * columns + c] == f->slot[row + r][column + c]);
        }
    }
}

static void test_any_slice(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    test_random random = {.state = 3};
    assert_ok(training_open(f, 300, &err), &err);
    for (int i = 0; i < 200; i++) {
        int64_t row = random_between(&random, 0, TRAINING_ROWS);
        int64_t column = random_between(&random, 0, TRAINING_COLUMNS);
        assert_slice(f, row, random_between(&random, 0, TRAINING_ROWS - row), column,
                     random_between(&random, 0, TRAINING_COLUMNS - column));
    }
}

static void test_a_slice_reads_its_blocks_only(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(training_open(f, 300, &err), &err);
    pawl_read_stats before = checkpoint_reads(f->checkpoint);
    assert_slice(f, 3, 1, 0, TRAINING_COLUMNS);
    uint64_t first = checkpoint_reads(f->checkpoint).bytes - before.bytes;
    assert_true(first < 3 * FORMAT_BLOCK_BYTES);
}

static void test_tensors_in_boxes_are_put_together(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {4, 6};
    const int64_t offsets[][2] = {{0, 0}, {0, 4}, {3, 0}};
    const int64_t extents[][2] = {{3, 4}, {3, 2}, {1, 6}};
    uint16_t memory[3][12];
    pawl_box boxes[3];
    uint16_t whole[4][6];
    for (size_t b = 0; b < 3; b++) {
        size_t at = 0;
        for (int64_t r = 0; r < extents[b][0]; r++) {
            for (int64_t c = 0; c < extents[b][1]; c++) {
                memory[b][at++] = (uint16_t)((offsets[b][0] + r) * 100 + offsets[b][1] + c);
            }
        }
        boxes[b] = (pawl_box){.offset = offsets[b], .extent = extents[b], .data = memory[b]};
    }
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "sharded",
                                .dtype = PAWL_U16,
                                .ndim = 2,
                                .shape = shape,
                                .nboxes = 3,
                                .boxes = boxes};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    training_save(f, 400);
    assert_ok(training_open(f, 400, &err), &err);
    assert_int_equal(training_manifest(f)->file_count, 3);
    assert_ok(checkpoint_read(f->checkpoint, "sharded", NULL, NULL, whole, sizeof(whole), &err),
              &err);
    for (unsigned r = 0; r < 4; r++) {
        for (unsigned c = 0; c < 6; c++) {
            assert_int_equal(whole[r][c], r * 100 + c);
        }
    }
}

static void test_packed_tensors_are_read_between_bytes(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {4, 8};
    const int64_t offset[] = {1, 0};
    const int64_t extent[] = {2, 8};
    const int64_t even[] = {1, 2};
    const int64_t odd[] = {1, 3};
    const int64_t narrow[] = {3, 4};
    uint8_t packed[16];
    uint8_t found[16];
    for (uint8_t i = 0; i < sizeof(packed); i++) {
        packed[i] = i;
    }
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "packed",
                                .dtype = PAWL_F4,
                                .ndim = 2,
                                .shape = shape,
                                .data = packed};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    training_save(f, 400);
    assert_ok(training_open(f, 400, &err), &err);
    assert_ok(checkpoint_read(f->checkpoint, "packed", NULL, NULL, found, sizeof(found), &err),
              &err);
    assert_memory_equal(found, packed, sizeof(found));
    assert_ok(checkpoint_read(f->checkpoint, "packed", offset, extent, found, 8, &err), &err);
    assert_memory_equal(found, packed + 4, 8);
    assert_ok(checkpoint_read(f->checkpoint, "packed", even, narrow, found, 6, &err), &err);
    assert_memory_equal(found, "\x05\x06\x09\x0a\x0d\x0e", 6);
    assert_fails(checkpoint_read(f->checkpoint, "packed", odd, narrow, found, 6, &err),
                 PAWL_EUNSUPPORTED, &err);
    assert_string_equal(err.attempt, "a packed tensor cannot be cut within a byte");
    assert_string_equal(err.found, "a slice [1:4, 3:7] of F4, whose elements share bytes");
}

static void test_bad_slices_are_refused(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t zero[] = {0, 0};
    const int64_t beyond[] = {TRAINING_ROWS + 1, 1};
    const int64_t negative[] = {-1, 0};
    const int64_t one[] = {1, 1};
    float to[4];
    assert_ok(training_open(f, 300, &err), &err);
    pawl_checkpoint *c = f->checkpoint;
    assert_fails(checkpoint_read(c, "optimizer/m", zero, beyond, to, sizeof(to), &err), PAWL_EUSAGE,
                 &err);
    assert_string_equal(err.entry, "optimizer/m");
    assert_fails(checkpoint_read(c, "optimizer/m", negative, one, to, 4, &err), PAWL_EUSAGE, &err);
    assert_fails(checkpoint_read(c, "optimizer/m", zero, NULL, to, 4, &err), PAWL_EUSAGE, &err);
    assert_fails(checkpoint_read(c, "optimizer/m", zero, one, to, sizeof(to), &err), PAWL_EUSAGE,
                 &err);
    assert_string_equal(err.attempt, "the memory for a slice has another size than the slice");
    assert_string_equal(err.expected, "4 bytes for F32 [0:1, 0:1]");
    assert_string_equal(err.found, "16 bytes");
}

static void test_a_value_has_no_slices(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    int64_t step;
    assert_ok(training_open(f, 300, &err), &err);
    assert_fails(checkpoint_read(f->checkpoint, "step", NULL, NULL, &step, 8, &err), PAWL_EUSAGE,
                 &err);
    assert_string_equal(err.found, "a value of kind int64");
    assert_string_equal(err.next, "pawl_checkpoint_find gives its value");
}

static void test_a_ranks_bytes(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    uint8_t bytes[64];
    size_t size = 0;
    const state_entry *rng;
    assert_ok(training_open(f, 300, &err), &err);
    assert_ok(checkpoint_read_rank(f->checkpoint, "rng", 0, bytes, sizeof(bytes), &size, &err),
              &err);
    assert_int_equal(size, 24);
    assert_ok(state_get_value(f->state, "rng", PAWL_KIND_BYTES, &rng, &err), &err);
    assert_memory_equal(bytes, rng->value, 24);
    assert_ok(checkpoint_read_rank(f->checkpoint, "rng", 0, NULL, 0, &size, &err), &err);
    assert_int_equal(size, 24);
}

static void test_a_rank_that_was_not_there(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    uint8_t bytes[64];
    size_t size;
    assert_ok(training_open(f, 300, &err), &err);
    assert_fails(checkpoint_read_rank(f->checkpoint, "rng", 1, bytes, 64, &size, &err),
                 PAWL_ENOTFOUND, &err);
    assert_string_equal(err.attempt, "rank 1 has no bytes in this entry");
    assert_string_equal(err.found, "bytes of 1 ranks");
    assert_fails(checkpoint_read_rank(f->checkpoint, "step", 0, bytes, 64, &size, &err),
                 PAWL_EUSAGE, &err);
}

static void test_r08_damage_names_file_entry_and_bytes_of_the_tensor(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    char text[256];
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    uint64_t offset = training_offset_of(f, 300, "model/dense/kernel");
    training_path(f, 300, NAME_KIND_DATA, path);
    training_flip(f, path, offset + 20000);
    assert_ok(training_open(f, 300, &err), &err);
    assert_fails(checkpoint_read(f->checkpoint, "model/dense/kernel", NULL, NULL, kernel,
                                 sizeof(kernel), &err),
                 PAWL_EDAMAGED, &err);
    uint64_t block = (offset + 20000) / FORMAT_BLOCK_BYTES * FORMAT_BLOCK_BYTES;
    uint64_t end = block + FORMAT_BLOCK_BYTES - offset;
    end = end < sizeof(kernel) ? end : sizeof(kernel);
    snprintf(text, sizeof(text),
             "reading bytes %llu to %llu of the 32768 of model/dense/kernel[0:64, 0:128]: ",
             (unsigned long long)(block - offset), (unsigned long long)(end - 1));
    assert_says(err.attempt, text);
    assert_string_equal(err.entry, "model/dense/kernel");
    assert_says(err.path, path);
    assert_int_equal(err.offset, block);
    assert_says(err.expected, "CRC32C ");
    assert_says(err.found, "CRC32C ");
    assert_string_equal(err.safe, "step 200 is committed; check it with: pawl verify /mem@200");
    assert_int_equal(err.step, 300);
}

static void test_r08_a_damaged_index_names_itself(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_entry_info info;
    char path[256];
    training_path(f, 300, NAME_KIND_INDEX, path);
    training_flip(f, path, 100);
    assert_ok(training_open(f, 300, &err), &err);
    assert_fails(checkpoint_find(f->checkpoint, "step", &info, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "the index of the checkpoint is damaged: ");
    assert_says(err.path, path);
    assert_says(err.safe, "step 200 is committed");
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define STEPS(test) cmocka_unit_test_setup_teardown(test, training_set_up_steps, training_tear_down)
#define EMPTY(test) cmocka_unit_test_setup_teardown(test, training_set_up, training_tear_down)
        STEPS(test_the_newest_is_opened),
        STEPS(test_a_step_by_number),
        STEPS(test_the_newest_skips_what_is_not_committed),
        STEPS(test_s14_a_step_removed_while_it_is_opened_is_not_called_damaged),
        STEPS(test_r08_the_newest_that_is_damaged_is_not_passed_over),
        STEPS(test_a_step_that_is_not_there),
        STEPS(test_a_step_that_is_unfinished),
        STEPS(test_a_negative_step_is_none),
        EMPTY(test_r09_nothing_to_open),
        STEPS(test_r08_a_missing_data_file_is_found_at_opening),
        STEPS(test_r08_a_truncated_data_file_is_found_at_opening),
        STEPS(test_r08_an_empty_index_is_found_at_opening),
        STEPS(test_r08_swapped_data_files_are_found),
        STEPS(test_r14_only_regular_files_are_read),
        STEPS(test_every_allocation_may_fail),
        STEPS(test_a_tensor_is_found),
        STEPS(test_a_slot_names_its_variable),
        STEPS(test_values_are_found_with_their_bytes),
        STEPS(test_a_value_of_each_rank_has_no_common_value),
        STEPS(test_a_name_that_is_not_there_has_a_near_miss),
        STEPS(test_a_name_unlike_any_other_gets_the_list),
        STEPS(test_all_entries_in_order),
        STEPS(test_entries_of_a_prefix),
        STEPS(test_a_whole_tensor),
        STEPS(test_any_slice),
        STEPS(test_a_slice_reads_its_blocks_only),
        STEPS(test_tensors_in_boxes_are_put_together),
        STEPS(test_packed_tensors_are_read_between_bytes),
        STEPS(test_bad_slices_are_refused),
        STEPS(test_a_value_has_no_slices),
        STEPS(test_a_ranks_bytes),
        STEPS(test_a_rank_that_was_not_there),
        STEPS(test_r08_damage_names_file_entry_and_bytes_of_the_tensor),
        STEPS(test_r08_a_damaged_index_names_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
