/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A struct_size, or a size of elements, that no compiler makes: every call refuses it, and takes no
 * part of a pointer for a pointer. What is handed in ends where the memory ends.
 */
#include "lib/at_step.h"
#include "unit/store/fixtures.h"

#include <pawl/pawl.h>

#include <string.h>
#include <sys/mman.h>

#define PAGE_BYTES ((size_t)4096)

typedef struct fixture {
    directory dir;
    char path[128];
    pawl_state *state;
    pawl_run *run;
    pawl_checkpoint *checkpoint;
    pawl_entries *entries;
    pawl_events *events;
    pawl_view *view;
    pawl_report *report;
    uint8_t *page; /* behind it nothing can be read */
    float weights[4];
} fixture;

static const int64_t shape[] = {4};
static const int64_t origin[] = {0};

static pawl_tensor tensor_of(fixture *f, const char *name) {
    return (pawl_tensor){.struct_size = sizeof(pawl_tensor),
                         .name = name,
                         .dtype = PAWL_F32,
                         .ndim = 1,
                         .shape = shape,
                         .data = f->weights};
}

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    directory_make(&f->dir);
    (void)snprintf(f->path, sizeof(f->path), "%s/run", f->dir.path);
    const pawl_tensor tensor = tensor_of(f, "weights");
    assert_int_equal(pawl_state_new(&f->state, NULL), PAWL_OK);
    assert_int_equal(pawl_state_add_tensor(f->state, &tensor, NULL), PAWL_OK);
    assert_int_equal(pawl_run_open(f->path, NULL, &f->run, NULL), PAWL_OK);
    assert_int_equal(pawl_save(f->run, f->state, 1, NULL, NULL), PAWL_OK);
    assert_int_equal(pawl_wait(f->run, 0, NULL, NULL), PAWL_OK);
    assert_int_equal(pawl_checkpoint_open(f->path, AT_STEP(1), &f->checkpoint, NULL), PAWL_OK);
    assert_int_equal(pawl_entries_open(f->checkpoint, "", &f->entries, NULL), PAWL_OK);
    assert_int_equal(pawl_events_open(f->path, NULL, &f->events, NULL), PAWL_OK);
    assert_int_equal(pawl_view_open(f->checkpoint, "weights", 0, &f->view, NULL), PAWL_OK);
    assert_int_equal(pawl_checkpoint_restore(f->checkpoint, f->state, NULL, &f->report, NULL),
                     PAWL_OK);
    f->page =
        mmap(NULL, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(f->page != MAP_FAILED);
    assert_int_equal(mprotect(f->page + PAGE_BYTES, PAGE_BYTES, PROT_NONE), 0);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    assert_int_equal(munmap(f->page, 2 * PAGE_BYTES), 0);
    pawl_report_free(f->report);
    pawl_view_close(f->view);
    pawl_events_close(f->events);
    pawl_entries_free(f->entries);
    pawl_checkpoint_close(f->checkpoint);
    (void)pawl_run_close(f->run, 0, NULL);
    pawl_state_free(f->state);
    directory_remove(&f->dir);
    mem_free(f);
    return 0;
}

/* A struct has at least one member behind its size. */
static bool is_refused(size_t size, bool has_size) {
    return size < (has_size ? 2 : 1) * sizeof(void *) || size % sizeof(void *) != 0;
}

static const size_t far_above[] = {PAGE_BYTES + 8,  65536,        0x7fffffff,
                                   (size_t)1 << 40, SIZE_MAX - 7, SIZE_MAX};

/* One call, with the struct at `given`; or its elements are said to have `size` bytes. */
typedef pawl_status (*call)(fixture *f, void *given, size_t size);

/* Copies of `bytes` bytes of the struct, ending where the memory ends. */
static void *at_end(fixture *f, const void *from, size_t bytes) {
    return memcpy(f->page + PAGE_BYTES - bytes, from, bytes);
}

