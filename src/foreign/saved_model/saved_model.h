/* SPDX-License-Identifier: Apache-2.0 */
/*
 * saved_model: the graph of a SavedModel of TensorFlow (saved_model.proto, graph.proto), read for
 * what it computes, not for its values: signatures, the nodes that each of them reaches, and which
 * types those have. Nothing in it is executed.
 *
 * Nothing is trusted: messages are entered only as deep as the code does it, every array has a
 * maximum (format/limits.h), and walking visits each node once, whatever calls what. A failure is
 * PAWL_EDAMAGED or PAWL_ELIMIT. Threads: none shared. Ownership: the bytes are the caller's, and
 * must outlive the model, whose texts are in them.
 */
#ifndef FOREIGN_SAVED_MODEL_SAVED_MODEL_H
#define FOREIGN_SAVED_MODEL_SAVED_MODEL_H

#include "foreign/tensorflow/protobuf.h"

#define SAVED_MODEL_FILE "saved_model.pb"
#define SAVED_MODEL_TEXT "saved_model.pbtxt" /* the same as text, which is not read */

/* Numbers of types.proto that are asked for by name. */
#define SAVED_MODEL_DOUBLE  2u
#define SAVED_MODEL_STRING  7u
#define SAVED_MODEL_NOWHERE UINT32_MAX
#define SAVED_MODEL_REF     100u /* added to the type of a variable of TensorFlow 1 */

typedef struct saved_node {
    bundle_text name, op;
    bundle_text body; /* a message NodeDef */
    uint32_t function;
    uint32_t link,
        link_count; /* of the graph itself: nodes that it has its inputs from, in `links` */
    uint32_t call, call_count; /* functions that its attributes name, in `calls` */
    bool op_is_function;       /* of the library: it is called, too */
} saved_node;

/* The first one is the graph itself, without a name. */
typedef struct saved_function {
    bundle_text name, body;
    uint32_t node, node_count; /* ascending by name */
} saved_function;

typedef struct saved_input {
    bundle_text name;
    uint32_t node; /* that it is fed to; SAVED_MODEL_NOWHERE: no node */
    uint32_t type;
    bool unknown_rank;
    bool sparse; /* of several tensors: a SparseTensor, a RaggedTensor */
    int ndim;
    const int64_t *shape; /* -1: unknown */
} saved_input;

typedef struct saved_signature {
    bundle_text name, body;
    uint32_t input, input_count; /* ascending by name */
    uint32_t root, root_count;   /* nodes of the graph that its outputs come from */
} saved_signature;

typedef struct saved_model {
    const uint8_t *bytes; /* all of it, for positions in messages */
    bundle_text version;  /* of the TensorFlow that wrote it */
    saved_function *functions;
    saved_node *nodes;
    uint32_t *links, *calls;
    saved_signature *signatures; /* ascending by name */
    saved_input *inputs;
    size_t function_count, function_room, node_count, node_room, link_count, link_room;
    size_t call_count, call_room, signature_count, signature_room, input_count, input_room;
    arena memory;
} saved_model;

/* Of several graphs the one with the tag "serve", else the first. */
pawl_status saved_model_decode(const uint8_t *bytes, size_t n, saved_model *out, pawl_error *err)
    PAWL_MUST_CHECK;
void saved_model_free(saved_model *m);

/* Calls `each` for each type that an attribute of a node has, also those of a list. */
pawl_status saved_node_types(const saved_model *m, const saved_node *node,
                             void (*each)(void *context, bundle_text attribute, uint32_t type),
                             void *context, pawl_error *err) PAWL_MUST_CHECK;

/* ---- walk.c --------------------------------------------------------------------------------- */

/* Is called once for each node that a signature reaches, but for those that its inputs are fed to:
 * those are not computed. False: what it calls is not entered. */
typedef bool (*saved_model_visit)(void *context, const saved_node *node);
/* `visits` counts over all signatures of a model, from 0. */
pawl_status saved_model_walk(const saved_model *m, const saved_signature *signature,
                             saved_model_visit visit, void *context, uint64_t *visits,
                             pawl_error *err) PAWL_MUST_CHECK;

#endif
