/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles that stand in a file, one behind the other, and the storages that are named in them. */
#include "foreign/torch/pickles.h"
#include "foreign/torch/object.h"
#include "format/limits.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 1024u /* most are small, and there may be many */

/* How long a pickle is, only reading it says: more is read until it ends. */
pawl_status pickles_next(pickle_stream *p, buffer *bytes, pickle_tree *out, pawl_error *err) {
    uint64_t left = p->end - p->at;
    uint64_t most = left < FOREIGN_MAX_PICKLE ? left : FOREIGN_MAX_PICKLE;
    for (uint64_t n = FIRST_BYTES;; n *= 4) {
        bool all = n >= most;
        size_t size = (size_t)(all ? most : n);
        bytes->size = 0;
        TRY(buffer_reserve(bytes, size, err));
        TRY(p->in.read_at(p->in.context, p->at, bytes->data, size, err));
        bytes->size = size;
        pawl_status status = pickle_read(bytes->data, size, p->at, torch_knows, out, err);
        if (status == PAWL_OK) {
            p->at += out->bytes;
            return PAWL_OK;
        }
        if (all || status != PAWL_EDAMAGED) {
            return status;
        }
        *err = ERROR_INIT;
    }
}

pawl_status pickles_count(pickle_stream *p, uint64_t *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    pickle_tree tree;
    uint64_t at = p->at;
    TRY(pickles_next(p, &bytes, &tree, err));
    bool counts = tree.root->kind == PICKLE_INT && tree.root->integer >= 0;
    *out = counts ? (uint64_t)tree.root->integer : 0;
    pickle_free(&tree);
    if (!counts) {
        error_set(err, PAWL_EDAMAGED, "a number is missing at byte %llu", (unsigned long long)at);
        error_range(err, at, 1);
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}

static pawl_status too_short(const pickle_stream *p, uint64_t n, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the file ends before all tensors are there");
    error_range(err, p->at, p->end - p->at);
    error_expected(err, "%llu bytes at byte %llu", (unsigned long long)n,
                   (unsigned long long)p->at);
    error_found(err, "%llu left", (unsigned long long)(p->end - p->at));
    error_next(err, "get the file again: it was cut off, or not copied to its end");
    return PAWL_EDAMAGED;
}

pawl_status pickles_bytes(pickle_stream *p, void *to, size_t n, pawl_error *err) {
    if (n > p->end - p->at) {
        return too_short(p, n, err);
    }
    TRY(p->in.read_at(p->in.context, p->at, to, n, err));
    p->at += n;
    return PAWL_OK;
}

pawl_status pickles_i64(pickle_stream *p, int64_t *out, pawl_error *err) {
    uint8_t bytes[8];
    uint64_t v = 0;
    TRY(pickles_bytes(p, bytes, sizeof(bytes), err));
    for (int i = 7; i >= 0; i--) {
        v = v << 8 | bytes[i];
    }
    *out = (int64_t)v;
    return PAWL_OK;
}

pawl_status pickles_skip(pickle_stream *p, uint64_t n, pawl_error *err) {
    if (n > p->end - p->at) {
        return too_short(p, n, err);
    }
    p->at += n;
    return PAWL_OK;
}

/* ---- storages ------------------------------------------------------------------------------- */

pawl_status storages_add(storage_table *t, pickle_text key, uint64_t offset, uint64_t bytes,
                         pawl_error *err) {
    TRY(vec_reserve(&t->items, &t->room, t->count + 1, sizeof(*t->items), err));
    t->items[t->count++] = (kept_storage){.key = key, .offset = offset, .bytes = bytes};
    return PAWL_OK;
}

static int by_key(const void *a, const void *b) {
    const pickle_text *left = &((const kept_storage *)a)->key;
    const pickle_text *right = &((const kept_storage *)b)->key;
    size_t n = left->n < right->n ? left->n : right->n;
    int order = n > 0 ? memcmp(left->bytes, right->bytes, n) : 0;
    return order != 0 ? order : (left->n > right->n) - (left->n < right->n);
}

void storages_sort(storage_table *t) {
    if (t->count > 1) {
        qsort(t->items, t->count, sizeof(*t->items), by_key);
    }
}

const kept_storage *storages_find(const storage_table *t, pickle_text key) {
    const kept_storage wanted = {.key = key};
    return t->count > 0 ? bsearch(&wanted, t->items, t->count, sizeof(*t->items), by_key) : NULL;
}

void storages_free(storage_table *t) {
    mem_free(t->items);
    arena_free(&t->memory);
}
