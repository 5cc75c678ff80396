/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stores/crash: a filesystem that forgets. The fault model:
 *
 * Durable state and pending items. Every file has the bytes, every directory the names, that a
 * power loss can no longer take. What happened since is a list of pending items, each of which may
 * have reached the disk or not, in any order: the cache writes back when it likes.
 *
 * 1. A write is pending until its file is synced. It carries its bytes and the growth of the size.
 *    It counts as two items, cut at a sector's boundary in the middle, unless it lies in one
 *    sector; so the second half may arrive without the first, and what did not arrive reads as
 *    zeros or, at the end, is missing. An item that is `torn` arrives in its first half only, cut
 *    in the same way; within one sector, the size arrives and the bytes do not: they read as zeros.
 * 2. A creation, rename or removal is pending until the directory that holds the name is synced.
 *    Syncing a file makes neither its own name durable nor that of its directory; syncing a
 *    directory makes neither its files' bytes durable nor its own name in the directory above.
 * 3. Items that touch one name of a directory survive in order. With `ordered_names` all items of
 *    one directory do. Items of different directories, and names and bytes, have no order.
 * 4. A rename is one item: both names change or none. Without `atomic_rename` the removal of the
 *    file that is replaced is an item of its own before it: after a crash the target may be
 *    missing.
 * 5. What was done to a file or in a directory whose creation is lost, is lost with it. What was
 *    done to one whose removal survives makes no difference. So that a world is not counted many
 *    times, such items count as lost in the first case and as kept in the second; combinations that
 *    say otherwise are forbidden, because they would be the same world again.
 * 6. Once the removal of a file is durable, what is pending for it is forgotten.
 *
 * The machine may be stopped after any operation (store_crash_stop_after); the worlds at that point
 * are then those that a power loss at that instant leaves. Other programs see the newest state: a
 * killed process loses nothing.
 */
#include "stores/crash.h"

#include <errno.h>
#include <string.h>

crash_store *store_crash_of(const store *s) {
    return ((const mem_store *)s)->journal->context;
}

static void free_item(crash_item *item) {
    mem_free(item->name);
    mem_free(item->to);
    mem_free(item->bytes);
}

/* ---- the list of nodes ---------------------------------------------------------------------- */

/* Puts a new node on the list, and gives it a durable counterpart, which is empty. */
static pawl_status adopt_node(crash_store *c, tree_node *node, const tree_node *parent,
                              pawl_error *err) {
    TRY(vec_reserve(&c->nodes, &c->nodes_capacity, c->nodes_count + 1, sizeof(tree_node *), err));
    node->durable = store_tree_new(node->type);
    if (node->durable == NULL) {
        return error_nomem(err, sizeof(*node));
    }
    node->number = node->durable->number = c->nodes_count;
    node->parent = parent;
    c->nodes[c->nodes_count++] = node;
    store_tree_hold(node);
    return PAWL_OK;
}

static void drop_node(tree_node *node) {
    store_tree_drop(node->durable);
    node->durable = NULL;
    store_tree_drop(node);
}

/* ---- pending items -------------------------------------------------------------------------- */

size_t store_crash_cut(const crash_store *c, uint64_t at, size_t n) {
    uint64_t sector = c->traits.atomic_write_bytes > 0 ? c->traits.atomic_write_bytes : 1;
    uint64_t first = (at / sector + 1) * sector;
    if (first >= at + n) {
        return 0;
    }
    uint64_t middle = (at + n / 2) / sector * sector;
    return (size_t)((middle > at ? middle : first) - at);
}

static pawl_status copy_name(char **copy, const char *text, pawl_error *err) {
    if (text == NULL) {
        return PAWL_OK;
    }
    *copy = mem_strdup(text);
    return *copy == NULL ? error_nomem(err, strlen(text) + 1) : PAWL_OK;
}

static pawl_status copy_bytes(uint8_t **copy, const void *bytes, size_t n, pawl_error *err) {
    if (n == 0) {
        return PAWL_OK;
    }
    *copy = mem_dup(bytes, n);
    return *copy == NULL ? error_nomem(err, n) : PAWL_OK;
}

static pawl_status fill_item(crash_item *item, const mem_change *change, pawl_error *err) {
    *item = (crash_item){.kind = change->kind,
                         .dir = change->dir,
                         .node = change->node,
                         .replaced = change->replaced,
                         .at = change->at,
                         .n = change->n};
    TRY(copy_name(&item->name, change->name, err));
    TRY(copy_name(&item->to, change->to, err));
    return copy_bytes(&item->bytes, change->bytes, change->n, err);
}

