/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a message of protobuf (https://protobuf.dev/programming-guides/encoding/). */
#include "foreign/tensorflow/protobuf.h"

#include <string.h>

bool bundle_text_is(bundle_text text, const char *what) {
    return text.n == strlen(what) && (text.n == 0 || memcmp(text.bytes, what, text.n) == 0);
}

int bundle_text_compare(bundle_text a, bundle_text b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.bytes, b.bytes, n) : 0;
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

static pawl_status refuse(const cursor *c, const char *what, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the %s is wrong at byte %llu: %s", c->what,
              (unsigned long long)(c->base + c->at), what);
    error_range(err, c->base + c->at, 1);
    return PAWL_EDAMAGED;
}

static pawl_status take_text(cursor *c, bundle_text *out, pawl_error *err) {
    uint64_t n;
    TRY(cursor_varint64(c, &n, err));
    if (n > cursor_left(c)) {
        return refuse(c, "a field is longer than what it is in", err);
    }
    out->n = (size_t)n;
    return cursor_bytes(c, out->n, &out->bytes, err);
}

pawl_status proto_next(cursor *c, proto_field *out, bool *more, pawl_error *err) {
    uint64_t tag = 0;
    uint32_t word = 0;
    *more = cursor_left(c) > 0;
    if (!*more) {
        return PAWL_OK;
    }
    TRY(cursor_varint64(c, &tag, err));
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX) {
        return refuse(c, "a field has no number", err);
    }
    *out = (proto_field){.number = (uint32_t)(tag >> 3), .wire = (unsigned)(tag & 7u)};
    switch (out->wire) {
    case 0:
        return cursor_varint64(c, &out->value, err);
    case 1:
        return cursor_u64le(c, &out->value, err);
    case 2:
        return take_text(c, &out->text, err);
    case 5:
        TRY(cursor_u32le(c, &word, err));
        out->value = word;
        return PAWL_OK;
    default:
        return refuse(c, "a field has an unknown type", err);
    }
}
