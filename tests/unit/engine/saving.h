/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the writing engine share: a state, its layout, a store that can be made to
 * fail, and a job that notes what is called. */
#ifndef ENGINE_SAVING_H
#define ENGINE_SAVING_H

#include "lib/device.h"
#include "lib/simulated_platform.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "engine/save.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SAVING_BUFFER_BYTES ((size_t)FORMAT_BLOCK_BYTES)
#define SAVING_TENSORS      5

typedef struct saving {
    store *disk, *fault;
    device *device; /* that has the tensors; NULL: they are in host memory */
    simulated_platform simulated;
    const platform *os;
    pawl_state *state;
    state_snapshot *snapshot;
    plan_layout *layout;
    engine *engine;
    uint8_t *memory[SAVING_TENSORS];
    size_t bytes[SAVING_TENSORS];

    /* What the job was told. */
    char calls[64];             /* "released commit done " */
    bool read_elsewhere;        /* given to engine_begin */
    _Atomic bool prepare_waits; /* as long as it is set */
    pawl_status prepare_status, commit_status;
    void (*on_commit)(struct saving *f);
    uint32_t *checksums; /* of all files, one after the other, at commit */
    size_t checksum_count;
    pawl_status done_status;
    struct pawl_error done_story;
    _Atomic int done;
    _Atomic int hung;
    struct pawl_error hung_story;
    uint64_t progress_calls, progress_written;
} saving;

static inline void saving_fill(saving *f, size_t i) {
    test_random random = {.state = i + 1};
    random_fill(&random, f->memory[i], f->bytes[i]);
}

static inline void saving_add(saving *f, size_t i, const char *name, size_t bytes) {
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {(int64_t)bytes};
    f->bytes[i] = bytes;
    f->memory[i] = mem_alloc(bytes);
    saving_fill(f, i);
    const pawl_tensor tensor = {
        .struct_size = sizeof(tensor),
        .name = name,
        .dtype = PAWL_U8,
        .ndim = 1,
        .shape = shape,
        .data = f->device != NULL ? device_hold(f->device, f->memory[i], bytes) : f->memory[i],
        .memory = f->device != NULL ? device_memory(f->device) : NULL};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
}

/* A new layout of the state; a small limit of the header makes several files. */
static inline void saving_lay_out(saving *f, uint64_t split_header_bytes) {
    struct pawl_error err = ERROR_INIT;
    plan_layout_free(f->layout);
    state_snapshot_free(f->snapshot);
    f->layout = NULL;
    f->snapshot = NULL;
    plan_layout_options options = {
        .tag = "0123456789ab-1", .world_size = 1, .split_header_bytes = split_header_bytes};
    assert_ok(state_snapshot_take(f->state, 7, true, &f->snapshot, &err), &err);
    assert_ok(plan_layout_make(f->snapshot, &options, &f->layout, &err), &err);
}

/* One write at a time unless told otherwise, so that a test knows which is the nth. */
static inline void saving_engine_with(saving *f, engine_options options) {
    struct pawl_error err = ERROR_INIT;
    options.platform = f->os;
    options.buffer_bytes = SAVING_BUFFER_BYTES;
    if (options.in_flight_bytes == 0) {
        options.in_flight_bytes = SAVING_BUFFER_BYTES;
    }
    assert_ok(engine_new(&options, &f->engine, &err), &err);
}

static inline void saving_engine(saving *f, size_t budget_bytes, bool checking) {
    saving_engine_with(f, (engine_options){.budget_bytes = budget_bytes, .checking = checking});
}

/* Before what a save has read is changed for good. */
static inline void saving_engine_free_now(saving *f) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(engine_free(f->engine, 60, &err), &err);
    f->engine = NULL;
}

static inline int saving_set_up_on(void **state, bool threads, const device_plan *plan) {
    static saving f;
    struct pawl_error err = ERROR_INIT;
    memset(&f, 0, sizeof(f));
    f.device = plan != NULL ? device_new(plan) : NULL;
    simulated_platform_init(&f.simulated, 1);
    f.os = threads ? platform_system() : &f.simulated.table;
    assert_ok(store_mem(&f.disk, &err), &err);
    assert_ok(store_fault_wrap(f.disk, f.os, &f.fault, &err), &err);
    assert_ok(store_make_dir(f.disk, "step-00000007", &err), &err);
    assert_ok(state_new(&f.state, &err), &err);
    saving_add(&f, 0, "model/a", 100);
    saving_add(&f, 1, "model/b", 3 * FORMAT_BLOCK_BYTES);
    saving_add(&f, 2, "model/c", 1);
    saving_add(&f, 3, "model/d", 0);
    saving_add(&f, 4, "model/e", 5 * FORMAT_BLOCK_BYTES + 77);
    saving_lay_out(&f, 0);
    *state = &f;
    return 0;
}

