/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table_write: writes a sorted table: data blocks, an empty metaindex block, the index block, the
 * footer. One data block and the index block are in memory; so are the data blocks of a part, which
 * do not depend on where in the table they will be.
 */
#include "format/block.h"
#include "format/format.h"

#include <inttypes.h>
#include <string.h>

#define DATA_RESTART_INTERVAL  16u
#define INDEX_RESTART_INTERVAL 1u
#define HANDLES_BYTES          40u /* of the footer; the magic follows */

/* ---- one block ------------------------------------------------------------------------------ */

typedef struct block_builder {
    buffer entries, restarts, last_key;
    unsigned interval, since_restart;
    uint32_t restart_count;
} block_builder;

static void builder_free(block_builder *b) {
    buffer_free(&b->entries);
    buffer_free(&b->restarts);
    buffer_free(&b->last_key);
}

static void builder_clear(block_builder *b) {
    b->entries.size = b->restarts.size = 0;
    b->since_restart = 0;
    b->restart_count = 0;
}

static size_t shared_prefix(const buffer *before, const uint8_t *key, size_t key_bytes) {
    size_t n = before->size < key_bytes ? before->size : key_bytes;
    size_t shared = 0;
    while (shared < n && before->data[shared] == key[shared]) {
        shared++;
    }
    return shared;
}

static pawl_status builder_restart(block_builder *b, pawl_error *err) {
    TRY(buffer_u32le(&b->restarts, (uint32_t)b->entries.size, err));
    b->restart_count++;
    b->since_restart = 0;
    return PAWL_OK;
}

static pawl_status builder_add(block_builder *b, const uint8_t *key, size_t key_bytes,
                               const void *value, size_t value_bytes, pawl_error *err) {
    size_t shared = 0;
    if (b->restart_count == 0 || b->since_restart == b->interval) {
        TRY(builder_restart(b, err));
    } else {
        shared = shared_prefix(&b->last_key, key, key_bytes);
    }
    TRY(buffer_varint(&b->entries, shared, err));
    TRY(buffer_varint(&b->entries, key_bytes - shared, err));
    TRY(buffer_varint(&b->entries, value_bytes, err));
    TRY(buffer_append(&b->entries, key + shared, key_bytes - shared, err));
    TRY(buffer_append(&b->entries, value, value_bytes, err));
    b->last_key.size = 0;
    TRY(buffer_append(&b->last_key, key, key_bytes, err));
    b->since_restart++;
    return PAWL_OK;
}

/* Completes the block in b->entries: restart points, compression, checksum. */
static pawl_status builder_finish(block_builder *b, pawl_error *err) {
    if (b->restart_count == 0) {
        TRY(builder_restart(b, err));
    }
    TRY(buffer_append(&b->entries, b->restarts.data, b->restarts.size, err));
    TRY(buffer_u32le(&b->entries, b->restart_count, err));
    if (b->entries.size > FORMAT_MAX_TABLE_BLOCK) {
        return error_set(err, PAWL_ELIMIT, "a block of the table would pass %u bytes",
                         FORMAT_MAX_TABLE_BLOCK);
    }
    static const uint8_t uncompressed = BLOCK_UNCOMPRESSED;
    TRY(buffer_append(&b->entries, &uncompressed, 1, err));
    uint32_t crc = crc32c(0, b->entries.data, b->entries.size);
    return buffer_u32le(&b->entries, crc32c_mask(crc), err);
}

/* ---- the table ------------------------------------------------------------------------------ */

struct table_writer {
    byte_sink sink;
    block_builder data, index;
    buffer scratch;
    uint64_t bytes;
    uint32_t crc;
    bool any_key;
};

pawl_status table_writer_new(byte_sink sink, table_writer **out, pawl_error *err) {
    table_writer *w = mem_calloc(1, sizeof *w);
    if (w == NULL) {
        return error_nomem(err, sizeof *w);
    }
    w->sink = sink;
    w->data.interval = DATA_RESTART_INTERVAL;
    w->index.interval = INDEX_RESTART_INTERVAL;
    *out = w;
    return PAWL_OK;
}

