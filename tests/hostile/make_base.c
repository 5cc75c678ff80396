/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_base RUN: the run that hostile cases are made of, through the public headers alone: steps
 * 10, 20 and 30 of a small model with tensors of many dtypes, slots, values of every kind, and
 * tensors that are held in several boxes, so that there are several data files.
 */
#include <pawl/pawl.h>

#include <stdio.h>
#include <stdlib.h>

enum { MAX_MEMORIES = 64 };

static pawl_error *err;
static void *memories[MAX_MEMORIES];
static size_t memory_count;

static void must(pawl_status status) {
    if (status != PAWL_OK) {
        fprintf(stderr, "make_base: %s\n", pawl_error_text(err));
        exit(1);
    }
}

/* Bytes that depend on the place and the step; of a BOOL 0 and 1. */
static unsigned char *fill(size_t bytes, pawl_dtype dtype, int64_t step) {
    unsigned char *data = malloc(bytes > 0 ? bytes : 1);
    if (data == NULL || memory_count == MAX_MEMORIES) {
        fputs("make_base: out of memory\n", stderr);
        exit(1);
    }
    for (size_t i = 0; i < bytes; i++) {
        size_t n = (i * 2654435761U >> 7) + (size_t)step * 17 + (size_t)dtype;
        data[i] = (unsigned char)(dtype == PAWL_BOOL ? n % 2 : n % 251);
    }
    memories[memory_count++] = data;
    return data;
}

static size_t bytes_of(pawl_dtype dtype, int ndim, const int64_t *extent) {
    size_t elements = 1;
    for (int d = 0; d < ndim; d++) {
        elements *= (size_t)extent[d];
    }
    return elements * (size_t)pawl_dtype_bits(dtype) / 8;
}

static void add(pawl_state *state, int64_t step, const char *name, pawl_dtype dtype, int ndim,
                const int64_t *shape, const char *slot_of, const char *slot) {
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = dtype,
                                .ndim = ndim,
                                .shape = shape,
                                .data = fill(bytes_of(dtype, ndim, shape), dtype, step),
                                .role = slot_of != NULL ? PAWL_ROLE_SLOT : PAWL_ROLE_MODEL,
                                .slot_of = slot_of,
                                .slot = slot};
    must(pawl_state_add_tensor(state, &tensor, err));
}

/* A layer with bias, and the slots of an optimizer. */
static void add_layers(pawl_state *state, int64_t step) {
    const int64_t wide[] = {512, 16};
    const int64_t narrow[] = {16, 10};
    add(state, step, "model/dense1/kernel", PAWL_F32, 2, wide, NULL, NULL);
    add(state, step, "model/dense1/bias", PAWL_F32, 1, wide + 1, NULL, NULL);
    add(state, step, "model/dense2/kernel", PAWL_BF16, 2, narrow, NULL, NULL);
    add(state, step, "model/scale", PAWL_F64, 0, NULL, NULL, NULL);
    add(state, step, "model/none", PAWL_F32, 2, (int64_t[]){0, 3}, NULL, NULL);
    add(state, step, "optimizer/m/dense1/kernel", PAWL_F32, 2, wide, "model/dense1/kernel",
        "adam/m");
    add(state, step, "optimizer/v/dense1/kernel", PAWL_F32, 2, wide, "model/dense1/kernel",
        "adam/v");
    add(state, step, "optimizer/m/dense2/kernel", PAWL_BF16, 2, narrow, "model/dense2/kernel",
        "adam/m");
}

static void add_dtypes(pawl_state *state, int64_t step) {
    char name[64];
    for (int dtype = PAWL_BOOL; dtype <= PAWL_U64; dtype++) {
        snprintf(name, sizeof name, "model/dtypes/%s", pawl_dtype_name((pawl_dtype)dtype));
        add(state, step, name, (pawl_dtype)dtype, 2, (int64_t[]){4, 6}, NULL, NULL);
    }
}

/* Held in four boxes: files have one piece of an entry, so there are four. */
static void add_split(pawl_state *state, int64_t step, const char *name, pawl_dtype dtype,
                      const int64_t *shape, int64_t row, int64_t column) {
    const int64_t offsets[4][2] = {{0, 0}, {0, column}, {row, 0}, {row, column}};
    int64_t extents[4][2];
    pawl_box boxes[4];
    for (int i = 0; i < 4; i++) {
        extents[i][0] = i < 2 ? row : shape[0] - row;
        extents[i][1] = i % 2 == 0 ? column : shape[1] - column;
        boxes[i] = (pawl_box){.offset = offsets[i],
                              .extent = extents[i],
                              .data = fill(bytes_of(dtype, 2, extents[i]), dtype, step + i)};
    }
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = dtype,
                                .ndim = 2,
                                .shape = shape,
                                .nboxes = 4,
                                .boxes = boxes,
                                .box_size = sizeof(pawl_box)};
    must(pawl_state_add_tensor(state, &tensor, err));
}

static void add_values(pawl_state *state, int64_t step) {
    const unsigned char *random = fill(32, PAWL_U8, step);
    must(pawl_state_set_int64(state, "data/epoch", PAWL_ROLE_DATA_POSITION, step / 10, err));
    must(pawl_state_set_json(state, "data/batch_signature", PAWL_ROLE_BATCH_SIGNATURE,
                             "[{\"name\": \"x\", \"dtype\": \"F32\", \"shape\": [8, 3]}]", err));
    must(
        pawl_state_set_string(state, PAWL_OPTIMIZER_CLASS, PAWL_ROLE_HYPERPARAMETER, "AdamW", err));
    must(pawl_state_set_float64(state, "optimizer/rate", PAWL_ROLE_HYPERPARAMETER, 0.001, err));
    must(pawl_state_set_bool(state, "optimizer/decoupled", PAWL_ROLE_HYPERPARAMETER, 1, err));
    must(pawl_state_set_int64(state, "step", PAWL_ROLE_STEP, step, err));
    must(pawl_state_set_bytes(state, "random/shuffle", PAWL_ROLE_RNG, random, 7, err));
    must(pawl_state_set_rank_bytes(state, "random/state", PAWL_ROLE_RNG, random, 32, err));
}

static void save(pawl_run *run, int64_t step) {
    const pawl_metric metrics[] = {{"loss", 1.0 / (double)step}};
    const pawl_save_options options = {.struct_size = sizeof options,
                                       .metrics = metrics,
                                       .metric_count = 1,
                                       .metric_size = sizeof(pawl_metric)};
    pawl_state *state = NULL;
    must(pawl_state_new(&state, err));
    add_layers(state, step);
    add_dtypes(state, step);
    add_split(state, step, "model/split/kernel", PAWL_F32, (int64_t[]){64, 32}, 24, 10);
    add_split(state, step, "model/split/table", PAWL_I16, (int64_t[]){30, 7}, 11, 3);
    add_values(state, step);
    must(pawl_save(run, state, step, &options, err));
    must(pawl_wait(run, 0, NULL, err));
    pawl_state_free(state);
    while (memory_count > 0) {
        free(memories[--memory_count]);
    }
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: make_base RUN\n", stderr);
        return 2;
    }
    const pawl_run_options options = {.struct_size = sizeof options, .framework = "charlm 1.0"};
    pawl_run *run = NULL;
    err = pawl_error_new();
    must(pawl_run_open(argv[1], &options, &run, err));
    for (int64_t step = 10; step <= 30; step += 10) {
        save(run, step);
    }
    must(pawl_run_close(run, 0, err));
    pawl_error_free(err);
    return 0;
}
