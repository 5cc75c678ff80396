/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever a caller hands in above a named maximum is PAWL_ELIMIT, and the text has the maximum;
 * what is at the maximum is taken. One row for each maximum of the headers.
 */
#include "lib/directory.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    char path[64];
    pawl_state *state;
    pawl_error *err;
} fixture;

static int set_up(void **state) {
    fixture *f = *state = calloc(1, sizeof *f);
    directory_new(f->path, "/tmp");
    f->err = pawl_error_new();
    return pawl_state_new(&f->state, f->err) != PAWL_OK;
}

static int tear_down(void **state) {
    fixture *f = *state;
    directory_delete(f->path);
    pawl_state_free(f->state);
    pawl_error_free(f->err);
    free(f);
    return 0;
}

/* So many of a character; for one call. */
static const char *text_of(char c, size_t n) {
    static char text[2 * PAWL_MAX_VALUE_BYTES];
    memset(text, c, n);
    text[n] = '\0';
    return text;
}

/* ---- states --------------------------------------------------------------------------------- */

static pawl_tensor tensor_named(const char *name) {
    static float values[4];
    static const int64_t shape[] = {4};
    return (pawl_tensor){.struct_size = sizeof(pawl_tensor),
                         .name = name,
                         .dtype = PAWL_F32,
                         .ndim = 1,
                         .shape = shape,
                         .data = values};
}

static pawl_status name_of_a_tensor(fixture *f, uint64_t n) {
    const pawl_tensor tensor = tensor_named(text_of('n', n));
    return pawl_state_add_tensor(f->state, &tensor, f->err);
}

static pawl_status name_of_a_value(fixture *f, uint64_t n) {
    return pawl_state_set_int64(f->state, text_of('v', n), PAWL_ROLE_OTHER, 1, f->err);
}

static pawl_status slot_of(fixture *f, uint64_t n) {
    pawl_tensor tensor = tensor_named("slot");
    tensor.role = PAWL_ROLE_SLOT;
    tensor.slot_of = text_of('o', n);
    tensor.slot = "adam/m";
    return pawl_state_add_tensor(f->state, &tensor, f->err);
}

static pawl_status slot(fixture *f, uint64_t n) {
    pawl_tensor tensor = tensor_named("slot");
    tensor.role = PAWL_ROLE_SLOT;
    tensor.slot_of = "variable";
    tensor.slot = text_of('s', n);
    return pawl_state_add_tensor(f->state, &tensor, f->err);
}

static pawl_status dimensions(fixture *f, uint64_t n) {
    int64_t shape[PAWL_MAX_NDIM + 1];
    pawl_tensor tensor = tensor_named("t");
    for (size_t i = 0; i < ARRAY_LENGTH(shape); i++) {
        shape[i] = 1;
    }
    tensor.ndim = (int)n;
    tensor.shape = shape;
    return pawl_state_add_tensor(f->state, &tensor, f->err);
}

static pawl_status boxes(fixture *f, uint64_t n) {
    static float values[PAWL_MAX_BOXES + 1];
    static const int64_t one = 1;
    int64_t shape = PAWL_MAX_BOXES + 1;
    int64_t offsets[PAWL_MAX_BOXES + 1];
    pawl_box all[PAWL_MAX_BOXES + 1];
    pawl_tensor tensor = tensor_named("t");
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++) {
        offsets[i] = (int64_t)i;
        all[i] = (pawl_box){.offset = &offsets[i], .extent = &one, .data = &values[i]};
    }
    tensor.shape = &shape;
    tensor.nboxes = n;
    tensor.boxes = all;
    tensor.box_size = sizeof(pawl_box);
    return pawl_state_add_tensor(f->state, &tensor, f->err);
}

