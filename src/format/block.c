/* SPDX-License-Identifier: Apache-2.0 */
/* block: loads one block of a sorted table, and walks or searches it. */
#include "format/block.h"
#include "format/format.h"

#include <inttypes.h>
#include <string.h>

int key_compare(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    size_t n = a_bytes < b_bytes ? a_bytes : b_bytes;
    int order = n > 0 ? memcmp(a, b, n) : 0;
    return order != 0 ? order : (a_bytes > b_bytes) - (a_bytes < b_bytes);
}

/* Only in its shortest form: else padding of a footer could be read as the end of a number. */
static pawl_status decode_number(cursor *c, uint64_t *out, pawl_error *err) {
    size_t begin = c->at;
    TRY(cursor_varint64(c, out, err));
    if (c->at - begin > 1 && c->data[c->at - 1] == 0) {
        error_set(err, PAWL_EDAMAGED, "the %s has a number with a byte too many at byte %" PRIu64,
                  c->what, c->base + begin);
        error_range(err, c->base + begin, c->at - begin);
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}

pawl_status block_handle_decode(cursor *c, block_handle *out, pawl_error *err) {
    TRY(decode_number(c, &out->offset, err));
    return decode_number(c, &out->bytes, err);
}

/* The block is wrong at byte `at` of it. */
static pawl_status refuse_block(const block *b, size_t at, pawl_error *err, const char *what) {
    uint64_t position = b->offset + at;
    error_set(err, PAWL_EDAMAGED,
              "the %s at byte %" PRIu64 " of the table is wrong at byte %" PRIu64 ": %s", b->what,
              b->offset, position, what);
    error_range(err, b->offset, b->size + BLOCK_TRAILER_BYTES);
    return PAWL_EDAMAGED;
}

/* ---- load ----------------------------------------------------------------------------------- */

static pawl_status check_handle(block_handle handle, uint64_t limit, const char *what,
                                pawl_error *err) {
    uint64_t end = 0;
    if (add_overflows(handle.offset, handle.bytes, &end) ||
        add_overflows(end, BLOCK_TRAILER_BYTES, &end) || end > limit) {
        error_set(err, PAWL_EDAMAGED, "the %s lies outside the table's blocks", what);
        error_expected(err, "a block that ends at byte %" PRIu64 " at most", limit);
        error_found(err, "%" PRIu64 " bytes from byte %" PRIu64 " on", handle.bytes, handle.offset);
        return PAWL_EDAMAGED;
    }
    if (handle.bytes > FORMAT_MAX_TABLE_BLOCK) {
        error_set(err, PAWL_ELIMIT, "the %s at byte %" PRIu64 " of the table is too large", what,
                  handle.offset);
        error_expected(err, "at most %u bytes", FORMAT_MAX_TABLE_BLOCK);
        error_found(err, "%" PRIu64 " bytes", handle.bytes);
        return PAWL_ELIMIT;
    }
    return PAWL_OK;
}

static pawl_status check_trailer(const block *b, pawl_error *err) {
    cursor c = cursor_of(b->data + b->size, BLOCK_TRAILER_BYTES, b->offset + b->size, b->what);
    uint8_t compression = 0;
    uint32_t stored = 0;
    TRY(cursor_u8(&c, &compression, err));
    TRY(cursor_u32le(&c, &stored, err));
    uint32_t computed = crc32c(0, b->data, b->size + 1);
    if (crc32c_unmask(stored) != computed) {
        pawl_status status = refuse_block(b, 0, err, "the checksum does not match");
        error_expected(err, "CRC32C %08" PRIx32 ", as stored", crc32c_unmask(stored));
        error_found(err, "CRC32C %08" PRIx32, computed);
        return status;
    }
    if (compression == BLOCK_SNAPPY) {
        error_set(err, PAWL_EUNSUPPORTED,
                  "the %s at byte %" PRIu64 " of the table is compressed with Snappy", b->what,
                  b->offset);
        error_expected(err, "a block that is not compressed");
        error_next(err, "save the checkpoint again without compression of its index");
        return PAWL_EUNSUPPORTED;
    }
    return compression == BLOCK_UNCOMPRESSED ? PAWL_OK
                                             : refuse_block(b, b->size, err, "unknown compression");
}

/* Byte in the block at which the i-th restart point's offset is. */
static size_t restart_at(const block *b, uint32_t i) {
    return b->entry_bytes + (size_t)i * 4;
}

static pawl_status restart(const block *b, uint32_t i, uint32_t *out, pawl_error *err) {
    cursor c = cursor_of(b->data, b->size, b->offset, b->what);
    c.at = restart_at(b, i);
    return cursor_u32le(&c, out, err);
}

static pawl_status check_restarts(block *b, pawl_error *err) {
    if (b->size < 8) {
        return refuse_block(b, 0, err, "too short for restart points");
    }
    cursor c = cursor_of(b->data, b->size, b->offset, b->what);
    c.at = b->size - 4;
    TRY(cursor_u32le(&c, &b->restart_count, err));
    if (b->restart_count == 0 || b->restart_count > b->size / 4 - 1) {
        return refuse_block(b, b->size - 4, err, "the number of restart points does not fit");
    }
    b->entry_bytes = b->size - 4 - (size_t)b->restart_count * 4;
    uint32_t before = 0;
    for (uint32_t i = 0; i < b->restart_count; i++) {
        uint32_t at = 0;
        TRY(restart(b, i, &at, err));
        if (i == 0 ? at != 0 : at <= before || at >= b->entry_bytes) {
            return refuse_block(b, restart_at(b, i), err, "a restart point is out of place");
        }
        before = at;
    }
    return PAWL_OK;
}

static pawl_status make_room(block *b, size_t need, pawl_error *err) {
    if (need <= b->capacity) {
        return PAWL_OK;
    }
    uint8_t *data = mem_alloc(need);
    if (data == NULL) {
        return error_nomem(err, need);
    }
    mem_free(b->data);
    b->data = data;
    b->capacity = need;
    return PAWL_OK;
}

pawl_status block_load(const byte_source *source, block_handle handle, uint64_t limit,
                       const char *what, block *out, pawl_error *err) {
    TRY(check_handle(handle, limit, what, err));
    size_t need = (size_t)handle.bytes + BLOCK_TRAILER_BYTES;
    TRY(make_room(out, need, err));
    out->size = (size_t)handle.bytes;
    out->offset = handle.offset;
    out->what = what;
    TRY(source->read_at(source->context, handle.offset, out->data, need, err));
    TRY(check_trailer(out, err));
    return check_restarts(out, err);
}

void block_free(block *b) {
    mem_free(b->data);
    *b = (block){.data = NULL};
}

/* ---- walk ----------------------------------------------------------------------------------- */

/* Reads the entry at the cursor, which may share `shareable` bytes with the key before it; its key
 * must follow that key if `ordered`. */
static pawl_status read_block_entry(block_cursor *c, size_t shareable, bool ordered,
                                    pawl_error *err) {
    size_t at = c->c.at;
    uint32_t shared = 0, further = 0, value_bytes = 0;
    const uint8_t *suffix;
    TRY(cursor_varint32(&c->c, &shared, err));
    TRY(cursor_varint32(&c->c, &further, err));
    TRY(cursor_varint32(&c->c, &value_bytes, err));
    if (shared > shareable) {
        return refuse_block(c->in, at, err, "a key shares more bytes than there are");
    }
    if ((uint64_t)shared + further > FORMAT_MAX_KEY) {
        error_set(err, PAWL_ELIMIT, "a key of the %s at byte %" PRIu64 " is too long", c->in->what,
                  c->in->offset + at);
        error_expected(err, "at most %u bytes", FORMAT_MAX_KEY);
        return PAWL_ELIMIT;
    }
    TRY(cursor_bytes(&c->c, further, &suffix, err));
    TRY(cursor_bytes(&c->c, value_bytes, &c->value, err));
    if (ordered && key_compare(suffix, further, c->key.data + shared, c->key.size - shared) <= 0) {
        return refuse_block(c->in, at, err, "keys do not ascend");
    }
    c->value_bytes = value_bytes;
    c->key.size = shared;
    TRY(buffer_append(&c->key, suffix, further, err));
    c->valid = true;
    return PAWL_OK;
}

/* Moves the cursor before the entry of a restart point, which shares nothing. */
static pawl_status move_before(block_cursor *c, const block *b, uint32_t number, pawl_error *err) {
    c->in = b;
    c->c = cursor_of(b->data, b->entry_bytes, b->offset, b->what);
    c->key.size = 0;
    c->valid = false;
    c->restart = number;
    TRY(restart(b, number, &c->restart_at, err));
    c->c.at = c->restart_at;
    return PAWL_OK;
}

/* Every restart point must be where an entry begins, or a search would find what a walk does
 * not. */
static pawl_status pass_restart(block_cursor *c, size_t *shareable, pawl_error *err) {
    const block *b = c->in;
    *shareable = c->key.size;
    if (c->restart == b->restart_count || c->c.at < c->restart_at) {
        return PAWL_OK;
    }
    if (c->c.at > c->restart_at) {
        return refuse_block(b, restart_at(b, c->restart), err,
                            "a restart point is within an entry");
    }
    *shareable = 0;
    c->restart++;
    return c->restart < b->restart_count ? restart(b, c->restart, &c->restart_at, err) : PAWL_OK;
}

pawl_status block_first(block_cursor *c, const block *b, pawl_error *err) {
    TRY(move_before(c, b, 0, err));
    return block_next(c, err);
}

pawl_status block_next(block_cursor *c, pawl_error *err) {
    bool ordered = c->valid;
    size_t shareable = 0;
    c->valid = false;
    TRY(pass_restart(c, &shareable, err));
    return cursor_left(&c->c) == 0 ? PAWL_OK : read_block_entry(c, shareable, ordered, err);
}

/* The last restart point whose key is less than `key`, or the first one. */
static pawl_status search_restarts(block_cursor *c, const block *b, const void *key,
                                   size_t key_bytes, uint32_t *found, pawl_error *err) {
    uint32_t low = 0, high = b->restart_count; /* the key at `low` is less, or low is 0 */
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        TRY(move_before(c, b, middle, err));
        TRY(read_block_entry(c, 0, false, err));
        if (key_compare(c->key.data, c->key.size, key, key_bytes) < 0) {
            low = middle;
        } else {
            high = middle;
        }
    }
    *found = low;
    return PAWL_OK;
}

pawl_status block_seek(block_cursor *c, const block *b, const void *key, size_t key_bytes,
                       pawl_error *err) {
    uint32_t found = 0;
    TRY(search_restarts(c, b, key, key_bytes, &found, err));
    TRY(move_before(c, b, found, err));
    TRY(block_next(c, err));
    while (c->valid && key_compare(c->key.data, c->key.size, key, key_bytes) < 0) {
        TRY(block_next(c, err));
    }
    return PAWL_OK;
}

void block_cursor_free(block_cursor *c) {
    buffer_free(&c->key);
    c->valid = false;
}
