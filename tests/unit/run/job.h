/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of several ranks in one process: real threads, one storage in memory that each rank sees
 * through a store of its own, which can be made to fail. Every rank says that it is a process of
 * its own, which lives and dies as the test says. The ranks meet through the storage.
 */
#ifndef RUN_JOB_H
#define RUN_JOB_H

#include "lib/stored.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "checkpoint/checkpoint.h"
#include "run/private.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define JOB_RANKS   4
#define JOB_COLUMNS 64
#define JOB_PID     1000 /* of rank 0; the others follow */

typedef struct job job;

typedef struct job_rank {
    job *job;
    int rank;
    platform os;
    store *fault;
    pawl_run *run;
    pawl_state *state;
    float kernel[JOB_COLUMNS]; /* this rank's row */
    float bias[JOB_COLUMNS];   /* of all, alike */
    pawl_status status;        /* of what it did last */
    struct pawl_error err;
    pawl_save_stats stats;
    void (*watch)(void *rank, const store_trace_event *event); /* NULL: no one */
    char log[8192]; /* what was logged at WARN or above */
} job_rank;

struct job {
    store *late, *disk; /* as in lib/training.h */
    char launch[32];
    atomic_bool dead[JOB_RANKS];
    job_rank ranks[JOB_RANKS];
};

/* ---- who they are --------------------------------------------------------------------------- */

static inline pawl_status job_identity(void *context, process_identity *out, pawl_error *err) {
    (void)err;
    const job_rank *r = context;
    *out = (process_identity){.pid = JOB_PID + r->rank, .start_ticks = 1};
    snprintf(out->host, sizeof out->host, "a");
    snprintf(out->boot_id, sizeof out->boot_id, "boot");
    snprintf(out->pid_namespace, sizeof out->pid_namespace, "pids");
    return PAWL_OK;
}

static inline liveness job_alive(void *context, const process_identity *who) {
    const job_rank *r = context;
    int64_t rank = who->pid - JOB_PID;
    bool dead = rank < 0 || rank >= JOB_RANKS || atomic_load(&r->job->dead[rank]);
    return dead ? PROCESS_DEAD : PROCESS_ALIVE;
}

static inline void job_log(void *context, pawl_log_level level, const char *text) {
    job_rank *r = context;
    if (level <= PAWL_LOG_WARN) {
        size_t at = strlen(r->log);
        snprintf(r->log + at, sizeof r->log - at, "%s\n", text);
    }
}

/* ---- what they have ------------------------------------------------------------------------- */

/* As an optimizer does: not before the save in flight has let go. */
static inline void job_fill(job_rank *r, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    if (r->run != NULL) {
        assert_ok(run_fence(r->run, 30, &err), &err);
    }
    for (int i = 0; i < JOB_COLUMNS; i++) {
        r->kernel[i] = (float)(step * 1000 + r->rank * 100 + i);
        r->bias[i] = (float)(step * 1000 + i);
    }
    assert_ok(state_set_value(r->state, "train/step", PAWL_KIND_INT64, PAWL_ROLE_STEP, false, &step,
                              sizeof step, &err),
              &err);
}

static inline void job_build(job_rank *r) {
    struct pawl_error err = ERROR_INIT;
    static const int64_t shape[] = {JOB_RANKS, JOB_COLUMNS};
    static const int64_t columns[] = {JOB_COLUMNS};
    const int64_t offset[] = {r->rank, 0};
    const int64_t extent[] = {1, JOB_COLUMNS};
    const pawl_box row = {.offset = offset, .extent = extent, .data = r->kernel};
    const pawl_tensor kernel = {.struct_size = sizeof kernel,
                                .name = "model/kernel",
                                .dtype = PAWL_F32,
                                .ndim = 2,
                                .shape = shape,
                                .nboxes = 1,
                                .boxes = &row};
    const pawl_tensor bias = {.struct_size = sizeof bias,
                              .name = "model/bias",
                              .dtype = PAWL_F32,
                              .ndim = 1,
                              .shape = columns,
                              .data = r->bias,
                              .replicated = 1};
    uint8_t seed = (uint8_t)r->rank;
    assert_ok(state_new(&r->state, &err), &err);
    assert_ok(state_add_tensor(r->state, &kernel, &err), &err);
    assert_ok(state_add_tensor(r->state, &bias, &err), &err);
    assert_ok(
        state_set_value(r->state, "rng", PAWL_KIND_BYTES, PAWL_ROLE_RNG, true, &seed, 1, &err),
        &err);
    job_fill(r, 0);
}

