/* SPDX-License-Identifier: Apache-2.0 */
/* stores/crash_rules: which combinations of pending items a power loss can leave (crash.c, 3 to
 * 5). */
#include "stores/crash.h"

#include <string.h>

static bool is_name_item(const crash_item *item) {
    return item->kind != MEM_WRITE;
}

/* What an item changes: a file's bytes or a directory's names. */
static const tree_node *changed_node(const crash_item *item) {
    return is_name_item(item) ? item->dir : item->node;
}

static bool same_name(const char *a, const char *b) {
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static bool share_a_name(const crash_item *a, const crash_item *b) {
    return same_name(a->name, b->name) || same_name(a->name, b->to) || same_name(a->to, b->name) ||
           same_name(a->to, b->to);
}

static bool removes_node(const crash_item *item, const tree_node *node) {
    return (item->kind == MEM_REMOVE && item->node == node) ||
           (item->kind == MEM_RENAME && item->replaced == node);
}

static bool is_within(const tree_node *node, const tree_node *dir) {
    while (node != NULL && node != dir) {
        node = node->parent;
    }
    return node != NULL;
}

/* Whether `later` can be there only after `earlier`, which happened before it. */
static bool must_follow(const crash_store *c, const crash_item *later, const crash_item *earlier) {
    if (earlier->kind == MEM_CREATE && is_within(changed_node(later), earlier->node)) {
        return true;
    }
    return is_name_item(later) && is_name_item(earlier) && later->dir == earlier->dir &&
           (c->traits.ordered_names || share_a_name(later, earlier));
}

/* Whether keeping item `a` requires keeping item `b`. */
static bool requires_item(const crash_store *c, size_t a, size_t b) {
    const crash_item *item = &c->items[a], *other = &c->items[b];
    return (b < a && must_follow(c, item, other)) || removes_node(item, changed_node(other));
}

static bool requirements_kept(const crash_store *c, const bool *keep, size_t item) {
    for (size_t other = 0; other < c->items_count; other++) {
        if (!keep[other] && other != item && requires_item(c, item, other)) {
            return false;
        }
    }
    return true;
}

static bool is_removed(const crash_store *c, const bool *keep, const tree_node *node) {
    for (size_t i = 0; i < c->items_count; i++) {
        if (keep[i] && removes_node(&c->items[i], node)) {
            return true;
        }
    }
    return false;
}

/* Whether without this write the file would be shorter. */
static bool grows_file(const crash_store *c, const bool *keep, size_t index) {
    const crash_item *item = &c->items[index];
    uint64_t end = item->at + item->n;
    for (size_t i = 0; i < c->items_count; i++) {
        const crash_item *other = &c->items[i];
        if (keep[i] && i != index && other->kind == MEM_WRITE && other->node == item->node &&
            other->at + other->n >= end) {
            return false;
        }
    }
    return item->node->durable->size < end;
}

static bool can_be_torn(const crash_store *c, const bool *keep, size_t torn) {
    if (torn >= c->items_count || !keep[torn]) {
        return false;
    }
    const crash_item *item = &c->items[torn];
    return item->kind == MEM_WRITE && !is_removed(c, keep, item->node) &&
           (store_crash_cut(c, item->at, item->n) > 0 || grows_file(c, keep, torn));
}

bool store_crash_allows(const crash_store *c, const bool *keep, size_t torn) {
    for (size_t i = 0; i < c->items_count; i++) {
        if (keep[i] && !requirements_kept(c, keep, i)) {
            return false;
        }
    }
    return torn == SIZE_MAX || can_be_torn(c, keep, torn);
}
