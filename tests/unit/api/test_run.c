/* SPDX-License-Identifier: Apache-2.0 */
/* A run in a real directory, through the public calls alone: as a trainer and a reader use it. */
#include "lib/at_step.h"
#include "unit/store/fixtures.h"

#include <pawl/pawl.h>

#include <math.h>

typedef struct fixture {
    directory dir;
    char path[128];
    char text[256];
    pawl_state *state;
    pawl_run *run;
    pawl_error *err;
    float weights[32][256];
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    static const int64_t shape[] = {32, 256};
    directory_make(&f->dir);
    (void)snprintf(f->path, sizeof(f->path), "%s/run", f->dir.path);
    f->err = pawl_error_new();
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "weights",
                                .dtype = PAWL_F32,
                                .ndim = 2,
                                .shape = shape,
                                .data = f->weights};
    assert_ok(pawl_state_new(&f->state, f->err), f->err);
    assert_ok(pawl_state_add_tensor(f->state, &tensor, f->err), f->err);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    (void)pawl_run_close(f->run, 0, NULL);
    pawl_state_free(f->state);
    pawl_error_free(f->err);
    directory_remove(&f->dir);
    mem_free(f);
    return 0;
}

static void fill(fixture *f, int64_t step) {
    for (size_t i = 0; i < 32 * 256; i++) {
        f->weights[i / 256][i % 256] = (float)step + (float)i;
    }
    assert_ok(pawl_state_set_int64(f->state, "step", PAWL_ROLE_STEP, step, f->err), f->err);
}

static void open_run(fixture *f) {
    assert_ok(pawl_run_open(f->path, NULL, &f->run, f->err), f->err);
}

static void save(fixture *f, int64_t step) {
    pawl_save_stats stats = {.struct_size = sizeof stats};
    fill(f, step);
    assert_ok(pawl_save(f->run, f->state, step, NULL, f->err), f->err);
    assert_ok(pawl_fence(f->run, 0, f->err), f->err);
    assert_int_equal(pawl_fenced(f->run), 1);
    memset(f->weights, 0, sizeof(f->weights));
    assert_ok(pawl_wait(f->run, 0, &stats, f->err), f->err);
    assert_int_equal(stats.step, step);
    assert_true(stats.bytes >= sizeof(f->weights));
}

static void assert_weights(const fixture *f, int64_t step) {
    int64_t restored = 0;
    assert_int_equal(pawl_state_get_int64(f->state, "step", &restored, NULL), PAWL_OK);
    assert_int_equal(restored, step);
    for (size_t i = 0; i < 32 * 256; i++) {
        assert_true(f->weights[i / 256][i % 256] == (float)step + (float)i);
    }
}

static void test_a_trainer_saves_and_restores(void **state) {
    fixture *f = *state;
    pawl_report *report = NULL;
    open_run(f);
    save(f, 1);
    save(f, 2);
    assert_ok(pawl_run_close(f->run, 0, f->err), f->err);
    f->run = NULL;
    open_run(f);
    fill(f, 99);
    assert_ok(pawl_restore(f->run, f->state, NULL, &report, f->err), f->err);
    assert_weights(f, 2);
    assert_int_equal(pawl_report_step(report), 2);
    pawl_report_free(report);
}

static void test_a_reader_needs_no_run(void **state) {
    fixture *f = *state;
    pawl_catalog *catalog = NULL;
    pawl_checkpoint *checkpoint = NULL;
    pawl_entries *entries = NULL;
    pawl_entry_info info = {.struct_size = sizeof info};
    pawl_verify_result result = {.struct_size = sizeof result};
    const int64_t offset[] = {3, 5};
    const int64_t extent[] = {1, 2};
    float slice[2];
    int more = 0;
    open_run(f);
    save(f, 1);
    save(f, 2);
    assert_ok(pawl_catalog_open(f->path, NULL, &catalog, f->err), f->err);
    assert_int_equal(pawl_catalog_count(catalog), 2);
    pawl_catalog_free(catalog);
    assert_ok(pawl_checkpoint_open(f->path, NULL, &checkpoint, f->err), f->err);
    assert_ok(pawl_checkpoint_find(checkpoint, "step", &info, f->err), f->err);
    assert_int_equal(*(const int64_t *)info.value, 2);
    assert_ok(
        pawl_checkpoint_read(checkpoint, "weights", offset, extent, slice, sizeof(slice), f->err),
        f->err);
    assert_true(slice[1] == 2.0F + 3 * 256 + 6);
    assert_ok(pawl_entries_open(checkpoint, "w", &entries, f->err), f->err);
    assert_ok(pawl_entries_next(entries, &info, &more, f->err), f->err);
    assert_int_equal(more, 1);
    assert_string_equal(info.name, "weights");
    pawl_entries_free(entries);
    assert_ok(pawl_checkpoint_verify(checkpoint, NULL, &result, f->err), f->err);
    assert_ok(pawl_checkpoint_verify(checkpoint, NULL, NULL, f->err), f->err);
    fill(f, 99);
    assert_ok(pawl_checkpoint_restore(checkpoint, f->state, NULL, NULL, f->err), f->err);
    assert_weights(f, 2);
    pawl_checkpoint_close(checkpoint);
}

