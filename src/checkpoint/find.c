/* SPDX-License-Identifier: Apache-2.0 */
/* Finds an entry of a checkpoint by its name, or the most similar name. */
#include "checkpoint/private.h"

#include <stdio.h>
#include <string.h>

#define NEAR_LOOKED_AT 400u /* entries compared from each starting point */
#define NEAR_LIKENESS  0.6

/* ---- decoding ---- */

pawl_status checkpoint_decode(const pawl_checkpoint *c, const table_cursor *at, arena *memory,
                              record_entry *out, pawl_error *err) {
    const uint8_t *key;
    const uint8_t *value;
    size_t key_bytes;
    size_t value_bytes;
    table_item(at, &key, &key_bytes, &value, &value_bytes);
    TRY(record_entry_decode(key, key_bytes, value, value_bytes, (uint32_t)c->manifest.file_count,
                            memory, out, err));
    return entry_check(&c->manifest, out, err);
}

/* ---- similar names ---- */

typedef struct near_search {
    const char *name;
    double best;
    char *out;
    size_t size;
} near_search;

static void keep_if_nearer(near_search *n, const uint8_t *key, size_t key_bytes) {
    char name[PAWL_MAX_NAME_BYTES + 1];
    if (key_bytes < 2 || key[0] != 'e' || key_bytes - 1 > PAWL_MAX_NAME_BYTES) {
        return;
    }
    memcpy(name, key + 1, key_bytes - 1);
    name[key_bytes - 1] = '\0';
    double likeness = text_likeness(n->name, name);
    if (likeness > n->best && utf8_valid(name, key_bytes - 1)) {
        n->best = likeness;
        snprintf(n->out, n->size, "%s", name);
    }
}

/* Compares entries from the first one whose name is not less than the first `length` bytes of
 * `name`. */
static pawl_status search_from(near_search *n, table_cursor *at, size_t length, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    TRY(buffer_append(&key, "e", 1, err));
    TRY(buffer_append(&key, n->name, length, err));
    TRY(table_seek(at, key.data, key.size, err));
    for (unsigned i = 0; i < NEAR_LOOKED_AT && table_valid(at); i++) {
        const uint8_t *found;
        const uint8_t *value;
        size_t found_bytes;
        size_t value_bytes;
        table_item(at, &found, &found_bytes, &value, &value_bytes);
        keep_if_nearer(n, found, found_bytes);
        TRY(table_next(at, err));
    }
    return PAWL_OK;
}

/* The name of an entry that is spelt most like `name`; false when none is similar. */
static bool find_similar(pawl_checkpoint *c, const char *name, char *out, size_t size) {
    near_search n = {.name = name, .best = NEAR_LIKENESS, .out = out, .size = size};
    struct pawl_error ignored = ERROR_INIT;
    size_t length = strlen(name);
    out[0] = '\0';
    /* From where the name would be, from its parent a/b/, from a/, and from the first entry. */
    for (int i = 0; i < 3 && length > 0; i++) {
        if (search_from(&n, c->find_at, length, &ignored) != PAWL_OK) {
            return false;
        }
        do {
            length--;
        } while (length > 0 && name[length - 1] != '/');
    }
    return search_from(&n, c->find_at, 0, &ignored) == PAWL_OK && out[0] != '\0';
}

static pawl_status entry_not_found(pawl_checkpoint *c, const char *name, pawl_error *err) {
    char near[PAWL_MAX_NAME_BYTES + 1];
    error_set(err, PAWL_ENOTFOUND, "the checkpoint has no entry of this name");
    error_path(err, "%s", c->path);
    error_entry(err, name);
    error_step(err, c->step);
    if (find_similar(c, name, near, sizeof(near))) {
        error_next(err, "did you mean %s?", near);
    } else {
        error_next(err, "see its entries with: pawl show %s@%lld", c->store->root,
                   (long long)c->step);
    }
    return PAWL_ENOTFOUND;
}

/* ---- finding ---- */

static pawl_status seek_entry(pawl_checkpoint *c, const char *name, bool *found, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    const uint8_t *at;
    const uint8_t *value;
    size_t at_bytes;
    size_t value_bytes;
    *found = false;
    TRY(record_entry_key(&key, name, err));
    TRY(table_seek(c->find_at, key.data, key.size, err));
    if (table_valid(c->find_at)) {
        table_item(c->find_at, &at, &at_bytes, &value, &value_bytes);
        *found = at_bytes == key.size && memcmp(at, key.data, key.size) == 0;
    }
    return PAWL_OK;
}

pawl_status checkpoint_has_tensor(pawl_checkpoint *c, const char *name, bool *found,
                                  pawl_error *err) {
    const uint8_t *key;
    const uint8_t *value;
    size_t key_bytes;
    size_t value_bytes;
    TRY(seek_entry(c, name, found, err));
    if (*found) {
        table_item(c->find_at, &key, &key_bytes, &value, &value_bytes);
        *found = record_entry_kind(value, value_bytes) == PAWL_KIND_TENSOR;
    }
    return PAWL_OK;
}

pawl_status checkpoint_entry(pawl_checkpoint *c, const char *name, arena *memory, record_entry *out,
                             pawl_error *err) {
    bool found;
    if (strlen(name) > PAWL_MAX_NAME_BYTES) {
        return error_set(err, PAWL_ENOTFOUND, "no entry has a name of more than %d bytes",
                         PAWL_MAX_NAME_BYTES);
    }
    TRY(checkpoint_held(c, err));
    pawl_status status = seek_entry(c, name, &found, err);
    if (status == PAWL_OK && !found) {
        return entry_not_found(c, name, err);
    }
    if (status == PAWL_OK) {
        status = checkpoint_decode(c, c->find_at, memory, out, err);
    }
    return status == PAWL_OK ? PAWL_OK : checkpoint_index_failed(c, status, err);
}

static uint64_t entry_bytes(const record_entry *entry) {
    if (entry->kind == PAWL_KIND_TENSOR) {
        return shape_bytes(entry->dtype, entry->ndim, entry->shape);
    }
    return entry->value != NULL || entry->piece_count == 0 ? entry->value_bytes
                                                           : entry->pieces[0].bytes;
}

void checkpoint_entry_info(const record_entry *entry, pawl_entry_info *info) {
    bool tensor = entry->kind == PAWL_KIND_TENSOR;
    *info = (pawl_entry_info){
        .name = entry->name,
        .kind = entry->kind,
        .role = entry->role,
        .slot_of = entry->slot_of,
        .slot = entry->slot,
        .per_rank = entry->per_rank,
        .replicated = entry->replicated,
        .dtype = tensor ? entry->dtype : 0,
        .ndim = tensor ? entry->ndim : 0,
        .shape = tensor ? entry->shape : NULL,
        .bytes = entry_bytes(entry),
        .pieces = entry->piece_count,
        .value = tensor || entry->per_rank ? NULL : entry->value,
    };
}

pawl_status checkpoint_find(pawl_checkpoint *c, const char *name, pawl_entry_info *info,
                            pawl_error *err) {
    record_entry entry = {0};
    arena_free(&c->found_memory);
    TRY(checkpoint_entry(c, name, &c->found_memory, &entry, err));
    checkpoint_entry_info(&entry, info);
    return PAWL_OK;
}
