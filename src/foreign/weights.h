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
    weight *entries;             /* base.entries, ascending by name */
    int64_t modified_unix_ns;    /* of the newest file; 0: unknown */
} weights;

/* ---- weights.c ------------------------------------------------------------------------------ */

/* Opens a shard for reading. PAWL_EUNSUPPORTED for a link. */
pawl_status weights_open_shard(weights *w, uint32_t shard, store_mode mode, store_file **out,
                               pawl_error *err) PAWL_MUST_CHECK;
/* Adds a file of the directory to an error. */
void weights_file_path(const weights *w, const char *file, pawl_error *err);

/* ---- weights_read.c ------------------------------------------------------------------------- */

/* Reads the index, if there is one, and all headers, and checks that they say the same. */
pawl_status weights_read(weights *w, pawl_error *err) PAWL_MUST_CHECK;

/* ---- identity.c ----------------------------------------------------------------------------- */

/* source_ops.identity */
pawl_status weights_identity(struct source *base, uint32_t *sum, pawl_error *err) PAWL_MUST_CHECK;

/* ---- shifted_file.c ------------------------------------------------------------------------- */

/* A file without its first `skip` bytes, for reading. Takes `inner` over, also when this fails. */
pawl_status shifted_file_open(store_file *inner, uint64_t skip, store_file **out, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