/* 2^n bytes, of which this rank holds one. */
static pawl_status bytes_of_a_tensor(fixture *f, uint64_t n) {
    static uint8_t byte;
    static const int64_t zero = 0;
    static const int64_t one = 1;
    const pawl_box box = {.offset = &zero, .extent = &one, .data = &byte};
    int64_t shape = (int64_t)(n > 62 ? ((uint64_t)1 << 62) + 1 : (uint64_t)1 << n);
    pawl_tensor tensor = tensor_named("t");
    tensor.dtype = PAWL_U8;
    tensor.shape = &shape;
    tensor.nboxes = 1;
    tensor.boxes = &box;
    tensor.box_size = sizeof(pawl_box);
    return pawl_state_add_tensor(f->state, &tensor, f->err);
}

static pawl_status value_bytes(fixture *f, uint64_t n) {
    return pawl_state_set_bytes(f->state, "v", PAWL_ROLE_OTHER, text_of('v', n), n, f->err);
}

static pawl_status rank_bytes(fixture *f, uint64_t n) {
    char *bytes = calloc(n, 1);
    assert_non_null(bytes);
    pawl_status status =
        pawl_state_set_rank_bytes(f->state, "v", PAWL_ROLE_OTHER, bytes, n, f->err);
    free(bytes);
    return status;
}

static pawl_status string_bytes(fixture *f, uint64_t n) {
    return pawl_state_set_string(f->state, "v", PAWL_ROLE_OTHER, text_of('v', n), f->err);
}

static pawl_status json_depth(fixture *f, uint64_t n) {
    static char text[2 * PAWL_MAX_JSON_DEPTH + 3];
    memset(text, '[', n);
    memset(text + n, ']', n);
    text[2 * n] = '\0';
    return pawl_state_set_json(f->state, "v", PAWL_ROLE_OTHER, text, f->err);
}

/* ---- runs ----------------------------------------------------------------------------------- */

static pawl_status open_with(fixture *f, const pawl_run_options *options) {
    pawl_run *run = NULL;
    pawl_error *ignored = pawl_error_new();
    pawl_status status = pawl_run_open(f->path, options, &run, f->err);
    (void)pawl_run_close(run, 60, ignored);
    pawl_error_free(ignored);
    return status;
}

static pawl_status framework(fixture *f, uint64_t n) {
    const pawl_run_options options = {.struct_size = sizeof options, .framework = text_of('f', n)};
    return open_with(f, &options);
}

static pawl_status lease(fixture *f, uint64_t n) {
    const pawl_run_options options = {.struct_size = sizeof options, .lease_s = (double)n};
    return open_with(f, &options);
}

static pawl_status in_flight(fixture *f, uint64_t n) {
    const pawl_run_options options = {
        .struct_size = sizeof options, .in_flight_bytes = n, .budget_bytes = (size_t)2 << 30};
    return open_with(f, &options);
}

static pawl_status retention_metric(fixture *f, uint64_t n) {
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .retention = &(pawl_retention){
            .struct_size = sizeof(pawl_retention), .keep_best = 1, .metric = text_of('m', n)}};
    return open_with(f, &options);
}

static pawl_status save_with(fixture *f, const pawl_metric *metrics, size_t count) {
    pawl_run *run = NULL;
    const pawl_save_options options = {.struct_size = sizeof options,
                                       .metrics = metrics,
                                       .metric_count = count,
                                       .metric_size = sizeof(pawl_metric)};
    pawl_error *ignored = pawl_error_new();
    pawl_status status = pawl_run_open(f->path, NULL, &run, f->err);
    status = status == PAWL_OK ? pawl_save(run, f->state, 1, &options, f->err) : status;
    (void)pawl_run_close(run, 60, ignored);
    pawl_error_free(ignored);
    return status;
}

static pawl_status metric_name(fixture *f, uint64_t n) {
    const pawl_metric metric = {.name = text_of('m', n)};
    return save_with(f, &metric, 1);
}

static pawl_status metrics(fixture *f, uint64_t n) {
    static pawl_metric all[PAWL_MAX_METRICS + 1];
    static char names[PAWL_MAX_METRICS + 1][16];
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(names[i], sizeof names[i], "m%zu", i);
        all[i].name = names[i];
    }
    return save_with(f, all, n);
}

