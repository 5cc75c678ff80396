/* SPDX-License-Identifier: Apache-2.0 */
#include "powerloss/weights.h"

#include "lib/random.h"

#include <stdio.h>
#include <stdlib.h>

static void must(pawl_status status, pawl_error *err) {
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_error_text(err));
        abort();
    }
}

static int64_t row_count(const weights *w) {
    return WEIGHTS_ROWS / w->world_size;
}

/* The numbers of one row; the replica's row is the one after the last. */
static test_random row_numbers(int64_t step, int64_t version, int64_t row) {
    test_random seed = {.state = (uint64_t)step * 1000003 + (uint64_t)version * 65537};
    return (test_random){.state = random_next(&seed) + (uint64_t)row};
}

static void fill_row(uint64_t *to, int64_t columns, test_random numbers) {
    for (int64_t i = 0; i < columns; i++) {
        to[i] = random_next(&numbers);
    }
}

static bool is_row(const uint64_t *row, int64_t columns, test_random numbers) {
    for (int64_t i = 0; i < columns; i++) {
        if (row[i] != random_next(&numbers)) {
            return false;
        }
    }
    return true;
}

void weights_fill(weights *w, int64_t step, int64_t version) {
    pawl_error *err = pawl_error_new();
    int64_t first = w->rank * row_count(w);
    for (int64_t r = 0; r < row_count(w); r++) {
        fill_row(w->rows + r * w->columns, w->columns, row_numbers(step, version, first + r));
    }
    fill_row(w->replica, w->columns, row_numbers(step, version, WEIGHTS_ROWS));
    must(pawl_state_set_int64(w->state, "step", PAWL_ROLE_STEP, step, err), err);
    must(pawl_state_set_int64(w->state, "version", PAWL_ROLE_OTHER, version, err), err);
    pawl_error_free(err);
}

static bool holds(const weights *w, int64_t step, int64_t version) {
    int64_t first = w->rank * row_count(w);
    for (int64_t r = 0; r < row_count(w); r++) {
        if (!is_row(w->rows + r * w->columns, w->columns, row_numbers(step, version, first + r))) {
            return false;
        }
    }
    return is_row(w->replica, w->columns, row_numbers(step, version, WEIGHTS_ROWS));
}

int64_t weights_version(const weights *w, int64_t *step) {
    int64_t version;
    if (pawl_state_get_int64(w->state, "step", step, NULL) != PAWL_OK ||
        pawl_state_get_int64(w->state, "version", &version, NULL) != PAWL_OK) {
        return -1;
    }
    return holds(w, *step, version) ? version : -1;
}

static uint64_t *numbers(int64_t count) {
    uint64_t *memory = calloc((size_t)count, sizeof *memory);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

void weights_make(weights *w, int rank, int world_size, int64_t columns) {
    *w = (weights){.rank = rank, .world_size = world_size, .columns = columns};
    w->rows = numbers(row_count(w) * columns);
    w->replica = numbers(columns);
    const int64_t shape[] = {WEIGHTS_ROWS, columns};
    const int64_t offset[] = {rank * row_count(w), 0};
    const int64_t extent[] = {row_count(w), columns};
    const pawl_box held = {.offset = offset, .extent = extent, .data = w->rows};
    const pawl_tensor sharded = {.struct_size = sizeof sharded,
                                 .name = "model/sharded",
                                 .dtype = PAWL_U64,
                                 .ndim = 2,
                                 .shape = shape,
                                 .nboxes = 1,
                                 .boxes = &held,
                                 .box_size = sizeof(pawl_box)};
    const pawl_tensor replicated = {.struct_size = sizeof replicated,
                                    .name = "model/replicated",
                                    .dtype = PAWL_U64,
                                    .ndim = 1,
                                    .shape = &columns,
                                    .data = w->replica,
                                    .replicated = 1};
    pawl_error *err = pawl_error_new();
    must(pawl_state_new(&w->state, err), err);
    must(pawl_state_add_tensor(w->state, &sharded, err), err);
    must(pawl_state_add_tensor(w->state, &replicated, err), err);
    pawl_error_free(err);
    weights_fill(w, 0, 0);
}

void weights_free(weights *w) {
    pawl_state_free(w->state);
    free(w->rows);
    free(w->replica);
}
