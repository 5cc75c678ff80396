/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and decodes the records of the index that hold the checksums of a data file's blocks. The
 * key is 'c' u32be(file) u32be(record), the value a u32le for each of up to
 * FORMAT_BLOCKS_PER_RECORD blocks.
 */
#include "format/format.h"

#include <string.h>

static void put_u32be(uint8_t *out, uint32_t v) {
    for (int i = 3; i >= 0; i--) {
        out[i] = (uint8_t)v;
        v >>= 8;
    }
}

void record_checksums_key(uint8_t key[RECORD_CHECKSUMS_KEY], uint32_t file, uint64_t block) {
    key[0] = 'c';
    put_u32be(key + 1, file);
    put_u32be(key + 5, (uint32_t)(block / FORMAT_BLOCKS_PER_RECORD));
}

size_t record_checksums_count(uint64_t file_bytes, uint64_t block) {
    uint64_t blocks = file_bytes / FORMAT_BLOCK_BYTES + (file_bytes % FORMAT_BLOCK_BYTES != 0);
    uint64_t first = block - block % FORMAT_BLOCKS_PER_RECORD;
    uint64_t left = blocks > first ? blocks - first : 0;
    return left < FORMAT_BLOCKS_PER_RECORD ? (size_t)left : FORMAT_BLOCKS_PER_RECORD;
}

pawl_status record_checksums_encode(const uint32_t *checksums, size_t count, buffer *value,
                                    pawl_error *err) {
    value->size = 0;
    for (size_t i = 0; i < count; i++) {
        TRY(buffer_u32le(value, checksums[i], err));
    }
    return PAWL_OK;
}

bool record_checksums_whole(uint32_t file, uint64_t file_bytes, uint64_t block, const uint8_t *key,
                            size_t key_bytes, size_t value_bytes) {
    uint8_t wanted[RECORD_CHECKSUMS_KEY];
    record_checksums_key(wanted, file, block);
    return key_bytes == sizeof wanted && memcmp(key, wanted, sizeof wanted) == 0 &&
           value_bytes == record_checksums_count(file_bytes, block) * sizeof(uint32_t);
}

pawl_status record_checksums_decode(const uint8_t *value, size_t value_bytes, uint32_t *checksums,
                                    pawl_error *err) {
    cursor at = cursor_of(value, value_bytes, 0, "record of checksums");
    for (size_t i = 0; i < value_bytes / sizeof(uint32_t); i++) {
        TRY(cursor_u32le(&at, &checksums[i], err));
    }
    return PAWL_OK;
}
