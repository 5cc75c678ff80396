/* SPDX-License-Identifier: Apache-2.0 */
/* Views: pieces of tensors as memory, on storage that maps files and on storage that does not. */
#include "lib/failing_memory.h"
#include "lib/training.h"
#include "unit/store/fixtures.h"

#include <errno.h>

#define KERNEL "model/dense/kernel"
#define BIAS   "model/dense/bias"
#define SLOT   "optimizer/m"

static directory place;

/* Steps 100, 200 and 300 of a run in a real directory. */
static int set_up_mapped(void **state) {
    struct pawl_error err = ERROR_INIT;
    (void)training_set_up(state);
    training *f = *state;
    store_destroy(f->fault);
    store_truth_destroy(f->disk, f->late);
    store_destroy(f->late);
    directory_make(&place);
    assert_ok(store_posix(place.path, &f->late, &err), &err);
    f->disk = f->late;
    assert_ok(store_fault_wrap(f->disk, &f->os.table, &f->fault, &err), &err);
    training_open_run(f);
    training_save(f, 100);
    training_save(f, 200);
    training_save(f, 300);
    return 0;
}

static int tear_down_mapped(void **state) {
    (void)training_tear_down(state);
    directory_remove(&place);
    return 0;
}

/* Step 300 is the newest: the fixture's memory still holds what was saved. */
static void open_newest(training *f) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(training_open(f, 300, &err), &err);
}

static pawl_view *view_of(training *f, const char *name, uint64_t piece) {
    struct pawl_error err = ERROR_INIT;
    pawl_view *v = NULL;
    assert_ok(checkpoint_view_open(f->checkpoint, name, piece, &v, &err), &err);
    return v;
}

static const uint8_t *bytes_of(pawl_view *v, uint64_t offset, uint64_t n) {
    struct pawl_error err = ERROR_INIT;
    const void *bytes = NULL;
    assert_ok(checkpoint_view_bytes(v, offset, n, &bytes, &err), &err);
    assert_non_null(bytes);
    return bytes;
}

static void assert_no_bytes(pawl_view *v, uint64_t offset, uint64_t n, pawl_status wanted,
                            pawl_error *err) {
    const void *bytes = NULL;
    assert_fails(checkpoint_view_bytes(v, offset, n, &bytes, err), wanted, err);
    assert_null(bytes);
}

/* Changes a byte of the step's first data file where it stands. */
static void flip_in_place(training *f, uint64_t at) {
    struct pawl_error err = ERROR_INIT;
    char path[256];
    uint8_t byte;
    store_file *file;
    training_path(f, 300, NAME_KIND_DATA, path);
    assert_ok(store_open(f->disk, path, STORE_UPDATE, &file, &err), &err);
    assert_ok(store_read(file, at, &byte, 1, &err), &err);
    byte ^= 0x10;
    assert_ok(store_write(file, at, &byte, 1, &err), &err);
    store_close(file);
}

/* ---- bytes ---- */

static void test_a_view_is_what_was_saved(void **state) {
    training *f = *state;
    const struct {
        const char *name;
        const void *bytes;
        size_t n;
    } tensors[] = {{KERNEL, f->kernel, sizeof(f->kernel)},
                   {BIAS, f->bias, sizeof(f->bias)},
                   {SLOT, f->slot, sizeof(f->slot)}};
    open_newest(f);
    for (size_t i = 0; i < ARRAY_LENGTH(tensors); i++) {
        pawl_view *v = view_of(f, tensors[i].name, 0);
        pawl_view_info info;
        info = checkpoint_view_describe(v);
        assert_int_equal(info.dtype, PAWL_F32);
        assert_int_equal(info.bytes, tensors[i].n);
        assert_int_equal(info.shape[info.ndim - 1], TRAINING_COLUMNS);
        assert_int_equal(info.extent[0], info.shape[0]);
        assert_int_equal(info.offset[0], 0);
        assert_memory_equal(bytes_of(v, 0, tensors[i].n), tensors[i].bytes, tensors[i].n);
        pawl_view_close(v);
    }
}