static pawl_status rename_from(fixture *f, uint64_t n) {
    pawl_run *run = NULL;
    const pawl_rename rule = {.from = text_of('r', n), .to = "x"};
    const pawl_restore_options options = {.struct_size = sizeof options,
                                          .renames = &rule,
                                          .rename_count = 1,
                                          .rename_size = sizeof(pawl_rename)};
    pawl_error *ignored = pawl_error_new();
    pawl_status status = save_with(f, NULL, 0);
    status = status == PAWL_OK ? pawl_run_open(f->path, NULL, &run, f->err) : status;
    status = status == PAWL_OK ? pawl_restore(run, f->state, &options, NULL, f->err) : status;
    (void)pawl_run_close(run, 60, ignored);
    pawl_error_free(ignored);
    return status;
}

static pawl_status component_of_a_path(fixture *f, uint64_t n) {
    char path[1024];
    pawl_run *run = NULL;
    pawl_error *ignored = pawl_error_new();
    (void)snprintf(path, sizeof path, "%s/%s", f->path, text_of('p', n));
    pawl_status status = pawl_run_open(path, NULL, &run, f->err);
    (void)pawl_run_close(run, 60, ignored);
    pawl_error_free(ignored);
    return status;
}

/* ---- ranks ---------------------------------------------------------------------------------- */

/* Wrong besides, so that no rank waits for others: what is within its maximum is told as that. */
static pawl_status open_as(fixture *f, int world_size, const char *launch) {
    const pawl_group group = {.struct_size = sizeof group,
                              .rank = world_size > 1 ? -1 : 0,
                              .world_size = world_size,
                              .launch = launch};
    const pawl_run_options options = {.struct_size = sizeof options, .group = &group};
    pawl_status status = open_with(f, &options);
    return status == PAWL_EUSAGE ? PAWL_OK : status;
}

static pawl_status ranks(fixture *f, uint64_t n) {
    return open_as(f, (int)n, "start");
}

static pawl_status launch(fixture *f, uint64_t n) {
    return open_as(f, 1, text_of('l', n));
}

static pawl_status ranks_of_an_environment(fixture *f, uint64_t n) {
    char size[64];
    pawl_group_found found = {.struct_size = sizeof found};
    (void)snprintf(size, sizeof size, "WORLD_SIZE=%llu", (unsigned long long)n);
    const char *const environment[] = {"RANK=0", size, "TORCHELASTIC_RUN_ID=a", NULL};
    return pawl_group_discover(environment, &found, f->err);
}

/* ---- checks of a job ------------------------------------------------------------------------- */

static pawl_array array_of(int ndim) {
    static int64_t shape[PAWL_MAX_NDIM + 1];
    for (size_t i = 0; i < ARRAY_LENGTH(shape); i++) {
        shape[i] = 1;
    }
    return (pawl_array){.name = "a", .dtype = PAWL_F32, .ndim = ndim, .shape = shape};
}

static pawl_status dimensions_of_a_batch(fixture *f, uint64_t n) {
    pawl_batch_check *check = NULL;
    const pawl_array array = array_of((int)n);
    pawl_status status = pawl_batch_check_new(&check, f->err);
    status = status == PAWL_OK ? pawl_batch_check_next(check, &array, 1, sizeof(pawl_array), f->err)
                               : status;
    pawl_batch_check_free(check);
    return status;
}

static pawl_status dimensions_of_a_gradient(fixture *f, uint64_t n) {
    static const float value;
    pawl_array array = array_of((int)n);
    array.data = &value;
    return pawl_check_gradients(&array, 1, &array, 1, sizeof(pawl_array), f->err);
}

/* ---- all ------------------------------------------------------------------------------------ */

