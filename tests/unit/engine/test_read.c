/* SPDX-License-Identifier: Apache-2.0 */
/* Verified reading of data files: what is handed on, what damage says, how much is read. */
#include "unit/engine/files.h"

#include "lib/failing_memory.h"

#include <errno.h>

#define FILE_BYTES ((uint64_t)40 * FORMAT_BLOCK_BYTES + 123)

typedef struct fixture {
    files disk;
    engine_reader *reader;
    buffer taken;
    uint64_t next; /* where the next stretch must begin */
    struct pawl_error problems[16];
    size_t problem_count, problem_limit;
    uint64_t progress;
} fixture;

static engine_source source_of(fixture *f) {
    engine_source source = files_source(&f->disk);
    source.platform = NULL; /* no threads */
    return source;
}

static int set_up(void **state) {
    static fixture f;
    struct pawl_error err = ERROR_INIT;
    test_random random = {.state = 1};
    memset(&f, 0, sizeof(f));
    f.problem_limit = SIZE_MAX;
    files_set_up(&f.disk);
    for (uint32_t i = 0; i < FILES; i++) {
        files_make(&f.disk, i, FILE_BYTES, &random);
    }
    const engine_source source = source_of(&f);
    assert_ok(engine_reader_new(&source, &f.reader, &err), &err);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    engine_reader_free(f->reader);
    buffer_free(&f->taken);
    files_tear_down(&f->disk);
    return 0;
}

static pawl_status take(void *context, uint64_t offset, const uint8_t *bytes, size_t n,
                        pawl_error *err) {
    fixture *f = context;
    assert_int_equal(offset, f->next);
    assert_true(n > 0);
    f->next += n;
    return buffer_append(&f->taken, bytes, n, err);
}

static pawl_status read_range(fixture *f, uint32_t file, uint64_t offset, uint64_t n,
                              pawl_error *err) {
    f->taken.size = 0;
    f->next = offset;
    return engine_reader_read(f->reader, file, offset, n, take, f, err);
}

static void assert_range(fixture *f, uint32_t file, uint64_t offset, uint64_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(read_range(f, file, offset, n, &err), &err);
    assert_int_equal(f->taken.size, n);
    if (n > 0) {
        assert_memory_equal(f->taken.data, f->disk.bytes[file] + offset, n);
    }
}

/* ---- what is handed on ---- */

static void test_any_range_of_any_file(void **state) {
    fixture *f = *state;
    test_random random = {.state = 5};
    for (int i = 0; i < 300; i++) {
        uint64_t offset = random_below(&random, FILE_BYTES + 1);
        uint64_t most = i % 2 == 0 ? FILE_BYTES : 5000;
        uint64_t left = FILE_BYTES - offset;
        uint64_t n = random_below(&random, (left < most ? left : most) + 1);
        assert_range(f, (uint32_t)random_below(&random, FILES), offset, n);
    }
}

static void test_a_small_read_reads_its_block_only(void **state) {
    fixture *f = *state;
    assert_range(f, 0, 5 * FORMAT_BLOCK_BYTES + 7, 10);
    assert_int_equal(f->disk.read_bytes, FORMAT_BLOCK_BYTES);
}

static void test_what_take_refuses_ends_the_read(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    failing_memory_set(0);
    f->next = 0;
    assert_range(f, 0, 0, 10);
    mem_free(f->taken.data);
    f->taken = (buffer){0};
    failing_memory_set(1);
    assert_fails(read_range(f, 0, 0, 10, &err), PAWL_ENOMEM, &err);
}

/* ---- damage ---- */

