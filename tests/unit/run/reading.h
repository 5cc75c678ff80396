/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of reading share: a run in memory with a few checkpoints, and ways to
 * damage them. */
#ifndef RUN_READING_H
#define RUN_READING_H

#include "lib/random.h"
#include "lib/simulated_platform.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "checkpoint/private.h"
#include "run/private.h"

#include <stdio.h>
#include <string.h>

#define READING_ROWS    64
#define READING_COLUMNS 128

typedef struct reading {
    store *disk, *fault;
    simulated_platform os;
    pawl_run *run;
    pawl_state *state;
    float kernel[READING_ROWS][READING_COLUMNS];
    float bias[READING_COLUMNS];
    float slot[READING_ROWS][READING_COLUMNS];
    pawl_checkpoint *checkpoint;
    char log[16384];   /* what was logged at WARN or above */
    int no_event_file; /* for reading_open_run */
} reading;

static inline void reading_take_log(void *context, pawl_log_level level, const char *text) {
    reading *f = context;
    if (level <= PAWL_LOG_WARN) {
        size_t at = strlen(f->log);
        snprintf(f->log + at, sizeof(f->log) - at, "%s\n", text);
    }
}

static inline void reading_add(reading *f, const char *name, int ndim, const int64_t *shape,
                               void *data, const char *slot_of) {
    struct pawl_error err = ERROR_INIT;
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = name,
                                .dtype = PAWL_F32,
                                .ndim = ndim,
                                .shape = shape,
                                .data = data,
                                .role = slot_of != NULL ? PAWL_ROLE_SLOT : PAWL_ROLE_MODEL,
                                .slot_of = slot_of,
                                .slot = slot_of != NULL ? "adam/m" : NULL};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
}

static inline void reading_set(reading *f, const char *name, pawl_kind kind, pawl_role role,
                               bool per_rank, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(state_set_value(f->state, name, kind, role, per_rank, bytes, n, &err), &err);
}

/* Every byte of the state follows from the step. */
static inline void reading_fill(reading *f, int64_t step) {
    test_random random = {.state = (uint64_t)step};
    char position[64];
    double rate = 0.001;
    uint8_t on = step % 200 == 0;
    uint8_t rng[24];
    for (size_t i = 0; i < READING_COLUMNS; i++) {
        for (size_t row = 0; row < READING_ROWS; row++) {
            f->kernel[row][i] = (float)random_below(&random, 1000000);
            f->slot[row][i] = (float)random_below(&random, 1000000);
        }
        f->bias[i] = (float)random_below(&random, 1000000);
    }
    random_fill(&random, rng, sizeof(rng));
    int n = snprintf(position, sizeof(position), "{\"epoch\":%lld}", (long long)step);
    reading_set(f, "data/position", PAWL_KIND_JSON, PAWL_ROLE_DATA_POSITION, false, position,
                (size_t)n);
    reading_set(f, "optimizer/class", PAWL_KIND_STRING, PAWL_ROLE_HYPERPARAMETER, false, "adam", 4);
    reading_set(f, "optimizer/rate", PAWL_KIND_FLOAT64, PAWL_ROLE_HYPERPARAMETER, false, &rate, 8);
    reading_set(f, "rng", PAWL_KIND_BYTES, PAWL_ROLE_RNG, true, rng, sizeof(rng));
    reading_set(f, "shuffled", PAWL_KIND_BOOL, PAWL_ROLE_OTHER, false, &on, 1);
    reading_set(f, "step", PAWL_KIND_INT64, PAWL_ROLE_STEP, false, &step, 8);
}

static inline void reading_make_state(reading *f) {
    static const int64_t matrix[] = {READING_ROWS, READING_COLUMNS};
    static const int64_t vector[] = {READING_COLUMNS};
    struct pawl_error err = ERROR_INIT;
    assert_ok(state_new(&f->state, &err), &err);
    reading_add(f, "model/dense/kernel", 2, matrix, f->kernel, NULL);
    reading_add(f, "model/dense/bias", 1, vector, f->bias, NULL);
    reading_add(f, "optimizer/m", 2, matrix, f->slot, "model/dense/kernel");
}

static inline void reading_open_run(reading *f) {
    struct pawl_error err = ERROR_INIT;
    store *seen;
    const pawl_run_options options = {
        .struct_size = sizeof(options),
        .framework = "tests 1.0",
        .no_event_file = f->no_event_file,
        .log = {.write = reading_take_log, .context = f, .level = PAWL_LOG_WARN}};
    assert_ok(store_trace_wrap(f->fault, &f->os.table, NULL, NULL, &seen, &err), &err);
    assert_ok(run_open(seen, &options, &f->os.table, &f->run, &err), &err);
}

