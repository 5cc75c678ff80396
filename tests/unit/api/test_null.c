/* SPDX-License-Identifier: Apache-2.0 */
/* Null pointers and structs of other sizes: a word about it from every call, a crash from none. */
#include "lib/at_step.h"
#include "unit/store/fixtures.h"

#include <pawl/pawl.h>

#include <sys/wait.h>
#include <unistd.h>

typedef struct fixture {
    directory dir;
    char path[128];
    pawl_state *state;
    pawl_run *run;
    pawl_checkpoint *checkpoint;
    pawl_entries *entries;
    float weights[4];
} fixture;

static const int64_t shape[] = {4};

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
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    pawl_entries_free(f->entries);
    pawl_checkpoint_close(f->checkpoint);
    (void)pawl_run_close(f->run, 0, NULL);
    pawl_state_free(f->state);
    directory_remove(&f->dir);
    mem_free(f);
    return 0;
}

#define assert_usage(call) assert_int_equal(call, PAWL_EUSAGE)

static void test_a_run_of_nothing(void **state) {
    fixture *f = *state;
    pawl_run *run;
    assert_usage(pawl_run_open(NULL, NULL, &run, NULL));
    assert_usage(pawl_run_open(f->path, NULL, NULL, NULL));
    assert_usage(pawl_save(NULL, f->state, 2, NULL, NULL));
    assert_usage(pawl_save(f->run, NULL, 2, NULL, NULL));
    assert_usage(pawl_save_final(NULL, f->state, 2, NULL, 1, NULL));
    assert_usage(pawl_save_final(f->run, NULL, 2, NULL, 1, NULL));
    assert_usage(pawl_fence(NULL, 0, NULL));
    assert_usage(pawl_wait(NULL, 0, NULL, NULL));
    assert_usage(pawl_cancel(NULL, 0, NULL));
    assert_usage(pawl_restore(NULL, f->state, NULL, NULL, NULL));
    assert_usage(pawl_restore(f->run, NULL, NULL, NULL, NULL));
    assert_usage(pawl_run_pin(NULL, 1, 1, NULL));
    assert_usage(pawl_run_remove(NULL, 1, 0, NULL));
    assert_usage(pawl_run_gc(NULL, 0, NULL, NULL, NULL));
    assert_usage(pawl_preemption_watch(NULL, 1, NULL));
    assert_int_equal(pawl_run_close(NULL, 0, NULL), PAWL_OK);
    assert_int_equal(pawl_due(NULL, 1), 0);
    assert_int_equal(pawl_fenced(NULL), 0);
    const char *const names[] = {"a", NULL};
    uint8_t fenced[2] = {1, 1};
    pawl_fenced_tensors(NULL, names, 1, fenced);
    assert_int_equal(fenced[0], 0);
    pawl_fenced_tensors(f->run, NULL, 0, NULL);
    pawl_fenced_tensors(f->run, names, 2, fenced);
    assert_int_equal(fenced[1], 0);
    pawl_fenced_tensors(f->run, names, 1, fenced);
    assert_int_equal(fenced[0], 1);
}

