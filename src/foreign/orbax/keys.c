/* SPDX-License-Identifier: Apache-2.0 */
/* Keys in ascending order, and what memory they may take. */
#include "foreign/orbax/keys.h"
#include "format/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whatever the files say, and for each of their bytes. */
#define LEAST_MEMORY    33554432u
#define MEMORY_PER_BYTE 64u

void key_map_free(key_map *map) {
    mem_free(map->items);
    buffer_free(&map->text);
    buffer_free(&map->inlined);
    *map = (key_map){0};
}

static uint64_t most_memory(const key_map *map) {
    uint64_t most;
    if (multiply_overflows(map->file_bytes, MEMORY_PER_BYTE, &most) ||
        most > FOREIGN_MAX_HEADERS - LEAST_MEMORY) {
        return FOREIGN_MAX_HEADERS;
    }
    return LEAST_MEMORY + most;
}

pawl_status key_map_charge(key_map *map, uint64_t bytes, pawl_error *err) {
    uint64_t most = most_memory(map);
    if (map->used <= most && bytes <= most - map->used) {
        map->used += bytes;
        return PAWL_OK;
    }
    error_set(err, PAWL_ELIMIT, "what describes the arrays takes too much memory");
    error_expected(err, "at most %llu bytes, for files of this size", (unsigned long long)most);
    return PAWL_ELIMIT;
}

void key_map_discharge(key_map *map, uint64_t bytes) {
    map->used -= bytes;
}

const char *key_text(const key_map *map, const key_value *item) {
    return (const char *)map->text.data + item->at;
}

static int compare(const key_map *map, const key_value *item, const char *key, size_t n) {
    size_t least = item->n < n ? item->n : n;
    int order = least > 0 ? memcmp(key_text(map, item), key, least) : 0;
    return order != 0 ? order : (item->n > n) - (item->n < n);
}

pawl_status key_map_add(key_map *map, const void *key, size_t n, const key_value *value,
                        const void *inlined, pawl_error *err) {
    size_t more = inlined != NULL ? (size_t)value->bytes : 0;
    if (map->count > map->begun && compare(map, &map->items[map->count - 1], key, n) >= 0) {
        error_set(err, PAWL_EDAMAGED, "a key is not greater than the one before it");
        error_expected(err, "keys in ascending order, each once");
        return PAWL_EDAMAGED;
    }
    TRY(key_map_charge(map, n + more + sizeof(*map->items), err));
    TRY(vec_reserve(&map->items, &map->room, map->count + 1, sizeof(*map->items), err));
    key_value *item = &map->items[map->count];
    *item = *value;
    item->at = map->text.size;
    item->n = (uint32_t)n;
    item->inlined = inlined != NULL;
    if (inlined != NULL) {
        item->offset = map->inlined.size;
        TRY(buffer_append(&map->inlined, inlined, more, err));
    }
    TRY(buffer_append(&map->text, key, n, err));
    map->count++;
    return PAWL_OK;
}

static int by_key(const void *left, const void *right, void *map) {
    const key_value *b = right;
    return compare(map, left, key_text(map, b), b->n);
}

static bool is_same(const key_map *map, const key_value *a, const key_value *b) {
    const uint8_t *bytes = map->inlined.data;
    return a->inlined && b->inlined && a->bytes == b->bytes &&
           (a->bytes == 0 || memcmp(bytes + a->offset, bytes + b->offset, (size_t)a->bytes) == 0);
}

static pawl_status saved_twice(const key_map *map, const key_value *item, pawl_error *err) {
    char shown[256];
    int n = item->n < sizeof(shown) ? (int)item->n : (int)sizeof(shown) - 1;
    snprintf(shown, sizeof(shown), "%.*s", n, key_text(map, item));
    error_set(err, PAWL_EDAMAGED, "two processes saved the same part of an array");
    error_entry(err, shown);
    error_expected(err, "parts that one process saved each, or the same bytes");
    error_next(err, "take another step");
    return PAWL_EDAMAGED;
}

pawl_status key_map_join(key_map *map, pawl_error *err) {
    size_t kept = 0;
    if (map->count > 1) {
        qsort_r(map->items, map->count, sizeof(*map->items), by_key, map);
    }
    for (size_t i = 0; i < map->count; i++) {
        const key_value *item = &map->items[i];
        bool again =
            kept > 0 && compare(map, &map->items[kept - 1], key_text(map, item), item->n) == 0;
        if (again && !is_same(map, &map->items[kept - 1], item)) {
            return saved_twice(map, item, err);
        }
        if (!again) {
            map->items[kept++] = *item;
        }
    }
    map->count = kept;
    map->begun = 0;
    return PAWL_OK;
}

size_t key_map_lower_bound(const key_map *map, const char *key, size_t n) {
    size_t low = 0;
    size_t high = map->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(map, &map->items[middle], key, n) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool key_begins(const key_map *map, const key_value *item, const char *prefix, size_t n) {
    return item->n >= n && (n == 0 || memcmp(key_text(map, item), prefix, n) == 0);
}

bool key_is(const key_map *map, const key_value *item, const char *key, size_t n) {
    return item->n == n && key_begins(map, item, key, n);
}
