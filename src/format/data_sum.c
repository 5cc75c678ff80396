/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sum of a data file, by which a file that was written to its end is told from one of full size
 * with holes in it.
 *
 *   u64le N | {"__metadata__":{"pawl_sum":"xxxxxxxx",...
 *                                          ^ byte 37, 8 digits
 *
 * It is the CRC32C of these numbers, a u32le each, and so covers every byte:
 *   the CRC32C of the header, with dashes in the place of the digits;
 *   the CRC32C of the bytes from the header's end to the end of its last block, or of the file;
 *   the CRC32C of each block after that, as the index has them.
 */
#include "format/format.h"

#include <stdio.h>
#include <string.h>

#define SUM_END (DATA_SUM_AT + DATA_SUM_DIGITS)

/* Blocks that hold some of the header. */
static uint64_t header_blocks(uint64_t header_bytes) {
    return header_bytes / FORMAT_BLOCK_BYTES + (header_bytes % FORMAT_BLOCK_BYTES != 0);
}

uint64_t data_sum_edge(uint64_t header_bytes, uint64_t file_bytes) {
    uint64_t end = header_blocks(header_bytes) * FORMAT_BLOCK_BYTES;
    return end < file_bytes ? end : file_bytes;
}

/* ---- encode --------------------------------------------------------------------------------- */

static uint32_t sum_number(uint32_t crc, uint32_t number) {
    uint8_t bytes[4];
    for (int i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(number >> 8 * i);
    }
    return crc32c(crc, bytes, sizeof(bytes));
}

uint32_t data_sum(uint32_t header_crc, uint32_t edge_crc, uint64_t header_bytes,
                  const uint32_t *blocks, size_t block_count) {
    uint32_t sum = sum_number(sum_number(0, header_crc), edge_crc);
    for (uint64_t i = header_blocks(header_bytes); i < block_count; i++) {
        sum = sum_number(sum, blocks[i]);
    }
    return sum;
}

void data_sum_put(uint8_t *file, uint32_t sum) {
    char digits[DATA_SUM_DIGITS + 1];
    snprintf(digits, sizeof(digits), "%08x", sum);
    memcpy(file + DATA_SUM_AT, digits, DATA_SUM_DIGITS);
}

/* ---- check ---------------------------------------------------------------------------------- */

/* The CRC32C of the file's first bytes, with dashes in the place of the digits. */
static uint32_t start_crc(const uint8_t *bytes) {
    uint8_t start[SUM_END];
    memcpy(start, bytes, sizeof(start));
    memcpy(start + DATA_SUM_AT, DATA_SUM_UNFINISHED, DATA_SUM_DIGITS);
    return crc32c(0, start, sizeof(start));
}

void data_sum_look(data_sum_reading *r, uint64_t at, const uint8_t *bytes, size_t n) {
    uint64_t edge = data_sum_edge(r->header_bytes, r->file_bytes);
    uint64_t end = at + n;
    uint64_t header_end = end < r->header_bytes ? end : r->header_bytes;
    uint64_t edge_end = end < edge ? end : edge;
    uint64_t from = at;
    if (at == 0 && header_end >= SUM_END) {
        r->header_crc = start_crc(bytes);
        from = SUM_END;
    }
    if (from < header_end) {
        r->header_crc = crc32c(r->header_crc, bytes + (from - at), (size_t)(header_end - from));
        from = header_end;
    }
    if (from >= r->header_bytes && from < edge_end) {
        r->edge_crc = crc32c(r->edge_crc, bytes + (from - at), (size_t)(edge_end - from));
    }
}

static const char *find_digits(const safetensors_header *header) {
    for (size_t i = 0; i < header->metadata_count; i++) {
        if (strcmp(header->metadata[i].key, DATA_SUM_KEY) == 0) {
            return header->metadata[i].value;
        }
    }
    return NULL;
}

static pawl_status not_finished(const char *found, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED,
              "the data file is not finished: its writer did not get to the end");
    error_expected(err, "the sum of its bytes in the __metadata__ of its header");
    error_found(err, "%s", found);
    return PAWL_EDAMAGED;
}

pawl_status data_sum_begun(const byte_source *file, pawl_error *err) {
    static const uint8_t zeros[8];
    uint8_t bytes[sizeof(zeros)];
    if (file->size < sizeof(bytes)) {
        return PAWL_OK;
    }
    TRY(file->read_at(file->context, 0, bytes, sizeof(bytes), err));
    return memcmp(bytes, zeros, sizeof(bytes)) == 0 ? not_finished("zeros where it begins", err)
                                                    : PAWL_OK;
}

pawl_status data_sum_finished(const safetensors_header *header, pawl_error *err) {
    const char *digits = find_digits(header);
    if (digits == NULL || strcmp(digits, DATA_SUM_UNFINISHED) != 0) {
        return PAWL_OK;
    }
    return not_finished("\"" DATA_SUM_KEY "\": \"" DATA_SUM_UNFINISHED "\"", err);
}

/* Anything else may hold any bytes, and is not shown. */
static bool is_sum(const char *digits) {
    return strspn(digits, "0123456789abcdef") == DATA_SUM_DIGITS &&
           strlen(digits) == DATA_SUM_DIGITS;
}

pawl_status data_sum_check(const data_sum_reading *r, const safetensors_header *header,
                           const uint32_t *blocks, size_t block_count, pawl_error *err) {
    char computed[DATA_SUM_DIGITS + 1];
    const char *digits = find_digits(header);
    if (digits == NULL) {
        return PAWL_OK;
    }
    snprintf(computed, sizeof(computed), "%08x",
             data_sum(r->header_crc, r->edge_crc, r->header_bytes, blocks, block_count));
    if (strcmp(digits, computed) == 0) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED,
              "the bytes of the data file are not those that its writer finished it with");
    error_expected(err, "the sum %s, which stands in its header",
                   is_sum(digits) ? digits : "(not a number)");
    error_found(err, "the sum %s", computed);
    return PAWL_EDAMAGED;
}