/* Both or none of `first` and `second`; `second` may be NULL. */
static pawl_status push_items(crash_store *c, const mem_change *first, const mem_change *second,
                              pawl_error *err) {
    TRY(vec_reserve(&c->items, &c->items_capacity, c->items_count + 2, sizeof(*c->items), err));
    crash_item *item = &c->items[c->items_count];
    pawl_status status = fill_item(item, first, err);
    if (status != PAWL_OK) {
        free_item(item);
        return status;
    }
    status = second == NULL ? PAWL_OK : fill_item(item + 1, second, err);
    if (status != PAWL_OK) {
        free_item(item);
        free_item(item + 1);
        return status;
    }
    c->items_count += second == NULL ? 1 : 2;
    return PAWL_OK;
}

static pawl_status push_write(crash_store *c, const mem_change *change, pawl_error *err) {
    mem_change first = *change, second = *change;
    size_t cut = store_crash_cut(c, change->at, change->n);
    if (change->node->gone) {
        return PAWL_OK;
    }
    if (cut == 0) {
        return push_items(c, change, NULL, err);
    }
    first.n = cut;
    second.at += cut;
    second.bytes = (const uint8_t *)change->bytes + cut;
    second.n -= cut;
    return push_items(c, &first, &second, err);
}

static pawl_status push_rename(crash_store *c, const mem_change *change, pawl_error *err) {
    if (c->traits.atomic_rename || change->replaced == NULL) {
        return push_items(c, change, NULL, err);
    }
    mem_change removal = {
        .kind = MEM_REMOVE, .dir = change->dir, .node = change->replaced, .name = change->to};
    mem_change move = *change;
    move.replaced = NULL;
    return push_items(c, &removal, &move, err);
}

/* ---- making durable ------------------------------------------------------------------------- */

static pawl_status apply_link(tree_node *dir, const char *name, tree_node *node, pawl_error *err) {
    TRY(store_tree_reserve_entry(dir, err));
    char *copy = mem_strdup(name);
    if (copy == NULL) {
        return error_nomem(err, strlen(name) + 1);
    }
    store_tree_link(dir, copy, node);
    return PAWL_OK;
}

pawl_status store_crash_apply(const crash_item *item, tree_node *dir, tree_node *node,
                              pawl_error *err) {
    switch (item->kind) {
    case MEM_CREATE:
        return apply_link(dir, item->name, node, err);
    case MEM_RENAME:
        TRY(apply_link(dir, item->to, node, err));
        store_tree_unlink(dir, item->name);
        return PAWL_OK;
    case MEM_REMOVE:
        store_tree_unlink(dir, item->name);
        return PAWL_OK;
    default:
        TRY(store_tree_reserve_bytes(node, item->at + item->n, err));
        store_tree_write(node, item->at, item->bytes, item->n);
        return PAWL_OK;
    }
}

static bool is_synced_by(const crash_item *item, mem_change_kind sync, const tree_node *node) {
    if (sync == MEM_SYNC) {
        return item->kind == MEM_WRITE && item->node == node;
    }
    return item->kind != MEM_WRITE && item->dir == node;
}

static void mark_gone(const crash_item *item) {
    if (item->kind == MEM_REMOVE) {
        item->node->gone = true;
    } else if (item->kind == MEM_RENAME && item->replaced != NULL) {
        item->replaced->gone = true;
    }
}

static pawl_status settle_item(const crash_item *item, mem_change_kind sync, const tree_node *node,
                               bool *settled, pawl_error *err) {
    *settled = false;
    if (!is_synced_by(item, sync, node)) {
        return PAWL_OK;
    }
    tree_node *dir = item->dir == NULL ? NULL : item->dir->durable;
    TRY(store_crash_apply(item, dir, item->node->durable, err));
    mark_gone(item);
    *settled = true;
    return PAWL_OK;
}

static bool is_for_gone(const crash_item *item) {
    return item->kind == MEM_WRITE ? item->node->gone : item->dir->gone;
}

/* Takes off the list what was done to nodes whose removal has become durable. What was removed
 * from a directory that is gone is gone, too; going backwards meets a directory before what was
 * in it. */
