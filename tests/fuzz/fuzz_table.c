/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sorted table. After a byte that chooses: any bytes as a whole table, or any bytes as the
 * content of one or two data blocks and of its index block, with checksums that fit, so that what
 * lies behind them is reached.
 */
#include "format/block.h"
#include "fuzz.h"

static pawl_status walk(table_cursor *c, pawl_error *err) {
    CLEANUP(buffer_free) buffer before = {.data = NULL};
    bool first = true;
    while (table_valid(c)) {
        const uint8_t *key, *value;
        size_t key_bytes, value_bytes;
        uint8_t sum = 0;
        table_item(c, &key, &key_bytes, &value, &value_bytes);
        FUZZ_CHECK(key_bytes <= FORMAT_MAX_KEY);
        FUZZ_CHECK(first || key_compare(before.data, before.size, key, key_bytes) < 0);
        for (size_t i = 0; i < value_bytes; i++) {
            sum = (uint8_t)(sum + value[i]);
        }
        (void)sum;
        first = false;
        before.size = 0;
        fuzz_append(&before, key, key_bytes);
        TRY(table_next(c, err));
    }
    return PAWL_OK;
}

/* Reads all of it, then looks for a key in its middle. */
static pawl_status read_table(table *t, table_cursor *c, pawl_error *err) {
    (void)t;
    TRY(table_seek(c, "", 0, err));
    TRY(walk(c, err));
    TRY(table_seek(c, "m", 1, err));
    if (table_valid(c)) {
        const uint8_t *key, *value;
        size_t key_bytes, value_bytes;
        table_item(c, &key, &key_bytes, &value, &value_bytes);
        FUZZ_CHECK(key_compare(key, key_bytes, "m", 1) >= 0);
    }
    return PAWL_OK;
}

/* What is read with the checksum of its footer is refused with another. */
static void open_by_footer(const buffer *file) {
    pawl_error err = ERROR_INIT;
    table *t = NULL;
    const uint8_t *footer = file->data + file->size - TABLE_FOOTER_BYTES;
    uint32_t crc = crc32c(0, footer, TABLE_FOOTER_BYTES);
    FUZZ_CHECK(table_open(byte_source_memory(file), &crc, &t, &err) == PAWL_OK);
    table_close(t);
    crc++;
    FUZZ_CHECK(table_open(byte_source_memory(file), &crc, &t, &err) == PAWL_EDAMAGED);
}

static void read_file(const buffer *file) {
    pawl_error err = ERROR_INIT;
    table *t = NULL;
    table_cursor *c = NULL;
    pawl_status status = table_open(byte_source_memory(file), NULL, &t, &err);
    if (status == PAWL_OK) {
        FUZZ_CHECK(table_cursor_new(t, &c, &err) == PAWL_OK);
        status = read_table(t, c, &err);
    }
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
    }
    if (status == PAWL_OK) {
        fuzz_accepted++;
        open_by_footer(file);
    }
    table_cursor_free(c);
    table_close(t);
}

static void put_varint(buffer *out, uint64_t v) {
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(buffer_varint(out, v, &err) == PAWL_OK);
}

/* Appends a block and its handle. */
static void put_block(buffer *file, buffer *footer, const uint8_t *content, size_t n) {
    pawl_error err = ERROR_INIT;
    size_t begin = file->size;
    put_varint(footer, begin);
    put_varint(footer, n);
    fuzz_append(file, content, n);
    fuzz_append(file, "", 1);
    uint32_t crc = crc32c(0, file->data + begin, n + 1);
    FUZZ_CHECK(buffer_u32le(file, crc32c_mask(crc), &err) == PAWL_OK);
}

/* Two bytes for each data block say how long it is; then they follow, and the index block. */
static void read_blocks(const uint8_t *data, size_t size, size_t count) {
    static const uint8_t empty[8] = {0, 0, 0, 0, 1};
    pawl_error err = ERROR_INIT;
    if (size < 2 * count) {
        return;
    }
    CLEANUP(buffer_free) buffer file = {.data = NULL}, unused = {.data = NULL};
    CLEANUP(buffer_free) buffer footer = {.data = NULL};
    size_t at = 2 * count;
    for (size_t i = 0; i < count; i++) {
        size_t n = (size_t)data[2 * i] | (size_t)data[2 * i + 1] << 8;
        n = n < size - at ? n : size - at;
        put_block(&file, &unused, data + at, n);
        at += n;
    }
    put_block(&file, &footer, empty, sizeof empty);
    put_block(&file, &footer, data + at, size - at);
    while (footer.size < 40) {
        fuzz_append(&footer, "", 1);
    }
    FUZZ_CHECK(buffer_u64le(&footer, TABLE_MAGIC, &err) == PAWL_OK);
    fuzz_append(&file, footer.data, footer.size);
    read_file(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 0 && (data[0] == 'b' || data[0] == 'c')) {
        read_blocks(data + 1, size - 1, data[0] == 'b' ? 1 : 2);
    } else if (size > 0) {
        CLEANUP(buffer_free) buffer file = fuzz_copy(data + 1, size - 1);
        read_file(&file);
    }
    return 0;
}

size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    return size > 0 && data[0] != 'b' && data[0] != 'c'
               ? 1 + fuzz_repair_table(data + 1, size - 1, room - 1)
               : size;
}
