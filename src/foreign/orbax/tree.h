/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/orbax/tree: what Orbax calls its arrays and values: _METADATA. */
#ifndef FOREIGN_ORBAX_TREE_H
#define FOREIGN_ORBAX_TREE_H

#include "base/base.h"
#include "foreign/archive.h"

typedef enum orbax_leaf_kind {
    ORBAX_ARRAY,
    ORBAX_STRING,
    ORBAX_OTHER /* an array, or nothing is stored of it: `value` is the JSON of what it is */
} orbax_leaf_kind;

typedef struct orbax_leaf {
    const char *stored; /* the name that it is stored by: its keys, with '.' between */
    const char *name;   /* the same with '/', as an entry can have it; "" where there are no keys */
    orbax_leaf_kind kind;
    const char *value;
    bool found;
} orbax_leaf;

typedef struct orbax_tree {
    orbax_leaf *leaves; /* ascending by `stored` */
    size_t count, room;
    bool ocdbt;  /* arrays are in a database, as it says */
    bool stored; /* and so are all their chunks, those that have the fill value, too */
} orbax_tree;

/* Reads the text of a _METADATA; names live in the archive's memory. */
pawl_status orbax_tree_read(archive *a, const void *text, size_t n, orbax_tree *out,
                            pawl_error *err) PAWL_MUST_CHECK;
void orbax_tree_free(orbax_tree *tree);
/* NULL: there is none of that name. */
orbax_leaf *orbax_tree_find(const orbax_tree *tree, const char *stored, size_t n);

#endif