/* ---- what they do together ------------------------------------------------------------------ */

typedef struct job_call {
    job_rank *rank;
    void (*body)(job_rank *rank, const void *with);
    const void *with;
} job_call;

static inline void *job_thread(void *argument) {
    const job_call *call = argument;
    call->body(call->rank, call->with);
    return NULL;
}

/* Collective calls: `body` on all ranks at the same time. */
static inline void job_all(job *j, void (*body)(job_rank *rank, const void *with),
                           const void *with) {
    pthread_t threads[JOB_RANKS];
    job_call calls[JOB_RANKS];
    for (int r = 0; r < JOB_RANKS; r++) {
        calls[r] = (job_call){.rank = &j->ranks[r], .body = body, .with = with};
        assert_int_equal(pthread_create(&threads[r], NULL, job_thread, &calls[r]), 0);
    }
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_int_equal(pthread_join(threads[r], NULL), 0);
    }
}

static inline void job_open_rank(job_rank *r, const void *with) {
    store *seen;
    const pawl_group group = {.struct_size = sizeof group,
                              .rank = r->rank,
                              .world_size = JOB_RANKS,
                              .launch = r->job->launch};
    pawl_run_options options = *(const pawl_run_options *)with;
    options.struct_size = sizeof options;
    options.log = &(pawl_log){
        .struct_size = sizeof(pawl_log), .write = job_log, .context = r, .level = PAWL_LOG_WARN};
    options.group = &group;
    r->err = ERROR_INIT;
    r->status = store_trace_wrap(r->fault, &r->os, r->watch, r, &seen, &r->err);
    if (r->status == PAWL_OK) {
        r->status = run_open(seen, &options, &r->os, &r->run, &r->err);
    }
}

static inline void job_open(job *j, pawl_run_options options) {
    job_all(j, job_open_rank, &options);
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_ok(j->ranks[r].status, &j->ranks[r].err);
    }
}

static inline void job_close_rank(job_rank *r, const void *with) {
    (void)with;
    if (r->run != NULL) {
        r->status = run_close(r->run, 30, &r->err);
        r->run = NULL;
    }
}

static inline void job_close(job *j) {
    job_all(j, job_close_rank, NULL);
}

/* ---- saving: none of this waits for another rank on the caller's thread ---------------------- */

static inline pawl_status job_save_rank(job_rank *r, int64_t step) {
    const pawl_save_options options = {.struct_size = sizeof options};
    r->err = ERROR_INIT;
    r->status = run_save(r->run, r->state, step, &options, &r->err);
    return r->status;
}

static inline void job_save(job *j, int64_t step) {
    for (int r = 0; r < JOB_RANKS; r++) {
        job_fill(&j->ranks[r], step);
        assert_ok(job_save_rank(&j->ranks[r], step), &j->ranks[r].err);
    }
}

/* Each rank's status and error are those of the save. */
static inline void job_wait(job *j) {
    for (int r = 0; r < JOB_RANKS; r++) {
        job_rank *k = &j->ranks[r];
        k->err = ERROR_INIT;
        k->status = run_wait(k->run, 30, &k->stats, &k->err);
    }
}

static inline void job_wait_ok(job *j) {
    job_wait(j);
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_ok(j->ranks[r].status, &j->ranks[r].err);
    }
}

