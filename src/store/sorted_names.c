/* SPDX-License-Identifier: Apache-2.0 */
/* store/sorted_names: a listing, or its names alone, as a sorted array. */
#include "store/store.h"

#include "store/implement.h"

#include <stdlib.h>
#include <string.h>

typedef struct collected {
    const store *from;
    const char *path;
    size_t limit;
    arena *memory;
    store_listed *items;
    size_t count, capacity;
} collected;

static pawl_status collect_item(void *context, const store_listed *found, pawl_error *err) {
    collected *c = context;
    if (c->count == c->limit) {
        error_set(err, PAWL_ELIMIT, "the directory holds too many names");
        store_error_path(err, c->from, c->path);
        error_expected(err, "at most %zu names", c->limit);
        return PAWL_ELIMIT;
    }
    TRY(vec_reserve(&c->items, &c->capacity, c->count + 1, sizeof(*c->items), err));
    char *copy = arena_strdup(c->memory, found->name);
    if (copy == NULL) {
        return error_nomem(err, strlen(found->name) + 1);
    }
    c->items[c->count] = *found;
    c->items[c->count++].name = copy;
    return PAWL_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const store_listed *)a)->name, ((const store_listed *)b)->name);
}

static pawl_status hand_over(const collected *c, store_listed **items, pawl_error *err) {
    *items = arena_take(c->memory, c->count * sizeof(**items), err);
    if (*items == NULL) {
        return PAWL_ENOMEM;
    }
    if (c->count > 0) {
        memcpy(*items, c->items, c->count * sizeof(**items));
        qsort(*items, c->count, sizeof(**items), by_name);
    }
    return PAWL_OK;
}

pawl_status store_listing(store *s, const char *path, size_t limit, arena *memory,
                          store_listed **items, size_t *count, pawl_error *err) {
    collected c = {.from = s, .path = path, .limit = limit, .memory = memory};
    pawl_status status = store_list(s, path, collect_item, &c, err);
    if (status == PAWL_OK) {
        status = hand_over(&c, items, err);
        *count = c.count;
    }
    mem_free(c.items);
    return status;
}

pawl_status store_names(store *s, const char *path, size_t limit, arena *memory, char ***names,
                        size_t *count, pawl_error *err) {
    store_listed *items;
    size_t found = 0;
    TRY(store_listing(s, path, limit, memory, &items, &found, err));
    *names = arena_take(memory, (found + 1) * sizeof(**names), err);
    if (*names == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < found; i++) {
        (*names)[i] = (char *)items[i].name;
    }
    (*names)[found] = NULL;
    *count = found;
    return PAWL_OK;
}
