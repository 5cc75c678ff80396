/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_read: reads a sorted table: footer and index block when it is opened, then one data block
 * at a time per cursor, each checked when it is loaded.
 */
#include "format/block.h"
#include "format/format.h"

#include <inttypes.h>
#include <string.h>

#define HANDLES_BYTES 40u

struct table {
    byte_source source;
    uint64_t limit; /* blocks end here: the footer begins */
    block index;
};

struct table_cursor {
    table *in;
    block_cursor index; /* its entry is the block that is loaded */
    block data;
    bool loaded; /* `data` is whole */
    block_cursor at;
    buffer bound; /* what the index says of the block before: keys from here on are greater */
};

/* ---- open ----------------------------------------------------------------------------------- */

static pawl_status footer_error(uint64_t table_bytes, pawl_error *err, const char *what) {
    uint64_t begin = table_bytes < TABLE_FOOTER_BYTES ? 0 : table_bytes - TABLE_FOOTER_BYTES;
    error_set(err, PAWL_EDAMAGED, "the table's footer at byte %" PRIu64 " is wrong: %s", begin,
              what);
    error_range(err, begin, table_bytes - begin);
    return PAWL_EDAMAGED;
}

static pawl_status check_footer_crc(const uint8_t *footer, uint32_t expected, uint64_t table_bytes,
                                    pawl_error *err) {
    uint32_t computed = crc32c(0, footer, TABLE_FOOTER_BYTES);
    if (computed == expected) {
        return PAWL_OK;
    }
    pawl_status status = footer_error(table_bytes, err, "the checksum does not match");
    error_expected(err, "CRC32C %08" PRIx32 ", as the manifest says", expected);
    error_found(err, "CRC32C %08" PRIx32, computed);
    return status;
}

/* Handles of the metaindex and of the index, zeros, magic. */
static pawl_status parse_footer(const uint8_t *footer, uint64_t table_bytes, block_handle *meta,
                                block_handle *index, pawl_error *err) {
    uint64_t magic = 0;
    cursor c =
        cursor_of(footer, TABLE_FOOTER_BYTES, table_bytes - TABLE_FOOTER_BYTES, "table's footer");
    c.at = HANDLES_BYTES;
    TRY(cursor_u64le(&c, &magic, err));
    if (magic != TABLE_MAGIC) {
        pawl_status status = footer_error(table_bytes, err, "this is no sorted table");
        error_expected(err, "the magic number %016" PRIx64 " in the last 8 bytes",
                       (uint64_t)TABLE_MAGIC);
        error_found(err, "%016" PRIx64, magic);
        return status;
    }
    c = cursor_of(footer, HANDLES_BYTES, table_bytes - TABLE_FOOTER_BYTES, "table's footer");
    TRY(block_handle_decode(&c, meta, err));
    TRY(block_handle_decode(&c, index, err));
    while (cursor_left(&c) > 0) {
        uint8_t padding = 0;
        TRY(cursor_u8(&c, &padding, err));
        if (padding != 0) {
            return footer_error(table_bytes, err, "its padding is not zero");
        }
    }
    return PAWL_OK;
}

static pawl_status read_footer(const byte_source *source, const uint32_t *expected_crc,
                               block_handle *meta, block_handle *index, pawl_error *err) {
    uint8_t footer[TABLE_FOOTER_BYTES];
    if (source->size < TABLE_FOOTER_BYTES) {
        pawl_status status = footer_error(source->size, err, "the table is too short for it");
        error_expected(err, "at least %u bytes", TABLE_FOOTER_BYTES);
        error_found(err, "%" PRIu64 " bytes", source->size);
        return status;
    }
    TRY(source->read_at(source->context, source->size - sizeof footer, footer, sizeof footer, err));
    if (expected_crc != NULL) {
        TRY(check_footer_crc(footer, *expected_crc, source->size, err));
    }
    return parse_footer(footer, source->size, meta, index, err);
}

/* The handle that is the value of an index entry. */
static pawl_status entry_handle(const block_cursor *at, block_handle *out, pawl_error *err) {
    size_t in_block = (size_t)(at->value - at->in->data);
    cursor c = cursor_of(at->value, at->value_bytes, at->in->offset + in_block, "index block");
    TRY(block_handle_decode(&c, out, err));
    if (cursor_left(&c) > 0) {
        return error_set(err, PAWL_EDAMAGED,
                         "a block handle in the table's index has bytes too many at byte %" PRIu64,
                         c.base + c.at);
    }
    return PAWL_OK;
}

/* Data blocks follow each other and end before the metaindex: none overlaps another. */
static pawl_status check_index(const block *index, uint64_t limit, pawl_error *err) {
    CLEANUP(block_cursor_free) block_cursor at = {.valid = false};
    uint64_t end = 0;
    TRY(block_first(&at, index, err));
    while (at.valid) {
        block_handle handle;
        TRY(entry_handle(&at, &handle, err));
        if (handle.offset < end || handle.offset > limit || handle.bytes > limit - handle.offset ||
            limit - handle.offset - handle.bytes < BLOCK_TRAILER_BYTES) {
            error_set(err, PAWL_EDAMAGED,
                      "the table's index names a data block that is out of place");
            error_expected(err, "a block between bytes %" PRIu64 " and %" PRIu64, end, limit);
            error_found(err, "%" PRIu64 " bytes from byte %" PRIu64 " on", handle.bytes,
                        handle.offset);
            error_range(err, index->offset, index->size);
            return PAWL_EDAMAGED;
        }
        end = handle.offset + handle.bytes + BLOCK_TRAILER_BYTES;
        TRY(block_next(&at, err));
    }
    return PAWL_OK;
}

