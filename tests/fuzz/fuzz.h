/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz: what the fuzz targets share. Each file fuzz_<what>.c is a libFuzzer target: any bytes may
 * come in, and must be refused or understood, never read beyond, never leak. FUZZ_CHECK states what
 * must hold of whatever was understood.
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include "format/format.h"

#include <string.h>

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            __builtin_trap();                                                                      \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Inputs that were understood. A corpus without such an input would prove nothing. */
extern uint64_t fuzz_accepted;

/* ---- repair.c: getting behind checksums ----------------------------------------------------- */

/* Called for most inputs after they were mutated: makes lengths and checksums fit what is in
 * between. `data` has room for `room` bytes; returns the new size. What a target does not define
 * changes nothing. */
size_t fuzz_repair(uint8_t *data, size_t size, size_t room);

/* The last four bytes become the CRC32C of those before. */
size_t fuzz_repair_tail(uint8_t *data, size_t size, size_t room);
size_t fuzz_repair_manifest(uint8_t *text, size_t size, size_t room);
/* Magic number, and the checksums of all blocks that can be found. */
size_t fuzz_repair_table(uint8_t *data, size_t size, size_t room);
/* The header's length, room for all tensors, and the sum of the file where it has one. */
size_t fuzz_repair_safetensors(uint8_t *data, size_t size, size_t room);

/* ---- inputs --------------------------------------------------------------------------------- */

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

/* An input that says, byte by byte, what to make; zeros follow its end. */
typedef struct fuzz_bytes {
    const uint8_t *data;
    size_t size, at;
} fuzz_bytes;

static inline unsigned fuzz_below(fuzz_bytes *in, unsigned end) {
    return in->at < in->size ? in->data[in->at++] % end : 0;
}

static inline bool fuzz_done(const fuzz_bytes *in) {
    return in->at >= in->size;
}

/* ---- what must hold ------------------------------------------------------------------------- */

/* A refusal says what it is about and has a category that a reader may expect. */
static inline void fuzz_check_refusal(const pawl_error *err, pawl_status status) {
    FUZZ_CHECK(err->status == status && err->attempt[0] != '\0');
    FUZZ_CHECK(status == PAWL_EDAMAGED || status == PAWL_ELIMIT || status == PAWL_EUNSUPPORTED);
}

#endif
