/* SPDX-License-Identifier: Apache-2.0 */
/* torch/pickles: pickles that stand in a file, one behind the other. */
#ifndef FOREIGN_TORCH_PICKLES_H
#define FOREIGN_TORCH_PICKLES_H

#include "foreign/archive.h"
#include "foreign/pickle/pickle.h"

typedef struct pickle_stream {
    byte_source in;
    uint64_t at, end; /* of what comes next, and of all */
} pickle_stream;

/* The next pickle. `bytes` holds it as long as the tree is used. */
pawl_status pickles_next(pickle_stream *p, buffer *bytes, pickle_tree *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* The next pickle, which is an integer that is not negative. */
pawl_status pickles_count(pickle_stream *p, uint64_t *out, pawl_error *err) PAWL_MUST_CHECK;
/* The next bytes. */
pawl_status pickles_bytes(pickle_stream *p, void *to, size_t n, pawl_error *err) PAWL_MUST_CHECK;
pawl_status pickles_i64(pickle_stream *p, int64_t *out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status pickles_skip(pickle_stream *p, uint64_t n, pawl_error *err) PAWL_MUST_CHECK;

/* Storages by their keys. */
typedef struct kept_storage {
    pickle_text key;
    uint64_t offset, bytes;
    uint32_t element_bytes; /* where the caller needs it */
} kept_storage;
typedef struct storage_table {
    kept_storage *items; /* ascending by key once sorted */
    size_t count, room;
    arena memory; /* of keys, where the caller needs it */
} storage_table;
/* `key` must stay as long as the table. */
pawl_status storages_add(storage_table *t, pickle_text key, uint64_t offset, uint64_t bytes,
                         pawl_error *err) PAWL_MUST_CHECK;
void storages_sort(storage_table *t);
const kept_storage *storages_find(const storage_table *t, pickle_text key); /* NULL: none */
void storages_free(storage_table *t);

#endif
