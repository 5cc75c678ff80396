/* SPDX-License-Identifier: Apache-2.0 */
/* What is read from a source is right or refused: one without checksums, one that decodes its
 * files, one that fails, ends early, lies about sizes, returns entries out of order. */
#include "lib/training.h"

#include "unit/checkpoint/troubled_source.h"

#include "lib/failing_memory.h"

/* Step 300, through trouble that the test makes before it looks. */
static troubled_source *open_troubled(training *f) {
    struct pawl_error err = ERROR_INIT;
    struct source *native;
    assert_ok(native_open(f->fault, 300, &f->os.table, NULL, true, &native, &err), &err);
    troubled_source *t = troubled_source_around(native);
    assert_non_null(t);
    assert_ok(checkpoint_open_source(&t->base, &f->os.table, NULL, &f->checkpoint, &err), &err);
    return t;
}

/* Closes it; then it is opened anew, without checksums and with files that are decoded. */
static troubled_source *open_plain(training *f) {
    struct pawl_error err = ERROR_INIT;
    struct source *native;
    pawl_checkpoint_close(f->checkpoint);
    f->checkpoint = NULL;
    assert_ok(native_open(f->fault, 300, &f->os.table, NULL, true, &native, &err), &err);
    troubled_source *t = troubled_source_around(native);
    assert_non_null(t);
    t->ops.checksums = NULL;
    t->decoded = true;
    t->base.unverified = "not checked: the values";
    assert_ok(checkpoint_open_source(&t->base, &f->os.table, NULL, &f->checkpoint, &err), &err);
    return t;
}

static pawl_status read_kernel(training *f, float kernel[TRAINING_ROWS][TRAINING_COLUMNS],
                               pawl_error *err) {
    return checkpoint_read(f->checkpoint, "model/dense/kernel", NULL, NULL, kernel,
                           sizeof(float) * TRAINING_ROWS * TRAINING_COLUMNS, err);
}

static void assert_kernel(training *f) {
    struct pawl_error err = ERROR_INIT;
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    assert_ok(read_kernel(f, kernel, &err), &err);
    training_fill(f, 300);
    assert_memory_equal(kernel, f->kernel, sizeof(kernel));
}

static pawl_status walk_all(training *f, size_t *count, pawl_error *err) {
    CLEANUP(entries_free_pointer) pawl_entries *walk = NULL;
    pawl_entry_info info;
    int more = 1;
    *count = 0;
    TRY(entries_open(f->checkpoint, "", &walk, err));
    for (;;) {
        TRY(entries_next(walk, &info, &more, err));
        if (more == 0) {
            return PAWL_OK;
        }
        ++*count;
    }
}

static pawl_status restore(training *f, pawl_error *err) {
    return checkpoint_restore(f->checkpoint, f->state, NULL, 0, 1, NULL, err);
}

/* ---- a source that is right ---- */

static void test_without_checksums_and_decoded_all_reads_the_same(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    size_t count;
    (void)open_plain(f);
    assert_kernel(f);
    assert_ok(walk_all(f, &count, &err), &err);
    assert_int_equal(count, 9);
    const int64_t offset[] = {3, 5};
    const int64_t extent[] = {1, 7};
    float slice[7];
    assert_ok(
        checkpoint_read(f->checkpoint, "optimizer/m", offset, extent, slice, sizeof(slice), &err),
        &err);
    assert_memory_equal(slice, &f->slot[3][5], sizeof(slice));
    memset(f->kernel, 0, sizeof(f->kernel));
    memset(f->slot, 0, sizeof(f->slot));
    assert_ok(restore(f, &err), &err);
    assert_kernel(f);
}

static void test_a_view_of_decoded_bytes(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_view *view;
    const void *bytes;
    (void)open_plain(f);
    training_fill(f, 300);
    assert_ok(checkpoint_view_open(f->checkpoint, "optimizer/m", 0, &view, &err), &err);
    assert_ok(checkpoint_view_bytes(view, 100, sizeof(f->slot) - 100, &bytes, &err), &err);
    assert_memory_equal(bytes, (const uint8_t *)f->slot + 100, sizeof(f->slot) - 100);
    pawl_view_close(view);
}