static void forget_gone(crash_store *c) {
    size_t kept = 0;
    for (size_t i = c->items_count; i-- > 0;) {
        if (is_for_gone(&c->items[i])) {
            mark_gone(&c->items[i]);
        }
    }
    for (size_t i = 0; i < c->items_count; i++) {
        if (is_for_gone(&c->items[i])) {
            free_item(&c->items[i]);
        } else {
            c->items[kept++] = c->items[i];
        }
    }
    c->items_count = kept;
}

/* Moves the pending items of `node` into what is durable. Out of memory, some of them have moved: a
 * sync that fails promises nothing. */
static pawl_status settle_node(crash_store *c, mem_change_kind sync, const tree_node *node,
                               pawl_error *err) {
    pawl_status status = PAWL_OK;
    size_t kept = 0;
    for (size_t i = 0; i < c->items_count; i++) {
        crash_item *item = &c->items[i];
        bool settled = false;
        if (status == PAWL_OK) {
            status = settle_item(item, sync, node, &settled, err);
        }
        if (settled) {
            free_item(item);
        } else {
            c->items[kept++] = *item;
        }
    }
    c->items_count = kept;
    forget_gone(c);
    return status;
}

/* ---- the journal ---------------------------------------------------------------------------- */

static pawl_status crash_before(void *context, pawl_error *err) {
    const crash_store *c = context;
    if (c->left == 0) {
        return error_sys(err, EIO, "the machine has stopped");
    }
    return PAWL_OK;
}

static pawl_status record_change(crash_store *c, const mem_change *change, pawl_error *err) {
    switch (change->kind) {
    case MEM_CREATE:
        TRY(adopt_node(c, change->node, change->dir, err));
        return push_items(c, change, NULL, err);
    case MEM_WRITE:
        return push_write(c, change, err);
    case MEM_RENAME:
        return push_rename(c, change, err);
    case MEM_REMOVE:
        return push_items(c, change, NULL, err);
    default:
        return settle_node(c, change->kind, change->node, err);
    }
}

static pawl_status crash_change(void *context, const mem_change *change, pawl_error *err) {
    crash_store *c = context;
    TRY(record_change(c, change, err));
    c->operations++;
    if (c->left != UINT64_MAX) {
        c->left--;
    }
    return PAWL_OK;
}

static void crash_destroy(void *context) {
    crash_store *c = context;
    for (size_t i = 0; i < c->items_count; i++) {
        free_item(&c->items[i]);
    }
    for (size_t i = 0; i < c->nodes_count; i++) {
        drop_node(c->nodes[i]);
    }
    mem_free(c->items);
    mem_free(c->nodes);
    mem_free(c);
}

/* ---- the store ------------------------------------------------------------------------------ */

static pawl_status make_root(crash_store *c, tree_node **out, pawl_error *err) {
    tree_node *root = store_tree_new(STORE_DIR_TYPE);
    pawl_status status =
        root == NULL ? error_nomem(err, sizeof(*root)) : adopt_node(c, root, NULL, err);
    if (status != PAWL_OK) {
        store_tree_drop(root);
        return status;
    }
    *out = root;
    return PAWL_OK;
}

pawl_status store_crash(const store_traits *traits, store **out, pawl_error *err) {
    crash_store *c = mem_calloc(1, sizeof(*c));
    tree_node *root = NULL;
    mem_store *m = NULL;
    if (c == NULL) {
        return error_nomem(err, sizeof(*c));
    }
    c->journal = (mem_journal){
        .before = crash_before, .change = crash_change, .destroy = crash_destroy, .context = c};
    c->traits = *traits;
    c->left = UINT64_MAX;
    pawl_status status = make_root(c, &root, err);
    if (status == PAWL_OK) {
        status = store_mem_over(root, traits, &m, err);
    }
    if (status != PAWL_OK) {
        crash_destroy(c);
        return status;
    }
    m->journal = &c->journal;
    *out = &m->base;
    return PAWL_OK;
}

uint64_t store_crash_operations(const store *crash) {
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter((const mem_store *)crash);
    return store_crash_of(crash)->operations;
}

void store_crash_stop_after(store *crash, uint64_t limit) {
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter((const mem_store *)crash);
    store_crash_of(crash)->left = limit;
}

size_t store_crash_pending(const store *crash) {
    CLEANUP(monitor_leave_pointer) monitor *locked = store_mem_enter((const mem_store *)crash);
    return store_crash_of(crash)->items_count;
}
