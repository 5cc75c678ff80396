/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A directory of another tool with any index and any file: two bytes with the length of the index,
 * the index, the file 1.safetensors; 2.safetensors is always there. Without an index that file
 * alone. What is opened is walked over and read, and each tensor has the bytes that lie where the
 * header says.
 */
#include "fuzz.h"

#include "checkpoint/private.h"
#include "foreign/foreign.h"
#include "lib/simulated_platform.h"
#include "stores/stores.h"

#define INDEX "model.safetensors.index.json"

static store *disk;
static simulated_platform os;

static void put_anew(const char *path, const void *bytes, size_t n) {
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(store_replace(disk, path, bytes, n, &err) == PAWL_OK);
}

static void begin(void) {
    static const char second[] =
        "\x37\0\0\0\0\0\0\0"
        "{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}  xyz";
    pawl_error err = ERROR_INIT;
    if (disk == NULL) {
        simulated_platform_init(&os, 1);
        FUZZ_CHECK(store_mem(&disk, &err) == PAWL_OK);
        put_anew("2.safetensors", second, sizeof second - 1);
    }
}

static size_t index_bytes(const uint8_t *data, size_t size) {
    size_t n = size >= 2 ? (size_t)data[0] | (size_t)data[1] << 8 : 0;
    return size >= 2 && n <= size - 2 ? n : 0;
}

/* Where its bytes are in the file, as its own header says. */
static const uint8_t *bytes_of(const buffer *file, const char *name) {
    byte_source source = byte_source_memory(file);
    pawl_error err = ERROR_INIT;
    safetensors_header header;
    const uint8_t *found = NULL;
    FUZZ_CHECK(safetensors_decode_foreign(&source, &header, &err) == PAWL_OK);
    for (size_t i = 0; i < header.tensor_count; i++) {
        if (strcmp(header.tensors[i].name, name) == 0) {
            found = file->data + header.tensors[i].offset;
        }
    }
    safetensors_header_free(&header);
    return found;
}

static void read_entry(pawl_checkpoint *c, const pawl_entry_info *info, const buffer *file) {
    pawl_error err = ERROR_INIT;
    AUTOFREE uint8_t *read = mem_alloc((size_t)info->bytes);
    FUZZ_CHECK(read != NULL);
    pawl_status status =
        checkpoint_read(c, info->name, NULL, NULL, read, (size_t)info->bytes, &err);
    FUZZ_CHECK((status == PAWL_OK) == (info->dtype != 0));
    const uint8_t *expected = bytes_of(file, info->name);
    FUZZ_CHECK(status != PAWL_OK || expected == NULL ||
               memcmp(expected, read, (size_t)info->bytes) == 0);
}

static void read_all(pawl_checkpoint *c, const buffer *file) {
    pawl_error err = ERROR_INIT;
    pawl_entries *walk = NULL;
    pawl_entry_info info;
    pawl_verify_result result;
    int more = 1;
    uint64_t count = 0;
    FUZZ_CHECK(entries_open(c, "", &walk, &err) == PAWL_OK);
    while (entries_next(walk, &info, &more, &err) == PAWL_OK && more != 0) {
        read_entry(c, &info, file);
        count++;
    }
    FUZZ_CHECK(more == 0 && count == c->source->entries);
    pawl_entries_free(walk);
    pawl_status status = checkpoint_verify(c, NULL, &result, &err);
    FUZZ_CHECK(status == PAWL_OK || status == PAWL_EDAMAGED); /* total_size may be wrong */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    pawl_error err = ERROR_INIT;
    struct source *weights = NULL;
    pawl_checkpoint *c = NULL;
    begin();
    size_t n = index_bytes(data, size);
    size_t at = size >= 2 ? 2 + n : 0;
    CLEANUP(buffer_free) buffer file = fuzz_copy(data + at, size - at);
    put_anew(INDEX, data + (n > 0 ? 2 : 0), n);
    put_anew("1.safetensors", file.data, file.size);
    pawl_status status =
        foreign_open(disk, false, n > 0 ? INDEX : "1.safetensors", true, &weights, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(err.path[0] != '\0');
        return 0;
    }
    FUZZ_CHECK(checkpoint_open_source(weights, &os.table, NULL, &c, &err) == PAWL_OK);
    fuzz_accepted++;
    read_all(c, &file);
    pawl_checkpoint_close(c);
    return 0;
}

size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    size_t at = size >= 2 ? 2 + index_bytes(data, size) : 0;
    return at + fuzz_repair_safetensors(data + at, size - at, room - at);
}