static void try_size(fixture *f, const void *example, size_t bytes, bool has_size, size_t size,
                     call it) {
    void *given = at_end(f, example, bytes);
    if (has_size) {
        memcpy(given, &size, sizeof(size));
    }
    pawl_status status = it(f, given, size);
    if (status != PAWL_EUSAGE) {
        fail_msg("a size of %zu instead of %zu: %s", size, bytes, pawl_status_name(status));
    }
}

static void try_sizes(fixture *f, const void *example, size_t bytes, bool has_size, call it) {
    for (size_t size = 0; size < bytes + 8; size++) {
        if (is_refused(size, has_size)) {
            try_size(f, example, bytes, has_size, size, it);
        }
    }
    for (size_t i = 0; i < ARRAY_LENGTH(far_above); i++) {
        try_size(f, example, bytes, has_size, far_above[i], it);
    }
}

#define TRY_STRUCTS(f, example, it)  try_sizes(f, &(example), sizeof(example), true, it)
#define TRY_ELEMENTS(f, example, it) try_sizes(f, &(example), sizeof(example), false, it)

/* ---- states --------------------------------------------------------------------------------- */

static pawl_status call_add(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_state_add_tensor(f->state, given, NULL);
}

static pawl_status call_add_many(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_state_add_tensors(f->state, given, 1, NULL);
}

static pawl_status call_update_many(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_state_update_tensors(f->state, given, 1, NULL);
}

static pawl_status call_add_memory(fixture *f, void *given, size_t size) {
    pawl_tensor tensor = tensor_of(f, "more");
    (void)size;
    tensor.memory = given;
    return pawl_state_add_tensor(f->state, &tensor, NULL);
}

static pawl_status call_add_many_memory(fixture *f, void *given, size_t size) {
    pawl_tensor tensor = tensor_of(f, "more");
    (void)size;
    tensor.memory = given;
    return pawl_state_add_tensors(f->state, &tensor, 1, NULL);
}

static pawl_status call_add_boxes(fixture *f, void *given, size_t size) {
    pawl_tensor tensor = tensor_of(f, "more");
    tensor.boxes = given;
    tensor.nboxes = 1;
    tensor.box_size = size;
    return pawl_state_add_tensor(f->state, &tensor, NULL);
}

static pawl_status call_add_many_boxes(fixture *f, void *given, size_t size) {
    pawl_tensor tensor = tensor_of(f, "more");
    tensor.boxes = given;
    tensor.nboxes = 1;
    tensor.box_size = size;
    return pawl_state_add_tensors(f->state, &tensor, 1, NULL);
}

static pawl_status no_copy(void *context, const pawl_copy *const *copies, size_t count,
                           void **ticket, pawl_error *err) {
    (void)context, (void)count, (void)ticket;
    return pawl_copy_failed(err, PAWL_EIO, copies[0], "not to be called");
}

static void test_structs_of_a_state(void **state) {
    fixture *f = *state;
    const pawl_tensor tensor = tensor_of(f, "more");
    const pawl_memory memory = {.name = "device", .start_out = no_copy};
    const pawl_box box = {.offset = origin, .extent = shape, .data = f->weights};
    TRY_STRUCTS(f, tensor, call_add);
    TRY_STRUCTS(f, tensor, call_add_many);
    TRY_STRUCTS(f, tensor, call_update_many);
    TRY_STRUCTS(f, memory, call_add_memory);
    TRY_STRUCTS(f, memory, call_add_many_memory);
    TRY_ELEMENTS(f, box, call_add_boxes);
    TRY_ELEMENTS(f, box, call_add_many_boxes);
}

/* ---- runs ----------------------------------------------------------------------------------- */

static pawl_status open_another(fixture *f, const pawl_run_options *options) {
    char path[160];
    pawl_run *run = NULL;
    (void)snprintf(path, sizeof(path), "%s/another", f->dir.path);
    pawl_status status = pawl_run_open(path, options, &run, NULL);
    (void)pawl_run_close(run, 0, NULL);
    return status;
}

static pawl_status call_run(fixture *f, void *given, size_t size) {
    (void)size;
    return open_another(f, given);
}

