/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes lengths and checksums of a mutated input fit again, so that what lies behind them is
 * reached. libFuzzer and replay.c mutate, and call fuzz_repair afterwards.
 */
#include "fuzz.h"

#include "format/block.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CRC_BYTES 4u

uint64_t fuzz_accepted;

__attribute__((weak)) size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    (void)data;
    (void)room;
    return size;
}

static void put_u32le(uint8_t *to, uint32_t v) {
    for (int i = 0; i < 4; i++) {
        to[i] = (uint8_t)(v >> 8 * i);
    }
}

static void put_u64le(uint8_t *to, uint64_t v) {
    for (int i = 0; i < 8; i++) {
        to[i] = (uint8_t)(v >> 8 * i);
    }
}

size_t fuzz_repair_tail(uint8_t *data, size_t size, size_t room) {
    (void)room;
    if (size >= CRC_BYTES) {
        put_u32le(data + size - CRC_BYTES, crc32c(0, data, size - CRC_BYTES));
    }
    return size;
}

/* ---- a manifest ----------------------------------------------------------------------------- */

size_t fuzz_repair_manifest(uint8_t *text, size_t size, size_t room) {
    static const char key[] = "  \"crc32c\": \"";
    size_t n = sizeof key - 1;
    char tail[64];
    size_t end = size;
    for (size_t at = size >= n ? size - n + 1 : 0; at-- > 0;) {
        if (memcmp(text + at, key, n) == 0) {
            end = at;
            break;
        }
    }
    int length = snprintf(tail, sizeof tail, "%s%08" PRIx32 "\"\n}\n", key, crc32c(0, text, end));
    if (end + (size_t)length > room) {
        return size;
    }
    memcpy(text + end, tail, (size_t)length);
    return end + (size_t)length;
}

/* ---- a table -------------------------------------------------------------------------------- */

static bool take_varint(const uint8_t *data, size_t size, size_t *at, uint64_t *out) {
    *out = 0;
    for (unsigned shift = 0; shift < 64 && *at < size; shift += 7) {
        uint8_t byte = data[(*at)++];
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

/* Where a block begins and how long it is, if all of it is there. */
static bool take_handle(const uint8_t *data, size_t size, size_t *at, size_t limit,
                        block_handle *out) {
    return take_varint(data, size, at, &out->offset) && take_varint(data, size, at, &out->bytes) &&
           out->offset <= limit && out->bytes <= limit - out->offset &&
           limit - out->offset - out->bytes >= BLOCK_TRAILER_BYTES;
}

static void seal_block(uint8_t *data, block_handle h) {
    uint8_t *crc = data + h.offset + h.bytes + 1;
    put_u32le(crc, crc32c_mask(crc32c(0, data + h.offset, (size_t)h.bytes + 1)));
}

/* The blocks that the entries of the index block name. */
static void seal_blocks(uint8_t *data, block_handle index, size_t limit) {
    size_t end = (size_t)(index.offset + index.bytes);
    uint64_t shared, more, value;
    for (size_t at = (size_t)index.offset;
         take_varint(data, end, &at, &shared) && take_varint(data, end, &at, &more) &&
         take_varint(data, end, &at, &value) && more <= end - at && value <= end - at - more;
         at += (size_t)value) {
        block_handle data_block;
        at += (size_t)more;
        size_t from = at;
        if (take_handle(data, at + (size_t)value, &from, limit, &data_block)) {
            seal_block(data, data_block);
        }
    }
}

size_t fuzz_repair_table(uint8_t *data, size_t size, size_t room) {
    block_handle meta, index;
    (void)room;
    if (size < TABLE_FOOTER_BYTES) {
        return size;
    }
    size_t limit = size - TABLE_FOOTER_BYTES;
    size_t at = limit;
    put_u64le(data + size - 8, TABLE_MAGIC);
    if (take_handle(data, size, &at, limit, &meta)) {
        seal_block(data, meta);
        if (take_handle(data, size, &at, limit, &index)) {
            seal_blocks(data, index, limit);
            seal_block(data, index);
        }
    }
    return size;
}

/* ---- a data file ---------------------------------------------------------------------------- */

/* The end of the object that begins at byte 8, and of the spaces behind it. */
static size_t header_end(const uint8_t *data, size_t size) {
    bool in_text = false;
    size_t depth = 0;
    size_t at = 8;
    for (; at < size; at++) {
        if (in_text) {
            in_text = data[at] != '"';
            at += data[at] == '\\';
        } else if (data[at] == '"') {
            in_text = true;
        } else if (data[at] == '{') {
            depth++;
        } else if (data[at] == '}' && --depth == 0) {
            for (at++; at < size && data[at] == ' ';) {
                at++;
            }
            return at;
        }
    }
    return size;
}

/* The largest end in "data_offsets":[begin,end]. */
static uint64_t data_end(const uint8_t *data, size_t end) {
    static const char key[] = "\"data_offsets\":[";
    uint64_t most = 0;
    const uint8_t *at = data + 8;
    while ((at = memmem(at, (size_t)(data + end - at), key, sizeof key - 1)) != NULL) {
        char numbers[64] = {0};
        at += sizeof key - 1;
        size_t left = (size_t)(data + end - at);
        memcpy(numbers, at, left < 63 ? left : 63);
        const char *comma = strchr(numbers, ',');
        uint64_t n = comma != NULL ? strtoull(comma + 1, NULL, 10) : 0;
        most = n > most ? n : most;
    }
    return most;
}

static void seal_file(uint8_t *data, size_t size, size_t header_bytes) {
    uint32_t blocks[64];
    size_t count = 0;
    data_sum_reading r = {.header_bytes = header_bytes, .file_bytes = size};
    for (size_t at = 0; at < size && count < ARRAY_LENGTH(blocks); at += FORMAT_BLOCK_BYTES) {
        size_t left = size - at;
        blocks[count++] =
            crc32c(0, data + at, left < FORMAT_BLOCK_BYTES ? left : FORMAT_BLOCK_BYTES);
    }
    data_sum_look(&r, 0, data, size);
    data_sum_put(data, data_sum(r.header_crc, r.edge_crc, header_bytes, blocks, count));
}

size_t fuzz_repair_safetensors(uint8_t *data, size_t size, size_t room) {
    static const char start[] = "{\"__metadata__\":{\"" DATA_SUM_KEY "\":\"";
    if (size < 10) {
        return size;
    }
    size_t end = header_end(data, size);
    uint64_t bytes = data_end(data, end);
    put_u64le(data, end - 8);
    if (bytes <= room - end) {
        if (end + bytes > size) {
            memset(data + size, 0, end + (size_t)bytes - size);
        }
        size = end + (size_t)bytes;
    }
    if (end > DATA_SUM_AT + DATA_SUM_DIGITS && memcmp(data + 8, start, sizeof start - 1) == 0) {
        seal_file(data, size, end);
    }
    return size;
}
