/* SPDX-License-Identifier: Apache-2.0 */
/* stores/mem: the in-memory store, and the journal by which `crash` follows what it does. */
#ifndef STORES_MEM_H
#define STORES_MEM_H

#include "stores/tree.h"

typedef enum mem_change_kind {
    MEM_CREATE, /* `name` in `dir` becomes the new `node` */
    MEM_WRITE,
    MEM_SYNC,
    /* `name` in `dir`, which is `node`, becomes `to`; `replaced` had that name, or NULL. */
    MEM_RENAME,
    MEM_REMOVE, /* `name` in `dir`, which is `node` */
    MEM_SYNC_DIR
} mem_change_kind;

typedef struct mem_change {
    mem_change_kind kind;
    tree_node *dir, *node, *replaced;
    const char *name, *to;
    uint64_t at;
    const void *bytes;
    size_t n;
} mem_change;

/* Called under the store's monitor. Its failures become the operation's. */
typedef struct mem_journal {
    pawl_status (*before)(void *context, pawl_error *err); /* before anything is looked at */
    /* Before a change is made that will not fail any more. */
    pawl_status (*change)(void *context, const mem_change *change, pawl_error *err);
    void (*destroy)(void *context);
    void *context;
} mem_journal;

typedef struct mem_store {
    store base;
    monitor lock;
    tree_node *root;
    const mem_journal *journal; /* or NULL */
} mem_store;

/* A store over `root`, which it takes over, even when it fails. */
pawl_status store_mem_over(tree_node *root, const store_traits *traits, mem_store **out,
                           pawl_error *err) PAWL_MUST_CHECK;
/* Enters the monitor; for CLEANUP(monitor_leave_pointer). */
monitor *store_mem_enter(const mem_store *m);

extern const store_traits store_mem_traits;

#endif