static void test_r08_a_flipped_byte_is_named_with_file_range_and_checksums(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    char text[128];
    uint64_t at = 3 * FORMAT_BLOCK_BYTES + 17;
    files_flip(&f->disk, 1, at);
    assert_fails(read_range(f, 1, at, 1, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt,
                        "bytes 49152 to 65535 of a data file are not those that were written");
    assert_says(err.path, "/step/second");
    assert_int_equal(err.offset, 3 * FORMAT_BLOCK_BYTES);
    assert_int_equal(err.length, FORMAT_BLOCK_BYTES);
    snprintf(text, sizeof(text), "CRC32C %08x, stored in the index", f->disk.sums[1][3]);
    assert_string_equal(err.expected, text);
    f->disk.bytes[1][at] ^= 0x40;
    snprintf(text, sizeof(text), "CRC32C %08x",
             crc32c(0, f->disk.bytes[1] + 3 * FORMAT_BLOCK_BYTES, FORMAT_BLOCK_BYTES));
    assert_string_equal(err.found, text);
    assert_int_equal(f->taken.size, 0);
}

static void test_r08_neighbouring_blocks_are_one_range(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    files_flip(&f->disk, 0, 3 * FORMAT_BLOCK_BYTES);
    files_flip(&f->disk, 0, 5 * FORMAT_BLOCK_BYTES - 1);
    assert_fails(read_range(f, 0, 0, FILE_BYTES, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(err.offset, 3 * FORMAT_BLOCK_BYTES);
    assert_int_equal(err.length, 2 * FORMAT_BLOCK_BYTES);
    assert_says(err.found, " in the first of these blocks");
}

static void test_damage_in_the_last_short_block_is_found(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    files_flip(&f->disk, 0, FILE_BYTES - 1);
    assert_fails(read_range(f, 0, FILE_BYTES - 2, 1, &err), PAWL_EDAMAGED, &err);
    assert_int_equal(err.length, 123);
}

static void test_damage_beyond_what_was_asked_for_does_not_matter_yet(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    files_flip(&f->disk, 0, 4 * FORMAT_BLOCK_BYTES);
    assert_range(f, 0, 0, 4 * FORMAT_BLOCK_BYTES);
    assert_fails(read_range(f, 0, 4 * FORMAT_BLOCK_BYTES, 1, &err), PAWL_EDAMAGED, &err);
    assert_range(f, 0, 5 * FORMAT_BLOCK_BYTES, 100);
}

static void test_damage_is_found_again(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    files_flip(&f->disk, 0, 0);
    assert_fails(read_range(f, 0, 0, 1, &err), PAWL_EDAMAGED, &err);
    assert_fails(read_range(f, 0, 0, 1, &err), PAWL_EDAMAGED, &err);
}

static void test_r08_a_truncated_file_says_both_sizes(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    files_write(&f->disk, 0, FILE_BYTES - 1);
    assert_fails(read_range(f, 0, 0, 1, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "a data file of the checkpoint is truncated");
    assert_says(err.path, "/step/first");
    assert_string_equal(err.expected, "655483 bytes");
    assert_string_equal(err.found, "655482 bytes");
}

static void test_r08_an_empty_file_is_called_empty(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    files_write(&f->disk, 0, 0);
    assert_fails(read_range(f, 0, 0, 1, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "a data file of the checkpoint is empty");
}

static void test_a_file_that_grew_is_damage(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    files_write(&f->disk, 0, FILE_BYTES + 1);
    assert_fails(read_range(f, 0, 0, 1, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt,
                        "a data file of the checkpoint is longer than what was written");
    assert_int_equal(err.offset, FILE_BYTES);
    assert_int_equal(err.length, 1);
}

static void test_r08_a_missing_file_is_named(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_unlink(f->disk.disk, "step/first", &err), &err);
    assert_fails(read_range(f, 0, 0, 1, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "a data file of the checkpoint is missing");
    assert_says(err.path, "/step/first");
    assert_string_equal(err.found, "no such file");
}

static void test_a_range_behind_the_end_is_damage(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_fails(read_range(f, 0, FILE_BYTES - 1, 2, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.attempt, "the index points behind the end of a data file");
    assert_fails(read_range(f, 0, UINT64_MAX, 2, &err), PAWL_EDAMAGED, &err);
}

static void test_a_read_that_fails_is_the_storage(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    store_fault_set(f->disk.fault,
                    &(store_fault){.op = STORE_OP_READ, .nth = 1, .system_errno = EIO});
    assert_fails(read_range(f, 0, 0, 1, &err), PAWL_EIO, &err);
    assert_range(f, 0, 0, 1);
}

static pawl_status read_with_failing_memory(void *context, pawl_error *err) {
    fixture *f = context;
    engine_source source = source_of(f);
    source.store = f->disk.disk;
    engine_reader *reader = NULL;
    TRY(engine_reader_new(&source, &reader, err));
    f->next = 0;
    pawl_status status = engine_reader_read(reader, 0, 0, 100, take, f, err);
    engine_reader_free(reader);
    buffer_free(&f->taken);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    fixture *f = *state;
    f->taken = (buffer){0};
    assert_true(failing_memory_each(read_with_failing_memory, f) >= 3);
}

/* ---- verifying a whole file ---- */

static pawl_status note_problem(void *context, uint64_t offset, uint64_t length,
                                pawl_error *story) {
    fixture *f = context;
    if (story->has_range) {
        assert_int_equal(story->offset, offset);
        assert_int_equal(story->length, length);
    }
    f->problems[f->problem_count++] = *story;
    return f->problem_count == f->problem_limit ? PAWL_ELIMIT : PAWL_OK;
}

static pawl_status note_progress(void *context, uint64_t bytes, pawl_error *err) {
    (void)err;
    fixture *f = context;
    f->progress += bytes;
    return PAWL_OK;
}

static pawl_status verify(fixture *f, pawl_error *err) {
    f->problem_count = 0;
    f->progress = 0;
    return engine_reader_verify(f->reader, 0, note_problem, note_progress, f, err);
}

static void test_a_whole_file_verifies(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(verify(f, &err), &err);
    assert_int_equal(f->problem_count, 0);
    assert_int_equal(f->progress, FILE_BYTES);
}

static void test_verifying_goes_on_after_damage(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    files_flip(&f->disk, 0, 1);
    files_flip(&f->disk, 0, 10 * FORMAT_BLOCK_BYTES);
    files_flip(&f->disk, 0, 11 * FORMAT_BLOCK_BYTES);
    files_flip(&f->disk, 0, FILE_BYTES - 1);
    assert_ok(verify(f, &err), &err);
    assert_int_equal(f->problem_count, 3);
    assert_int_equal(f->problems[1].offset, 10 * FORMAT_BLOCK_BYTES);
    assert_int_equal(f->problems[1].length, 2 * FORMAT_BLOCK_BYTES);
    assert_int_equal(f->progress, FILE_BYTES);
}

static void test_verifying_a_truncated_file_tells_the_rest(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    files_write(&f->disk, 0, 20 * FORMAT_BLOCK_BYTES + 5);
    files_flip(&f->disk, 0, 7);
    assert_ok(verify(f, &err), &err);
    assert_int_equal(f->problem_count, 2);
    assert_int_equal(f->problems[0].offset, 20 * FORMAT_BLOCK_BYTES + 5);
    assert_int_equal(f->problems[0].length, FILE_BYTES - 20 * FORMAT_BLOCK_BYTES - 5);
    assert_int_equal(f->problems[1].offset, 0);
}

static void test_verifying_a_missing_file_is_one_problem(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    assert_ok(store_unlink(f->disk.disk, "step/first", &err), &err);
    assert_ok(verify(f, &err), &err);
    assert_int_equal(f->problem_count, 1);
    assert_string_equal(f->problems[0].attempt, "a data file of the checkpoint is missing");
}

static void test_verifying_goes_on_where_the_storage_fails(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    store_fault_set(f->disk.fault,
                    &(store_fault){.op = STORE_OP_READ, .nth = 1, .system_errno = EIO});
    assert_ok(verify(f, &err), &err);
    assert_int_equal(f->problem_count, 1);
    assert_int_equal(f->problems[0].status, PAWL_EIO);
}

static void test_enough_problems_end_the_verification(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    f->problem_limit = 1;
    files_flip(&f->disk, 0, 1);
    files_flip(&f->disk, 0, 10 * FORMAT_BLOCK_BYTES);
    assert_fails(verify(f, &err), PAWL_ELIMIT, &err);
    assert_int_equal(f->problem_count, 1);
}

static void test_without_anybody_to_tell_the_first_problem_is_the_failure(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    files_flip(&f->disk, 0, 1);
    assert_fails(engine_reader_verify(f->reader, 0, NULL, NULL, NULL, &err), PAWL_EDAMAGED, &err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_any_range_of_any_file),
        TEST(test_a_small_read_reads_its_block_only),
        TEST(test_what_take_refuses_ends_the_read),
        TEST(test_r08_a_flipped_byte_is_named_with_file_range_and_checksums),
        TEST(test_r08_neighbouring_blocks_are_one_range),
        TEST(test_damage_in_the_last_short_block_is_found),
        TEST(test_damage_beyond_what_was_asked_for_does_not_matter_yet),
        TEST(test_damage_is_found_again),
        TEST(test_r08_a_truncated_file_says_both_sizes),
        TEST(test_r08_an_empty_file_is_called_empty),
        TEST(test_a_file_that_grew_is_damage),
        TEST(test_r08_a_missing_file_is_named),
        TEST(test_a_range_behind_the_end_is_damage),
        TEST(test_a_read_that_fails_is_the_storage),
        TEST(test_every_allocation_may_fail),
        TEST(test_a_whole_file_verifies),
        TEST(test_verifying_goes_on_after_damage),
        TEST(test_verifying_a_truncated_file_tells_the_rest),
        TEST(test_verifying_a_missing_file_is_one_problem),
        TEST(test_verifying_goes_on_where_the_storage_fails),
        TEST(test_enough_problems_end_the_verification),
        TEST(test_without_anybody_to_tell_the_first_problem_is_the_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
