/* SPDX-License-Identifier: Apache-2.0 */
/* Block checksums of data files, read from the index. The record used last is kept in memory. */
#include "checkpoint/native.h"

#include <string.h>

static pawl_status missing_record(const native_source *c, uint32_t file, uint64_t record,
                                  pawl_error *err) {
    unsigned long long first = record * FORMAT_BLOCKS_PER_RECORD * FORMAT_BLOCK_BYTES;
    return error_set(err, PAWL_EDAMAGED,
                     "the index has no whole record of checksums for the bytes of %s from %llu on",
                     c->manifest.files[file].name, first);
}

static pawl_status find_record(native_source *c, uint32_t file, uint64_t record, pawl_error *err) {
    uint8_t key[RECORD_CHECKSUMS_KEY];
    const uint8_t *found;
    const uint8_t *value;
    size_t found_bytes;
    size_t value_bytes;
    uint64_t block = record * FORMAT_BLOCKS_PER_RECORD;
    uint64_t file_bytes = c->manifest.files[file].bytes;
    record_checksums_key(key, file, block);
    TRY(table_seek(c->checksums_at, key, sizeof(key), err));
    if (!table_valid(c->checksums_at)) {
        return missing_record(c, file, record, err);
    }
    table_item(c->checksums_at, &found, &found_bytes, &value, &value_bytes);
    if (!record_checksums_whole(file, file_bytes, block, found, found_bytes, value_bytes)) {
        return missing_record(c, file, record, err);
    }
    TRY(record_checksums_decode(value, value_bytes, c->checksums, err));
    c->checksums_file = file;
    c->checksums_record = record;
    c->checksums_count = value_bytes / sizeof(uint32_t);
    c->checksums_loaded = true;
    return PAWL_OK;
}

static pawl_status load_record(native_source *c, uint32_t file, uint64_t record, pawl_error *err) {
    if (c->checksums_loaded && c->checksums_file == file && c->checksums_record == record) {
        return PAWL_OK;
    }
    c->checksums_loaded = false;
    pawl_status status = find_record(c, file, record, err);
    return status == PAWL_OK ? PAWL_OK : native_index_failed(&c->base, status, err);
}

pawl_status native_checksums(struct source *s, uint32_t file, uint64_t first, size_t n,
                             uint32_t *out, pawl_error *err) {
    native_source *c = (native_source *)s;
    reader_mark_touch(c->mark);
    while (n > 0) {
        uint64_t record = first / FORMAT_BLOCKS_PER_RECORD;
        TRY(load_record(c, file, record, err));
        size_t at = (size_t)(first % FORMAT_BLOCKS_PER_RECORD);
        if (at >= c->checksums_count) {
            return native_index_failed(&c->base, missing_record(c, file, record, err), err);
        }
        size_t take = c->checksums_count - at < n ? c->checksums_count - at : n;
        memcpy(out, c->checksums + at, take * sizeof(*out));
        out += take;
        first += take;
        n -= take;
    }
    return PAWL_OK;
}