static void test_addresses_stay_and_are_aligned(void **state) {
    training *f = *state;
    open_newest(f);
    pawl_view *v = view_of(f, SLOT, 0);
    const uint8_t *all = bytes_of(v, 0, 0);
    assert_int_equal((uintptr_t)all % sizeof(float), 0);
    for (uint64_t at = 0; at < sizeof(f->slot); at += 1000) {
        assert_ptr_equal(bytes_of(v, at, 1), all + at);
        assert_memory_equal(all + at, (const uint8_t *)f->slot + at, 1);
    }
    assert_ptr_equal(bytes_of(v, 0, sizeof(f->slot)), all);
    assert_ptr_equal(bytes_of(v, sizeof(f->slot), 0), all + sizeof(f->slot));
    pawl_view_close(v);
}

static void test_only_what_is_wanted_is_read_and_only_once(void **state) {
    training *f = *state;
    open_newest(f);
    (void)training_offset_of(f, 300, KERNEL);
    pawl_view *v = view_of(f, KERNEL, 0);
    uint64_t before = checkpoint_reads(f->checkpoint).bytes;
    (void)bytes_of(v, 100, 0);
    assert_int_equal(checkpoint_reads(f->checkpoint).bytes, before);
    (void)bytes_of(v, 0, 4);
    uint64_t first = checkpoint_reads(f->checkpoint).bytes - before;
    assert_in_range(first, FORMAT_BLOCK_BYTES, FORMAT_BLOCK_BYTES + 8192); /* and some index */
    before += first;
    (void)bytes_of(v, 8, 100);
    assert_int_equal(checkpoint_reads(f->checkpoint).bytes, before);
    (void)bytes_of(v, 0, sizeof(f->kernel));
    assert_in_range(checkpoint_reads(f->checkpoint).bytes - before, FORMAT_BLOCK_BYTES,
                    2 * FORMAT_BLOCK_BYTES);
    pawl_view_close(v);
}

static void test_many_views_at_once(void **state) {
    training *f = *state;
    static pawl_view *views[3000];
    static const char *const names[] = {KERNEL, BIAS, SLOT};
    const void *const wanted[] = {f->kernel, f->bias, f->slot};
    open_newest(f);
    for (size_t i = 0; i < ARRAY_LENGTH(views); i++) {
        views[i] = view_of(f, names[i % 3], 0);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(views); i++) {
        assert_memory_equal(bytes_of(views[i], 0, 512), wanted[i % 3], 512);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(views); i++) {
        pawl_view_close(views[(i * 7) % ARRAY_LENGTH(views)]);
    }
    pawl_view_close(view_of(f, BIAS, 0));
}