static void test_a_run_is_kept_in_order(void **state) {
    fixture *f = *state;
    open_run(f);
    save(f, 1);
    save(f, 2);
    assert_ok(pawl_run_pin(f->run, 1, 1, f->err), f->err);
    assert_ok(pawl_run_gc(f->run, 1, NULL, NULL, f->err), f->err);
    assert_ok(pawl_run_rebuild(f->run, 2, 0, f->err), f->err);
    assert_ok(pawl_run_remove(f->run, 1, 0, f->err), f->err);
    assert_fails(pawl_run_remove(f->run, 2, 0, f->err), PAWL_EBUSY, f->err);
    assert_ok(pawl_cancel(f->run, 0, f->err), f->err);
    assert_int_equal(pawl_due(f->run, 5), 0);
    assert_int_equal(pawl_due(NULL, 5), 0);
}

static void test_the_final_save(void **state) {
    fixture *f = *state;
    open_run(f);
    fill(f, 7);
    assert_ok(pawl_save_final(f->run, f->state, 7, NULL, 60, f->err), f->err);
    fill(f, 99);
    assert_ok(pawl_restore(f->run, f->state, NULL, NULL, f->err), f->err);
    assert_weights(f, 7);
}

static void test_a_grace_time_is_a_number(void **state) {
    fixture *f = *state;
    open_run(f);
    assert_fails(pawl_save_final(f->run, f->state, 7, NULL, (double)NAN, f->err), PAWL_EUSAGE,
                 f->err);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                        "pawl_save_final: grace_s is not a number");
}

static void test_the_name_of_a_metric_is_a_name_and_stands_once(void **state) {
    fixture *f = *state;
    static const struct {
        pawl_metric metrics[2];
        const char *fault;
    } cases[] = {
        {{{"loss", 1}, {"loss", 2}},
         "saving step 1: the name of metric 1 is also that of an earlier one"},
        {{{"loss", 1}, {"", 2}}, "saving step 1: the name of metric 1 is empty"},
        {{{NULL, 1}, {"loss", 2}}, "saving step 1: the name of metric 0 is a null pointer"},
    };
    open_run(f);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const pawl_save_options options = {.struct_size = sizeof(options),
                                           .metrics = cases[i].metrics,
                                           .metric_count = 2,
                                           .metric_size = sizeof(pawl_metric)};
        assert_fails(pawl_save(f->run, f->state, 1, &options, f->err), PAWL_EUSAGE, f->err);
        assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), cases[i].fault);
    }
}

/* ---- calls from inside the run's callback --------------------------------------------------- */

typedef struct caller {
    fixture *f;
    pawl_error *err;
    int told, refused;
} caller;

static void count_refusal(caller *c, pawl_status status, const char *call) {
    char words[128];
    (void)snprintf(words, sizeof(words), "%s: called from inside the run's own event callback",
                   call);
    assert_int_equal(status, PAWL_EUSAGE);
    assert_string_equal(pawl_error_get(c->err, PAWL_ERROR_ATTEMPT), words);
    c->refused++;
}

static void call_back(void *context, const pawl_event *event) {
    caller *c = context;
    fixture *f = c->f;
    (void)event;
    c->told++;
    count_refusal(c, pawl_save(f->run, f->state, 9, NULL, c->err), "pawl_save");
    count_refusal(c, pawl_save_final(f->run, f->state, 9, NULL, 1, c->err), "pawl_save_final");
    count_refusal(c, pawl_fence(f->run, 0, c->err), "pawl_fence");
    assert_int_equal(pawl_fenced(f->run), 0);
    count_refusal(c, pawl_wait(f->run, 0, NULL, c->err), "pawl_wait");
    count_refusal(c, pawl_cancel(f->run, 0, c->err), "pawl_cancel");
    count_refusal(c, pawl_restore(f->run, f->state, NULL, NULL, c->err), "pawl_restore");
    count_refusal(c, pawl_run_remove(f->run, 1, 1, c->err), "pawl_run_remove");
    count_refusal(c, pawl_run_close(f->run, 0, c->err), "pawl_run_close");
}