static void test_a_checkpoint_of_nothing(void **state) {
    fixture *f = *state;
    pawl_checkpoint *c = f->checkpoint;
    pawl_entry_info info = {.struct_size = sizeof info};
    pawl_entries *entries;
    pawl_view *view;
    const void *bytes;
    size_t size;
    int more;
    pawl_diff_result found = {.struct_size = sizeof found};
    assert_usage(pawl_checkpoint_open(NULL, AT_STEP(1), &c, NULL));
    assert_usage(pawl_checkpoint_open(f->path, AT_STEP(1), NULL, NULL));
    assert_usage(pawl_catalog_open(NULL, NULL, NULL, NULL));
    assert_usage(pawl_catalog_open(f->path, NULL, NULL, NULL));
    assert_usage(pawl_checkpoint_find(NULL, "weights", &info, NULL));
    assert_usage(pawl_checkpoint_find(f->checkpoint, NULL, &info, NULL));
    assert_usage(pawl_checkpoint_find(f->checkpoint, "weights", NULL, NULL));
    assert_usage(pawl_checkpoint_read(NULL, "weights", NULL, NULL, f->weights, 16, NULL));
    assert_usage(pawl_checkpoint_read(f->checkpoint, NULL, NULL, NULL, f->weights, 16, NULL));
    assert_usage(pawl_checkpoint_read(f->checkpoint, "weights", NULL, NULL, NULL, 16, NULL));
    assert_usage(pawl_checkpoint_read(f->checkpoint, "weights", shape, NULL, f->weights, 16, NULL));
    assert_usage(pawl_checkpoint_read_rank(NULL, "weights", 0, &more, 4, &size, NULL));
    assert_usage(pawl_checkpoint_read_rank(f->checkpoint, "weights", 0, &more, 4, NULL, NULL));
    pawl_slice slice = {.name = "weights", .to = f->weights, .to_bytes = 16};
    const size_t size_of_slice = sizeof slice;
    assert_usage(pawl_checkpoint_read_many(NULL, &slice, size_of_slice, 1, NULL));
    assert_usage(pawl_checkpoint_read_many(f->checkpoint, NULL, size_of_slice, 1, NULL));
    slice.to = NULL;
    assert_usage(pawl_checkpoint_read_many(f->checkpoint, &slice, size_of_slice, 1, NULL));
    slice.name = NULL;
    assert_usage(pawl_checkpoint_read_many(f->checkpoint, &slice, size_of_slice, 1, NULL));
    assert_int_equal(pawl_checkpoint_read_many(f->checkpoint, NULL, 0, 0, NULL), PAWL_OK);
    pawl_tensor tensor = {.struct_size = sizeof tensor};
    assert_usage(pawl_checkpoint_tensor(NULL, "weights", &tensor, NULL));
    assert_usage(pawl_checkpoint_tensor(f->checkpoint, NULL, &tensor, NULL));
    assert_usage(pawl_checkpoint_tensor(f->checkpoint, "weights", NULL, NULL));
    assert_usage(pawl_checkpoint_restore(NULL, f->state, NULL, NULL, NULL));
    assert_usage(pawl_checkpoint_restore(f->checkpoint, NULL, NULL, NULL, NULL));
    assert_usage(pawl_checkpoint_verify(NULL, NULL, NULL, NULL));
    assert_usage(pawl_checkpoint_diff(NULL, f->checkpoint, NULL, &found, NULL));
    assert_usage(pawl_checkpoint_diff(f->checkpoint, NULL, NULL, &found, NULL));
    assert_usage(pawl_checkpoint_diff(f->checkpoint, f->checkpoint, NULL, NULL, NULL));
    assert_usage(pawl_entries_open(NULL, "", &entries, NULL));
    assert_usage(pawl_entries_open(f->checkpoint, NULL, &entries, NULL));
    assert_usage(pawl_entries_open(f->checkpoint, "", NULL, NULL));
    assert_usage(pawl_entries_next(NULL, &info, &more, NULL));
    assert_usage(pawl_entries_next(f->entries, NULL, &more, NULL));
    assert_usage(pawl_entries_next(f->entries, &info, NULL, NULL));
    assert_usage(pawl_view_open(NULL, "weights", 0, &view, NULL));
    assert_usage(pawl_view_open(f->checkpoint, NULL, 0, &view, NULL));
    assert_usage(pawl_view_open(f->checkpoint, "weights", 0, NULL, NULL));
    assert_usage(pawl_view_bytes(NULL, 0, 1, &bytes, NULL));
    assert_int_equal(pawl_view_open(f->checkpoint, "weights", 0, &view, NULL), PAWL_OK);
    assert_usage(pawl_view_bytes(view, 0, 1, NULL, NULL));
    assert_usage(pawl_view_describe(view, NULL, NULL));
    assert_usage(pawl_checkpoint_describe(f->checkpoint, NULL, NULL));
    assert_usage(pawl_checkpoint_reads(f->checkpoint, NULL, NULL));
    pawl_view_close(view);
    assert_usage(pawl_doctor(NULL, NULL, NULL, NULL, NULL, NULL));
}

/* What tells without a status tells that there is nothing; freeing nothing is fine. */
static void test_asking_nothing(void **state) {
    (void)state;
    pawl_checkpoint_info info = {.struct_size = sizeof info};
    pawl_read_stats reads = {.struct_size = sizeof reads};
    pawl_report_counts counts = {.struct_size = sizeof counts};
    pawl_view_info nothing = {.struct_size = sizeof nothing};
    pawl_catalog_free(NULL);
    pawl_checkpoint_close(NULL);
    pawl_entries_free(NULL);
    pawl_view_close(NULL);
    pawl_storage_close(NULL);
    assert_usage(pawl_view_describe(NULL, &nothing, NULL));
    pawl_report_free(NULL);
    pawl_state_free(NULL);
    pawl_error_free(NULL);
    assert_usage(pawl_checkpoint_describe(NULL, &info, NULL));
    assert_usage(pawl_checkpoint_reads(NULL, &reads, NULL));
    assert_int_equal(pawl_catalog_count(NULL), 0);
    assert_null(pawl_catalog_get(NULL, 0));
    assert_int_equal(pawl_report_count(NULL), 0);
    assert_null(pawl_report_get(NULL, 0));
    assert_int_equal(pawl_report_step(NULL), -1);
    assert_usage(pawl_report_totals(NULL, &counts, NULL));
    assert_string_equal(pawl_report_text(NULL), "");
    assert_string_equal(pawl_report_json(NULL), "");
    assert_int_equal(pawl_state_count(NULL), 0);
}