static inline void reading_close_run(reading *f) {
    struct pawl_error err = ERROR_INIT;
    if (f->run != NULL) {
        assert_ok(run_close(f->run, 0, &err), &err);
        f->run = NULL;
    }
}

static inline void reading_save(reading *f, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    const pawl_metric loss = {.name = "loss", .value = 0.5};
    const pawl_save_options options = {
        .struct_size = sizeof(options), .metrics = &loss, .metric_count = 1};
    reading_fill(f, step);
    assert_ok(run_save(f->run, f->state, step, &options, &err), &err);
    assert_ok(run_wait(f->run, 0, NULL, &err), &err);
}

static inline int reading_set_up(void **state) {
    static reading f;
    struct pawl_error err = ERROR_INIT;
    memset(&f, 0, sizeof(f));
    simulated_platform_init(&f.os, 1);
    f.os.unix_time_ns = 1700000000000000000;
    assert_ok(store_mem(&f.disk, &err), &err);
    assert_ok(store_fault_wrap(f.disk, &f.os.table, &f.fault, &err), &err);
    reading_make_state(&f);
    *state = &f;
    return 0;
}

/* Steps 100, 200 and 300. */
static inline int reading_set_up_steps(void **state) {
    (void)reading_set_up(state);
    reading *f = *state;
    reading_open_run(f);
    reading_save(f, 100);
    reading_save(f, 200);
    reading_save(f, 300);
    return 0;
}

static inline int reading_tear_down(void **state) {
    reading *f = *state;
    pawl_checkpoint_close(f->checkpoint);
    reading_close_run(f);
    state_free(f->state);
    store_destroy(f->fault);
    store_destroy(f->disk);
    return 0;
}

static inline pawl_status reading_open(reading *f, int64_t step, pawl_error *err) {
    const pawl_log log = {.write = reading_take_log, .context = f, .level = PAWL_LOG_WARN};
    pawl_checkpoint_close(f->checkpoint);
    f->checkpoint = NULL;
    return checkpoint_open(f->fault, false, step, &f->os.table, &log, &f->checkpoint, err);
}

/* ---- files of a step ------------------------------------------------------------------------ */

/* The path of the step's first file of that kind. */
static inline void reading_path(reading *f, int64_t step, name_kind kind, char out[256]) {
    CLEANUP(arena_free) arena memory = {0};
    struct pawl_error err = ERROR_INIT;
    char directory[32];
    char **names;
    size_t count;
    name_step(directory, step);
    out[0] = '\0';
    assert_ok(store_names(f->disk, directory, 1000, &memory, &names, &count, &err), &err);
    for (size_t i = 0; i < count && out[0] == '\0'; i++) {
        if (name_classify(names[i], NULL) == kind) {
            snprintf(out, 256, "%s/%s", directory, names[i]);
        }
    }
    assert_true(out[0] != '\0');
}

static inline void reading_take_file(reading *f, const char *path, buffer *out) {
    struct pawl_error err = ERROR_INIT;
    out->size = 0;
    assert_ok(store_read_file(f->disk, path, 1u << 30, out, &err), &err);
}

static inline void reading_put_file(reading *f, const char *path, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    store_file *file;
    (void)!store_unlink(f->disk, path, &err);
    assert_ok(store_open(f->disk, path, STORE_CREATE, &file, &err), &err);
    assert_ok(store_write(file, 0, bytes, n, &err), &err);
    store_close(file);
}

static inline void reading_flip(reading *f, const char *path, size_t at) {
    CLEANUP(buffer_free) buffer bytes = {0};
    reading_take_file(f, path, &bytes);
    assert_true(at < bytes.size);
    bytes.data[at] ^= 0x10;
    reading_put_file(f, path, bytes.data, bytes.size);
}

static inline void reading_truncate(reading *f, const char *path, size_t size) {
    CLEANUP(buffer_free) buffer bytes = {0};
    reading_take_file(f, path, &bytes);
    reading_put_file(f, path, bytes.data, size);
}

/* Where the bytes of an entry's first piece begin in the step's data file. */
static inline uint64_t reading_offset_of(reading *f, int64_t step, const char *name) {
    char path[256];
    struct pawl_error err = ERROR_INIT;
    CLEANUP(safetensors_header_free) safetensors_header header = {0};
    CLEANUP(buffer_free) buffer bytes = {0};
    reading_path(f, step, NAME_KIND_DATA, path);
    reading_take_file(f, path, &bytes);
    byte_source source = byte_source_memory(&bytes);
    assert_ok(safetensors_decode(&source, &header, &err), &err);
    for (size_t i = 0; i < header.tensor_count; i++) {
        if (strcmp(header.tensors[i].name, name) == 0) {
            return header.tensors[i].offset;
        }
    }
    fail_msg("no %s in %s", name, path);
    return 0;
}

#endif
