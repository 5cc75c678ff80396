/* SPDX-License-Identifier: Apache-2.0 */
/* stores/crash: what the parts of the forgetful store share. crash.c describes the model. */
#ifndef STORES_CRASH_H
#define STORES_CRASH_H

#include "stores/mem.h"

/* A change that is not durable yet. Nodes are held by the list of nodes. */
typedef struct crash_item {
    mem_change_kind kind; /* MEM_CREATE, MEM_WRITE, MEM_RENAME or MEM_REMOVE */
    tree_node *dir, *node, *replaced;
    char *name, *to;
    uint64_t at;
    uint8_t *bytes;
    size_t n;
} crash_item;

typedef struct crash_store {
    mem_journal journal; /* by which the store in memory tells of changes */
    store_traits traits;
    tree_node **nodes; /* all that ever were; each held, as is its `durable` */
    size_t nodes_count, nodes_capacity;
    crash_item *items; /* in the order in which they happened */
    size_t items_count, items_capacity;
    uint64_t operations;
    uint64_t left; /* operations until the machine stops; UINT64_MAX: it does not */
} crash_store;

crash_store *store_crash_of(const store *s);
/* Applies the item to `dir` and `node`, which stand for the item's own in some world. */
pawl_status store_crash_apply(const crash_item *item, tree_node *dir, tree_node *node,
                              pawl_error *err) PAWL_MUST_CHECK;
/* Bytes of the first half of a write, up to a sector's boundary; 0: it cannot be torn. */
size_t store_crash_cut(const crash_store *c, uint64_t at, size_t n);
/* Whether a power loss can leave exactly the items with keep[i]; `torn` as in store_crash_world. */
bool store_crash_allows(const crash_store *c, const bool *keep, size_t torn);

#endif
