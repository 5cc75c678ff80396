/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snappy's raw format: a length, and then literals and copies of what came before.
 *
 * The library that is made for it needs the runtime of C++, which libpawl does without.
 */
#include "foreign/tensorflow/bundle.h"

#include <string.h>

#define MOST_OF_ONE 22u /* bytes that one compressed byte becomes: 64 of 3 */

static pawl_status refuse(const char *what, pawl_error *err) {
    return error_set(err, PAWL_EDAMAGED, "a block of the index cannot be decompressed: %s", what);
}

/* Little-endian, of 1 to 4 bytes. */
static pawl_status take_number(cursor *c, unsigned n, uint32_t *out, pawl_error *err) {
    const uint8_t *bytes = NULL;
    TRY(cursor_bytes(c, n, &bytes, err));
    *out = 0;
    for (unsigned i = 0; i < n; i++) {
        *out |= (uint32_t)bytes[i] << (8 * i);
    }
    return PAWL_OK;
}

static pawl_status copy_literal(cursor *c, unsigned tag, size_t room, buffer *out,
                                pawl_error *err) {
    const uint8_t *bytes = NULL;
    uint32_t n = tag >> 2;
    if (n >= 60) {
        TRY(take_number(c, n - 59, &n, err));
    }
    if (n >= room) {
        return refuse("it becomes longer than it says", err);
    }
    TRY(cursor_bytes(c, (size_t)n + 1, &bytes, err));
    memcpy(out->data + out->size, bytes, (size_t)n + 1);
    out->size += (size_t)n + 1;
    return PAWL_OK;
}

/* What is copied may overlap what it becomes: then it repeats. */
static pawl_status copy_back(size_t n, size_t distance, size_t room, buffer *out, pawl_error *err) {
    if (distance == 0 || distance > out->size) {
        return refuse("it copies what is not there", err);
    }
    if (n > room) {
        return refuse("it becomes longer than it says", err);
    }
    for (size_t i = 0; i < n; i++) {
        out->data[out->size] = out->data[out->size - distance];
        out->size++;
    }
    return PAWL_OK;
}

static pawl_status decode_element(cursor *c, size_t room, buffer *out, pawl_error *err) {
    uint8_t tag = 0;
    uint32_t distance = 0;
    TRY(cursor_u8(c, &tag, err));
    switch (tag & 3u) {
    case 0:
        return copy_literal(c, tag, room, out, err);
    case 1:
        TRY(take_number(c, 1, &distance, err));
        return copy_back(4 + (tag >> 2 & 7u), (size_t)(tag >> 5) << 8 | distance, room, out, err);
    default:
        TRY(take_number(c, (tag & 3u) == 2 ? 2 : 4, &distance, err));
        return copy_back((size_t)(tag >> 2) + 1, distance, room, out, err);
    }
}

pawl_status snappy_decode(const uint8_t *packed, size_t n, size_t limit, buffer *out,
                          pawl_error *err) {
    cursor c = cursor_of(packed, n, 0, "compressed block");
    uint32_t size = 0;
    TRY(cursor_varint32(&c, &size, err));
    if (size > limit) {
        error_set(err, PAWL_ELIMIT, "the index is too large when it is decompressed");
        error_expected(err, "at most %zu bytes", limit);
        return PAWL_ELIMIT;
    }
    if (size / MOST_OF_ONE > n) {
        return refuse("more bytes are said to be compressed in it than can be", err);
    }
    out->size = 0;
    TRY(buffer_reserve(out, size, err));
    while (out->size < size) {
        TRY(decode_element(&c, size - out->size, out, err));
    }
    return cursor_left(&c) == 0 ? PAWL_OK : refuse("something is behind its end", err);
}
