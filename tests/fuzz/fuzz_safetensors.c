/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a data file: its header, what it says of its tensors, and its sum. */
#include "fuzz.h"

/* Tensors follow each other without a hole up to the end of the file. */
static void check_header(const safetensors_header *header) {
    uint64_t end = header->data_offset;
    for (size_t i = 0; i < header->tensor_count; i++) {
        const safetensors_tensor *tensor = &header->tensors[i];
        FUZZ_CHECK(tensor->offset == end);
        FUZZ_CHECK(dtype_valid(tensor->dtype));
        FUZZ_CHECK(tensor->ndim >= 0 && tensor->ndim <= PAWL_MAX_NDIM);
        FUZZ_CHECK(utf8_valid(tensor->name, strlen(tensor->name)));
        end += tensor->bytes;
    }
    FUZZ_CHECK(end == header->file_bytes);
}

static void describe(const safetensors_header *header) {
    CLEANUP(arena_free) arena memory = {.blocks = NULL};
    pawl_error err = ERROR_INIT;
    record_entry *entries = NULL;
    size_t count = 0;
    int64_t step = -1;
    int rank = -1, world_size = -1;
    pawl_status status = record_metadata_decode(header, 0, &memory, &entries, &count, &step, &rank,
                                                &world_size, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        return;
    }
    FUZZ_CHECK(step >= 0 && rank >= 0 && rank < world_size);
    FUZZ_CHECK(count == header->tensor_count);
    for (size_t i = 0; i < count; i++) {
        FUZZ_CHECK(entry_name_valid(entries[i].name, strlen(entries[i].name), NULL));
        FUZZ_CHECK(entries[i].piece_count == 1);
    }
}

static void sum(const buffer *file, const safetensors_header *header) {
    pawl_error err = ERROR_INIT;
    data_sum_reading whole = {.header_bytes = header->data_offset, .file_bytes = file->size};
    data_sum_reading cut = whole;
    data_sum_look(&whole, 0, file->data, file->size);
    for (size_t at = 0; at < file->size; at += FORMAT_BLOCK_BYTES) {
        size_t left = file->size - at;
        data_sum_look(&cut, at, file->data + at,
                      left < FORMAT_BLOCK_BYTES ? left : FORMAT_BLOCK_BYTES);
    }
    FUZZ_CHECK(whole.header_crc == cut.header_crc && whole.edge_crc == cut.edge_crc);
    pawl_status status = data_sum_finished(header, &err);
    if (status == PAWL_OK) {
        status = data_sum_check(&whole, header, NULL, 0, &err);
    }
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
    }
}

/* A file of another tool may have other types; those that it has of ours are read the same. */
static void decode_foreign(const byte_source *source, const safetensors_header *own) {
    pawl_error err = ERROR_INIT;
    safetensors_header header;
    bool others = false;
    pawl_status status = safetensors_decode_foreign(source, &header, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(own == NULL);
        return;
    }
    uint64_t end = header.data_offset;
    for (size_t i = 0; i < header.tensor_count; i++) {
        const safetensors_tensor *tensor = &header.tensors[i];
        FUZZ_CHECK(tensor->offset == end && dtype_valid(tensor->dtype) == (tensor->type == NULL));
        others = others || tensor->type != NULL;
        end += tensor->bytes;
    }
    FUZZ_CHECK(end == header.file_bytes && (own != NULL || others));
    safetensors_header_free(&header);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer file = fuzz_copy(data, size);
    byte_source source = byte_source_memory(&file);
    pawl_error err = ERROR_INIT;
    safetensors_header header;
    pawl_status status = safetensors_decode(&source, &header, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        decode_foreign(&source, NULL);
        return 0;
    }
    fuzz_accepted++;
    check_header(&header);
    decode_foreign(&source, &header);
    describe(&header);
    sum(&file, &header);
    safetensors_header_free(&header);
    return 0;
}

size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    return fuzz_repair_safetensors(data, size, room);
}