static void damage_kernel(training *f) {
    char path[256];
    training_path(f, 300, NAME_KIND_DATA, path);
    training_flip(f, path, training_offset_of(f, 300, "model/dense/kernel"));
}

static void test_damage_is_not_seen_without_checksums_and_verify_says_so(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_verify_result result;
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    damage_kernel(f);
    (void)open_plain(f);
    assert_ok(read_kernel(f, kernel, &err), &err);
    assert_ok(checkpoint_verify(f->checkpoint, NULL, &result, &err), &err);
    assert_int_equal(result.entries, 9);
    assert_string_equal(result.unverified, "not checked: the values");
}

static void test_with_checksums_decoded_bytes_are_verified(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_verify_result result;
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    damage_kernel(f);
    open_troubled(f)->decoded = true;
    assert_fails(read_kernel(f, kernel, &err), PAWL_EDAMAGED, &err);
    assert_fails(checkpoint_verify(f->checkpoint, NULL, &result, &err), PAWL_EDAMAGED, &err);
    assert_null(result.unverified);
}

/* ---- failures ---- */

static void test_every_failure_is_passed_on(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    size_t count;
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    troubled_source *t = open_plain(f);
    t->fail_walk = 1;
    assert_fails(walk_all(f, &count, &err), PAWL_EIO, &err);
    t->fail_next = 5;
    assert_fails(walk_all(f, &count, &err), PAWL_EIO, &err);
    assert_int_equal(count, 4);
    t->fail_find = 1;
    assert_fails(read_kernel(f, kernel, &err), PAWL_EIO, &err);
    t->fail_open = 1;
    assert_fails(read_kernel(f, kernel, &err), PAWL_EIO, &err);
    t->fail_read = 2;
    assert_fails(read_kernel(f, kernel, &err), PAWL_EIO, &err);
    assert_string_equal(err.entry, "model/dense/kernel");
    t->fail_read = 2;
    assert_fails(restore(f, &err), PAWL_EIO, &err);
    assert_kernel(f);
}

static void test_a_file_that_ends_too_early(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    pawl_verify_result result;
    open_plain(f)->ends_at = training_offset_of(f, 300, "model/dense/kernel") + 1000;
    assert_fails(read_kernel(f, kernel, &err), PAWL_EDAMAGED, &err);
    assert_string_equal(err.entry, "model/dense/kernel");
    assert_fails(restore(f, &err), PAWL_EDAMAGED, &err);
    assert_fails(checkpoint_verify(f->checkpoint, NULL, &result, &err), PAWL_EDAMAGED, &err);
    assert_true(result.problems > 0);
}

/* ---- lies ---- */

static void test_a_file_of_another_size_than_was_said(void **state) {
    static const int64_t more[] = {1, -1, 4096, -4096};
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    pawl_verify_result result;
    for (size_t i = 0; i < ARRAY_LENGTH(more); i++) {
        open_plain(f)->more_bytes = more[i];
        assert_fails(read_kernel(f, kernel, &err), PAWL_EDAMAGED, &err);
        assert_fails(checkpoint_verify(f->checkpoint, NULL, &result, &err), PAWL_EDAMAGED, &err);
    }
}

static void lie_far(record_entry *entry, record_piece *piece) {
    (void)entry;
    piece->offset = UINT64_MAX - 3;
}

static void lie_behind(record_entry *entry, record_piece *piece) {
    (void)entry;
    piece->offset += 1u << 30;
}

static void lie_unaligned(record_entry *entry, record_piece *piece) {
    (void)entry;
    piece->offset += 1;
}

static void lie_longer(record_entry *entry, record_piece *piece) {
    (void)entry;
    piece->bytes += 4;
}

static void lie_shorter(record_entry *entry, record_piece *piece) {
    (void)entry;
    piece->bytes -= 4;
}

static void lie_shape(record_entry *entry, record_piece *piece) {
    static const int64_t shape[] = {TRAINING_ROWS, TRAINING_COLUMNS + 1};
    (void)piece;
    entry->shape = shape;
}