static pawl_status call_run_log(fixture *f, void *given, size_t size) {
    const pawl_run_options options = {.struct_size = sizeof(options), .log = given};
    (void)size;
    return open_another(f, &options);
}

static pawl_status call_run_retention(fixture *f, void *given, size_t size) {
    const pawl_run_options options = {.struct_size = sizeof(options), .retention = given};
    (void)size;
    return open_another(f, &options);
}

static pawl_status call_run_group(fixture *f, void *given, size_t size) {
    const pawl_run_options options = {.struct_size = sizeof(options), .group = given};
    (void)size;
    return open_another(f, &options);
}

static pawl_status call_save(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_save(f->run, f->state, 2, given, NULL);
}

static pawl_status call_save_final(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_save_final(f->run, f->state, 2, given, 1, NULL);
}

static pawl_status call_save_metrics(fixture *f, void *given, size_t size) {
    const pawl_save_options options = {
        .struct_size = sizeof(options), .metrics = given, .metric_count = 1, .metric_size = size};
    return pawl_save(f->run, f->state, 2, &options, NULL);
}

static pawl_status call_wait(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_wait(f->run, 0, given, NULL);
}

static pawl_status call_restore(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_restore(f->run, f->state, given, NULL, NULL);
}

static pawl_status call_restore_renames(fixture *f, void *given, size_t size) {
    const pawl_restore_options options = {
        .struct_size = sizeof(options), .renames = given, .rename_count = 1, .rename_size = size};
    return pawl_restore(f->run, f->state, &options, NULL, NULL);
}