static inline int saving_set_up(void **state) {
    return saving_set_up_on(state, false, NULL);
}

static inline int saving_set_up_threads(void **state) {
    return saving_set_up_on(state, true, NULL);
}

/* The same with tensors on a device whose copies are late, and in pieces. */
static inline int saving_set_up_device(void **state) {
    return saving_set_up_on(state, true,
                            &(device_plan){.seed = 5, .pieces = 3, .idle = 30, .pinned = true});
}

static inline int saving_set_up_device_in_line(void **state) {
    return saving_set_up_on(state, false,
                            &(device_plan){.seed = 6, .pieces = 3, .idle = 30, .in_line = true});
}

#define SAVING_DEVICE(test)                                                                        \
    { #test " on a device", test, saving_set_up_device, saving_tear_down, NULL }
#define SAVING_DEVICE_IN_LINE(test)                                                                \
    { #test " on a device", test, saving_set_up_device_in_line, saving_tear_down, NULL }

static inline int saving_tear_down(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    store_fault_set(f->fault, &(store_fault){0}); /* a test that failed left it */
    store_fault_release(f->fault);
    if (f->device != NULL) {
        device_release(f->device);
    }
    (void)engine_free(f->engine, 60, &err);
    device_free(f->device);
    plan_layout_free(f->layout);
    state_snapshot_free(f->snapshot);
    state_free(f->state);
    for (size_t i = 0; i < SAVING_TENSORS; i++) {
        mem_free(f->memory[i]);
    }
    mem_free(f->checksums);
    store_destroy(f->fault);
    store_destroy(f->disk);
    return 0;
}

/* ---- the job ---- */

/* `hung` may come while `commit` runs. */
static inline void saving_note(saving *f, const char *what) {
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&one_at_a_time);
    size_t at = strlen(f->calls);
    snprintf(f->calls + at, sizeof(f->calls) - at, "%s ", what);
    pthread_mutex_unlock(&one_at_a_time);
}

/* The optimizer's step. */
static inline void saving_scribble(saving *f) {
    for (size_t i = 0; i < SAVING_TENSORS; i++) {
        if (f->bytes[i] > 0) {
            memset(f->memory[i], 0xee, f->bytes[i]);
        }
    }
}

static inline pawl_status saving_prepare(void *context, pawl_error *err) {
    saving *f = context;
    while (f->prepare_waits) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    return f->prepare_status == PAWL_OK ? PAWL_OK
                                        : error_set(err, f->prepare_status, "preparing refused");
}

static inline void saving_released(void *context) {
    saving_note(context, "released");
}

static inline pawl_status saving_commit(void *context, const engine_file *files, pawl_error *err) {
    saving *f = context;
    saving_note(f, "commit");
    f->checksum_count = 0;
    for (size_t i = 0; i < f->layout->file_count; i++) {
        f->checksum_count += files[i].block_count;
    }
    mem_free(f->checksums);
    f->checksums = mem_calloc(f->checksum_count, sizeof(*f->checksums));
    size_t at = 0;
    for (size_t i = 0; i < f->layout->file_count && f->checksums != NULL; i++) {
        memcpy(f->checksums + at, files[i].checksums, files[i].block_count * sizeof(*f->checksums));
        at += files[i].block_count;
    }
    if (f->on_commit != NULL) {
        f->on_commit(f);
    }
    if (f->checksums == NULL) {
        return error_nomem(err, f->checksum_count);
    }
    return f->commit_status == PAWL_OK ? PAWL_OK
                                       : error_set(err, f->commit_status, "commit refused");
}

static inline void saving_hung(void *context, pawl_error *story) {
    saving *f = context;
    saving_note(f, "hung");
    f->hung_story = *story;
    atomic_store(&f->hung, 1);
}

static inline void saving_progress(void *context, uint64_t written, uint64_t of) {
    saving *f = context;
    assert_true(written <= of);
    f->progress_calls++;
    f->progress_written = written;
}

static inline void saving_done(void *context, pawl_status status, pawl_error *err) {
    saving *f = context;
    saving_note(f, "done");
    f->done_status = status;
    f->done_story = *err;
    atomic_store(&f->done, 1);
}

static inline pawl_status saving_begin(saving *f, pawl_error *err) {
    const engine_job job = {.layout = f->layout,
                            .store = f->fault,
                            .directory = "step-00000007",
                            .step = 7,
                            .read_elsewhere = f->read_elsewhere,
                            .context = f,
                            .prepare = saving_prepare,
                            .released = saving_released,
                            .progress = saving_progress,
                            .hung = saving_hung,
                            .commit = saving_commit,
                            .done = saving_done};
    f->calls[0] = '\0';
    f->progress_calls = 0;
    atomic_store(&f->done, 0);
    atomic_store(&f->hung, 0);
    return engine_begin(f->engine, &job, err);
}

/* Waits for the end; its outcome. */
static inline pawl_status saving_wait(saving *f, pawl_error *story, engine_stats *stats) {
    struct pawl_error err = ERROR_INIT;
    pawl_status outcome = PAWL_EINTERNAL;
    assert_ok(engine_wait(f->engine, 60, NULL, &outcome, story, stats, &err), &err);
    return outcome;
}

static inline void saving_plan_fault(saving *f, store_fault plan) {
    store_fault_set(f->fault, &plan);
}

/* ---- what was written ---- */

static inline void saving_read(saving *f, const char *name, buffer *out) {
    char path[STORE_MAX_PATH];
    struct pawl_error err = ERROR_INIT;
    snprintf(path, sizeof(path), "step-00000007/%s", name);
    assert_ok(store_read_file(f->disk, path, 1u << 30, out, &err), &err);
}

/* What plan_layout_gather does, on a device too. */
static inline void saving_gather(saving *f, size_t i, uint8_t *to) {
    struct pawl_error err = ERROR_INIT;
    plan_copies copies = {0};
    assert_ok(
        plan_layout_gather_some(f->layout, i, 0, f->layout->files[i].bytes, to, &copies, &err),
        &err);
    for (size_t k = 0; k < copies.count; k++) {
        const plan_copy *copy = &copies.items[k];
        memcpy(copy->host, device_bytes(f->device, copy->data) + copy->offset, copy->bytes);
    }
    mem_free(copies.items);
}

/* File i as the layout gathers it now, with its sum; its size is in the layout. */
static inline uint8_t *saving_file(saving *f, size_t i) {
    const plan_file *file = &f->layout->files[i];
    uint8_t *bytes = mem_alloc(file->bytes);
    uint64_t edge = file->header.size;
    uint64_t end = data_sum_edge(edge, file->bytes);
    uint32_t blocks[64];
    size_t count = 0;
    saving_gather(f, i, bytes);
    for (uint64_t at = 0; at < file->bytes; at += FORMAT_BLOCK_BYTES) {
        uint64_t left = file->bytes - at;
        assert_true(count < ARRAY_LENGTH(blocks));
        blocks[count++] =
            crc32c(0, bytes + at, left < FORMAT_BLOCK_BYTES ? left : FORMAT_BLOCK_BYTES);
    }
    data_sum_put(bytes, data_sum(crc32c(0, bytes, edge), crc32c(0, bytes + edge, end - edge), edge,
                                 blocks, count));
    return bytes;
}

/* Every file is what the layout gathers now, with its sum, and its checksums are those of its
 * bytes. */
static inline void saving_assert_written(saving *f) {
    size_t sum = 0;
    for (size_t i = 0; i < f->layout->file_count; i++) {
        const plan_file *file = &f->layout->files[i];
        CLEANUP(buffer_free) buffer found = {0};
        AUTOFREE uint8_t *wanted = saving_file(f, i);
        saving_read(f, file->name, &found);
        assert_int_equal(found.size, file->bytes);
        assert_memory_equal(found.data, wanted, file->bytes);
        for (size_t at = 0; at < file->bytes; at += FORMAT_BLOCK_BYTES) {
            size_t n = file->bytes - at;
            n = n < FORMAT_BLOCK_BYTES ? n : FORMAT_BLOCK_BYTES;
            assert_int_equal(f->checksums[sum++], crc32c(0, found.data + at, n));
        }
    }
    assert_int_equal(sum, f->checksum_count);
}

static inline void saving_remove_files(saving *f) {
    struct pawl_error err = ERROR_INIT;
    char path[STORE_MAX_PATH];
    for (size_t i = 0; i < f->layout->file_count; i++) {
        snprintf(path, sizeof(path), "step-00000007/%s", f->layout->files[i].name);
        (void)!store_unlink(f->disk, path, &err);
    }
}

/* With an engine of its own, which is gone afterwards, as its files are: for tests in which memory
 * may fail. */
static inline pawl_status saving_whole(saving *f, engine_options options, pawl_error *err) {
    struct pawl_error unused = ERROR_INIT;
    engine_stats stats;
    options.platform = f->os;
    options.buffer_bytes = SAVING_BUFFER_BYTES;
    saving_remove_files(f);
    TRY(engine_new(&options, &f->engine, err));
    pawl_status status = saving_begin(f, err);
    if (status == PAWL_OK) {
        (void)!engine_wait(f->engine, 60, NULL, &status, err, &stats, &unused);
    }
    (void)engine_free(f->engine, 60, &unused);
    f->engine = NULL;
    mem_free(f->checksums);
    f->checksums = NULL;
    saving_remove_files(f);
    return status;
}

#endif