static void test_each_piece_has_a_view(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {4, 4};
    const int64_t offsets[][2] = {{0, 0}, {1, 0}};
    const int64_t extents[][2] = {{1, 4}, {3, 4}};
    int32_t memory[2][12] = {{1, 2, 3, 4}, {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
    pawl_box boxes[2];
    for (size_t i = 0; i < 2; i++) {
        boxes[i] = (pawl_box){.offset = offsets[i], .extent = extents[i], .data = memory[i]};
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
    assert_ok(training_open(f, 400, &err), &err);
    pawl_view *views[2] = {view_of(f, "sharded", 0), view_of(f, "sharded", 1)};
    for (size_t i = 0; i < 2; i++) {
        pawl_view_info info;
        info = checkpoint_view_describe(views[i]);
        assert_memory_equal(info.shape, shape, sizeof(shape));
        assert_memory_equal(info.offset, offsets[i], sizeof(offsets[i]));
        assert_memory_equal(info.extent, extents[i], sizeof(extents[i]));
        assert_memory_equal(bytes_of(views[i], 0, info.bytes), memory[i], info.bytes);
    }
    pawl_view_close(views[0]);
    pawl_view_close(views[1]);
}

static void test_an_empty_tensor_has_a_view_of_nothing(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {0, 4};
    pawl_view_info info;
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "none",
                                .dtype = PAWL_F64,
                                .ndim = 2,
                                .shape = shape};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    training_save(f, 400);
    assert_ok(training_open(f, 400, &err), &err);
    pawl_view *v = view_of(f, "none", 0);
    info = checkpoint_view_describe(v);
    assert_int_equal(info.bytes, 0);
    assert_int_equal((uintptr_t)bytes_of(v, 0, 0) % sizeof(double), 0);
    assert_no_bytes(v, 0, 1, PAWL_EUSAGE, &err);
    pawl_view_close(v);
}

/* ---- damage ---- */

static void test_r08_damage_is_found_where_it_is_touched(void **state) {
    test_skip_on_objects("an object is replaced, never changed in place");
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    open_newest(f);
    uint64_t offset = training_offset_of(f, 300, SLOT);
    uint64_t damaged = offset + sizeof(f->slot) - 4;
    pawl_view *v = view_of(f, SLOT, 0);
    flip_in_place(f, damaged);
    assert_memory_equal(bytes_of(v, 0, 16), f->slot, 16);
    for (int i = 0; i < 2; i++) { /* it does not go away by looking */
        assert_no_bytes(v, 16, sizeof(f->slot) - 16, PAWL_EDAMAGED, &err);
        assert_says(err.attempt, "reading bytes ");
        assert_says(err.attempt, " of " SLOT "[0:64, 0:128]: bytes ");
        assert_says(err.expected, "CRC32C ");
        assert_says(err.path, "/step-00000300/data-");
        assert_string_equal(err.entry, SLOT);
        assert_true(err.has_range && err.offset <= damaged && damaged < err.offset + err.length);
    }
    assert_memory_equal(bytes_of(v, 0, 16), f->slot, 16);
    flip_in_place(f, damaged);
    assert_memory_equal(bytes_of(v, 0, sizeof(f->slot)), f->slot, sizeof(f->slot));
    pawl_view_close(v);
}

static void test_r08_each_view_verifies_for_itself(void **state) {
    test_skip_on_objects("an object is replaced, never changed in place");
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    open_newest(f);
    pawl_view *first = view_of(f, BIAS, 0);
    assert_memory_equal(bytes_of(first, 0, sizeof(f->bias)), f->bias, sizeof(f->bias));
    flip_in_place(f, training_offset_of(f, 300, BIAS) + 9);
    pawl_view *second = view_of(f, BIAS, 0);
    assert_no_bytes(second, 0, 4, PAWL_EDAMAGED, &err);
    (void)bytes_of(first, 0, sizeof(f->bias));
    pawl_view_close(first);
    pawl_view_close(second);
}

static void test_r08_a_file_that_is_gone_or_cut_is_found_at_opening(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    pawl_view *v = NULL;
    CLEANUP(buffer_free) buffer bytes = {0};
    open_newest(f);
    training_path(f, 300, NAME_KIND_DATA, path);
    training_take_file(f, path, &bytes);
    put_anew(f->disk, path, bytes.data, bytes.size - 1);
    training_catch_up(f);
    assert_fails(checkpoint_view_open(f->checkpoint, KERNEL, 0, &v, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "reading " KERNEL ": a data file of the checkpoint is truncated");
    assert_ok(store_unlink(f->disk, path, &err), &err);
    training_catch_up(f);
    assert_fails(checkpoint_view_open(f->checkpoint, KERNEL, 0, &v, &err), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "reading " KERNEL ": a data file of the checkpoint is missing");
    assert_null(v);
}

static void test_r08_a_file_that_is_cut_under_a_view_is_an_error(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    char path[256];
    char absolute[512];
    open_newest(f);
    uint64_t offset = training_offset_of(f, 300, KERNEL);
    pawl_view *v = view_of(f, KERNEL, 0);
    training_path(f, 300, NAME_KIND_DATA, path);
    snprintf(absolute, sizeof(absolute), "%s/%s", place.path, path);
    assert_int_equal(truncate(absolute, (off_t)offset + 100), 0);
    assert_no_bytes(v, 0, sizeof(f->kernel), PAWL_EDAMAGED, &err);
    assert_says(err.attempt, "the file ends before the bytes that should be read");
    pawl_view_close(v);
}

/* Another file of the name is not what is mapped: what is verified must be what is seen. */
static void test_a_view_keeps_to_the_file_it_was_opened_on(void **state) {
    test_skip_on_objects("an object is replaced, never changed in place");
    training *f = *state;
    char path[256];
    open_newest(f);
    pawl_view *v = view_of(f, KERNEL, 0);
    training_path(f, 300, NAME_KIND_DATA, path);
    training_flip(f, path, (size_t)training_offset_of(f, 300, KERNEL)); /* in a new file */
    assert_memory_equal(bytes_of(v, 0, sizeof(f->kernel)), f->kernel, sizeof(f->kernel));
    pawl_view_close(v);
}

static void test_storage_that_fails_is_an_error_and_asked_again(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    open_newest(f);
    pawl_view *v = view_of(f, KERNEL, 0);
    (void)bytes_of(v, 0, 1);
    store_fault_set(f->fault, &(store_fault){.op = STORE_OP_READ, .nth = 1, .system_errno = EIO});
    assert_no_bytes(v, 0, sizeof(f->kernel), PAWL_EIO, &err);
    assert_memory_equal(bytes_of(v, 0, sizeof(f->kernel)), f->kernel, sizeof(f->kernel));
    pawl_view_close(v);
}

/* ---- what cannot be viewed ---- */

static void test_what_is_no_tensor_or_no_piece_is_refused(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_view *v = NULL;
    open_newest(f);
    assert_fails(checkpoint_view_open(f->checkpoint, "step", 0, &v, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "only tensors can be viewed");
    assert_string_equal(err.found, "a value of kind int64");
    assert_string_equal(err.next, "pawl_checkpoint_find gives its value");
    assert_fails(checkpoint_view_open(f->checkpoint, "rng", 0, &v, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.next, "read it with pawl_checkpoint_read_rank");
    assert_fails(checkpoint_view_open(f->checkpoint, KERNEL, 1, &v, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "the tensor has no piece of this number");
    assert_string_equal(err.expected, "a piece from 0 to 0");
    assert_string_equal(err.found, "piece 1");
    assert_fails(checkpoint_view_open(f->checkpoint, "model/dense/kernl", 0, &v, &err),
                 PAWL_ENOTFOUND, &err);
    assert_string_equal(err.next, "did you mean model/dense/kernel?");
    assert_null(v);
}

static void test_bytes_outside_of_the_piece_are_refused(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    open_newest(f);
    pawl_view *v = view_of(f, BIAS, 0);
    assert_no_bytes(v, 0, sizeof(f->bias) + 1, PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "the bytes wanted are not within the view");
    assert_string_equal(err.expected, "a range within its 512 bytes");
    assert_string_equal(err.found, "513 bytes from 0 on");
    assert_no_bytes(v, sizeof(f->bias) + 1, 0, PAWL_EUSAGE, &err);
    assert_no_bytes(v, UINT64_MAX, 2, PAWL_EUSAGE, &err);
    assert_no_bytes(v, 2, UINT64_MAX, PAWL_EUSAGE, &err);
    pawl_view_close(v);
}

/* ---- an index that lies ---- */

typedef struct lying {
    entry_source truth;
    record_entry entry;
    record_piece piece;
    uint64_t offset;
} lying;

/* Moves KERNEL, with checksums that fit. */
static pawl_status next_lie(void *context, const record_entry **out, pawl_error *err) {
    lying *l = context;
    TRY(l->truth.next(l->truth.context, out, err));
    if (*out != NULL && strcmp((*out)->name, KERNEL) == 0) {
        l->entry = **out;
        l->piece = l->entry.pieces[0];
        l->piece.offset = l->offset;
        l->entry.pieces = &l->piece;
        *out = &l->entry;
    }
    return PAWL_OK;
}

static void publish_lie(training *f, const char *tag, uint64_t offset) {
    struct pawl_error err = ERROR_INIT;
    uint32_t sums[64] = {0};
    const engine_file file = {.checksums = sums, .block_count = 64};
    pawl_entries *walk;
    open_newest(f);
    assert_ok(entries_open(f->checkpoint, "", &walk, &err), &err);
    lying l = {.truth = entries_source(walk), .offset = offset};
    const index_input input = {
        .entries = {.context = &l, .next = next_lie}, .files = &file, .file_count = 1};
    const index_writer index = index_writer_of(&input);
    assert_ok(commit_publish(f->run, "step-00000300", tag, training_manifest(f), &index, &err),
              &err);
    pawl_entries_free(walk);
}

static void test_r14_an_index_that_points_elsewhere_is_damaged(void **state) {
    training *f = *state;
    static const uint64_t offsets[] = {4097, 1u << 20, UINT64_C(1) << 62};
    static const char *const tags[] = {"0123456789ab-7", "0123456789ab-8", "0123456789ab-9"};
    for (size_t i = 0; i < ARRAY_LENGTH(offsets); i++) {
        struct pawl_error err = ERROR_INIT;
        pawl_view *v = NULL;
        publish_lie(f, tags[i], offsets[i]);
        open_newest(f);
        assert_fails(checkpoint_view_open(f->checkpoint, KERNEL, 0, &v, &err), PAWL_EDAMAGED, &err);
        assert_says(err.attempt, "the index of the checkpoint is damaged: ");
        assert_says(err.attempt,
                    i == 0 ? "is not aligned to its elements" : "lies behind the end of its file");
        assert_null(v);
        if (i + 1 < ARRAY_LENGTH(offsets)) {
            training_save(f, 300);
        }
    }
}

/* ---- memory ---- */

static pawl_status view_with_failing_memory(void *context, pawl_error *err) {
    training *f = context;
    pawl_checkpoint *c = NULL;
    pawl_view *v = NULL;
    const void *bytes;
    TRY(checkpoint_open(f->disk, false, 300, &f->os.table, NULL, &c, err));
    pawl_status status = checkpoint_view_open(c, KERNEL, 0, &v, err);
    if (status == PAWL_OK) {
        status = checkpoint_view_bytes(v, 0, sizeof(f->kernel), &bytes, err);
    }
    pawl_view_close(v);
    pawl_checkpoint_close(c);
    return status;
}

static void test_every_allocation_may_fail(void **state) {
    training *f = *state;
    f->os.identity_fails = true;
    assert_true(failing_memory_each(view_with_failing_memory, f) > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define HELD(t)      cmocka_unit_test_setup_teardown(t, training_set_up_steps, training_tear_down)
#define MAPPED(test) cmocka_unit_test_setup_teardown(test, set_up_mapped, tear_down_mapped)
#define BOTH(test)   HELD(test), MAPPED(test)
        BOTH(test_a_view_is_what_was_saved),
        BOTH(test_addresses_stay_and_are_aligned),
        BOTH(test_only_what_is_wanted_is_read_and_only_once),
        BOTH(test_many_views_at_once),
        BOTH(test_each_piece_has_a_view),
        BOTH(test_an_empty_tensor_has_a_view_of_nothing),
        BOTH(test_r08_damage_is_found_where_it_is_touched),
        BOTH(test_r08_each_view_verifies_for_itself),
        BOTH(test_r08_a_file_that_is_gone_or_cut_is_found_at_opening),
        MAPPED(test_r08_a_file_that_is_cut_under_a_view_is_an_error),
        BOTH(test_a_view_keeps_to_the_file_it_was_opened_on),
        BOTH(test_storage_that_fails_is_an_error_and_asked_again),
        BOTH(test_what_is_no_tensor_or_no_piece_is_refused),
        BOTH(test_bytes_outside_of_the_piece_are_refused),
        BOTH(test_r14_an_index_that_points_elsewhere_is_damaged),
        BOTH(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
