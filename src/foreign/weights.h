/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/weights: safetensors files as a source; private to this folder. */
#ifndef FOREIGN_WEIGHTS_H
#define FOREIGN_WEIGHTS_H

#include "foreign/foreign.h"
#include "foreign/shard_index.h"

/* A tensor of one of the files. */
typedef struct weight {
    const safetensors_tensor *tensor;
    uint32_t shard;
} weight;

typedef struct weights {
    struct source base;
    const char *name; /* of the file that was opened: the index, or the one file */
    bool whole;       /* as of foreign_open */
    bool sharded;
    shard_index index;           /* sharded: what it says */
    uint64_t index_bytes;        /* of its file */
    const char **shards;         /* names */
    safetensors_header *headers; /* one of each; base.files are decoded */
    store_stat *seen;            /* of each, from before its header was read */
    weight *entries;             /* base.entries, ascending by name */
} weights;

/* ---- weights.c ------------------------------------------------------------------------------ */

/* By its name: an index, not a file of tensors. */
bool weights_is_index(const char *name);
/* Adds a file of the directory to an error. */
void weights_file_path(const weights *w, const char *file, pawl_error *err);

/* ---- weights_file.c ------------------------------------------------------------------------- */

/* What is there of a shard's name. PAWL_EDAMAGED: nothing, though the index names it;
 * PAWL_EUNSUPPORTED: no regular file. */
pawl_status weights_look(const weights *w, uint32_t shard, store_stat *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* PAWL_EBUSY: it is not the file that was seen. */
pawl_status weights_unchanged(const weights *w, uint32_t shard, pawl_error *err) PAWL_MUST_CHECK;
/* Opens a shard without its first `skip` bytes, for reading as long as it is unchanged. */
pawl_status weights_open_file(weights *w, uint32_t shard, uint64_t skip, store_mode mode,
                              store_file **out, pawl_error *err) PAWL_MUST_CHECK;

/* ---- weights_read.c ------------------------------------------------------------------------- */

/* Reads the index, if there is one, and all headers, and checks that they say the same. */
pawl_status weights_read(weights *w, pawl_error *err) PAWL_MUST_CHECK;

/* ---- identity.c ----------------------------------------------------------------------------- */

/* source_ops.identity */
pawl_status weights_identity(struct source *base, uint32_t *sum, pawl_error *err) PAWL_MUST_CHECK;

#endif
