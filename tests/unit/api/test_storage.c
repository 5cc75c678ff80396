/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_storage: the public calls on a storage that is not the local filesystem, and how long such a
 * handle lives. */
#include "lib/test.h"
#include "path/path.h"
#include "stores/stores.h"

#include <pawl/pawl.h>

#include <errno.h>
#include <string.h>

/* One directory in memory, whatever it is called; it can be made to fail. */
typedef struct memory_place {
    store *disk, *fault;
    int opened, destroyed;
} memory_place;

static pawl_status open_memory(void *context, const char *given, bool create, store **out,
                               pawl_error *err) {
    memory_place *m = context;
    (void)given;
    (void)create;
    m->opened++;
    return store_trace_wrap(m->fault, platform_system(), NULL, NULL, out, err);
}

static void destroy_memory(void *context) {
    memory_place *m = context;
    m->destroyed++;
}

static const storage_ops memory_ops = {.open = open_memory, .destroy = destroy_memory};

typedef struct fixture {
    memory_place place;
    pawl_storage *storage;
    pawl_state *state;
    pawl_error *err;
    float weights[64];
} fixture;

static int set_up(void **state) {
    static const int64_t shape[] = {64};
    fixture *f = mem_calloc(1, sizeof(*f));
    f->err = pawl_error_new();
    assert_ok(store_mem(&f->place.disk, f->err), f->err);
    assert_ok(store_fault_wrap(f->place.disk, platform_system(), &f->place.fault, f->err), f->err);
    assert_ok(storage_new(&memory_ops, &f->place, &f->storage, f->err), f->err);
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "weights",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = f->weights};
    assert_ok(pawl_state_new(&f->state, f->err), f->err);
    assert_ok(pawl_state_add_tensor(f->state, &tensor, f->err), f->err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    pawl_storage_close(f->storage);
    pawl_state_free(f->state);
    pawl_error_free(f->err);
    store_destroy(f->place.fault);
    store_destroy(f->place.disk);
    mem_free(f);
    return 0;
}

/* Saves `step`, every weight of which is the step's number. */
static void save(fixture *f, int64_t step) {
    const pawl_run_options options = {.struct_size = sizeof(options), .storage = f->storage};
    pawl_run *run = NULL;
    for (size_t i = 0; i < 64; i++) {
        f->weights[i] = (float)step;
    }
    assert_ok(pawl_run_open("job/run", &options, &run, f->err), f->err);
    assert_ok(pawl_save(run, f->state, step, NULL, f->err), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
}

static void test_a_run_elsewhere_is_listed_read_and_restored(void **state) {
    fixture *f = *state;
    const int64_t first = 1;
    pawl_open_options options = {.struct_size = sizeof(options), .storage = f->storage};
    pawl_catalog *catalog = NULL;
    pawl_checkpoint *checkpoint = NULL;
    float one = 0;
    const int64_t at[] = {3};
    const int64_t single[] = {1};
    save(f, 1);
    save(f, 2);
    assert_ok(pawl_catalog_open("job/run", &options, &catalog, f->err), f->err);
    assert_int_equal(pawl_catalog_count(catalog), 2);
    assert_int_equal(pawl_catalog_get(catalog, 1)->step, 2);
    assert_int_equal(pawl_catalog_get(catalog, 1)->struct_size, sizeof(pawl_step_info));
    pawl_catalog_free(catalog);
    assert_ok(pawl_checkpoint_open("job/run", &options, &checkpoint, f->err), f->err);
    assert_ok(pawl_checkpoint_read(checkpoint, "weights", at, single, &one, sizeof(one), f->err),
              f->err);
    assert_true(one == 2);
    assert_ok(pawl_checkpoint_verify(checkpoint, NULL, NULL, f->err), f->err);
    pawl_checkpoint_close(checkpoint);
    options.step = &first;
    assert_ok(pawl_checkpoint_open("job/run", &options, &checkpoint, f->err), f->err);
    assert_ok(pawl_checkpoint_restore(checkpoint, f->state, NULL, NULL, f->err), f->err);
    assert_true(f->weights[0] == 1 && f->weights[63] == 1);
    pawl_checkpoint_close(checkpoint);
}

static void test_its_owner_and_events_are_read(void **state) {
    fixture *f = *state;
    const pawl_open_options options = {.struct_size = sizeof(options), .storage = f->storage};
    pawl_owner_info owner = {.struct_size = sizeof(owner)};
    pawl_event event = {.struct_size = sizeof(event)};
    pawl_events *events = NULL;
    int more = 0;
    save(f, 7);
    assert_ok(pawl_owner_look("job/run", &options, &owner, f->err), f->err);
    assert_int_equal(owner.state, PAWL_OWNER_NONE);
    assert_ok(pawl_events_open("job/run", &options, &events, f->err), f->err);
    assert_ok(pawl_events_next(events, &event, &more, f->err), f->err);
    assert_int_equal(more, 1);
    assert_int_equal(event.step, 7);
    pawl_events_close(events);
}

static void find_worst(void *context, const pawl_finding *finding) {
    assert_int_equal(finding->struct_size, sizeof(*finding));
    *(int *)context += strcmp(finding->id, "ok") == 0;
}

static void test_the_doctor_looks_where_the_run_would_be(void **state) {
    fixture *f = *state;
    const pawl_group two = {.struct_size = sizeof(two), .world_size = 2, .launch = "a"};
    pawl_doctor_options options = {.struct_size = sizeof(options), .storage = f->storage};
    pawl_severity worst = PAWL_SEVERITY_ERROR;
    int fine = 0;
    assert_ok(pawl_doctor("job/run", &options, find_worst, &fine, &worst, f->err), f->err);
    assert_true(worst < PAWL_SEVERITY_ERROR);
    assert_true(fine > 0);
    assert_int_equal(f->place.opened, 1);
    options.group = &two;
    assert_fails(pawl_doctor("job/run", &options, NULL, NULL, NULL, f->err), PAWL_EUNSUPPORTED,
                 f->err);
}

/* A step that is given where none is opened is refused, and so is one that there cannot be. */
static void test_a_step_is_given_where_one_is_opened(void **state) {
    fixture *f = *state;
    const int64_t step = 1;
    const int64_t negative = -1;
    pawl_open_options options = {
        .struct_size = sizeof(options), .storage = f->storage, .step = &step};
    pawl_catalog *catalog = NULL;
    pawl_events *events = NULL;
    pawl_checkpoint *checkpoint = NULL;
    pawl_owner_info owner = {.struct_size = sizeof(owner)};
    save(f, 1);
    assert_fails(pawl_catalog_open("job/run", &options, &catalog, f->err), PAWL_EUSAGE, f->err);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                        "pawl_catalog_open: options.step has no meaning here");
    assert_fails(pawl_events_open("job/run", &options, &events, f->err), PAWL_EUSAGE, f->err);
    assert_fails(pawl_owner_look("job/run", &options, &owner, f->err), PAWL_EUSAGE, f->err);
    options.step = &negative;
    assert_fails(pawl_checkpoint_open("job/run", &options, &checkpoint, f->err), PAWL_EUSAGE,
                 f->err);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                        "pawl_checkpoint_open: options.step is negative");
    assert_null(checkpoint);
}