static inline void job_save_ok(job *j, int64_t step) {
    job_save(j, step);
    job_wait_ok(j);
}

/* ---- looking -------------------------------------------------------------------------------- */

static inline bool job_committed(job *j, int64_t step) {
    char path[64];
    name_step(path, step);
    strcat(path, "/" NAME_MANIFEST);
    return is_there(j->disk, path);
}

static inline void job_fail(job *j, int rank, store_fault plan) {
    store_fault_set(j->ranks[rank].fault, &plan);
}

/* ---- held operations ------------------------------------------------------------------------- */

static inline void job_until(bool (*done)(job *j), job *j) {
    for (int i = 0; i < 20000 && !done(j); i++) {
        (void)usleep(1000);
    }
    assert_true(done(j));
}

static inline void job_release(job *j, int rank) {
    store_fault_release(j->ranks[rank].fault);
    job_fail(j, rank, (store_fault){0});
}

/* ---- set up --------------------------------------------------------------------------------- */

static inline int job_set_up(void **state) {
    static job j;
    static int launches;
    struct pawl_error err = ERROR_INIT;
    memset(&j, 0, sizeof j);
    snprintf(j.launch, sizeof j.launch, "launch-%d", ++launches);
    assert_ok(store_chosen(platform_system(), &j.late, &err), &err);
    assert_ok(store_truth(j.late, &j.disk, &err), &err);
    for (int r = 0; r < JOB_RANKS; r++) {
        job_rank *k = &j.ranks[r];
        k->job = &j;
        k->rank = r;
        k->os = *platform_system();
        k->os.context = k;
        k->os.identity = job_identity;
        k->os.process_alive = job_alive;
        assert_ok(store_fault_wrap(j.late, &k->os, &k->fault, &err), &err);
        job_build(k);
    }
    *state = &j;
    return 0;
}

static inline int job_tear_down(void **state) {
    job *j = *state;
    for (int r = 0; r < JOB_RANKS; r++) {
        const store_fault none = {0};
        if (store_fault_fired(j->ranks[r].fault)) {
            store_fault_release(j->ranks[r].fault);
        }
        store_fault_set(j->ranks[r].fault, &none);
    }
    job_close(j);
    for (int r = 0; r < JOB_RANKS; r++) {
        state_free(j->ranks[r].state);
        store_destroy(j->ranks[r].fault);
    }
    store_truth_destroy(j->disk, j->late);
    store_destroy(j->late);
    return 0;
}

/* ---- what came of it ------------------------------------------------------------------------- */

static inline void job_all_say(job *j, pawl_status status, const char *words) {
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_fails(j->ranks[r].status, status, &j->ranks[r].err);
        assert_says(j->ranks[r].err.attempt, words);
    }
}

static inline void job_check_rows(job *j, int64_t step) {
    struct pawl_error err = ERROR_INIT;
    pawl_checkpoint *c;
    float all[JOB_RANKS][JOB_COLUMNS];
    float bias[JOB_COLUMNS];
    const pawl_log none = {0};
    assert_ok(checkpoint_open(j->disk, false, step, platform_system(), &none, &c, &err), &err);
    assert_ok(checkpoint_read(c, "model/kernel", NULL, NULL, all, sizeof all, &err), &err);
    assert_ok(checkpoint_read(c, "model/bias", NULL, NULL, bias, sizeof bias, &err), &err);
    for (int r = 0; r < JOB_RANKS; r++) {
        uint8_t seed = 99;
        size_t size;
        assert_memory_equal(all[r], j->ranks[r].kernel, sizeof all[r]);
        assert_ok(checkpoint_read_rank(c, "rng", r, &seed, 1, &size, &err), &err);
        assert_int_equal(seed, r);
    }
    assert_memory_equal(bias, j->ranks[0].bias, sizeof bias);
    pawl_checkpoint_close(c);
}

#endif
