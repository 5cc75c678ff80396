/* SPDX-License-Identifier: Apache-2.0 */
/* From one checkpoint into another through the public calls: bit for bit, or not at all. */
#include "lib/random.h"
#include "unit/store/fixtures.h"

#include <pawl/pawl.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROWS    700
#define COLUMNS 1027 /* 23 MB of doubles */
#define BYTES   ((size_t)ROWS * COLUMNS * sizeof(double))

typedef struct fixture {
    directory dir;
    char from[128], to[128];
    pawl_error *err;
    double *weights;
    uint8_t packed[300];
    float slot[COLUMNS];
    pawl_checkpoint *source;
} fixture;

static void add(fixture *f, pawl_state *state, pawl_tensor tensor) {
    tensor.struct_size = sizeof tensor;
    assert_ok(pawl_state_add_tensor(state, &tensor, f->err), f->err);
}

/* In two boxes, one, a packed one, an empty one, and values. */
static pawl_state *make_state(fixture *f) {
    static const int64_t shape[] = {ROWS, COLUMNS};
    static const int64_t offsets[][2] = {{0, 0}, {0, 500}};
    static const int64_t extents[][2] = {{ROWS, 500}, {ROWS, COLUMNS - 500}};
    static const int64_t strides[] = {COLUMNS * 8, 8};
    static const int64_t packed[] = {20, 30};
    static const int64_t columns[] = {COLUMNS};
    static const int64_t none[] = {0, 7};
    const pawl_box boxes[] = {
        {.offset = offsets[0], .extent = extents[0], .strides = strides, .data = f->weights},
        {.offset = offsets[1], .extent = extents[1], .strides = strides, .data = f->weights + 500}};
    pawl_state *state = NULL;
    assert_ok(pawl_state_new(&state, f->err), f->err);
    add(f, state,
        (pawl_tensor){.name = "in/two/boxes",
                      .dtype = PAWL_F64,
                      .ndim = 2,
                      .shape = shape,
                      .nboxes = 2,
                      .box_size = sizeof boxes[0],
                      .boxes = boxes});
    add(f, state,
        (pawl_tensor){
            .name = "in/one", .dtype = PAWL_F64, .ndim = 2, .shape = shape, .data = f->weights});
    add(f, state,
        (pawl_tensor){
            .name = "packed", .dtype = PAWL_F4, .ndim = 2, .shape = packed, .data = f->packed});
    add(f, state, (pawl_tensor){.name = "empty", .dtype = PAWL_I16, .ndim = 2, .shape = none});
    add(f, state,
        (pawl_tensor){.name = "slots/m",
                      .dtype = PAWL_F32,
                      .ndim = 1,
                      .shape = columns,
                      .data = f->slot,
                      .role = PAWL_ROLE_SLOT,
                      .slot_of = "in/one",
                      .slot = "adam/m"});
    assert_ok(pawl_state_set_int64(state, "step", PAWL_ROLE_STEP, 41, f->err), f->err);
    return state;
}

static pawl_status save(fixture *f, const char *path, pawl_state *state) {
    pawl_run *run = NULL;
    const pawl_run_options options = {.struct_size = sizeof options,
                                      .budget_bytes = (size_t)8 << 20};
    assert_ok(pawl_run_open(path, &options, &run, f->err), f->err);
    pawl_status status = pawl_save(run, state, 1, NULL, f->err);
    status = status == PAWL_OK ? pawl_fence(run, 0, f->err) : status;
    status = status == PAWL_OK ? pawl_wait(run, 0, NULL, f->err) : status;
    pawl_status closed = pawl_run_close(run, 0, NULL);
    return status != PAWL_OK ? status : closed;
}

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof *f);
    test_random random = {.state = 4};
    directory_make(&f->dir);
    (void)snprintf(f->from, sizeof f->from, "%s/from", f->dir.path);
    (void)snprintf(f->to, sizeof f->to, "%s/to", f->dir.path);
    f->err = pawl_error_new();
    f->weights = mem_alloc(BYTES);
    random_fill(&random, f->weights, BYTES);
    random_fill(&random, f->packed, sizeof f->packed);
    random_fill(&random, f->slot, sizeof f->slot);
    pawl_state *made = make_state(f);
    assert_ok(save(f, f->from, made), f->err);
    pawl_state_free(made);
    assert_ok(pawl_checkpoint_open(f->from, NULL, &f->source, f->err), f->err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    pawl_checkpoint_close(f->source);
    pawl_error_free(f->err);
    directory_remove(&f->dir);
    mem_free(f->weights);
    mem_free(f);
    return 0;
}

