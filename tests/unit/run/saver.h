/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trainer alone: a small state, and a run in memory, through a store that can be made to fail.
 */
#ifndef RUN_SAVER_H
#define RUN_SAVER_H

#include "lib/simulated_platform.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "checkpoint/checkpoint.h"
#include "run/private.h"

#include <stdio.h>
#include <string.h>

typedef struct fixture {
    store *disk, *fault;
    simulated_platform os;
    pawl_run *run;
    pawl_state *state;
    float kernel[4][8];
    char log[8192]; /* what was logged at WARN or above */
    /* After each operation of the run on the storage; NULL: nothing. */
    void (*after)(void *fixture, const store_trace_event *event);
} fixture;

static inline void take_log(void *context, pawl_log_level level, const char *text) {
    fixture *f = context;
    if (level <= PAWL_LOG_WARN) {
        size_t at = strlen(f->log);
        snprintf(f->log + at, sizeof f->log - at, "%s\n", text);
    }
}

static inline void add_kernel(fixture *f) {
    static const int64_t shape[] = {4, 8};
    struct pawl_error err = ERROR_INIT;
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "model/kernel",
                                .dtype = PAWL_F32,
                                .ndim = 2,
                                .shape = shape,
                                .data = f->kernel};
    assert_ok(state_new(&f->state, &err), &err);
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
}

/* A run in memory, on a platform of the test's choice, through a store that can be made to fail. */
static inline void open_run(fixture *f, const platform *os, pawl_run_options options) {
    struct pawl_error err = ERROR_INIT;
    store *seen;
    options.struct_size = sizeof options;
    options.log = (pawl_log){.write = take_log, .context = f, .level = PAWL_LOG_WARN};
    assert_ok(store_trace_wrap(f->fault, os, f->after, f, &seen, &err), &err);
    assert_ok(run_open(seen, &options, os, &f->run, &err), &err);
}

static inline int set_up_on(void **state, const platform *os) {
    static fixture f;
    struct pawl_error err = ERROR_INIT;
    memset(&f, 0, sizeof f);
    simulated_platform_init(&f.os, 1);
    assert_ok(store_mem(&f.disk, &err), &err);
    assert_ok(store_fault_wrap(f.disk, os != NULL ? os : &f.os.table, &f.fault, &err), &err);
    add_kernel(&f);
    *state = &f;
    return 0;
}

static inline int set_up(void **state) {
    return set_up_on(state, NULL);
}

static inline int set_up_threads(void **state) {
    return set_up_on(state, platform_system());
}

static inline int tear_down(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    if (store_fault_fired(f->fault)) {
        store_fault_release(f->fault);
    }
    if (f->run != NULL) {
        (void)run_close(f->run, 5, &err);
    }
    state_free(f->state);
    store_destroy(f->fault);
    store_destroy(f->disk);
    return 0;
}

static inline pawl_status save(fixture *f, int64_t step, pawl_error *err) {
    const pawl_save_options options = {.struct_size = sizeof options};
    return run_save(f->run, f->state, step, &options, err);
}

static inline void save_and_wait(fixture *f, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(save(f, step, &err), &err);
    assert_ok(run_wait(f->run, 0, NULL, &err), &err);
}

static inline bool committed(fixture *f, int64_t step) {
    char path[64];
    struct pawl_error err = ERROR_INIT;
    store_stat found;
    name_step(path, step);
    strcat(path, "/" NAME_MANIFEST);
    return store_stat_path(f->disk, path, &found, &err) == PAWL_OK;
}

static inline bool exists(fixture *f, const char *path) {
    struct pawl_error err = ERROR_INIT;
    store_stat found;
    return store_stat_path(f->disk, path, &found, &err) == PAWL_OK;
}

#endif
