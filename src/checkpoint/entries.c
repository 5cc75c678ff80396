/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the entries of a checkpoint in the order of their names. */
#include "checkpoint/private.h"

#include <string.h>

static pawl_status seek_prefix(pawl_entries *walk, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    walk->begun = true;
    TRY(record_entry_key(&key, walk->prefix, err));
    return table_seek(walk->at, key.data, key.size, err);
}

static bool has_prefix(const pawl_entries *walk) {
    const uint8_t *key;
    const uint8_t *value;
    size_t key_bytes;
    size_t value_bytes;
    size_t n = strlen(walk->prefix);
    table_item(walk->at, &key, &key_bytes, &value, &value_bytes);
    return key_bytes > n && key[0] == 'e' && memcmp(key + 1, walk->prefix, n) == 0;
}

static pawl_status walk_on(pawl_entries *walk, bool *more, pawl_error *err) {
    *more = false;
    TRY(walk->begun ? table_next(walk->at, err) : seek_prefix(walk, err));
    if (!table_valid(walk->at) || !has_prefix(walk)) {
        return PAWL_OK;
    }
    *more = true;
    arena_free(&walk->memory);
    return checkpoint_decode(walk->checkpoint, walk->at, &walk->memory, &walk->entry, err);
}

pawl_status entries_next_record(pawl_entries *walk, const record_entry **out, pawl_error *err) {
    bool more;
    *out = NULL;
    pawl_status status = walk_on(walk, &more, err);
    if (status != PAWL_OK) {
        return checkpoint_index_failed(walk->checkpoint, status, err);
    }
    *out = more ? &walk->entry : NULL;
    return PAWL_OK;
}

static pawl_status source_next(void *context, const record_entry **out, pawl_error *err) {
    return entries_next_record(context, out, err);
}

entry_source entries_source(pawl_entries *walk) {
    return (entry_source){.context = walk, .next = source_next};
}

process_id entries_process(const pawl_entries *walk) {
    return walk->checkpoint->process;
}

void pawl_entries_free(pawl_entries *walk) {
    if (walk != NULL && process_is_self(entries_process(walk))) {
        table_cursor_free(walk->at);
        arena_free(&walk->memory);
        mem_free(walk->prefix);
        mem_free(walk);
    }
}

void entries_free_pointer(pawl_entries **walk) {
    pawl_entries_free(*walk);
}

pawl_status entries_open(pawl_checkpoint *c, const char *prefix, pawl_entries **out,
                         pawl_error *err) {
    TRY(checkpoint_held(c, err));
    pawl_entries *walk = mem_calloc(1, sizeof(*walk));
    if (walk == NULL) {
        return error_nomem(err, sizeof(*walk));
    }
    walk->checkpoint = c;
    walk->prefix = mem_strdup(prefix);
    pawl_status status = walk->prefix != NULL ? table_cursor_new(c->index, &walk->at, err)
                                              : error_nomem(err, strlen(prefix) + 1);
    if (status != PAWL_OK) {
        pawl_entries_free(walk);
        return status;
    }
    *out = walk;
    return PAWL_OK;
}

pawl_status entries_next(pawl_entries *walk, pawl_entry_info *info, int *more, pawl_error *err) {
    const record_entry *entry;
    TRY(entries_next_record(walk, &entry, err));
    *more = entry != NULL;
    if (entry != NULL) {
        checkpoint_entry_info(entry, info);
    }
    return PAWL_OK;
}
