/* SPDX-License-Identifier: Apache-2.0 */
/* huggingface/shard_index: the index of a Hugging Face directory, model.safetensors.index.json or
 * pytorch_model.bin.index.json. */
#ifndef FOREIGN_SHARD_INDEX_H
#define FOREIGN_SHARD_INDEX_H

#include "base/base.h"

/* Where the index says that a tensor is. */
typedef struct shard_place {
    const char *name;
    const char *file; /* one of shard_index.files */
    uint64_t at;      /* of the file's name, in the index */
} shard_place;

/* What an index is of. */
typedef struct shard_kind {
    const char *ending; /* of its files: ".safetensors" */
    const char *fault;  /* of a file that ends otherwise: "the file is no .safetensors file" */
    bool keys;          /* names are keys of dicts, and escaped as such */
} shard_kind;

typedef struct shard_index {
    const char **files; /* ascending, each once */
    size_t file_count;
    shard_place *places; /* ascending by name */
    size_t place_count;
    bool has_total_size;
    double total_size; /* of all tensors, in bytes */
    size_t file_capacity, place_capacity;
    arena memory;
} shard_index;

/*
 * {"metadata": {"total_size": 123}, "weight_map": {"name": "file", ...}}
 *
 * Other members are passed over. A file is a name in the same directory that ends as its kind
 * says; PAWL_EDAMAGED with the position for any other path, and for a name that is there twice.
 * PAWL_ELIMIT beyond a maximum of limits.h.
 */
pawl_status shard_index_decode(const shard_kind *kind, const void *text, size_t n, shard_index *out,
                               pawl_error *err) PAWL_MUST_CHECK;
void shard_index_free(shard_index *index);

#endif
