/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch/object: what torch.save pickled, as entries: tensors, numbers, texts, and what is around
 * them. Where the bytes of storages are, the caller knows.
 *
 * A name is the way to a value: keys of dicts (keys.h), places in lists, with "/" between. A list
 * without tensors is one value of JSON, and so is what is no data: None, a class, an object. Texts
 * and bytes that are too large for a value are tensors of U8, any other such thing is listed.
 */
#ifndef FOREIGN_TORCH_OBJECT_H
#define FOREIGN_TORCH_OBJECT_H

#include "foreign/archive.h"
#include "foreign/pickle/pickle.h"

/* Where the bytes of a storage are. */
typedef struct torch_storage {
    uint32_t stream;
    uint64_t offset, bytes;
    bool swapped; /* its elements are big-endian */
} torch_storage;

struct torch_tensor;
struct torch_sequences;
typedef struct torch_source {
    archive *a;
    uint64_t bytes; /* of the pickle */
    /* Of all objects together, which the caller adds; NULL: torch_add_object does. */
    struct torch_sequences *sequences;
    void *context;
    /* Finds a storage by its key. PAWL_EDAMAGED: there is none. */
    pawl_status (*find)(void *context, pickle_text key, torch_storage *out, pawl_error *err);
    /* NULL but for the oldest files: finds a tensor that is outside of the pickle; false: none. */
    bool (*tensor)(void *context, const pickle_node *id, struct torch_tensor *out);
} torch_source;

/* pickle_knows: all but functions of Python itself that do more than to make a value. */
bool torch_knows(const char *module, const char *name);
/* Adds what is in the object. `name` is its own; "": it has none, and its keys are names. */
pawl_status torch_add_object(const torch_source *s, const pickle_node *root, const char *name,
                             pawl_error *err) PAWL_MUST_CHECK;
/* A tensor that is to be assembled with others. */
typedef struct torch_tensor {
    bool conjugated; /* once it is read: before torch_place_tensor */
    const struct torch_type *type;
    int ndim;
    int64_t shape[PAWL_MAX_NDIM];
    archive_part part; /* of all of it */
} torch_tensor;
/* Places a tensor, whose type, ndim and shape are set, in a storage; `offset` and strides in
 * elements. */
pawl_status torch_place_tensor(archive *a, const torch_storage *storage, int64_t offset,
                               const int64_t *strides, torch_tensor *t, pawl_error *err)
    PAWL_MUST_CHECK;
/* *is is false for what is no tensor with bytes of its own. */
pawl_status torch_take_tensor(const torch_source *s, const pickle_node *node, torch_tensor *out,
                              bool *is, pawl_error *err) PAWL_MUST_CHECK;
/* A storage that is saved as such: all of it; where it has no type, its bytes. */
pawl_status torch_take_storage(const torch_source *s, const pickle_node *node, torch_tensor *out,
                               pawl_error *err) PAWL_MUST_CHECK;
/* Is it a torch.Size, or a tuple or list of numbers? At most PAWL_MAX_NDIM. */
bool torch_take_size(const pickle_node *node, int *ndim, int64_t out[PAWL_MAX_NDIM]);
/* Of a dict: keys and values, in turn. NULL: it is none. */
const pickle_items *torch_pairs_of(const pickle_node *node);
/* NULL: it is no list, tuple, set, size or queue. */
const pickle_items *torch_items_of(const pickle_node *node);
/* Appends JSON, whatever it is; *fits is false, and nothing is appended, where that has more than
 * `most` bytes, or is nested too deep. Adds to *visits how many nodes it saw. */
pawl_status torch_put_json(const pickle_node *node, size_t most, buffer *json, bool *fits,
                           uint64_t *visits, pawl_error *err) PAWL_MUST_CHECK;
/* Appends bytes: a text or bytes as they are, and what _codecs.encode makes of a text whose
 * characters are bytes, in protocol 2. *is: they are bytes. */
pawl_status torch_take_bytes(const pickle_node *node, buffer *out, bool *is, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
