/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training in memory: a state, a run through a store that can be made to fail, its checkpoints,
 * and ways to damage them.
 */
#ifndef LIB_TRAINING_H
#define LIB_TRAINING_H

#include "lib/random.h"
#include "lib/simulated_platform.h"
#include "lib/stored.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "checkpoint/native.h"
#include "checkpoint/private.h"
#include "run/private.h"

#include <stdio.h>
#include <string.h>

#define TRAINING_ROWS    64
#define TRAINING_COLUMNS 128

typedef struct training {
    store *late, *disk, *fault; /* disk: what is there; the run sees `late`, which is the same
                                 * but on storage that is late */
    simulated_platform os;
    pawl_run *run;
    pawl_state *state;
    float kernel[TRAINING_ROWS][TRAINING_COLUMNS];
    float bias[TRAINING_COLUMNS];
    float slot[TRAINING_ROWS][TRAINING_COLUMNS];
    pawl_checkpoint *checkpoint;
    char log[16384];   /* what was logged at WARN or above */
    int no_event_file; /* for training_open_run */
    bool small;        /* the state is the kernel's first rows, and no save changes it */
    /* After each operation of the run on the storage; NULL: nothing. */
    void (*after)(void *training, const store_trace_event *event);
} training;

static inline void training_take_log(void *context, pawl_log_level level, const char *text) {
    training *f = context;
    if (level <= PAWL_LOG_WARN) {
        size_t at = strlen(f->log);
        snprintf(f->log + at, sizeof(f->log) - at, "%s\n", text);
    }
}