static void test_a_state_of_nothing(void **state) {
    fixture *f = *state;
    const void *bytes;
    const char *text;
    size_t size;
    int64_t number;
    assert_usage(pawl_state_new(NULL, NULL));
    assert_usage(pawl_state_add_tensor(NULL, NULL, NULL));
    assert_usage(pawl_state_add_tensor(f->state, NULL, NULL));
    assert_usage(pawl_state_add_tensors(NULL, NULL, 0, NULL));
    assert_usage(pawl_state_add_tensors(f->state, NULL, 1, NULL));
    assert_usage(pawl_state_update_tensors(NULL, NULL, 0, NULL));
    assert_usage(pawl_state_update_tensors(f->state, NULL, 1, NULL));
    assert_usage(pawl_state_set_int64(NULL, "n", PAWL_ROLE_OTHER, 1, NULL));
    assert_usage(pawl_state_set_int64(f->state, NULL, PAWL_ROLE_OTHER, 1, NULL));
    assert_usage(pawl_state_set_string(f->state, "n", PAWL_ROLE_OTHER, NULL, NULL));
    assert_usage(pawl_state_set_bytes(f->state, "n", PAWL_ROLE_OTHER, NULL, 1, NULL));
    assert_usage(pawl_state_set_rank_bytes(f->state, "n", PAWL_ROLE_OTHER, NULL, 1, NULL));
    assert_usage(pawl_state_set_json(f->state, "n", PAWL_ROLE_OTHER, NULL, NULL));
    assert_usage(pawl_state_get_int64(NULL, "n", &number, NULL));
    assert_usage(pawl_state_get_int64(f->state, "n", NULL, NULL));
    assert_usage(pawl_state_get_string(f->state, NULL, &text, NULL));
    assert_usage(pawl_state_get_bytes(f->state, "n", NULL, &size, NULL));
    assert_usage(pawl_state_get_bytes(f->state, "n", &bytes, NULL, NULL));
    assert_usage(pawl_state_remove(NULL, "n", NULL));
    assert_usage(pawl_state_remove(f->state, NULL, NULL));
}

static void test_counts_of_nothing(void **state) {
    fixture *f = *state;
    const pawl_save_options metrics = {
        .struct_size = sizeof(metrics), .metric_count = 1, .metric_size = sizeof(pawl_metric)};
    const pawl_restore_options renames = {
        .struct_size = sizeof(renames), .rename_count = 1, .rename_size = sizeof(pawl_rename)};
    pawl_tensor boxes = tensor_of(f, "more");
    boxes.nboxes = 1;
    assert_usage(pawl_save(f->run, f->state, 2, &metrics, NULL));
    assert_usage(pawl_restore(f->run, f->state, &renames, NULL, NULL));
    assert_usage(pawl_checkpoint_restore(f->checkpoint, f->state, &renames, NULL, NULL));
    assert_usage(pawl_state_add_tensor(f->state, &boxes, NULL));
}

static void test_structs_of_other_sizes(void **state) {
    fixture *f = *state;
    struct {
        pawl_save_options options;
        char newer[64];
    } larger = {.options = {.struct_size = sizeof(larger)}};
    pawl_save_options smaller = {.struct_size = offsetof(pawl_save_options, pin), .pin = 77};
    pawl_save_options without = {.struct_size = 0};
    assert_usage(pawl_save(f->run, f->state, 2, &without, NULL));
    assert_int_equal(pawl_save(f->run, f->state, 2, &larger.options, NULL), PAWL_OK);
    larger.newer[3] = 1;
    assert_int_equal(pawl_save(f->run, f->state, 3, &larger.options, NULL), PAWL_EUNSUPPORTED);
    assert_int_equal(pawl_save(f->run, f->state, 3, &smaller, NULL), PAWL_OK);
    assert_int_equal(pawl_wait(f->run, 0, NULL, NULL), PAWL_OK);
    pawl_catalog *catalog;
    assert_int_equal(pawl_catalog_open(f->path, NULL, &catalog, NULL), PAWL_OK);
    assert_int_equal(pawl_catalog_count(catalog), 3);
    assert_int_equal(pawl_catalog_get(catalog, 2)->pinned, 0); /* beyond the smaller struct */
    pawl_catalog_free(catalog);
}