static const struct limit {
    const char *what;
    pawl_status (*call)(fixture *f, uint64_t n);
    uint64_t most;
    const char *number; /* in the text */
} limits[] = {
    {"a tensor's name", name_of_a_tensor, PAWL_MAX_NAME_BYTES, "1024"},
    {"a value's name", name_of_a_value, PAWL_MAX_NAME_BYTES, "1024"},
    {"slot_of", slot_of, PAWL_MAX_NAME_BYTES, "1024"},
    {"slot", slot, PAWL_MAX_NAME_BYTES, "1024"},
    {"dimensions", dimensions, PAWL_MAX_NDIM, "32"},
    {"boxes", boxes, PAWL_MAX_BOXES, "4096"},
    {"log2 of a tensor's bytes", bytes_of_a_tensor, 62, "2^62"},
    {"bytes of a value", value_bytes, PAWL_MAX_VALUE_BYTES, "1048576"},
    {"bytes of a rank's value", rank_bytes, PAWL_MAX_RANK_BYTES, "268435456"},
    {"bytes of a string", string_bytes, PAWL_MAX_VALUE_BYTES, "1048576"},
    {"depth of JSON", json_depth, PAWL_MAX_JSON_DEPTH, "512"},
    {"framework", framework, PAWL_MAX_FRAMEWORK_BYTES, "4096"},
    {"lease_s", lease, 1000000, "1000000"},
    {"in_flight_bytes", in_flight, (uint64_t)1 << 30, "1073741824"},
    {"retention.metric", retention_metric, PAWL_MAX_NAME_BYTES, "1024"},
    {"a metric's name", metric_name, PAWL_MAX_NAME_BYTES, "1024"},
    {"metrics", metrics, PAWL_MAX_METRICS, "10000"},
    {"renames.from", rename_from, PAWL_MAX_NAME_BYTES, "1024"},
    {"a component of a path", component_of_a_path, 255, "255"},
    {"world_size", ranks, PAWL_MAX_RANKS, "100000"},
    {"launch", launch, PAWL_MAX_LAUNCH_BYTES, "255"},
    {"WORLD_SIZE", ranks_of_an_environment, PAWL_MAX_RANKS, "100000"},
    {"dimensions of a batch", dimensions_of_a_batch, PAWL_MAX_NDIM, "32"},
    {"dimensions of a gradient", dimensions_of_a_gradient, PAWL_MAX_NDIM, "32"},
};

static void test_above_each_maximum_is_a_limit_that_names_it(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(limits); i++) {
        const struct limit *l = &limits[i];
        pawl_status status = l->call(f, l->most + 1);
        if (status != PAWL_ELIMIT || strstr(pawl_error_text(f->err), l->number) == NULL) {
            fail_msg("%s: %s, without %s: %s", l->what, pawl_status_name(status), l->number,
                     pawl_error_text(f->err));
        }
    }
}

static void test_each_maximum_itself_is_taken(void **state) {
    fixture *f = *state;
    for (size_t i = 0; i < ARRAY_LENGTH(limits); i++) {
        const struct limit *l = &limits[i];
        pawl_state_free(f->state);
        assert_int_equal(pawl_state_new(&f->state, f->err), PAWL_OK);
        pawl_status status = l->call(f, l->most);
        if (status != PAWL_OK) {
            fail_msg("%s: %s", l->what, pawl_error_text(f->err));
        }
    }
}

/* The other side: too little, or no number at all, is a wrong call. */
static void test_what_is_too_little_is_no_limit(void **state) {
    fixture *f = *state;
    pawl_run_options options = {.struct_size = sizeof options, .lease_s = 0.5};
    assert_int_equal(open_with(f, &options), PAWL_EUSAGE);
    options = (pawl_run_options){.struct_size = sizeof options, .in_flight_bytes = 1};
    assert_int_equal(open_with(f, &options), PAWL_EUSAGE);
    pawl_tensor tensor = tensor_named("t");
    tensor.ndim = -1;
    assert_int_equal(pawl_state_add_tensor(f->state, &tensor, f->err), PAWL_EUSAGE);
}

int main(void) {
#define TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_above_each_maximum_is_a_limit_that_names_it),
        TEST(test_each_maximum_itself_is_taken),
        TEST(test_what_is_too_little_is_no_limit),
    };
    return cmocka_run_group_tests_name("named maxima", tests, NULL, NULL);
}
