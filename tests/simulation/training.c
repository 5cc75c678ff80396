/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BY_ROW = 1, BY_COLUMN, SHARED, RANDOM };

static uint32_t number(int64_t step, int64_t job, uint32_t tensor, uint64_t index) {
    uint64_t x = (uint64_t)step * 0x9e3779b97f4a7c15U + (uint64_t)job * 0xbf58476d1ce4e5b9U +
                 tensor * UINT64_C(0x94d049bb133111eb) + index * UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(x >> 32);
}

static int64_t begin_of(int64_t all, int rank, int world_size) {
    return all * rank / world_size;
}

static void must(pawl_status status, pawl_error *err) {
    if (status != PAWL_OK) {
        fprintf(stderr, "%s\n", error_text(err));
        abort();
    }
}

/* One rank's box of a tensor of two dimensions that is split along one of them. */
typedef struct part {
    int64_t shape[2], offset[2], extent[2];
} part;

static part part_of(const training *t, int split) {
    part p = {.shape = {t->model.rows, 3}};
    if (split == 1) {
        p.shape[0] = 2;
        p.shape[1] = t->model.columns;
    }
    memcpy(p.extent, p.shape, sizeof p.extent);
    int64_t all = p.shape[split];
    p.offset[split] = begin_of(all, t->rank, t->world_size);
    p.extent[split] = begin_of(all, t->rank + 1, t->world_size) - p.offset[split];
    return p;
}

static void add_split(training *t, const char *name, int split, uint32_t **memory) {
    struct pawl_error err = ERROR_INIT;
    part p = part_of(t, split);
    *memory = calloc((size_t)(p.extent[0] * p.extent[1]) + 1, sizeof **memory);
    if (*memory == NULL) {
        abort();
    }
    if (p.extent[split] == 0) {
        return; /* it lacks what others hold, as a stage of a pipeline does */
    }
    const pawl_box mine = {.offset = p.offset, .extent = p.extent, .data = *memory};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = name,
                                .dtype = PAWL_U32,
                                .ndim = 2,
                                .shape = p.shape,
                                .nboxes = 1,
                                .boxes = &mine};
    must(state_add_tensor(t->state, &tensor, &err), &err);
}

static void set_value(training *t, const char *name, pawl_role role, int64_t value) {
    struct pawl_error err = ERROR_INIT;
    must(state_set_value(t->state, name, PAWL_KIND_INT64, role, false, &value, sizeof value, &err),
         &err);
}

static void set_random(training *t) {
    struct pawl_error err = ERROR_INIT;
    must(state_set_value(t->state, "random", PAWL_KIND_BYTES, PAWL_ROLE_RNG, true, t->random,
                         sizeof t->random, &err),
         &err);
}

void training_make(training *t, const model *m, int rank, int world_size, bool odd) {
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {(int64_t)ARRAY_LENGTH(t->shared) - odd};
    *t = (training){.rank = rank, .world_size = world_size, .model = *m};
    must(state_new(&t->state, &err), &err);
    add_split(t, "model/by_row", 0, &t->by_row);
    add_split(t, "model/by_column", 1, &t->by_column);
    const pawl_tensor shared = {.struct_size = sizeof shared,
                                .name = "model/shared",
                                .dtype = PAWL_U32,
                                .ndim = 1,
                                .shape = shape,
                                .data = t->shared,
                                .replicated = 1};
    must(state_add_tensor(t->state, &shared, &err), &err);
    set_value(t, "step", PAWL_ROLE_STEP, 0);
    set_value(t, "job", PAWL_ROLE_OTHER, 0);
    set_random(t);
}

void training_free(training *t) {
    state_free(t->state);
    free(t->by_row);
    free(t->by_column);
    *t = (training){.rank = t->rank};
}

/* Calls `each` for every number of the rank: where it is, and what it should be. */
static bool for_all(const training *t, int64_t step, int64_t job,
                    bool (*each)(uint32_t *at, uint32_t wanted)) {
    bool good = true;
    part rows = part_of(t, 0);
    for (int64_t i = 0; i < rows.extent[0] * 3; i++) {
        uint64_t index = (uint64_t)(rows.offset[0] * 3 + i);
        good = each(&t->by_row[i], number(step, job, BY_ROW, index)) && good;
    }
    part columns = part_of(t, 1);
    for (int64_t i = 0; i < 2 * columns.extent[1]; i++) {
        int64_t row = i / columns.extent[1];
        int64_t column = columns.offset[1] + i % columns.extent[1];
        uint64_t index = (uint64_t)(row * t->model.columns + column);
        good = each(&t->by_column[i], number(step, job, BY_COLUMN, index)) && good;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(t->shared); i++) {
        good = each((uint32_t *)&t->shared[i], number(step, job, SHARED, i)) && good;
    }
    return good;
}

static bool put(uint32_t *at, uint32_t wanted) {
    *at = wanted;
    return true;
}

static bool same(uint32_t *at, uint32_t wanted) { // NOLINT(readability-non-const-parameter)
    return *at == wanted;
}

static uint32_t random_number(const training *t, int64_t step, int64_t job, size_t i) {
    return number(step, job, RANDOM, (uint64_t)t->rank * ARRAY_LENGTH(t->random) + i);
}

void training_set(training *t, int64_t step, int64_t job) {
    (void)for_all(t, step, job, put);
    for (size_t i = 0; i < ARRAY_LENGTH(t->random); i++) {
        t->random[i] = random_number(t, step, job, i);
    }
    set_value(t, "step", PAWL_ROLE_STEP, step);
    set_value(t, "job", PAWL_ROLE_OTHER, job);
    set_random(t);
}

void training_differ(training *t) {
    set_value(t, "job", PAWL_ROLE_OTHER, -1000);
}

static bool get_value(const training *t, const char *name, int64_t *out) {
    struct pawl_error err = ERROR_INIT;
    const state_entry *entry;
    if (state_get_value(t->state, name, PAWL_KIND_INT64, &entry, &err) != PAWL_OK) {
        return false;
    }
    memcpy(out, entry->value, sizeof *out);
    return true;
}

/* Of the checkpoint's rank of this number; or as it was, when that had none. */
static bool random_fits(const training *t, int64_t step, int64_t job) {
    struct pawl_error err = ERROR_INIT;
    const state_entry *entry;
    uint32_t wanted[ARRAY_LENGTH(t->random)];
    for (size_t i = 0; i < ARRAY_LENGTH(wanted); i++) {
        wanted[i] = random_number(t, step, job, i);
    }
    return state_get_value(t->state, "random", PAWL_KIND_BYTES, &entry, &err) == PAWL_OK &&
           entry->value_bytes == sizeof wanted &&
           (memcmp(entry->value, wanted, sizeof wanted) == 0 ||
            memcmp(entry->value, t->random, sizeof wanted) == 0);
}

bool training_look(const training *t, int64_t *step, int64_t *job) {
    return get_value(t, "step", step) && get_value(t, "job", job) &&
           for_all(t, *step, *job, same) && random_fits(t, *step, *job);
}