static void test_structs_of_a_run(void **state) {
    fixture *f = *state;
    const pawl_run_options options = {.framework = "none"};
    const pawl_log log = {.level = PAWL_LOG_ERROR};
    const pawl_retention retention = {.keep_last = 3};
    const pawl_group group = {.world_size = 1};
    const pawl_save_options save = {.pin = 1};
    const pawl_metric metric = {.name = "loss", .value = 1};
    const pawl_save_stats stats = {.step = 1};
    const pawl_restore_options restore = {.no_fallback = 1};
    const pawl_rename rename = {.from = "a", .to = "b"};
    TRY_STRUCTS(f, options, call_run);
    TRY_STRUCTS(f, log, call_run_log);
    TRY_STRUCTS(f, retention, call_run_retention);
    TRY_STRUCTS(f, group, call_run_group);
    TRY_STRUCTS(f, save, call_save);
    TRY_STRUCTS(f, save, call_save_final);
    TRY_ELEMENTS(f, metric, call_save_metrics);
    TRY_STRUCTS(f, stats, call_wait);
    TRY_STRUCTS(f, restore, call_restore);
    TRY_ELEMENTS(f, rename, call_restore_renames);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

static pawl_status call_open(fixture *f, void *given, size_t size) {
    pawl_checkpoint *checkpoint = NULL;
    (void)size;
    return pawl_checkpoint_open(f->path, given, &checkpoint, NULL);
}

static pawl_status call_open_log(fixture *f, void *given, size_t size) {
    const pawl_open_options options = {.struct_size = sizeof(options), .log = given};
    pawl_checkpoint *checkpoint = NULL;
    (void)size;
    return pawl_checkpoint_open(f->path, &options, &checkpoint, NULL);
}

static pawl_status call_catalog(fixture *f, void *given, size_t size) {
    pawl_catalog *catalog = NULL;
    (void)size;
    return pawl_catalog_open(f->path, given, &catalog, NULL);
}

static pawl_status call_events(fixture *f, void *given, size_t size) {
    pawl_events *events = NULL;
    (void)size;
    return pawl_events_open(f->path, given, &events, NULL);
}

static pawl_status call_owner_options(fixture *f, void *given, size_t size) {
    pawl_owner_info info = {.struct_size = sizeof(info)};
    (void)size;
    return pawl_owner_look(f->path, given, &info, NULL);
}

static pawl_status call_owner(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_owner_look(f->path, NULL, given, NULL);
}

static pawl_status call_describe(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_checkpoint_describe(f->checkpoint, given, NULL);
}

static pawl_status call_reads(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_checkpoint_reads(f->checkpoint, given, NULL);
}

static pawl_status call_find(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_checkpoint_find(f->checkpoint, "weights", given, NULL);
}

static pawl_status call_lend(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_checkpoint_tensor(f->checkpoint, "weights", given, NULL);
}

static pawl_status call_read_many(fixture *f, void *given, size_t size) {
    return pawl_checkpoint_read_many(f->checkpoint, given, size, 1, NULL);
}

static pawl_status call_next_entry(fixture *f, void *given, size_t size) {
    int more;
    (void)size;
    return pawl_entries_next(f->entries, given, &more, NULL);
}

static pawl_status call_next_event(fixture *f, void *given, size_t size) {
    int more;
    (void)size;
    return pawl_events_next(f->events, given, &more, NULL);
}

static pawl_status call_view(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_view_describe(f->view, given, NULL);
}

static pawl_status call_verify(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_checkpoint_verify(f->checkpoint, given, NULL, NULL);
}

static pawl_status call_diff(fixture *f, void *given, size_t size) {
    pawl_diff_result found = {.struct_size = sizeof(found)};
    (void)size;
    return pawl_checkpoint_diff(f->checkpoint, f->checkpoint, given, &found, NULL);
}

static pawl_status call_diff_result(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_checkpoint_diff(f->checkpoint, f->checkpoint, NULL, given, NULL);
}

static pawl_status call_verify_result(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_checkpoint_verify(f->checkpoint, NULL, given, NULL);
}

static pawl_status call_totals(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_report_totals(f->report, given, NULL);
}

static pawl_status call_restore_one(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_checkpoint_restore(f->checkpoint, f->state, given, NULL, NULL);
}

static pawl_status call_restore_one_group(fixture *f, void *given, size_t size) {
    const pawl_restore_options options = {.struct_size = sizeof(options), .group = given};
    (void)size;
    return pawl_checkpoint_restore(f->checkpoint, f->state, &options, NULL, NULL);
}

static pawl_status call_restore_one_renames(fixture *f, void *given, size_t size) {
    const pawl_restore_options options = {
        .struct_size = sizeof(options), .renames = given, .rename_count = 1, .rename_size = size};
    return pawl_checkpoint_restore(f->checkpoint, f->state, &options, NULL, NULL);
}

static void test_what_opens_a_checkpoint(void **state) {
    fixture *f = *state;
    const int64_t step = 1;
    const pawl_open_options options = {.step = &step};
    const pawl_open_options any_step = {.step = NULL};
    const pawl_log log = {.level = PAWL_LOG_ERROR};
    const pawl_owner_info owner = {.pid = 1};
    TRY_STRUCTS(f, options, call_open);
    TRY_STRUCTS(f, log, call_open_log);
    TRY_STRUCTS(f, any_step, call_catalog);
    TRY_STRUCTS(f, any_step, call_events);
    TRY_STRUCTS(f, any_step, call_owner_options);
    TRY_STRUCTS(f, owner, call_owner);
}

static void test_structs_of_a_checkpoint(void **state) {
    fixture *f = *state;
    const pawl_checkpoint_info info = {.step = 1};
    const pawl_read_stats reads = {.reads = 1};
    const pawl_entry_info entry = {.name = "weights"};
    const pawl_tensor tensor = tensor_of(f, "more");
    const pawl_slice slice = {.name = "weights", .to = f->weights, .to_bytes = 16};
    const pawl_event event = {.step = 1};
    const pawl_view_info view = {.bytes = 16};
    const pawl_verify_options verify = {.context = f};
    const pawl_verify_result result = {.bytes = 1};
    const pawl_diff_options diff = {.context = f};
    const pawl_diff_result found = {.same = 1};
    const pawl_report_counts counts = {.bytes = 1};
    const pawl_restore_options restore = {.no_fallback = 1};
    const pawl_group group = {.world_size = 1};
    const pawl_rename rename = {.from = "a", .to = "b"};
    TRY_STRUCTS(f, info, call_describe);
    TRY_STRUCTS(f, reads, call_reads);
    TRY_STRUCTS(f, entry, call_find);
    TRY_STRUCTS(f, tensor, call_lend);
    TRY_ELEMENTS(f, slice, call_read_many);
    TRY_STRUCTS(f, entry, call_next_entry);
    TRY_STRUCTS(f, event, call_next_event);
    TRY_STRUCTS(f, view, call_view);
    TRY_STRUCTS(f, verify, call_verify);
    TRY_STRUCTS(f, result, call_verify_result);
    TRY_STRUCTS(f, diff, call_diff);
    TRY_STRUCTS(f, found, call_diff_result);
    TRY_STRUCTS(f, counts, call_totals);
    TRY_STRUCTS(f, restore, call_restore_one);
    TRY_STRUCTS(f, group, call_restore_one_group);
    TRY_ELEMENTS(f, rename, call_restore_one_renames);
}

/* ---- the rest ------------------------------------------------------------------------------- */

static pawl_status call_storage(fixture *f, void *given, size_t size) {
    pawl_storage *storage = NULL;
    (void)f, (void)size;
    return pawl_storage_open("file", given, &storage, NULL);
}

static pawl_status call_storage_settings(fixture *f, void *given, size_t size) {
    const pawl_storage_options options = {.struct_size = sizeof(options),
                                          .settings = given,
                                          .setting_count = 1,
                                          .setting_size = size};
    pawl_storage *storage = NULL;
    (void)f;
    return pawl_storage_open("file", &options, &storage, NULL);
}

static pawl_status call_doctor(fixture *f, void *given, size_t size) {
    (void)size;
    return pawl_doctor(f->path, given, NULL, NULL, NULL, NULL);
}

static pawl_status call_doctor_group(fixture *f, void *given, size_t size) {
    const pawl_doctor_options options = {.struct_size = sizeof(options), .group = given};
    (void)size;
    return pawl_doctor(f->path, &options, NULL, NULL, NULL, NULL);
}

static pawl_status call_discover(fixture *f, void *given, size_t size) {
    static const char *const environment[] = {NULL};
    (void)f, (void)size;
    return pawl_group_discover(environment, given, NULL);
}

static pawl_status call_batch(fixture *f, void *given, size_t size) {
    pawl_batch_check *check = NULL;
    (void)f;
    assert_int_equal(pawl_batch_check_new(&check, NULL), PAWL_OK);
    pawl_status status = pawl_batch_check_next(check, given, 1, size, NULL);
    pawl_batch_check_free(check);
    return status;
}

static pawl_status call_gradients(fixture *f, void *given, size_t size) {
    (void)f;
    return pawl_check_gradients(given, 1, given, 1, size, NULL);
}

static void test_structs_of_other_calls(void **state) {
    fixture *f = *state;
    const pawl_setting setting = {.name = "name", .value = "value"};
    const pawl_storage_options storage = {.settings = &setting};
    const pawl_doctor_options doctor = {.need_bytes = 1};
    const pawl_group group = {.world_size = 1};
    const pawl_group_found found = {.rank = 1};
    const pawl_array array = {
        .name = "x", .dtype = PAWL_F32, .ndim = 1, .shape = shape, .data = f->weights};
    TRY_STRUCTS(f, storage, call_storage);
    TRY_ELEMENTS(f, setting, call_storage_settings);
    TRY_STRUCTS(f, doctor, call_doctor);
    TRY_STRUCTS(f, group, call_doctor_group);
    TRY_STRUCTS(f, found, call_discover);
    TRY_ELEMENTS(f, array, call_batch);
    TRY_ELEMENTS(f, array, call_gradients);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_structs_of_a_state),      TEST(test_structs_of_a_run),
        TEST(test_what_opens_a_checkpoint), TEST(test_structs_of_a_checkpoint),
        TEST(test_structs_of_other_calls),
    };
    return cmocka_run_group_tests_name("sizes", tests, NULL, NULL);
}