/* The metaindex is loaded only to be checked: nothing in it is used. */
static pawl_status load_index(table *t, const uint32_t *footer_crc32c, pawl_error *err) {
    block_handle meta, index;
    TRY(read_footer(&t->source, footer_crc32c, &meta, &index, err));
    t->limit = t->source.size - TABLE_FOOTER_BYTES;
    if (index.offset > t->limit || meta.offset > index.offset) {
        return footer_error(t->source.size, err, "its blocks are out of place");
    }
    CLEANUP(block_free) block unused = {.data = NULL};
    TRY(block_load(&t->source, meta, index.offset, "metaindex block", &unused, err));
    TRY(block_load(&t->source, index, t->limit, "index block", &t->index, err));
    t->limit = meta.offset;
    return check_index(&t->index, t->limit, err);
}

pawl_status table_open(byte_source source, const uint32_t *footer_crc32c, table **out,
                       pawl_error *err) {
    table *t = mem_calloc(1, sizeof *t);
    if (t == NULL) {
        return error_nomem(err, sizeof *t);
    }
    t->source = source;
    pawl_status status = load_index(t, footer_crc32c, err);
    if (status != PAWL_OK) {
        table_close(t);
        return status;
    }
    *out = t;
    return PAWL_OK;
}

void table_close(table *t) {
    if (t != NULL) {
        block_free(&t->index);
        mem_free(t);
    }
}

/* ---- cursor --------------------------------------------------------------------------------- */

pawl_status table_cursor_new(table *t, table_cursor **out, pawl_error *err) {
    table_cursor *c = mem_calloc(1, sizeof *c);
    if (c == NULL) {
        return error_nomem(err, sizeof *c);
    }
    c->in = t;
    *out = c;
    return PAWL_OK;
}

void table_cursor_free(table_cursor *c) {
    if (c != NULL) {
        block_cursor_free(&c->index);
        block_cursor_free(&c->at);
        block_free(&c->data);
        buffer_free(&c->bound);
        mem_free(c);
    }
}

void table_cursor_free_pointer(table_cursor **c) {
    table_cursor_free(*c);
}

/* Loads the block that the index cursor stands at, unless it is the one that is loaded. */
static pawl_status load_data(table_cursor *c, pawl_error *err) {
    block_handle handle;
    TRY(entry_handle(&c->index, &handle, err));
    if (c->loaded && c->data.offset == handle.offset) {
        return PAWL_OK;
    }
    c->loaded = false;
    TRY(block_load(&c->in->source, handle, c->in->limit, "data block", &c->data, err));
    c->loaded = true;
    return PAWL_OK;
}

/* The index's key of a block is not less than the block's last. */
static pawl_status check_against_index(const table_cursor *c, pawl_error *err) {
    if (!c->at.valid ||
        key_compare(c->at.key.data, c->at.key.size, c->index.key.data, c->index.key.size) <= 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED,
              "the data block at byte %" PRIu64 " of the table has a key that its index denies",
              c->data.offset);
    error_range(err, c->data.offset, c->data.size + BLOCK_TRAILER_BYTES);
    return PAWL_EDAMAGED;
}

/* A search takes the first block whose key in the index is not less than what it looks for. Only
 * where the index's key of each block is less than all keys behind it does it find what a walk
 * finds. */
static pawl_status check_bound(const table_cursor *c, pawl_error *err) {
    if (!c->at.valid ||
        key_compare(c->at.key.data, c->at.key.size, c->bound.data, c->bound.size) > 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED,
              "the data block at byte %" PRIu64
              " of the table has a key that belongs before it, as its index says",
              c->data.offset);
    error_range(err, c->data.offset, c->data.size + BLOCK_TRAILER_BYTES);
    return PAWL_EDAMAGED;
}

/* Moves on to the next block that has an entry, while the block has none left. */
static pawl_status cross_blocks(table_cursor *c, pawl_error *err) {
    while (!c->at.valid) {
        c->bound.size = 0;
        TRY(buffer_append(&c->bound, c->index.key.data, c->index.key.size, err));
        TRY(block_next(&c->index, err));
        if (!c->index.valid) {
            return PAWL_OK;
        }
        TRY(load_data(c, err));
        TRY(block_first(&c->at, &c->data, err));
        TRY(check_bound(c, err));
    }
    return check_against_index(c, err);
}

static pawl_status seek(table_cursor *c, const void *key, size_t key_bytes, pawl_error *err) {
    c->at.valid = false;
    TRY(block_seek(&c->index, &c->in->index, key, key_bytes, err));
    if (!c->index.valid) {
        return PAWL_OK;
    }
    TRY(load_data(c, err));
    TRY(block_seek(&c->at, &c->data, key, key_bytes, err));
    return cross_blocks(c, err);
}

pawl_status table_seek(table_cursor *c, const void *key, size_t key_bytes, pawl_error *err) {
    pawl_status status = seek(c, key, key_bytes, err);
    c->at.valid = c->at.valid && status == PAWL_OK;
    return status;
}

static pawl_status next(table_cursor *c, pawl_error *err) {
    TRY(block_next(&c->at, err));
    return cross_blocks(c, err);
}

pawl_status table_next(table_cursor *c, pawl_error *err) {
    if (!c->at.valid) {
        return PAWL_OK;
    }
    pawl_status status = next(c, err);
    c->at.valid = c->at.valid && status == PAWL_OK;
    return status;
}

bool table_valid(const table_cursor *c) {
    return c->at.valid;
}

void table_item(const table_cursor *c, const uint8_t **key, size_t *key_bytes,
                const uint8_t **value, size_t *value_bytes) {
    *key = c->at.key.data;
    *key_bytes = c->at.key.size;
    *value = c->at.value;
    *value_bytes = c->at.value_bytes;
}