/* All tensors of the source, and what a value needs. */
static pawl_state *state_of_source(fixture *f) {
    pawl_state *state = NULL;
    pawl_entries *walk = NULL;
    pawl_entry_info info = {.struct_size = sizeof info};
    int more = 1;
    assert_ok(pawl_state_new(&state, f->err), f->err);
    assert_ok(pawl_entries_open(f->source, "", &walk, f->err), f->err);
    for (;;) {
        pawl_tensor tensor = {.struct_size = sizeof tensor};
        assert_ok(pawl_entries_next(walk, &info, &more, f->err), f->err);
        if (!more) {
            break;
        }
        if (info.kind != PAWL_KIND_TENSOR) {
            assert_ok(pawl_state_set_int64(state, info.name, info.role,
                                           *(const int64_t *)info.value, f->err),
                      f->err);
            continue;
        }
        assert_ok(pawl_checkpoint_tensor(f->source, info.name, &tensor, f->err), f->err);
        assert_ok(pawl_state_add_tensor(state, &tensor, f->err), f->err);
    }
    pawl_entries_free(walk);
    return state;
}

static void assert_reads(fixture *f, pawl_checkpoint *c, const char *name, const void *wanted,
                         size_t bytes) {
    AUTOFREE uint8_t *found = mem_alloc(bytes);
    assert_ok(pawl_checkpoint_read(c, name, NULL, NULL, found, bytes, f->err), f->err);
    assert_memory_equal(found, wanted, bytes);
}

static void test_a_checkpoint_is_converted_bit_for_bit(void **state) {
    fixture *f = *state;
    pawl_checkpoint *made = NULL;
    pawl_entry_info info = {.struct_size = sizeof info};
    pawl_state *converted = state_of_source(f);
    assert_ok(save(f, f->to, converted), f->err);
    pawl_state_free(converted);
    assert_ok(pawl_checkpoint_open(f->to, NULL, &made, f->err), f->err);
    assert_reads(f, made, "in/two/boxes", f->weights, BYTES);
    assert_reads(f, made, "in/one", f->weights, BYTES);
    assert_reads(f, made, "packed", f->packed, sizeof f->packed);
    assert_reads(f, made, "slots/m", f->slot, sizeof f->slot);
    assert_reads(f, made, "empty", f->slot, 0);
    assert_ok(pawl_checkpoint_find(made, "slots/m", &info, f->err), f->err);
    assert_int_equal(info.role, PAWL_ROLE_SLOT);
    assert_string_equal(info.slot_of, "in/one");
    assert_string_equal(info.slot, "adam/m");
    assert_ok(pawl_checkpoint_find(made, "step", &info, f->err), f->err);
    assert_int_equal(*(const int64_t *)info.value, 41);
    assert_ok(pawl_checkpoint_verify(made, NULL, NULL, f->err), f->err);
    pawl_checkpoint_close(made);
}

/* The handle belongs to this thread while the save reads through one of its own. */
static void test_the_handle_is_used_while_its_tensors_are_saved(void **state) {
    fixture *f = *state;
    pawl_run *run = NULL;
    pawl_save_stats stats = {.struct_size = sizeof stats};
    pawl_state *converted = state_of_source(f);
    assert_ok(pawl_run_open(f->to, NULL, &run, f->err), f->err);
    for (int64_t step = 1; step <= 3; step++) {
        assert_ok(pawl_save(run, converted, step, NULL, f->err), f->err);
        for (int i = 0; i < 20; i++) {
            assert_reads(f, f->source, "slots/m", f->slot, sizeof f->slot);
        }
        assert_reads(f, f->source, "in/one", f->weights, BYTES);
    }
    assert_ok(pawl_wait(run, 0, &stats, f->err), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    pawl_state_free(converted);
}

static void flip_a_byte(fixture *f) {
    char path[512] = "";
    char folder[256];
    uint8_t byte;
    (void)snprintf(folder, sizeof folder, "%s/step-00000001", f->from);
    DIR *files = opendir(folder);
    assert_non_null(files);
    for (const struct dirent *d = readdir(files); d != NULL; d = readdir(files)) {
        if (strstr(d->d_name, "-00000-of-") != NULL) {
            (void)snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        }
    }
    closedir(files);
    int file = open(path, O_RDWR);
    off_t at = lseek(file, 0, SEEK_END) / 2;
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte ^= 4;
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

static void test_r08_damage_of_the_source_fails_the_save_and_is_named(void **state) {
    fixture *f = *state;
    pawl_catalog *catalog = NULL;
    pawl_state *converted = state_of_source(f);
    flip_a_byte(f);
    assert_fails(save(f, f->to, converted), PAWL_EDAMAGED, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                "saving step 1: copying from the memory \"checkpoint of step 1\": reading bytes ");
    assert_says(pawl_error_get(f->err, PAWL_ERROR_PATH), "/from/step-00000001/data-");
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ENTRY), "in/one");
    assert_says(pawl_error_get(f->err, PAWL_ERROR_FOUND), "CRC32C ");
    pawl_state_free(converted);
    assert_fails(pawl_catalog_open(f->to, NULL, &catalog, f->err), PAWL_ENOTFOUND, f->err);
}