static void lie_huge(record_entry *entry, record_piece *piece) {
    static int64_t shape[] = {INT64_MAX, INT64_MAX};
    entry->shape = shape;
    piece->box_extent = shape;
}

static void lie_negative(record_entry *entry, record_piece *piece) {
    static int64_t shape[] = {-TRAINING_ROWS, TRAINING_COLUMNS};
    entry->shape = shape;
    piece->box_extent = shape;
}

static void lie_dimensions(record_entry *entry, record_piece *piece) {
    (void)piece;
    entry->ndim = PAWL_MAX_NDIM + 1;
}

static void lie_dtype(record_entry *entry, record_piece *piece) {
    (void)piece;
    entry->dtype = PAWL_F64;
}

static void lie_no_dtype(record_entry *entry, record_piece *piece) {
    (void)piece;
    entry->dtype = (pawl_dtype)1000;
}

static void lie_file(record_entry *entry, record_piece *piece) {
    (void)entry;
    piece->file = 1;
}

static void lie_no_pieces(record_entry *entry, record_piece *piece) {
    (void)piece;
    entry->piece_count = 0;
}

static void lie_name(record_entry *entry, record_piece *piece) {
    (void)piece;
    entry->name = "model//\x01";
}

static void lie_long_name(record_entry *entry, record_piece *piece) {
    static char name[PAWL_MAX_NAME_BYTES + 100];
    (void)piece;
    memset(name, 'm', sizeof(name) - 1);
    entry->name = name;
}

static void lie_kind(record_entry *entry, record_piece *piece) {
    (void)piece;
    entry->kind = (pawl_kind)77;
}

/* Of the kernel alone, so that each lie meets a tensor, and whether found or walked over. */
static void test_r14_lies_about_an_entry_are_refused(void **state) {
    static void (*const lies[])(record_entry *, record_piece *) = {
        lie_far,       lie_behind, lie_unaligned, lie_longer,     lie_shorter,  lie_shape,
        lie_huge,      lie_dtype,  lie_negative,  lie_dimensions, lie_no_dtype, lie_file,
        lie_no_pieces, lie_name,   lie_long_name, lie_kind};
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_verify_result result;
    size_t count;
    for (size_t i = 0; i < ARRAY_LENGTH(lies); i++) {
        float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
        troubled_source *t = open_plain(f);
        t->of = "model/dense/kernel";
        t->change = lies[i];
        assert_int_not_equal(read_kernel(f, kernel, &err), PAWL_OK);
        assert_int_not_equal(walk_all(f, &count, &err), PAWL_OK);
        assert_int_not_equal(restore(f, &err), PAWL_OK);
        assert_fails(checkpoint_verify(f->checkpoint, NULL, &result, &err), PAWL_EDAMAGED, &err);
        assert_int_equal(t->reads > 0, true); /* the files were verified all the same */
    }
}

static void lie_another(record_entry *entry, record_piece *piece) {
    (void)piece;
    entry->name = "model/dense/other";
}

