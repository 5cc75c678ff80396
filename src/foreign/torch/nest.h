/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch/nest: names become nested dicts, lists and tuples: what is before each "/" is a key, or a
 * place. Where another item has the very name that a dict would need, "/" is part of a key.
 */
#ifndef FOREIGN_TORCH_NEST_H
#define FOREIGN_TORCH_NEST_H

#include "foreign/torch/sequences.h"
#include "foreign/writer.h"

typedef struct nest {
    const writer_item *items; /* the job's, without TORCH_SEQUENCES */
    size_t *storages;         /* of each, which of the tensors it is */
    size_t count;
    torch_sequences sequences;
    writer_item *own;
} nest;

/* PAWL_EUSAGE: two items would have one key. */
pawl_status nest_begin(nest *n, const writer_job *job, pawl_error *err) PAWL_MUST_CHECK;
void nest_end(nest *n); /* for CLEANUP */
/* Pushes all of it; an item that is called `object` and is alone is the whole. */
pawl_status nest_put_all(const nest *n, buffer *pickle, pawl_error *err) PAWL_MUST_CHECK;
/* Pushes the dict, list, or whatever it is, of the items from `low` to `high`, the names of what is
 * in it beginning at `prefix`. The first tensor has the storage 0 if `apart`. */
pawl_status nest_put(const nest *n, buffer *pickle, size_t low, size_t high, size_t prefix,
                     bool apart, pawl_error *err) PAWL_MUST_CHECK;
/* The items from `low` on that are below one key, which begins at `prefix`: where they end, and how
 * long it is. *leaf: it is one item. */
void nest_child(const nest *n, size_t low, size_t high, size_t prefix, size_t *end,
                size_t *key_bytes, bool *leaf);

#endif
