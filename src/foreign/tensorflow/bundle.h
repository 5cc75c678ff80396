/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorflow/bundle: the index of a tensor bundle (checkpoint V2), which is a table of LevelDB with
 * a record of protobuf for each key. Private to this folder.
 */
#ifndef FOREIGN_TENSORFLOW_BUNDLE_H
#define FOREIGN_TENSORFLOW_BUNDLE_H

#include "foreign/tensorflow/protobuf.h"

/* A part of a partitioned variable: `length` -1: all of the dimension. */
typedef struct bundle_slice {
    int64_t *start, *length;
    int ndim;
} bundle_slice;

typedef struct bundle_entry {
    bundle_text key;
    uint32_t type; /* its number in types.proto */
    int ndim;
    const int64_t *shape;
    uint32_t shard;
    uint64_t offset, bytes;
    uint32_t crc; /* masked */
    bundle_slice *slices;
    size_t slice_count;
} bundle_entry;

typedef struct bundle {
    uint32_t shards;
    bool swapped;          /* its numbers are big-endian */
    bundle_entry *entries; /* ascending by key, bytewise, without the header */
    size_t count, room;
    uint64_t unpacked; /* bytes of blocks that were compressed */
    uint64_t taken;    /* bytes of memory */
    uint64_t may_take;
    arena memory;
} bundle;

/* By the last bytes of a file. */
#define BUNDLE_MAGIC_BYTES 8u
bool bundle_looks_like(const uint8_t *tail, size_t n);
pawl_status bundle_decode(const uint8_t *index, size_t n, bundle *out, pawl_error *err)
    PAWL_MUST_CHECK;
void bundle_free(bundle *b);
/* NULL: none. */
const bundle_entry *bundle_find(const bundle *b, const void *key, size_t n);

/* ---- snappy.c ------------------------------------------------------------------------------- */

/* Decompresses a raw block (https://github.com/google/snappy/blob/main/format_description.txt) of
 * at most `limit` bytes, decompressed. */
pawl_status snappy_decode(const uint8_t *packed, size_t n, size_t limit, buffer *out,
                          pawl_error *err) PAWL_MUST_CHECK;

#endif
