/* SPDX-License-Identifier: Apache-2.0 */
/* Entries in the order of their names: a tree whose two sides differ in height by at most one,
 * below each entry (Adelson-Velsky and Landis, 1962). */
#include "state/tree.h"

#include <string.h>

#define MOST_LEVELS 48 /* 1.45 log2 of STATE_MAX_ENTRIES is below 40 */

/* The links from the root down to an entry or to where one would be. */
typedef struct tree_path {
    held_entry **links[MOST_LEVELS];
    size_t count;
} tree_path;

static int height_of(const held_entry *e) {
    return e != NULL ? e->height : 0;
}

static void set_height(held_entry *e) {
    int left = height_of(e->below[0]);
    int right = height_of(e->below[1]);
    e->height = 1 + (left > right ? left : right);
}

/* The entry below on the other side comes up, and this one goes down to `side`. */
static void rotate(held_entry **link, int side) {
    held_entry *down = *link;
    held_entry *up = down->below[!side];
    down->below[!side] = up->below[side];
    up->below[side] = down;
    *link = up;
    set_height(down);
    set_height(up);
}

static void balance_one(held_entry **link) {
    held_entry *e = *link;
    int lean = height_of(e->below[1]) - height_of(e->below[0]);
    if (lean >= -1 && lean <= 1) {
        set_height(e);
        return;
    }
    int high = lean > 0;
    const held_entry *child = e->below[high];
    if (height_of(child->below[!high]) > height_of(child->below[high])) {
        rotate(&e->below[high], high);
    }
    rotate(link, !high);
}

/* From the last link up, until nothing changes any more. */
static void balance(tree_path *path) {
    while (path->count > 0) {
        held_entry **link = path->links[--path->count];
        int before = (*link)->height;
        balance_one(link);
        if ((*link)->height == before) {
            return;
        }
    }
}

/* The link to the entry of that name, or where it would be; `path` (or NULL) gets those above. */
static held_entry **descend(held_entry **link, const char *name, tree_path *path) {
    while (*link != NULL) {
        int order = strcmp(name, (*link)->seen.name);
        if (order == 0) {
            return link;
        }
        if (path != NULL) {
            path->links[path->count++] = link;
        }
        link = &(*link)->below[order > 0];
    }
    return link;
}

held_entry *tree_find(entry_tree tree, const char *name) {
    return *descend(&tree, name, NULL);
}

held_entry *tree_insert(entry_tree *tree, held_entry *e) {
    tree_path path;
    path.count = 0;
    held_entry **link = descend(tree, e->seen.name, &path);
    if (*link != NULL) {
        return *link;
    }
    e->below[0] = e->below[1] = NULL;
    e->height = 1;
    *link = e;
    balance(&path);
    return NULL;
}

/* The one that follows in the order of names takes the place of *link, which has both sides. */
static void put_follower(held_entry **link, tree_path *path) {
    held_entry *e = *link;
    path->links[path->count++] = link;
    size_t first = path->count;
    held_entry **at = &e->below[1];
    while ((*at)->below[0] != NULL) {
        path->links[path->count++] = at;
        at = &(*at)->below[0];
    }
    held_entry *follower = *at;
    *at = follower->below[1];
    follower->below[0] = e->below[0];
    follower->below[1] = e->below[1];
    follower->height = e->height;
    *link = follower;
    if (path->count > first) {
        path->links[first] = &follower->below[1];
    }
}

void tree_remove(entry_tree *tree, held_entry *e) {
    tree_path path;
    path.count = 0;
    held_entry **link = descend(tree, e->seen.name, &path);
    if (e->below[0] != NULL && e->below[1] != NULL) {
        put_follower(link, &path);
    } else {
        *link = e->below[e->below[0] == NULL];
    }
    balance(&path);
}

held_entry *tree_replace(entry_tree *tree, held_entry *next) {
    held_entry **link = descend(tree, next->seen.name, NULL);
    held_entry *e = *link;
    if (e == NULL) {
        return NULL;
    }
    next->below[0] = e->below[0];
    next->below[1] = e->below[1];
    next->height = e->height;
    *link = next;
    return e;
}

size_t tree_list(entry_tree tree, const state_entry **out) {
    held_entry *above[MOST_LEVELS] = {NULL};
    size_t depth = 0;
    size_t count = 0;
    while (tree != NULL || depth > 0) {
        for (; tree != NULL; tree = tree->below[0]) {
            above[depth++] = tree;
        }
        tree = above[--depth];
        out[count++] = &tree->seen;
        tree = tree->below[1];
    }
    return count;
}

entry_tree tree_build(const state_entry *const *ascending, size_t count) {
    if (count == 0) {
        return NULL;
    }
    size_t middle = count / 2;
    held_entry *e = entry_held(ascending[middle]);
    e->below[0] = tree_build(ascending, middle);
    e->below[1] = tree_build(ascending + middle + 1, count - middle - 1);
    set_height(e);
    return e;
}

void tree_free(entry_tree tree) {
    while (tree != NULL) {
        held_entry *right = tree->below[1];
        tree_free(tree->below[0]);
        entry_let_go(&tree->seen);
        tree = right;
    }
}
