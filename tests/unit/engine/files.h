/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of reading share: files in memory, their checksums, a store that says what was
 * cached, a platform that counts the threads it starts. */
#ifndef ENGINE_FILES_H
#define ENGINE_FILES_H

#include "lib/random.h"
#include "lib/stored.h"
#include "lib/test.h"

#include "engine/engine.h"
#include "stores/stores.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define FILES  3
#define BLOCK  ((uint64_t)FORMAT_BLOCK_BYTES)
#define WINDOW ((uint64_t)ENGINE_BUFFER_BYTES)

/* Says of reads that the page cache had them, of some or of all. */
typedef struct cached_store {
    store_wrapper wrapper;
    atomic_uint_fast64_t reads;
    uint64_t of; /* of so many reads one is not cached; 0: none is */
} cached_store;

typedef struct files {
    store *disk, *fault;
    cached_store *cached;
    uint64_t sizes[FILES];
    uint8_t *bytes[FILES];
    uint32_t *sums[FILES];
    bool sums_fail;
    bool unsummed; /* no checksums are stored */
    uint64_t reads, read_bytes;
    platform os;
    atomic_uint_fast64_t started;
    bool refuse_threads;
} files;

/* ---- the source ---- */

static const char *const file_names[FILES] = {"first", "second", "third"};

static inline const char *get_name(void *context, uint32_t file) {
    (void)context;
    return file_names[file];
}

static inline uint64_t get_bytes(void *context, uint32_t file) {
    const files *f = context;
    return f->sizes[file];
}

static inline pawl_status get_sums(void *context, uint32_t file, uint64_t first, size_t n,
                                   uint32_t *out, pawl_error *err) {
    files *f = context;
    if (f->sums_fail) {
        return error_set(err, PAWL_EDAMAGED, "no checksums");
    }
    memcpy(out, f->sums[file] + first, n * sizeof(*out));
    return PAWL_OK;
}

static inline pawl_status start_counted(void *context, void (*body)(void *), void *argument,
                                        platform_thread **thread, pawl_error *err) {
    files *f = context;
    const platform *os = platform_system();
    f->started++;
    if (f->refuse_threads) {
        return error_set(err, PAWL_ENOMEM, "no threads");
    }
    return os->thread_start(os->context, body, argument, thread, err);
}

static inline pawl_status say_cached(store_wrapper *w, store_call *call, pawl_error *err) {
    cached_store *c = (cached_store *)w;
    pawl_status status = store_call_inner(call, err);
    if (call->op == STORE_OP_READ) {
        call->file->read_cached = c->of > 0 && atomic_fetch_add(&c->reads, 1) % c->of != 0;
    }
    return status;
}

static inline void files_write(files *f, uint32_t file, uint64_t size) {
    char path[64];
    snprintf(path, sizeof(path), "step/%s", file_names[file]);
    put_anew(f->disk, path, f->bytes[file], size);
}

static inline void files_make(files *f, uint32_t file, uint64_t size, test_random *random) {
    size_t blocks = (size_t)(size / BLOCK + 1);
    f->sizes[file] = size;
    mem_free(f->bytes[file]);
    mem_free(f->sums[file]);
    f->bytes[file] = mem_calloc(1, size + 1); /* one more, for a file that grew */
    f->sums[file] = mem_calloc(blocks, sizeof(uint32_t));
    for (uint64_t at = 0; at < size; at += 8) {
        uint64_t word = random_next(random);
        memcpy(f->bytes[file] + at, &word, size - at < 8 ? size - at : 8);
    }
    for (uint64_t b = 0; b * BLOCK < size; b++) {
        uint64_t left = size - b * BLOCK;
        f->sums[file][b] =
            crc32c(0, f->bytes[file] + b * BLOCK, left < BLOCK ? (size_t)left : BLOCK);
    }
    files_write(f, file, size);
}

static inline void files_set_up(files *f) {
    struct pawl_error err = ERROR_INIT;
    cached_store *cached = mem_calloc(1, sizeof(*cached));
    assert_ok(store_mem(&f->disk, &err), &err);
    assert_ok(store_make_dir(f->disk, "step", &err), &err);
    assert_ok(store_wrapper_init(&cached->wrapper, f->disk, &err), &err);
    cached->wrapper.around = say_cached;
    f->cached = cached;
    assert_ok(store_fault_wrap(&cached->wrapper.base, platform_system(), &f->fault, &err), &err);
    f->os = *platform_system();
    f->os.context = f;
    f->os.thread_start = start_counted;
}

static inline void files_tear_down(files *f) {
    for (size_t i = 0; i < FILES; i++) {
        mem_free(f->bytes[i]);
        mem_free(f->sums[i]);
    }
    store_destroy(f->fault);
    store_destroy(&f->cached->wrapper.base);
    store_destroy(f->disk);
}

static inline void files_flip(files *f, uint32_t file, uint64_t at) {
    char path[64];
    struct pawl_error err = ERROR_INIT;
    store_file *out;
    uint8_t byte = f->bytes[file][at] ^ 0x40;
    snprintf(path, sizeof(path), "step/%s", file_names[file]);
    assert_ok(store_open(f->disk, path, STORE_UPDATE, &out, &err), &err);
    assert_ok(store_write(out, at, &byte, 1, &err), &err);
    store_close(out);
}

static inline engine_source files_source(files *f) {
    return (engine_source){.store = f->fault,
                           .directory = "step",
                           .file_count = FILES,
                           .context = f,
                           .file_name = get_name,
                           .file_bytes = get_bytes,
                           .checksums = f->unsummed ? NULL : get_sums,
                           .reads = &f->reads,
                           .bytes = &f->read_bytes,
                           .platform = &f->os};
}

/* All reads are of what is cached. */
static inline void files_cache_all(files *f) {
    f->cached->of = 1000000;
    f->cached->reads = 1;
}

#endif