/* It would wait for itself, on the trainer's thread and on the engine's. */
static void test_s04_a_callback_that_calls_its_run_is_refused(void **state) {
    fixture *f = *state;
    caller c = {.f = f, .err = pawl_error_new()};
    const pawl_run_options options = {
        .struct_size = sizeof(options), .event = call_back, .event_context = &c};
    assert_ok(pawl_run_open(f->path, &options, &f->run, f->err), f->err);
    save(f, 1);
    assert_ok(pawl_restore(f->run, f->state, NULL, NULL, f->err), f->err);
    assert_weights(f, 1);
    assert_int_equal(c.told, 3);
    assert_int_equal(c.refused, 24);
    pawl_error_free(c.err);
}

static int end_second(void *context) {
    return ++*(int *)context == 2;
}

static void test_opening_and_restoring_end_when_the_caller_says_so(void **state) {
    fixture *f = *state;
    pawl_run *second = f->run;
    int asked = 0;
    const pawl_run_options options = {
        .struct_size = sizeof options, .interrupted = end_second, .interrupted_context = &asked};
    const pawl_restore_options restoring = {
        .struct_size = sizeof restoring, .interrupted = end_second, .interrupted_context = &asked};
    open_run(f);
    save(f, 1);
    assert_fails(pawl_run_open(f->path, &options, &second, f->err), PAWL_ECANCELED, f->err);
    assert_null(second);
    assert_int_equal(asked, 2);
    asked = 0;
    assert_fails(pawl_restore(f->run, f->state, &restoring, NULL, f->err), PAWL_ECANCELED, f->err);
    assert_int_equal(asked, 2);
    assert_ok(pawl_restore(f->run, f->state, NULL, NULL, f->err), f->err);
    assert_weights(f, 1);
}

static void test_p01_a_run_that_must_exist_is_not_made(void **state) {
    fixture *f = *state;
    struct stat found;
    const pawl_run_options options = {.struct_size = sizeof(options), .must_exist = 1};
    assert_fails(pawl_run_open(f->path, &options, &f->run, f->err), PAWL_ENOTFOUND, f->err);
    assert_null(f->run);
    (void)snprintf(f->text, sizeof(f->text), "%s exists, but there is no run in it", f->dir.path);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_FOUND), f->text);
    assert_int_equal(stat(f->path, &found), -1);
    open_run(f);
    assert_ok(pawl_run_close(f->run, 0, f->err), f->err);
    assert_ok(pawl_run_open(f->path, &options, &f->run, f->err), f->err);
}

static void test_r09_nothing_is_there(void **state) {
    fixture *f = *state;
    pawl_catalog *catalog = NULL;
    assert_int_equal(mkdir(f->path, 0755), 0);
    assert_fails(pawl_catalog_open(f->path, NULL, &catalog, f->err), PAWL_ENOTFOUND, f->err);
    assert_null(catalog);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_FOUND), "an empty directory");
    open_run(f);
    assert_fails(pawl_restore(f->run, f->state, NULL, NULL, f->err), PAWL_ENOTFOUND, f->err);
}

static void test_r09_the_directory_of_one_step(void **state) {
    fixture *f = *state;
    pawl_checkpoint *checkpoint = NULL;
    char step[160];
    open_run(f);
    save(f, 1);
    (void)snprintf(step, sizeof(step), "%s/step-00000001", f->path);
    assert_fails(pawl_checkpoint_open(step, NULL, &checkpoint, f->err), PAWL_ENOTFOUND, f->err);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT),
                        "opening a checkpoint: this is the directory of one step, not of a run");
    (void)snprintf(f->text, sizeof(f->text), "name the run: pawl ls %s", f->path);
    assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_NEXT), f->text);
}

static void count_finding(void *context, const pawl_finding *finding) {
    size_t *count = context;
    assert_non_null(finding->id);
    assert_non_null(finding->text);
    (*count)++;
}

static void test_the_doctor_finds_things(void **state) {
    fixture *f = *state;
    size_t count = 0;
    pawl_severity worst = PAWL_SEVERITY_ERROR;
    assert_ok(pawl_doctor(f->dir.path, NULL, count_finding, &count, &worst, f->err), f->err);
    assert_true(count > 0);
    assert_true(worst < PAWL_SEVERITY_ERROR);
    assert_ok(pawl_doctor(f->dir.path, NULL, NULL, NULL, NULL, f->err), f->err);
}

#define assert_null_is_named(call, words)                                                          \
    do {                                                                                           \
        assert_fails(call, PAWL_EUSAGE, f->err);                                                   \
        assert_string_equal(pawl_error_get(f->err, PAWL_ERROR_ATTEMPT), words);                    \
    } while (0)

