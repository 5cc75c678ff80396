/* SPDX-License-Identifier: Apache-2.0 */
/* One entry of a checkpoint as text and as JSON. */
#ifndef CLI_ENTRY_H
#define CLI_ENTRY_H

#include "json.h"

#include <pawl/checkpoint.h>

/* What it takes to read a tensor: a copy, since a pawl_entry_info lives until the next call
 * only. */
typedef struct tensor_ref {
    char *name;
    pawl_dtype dtype;
    int ndim;
    int64_t shape[PAWL_MAX_NDIM];
    uint64_t elements, bytes;
} tensor_ref;

tensor_ref tensor_ref_of(const pawl_entry_info *info);
void tensor_ref_free(tensor_ref *t);

/* "F32" or "int64"; of a tensor of a type that is no dtype, its name. */
const char *entry_type(const pawl_entry_info *info);
/* "[64, 10]" for tensors, "" for values; allocated. */
char *entry_shape(const pawl_entry_info *info);
/* The value as one line of at most `columns` columns; "" for tensors and per-rank values;
 * allocated. */
char *entry_value(const pawl_entry_info *info, size_t columns);
/* What a rank has of a per-rank entry: the first `most` bytes of it, allocated; `*size` is how many
 * it has. */
pawl_status entry_read_rank(pawl_checkpoint *checkpoint, const char *name, int rank, size_t most,
                            char **bytes, size_t *size, pawl_error *err);
/* Bytes as "9f 86 d0", at most `most` of them, then "..."; allocated. */
char *entry_hex(const void *bytes, size_t n, size_t most);

/* Writes the members of an entry, always the same ones, into the open object. */
void entry_json(json *j, const pawl_entry_info *info);
/* Writes the member `key`: the value; null for tensors and per-rank values. */
void entry_json_value(json *j, const char *key, const pawl_entry_info *info);
void entry_json_shape(json *j, const char *key, int ndim, const int64_t *shape);

#endif
