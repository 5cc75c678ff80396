/* SPDX-License-Identifier: Apache-2.0 */
/* stores/tree: files and directories in memory. */
#include "stores/tree.h"

#include "store/implement.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

tree_node *store_tree_new(store_type type) {
    tree_node *node = mem_calloc(1, sizeof(*node));
    if (node != NULL) {
        node->type = type;
        node->references = 1;
    }
    return node;
}

void store_tree_hold(tree_node *node) {
    node->references++;
}

void store_tree_drop(tree_node *node) {
    if (node == NULL || --node->references > 0) {
        return;
    }
    for (size_t i = 0; i < node->count; i++) {
        mem_free(node->entries[i].name);
        store_tree_drop(node->entries[i].node);
    }
    mem_free(node->entries);
    mem_free(node->bytes);
    mem_free(node);
}

/* Where the first n bytes of `name` are or would be among the names, which are ascending: a job of
 * many ranks makes large directories. */
static size_t entry_place(const tree_node *dir, const char *name, size_t n) {
    size_t from = 0;
    size_t end = dir->count;
    while (from < end) {
        size_t middle = from + (end - from) / 2;
        int order = strncmp(dir->entries[middle].name, name, n);
        if (order < 0) {
            from = middle + 1;
        } else {
            end = middle;
        }
    }
    return from;
}

static tree_entry *find_entry(const tree_node *dir, const char *name, size_t n) {
    size_t at = entry_place(dir, name, n); /* a longer name that begins so comes after it */
    bool found = at < dir->count && strncmp(dir->entries[at].name, name, n) == 0 &&
                 dir->entries[at].name[n] == '\0';
    return found ? &dir->entries[at] : NULL;
}

tree_node *store_tree_child(const tree_node *dir, const char *name) {
    tree_entry *entry = find_entry(dir, name, strlen(name));
    return entry == NULL ? NULL : entry->node;
}

int store_tree_find(tree_node *root, const char *path, tree_node **out) {
    tree_node *node = root;
    for (const char *at = path; *at != '\0';) {
        if (node->type != STORE_DIR_TYPE) {
            return ENOTDIR;
        }
        size_t n = strcspn(at, "/");
        tree_entry *entry = find_entry(node, at, n);
        if (entry == NULL) {
            return ENOENT;
        }
        node = entry->node;
        at += n + (at[n] == '/' ? 1 : 0);
    }
    *out = node;
    return 0;
}

int store_tree_find_parent(tree_node *root, const char *path, tree_node **dir, const char **name) {
    char parent[STORE_MAX_PATH];
    *name = store_split_path(path, parent);
    int failed = store_tree_find(root, parent, dir);
    if (failed == 0 && (*dir)->type != STORE_DIR_TYPE) {
        failed = ENOTDIR;
    }
    return failed;
}

pawl_status store_tree_reserve_entry(tree_node *dir, pawl_error *err) {
    return vec_reserve(&dir->entries, &dir->entries_capacity, dir->count + 1, sizeof(*dir->entries),
                       err);
}

pawl_status store_tree_reserve_bytes(tree_node *file, uint64_t size, pawl_error *err) {
    if (size > PTRDIFF_MAX) {
        return error_nomem(err, SIZE_MAX);
    }
    if (size == 0) {
        return PAWL_OK;
    }
    return vec_reserve(&file->bytes, &file->capacity, (size_t)size, 1, err);
}

void store_tree_link(tree_node *dir, char *owned_name, tree_node *node) {
    store_tree_hold(node);
    tree_entry *entry = find_entry(dir, owned_name, strlen(owned_name));
    if (entry != NULL) {
        mem_free(owned_name);
        store_tree_drop(entry->node);
        entry->node = node;
        return;
    }
    assert(dir->count < dir->entries_capacity);
    size_t at = entry_place(dir, owned_name, strlen(owned_name) + 1);
    memmove(&dir->entries[at + 1], &dir->entries[at], (dir->count - at) * sizeof(*dir->entries));
    dir->entries[at] = (tree_entry){.name = owned_name, .node = node};
    dir->count++;
}

void store_tree_unlink(tree_node *dir, const char *name) {
    tree_entry *entry = find_entry(dir, name, strlen(name));
    if (entry == NULL) {
        return;
    }
    tree_entry gone = *entry;
    size_t after = dir->count - (size_t)(entry - dir->entries) - 1;
    memmove(entry, entry + 1, after * sizeof(*entry));
    dir->count--;
    mem_free(gone.name);
    store_tree_drop(gone.node);
}

void store_tree_extend(tree_node *file, size_t size) {
    assert(size <= file->capacity);
    if (size > file->size) {
        memset(file->bytes + file->size, 0, size - file->size);
        file->size = size;
    }
}

void store_tree_write(tree_node *file, uint64_t at, const void *from, size_t n) {
    if (n > 0) {
        store_tree_extend(file, (size_t)at + n);
        memcpy(file->bytes + at, from, n);
    }
}

size_t store_tree_read(const tree_node *file, uint64_t at, void *to, size_t n) {
    if (at >= file->size) {
        return 0;
    }
    size_t left = file->size - (size_t)at;
    size_t got = n < left ? n : left;
    memcpy(to, file->bytes + at, got);
    return got;
}