/* How many names there are in the directory where `from` is; hidden ones count. */
static size_t names_beside(const fixture *f) {
    size_t count = 0;
    DIR *listing = opendir(f->dir.path);
    assert_non_null(listing);
    while (readdir(listing) != NULL) {
        count++;
    }
    closedir(listing);
    return count - 2; /* "." and ".." */
}

static void test_r08_damage_of_the_source_leaves_no_new_run(void **state) {
    fixture *f = *state;
    pawl_convert_result result = {.struct_size = sizeof result};
    assert_ok(pawl_convert(f->source, f->to, NULL, &result, f->err), f->err);
    assert_int_equal(names_beside(f), 2);
    directory_delete(f->to);
    flip_a_byte(f);
    assert_fails(pawl_convert(f->source, f->to, NULL, &result, f->err), PAWL_EDAMAGED, f->err);
    assert_int_equal(names_beside(f), 1);
}

static void test_r08_damage_of_the_source_leaves_a_directory_that_was_there(void **state) {
    fixture *f = *state;
    pawl_convert_result result = {.struct_size = sizeof result};
    pawl_catalog *catalog = NULL;
    assert_int_equal(mkdir(f->to, 0777), 0);
    flip_a_byte(f);
    assert_fails(pawl_convert(f->source, f->to, NULL, &result, f->err), PAWL_EDAMAGED, f->err);
    assert_int_equal(names_beside(f), 2);
    assert_fails(pawl_catalog_open(f->to, NULL, &catalog, f->err), PAWL_ENOTFOUND, f->err);
}

static void test_a_new_run_may_be_below_directories_that_are_missing(void **state) {
    fixture *f = *state;
    char to[160];
    pawl_convert_result result = {.struct_size = sizeof result};
    pawl_catalog *catalog = NULL;
    (void)snprintf(to, sizeof to, "%s/7/a//", f->to);
    assert_ok(pawl_convert(f->source, to, NULL, &result, f->err), f->err);
    assert_ok(pawl_catalog_open(to, NULL, &catalog, f->err), f->err);
    assert_int_equal(pawl_catalog_count(catalog), 1);
    pawl_catalog_free(catalog);
}

static void test_nothing_is_restored_into_a_checkpoint(void **state) {
    fixture *f = *state;
    pawl_state *converted = state_of_source(f);
    assert_fails(pawl_checkpoint_restore(f->source, converted, NULL, NULL, f->err), PAWL_EUSAGE,
                 f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), "\"checkpoint of step 1\", can only be "
                                                            "read from");
    pawl_state_free(converted);
}

/* Its directory makes way: before the first tensor is handed out the step is opened once more. */
static void test_a_step_that_is_not_there_any_more_is_not_converted(void **state) {
    fixture *f = *state;
    char step[160];
    char away[160];
    pawl_tensor tensor = {.struct_size = sizeof tensor};
    (void)snprintf(step, sizeof step, "%s/step-00000001", f->from);
    (void)snprintf(away, sizeof away, "%s/away", f->dir.path);
    assert_int_equal(rename(step, away), 0);
    assert_fails(pawl_checkpoint_tensor(f->source, "in/one", &tensor, f->err), PAWL_EBUSY, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), "step 1 was removed while it was open");
    pawl_state *made = make_state(f);
    assert_ok(save(f, f->to, made), f->err);
    pawl_state_free(made);
    char other[160];
    (void)snprintf(other, sizeof other, "%s/step-00000001", f->to);
    assert_int_equal(rename(other, step), 0);
    assert_fails(pawl_checkpoint_tensor(f->source, "in/one", &tensor, f->err), PAWL_EBUSY, f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                "step 1 was saved again while it was open");
}

static void test_what_is_no_tensor_is_refused(void **state) {
    fixture *f = *state;
    pawl_tensor tensor = {.struct_size = sizeof tensor};
    assert_fails(pawl_checkpoint_tensor(f->source, "step", &tensor, f->err), PAWL_EUSAGE, f->err);
    assert_fails(pawl_checkpoint_tensor(f->source, "in/on", &tensor, f->err), PAWL_ENOTFOUND,
                 f->err);
    assert_says(pawl_error_get(f->err, PAWL_ERROR_NEXT), "in/one");
    tensor.struct_size = 0;
    assert_fails(pawl_checkpoint_tensor(f->source, "in/one", &tensor, f->err), PAWL_EUSAGE, f->err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        T(test_a_checkpoint_is_converted_bit_for_bit),
        T(test_the_handle_is_used_while_its_tensors_are_saved),
        T(test_r08_damage_of_the_source_fails_the_save_and_is_named),
        T(test_r08_damage_of_the_source_leaves_no_new_run),
        T(test_r08_damage_of_the_source_leaves_a_directory_that_was_there),
        T(test_a_new_run_may_be_below_directories_that_are_missing),
        T(test_nothing_is_restored_into_a_checkpoint),
        T(test_a_step_that_is_not_there_any_more_is_not_converted),
        T(test_what_is_no_tensor_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
