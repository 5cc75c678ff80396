/* SPDX-License-Identifier: Apache-2.0 */
/* Writes Python's pickles (protocol 2: PEP 307, and the module pickletools). */
#include "foreign/pickle/write.h"
#include "base/json.h"

#include <string.h>

static pawl_status put(buffer *out, uint8_t opcode, const void *bytes, size_t n, pawl_error *err) {
    TRY(buffer_append(out, &opcode, 1, err));
    return buffer_append(out, bytes, n, err);
}

pawl_status pickle_put(buffer *out, pickle_op op, pawl_error *err) {
    return put(out, (uint8_t)op, "", 0, err);
}

pawl_status pickle_begin(buffer *out, pawl_error *err) {
    return put(out, 0x80, "\2", 1, err);
}

pawl_status pickle_end(buffer *out, pawl_error *err) {
    return put(out, '.', "", 0, err);
}

pawl_status pickle_none(buffer *out, pawl_error *err) {
    return put(out, 'N', "", 0, err);
}

pawl_status pickle_bool(buffer *out, bool v, pawl_error *err) {
    return put(out, v ? 0x88 : 0x89, "", 0, err);
}

pawl_status pickle_int(buffer *out, int64_t v, pawl_error *err) {
    uint8_t bytes[9] = {8}; /* how many follow, for LONG1 */
    for (int i = 0; i < 8; i++) {
        bytes[1 + i] = (uint8_t)((uint64_t)v >> (8 * i));
    }
    if (v >= 0 && v <= UINT16_MAX) {
        return v <= UINT8_MAX ? put(out, 'K', bytes + 1, 1, err) : put(out, 'M', bytes + 1, 2, err);
    }
    return v >= INT32_MIN && v <= INT32_MAX ? put(out, 'J', bytes + 1, 4, err)
                                            : put(out, 0x8a, bytes, 9, err);
}

pawl_status pickle_float(buffer *out, double v, pawl_error *err) {
    uint64_t bits;
    uint8_t bytes[8];
    memcpy(&bits, &v, sizeof(bits));
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(bits >> (56 - 8 * i)); /* big-endian */
    }
    return put(out, 'G', bytes, sizeof(bytes), err);
}

pawl_status pickle_text(buffer *out, const char *text, size_t n, pawl_error *err) {
    TRY(put(out, 'X', "", 0, err));
    TRY(buffer_u32le(out, (uint32_t)n, err)); /* no text of ours is as long as 4 GiB */
    return buffer_append(out, text, n, err);
}

/* Protocol 2 has no bytes: Python makes them of a text whose characters are the bytes. */
pawl_status pickle_bytes(buffer *out, const uint8_t *bytes, size_t n, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    for (size_t i = 0; i < n; i++) {
        const uint8_t two[2] = {(uint8_t)(0xc0 | bytes[i] >> 6),
                                (uint8_t)(0x80 | (bytes[i] & 63u))};
        TRY(bytes[i] < 0x80 ? buffer_append(&text, &bytes[i], 1, err)
                            : buffer_append(&text, two, 2, err));
    }
    TRY(pickle_global(out, "_codecs", "encode", err));
    TRY(pickle_put(out, PICKLE_MARK, err));
    TRY(pickle_text(out, n > 0 ? (const char *)text.data : "", text.size, err));
    TRY(pickle_text(out, "latin1", 6, err));
    TRY(pickle_put(out, PICKLE_TUPLE, err));
    return pickle_put(out, PICKLE_REDUCE, err);
}

pawl_status pickle_global(buffer *out, const char *module, const char *name, pawl_error *err) {
    return buffer_printf(out, err, "c%s\n%s\n", module, name);
}

pawl_status pickle_share(buffer *out, pickle_memo *memo, size_t from, pawl_error *err) {
    size_t n = out->size - from;
    for (uint8_t i = 0; i < memo->count; i++) {
        if (memo->kept[i].bytes == n &&
            memcmp(out->data + memo->kept[i].at, out->data + from, n) == 0) {
            out->size = from;
            return put(out, 'h', &i, 1, err); /* BINGET */
        }
    }
    if (memo->count == ARRAY_LENGTH(memo->kept)) {
        return PAWL_OK;
    }
    const uint8_t number = memo->count++;
    memo->kept[number].at = from;
    memo->kept[number].bytes = n;
    return put(out, 'q', &number, 1, err); /* BINPUT */
}

/* ---- JSON ----------------------------------------------------------------------------------- */

#define MOST_LONG 255u /* bytes of an integer, and LONG1 is what torch.load reads */

/* An integer of any size, two's complement. *is is false where it has a fraction or too many
 * digits. */
static pawl_status put_long(buffer *out, json_span span, bool *is, pawl_error *err) {
    uint8_t bytes[1 + MOST_LONG] = {0};
    bool negative = span.text[0] == '-';
    size_t n = 1;
    for (size_t i = negative ? 1 : 0; i < span.n; i++) {
        unsigned carry = (unsigned)(uint8_t)span.text[i] - '0';
        *is = carry <= 9;
        for (size_t k = 1; *is && (k <= n || carry > 0); k++) {
            *is = k < MOST_LONG; /* the last has the sign */
            carry += bytes[k] * 10u;
            bytes[k] = (uint8_t)carry;
            carry >>= 8;
            n = k > n ? k : n;
        }
        if (!*is) {
            return PAWL_OK;
        }
    }
    n++;
    for (size_t k = 1, carry = 1; negative && k <= n; k++) {
        carry += (uint8_t)~bytes[k];
        bytes[k] = (uint8_t)carry;
        carry >>= 8;
    }
    bytes[0] = (uint8_t)n;
    return put(out, 0x8a, bytes, 1 + n, err);
}

/* An integer, or else a float. */
static pawl_status put_number(buffer *out, json_span span, pawl_error *err) {
    json_reader r = json_reader_of(span.text, span.n);
    int64_t integer;
    double number = 0;
    if (json_i64(&r, &integer) == PAWL_OK && json_end(&r) == PAWL_OK) {
        return pickle_int(out, integer, err);
    }
    bool is = false;
    TRY(put_long(out, span, &is, err));
    if (is) {
        return PAWL_OK;
    }
    (void)json_number(span, &number); /* infinite where it is too large */
    return pickle_float(out, number, err);
}

pawl_status pickle_json_scalar(buffer *out, json_span span, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    json_reader r = json_reader_for(span.text, span.n, 0, "value", err);
    uint8_t first = json_peek(&r);
    r.nul = true;
    switch (first) {
    case '"':
        TRY(json_text(&r, &text, err));
        return pickle_text(out, (const char *)text.data, text.size, err);
    case 't':
    case 'f':
        return pickle_bool(out, first == 't', err);
    case 'n':
        return pickle_none(out, err);
    default:
        return put_number(out, span, err);
    }
}
