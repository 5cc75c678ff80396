/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz: what the fuzz targets share. Each file fuzz_<what>.c is a libFuzzer target: any bytes may
 * come in, and must be refused or understood, never read beyond, never leak. FUZZ_CHECK states what
 * must hold of whatever was understood.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include "format/format.h"

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            __builtin_trap();                                                                      \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy whose end is the end of its memory, so that a read beyond it is noticed. */
static inline buffer fuzz_copy(const uint8_t *data, size_t size) {
    buffer copy = {.data = size > 0 ? mem_dup(data, size) : mem_alloc(0), .size = size};
    FUZZ_CHECK(copy.data != NULL);
    copy.capacity = size;
    return copy;
}

static inline void fuzz_append(buffer *out, const void *data, size_t n) {
    pawl_error err = ERROR_INIT;
    FUZZ_CHECK(buffer_append(out, data, n, &err) == PAWL_OK);
}

/* A refusal says what it is about and has a category that a reader may expect. */
static inline void fuzz_check_refusal(const pawl_error *err, pawl_status status) {
    FUZZ_CHECK(err->status == status && err->attempt[0] != '\0');
    FUZZ_CHECK(status == PAWL_EDAMAGED || status == PAWL_ELIMIT || status == PAWL_EUNSUPPORTED);
}

#endif
