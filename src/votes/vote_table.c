/* SPDX-License-Identifier: Apache-2.0 */
/* Reads votes: rank 0's own in memory, the others' from their files. */
#include "votes/private.h"

#include <stdio.h>
#include <string.h>

static void vote_path(const vote_table *t, char out[STORE_MAX_PATH]) {
    char name[80];
    name_vote(name, t->tag, t->rank);
    snprintf(out, STORE_MAX_PATH, "%s/%s", t->directory, name);
}

static pawl_status open_vote_file(vote_table *t, pawl_error *err) {
    char path[STORE_MAX_PATH];
    vote_path(t, path);
    pawl_status status = store_open(t->store, path, STORE_READ, &t->kept, err);
    if (status != PAWL_ENOTFOUND) {
        return status;
    }
    store_catch_up(t->store); /* it has been seen before */
    return store_open(t->store, path, STORE_READ, &t->kept, err);
}

static pawl_status read_vote_at(void *context, uint64_t offset, void *to, size_t n,
                                pawl_error *err) {
    vote_table *t = context;
    if (t->kept != NULL) {
        return store_read(t->kept, offset, to, n, err);
    }
    TRY(open_vote_file(t, err));
    pawl_status status = store_read(t->kept, offset, to, n, err);
    vote_table_rest(t);
    return status;
}

static pawl_status source_of_file(vote_table *t, byte_source *out, pawl_error *err) {
    uint64_t size;
    TRY(open_vote_file(t, err));
    TRY(store_size(t->kept, &size, err));
    *out = (byte_source){.context = t, .size = size, .read_at = read_vote_at};
    return PAWL_OK;
}

pawl_status vote_table_open(vote_table *t, store *s, const buffer *own, const char *directory,
                            const char *tag, int rank, pawl_error *err) {
    byte_source source;
    *t = (vote_table){.store = s, .directory = directory, .tag = tag, .rank = rank};
    if (rank == 0 && own != NULL) {
        return table_open(byte_source_memory(own), NULL, &t->table, err);
    }
    pawl_status status = source_of_file(t, &source, err);
    if (status == PAWL_OK) {
        status = table_open(source, NULL, &t->table, err);
    }
    if (status != PAWL_OK) {
        vote_table_close(t);
        return vote_table_failed(t, status, err);
    }
    return PAWL_OK;
}

void vote_table_rest(vote_table *t) {
    store_close(t->kept);
    t->kept = NULL;
}

void vote_table_close(vote_table *t) {
    table_close(t->table);
    t->table = NULL;
    vote_table_rest(t);
}

pawl_status vote_table_failed(const vote_table *t, pawl_status status, pawl_error *err) {
    char path[STORE_MAX_PATH];
    vote_path(t, path);
    error_wrap(err, "reading the vote of rank %d", t->rank);
    if (t->rank != 0 && err->path[0] == '\0') {
        error_path(err, "%s/%s", t->store->root, path);
    }
    return status;
}

pawl_status vote_table_find(table_cursor *at, const void *key, size_t key_bytes,
                            const uint8_t **value, size_t *value_bytes, pawl_error *err) {
    const uint8_t *found;
    size_t n;
    TRY(table_seek(at, key, key_bytes, err));
    *value = NULL;
    if (!table_valid(at)) {
        return PAWL_OK;
    }
    table_item(at, &found, &n, value, value_bytes);
    if (n != key_bytes || memcmp(found, key, n) != 0) {
        *value = NULL;
    }
    return PAWL_OK;
}

pawl_status vote_key_name(const uint8_t *key, size_t key_bytes, char out[PAWL_MAX_NAME_BYTES + 1],
                          pawl_error *err) {
    const char *name = (const char *)key + 1;
    const char *why = NULL;
    if (!entry_name_valid(name, key_bytes - 1, &why)) {
        return error_set(err, PAWL_EDAMAGED, "a record of a vote has a bad name: %s", why);
    }
    memcpy(out, name, key_bytes - 1);
    out[key_bytes - 1] = '\0';
    return PAWL_OK;
}
