/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stores/tree: files and directories in memory, for the stores `mem` and `crash`. No locking here.
 * Changes are in two halves, so that a change which runs out of memory changes nothing: the half
 * that allocates (store_tree_new, store_tree_reserve_*), then the half that cannot fail.
 */
#ifndef STORES_TREE_H
#define STORES_TREE_H

#include "stores/stores.h"

typedef struct tree_node tree_node;

typedef struct tree_entry {
    char *name;
    tree_node *node;
} tree_entry;

struct tree_node {
    store_type type;
    size_t references; /* entries, open files and journals that point here */
    uint8_t *bytes;    /* of a file */
    size_t size, capacity;
    tree_entry *entries; /* of a directory, ascending by name */
    size_t count, entries_capacity;
    tree_node *durable; /* `crash`: the node as a power loss would leave it at least; else NULL */
    size_t number;      /* `crash`: position in its list of all nodes */
    const tree_node *parent; /* `crash`: the directory it was created in */
    bool gone;               /* `crash`: its removal is durable; nothing done to it matters now */
};

tree_node *store_tree_new(store_type type); /* with one reference; NULL when out of memory */
void store_tree_hold(tree_node *node);
void store_tree_drop(tree_node *node); /* frees with the last reference; NULL is fine */

tree_node *store_tree_child(const tree_node *dir, const char *name); /* or NULL */
/* 0, ENOENT or ENOTDIR. Nothing is held. "" is `root` itself. */
int store_tree_find(tree_node *root, const char *path, tree_node **out);
int store_tree_find_parent(tree_node *root, const char *path, tree_node **dir, const char **name);

pawl_status store_tree_reserve_entry(tree_node *dir, pawl_error *err) PAWL_MUST_CHECK;
pawl_status store_tree_reserve_bytes(tree_node *file, uint64_t size, pawl_error *err)
    PAWL_MUST_CHECK;
/* Points `name` to `node`, holding it; takes over `owned_name`. Room must have been reserved. */
void store_tree_link(tree_node *dir, char *owned_name, tree_node *node);
void store_tree_unlink(tree_node *dir, const char *name); /* no such name is fine */
/* What lies between the old end and `at` becomes zeros. Room must have been reserved. */
void store_tree_write(tree_node *file, uint64_t at, const void *from, size_t n);
/* Adds zeros up to `size`, if the file is shorter. Room must have been reserved. */
void store_tree_extend(tree_node *file, size_t size);
size_t store_tree_read(const tree_node *file, uint64_t at, void *to, size_t n);

#endif
