/* SPDX-License-Identifier: Apache-2.0 */
/* Block checksums of data files, read from the index. The record used last is kept in memory. */
#include "checkpoint/private.h"

#include <string.h>

static pawl_status missing_record(const pawl_checkpoint *c, uint32_t file, uint64_t record,
                                  pawl_error *err) {
    unsigned long long first = record * FORMAT_BLOCKS_PER_RECORD * FORMAT_BLOCK_BYTES;
    return error_set(err, PAWL_EDAMAGED,
                     "the index has no whole record of checksums for the bytes of %s from %llu on",
                     c->manifest.files[file].name, first);
}

static pawl_status find_record(pawl_checkpoint *c, uint32_t file, uint64_t record,
                               pawl_error *err) {
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

static pawl_status load_record(pawl_checkpoint *c, uint32_t file, uint64_t record,
                               pawl_error *err) {
    if (c->checksums_loaded && c->checksums_file == file && c->checksums_record == record) {
        return PAWL_OK;
    }
    c->checksums_loaded = false;
    pawl_status status = find_record(c, file, record, err);
    return status == PAWL_OK ? PAWL_OK : checkpoint_index_failed(c, status, err);
}

static pawl_status get_checksums(void *context, uint32_t file, uint64_t first, size_t n,
                                 uint32_t *out, pawl_error *err) {
    pawl_checkpoint *c = context;
    reader_mark_touch(c->mark);
    while (n > 0) {
        uint64_t record = first / FORMAT_BLOCKS_PER_RECORD;
        TRY(load_record(c, file, record, err));
        size_t at = (size_t)(first % FORMAT_BLOCKS_PER_RECORD);
        if (at >= c->checksums_count) {
            return checkpoint_index_failed(c, missing_record(c, file, record, err), err);
        }
        size_t take = c->checksums_count - at < n ? c->checksums_count - at : n;
        memcpy(out, c->checksums + at, take * sizeof(*out));
        out += take;
        first += take;
        n -= take;
    }
    return PAWL_OK;
}

static const char *get_file_name(void *context, uint32_t file) {
    const pawl_checkpoint *c = context;
    return c->manifest.files[file].name;
}

static uint64_t get_file_bytes(void *context, uint32_t file) {
    const pawl_checkpoint *c = context;
    return c->manifest.files[file].bytes;
}

engine_source checksums_source(pawl_checkpoint *c) {
    return (engine_source){.store = c->store,
                           .directory = c->directory,
                           .file_count = c->manifest.file_count,
                           .context = c,
                           .file_name = get_file_name,
                           .file_bytes = get_file_bytes,
                           .checksums = get_checksums,
                           .reads = &c->reads.reads,
                           .bytes = &c->reads.bytes,
                           .platform = c->platform};
}
