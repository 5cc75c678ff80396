/* SPDX-License-Identifier: Apache-2.0 */
/* The entries of a committed step: walks over its index, and finds in it. */
#include "checkpoint/native.h"

#include <string.h>

typedef struct native_entry_walk {
    source_walk base;
    table_cursor *at;
    char *prefix;
    bool begun; /* the cursor is at the entry that was returned last */
    arena memory;
    record_entry entry;
} native_entry_walk;

pawl_status native_decode(const native_source *n, const table_cursor *at, arena *memory,
                          record_entry *out, pawl_error *err) {
    const uint8_t *key;
    const uint8_t *value;
    size_t key_bytes;
    size_t value_bytes;
    table_item(at, &key, &key_bytes, &value, &value_bytes);
    return record_entry_decode(key, key_bytes, value, value_bytes, (uint32_t)n->manifest.file_count,
                               memory, out, err);
}

/* ---- walking ---- */

pawl_status native_walk(struct source *s, const char *prefix, const char *from, source_walk **out,
                        pawl_error *err) {
    native_source *n = (native_source *)s;
    CLEANUP(buffer_free) buffer key = {0};
    native_entry_walk *w = mem_calloc(1, sizeof(*w));
    if (w == NULL) {
        return error_nomem(err, sizeof(*w));
    }
    w->base.of = s;
    w->prefix = mem_strdup(prefix);
    pawl_status status =
        w->prefix != NULL ? record_entry_key(&key, from, err) : error_nomem(err, strlen(prefix));
    if (status == PAWL_OK) {
        status = table_cursor_new(n->index, &w->at, err);
    }
    if (status == PAWL_OK) {
        status = table_seek(w->at, key.data, key.size, err);
    }
    if (status != PAWL_OK) {
        native_end(&w->base);
        return status;
    }
    *out = &w->base;
    return PAWL_OK;
}

static bool at_entry(const native_entry_walk *w) {
    const uint8_t *key;
    const uint8_t *value;
    size_t key_bytes;
    size_t value_bytes;
    size_t n = strlen(w->prefix);
    if (!table_valid(w->at)) {
        return false;
    }
    table_item(w->at, &key, &key_bytes, &value, &value_bytes);
    return key_bytes > n && key[0] == 'e' && memcmp(key + 1, w->prefix, n) == 0;
}

pawl_status native_next(source_walk *walk, const record_entry **out, pawl_error *err) {
    native_entry_walk *w = (native_entry_walk *)walk;
    *out = NULL;
    if (w->begun) {
        TRY(table_next(w->at, err));
    }
    w->begun = true;
    if (!at_entry(w)) {
        return PAWL_OK;
    }
    arena_free(&w->memory);
    TRY(native_decode((native_source *)walk->of, w->at, &w->memory, &w->entry, err));
    *out = &w->entry;
    return PAWL_OK;
}

void native_end(source_walk *walk) {
    native_entry_walk *w = (native_entry_walk *)walk;
    table_cursor_free(w->at);
    arena_free(&w->memory);
    mem_free(w->prefix);
    mem_free(w);
}

/* ---- finding ---- */

static pawl_status seek_entry(native_source *n, const char *name, bool *found, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    const uint8_t *at;
    const uint8_t *value;
    size_t at_bytes;
    size_t value_bytes;
    *found = false;
    TRY(record_entry_key(&key, name, err));
    TRY(table_seek(n->find_at, key.data, key.size, err));
    if (table_valid(n->find_at)) {
        table_item(n->find_at, &at, &at_bytes, &value, &value_bytes);
        *found = at_bytes == key.size && memcmp(at, key.data, key.size) == 0;
    }
    return PAWL_OK;
}

pawl_status native_find(struct source *s, const char *name, arena *memory, record_entry *out,
                        bool *found, pawl_error *err) {
    native_source *n = (native_source *)s;
    TRY(seek_entry(n, name, found, err));
    return *found ? native_decode(n, n->find_at, memory, out, err) : PAWL_OK;
}

pawl_status native_has_tensor(native_source *n, const char *name, bool *found, pawl_error *err) {
    const uint8_t *key;
    const uint8_t *value;
    size_t key_bytes;
    size_t value_bytes;
    TRY(seek_entry(n, name, found, err));
    if (*found) {
        table_item(n->find_at, &key, &key_bytes, &value, &value_bytes);
        *found = record_entry_kind(value, value_bytes) == PAWL_KIND_TENSOR;
    }
    return PAWL_OK;
}
