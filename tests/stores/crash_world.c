/* SPDX-License-Identifier: Apache-2.0 */
/* stores/crash_world: builds what a power loss leaves: what is durable, and the items that were
 * kept. */
#include "stores/crash.h"

#include <string.h>

typedef struct world {
    const crash_store *from;
    tree_node **copies; /* by the number of a node; NULL: not copied yet; each held */
} world;

static pawl_status copy_of(world *w, size_t number, tree_node **out, pawl_error *err);

static pawl_status copy_entry(world *w, const tree_entry *entry, tree_node *copy, pawl_error *err) {
    tree_node *child = NULL;
    TRY(copy_of(w, entry->node->number, &child, err));
    char *name = mem_strdup(entry->name);
    if (name == NULL) {
        return error_nomem(err, strlen(entry->name) + 1);
    }
    store_tree_link(copy, name, child);
    return PAWL_OK;
}

static pawl_status fill_copy(world *w, const tree_node *durable, tree_node *copy, pawl_error *err) {
    TRY(store_tree_reserve_bytes(copy, durable->size, err));
    store_tree_write(copy, 0, durable->bytes, durable->size);
    for (size_t i = 0; i < durable->count; i++) {
        TRY(store_tree_reserve_entry(copy, err));
        TRY(copy_entry(w, &durable->entries[i], copy, err));
    }
    return PAWL_OK;
}

static pawl_status copy_of(world *w, size_t number, tree_node **out, pawl_error *err) {
    if (w->copies[number] == NULL) {
        const tree_node *durable = w->from->nodes[number]->durable;
        tree_node *copy = store_tree_new(durable->type);
        if (copy == NULL) {
            return error_nomem(err, sizeof(*copy));
        }
        w->copies[number] = copy;
        TRY(fill_copy(w, durable, copy, err));
    }
    *out = w->copies[number];
    return PAWL_OK;
}

/* Only the first half of the write arrives; within one sector, only the size that it gave the
 * file. */
static pawl_status tear_write(const world *w, const crash_item *item, tree_node *file,
                              pawl_error *err) {
    size_t n = store_crash_cut(w->from, item->at, item->n);
    uint64_t end = item->at + (n > 0 ? n : item->n);
    TRY(store_tree_reserve_bytes(file, end, err));
    store_tree_extend(file, (size_t)end);
    store_tree_write(file, item->at, item->bytes, n);
    return PAWL_OK;
}

static pawl_status apply_kept(world *w, const crash_item *item, bool torn, pawl_error *err) {
    tree_node *node = NULL, *dir = NULL;
    TRY(copy_of(w, item->node->number, &node, err));
    if (torn) {
        return tear_write(w, item, node, err);
    }
    if (item->dir != NULL) {
        TRY(copy_of(w, item->dir->number, &dir, err));
    }
    return store_crash_apply(item, dir, node, err);
}

static pawl_status build_world(world *w, const bool *keep, size_t torn, tree_node **root,
                               pawl_error *err) {
    TRY(copy_of(w, 0, root, err));
    for (size_t i = 0; i < w->from->items_count; i++) {
        if (keep[i]) {
            TRY(apply_kept(w, &w->from->items[i], i == torn, err));
        }
    }
    return PAWL_OK;
}

static pawl_status build_tree(const crash_store *c, const bool *keep, size_t torn, tree_node **root,
                              pawl_error *err) {
    world w = {.from = c, .copies = mem_calloc(c->nodes_count, sizeof(tree_node *))};
    if (w.copies == NULL) {
        return error_nomem(err, c->nodes_count * sizeof(tree_node *));
    }
    pawl_status status = build_world(&w, keep, torn, root, err);
    if (status == PAWL_OK) {
        store_tree_hold(*root);
    }
    for (size_t i = 0; i < c->nodes_count; i++) {
        store_tree_drop(w.copies[i]);
    }
    mem_free(w.copies);
    return status;
}

pawl_status store_crash_world(const store *crash, const bool *keep, size_t count, size_t torn,
                              store **out, pawl_error *err) {
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter((const mem_store *)crash);
    const crash_store *c = store_crash_of(crash);
    tree_node *root = NULL;
    mem_store *m = NULL;
    if (count != c->items_count || !store_crash_allows(c, keep, torn)) {
        return error_set(err, PAWL_EUSAGE, "no power loss leaves this combination of changes");
    }
    TRY(build_tree(c, keep, torn, &root, err));
    TRY(store_mem_over(root, &store_mem_traits, &m, err));
    *out = &m->base;
    return PAWL_OK;
}