void table_writer_free(table_writer *w) {
    if (w != NULL) {
        builder_free(&w->data);
        builder_free(&w->index);
        buffer_free(&w->scratch);
        mem_free(w);
    }
}

void table_writer_free_pointer(table_writer **w) {
    table_writer_free(*w);
}

static pawl_status emit(table_writer *w, const buffer *bytes, pawl_error *err) {
    TRY(w->sink.write(w->sink.context, bytes->data, bytes->size, err));
    w->crc = crc32c(w->crc, bytes->data, bytes->size);
    w->bytes += bytes->size;
    return PAWL_OK;
}

/* Writes the block; its handle is appended to `handle`. */
static pawl_status emit_block(table_writer *w, block_builder *b, buffer *handle, pawl_error *err) {
    uint64_t offset = w->bytes;
    TRY(builder_finish(b, err));
    TRY(emit(w, &b->entries, err));
    TRY(buffer_varint(handle, offset, err));
    TRY(buffer_varint(handle, b->entries.size - BLOCK_TRAILER_BYTES, err));
    builder_clear(b);
    return PAWL_OK;
}

/* The index has the last key of each data block and where the block is. */
static pawl_status end_data_block(table_writer *w, pawl_error *err) {
    w->scratch.size = 0;
    TRY(emit_block(w, &w->data, &w->scratch, err));
    return builder_add(&w->index, w->data.last_key.data, w->data.last_key.size, w->scratch.data,
                       w->scratch.size, err);
}

/* `last`: the key before, or NULL. */
static pawl_status check_order(const buffer *last, const void *key, size_t key_bytes,
                               pawl_error *err) {
    if (last == NULL || key_compare(key, key_bytes, last->data, last->size) > 0) {
        return PAWL_OK;
    }
    return error_set(err, PAWL_EINTERNAL, "keys were added to the table in descending order");
}

static pawl_status check_sizes(size_t key_bytes, size_t value_bytes, pawl_error *err) {
    if (key_bytes > FORMAT_MAX_KEY || value_bytes > FORMAT_MAX_TABLE_BLOCK / 2) {
        error_set(err, PAWL_ELIMIT, "a record is too large for the table");
        error_expected(err, "a key of at most %u bytes and a value of at most %u", FORMAT_MAX_KEY,
                       FORMAT_MAX_TABLE_BLOCK / 2);
        error_found(err, "%zu and %zu bytes", key_bytes, value_bytes);
        return PAWL_ELIMIT;
    }
    return PAWL_OK;
}

pawl_status table_writer_add(table_writer *w, const void *key, size_t key_bytes, const void *value,
                             size_t value_bytes, pawl_error *err) {
    TRY(check_order(w->any_key ? &w->data.last_key : NULL, key, key_bytes, err));
    TRY(check_sizes(key_bytes, value_bytes, err));
    TRY(builder_add(&w->data, key, key_bytes, value, value_bytes, err));
    w->any_key = true;
    return w->data.entries.size >= FORMAT_TABLE_BLOCK ? end_data_block(w, err) : PAWL_OK;
}

static pawl_status emit_footer(table_writer *w, table_summary *out, pawl_error *err) {
    static const uint8_t zeros[HANDLES_BYTES] = {0};
    buffer *footer = &w->scratch;
    TRY(buffer_append(footer, zeros, HANDLES_BYTES - footer->size, err));
    TRY(buffer_u64le(footer, TABLE_MAGIC, err));
    TRY(emit(w, footer, err));
    *out = (table_summary){.bytes = w->bytes,
                           .crc32c = w->crc,
                           .footer_crc32c = crc32c(0, footer->data, footer->size)};
    return PAWL_OK;
}

pawl_status table_writer_finish(table_writer *w, table_summary *out, pawl_error *err) {
    if (w->data.restart_count > 0) {
        TRY(end_data_block(w, err));
    }
    w->scratch.size = 0;
    TRY(emit_block(w, &w->data, &w->scratch, err)); /* metaindex: an empty block */
    TRY(emit_block(w, &w->index, &w->scratch, err));
    return emit_footer(w, out, err);
}