/* Zero is PAWL_OK: a status that is not set would say that the slice was read. */
static void test_every_slice_of_a_refused_call_has_its_status(void **state) {
    fixture *f = *state;
    float to[3][4];
    for (int bad = 0; bad < 2; bad++) {
        pawl_slice slices[3] = {{.name = "weights", .to = to[0], .to_bytes = 16},
                                {.name = "weights", .to = to[1], .to_bytes = 16},
                                {.name = "weights", .to = to[2], .to_bytes = 16}};
        assert_usage(pawl_checkpoint_read_many(NULL, slices, sizeof slices[0], 3, NULL));
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(slices[i].status, PAWL_ECANCELED);
            slices[i].status = PAWL_OK;
        }
        slices[1].name = bad == 0 ? NULL : "weights";
        slices[1].to = bad == 0 ? to[1] : NULL;
        assert_usage(pawl_checkpoint_read_many(f->checkpoint, slices, sizeof slices[0], 3, NULL));
        assert_int_equal(slices[0].status, PAWL_ECANCELED);
        assert_int_equal(slices[1].status, PAWL_EUSAGE);
        assert_int_equal(slices[2].status, PAWL_ECANCELED);
    }
}

static void test_every_slice_of_a_call_in_a_child_has_its_status(void **state) {
    fixture *f = *state;
    float to[4];
    int ended = 0;
    pid_t child = fork();
    if (child == 0) {
        pawl_slice slice = {.name = "weights", .to = to, .to_bytes = 16};
        pawl_status status =
            pawl_checkpoint_read_many(f->checkpoint, &slice, sizeof slice, 1, NULL);
        _exit(status == PAWL_EUSAGE && slice.status == PAWL_ECANCELED ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
}

/* An array of slices of a newer pawl: read, unless what is new is set. */
static void test_slices_of_other_sizes(void **state) {
    fixture *f = *state;
    float to[2][4];
    struct {
        pawl_slice slice;
        uint64_t newer;
    } two[2] = {{.slice = {.name = "weights", .to = to[0], .to_bytes = 16}},
                {.slice = {.name = "weights", .to = to[1], .to_bytes = 16}}};
    static const size_t wrong[] = {0, 8, sizeof(pawl_slice) - 8, sizeof(pawl_slice) + 1, 65544};
    assert_int_equal(
        pawl_checkpoint_read_many(f->checkpoint, &two[0].slice, sizeof two[0], 2, NULL), PAWL_OK);
    assert_memory_equal(to[1], f->weights, 16);
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        assert_usage(pawl_checkpoint_read_many(f->checkpoint, &two[0].slice, wrong[i], 1, NULL));
    }
    assert_usage(pawl_checkpoint_read_many(f->checkpoint, &two[0].slice, sizeof two[0],
                                           SIZE_MAX / sizeof two[0] + 2, NULL));
    two[1].newer = 1;
    assert_int_equal(
        pawl_checkpoint_read_many(f->checkpoint, &two[0].slice, sizeof two[0], 2, NULL),
        PAWL_EUNSUPPORTED);
    assert_int_equal(two[0].slice.status, PAWL_ECANCELED);
    assert_int_equal(two[1].slice.status, PAWL_EUNSUPPORTED);
}

/* The run's group counts; a checkpoint that is restored alone needs none. */
static void test_the_group_of_a_restore(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_group group = {.struct_size = sizeof group, .world_size = 1};
    pawl_restore_options options = {.struct_size = sizeof options, .group = &group};
    assert_fails(pawl_restore(f->run, f->state, &options, NULL, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "pawl_restore: the options have a group of their own");
    assert_ok(pawl_checkpoint_restore(f->checkpoint, f->state, &options, NULL, &err), &err);
    options.group_deadline_s = -1;
    assert_fails(pawl_checkpoint_restore(f->checkpoint, f->state, &options, NULL, &err),
                 PAWL_EUSAGE, &err);
    options.group = NULL; /* the deadline is wrong all the same */
    assert_fails(pawl_checkpoint_restore(f->checkpoint, f->state, &options, NULL, &err),
                 PAWL_EUSAGE, &err);
    assert_string_equal(err.found, "-1");
    options.group_deadline_s = 1;
    assert_fails(pawl_restore(f->run, f->state, &options, NULL, &err), PAWL_EUSAGE, &err);
    assert_ok(pawl_checkpoint_restore(f->checkpoint, f->state, &options, NULL, &err), &err);
    options.group = &group;
    group.world_size = 3; /* neither callbacks nor a launch */
    assert_fails(pawl_checkpoint_restore(f->checkpoint, f->state, &options, NULL, &err),
                 PAWL_EUSAGE, &err);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_run_of_nothing),
        TEST(test_a_checkpoint_of_nothing),
        TEST(test_asking_nothing),
        TEST(test_a_state_of_nothing),
        TEST(test_counts_of_nothing),
        TEST(test_structs_of_other_sizes),
        TEST(test_every_slice_of_a_refused_call_has_its_status),
        TEST(test_every_slice_of_a_call_in_a_child_has_its_status),
        TEST(test_slices_of_other_sizes),
        TEST(test_the_group_of_a_restore),
    };
    return cmocka_run_group_tests_name("null", tests, NULL, NULL);
}
