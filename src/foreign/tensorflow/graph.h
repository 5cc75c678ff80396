/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensorflow/graph: the graph of objects of an object-based checkpoint
 * (trackable_object_graph.proto of TensorFlow): which object has which others, and under which key
 * the values of each are. Of it come names and roles of entries, and, where they are written again,
 * their keys. Private to this folder.
 */
#ifndef FOREIGN_TENSORFLOW_GRAPH_H
#define FOREIGN_TENSORFLOW_GRAPH_H

#include "foreign/tensorflow/bundle.h"
#include "format/limits.h"

#include <pawl/state.h>

/* The key of the graph itself, which is the name of its entry, too. */
#define GRAPH_KEY NAME_OBJECT_GRAPH
/* The attribute that is the value of a variable. */
#define GRAPH_VALUE  "VARIABLE_VALUE"
#define GRAPH_NOBODY UINT32_MAX

/* What an object has under a local name. */
typedef struct graph_child {
    uint32_t node;
    bundle_text name;
} graph_child;

/* A value of an object. */
typedef struct graph_attribute {
    uint32_t node;
    bundle_text name, full_name, key;
} graph_attribute;

/* A variable of an optimizer that nobody else has. */
typedef struct graph_slot {
    uint32_t variable, node;
    bundle_text name;
} graph_slot;

typedef struct graph_node {
    size_t child, child_count; /* the first one, and how many */
    size_t slot, slot_count;
    uint32_t value;      /* its attribute GRAPH_VALUE; GRAPH_NOBODY: it has none */
    uint32_t parent;     /* on the way from the root; GRAPH_NOBODY: there is no way */
    bundle_text name;    /* under which the parent has it */
    const char *escaped; /* that name, as a component of an entry's; NULL: not needed so far */
    uint32_t variable;   /* whose slot it is; GRAPH_NOBODY: it is none */
    uint32_t optimizer;  /* that names it as a slot; GRAPH_NOBODY: it has a way of its own */
    bundle_text slot_name;
    bool optimizes;       /* it is an optimizer, */
    bool below_optimizer; /* or of one, */
    bool trained;         /* or of the model, though an optimizer has it */
    bool taken;           /* it is a list in which slots were looked for: many may link to it */
    int list; /* its children are 0, 1, 2, ...: 1; -1: they are not; 0: not looked yet */
} graph_node;

typedef struct object_graph {
    graph_node *nodes; /* the first one is the root */
    size_t node_count, node_room;
    graph_child *children;
    size_t child_count, child_room;
    graph_attribute *attributes; /* ascending by key, each key once */
    size_t attribute_count, attribute_room;
    graph_slot *slots;
    size_t slot_count, slot_room;
    arena memory;
} object_graph;

/* Bytes must outlive the graph. PAWL_EDAMAGED, PAWL_ELIMIT. */
pawl_status graph_decode(const uint8_t *bytes, size_t n, object_graph *out, pawl_error *err)
    PAWL_MUST_CHECK;
void graph_free(object_graph *g);
/* NULL: no object has such a key. */
const graph_attribute *graph_find(const object_graph *g, bundle_text key);
/* The value whose parts, tensors of their own, have keys that begin with its key, as the keys and
 * values of a table do: NULL: none. `ending` is the rest. */
#define GRAPH_MAX_ENDING 32u
const graph_attribute *graph_find_whole(const object_graph *g, bundle_text key,
                                        bundle_text *ending);
bool graph_is_ending(const char *text, size_t n);
/* The child of that name; GRAPH_NOBODY. */
uint32_t graph_child_of(const object_graph *g, uint32_t node, const char *name);

/* ---- graph_slots.c -------------------------------------------------------------------------- */

/* Finds the slots, also those that optimizers of Keras keep in lists. */
pawl_status graph_find_slots(object_graph *g, pawl_error *err) PAWL_MUST_CHECK;

/* ---- graph_names.c -------------------------------------------------------------------------- */

/* The name of an entry, by the graph alone. *named is false where there is no way to it, or one
 * that is too long for a name. */
pawl_status graph_name(object_graph *g, const graph_attribute *attribute, buffer *out, bool *named,
                       pawl_error *err) PAWL_MUST_CHECK;
/* Of PAWL_ROLE_SLOT the node has variable and slot_name. */
pawl_role graph_role(const object_graph *g, const graph_attribute *attribute);

#endif
