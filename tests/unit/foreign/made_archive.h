/* SPDX-License-Identifier: Apache-2.0 */
/* Archives of files in memory, and what is in them. */
#ifndef FOREIGN_MADE_ARCHIVE_H
#define FOREIGN_MADE_ARCHIVE_H

#include "lib/stored.h"
#include "lib/test.h"

#include "foreign/formats.h"
#include "stores/stores.h"

#include <stdio.h>
#include <string.h>

/* A file of tests/unit/foreign/samples. */
static inline void made_sample(const char *path, buffer *out) {
    char whole[512];
    struct pawl_error err = ERROR_INIT;
    bool outside = path[0] == '/';
    snprintf(whole, sizeof(whole), "%s%s", outside ? "" : TEST_SOURCE_DIR "/unit/foreign/samples/",
             path);
    FILE *in = fopen(whole, "rb");
    if (in == NULL && outside) {
        print_message("skipped: there is no sample %s\n", path);
        skip();
    }
    assert_non_null(in);
    assert_ok(buffer_reserve(out, (size_t)1 << 20, &err), &err);
    out->size = fread(out->data, 1, (size_t)1 << 20, in);
    (void)fclose(in);
    assert_true(out->size > 0);
}

static inline void made_put_sample(store *s, const char *path, const char *name) {
    CLEANUP(buffer_free) buffer bytes = {0};
    made_sample(path, &bytes);
    put_anew(s, name, bytes.data, bytes.size);
}

static inline pawl_status made_archive(store *s, const archive_format *format, const char *name,
                                       struct source **out, pawl_error *err) {
    *err = ERROR_INIT;
    *out = NULL;
    return archive_open(s, false, format, name, true, out, err);
}

static inline record_entry made_find(struct source *s, const char *name) {
    struct pawl_error err = ERROR_INIT;
    record_entry entry = {0};
    bool found;
    CLEANUP(arena_free) arena memory = {0};
    assert_ok(s->ops->find(s, name, &memory, &entry, &found, &err), &err);
    if (!found) {
        fail_msg("there is no %s", name);
    }
    return entry;
}

static inline bool made_has(struct source *s, const char *name) {
    struct pawl_error err = ERROR_INIT;
    record_entry entry;
    bool found;
    CLEANUP(arena_free) arena memory = {0};
    assert_ok(s->ops->find(s, name, &memory, &entry, &found, &err), &err);
    return found;
}

/* "F32 [2, 3] 4 parts" of a tensor; "json {...}", "string ...", "int64 -5" of a value. */
static inline const char *made_says(struct source *s, const char *name, char out[256]) {
    char shape[64];
    const record_entry e = made_find(s, name);
    if (e.kind == PAWL_KIND_TENSOR) {
        snprintf(out, 256, "%s %s %zu parts", record_entry_type(&e),
                 shape_text(shape, sizeof(shape), e.ndim, e.shape), e.piece_count);
        return out;
    }
    int64_t integer = 0;
    double number = 0;
    switch (e.kind) {
    case PAWL_KIND_INT64:
        memcpy(&integer, e.value, sizeof(integer));
        snprintf(out, 256, "int64 %lld", (long long)integer);
        break;
    case PAWL_KIND_FLOAT64:
        memcpy(&number, e.value, sizeof(number));
        snprintf(out, 256, "float64 %g", number);
        break;
    case PAWL_KIND_BOOL:
        snprintf(out, 256, "bool %d", e.value[0]);
        break;
    default:
        snprintf(out, 256, "%s %.*s", pawl_kind_name(e.kind), (int)e.value_bytes,
                 (const char *)e.value);
        break;
    }
    return out;
}

#define assert_entry(source, name, says)                                                           \
    do {                                                                                           \
        char assert_entry_text[256];                                                               \
        assert_string_equal(made_says(source, name, assert_entry_text), says);                     \
    } while (0)

/* Reads a tensor, `step` bytes at a time, into dense memory of `size` bytes. */
static inline pawl_status made_read(struct source *s, const char *name, size_t step, void *to,
                                    size_t size, pawl_error *err) {
    const record_entry e = made_find(s, name);
    size_t item = (size_t)pawl_dtype_bits(e.dtype) / 8;
    *err = ERROR_INIT;
    assert_int_equal(shape_bytes(e.dtype, e.ndim, e.shape), size);
    const strided memory = {.dtype = e.dtype, .box = box_whole(e.ndim, e.shape), .data = to};
    for (size_t i = 0; i < e.piece_count; i++) {
        const record_piece *p = &e.pieces[i];
        CLEANUP(store_close_pointer) store_file *file = NULL;
        AUTOFREE uint8_t *bytes = mem_alloc((size_t)p->bytes);
        uint64_t there;
        if (bytes == NULL) {
            return error_nomem(err, (size_t)p->bytes);
        }
        TRY(s->ops->open(s, p->file, STORE_READ, &file, err));
        TRY(store_size(file, &there, err));
        assert_int_equal(there, s->ops->file(s, p->file).bytes);
        for (uint64_t at = 0; at < p->bytes; at += step) {
            size_t n = p->bytes - at < step ? (size_t)(p->bytes - at) : step;
            TRY(store_read(file, p->offset + at, bytes + at, n, err));
        }
        const box b = box_of(e.ndim, p->box_offset, p->box_extent);
        assert_int_equal(box_elements(&b) * item, p->bytes);
        strided_place(&memory, &b, 0, (size_t)p->bytes, bytes);
    }
    return PAWL_OK;
}

#define assert_tensor(source, name, expected)                                                      \
    made_compare(source, name, expected, sizeof(expected), __FILE__, __LINE__)

static inline void made_compare(struct source *s, const char *name, const void *expected, size_t n,
                                const char *file, int line) {
    static const size_t steps[] = {3, 8, 65536};
    struct pawl_error err;
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        AUTOFREE uint8_t *read = mem_calloc(1, n + 1);
        pawl_status status = made_read(s, name, steps[i], read, n, &err);
        if (status != PAWL_OK || memcmp(read, expected, n) != 0) {
            fail_msg("%s:%d: %s, %zu bytes at a time: %s", file, line, name, steps[i],
                     status != PAWL_OK ? err.attempt : "other values");
        }
    }
}

#endif
