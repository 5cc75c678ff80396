/* SPDX-License-Identifier: Apache-2.0 */
/* The bounded reader of bytes from outside. A read that fails leaves the cursor where it was. */
#include "base/base.h"

#include <assert.h>

cursor cursor_of(const void *data, size_t size, uint64_t base, const char *what) {
    return (cursor){.data = data, .size = size, .base = base, .what = what};
}

size_t cursor_left(const cursor *c) {
    assert(c->at <= c->size);
    return c->size - c->at;
}

static unsigned long long cursor_position(const cursor *c) {
    return (unsigned long long)(c->base + c->at);
}

static pawl_status cursor_short(const cursor *c, size_t n, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the %s ends too early", c->what);
    error_range(err, c->base + c->at, cursor_left(c));
    error_expected(err, "%zu byte%s at byte %llu", n, n == 1 ? "" : "s", cursor_position(c));
    error_found(err, "%zu left", cursor_left(c));
    return PAWL_EDAMAGED;
}

pawl_status cursor_bytes(cursor *c, size_t n, const uint8_t **out, pawl_error *err) {
    if (n > cursor_left(c)) {
        return cursor_short(c, n, err);
    }
    *out = n > 0 ? c->data + c->at : c->data;
    c->at += n;
    return PAWL_OK;
}

pawl_status cursor_u8(cursor *c, uint8_t *out, pawl_error *err) {
    const uint8_t *bytes = NULL;
    TRY(cursor_bytes(c, 1, &bytes, err));
    *out = bytes[0];
    return PAWL_OK;
}

pawl_status cursor_u32le(cursor *c, uint32_t *out, pawl_error *err) {
    const uint8_t *b = NULL;
    TRY(cursor_bytes(c, 4, &b, err));
    *out = (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    return PAWL_OK;
}

pawl_status cursor_u64le(cursor *c, uint64_t *out, pawl_error *err) {
    const uint8_t *b = NULL;
    TRY(cursor_bytes(c, 8, &b, err));
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) {
        v = v << 8 | b[i];
    }
    *out = v;
    return PAWL_OK;
}

static pawl_status varint_damaged(const cursor *c, int bits, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the %s has a number that is too large", c->what);
    error_range(err, c->base + c->at, 1);
    error_expected(err, "a varint of at most %d bits at byte %llu", bits, cursor_position(c));
    error_found(err, "a longer one");
    return PAWL_EDAMAGED;
}

static pawl_status cursor_varint(cursor *c, int bits, uint64_t *out, pawl_error *err) {
    uint64_t v = 0;
    size_t left = cursor_left(c);
    for (size_t i = 0; (int)i * 7 < bits; i++) {
        if (i == left) {
            return cursor_short(c, left + 1, err);
        }
        uint8_t byte = c->data[c->at + i];
        int shift = (int)i * 7;
        uint64_t group = byte & 0x7fU;
        if (shift + 7 > bits && group >> (bits - shift) != 0) {
            return varint_damaged(c, bits, err);
        }
        v |= group << shift;
        if (byte < 0x80) {
            c->at += i + 1;
            *out = v;
            return PAWL_OK;
        }
    }
    return varint_damaged(c, bits, err);
}

pawl_status cursor_varint32(cursor *c, uint32_t *out, pawl_error *err) {
    uint64_t v;
    TRY(cursor_varint(c, 32, &v, err));
    *out = (uint32_t)v;
    return PAWL_OK;
}

pawl_status cursor_varint64(cursor *c, uint64_t *out, pawl_error *err) {
    return cursor_varint(c, 64, out, err);
}
