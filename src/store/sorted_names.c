/* SPDX-License-Identifier: Apache-2.0 */
/* store/sorted_names: a directory's names as a sorted array. */
#include "store/store.h"

#include "store/implement.h"

#include <stdlib.h>
#include <string.h>

typedef struct collected {
    const store *from;
    const char *path;
    size_t limit;
    arena *memory;
    char **names;
    size_t count, capacity;
} collected;

static pawl_status collect_name(void *context, const store_listed *found, pawl_error *err) {
    collected *c = context;
    if (c->count == c->limit) {
        error_set(err, PAWL_ELIMIT, "the directory holds too many names");
        store_error_path(err, c->from, c->path);
        error_expected(err, "at most %zu names", c->limit);
        return PAWL_ELIMIT;
    }
    TRY(vec_reserve(&c->names, &c->capacity, c->count + 1, sizeof(*c->names), err));
    char *copy = arena_strdup(c->memory, found->name);
    if (copy == NULL) {
        return error_nomem(err, strlen(found->name) + 1);
    }
    c->names[c->count++] = copy;
    return PAWL_OK;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static pawl_status hand_over(const collected *c, char ***names, size_t *count, pawl_error *err) {
    size_t bytes = (c->count + 1) * sizeof(char *);
    char **sorted = arena_take(c->memory, bytes, err);
    if (sorted == NULL) {
        return PAWL_ENOMEM;
    }
    if (c->count > 0) {
        memcpy(sorted, c->names, c->count * sizeof(char *));
        qsort(sorted, c->count, sizeof(char *), by_bytes);
    }
    sorted[c->count] = NULL;
    *names = sorted;
    *count = c->count;
    return PAWL_OK;
}

pawl_status store_names(store *s, const char *path, size_t limit, arena *memory, char ***names,
                        size_t *count, pawl_error *err) {
    collected c = {.from = s, .path = path, .limit = limit, .memory = memory};
    pawl_status status = store_list(s, path, collect_name, &c, err);
    if (status == PAWL_OK) {
        status = hand_over(&c, names, count, err);
    }
    mem_free(c.names);
    return status;
}
