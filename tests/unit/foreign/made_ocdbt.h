/* SPDX-License-Identifier: Apache-2.0 */
/* Databases made by hand, right or wrong. */
#ifndef FOREIGN_MADE_OCDBT_H
#define FOREIGN_MADE_OCDBT_H

#include "unit/foreign/made_archive.h"

#include "foreign/orbax/ocdbt.h"

/* Bytes with varints in their place: numbers below 128 are one byte each. */
static inline void made_bytes(buffer *out, const void *bytes, size_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(buffer_append(out, bytes, n, &err), &err);
}

static inline void made_number(buffer *out, uint64_t number) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(buffer_varint(out, number, &err), &err);
}

static inline void made_numbers(buffer *out, size_t n, const uint64_t *numbers) {
    for (size_t i = 0; i < n; i++) {
        made_number(out, numbers[i]);
    }
}

/* A block that is not compressed around a body. */
static inline void made_block(buffer *out, uint32_t magic, const buffer *body) {
    struct pawl_error err = ERROR_INIT;
    size_t begun = out->size;
    const uint8_t first[] = {(uint8_t)(magic >> 24), (uint8_t)(magic >> 16), (uint8_t)(magic >> 8),
                             (uint8_t)magic};
    made_bytes(out, first, sizeof(first));
    assert_ok(buffer_u64le(out, 12 + 2 + body->size + 4, &err), &err);
    made_bytes(out, "\0\0", 2);
    made_bytes(out, body->data, body->size);
    assert_ok(buffer_u32le(out, crc32c(0, out->data + begun, out->size - begun), &err), &err);
}

/* Paths, each in full, without a base. */
static inline void made_table(buffer *out, size_t n, const char *const *paths) {
    made_number(out, n);
    for (size_t i = 1; i < n; i++) {
        made_number(out, 0);
    }
    for (size_t i = 0; i < n; i++) {
        made_number(out, strlen(paths[i]));
    }
    for (size_t i = 0; i < n; i++) {
        made_number(out, 0);
    }
    for (size_t i = 0; i < n; i++) {
        made_bytes(out, paths[i], strlen(paths[i]));
    }
}

typedef struct made_key {
    const char *key;
    const char *inlined; /* NULL: in file 0, or a child of it */
    uint64_t offset, bytes;
} made_key;

/* All keys in full; of children, `common` bytes of each. */
static inline void made_node(buffer *out, uint8_t height, const char *path, size_t n,
                             const made_key *keys, uint64_t common) {
    made_bytes(out, &height, 1);
    made_table(out, path != NULL, &path);
    made_number(out, n);
    for (size_t i = 1; i < n; i++) {
        made_number(out, 0);
    }
    for (size_t i = 0; i < n; i++) {
        made_number(out, strlen(keys[i].key));
    }
    for (size_t i = 0; height > 0 && i < n; i++) {
        made_number(out, common);
    }
    for (size_t i = 0; i < n; i++) {
        made_bytes(out, keys[i].key, strlen(keys[i].key));
    }
    for (size_t i = 0; height == 0 && i < n; i++) {
        made_number(out, keys[i].inlined != NULL ? strlen(keys[i].inlined) : keys[i].bytes);
    }
    for (size_t i = 0; height == 0 && i < n; i++) {
        made_number(out, keys[i].inlined == NULL);
    }
    for (size_t i = 0; i < n; i++) {
        made_numbers(out, keys[i].inlined == NULL, (const uint64_t[]){0});
    }
    for (size_t i = 0; i < n; i++) {
        made_numbers(out, keys[i].inlined == NULL, &keys[i].offset);
    }
    for (size_t i = 0; height > 0 && i < n; i++) {
        made_number(out, keys[i].bytes);
    }
    for (size_t i = 0; height > 0 && i < 3 * n; i++) { /* what is counted of each */
        made_number(out, 1);
    }
    for (size_t i = 0; i < n; i++) {
        made_bytes(out, keys[i].inlined, keys[i].inlined != NULL ? strlen(keys[i].inlined) : 0);
    }
}

/* Two versions: the older one is of nothing, the newer one has a root in a file; NULL: so is it. */
static inline void made_manifest(buffer *out, uint8_t height, const char *path, uint64_t offset,
                                 uint64_t bytes) {
    static const uint8_t configuration[16 + 5] = {[17] = 100, 120, 4, 0};
    const bool empty = path == NULL;
    const uint64_t none = UINT64_MAX;
    made_bytes(out, configuration, sizeof(configuration)); /* id, kind, inline, node, arity, ... */
    made_table(out, 2, (const char *const[]){"", empty ? "" : path});
    made_numbers(out, 3, (const uint64_t[]){2, 1, 2});
    made_bytes(out, (const uint8_t[]){0, height}, 2);
    made_numbers(out, 2, (const uint64_t[]){0, 1});
    made_numbers(out, 4,
                 (const uint64_t[]){none, empty ? none : offset, none, empty ? none : bytes});
    made_numbers(out, 6, (const uint64_t[]){1, 1, 1, 1, 1, 1});
    made_bytes(out, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16); /* when */
    made_number(out, 0);                                   /* older ones */
}

#endif
