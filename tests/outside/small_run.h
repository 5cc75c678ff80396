/* SPDX-License-Identifier: Apache-2.0 */
/* A run of one small tensor in a directory of its own, with a log that is kept. */
#ifndef OUTSIDE_SMALL_RUN_H
#define OUTSIDE_SMALL_RUN_H

#include "lib/directory.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SMALL_ELEMENTS 256

typedef struct small_run {
    char base[64]; /* a directory for whatever lies beside the run */
    char path[96];
    float w[SMALL_ELEMENTS];
    pawl_state *state;
    pawl_run *run;
    pawl_error *err;
    pawl_log log_options;
    char log[16384]; /* what was said, and how often */
    int said;
    pthread_mutex_t talking; /* heartbeats speak, too */
} small_run;

static inline void small_log(void *context, pawl_log_level level, const char *text) {
    small_run *s = context;
    (void)level;
    pthread_mutex_lock(&s->talking);
    size_t n = strlen(s->log);
    (void)snprintf(s->log + n, sizeof s->log - n, "%s\n", text);
    s->said++;
    pthread_mutex_unlock(&s->talking);
}

static inline pawl_run_options small_options(small_run *s) {
    s->log_options = (pawl_log){
        .struct_size = sizeof(pawl_log), .write = small_log, .context = s, .level = PAWL_LOG_WARN};
    return (pawl_run_options){
        .struct_size = sizeof(pawl_run_options), .lease_s = 1, .log = &s->log_options};
}

static inline int small_set_up(void **state) {
    static small_run s;
    static const int64_t shape[] = {SMALL_ELEMENTS};
    memset(&s, 0, sizeof s);
    directory_new(s.base, "/tmp");
    assert_int_equal(pthread_mutex_init(&s.talking, NULL), 0);
    (void)snprintf(s.path, sizeof s.path, "%s/run", s.base);
    s.err = pawl_error_new();
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "w",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = s.w};
    assert_ok(pawl_state_new(&s.state, s.err), s.err);
    assert_ok(pawl_state_add_tensor(s.state, &tensor, s.err), s.err);
    *state = &s;
    return 0;
}

static inline void small_open(small_run *s) {
    const pawl_run_options options = small_options(s);
    assert_ok(pawl_run_open(s->path, &options, &s->run, s->err), s->err);
}

static inline pawl_status small_try_save(small_run *s, int64_t step) {
    for (size_t i = 0; i < SMALL_ELEMENTS; i++) {
        s->w[i] = (float)(step * 1000 + (int64_t)i);
    }
    pawl_status status = pawl_save(s->run, s->state, step, NULL, s->err);
    return status == PAWL_OK ? pawl_wait(s->run, 0, NULL, s->err) : status;
}

static inline void small_save(small_run *s, int64_t step) {
    assert_ok(small_try_save(s, step), s->err);
}

/* Keeps all steps, or the last so many. Whoever asked closes it. */
static inline pawl_run *small_open_keeping(small_run *s, int64_t keep_last) {
    pawl_run *run = NULL;
    pawl_run_options options = small_options(s);
    const pawl_retention retention = {.struct_size = sizeof retention, .keep_last = keep_last};
    options.retention = &retention;
    assert_ok(pawl_run_open(s->path, &options, &run, s->err), s->err);
    return run;
}

static inline pawl_status small_save_to(small_run *s, pawl_run *run, int64_t step) {
    pawl_status status = pawl_save(run, s->state, step, NULL, s->err);
    return status == PAWL_OK ? pawl_wait(run, 0, NULL, s->err) : status;
}

static inline void small_close(small_run *s) {
    assert_ok(pawl_run_close(s->run, 0, s->err), s->err);
    s->run = NULL;
}

/* Steps 1 and 2. */
static inline void small_make(small_run *s) {
    small_open(s);
    small_save(s, 1);
    small_save(s, 2);
    small_close(s);
}

static inline int small_tear_down(void **state) {
    small_run *s = *state;
    (void)pawl_run_close(s->run, 5, s->err);
    pawl_state_free(s->state);
    pawl_error_free(s->err);
    (void)pthread_mutex_destroy(&s->talking);
    directory_delete(s->base);
    return 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

/* A path in the run. */
static inline const char *small_at(const small_run *s, char out[256], const char *name) {
    (void)snprintf(out, 256, "%s/%s", s->path, name);
    return out;
}

static inline void small_write(const char *path, const void *data, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    close(fd);
}

/* One tensor of so many bytes, waited for: where no fixture is at hand, as in a child. */
static inline pawl_status small_save_bytes(pawl_run *run, int64_t step, int64_t bytes,
                                           pawl_error *err) {
    void *memory = calloc(1, (size_t)bytes);
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "w",
                                .dtype = PAWL_U8,
                                .ndim = 1,
                                .shape = &bytes,
                                .data = memory};
    pawl_state *values = NULL;
    pawl_status status = pawl_state_new(&values, err);
    status = status == PAWL_OK ? pawl_state_add_tensor(values, &tensor, err) : status;
    status = status == PAWL_OK ? pawl_save(run, values, step, NULL, err) : status;
    status = status == PAWL_OK ? pawl_wait(run, 0, NULL, err) : status;
    pawl_state_free(values);
    free(memory);
    return status;
}

/* As text; "" where it cannot be read. Returns `out`. */
static inline const char *small_read(const char *path, char *out, size_t size) {
    int fd = open(path, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, out, size - 1) : 0;
    out[n > 0 ? n : 0] = '\0';
    if (fd >= 0) {
        close(fd);
    }
    return out;
}

static inline bool small_there(const char *path) {
    struct stat found;
    return lstat(path, &found) == 0;
}

static inline void small_sleep(double seconds) {
    const struct timespec pause = {.tv_sec = (time_t)seconds,
                                   .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&pause, NULL);
}

#endif
