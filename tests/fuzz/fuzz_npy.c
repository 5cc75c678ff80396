/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the beginning of a .npy: what is understood has a type with a name, and a shape
 * whose elements can be counted. */
#include "fuzz.h"

#include "foreign/numpy/npy_header.h"

static void check_header(const npy_header *h, size_t bytes) {
    uint64_t elements = 1;
    FUZZ_CHECK(h->bytes == bytes && h->ndim >= 0 && h->ndim <= PAWL_MAX_NDIM);
    unsigned each = (int)h->dtype == 0 ? 0 : (unsigned)pawl_dtype_bits(h->dtype) / 8;
    bool paired = h->dtype == PAWL_F64 && strcmp(h->type, "C128") == 0;
    FUZZ_CHECK(paired || dtype_valid(h->dtype) == (h->type[0] == '\0'));
    FUZZ_CHECK(memchr(h->type, '\0', sizeof h->type) != NULL);
    FUZZ_CHECK(utf8_valid(h->type, strlen(h->type)) && strpbrk(h->type, "\n\033") == NULL);
    FUZZ_CHECK(h->swap_bytes >= 1 && h->swap_bytes <= 16);
    FUZZ_CHECK((int)h->dtype == 0 || h->element_bytes == (paired ? 2 * each : each));
    for (int i = 0; i < h->ndim; i++) {
        FUZZ_CHECK(h->shape[i] >= 0);
        elements *= (uint64_t)h->shape[i];
    }
    FUZZ_CHECK(elements == h->elements);
    FUZZ_CHECK(h->element_bytes == 0 || h->elements <= UINT64_MAX / h->element_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer file = fuzz_copy(data, size);
    pawl_error err = ERROR_INIT;
    npy_header h;
    size_t bytes;
    pawl_status status = npy_header_bytes(
        file.data, size < NPY_START_BYTES ? size : NPY_START_BYTES, size, &bytes, &err);
    if (status == PAWL_OK) {
        FUZZ_CHECK(bytes <= size);
        CLEANUP(buffer_free) buffer header = fuzz_copy(data, bytes);
        status = npy_header_decode(header.data, bytes, &h, &err);
    }
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(err.has_range);
        return 0;
    }
    fuzz_accepted++;
    check_header(&h, bytes);
    return 0;
}

/* The header ends with the file, or where its dictionary ends. */
size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    (void)room;
    if (size < NPY_START_BYTES) {
        return size;
    }
    size_t before = data[6] == 1 ? 10 : NPY_START_BYTES;
    size_t end = size;
    for (size_t i = before; i < size; i++) {
        end = data[i] == '}' ? i + 1 : end;
    }
    size_t n = end - before;
    data[8] = (uint8_t)n;
    data[9] = (uint8_t)(n >> 8);
    if (before == NPY_START_BYTES) {
        data[10] = (uint8_t)(n >> 16);
        data[11] = (uint8_t)(n >> 24);
    }
    return size;
}