static void test_a_storage_closed_in_use_lives_as_long_as_it_is_used(void **state) {
    fixture *f = *state;
    const pawl_open_options options = {.struct_size = sizeof(options), .storage = f->storage};
    pawl_checkpoint *checkpoint = NULL;
    save(f, 1);
    assert_ok(pawl_checkpoint_open("job/run", &options, &checkpoint, f->err), f->err);
    pawl_storage_close(f->storage);
    f->storage = NULL;
    assert_int_equal(f->place.destroyed, 0);
    assert_ok(pawl_checkpoint_verify(checkpoint, NULL, NULL, f->err), f->err);
    pawl_checkpoint_close(checkpoint);
    assert_int_equal(f->place.destroyed, 1);
}

static void test_what_fails_there_is_told(void **state) {
    fixture *f = *state;
    const pawl_open_options options = {.struct_size = sizeof(options), .storage = f->storage};
    const store_fault broken = {
        .op = STORE_OP_LIST, .nth = 1, .system_errno = EIO, .forever = true};
    pawl_catalog *catalog = NULL;
    save(f, 1);
    store_fault_set(f->place.fault, &broken);
    assert_fails(pawl_catalog_open("job/run", &options, &catalog, f->err), PAWL_EIO, f->err);
    store_fault_set(f->place.fault, &(store_fault){0});
}

/* ---- the kinds that there are --------------------------------------------------------------- */

static void test_a_file_storage_is_the_local_filesystem(void **state) {
    fixture *f = *state;
    static const char *const kinds[] = {NULL, "file"};
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        pawl_storage *local = NULL;
        pawl_catalog *catalog = NULL;
        assert_ok(pawl_storage_open(kinds[i], NULL, &local, f->err), f->err);
        const pawl_open_options options = {.struct_size = sizeof(options), .storage = local};
        assert_fails(pawl_catalog_open("/nowhere/at/all", &options, &catalog, f->err),
                     PAWL_ENOTFOUND, f->err);
        assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_PATH), "/nowhere/at/all");
        pawl_storage_close(local);
    }
}

static void test_another_kind_is_refused_with_those_that_there_are(void **state) {
    fixture *f = *state;
    pawl_storage *other = (pawl_storage *)f;
    assert_fails(pawl_storage_open("s3", NULL, &other, f->err), PAWL_EUNSUPPORTED, f->err);
    assert_null(other);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                        "pawl_storage_open: this library has no storage of the kind \"s3\"");
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_EXPECTED),
                        "\"file\", the local filesystem");
    assert_fails(pawl_storage_open("file", NULL, NULL, f->err), PAWL_EUSAGE, f->err);
}

static void test_an_unknown_setting_is_named_and_its_value_is_not(void **state) {
    fixture *f = *state;
    const pawl_setting settings[] = {{"secret_key", "hunter2"}, {NULL, NULL}};
    pawl_storage_options options = {.struct_size = sizeof(options),
                                    .settings = settings,
                                    .setting_count = 1,
                                    .setting_size = sizeof(pawl_setting)};
    pawl_storage *other = NULL;
    assert_fails(pawl_storage_open("file", &options, &other, f->err), PAWL_EUSAGE, f->err);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                        "pawl_storage_open: \"file\" does not know the setting \"secret_key\"");
    assert_null(strstr(pawl_error_text(f->err), "hunter2"));
    options.settings = &settings[1];
    assert_fails(pawl_storage_open("file", &options, &other, f->err), PAWL_EUSAGE, f->err);
    options.setting_size = 0;
    assert_fails(pawl_storage_open("file", &options, &other, f->err), PAWL_EUSAGE, f->err);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                        "pawl_storage_open: setting_size is not set");
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_run_elsewhere_is_listed_read_and_restored),
        TEST(test_its_owner_and_events_are_read),
        TEST(test_the_doctor_looks_where_the_run_would_be),
        TEST(test_a_step_is_given_where_one_is_opened),
        TEST(test_a_storage_closed_in_use_lives_as_long_as_it_is_used),
        TEST(test_what_fails_there_is_told),
        TEST(test_a_file_storage_is_the_local_filesystem),
        TEST(test_another_kind_is_refused_with_those_that_there_are),
        TEST(test_an_unknown_setting_is_named_and_its_value_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
