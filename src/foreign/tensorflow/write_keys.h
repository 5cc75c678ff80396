/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorflow/write_keys: under which keys entries are written, and what texts become. Private to
 * this folder.
 */
#ifndef FOREIGN_TENSORFLOW_WRITE_KEYS_H
#define FOREIGN_TENSORFLOW_WRITE_KEYS_H

#include "foreign/tensorflow/graph.h"
#include "foreign/writer.h"

/* ---- write_keys.c --------------------------------------------------------------------------- */

/* What of a graph is written. */
typedef struct graph_fit {
    bool *found; /* by attribute; in the memory that was given */
    size_t missing;
    bool taken; /* an entry that is none of them has one of their keys for a name */
} graph_fit;
/* keys[i] is the key of items[i]: that of the graph, or its name. */
pawl_status graph_keys(object_graph *g, const writer_item *items, size_t count, arena *memory,
                       bundle_text *keys, graph_fit *fit, pawl_error *err) PAWL_MUST_CHECK;
/* The graph without what is missing. */
pawl_status graph_cut(const object_graph *g, const graph_fit *fit, bundle_text bytes, buffer *out,
                      pawl_error *err) PAWL_MUST_CHECK;
/* The item that is the graph; NULL: there is none. */
const writer_item *graph_item(const writer_item *items, size_t count);

/* ---- write_texts.c -------------------------------------------------------------------------- */

/* A tensor of strings. */
typedef struct texts {
    int ndim; /* 0: one text */
    int64_t shape[PAWL_MAX_NDIM];
    buffer lengths, sizes; /* varints, and what is checksummed instead of them */
    buffer bytes;
} texts;
/* A list of texts in JSON, nested as a shape is, becomes such a tensor, and all else one text. */
pawl_status texts_of(const writer_item *item, texts *out, pawl_error *err) PAWL_MUST_CHECK;
void texts_free(texts *t);

#endif