static void test_null_pointers_are_named(void **state) {
    fixture *f = *state;
    pawl_error *err = f->err;
    pawl_entry_info info = {.struct_size = sizeof info};
    size_t size;
    int more;
    const pawl_save_options metrics = {
        .struct_size = sizeof(metrics), .metric_count = 1, .metric_size = sizeof(pawl_metric)};
    open_run(f);
    assert_null_is_named(pawl_run_open(NULL, NULL, &f->run, err),
                         "pawl_run_open: path is a null pointer");
    assert_null_is_named(pawl_run_open("/tmp", NULL, NULL, err),
                         "pawl_run_open: run is a null pointer");
    assert_null_is_named(pawl_save(NULL, f->state, 1, NULL, err),
                         "pawl_save: run is a null pointer");
    assert_null_is_named(pawl_save(f->run, NULL, 1, NULL, err),
                         "pawl_save: state is a null pointer");
    assert_null_is_named(pawl_save(f->run, f->state, 1, &metrics, err),
                         "pawl_save: metrics is a null pointer");
    assert_null_is_named(pawl_save_final(NULL, f->state, 1, NULL, 1, err),
                         "pawl_save_final: run is a null pointer");
    assert_null_is_named(pawl_fence(NULL, 0, err), "pawl_fence: run is a null pointer");
    assert_null_is_named(pawl_wait(NULL, 0, NULL, err), "pawl_wait: run is a null pointer");
    assert_null_is_named(pawl_cancel(NULL, 0, err), "pawl_cancel: run is a null pointer");
    assert_null_is_named(pawl_restore(NULL, f->state, NULL, NULL, err),
                         "pawl_restore: run is a null pointer");
    assert_null_is_named(pawl_run_pin(NULL, 1, 1, err), "pawl_run_pin: run is a null pointer");
    assert_null_is_named(pawl_run_remove(NULL, 1, 1, err),
                         "pawl_run_remove: run is a null pointer");
    assert_null_is_named(pawl_run_gc(NULL, 1, NULL, NULL, err),
                         "pawl_run_gc: run is a null pointer");
    assert_null_is_named(pawl_run_rebuild(NULL, 1, 0, err),
                         "pawl_run_rebuild: run is a null pointer");
    assert_null_is_named(pawl_catalog_open(f->path, NULL, NULL, err),
                         "pawl_catalog_open: catalog is a null pointer");
    assert_null_is_named(pawl_checkpoint_open(NULL, AT_STEP(1), NULL, err),
                         "pawl_checkpoint_open: run_path is a null pointer");
    assert_null_is_named(pawl_checkpoint_find(NULL, "a", &info, err),
                         "pawl_checkpoint_find: checkpoint is a null pointer");
    assert_null_is_named(pawl_checkpoint_read(NULL, "a", NULL, NULL, NULL, 0, err),
                         "pawl_checkpoint_read: checkpoint is a null pointer");
    assert_null_is_named(pawl_checkpoint_read_rank(NULL, "a", 0, NULL, 0, &size, err),
                         "pawl_checkpoint_read_rank: checkpoint is a null pointer");
    assert_null_is_named(pawl_checkpoint_restore(NULL, f->state, NULL, NULL, err),
                         "pawl_checkpoint_restore: checkpoint is a null pointer");
    assert_null_is_named(pawl_checkpoint_verify(NULL, NULL, NULL, err),
                         "pawl_checkpoint_verify: checkpoint is a null pointer");
    assert_null_is_named(pawl_entries_open(NULL, "", NULL, err),
                         "pawl_entries_open: checkpoint is a null pointer");
    assert_null_is_named(pawl_entries_next(NULL, &info, &more, err),
                         "pawl_entries_next: entries is a null pointer");
    assert_null_is_named(pawl_doctor(NULL, NULL, NULL, NULL, NULL, err),
                         "pawl_doctor: run_path is a null pointer");
    assert_int_equal(pawl_run_close(NULL, 0, err), PAWL_OK);
    pawl_checkpoint_close(NULL);
    pawl_entries_free(NULL);
    pawl_catalog_free(NULL);
    pawl_report_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_a_trainer_saves_and_restores),
        TEST(test_a_reader_needs_no_run),
        TEST(test_a_run_is_kept_in_order),
        TEST(test_the_final_save),
        TEST(test_a_grace_time_is_a_number),
        TEST(test_the_name_of_a_metric_is_a_name_and_stands_once),
        TEST(test_s04_a_callback_that_calls_its_run_is_refused),
        TEST(test_opening_and_restoring_end_when_the_caller_says_so),
        TEST(test_p01_a_run_that_must_exist_is_not_made),
        TEST(test_r09_nothing_is_there),
        TEST(test_r09_the_directory_of_one_step),
        TEST(test_the_doctor_finds_things),
        TEST(test_null_pointers_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
