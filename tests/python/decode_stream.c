/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes data files that come on stdin, one behind the other, each after its length (u64le).
 * Answers with a line of JSON for each: what is in it, or why it was refused.
 */
#include "print_string.h"

#include "format/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (64u << 20)

static void print_tensor(const safetensors_tensor *tensor, const buffer *file) {
    (void)fputs("{\"name\": ", stdout);
    print_string(tensor->name);
    (void)printf(", \"dtype\": \"%s\", \"shape\": [", pawl_dtype_name(tensor->dtype));
    for (int d = 0; d < tensor->ndim; d++) {
        (void)printf("%s%" PRId64, d > 0 ? ", " : "", tensor->shape[d]);
    }
    (void)fputs("], \"data\": \"", stdout);
    for (uint64_t i = 0; i < tensor->bytes; i++) {
        (void)printf("%02x", file->data[tensor->offset + i]);
    }
    (void)fputs("\"}", stdout);
}

static void print_header(const safetensors_header *header, const buffer *file) {
    (void)fputs("{\"status\": \"ok\", \"metadata\": {", stdout);
    for (size_t i = 0; i < header->metadata_count; i++) {
        (void)fputs(i > 0 ? ", " : "", stdout);
        print_string(header->metadata[i].key);
        (void)fputs(": ", stdout);
        print_string(header->metadata[i].value);
    }
    (void)fputs("}, \"tensors\": [", stdout);
    for (size_t i = 0; i < header->tensor_count; i++) {
        (void)fputs(i > 0 ? ", " : "", stdout);
        print_tensor(&header->tensors[i], file);
    }
    (void)fputs("]}\n", stdout);
}

static void answer(const buffer *file) {
    pawl_error err = ERROR_INIT;
    safetensors_header header;
    byte_source source = byte_source_memory(file);
    pawl_status status = safetensors_decode(&source, &header, &err);
    if (status == PAWL_OK) {
        print_header(&header, file);
        safetensors_header_free(&header);
        return;
    }
    (void)printf("{\"status\": \"%s\", \"text\": ", pawl_status_name(status));
    print_string(error_text(&err));
    (void)fputs("}\n", stdout);
}

/* False at the end of the stream. */
static bool read_file(buffer *file) {
    uint8_t length[8];
    uint64_t n = 0;
    if (fread(length, 1, sizeof length, stdin) != sizeof length) {
        return false;
    }
    pawl_error err = ERROR_INIT;
    cursor c = cursor_of(length, sizeof length, 0, "stream");
    if (cursor_u64le(&c, &n, &err) != PAWL_OK || n > MOST_BYTES) {
        (void)fprintf(stderr, "a file of %" PRIu64 " bytes is too large\n", n);
        exit(2);
    }
    /* Its end is the end of its memory, so that a sanitizer notices a read beyond. */
    file->data = mem_alloc(n);
    file->size = n;
    if (file->data == NULL || fread(file->data, 1, n, stdin) != n) {
        (void)fprintf(stderr, "the stream ends within a file\n");
        exit(2);
    }
    return true;
}

int main(void) {
    for (;;) {
        CLEANUP(buffer_free) buffer file = {.data = NULL};
        if (!read_file(&file)) {
            return 0;
        }
        answer(&file);
    }
}