/* ---- a part made ahead ---------------------------------------------------------------------- */

/* Where a block of the part, and its last key, end. */
typedef struct part_block {
    size_t end, key_end;
} part_block;

struct table_part {
    block_builder data;
    buffer bytes, keys, first_key;
    part_block *blocks;
    size_t count, capacity;
    bool any_key;
};

pawl_status table_part_new(table_part **out, pawl_error *err) {
    table_part *p = mem_calloc(1, sizeof *p);
    if (p == NULL) {
        return error_nomem(err, sizeof *p);
    }
    p->data.interval = DATA_RESTART_INTERVAL;
    *out = p;
    return PAWL_OK;
}

void table_part_free(table_part *p) {
    if (p != NULL) {
        builder_free(&p->data);
        buffer_free(&p->bytes);
        buffer_free(&p->keys);
        buffer_free(&p->first_key);
        mem_free(p->blocks);
        mem_free(p);
    }
}

static pawl_status part_end_block(table_part *p, pawl_error *err) {
    block_builder *b = &p->data;
    TRY(builder_finish(b, err));
    TRY(buffer_append(&p->bytes, b->entries.data, b->entries.size, err));
    TRY(buffer_append(&p->keys, b->last_key.data, b->last_key.size, err));
    TRY(vec_reserve(&p->blocks, &p->capacity, p->count + 1, sizeof *p->blocks, err));
    p->blocks[p->count++] = (part_block){.end = p->bytes.size, .key_end = p->keys.size};
    builder_clear(b);
    return PAWL_OK;
}

pawl_status table_part_add(table_part *p, const void *key, size_t key_bytes, const void *value,
                           size_t value_bytes, pawl_error *err) {
    TRY(check_order(p->any_key ? &p->data.last_key : NULL, key, key_bytes, err));
    TRY(check_sizes(key_bytes, value_bytes, err));
    if (!p->any_key) {
        TRY(buffer_append(&p->first_key, key, key_bytes, err));
        p->any_key = true;
    }
    TRY(builder_add(&p->data, key, key_bytes, value, value_bytes, err));
    return p->data.entries.size >= FORMAT_TABLE_BLOCK ? part_end_block(p, err) : PAWL_OK;
}

pawl_status table_part_finish(table_part *p, pawl_error *err) {
    return p->data.restart_count > 0 ? part_end_block(p, err) : PAWL_OK;
}

size_t table_part_bytes(const table_part *p) {
    return p->bytes.size;
}

/* `base`: where the part begins in the table. */
static pawl_status index_part(table_writer *w, const table_part *p, uint64_t base,
                              pawl_error *err) {
    part_block before = {.end = 0};
    for (size_t i = 0; i < p->count; i++) {
        const part_block *now = &p->blocks[i];
        w->scratch.size = 0;
        TRY(buffer_varint(&w->scratch, base + before.end, err));
        TRY(buffer_varint(&w->scratch, now->end - before.end - BLOCK_TRAILER_BYTES, err));
        TRY(builder_add(&w->index, p->keys.data + before.key_end, now->key_end - before.key_end,
                        w->scratch.data, w->scratch.size, err));
        before = *now;
    }
    return PAWL_OK;
}

pawl_status table_writer_add_part(table_writer *w, const table_part *p, pawl_error *err) {
    if (p->count == 0) {
        return PAWL_OK;
    }
    TRY(check_order(w->any_key ? &w->data.last_key : NULL, p->first_key.data, p->first_key.size,
                    err));
    if (w->data.restart_count > 0) {
        TRY(end_data_block(w, err));
    }
    uint64_t base = w->bytes;
    TRY(emit(w, &p->bytes, err));
    TRY(index_part(w, p, base, err));
    w->any_key = true;
    w->data.last_key.size = 0;
    return buffer_append(&w->data.last_key, p->data.last_key.data, p->data.last_key.size, err);
}
