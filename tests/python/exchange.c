/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run as a program in C writes and reads it, for the test of the Python package; public headers
 * alone.
 *
 *     exchange write RUN    saves step 7: a tensor of each dtype, one in boxes, a slot, a value of
 *                           each kind
 *     exchange read RUN     is that what the newest step has? It need not have F6, which Python
 *                           cannot save
 *
 * Byte `i` of a tensor is 31 * i + 7 * (its dtype's number), of BOOL i % 2.
 */
#include <pawl/pawl.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 7, ROWS = 4, COLUMNS = 6, MAX_BYTES = ROWS * COLUMNS * 8, TENSORS = PAWL_U64 + 5 };

static const char text[] = "na\303\257ve \360\237\230\200";
static const char json[] = "{\"a\":[1,2.5,null,{\"b\":\"c\"}]}";
static const unsigned char raw[] = {0, 255, 10};

static pawl_error *err;

static void must(pawl_status status) {
    if (status != PAWL_OK) {
        (void)fprintf(stderr, "exchange: %s\n", pawl_error_text(err));
        exit(1);
    }
}

static void expect(bool it_is, const char *what) {
    if (!it_is) {
        (void)fprintf(stderr, "exchange: %s: not as it was saved\n", what);
        exit(1);
    }
}

/* ---- tensors ---- */

typedef struct tensor {
    char name[64];
    pawl_dtype dtype;
    size_t bytes;
    unsigned char data[MAX_BYTES];
} tensor;

static tensor tensors[TENSORS];
static size_t tensor_count;

static unsigned char byte_of(pawl_dtype dtype, size_t i) {
    return (unsigned char)(dtype == PAWL_BOOL ? i % 2 : 31 * i + 7 * (size_t)dtype);
}

/* Adds to the state, filled as it is saved, or with ones. */
static void add(pawl_state *state, pawl_tensor given, bool fill) {
    tensor *t = &tensors[tensor_count++];
    (void)snprintf(t->name, sizeof t->name, "%s", given.name);
    t->dtype = given.dtype;
    size_t elements = 1;
    for (int d = 0; d < given.ndim; d++) {
        elements *= (size_t)given.shape[d];
    }
    t->bytes = elements * (size_t)pawl_dtype_bits(given.dtype) / 8;
    for (size_t i = 0; i < t->bytes; i++) {
        t->data[i] = fill ? byte_of(t->dtype, i) : 1;
    }
    /* Dense halves of the rows: one after the other they are the tensor. */
    int64_t offset[2][2] = {{0, 0}, {ROWS / 2, 0}};
    int64_t extent[2] = {ROWS / 2, COLUMNS};
    pawl_box boxes[2] = {{.offset = offset[0], .extent = extent, .data = t->data},
                         {.offset = offset[1], .extent = extent, .data = t->data + t->bytes / 2}};
    given.struct_size = sizeof given;
    if (given.nboxes > 0) {
        given.boxes = boxes;
        given.box_size = sizeof *boxes;
    } else {
        given.data = t->data;
    }
    must(pawl_state_add_tensor(state, &given, err));
}

static bool is_f6(pawl_dtype dtype) {
    return dtype == PAWL_F6_E2M3 || dtype == PAWL_F6_E3M2;
}

static void add_tensors(pawl_state *state, bool f6, bool fill) {
    static const int64_t shape[] = {ROWS, COLUMNS};
    static const int64_t nothing[] = {0, 3};
    for (int dtype = PAWL_BOOL; dtype <= PAWL_U64; dtype++) {
        char name[64];
        (void)snprintf(name, sizeof name, "dtypes/%s", pawl_dtype_name((pawl_dtype)dtype));
        pawl_tensor given = {.name = name, .dtype = (pawl_dtype)dtype, .ndim = 2, .shape = shape};
        if (f6 || !is_f6(given.dtype)) {
            add(state, given, fill);
        }
    }
    add(state, (pawl_tensor){.name = "scalar", .dtype = PAWL_F64}, fill);
    add(state, (pawl_tensor){.name = "empty", .dtype = PAWL_F32, .ndim = 2, .shape = nothing},
        fill);
    add(state,
        (pawl_tensor){.name = "boxes", .dtype = PAWL_I32, .ndim = 2, .shape = shape, .nboxes = 2},
        fill);
    add(state,
        (pawl_tensor){.name = "optimizer/m",
                      .dtype = PAWL_F32,
                      .ndim = 2,
                      .shape = shape,
                      .role = PAWL_ROLE_SLOT,
                      .slot_of = "dtypes/F32",
                      .slot = "adam/m"},
        fill);
}

/* ---- values ---- */

static void add_values(pawl_state *s, bool fill) {
    const char *rank = fill ? "rank 0" : "";
    must(pawl_state_set_bool(s, "bool", PAWL_ROLE_OTHER, fill, err));
    must(pawl_state_set_int64(s, "int", PAWL_ROLE_STEP, fill ? INT64_MIN : 0, err));
    must(pawl_state_set_float64(s, "float", PAWL_ROLE_OTHER, fill ? 0.1 : 0, err));
    must(pawl_state_set_string(s, "str", PAWL_ROLE_OTHER, fill ? text : "", err));
    must(pawl_state_set_bytes(s, "bytes", PAWL_ROLE_OTHER, raw, fill ? sizeof raw : 0, err));
    must(pawl_state_set_json(s, "json", PAWL_ROLE_OTHER, fill ? json : "null", err));
    must(pawl_state_set_rank_bytes(s, "rng", PAWL_ROLE_RNG, rank, strlen(rank), err));
}

static void expect_values(pawl_state *s) {
    int flag = 0;
    int64_t whole = 0;
    double number = 0;
    const char *said = NULL;
    const void *bytes = NULL;
    size_t size = 0;
    must(pawl_state_get_bool(s, "bool", &flag, err));
    expect(flag == 1, "bool");
    must(pawl_state_get_int64(s, "int", &whole, err));
    expect(whole == INT64_MIN, "int");
    must(pawl_state_get_float64(s, "float", &number, err));
    expect(number == 0.1, "float");
    must(pawl_state_get_string(s, "str", &said, err));
    expect(strcmp(said, text) == 0, "str");
    must(pawl_state_get_string(s, "json", &said, err));
    expect(strcmp(said, json) == 0, "json");
    must(pawl_state_get_bytes(s, "bytes", &bytes, &size, err));
    expect(size == sizeof raw && memcmp(bytes, raw, size) == 0, "bytes");
    must(pawl_state_get_bytes(s, "rng", &bytes, &size, err));
    expect(size == 6 && memcmp(bytes, "rank 0", size) == 0, "rng");
}

/* ---- the whole ---- */

static void write_run(pawl_state *state, const char *path) {
    pawl_run_options options = {.struct_size = sizeof options, .framework = "exchange 1"};
    pawl_metric metric = {.name = "loss", .value = 0.5};
    pawl_save_options saved = {.struct_size = sizeof saved,
                               .metrics = &metric,
                               .metric_count = 1,
                               .metric_size = sizeof metric};
    pawl_run *run = NULL;
    add_tensors(state, true, true);
    add_values(state, true);
    must(pawl_run_open(path, &options, &run, err));
    must(pawl_save(run, state, STEP, &saved, err));
    must(pawl_wait(run, 0, NULL, err));
    must(pawl_run_close(run, 0, err));
}

static void expect_entry(pawl_checkpoint *checkpoint, const tensor *t) {
    unsigned char read[MAX_BYTES] = {0};
    must(pawl_checkpoint_read(checkpoint, t->name, NULL, NULL, read, t->bytes, err));
    for (size_t i = 0; i < t->bytes; i++) {
        expect(read[i] == byte_of(t->dtype, i), t->name);
        expect(t->data[i] == read[i], t->name);
    }
}

/* Restores all of it, and compares it with what is read by itself. */
static void read_run(pawl_state *state, const char *path) {
    pawl_checkpoint *checkpoint = NULL;
    pawl_checkpoint_info info = {.struct_size = sizeof info};
    pawl_entry_info slot = {.struct_size = sizeof slot};
    must(pawl_checkpoint_open(path, NULL, &checkpoint, err));
    must(pawl_checkpoint_describe(checkpoint, &info, err));
    expect(info.step == STEP, "the step");
    expect(strcmp(info.framework, "exchange 1") == 0, "the framework");
    expect(strstr(info.metrics_json, "\"loss\"") != NULL &&
               strstr(info.metrics_json, "0.5") != NULL,
           "the metrics");
    must(pawl_checkpoint_verify(checkpoint, NULL, NULL, err));
    add_tensors(state, pawl_checkpoint_find(checkpoint, "dtypes/F6_E2M3", &slot, NULL) == PAWL_OK,
                false);
    add_values(state, false);
    must(pawl_checkpoint_restore(checkpoint, state, NULL, NULL, err));
    for (size_t i = 0; i < tensor_count; i++) {
        expect_entry(checkpoint, &tensors[i]);
    }
    expect_values(state);
    must(pawl_checkpoint_find(checkpoint, "optimizer/m", &slot, err));
    expect(slot.role == PAWL_ROLE_SLOT && strcmp(slot.slot, "adam/m") == 0, "the slot");
    pawl_checkpoint_close(checkpoint);
    (void)printf("%zu tensors and 7 values of step %d\n", tensor_count, STEP);
}

int main(int argc, char **argv) {
    pawl_state *state = NULL;
    err = pawl_error_new();
    must(pawl_state_new(&state, err));
    if (argc == 3 && strcmp(argv[1], "write") == 0) {
        write_run(state, argv[2]);
    } else if (argc == 3 && strcmp(argv[1], "read") == 0) {
        read_run(state, argv[2]);
    } else {
        (void)fputs("usage: exchange write|read RUN\n", stderr);
        return 2;
    }
    pawl_state_free(state);
    pawl_error_free(err);
    return 0;
}
