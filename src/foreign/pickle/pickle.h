/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/pickle: reads Python's pickles, of protocols 0 to 5, without Python: what would be called
 * or made becomes a node of a tree that says so. Nothing is ever executed or looked up.
 *
 * A function that is called and that the reader of the format does not know is refused, with its
 * name and its place. Objects of any class are nodes, which mean nothing but what the reader makes
 * of them.
 *
 * Opcodes, the depth of the stack, the memo, nodes and bytes are bounded. A container may be in
 * itself: whoever walks over nodes has a limit on how deep.
 */
#ifndef FOREIGN_PICKLE_H
#define FOREIGN_PICKLE_H

#include "base/base.h"

typedef enum pickle_kind {
    PICKLE_NONE = 1,
    PICKLE_BOOL,
    PICKLE_INT, /* that fits int64_t */
    PICKLE_BIG, /* one that does not: little-endian two's complement */
    PICKLE_FLOAT,
    PICKLE_TEXT,  /* UTF-8 */
    PICKLE_BYTES, /* also a text of Python 2 that is no UTF-8 */
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_DICT, /* items: key, value, key, value, ... */
    PICKLE_SET,
    PICKLE_FROZENSET,
    PICKLE_GLOBAL, /* "module" and "name" */
    PICKLE_CALL,   /* of `callee` with `arguments` */
    PICKLE_OUTSIDE /* what `id` names is elsewhere */
} pickle_kind;

typedef struct pickle_node pickle_node;

typedef struct pickle_items {
    pickle_node **nodes;
    uint32_t count, room;
} pickle_items;

typedef struct pickle_text {
    const char *bytes; /* of the pickle itself, or the tree's memory; no NUL at the end */
    size_t n;
} pickle_text;

/* What an object is given once it is made. */
typedef struct pickle_filling {
    pickle_node *keywords; /* a dict that it was given when it was made; NULL: none */
    pickle_node *state;    /* NULL: none */
    pickle_items items;    /* that are put into it */
    bool pairs;            /* which are keys and values */
} pickle_filling;

/* Of a function, or a class whose object is made. */
typedef struct pickle_call {
    pickle_node *callee, *arguments;
    const pickle_filling *with; /* never NULL */
} pickle_call;

struct pickle_node {
    pickle_kind kind;
    uint32_t
        at; /* of its opcode; of what is shared, as equal numbers and tuples are: of the first */
    union {
        bool truth;
        int64_t integer;
        double number;
        pickle_text text; /* TEXT, BYTES, BIG */
        pickle_items items;
        struct {
            const char *module, *name; /* end in NUL */
        } global;
        pickle_call *call;
        pickle_node *id;
    };
};

typedef struct pickle_tree {
    pickle_node *root;
    size_t bytes;         /* of the pickle: where its last opcode ends */
    pickle_items outside; /* all nodes that are PICKLE_OUTSIDE */
    arena memory;
} pickle_tree;

/* May this function be called, that is, does the reader know what it would have returned? */
typedef bool (*pickle_knows)(const char *module, const char *name);

/* `bytes` must stay as long as the tree. `base` is their position in the file, for messages. */
pawl_status pickle_read(const uint8_t *bytes, size_t n, uint64_t base, pickle_knows knows,
                        pickle_tree *out, pawl_error *err) PAWL_MUST_CHECK;
void pickle_free(pickle_tree *tree);

bool pickle_is_global(const pickle_node *node, const char *module, const char *name);
/* A call of that, or an object of that class. */
bool pickle_is_call(const pickle_node *node, const char *module, const char *name);
/* The text of a node is that. */
bool pickle_says(const pickle_node *node, const char *text);
/* The value of a key that is a text, in a dict or a call's items; NULL: none, or there are more
 * than FOREIGN_MAX_PICKLE_ATTRIBUTES. */
pickle_node *pickle_get(const pickle_node *node, const char *key);

#endif