static void test_an_entry_of_another_name_than_was_asked_for(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    open_plain(f)->change = lie_another;
    assert_fails(read_kernel(f, kernel, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "an entry has another name than the one it was found by");
}

static void test_entries_out_of_order(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_verify_result result;
    size_t count;
    troubled_source *t = open_plain(f);
    t->swapped = 3;
    assert_fails(walk_all(f, &count, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "the entries do not come in the order of their names");
    assert_fails(restore(f, &err), PAWL_EDAMAGED, &err);
    assert_fails(checkpoint_verify(f->checkpoint, NULL, &result, &err), PAWL_EDAMAGED, &err);
    t->swapped = 0;
    t->repeated = 3;
    assert_fails(walk_all(f, &count, &err), PAWL_EDAMAGED, &err);
    assert_fails(restore(f, &err), PAWL_EDAMAGED, &err);
    t->repeated = 0;
    assert_ok(walk_all(f, &count, &err), &err);
}

static void test_entries_that_were_not_asked_for(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_entries *walk;
    pawl_entry_info info;
    int more;
    open_plain(f)->change = lie_another;
    assert_ok(entries_open(f->checkpoint, "optimizer/", &walk, &err), &err);
    assert_fails(entries_next(walk, &info, &more, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "an entry does not belong to those that were asked for");
    pawl_entries_free(walk);
}

static void test_another_number_of_entries_than_was_said(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_verify_result result;
    open_plain(f)->base.entries++;
    assert_fails(checkpoint_verify(f->checkpoint, NULL, &result, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "another number of entries than it says");
}

/* ---- types that are no dtype ---- */

static void lie_string(record_entry *entry, record_piece *piece) {
    entry->dtype = (pawl_dtype)0;
    entry->type = "string";
    piece->bytes = 77;
}

static void test_a_type_that_is_no_dtype_is_shown_and_not_read(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_entry_info info;
    pawl_view *view;
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    troubled_source *t = open_plain(f);
    t->of = "model/dense/kernel";
    t->change = lie_string;
    assert_ok(checkpoint_find(f->checkpoint, "model/dense/kernel", &info, &err), &err);
    assert_string_equal(info.type, "string");
    assert_int_equal(info.dtype, 0);
    assert_int_equal(info.bytes, 77);
    assert_int_equal(info.ndim, 2);
    assert_fails(read_kernel(f, kernel, &err), PAWL_EUNSUPPORTED, &err);
    assert_string_equal(err.found, "string");
    assert_fails(checkpoint_view_open(f->checkpoint, "model/dense/kernel", 0, &view, &err),
                 PAWL_EUNSUPPORTED, &err);
    pawl_report *report = NULL;
    assert_fails(checkpoint_restore(f->checkpoint, f->state, NULL, 0, 1, &report, &err),
                 PAWL_EMISMATCH, &err);
    assert_says(pawl_report_text(report),
                "is [64, 128] string in the checkpoint and [64, 128] F32");
    pawl_report_free(report);
    assert_ok(checkpoint_find(f->checkpoint, "model/dense/bias", &info, &err), &err);
    assert_string_equal(info.type, "F32");
    assert_ok(checkpoint_find(f->checkpoint, "step", &info, &err), &err);
    assert_null(info.type);
}

static pawl_status read_with_failing_memory(void *context, pawl_error *err) {
    training *f = context;
    struct source *native;
    pawl_checkpoint *c = NULL;
    float bias[TRAINING_COLUMNS];
    TRY(native_open(f->fault, 300, &f->os.table, NULL, false, &native, err));
    troubled_source *t = troubled_source_around(native);
    if (t == NULL) {
        source_destroy(native);
        return error_nomem(err, sizeof(*t));
    }
    t->decoded = true;
    TRY(checkpoint_open_source(&t->base, &f->os.table, NULL, &c, err));
    pawl_status status =
        checkpoint_read(c, "model/dense/bias", NULL, NULL, bias, sizeof(bias), err);
    pawl_checkpoint_close(c);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    assert_true(failing_memory_each(read_with_failing_memory, *state) > 20);
}

#define SOURCE_TEST(test)                                                                          \
    cmocka_unit_test_setup_teardown(test, training_set_up_steps, training_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        SOURCE_TEST(test_without_checksums_and_decoded_all_reads_the_same),
        SOURCE_TEST(test_a_view_of_decoded_bytes),
        SOURCE_TEST(test_damage_is_not_seen_without_checksums_and_verify_says_so),
        SOURCE_TEST(test_with_checksums_decoded_bytes_are_verified),
        SOURCE_TEST(test_every_failure_is_passed_on),
        SOURCE_TEST(test_a_file_that_ends_too_early),
        SOURCE_TEST(test_a_file_of_another_size_than_was_said),
        SOURCE_TEST(test_r14_lies_about_an_entry_are_refused),
        SOURCE_TEST(test_an_entry_of_another_name_than_was_asked_for),
        SOURCE_TEST(test_entries_out_of_order),
        SOURCE_TEST(test_entries_that_were_not_asked_for),
        SOURCE_TEST(test_another_number_of_entries_than_was_said),
        SOURCE_TEST(test_a_type_that_is_no_dtype_is_shown_and_not_read),
        SOURCE_TEST(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