static inline void training_add(training *f, const char *name, int ndim, const int64_t *shape,
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

static inline void training_set(training *f, const char *name, pawl_kind kind, pawl_role role,
                                bool per_rank, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(state_set_value(f->state, name, kind, role, per_rank, bytes, n, &err), &err);
}

/* Every byte of the state follows from the step. */
static inline void training_fill(training *f, int64_t step) {
    test_random random = {.state = (uint64_t)step};
    char position[64];
    double rate = 0.001;
    uint8_t on = step % 200 == 0;
    uint8_t rng[24];
    for (size_t i = 0; i < TRAINING_COLUMNS; i++) {
        for (size_t row = 0; row < TRAINING_ROWS; row++) {
            f->kernel[row][i] = (float)random_below(&random, 1000000);
            f->slot[row][i] = (float)random_below(&random, 1000000);
        }
        f->bias[i] = (float)random_below(&random, 1000000);
    }
    random_fill(&random, rng, sizeof(rng));
    int n = snprintf(position, sizeof(position), "{\"epoch\":%lld}", (long long)step);
    training_set(f, "data/position", PAWL_KIND_JSON, PAWL_ROLE_DATA_POSITION, false, position,
                 (size_t)n);
    training_set(f, "optimizer/class", PAWL_KIND_STRING, PAWL_ROLE_HYPERPARAMETER, false, "adam",
                 4);
    training_set(f, "optimizer/rate", PAWL_KIND_FLOAT64, PAWL_ROLE_HYPERPARAMETER, false, &rate, 8);
    training_set(f, "rng", PAWL_KIND_BYTES, PAWL_ROLE_RNG, true, rng, sizeof(rng));
    training_set(f, "shuffled", PAWL_KIND_BOOL, PAWL_ROLE_OTHER, false, &on, 1);
    training_set(f, "step", PAWL_KIND_INT64, PAWL_ROLE_STEP, false, &step, 8);
}

static inline void training_make_state(training *f) {
    static const int64_t some_rows[] = {4, 8};
    static const int64_t matrix[] = {TRAINING_ROWS, TRAINING_COLUMNS};
    static const int64_t vector[] = {TRAINING_COLUMNS};
    struct pawl_error err = ERROR_INIT;
    assert_ok(state_new(&f->state, &err), &err);
    if (f->small) {
        training_add(f, "model/kernel", 2, some_rows, f->kernel, NULL);
        return;
    }
    training_add(f, "model/dense/kernel", 2, matrix, f->kernel, NULL);
    training_add(f, "model/dense/bias", 1, vector, f->bias, NULL);
    training_add(f, "optimizer/m", 2, matrix, f->slot, "model/dense/kernel");
}

/* On a platform and with options of the test's choice. */
static inline void training_open_with(training *f, const platform *os, pawl_run_options options) {
    struct pawl_error err = ERROR_INIT;
    store *seen;
    options.struct_size = sizeof(options);
    options.log = &(pawl_log){.struct_size = sizeof(pawl_log),
                              .write = training_take_log,
                              .context = f,
                              .level = PAWL_LOG_WARN};
    assert_ok(store_trace_wrap(f->fault, os, f->after, f, &seen, &err), &err);
    assert_ok(run_open(seen, &options, os, &f->run, &err), &err);
}

static inline void training_open_run(training *f) {
    training_open_with(
        f, &f->os.table,
        (pawl_run_options){.framework = "tests 1.0", .no_event_file = f->no_event_file});
}

static inline void training_close_run(training *f) {
    struct pawl_error err = ERROR_INIT;
    if (f->run != NULL) {
        assert_ok(run_close(f->run, 0, &err), &err);
        f->run = NULL;
    }
}

/* Of the state as it is; does not wait. */
static inline pawl_status training_begin(training *f, int64_t step, pawl_error *err) {
    const pawl_metric loss = {.name = "loss", .value = 0.5};
    const pawl_save_options options = {
        .struct_size = sizeof(options), .metrics = &loss, .metric_count = 1};
    return run_save(f->run, f->state, step, &options, err);
}

static inline void training_save(training *f, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    if (!f->small) {
        training_fill(f, step);
    }
    assert_ok(training_begin(f, step, &err), &err);
    assert_ok(run_wait(f->run, 0, NULL, &err), &err);
}

static inline int training_set_up_on(void **state, const platform *os, bool small) {
    static training f;
    struct pawl_error err = ERROR_INIT;
    memset(&f, 0, sizeof(f));
    f.small = small;
    simulated_platform_init(&f.os, 1);
    f.os.unix_time_ns = 1700000000000000000;
    assert_ok(store_chosen(os != NULL ? os : &f.os.table, &f.late, &err), &err);
    assert_ok(store_truth(f.late, &f.disk, &err), &err);
    assert_ok(store_fault_wrap(f.late, os != NULL ? os : &f.os.table, &f.fault, &err), &err);
    training_make_state(&f);
    *state = &f;
    return 0;
}

static inline int training_set_up(void **state) {
    return training_set_up_on(state, NULL, false);
}

static inline int training_set_up_small(void **state) {
    return training_set_up_on(state, NULL, true);
}

/* Small, with real threads; hangs are met in real time. */
static inline int training_set_up_threads(void **state) {
    return training_set_up_on(state, platform_system(), true);
}

/* Steps 100, 200 and 300. */
static inline int training_set_up_steps(void **state) {
    (void)training_set_up(state);
    training *f = *state;
    training_open_run(f);
    training_save(f, 100);
    training_save(f, 200);
    training_save(f, 300);
    return 0;
}

/* Another host takes the run over. */
static inline void training_usurp(training *f) {
    static const char record[] =
        "{\"counter\":\"00000000000000000001\",\"host\":\"node9\",\"pid\":9,\"generation\":2,"
        "\"attempt\":\"ba9876543210\",\"lease_s\":30}";
    put_anew(f->disk, f->disk->traits.objects ? NAME_OWNER_OBJECT : "owner-00000002", record,
             sizeof(record) - 1);
}

/* A run whose storage was made to fail may not close well. */
static inline int training_tear_down(void **state) {
    training *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint_close(f->checkpoint);
    if (store_fault_fired(f->fault)) {
        store_fault_release(f->fault);
        (void)run_close(f->run, 5, &err);
    } else {
        training_close_run(f);
    }
    state_free(f->state);
    store_destroy(f->fault);
    store_truth_destroy(f->disk, f->late);
    store_destroy(f->late);
    return 0;
}

static inline pawl_status training_open(training *f, int64_t step, pawl_error *err) {
    const pawl_log log = {.write = training_take_log, .context = f, .level = PAWL_LOG_WARN};
    pawl_checkpoint_close(f->checkpoint);
    f->checkpoint = NULL;
    return checkpoint_open(f->fault, false, step, &f->os.table, &log, &f->checkpoint, err);
}

/* Of the open checkpoint. */
static inline manifest *training_manifest(training *f) {
    return &((native_source *)f->checkpoint->source)->manifest;
}

/* ---- what is there -------------------------------------------------------------------------- */

static inline bool training_exists(training *f, const char *path) {
    return is_there(f->disk, path);
}

static inline bool training_committed(training *f, int64_t step) {
    char path[64];
    name_step(path, step);
    strcat(path, "/" NAME_MANIFEST);
    return training_exists(f, path);
}

/* The run sees what the test has put. */
static inline void training_catch_up(training *f) {
    if (f->late != f->disk) {
        store_objects_catch_up(f->late);
    }
}

/* ---- files of a step ------------------------------------------------------------------------ */

/* The path of the step's first file of that kind. */
static inline void training_path(training *f, int64_t step, name_kind kind, char out[256]) {
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

static inline void training_take_file(training *f, const char *path, buffer *out) {
    struct pawl_error err = ERROR_INIT;
    out->size = 0;
    assert_ok(store_read_file(f->disk, path, 1u << 30, out, &err), &err);
}

static inline void training_flip(training *f, const char *path, size_t at) {
    CLEANUP(buffer_free) buffer bytes = {0};
    training_take_file(f, path, &bytes);
    assert_true(at < bytes.size);
    bytes.data[at] ^= 0x10;
    put_anew(f->disk, path, bytes.data, bytes.size);
}

static inline void training_truncate(training *f, const char *path, size_t size) {
    CLEANUP(buffer_free) buffer bytes = {0};
    training_take_file(f, path, &bytes);
    put_anew(f->disk, path, bytes.data, size);
}

/* Where the bytes of an entry's first piece begin in the step's data file. */
static inline uint64_t training_offset_of(training *f, int64_t step, const char *name) {
    char path[256];
    struct pawl_error err = ERROR_INIT;
    CLEANUP(safetensors_header_free) safetensors_header header = {0};
    CLEANUP(buffer_free) buffer bytes = {0};
    training_path(f, step, NAME_KIND_DATA, path);
    training_take_file(f, path, &bytes);
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
