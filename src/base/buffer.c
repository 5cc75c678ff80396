/* SPDX-License-Identifier: Apache-2.0 */
/* Growing bytes, the encoders of numbers and JSON strings, and bytes as source and sink. */
#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void buffer_free(buffer *b) {
    mem_free(b->data);
    *b = (buffer){0};
}

pawl_status buffer_reserve(buffer *b, size_t n, pawl_error *err) {
    if (n > SIZE_MAX - 1 - b->size) {
        return error_nomem(err, SIZE_MAX);
    }
    return vec_reserve(&b->data, &b->capacity, b->size + n + 1, 1, err);
}

pawl_status buffer_append(buffer *b, const void *data, size_t n, pawl_error *err) {
    if (n >= b->capacity - b->size) { /* checked here, too: most appends are a few bytes */
        TRY(buffer_reserve(b, n, err));
    }
    if (n > 0) {
        memcpy(b->data + b->size, data, n);
    }
    b->size += n;
    b->data[b->size] = 0;
    return PAWL_OK;
}

pawl_status buffer_printf(buffer *b, pawl_error *err, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (n < 0) {
        return error_set(err, PAWL_EINTERNAL, "cannot format text");
    }
    TRY(buffer_reserve(b, (size_t)n, err));
    va_start(arguments, format);
    vsnprintf((char *)b->data + b->size, (size_t)n + 1, format, arguments);
    va_end(arguments);
    b->size += (size_t)n;
    return PAWL_OK;
}

pawl_status buffer_decimal(buffer *b, int64_t v, pawl_error *err) {
    char digits[DECIMAL_DIGITS];
    TRY(buffer_append(b, "-", v < 0 ? 1 : 0, err));
    return buffer_append(b, digits, text_decimal(digits, v < 0 ? 0 - (uint64_t)v : (uint64_t)v),
                         err);
}

/* Can the character stand in a JSON string as it is? */
static bool needs_no_escape(char c) {
    return (c >= ' ') & (c < 0x7f) & (c != '"') & (c != '\\');
}

#define PLAIN_STRIDE 16 /* characters per step, which compilers turn into vectors */

static size_t plain_characters(const char *text, size_t n) {
    size_t at = 0;
    while (n - at >= PLAIN_STRIDE) {
        bool plain = true;
        for (size_t i = 0; i < PLAIN_STRIDE; i++) {
            plain &= needs_no_escape(text[at + i]);
        }
        if (!plain) {
            break;
        }
        at += PLAIN_STRIDE;
    }
    while (at < n && needs_no_escape(text[at])) {
        at++;
    }
    return at;
}

static pawl_status refuse_character(const char *text, size_t at, pawl_error *err) {
    error_set(err, PAWL_EUSAGE, "a text cannot be written: its byte %zu is wrong", at);
    error_expected(err, "UTF-8 without NUL");
    error_found(err, "the byte 0x%02x", (unsigned char)text[at]);
    error_next(err, "encode the text as UTF-8");
    return PAWL_EUSAGE;
}

/* `exactly`: a byte that is not UTF-8, and NUL, is refused, else replaced. */
static pawl_status put_json_string(buffer *b, const char *text, size_t n, bool exactly,
                                   pawl_error *err) {
    TRY(buffer_append(b, "\"", 1, err));
    size_t at = 0;
    while (at < n) {
        size_t plain = plain_characters(text + at, n - at);
        TRY(buffer_append(b, text + at, plain, err));
        at += plain;
        if (at == n) {
            break;
        }
        char escaped[JSON_CHARACTER_BYTES];
        size_t taken;
        if (exactly && (text[at] == '\0' || utf8_character(text + at, n - at) == 0)) {
            return refuse_character(text, at, err);
        }
        size_t length = json_character(escaped, text + at, n - at, &taken);
        TRY(buffer_append(b, escaped, length, err));
        at += taken;
    }
    return buffer_append(b, "\"", 1, err);
}

pawl_status buffer_json_string(buffer *b, const char *text, size_t n, pawl_error *err) {
    return put_json_string(b, text, n, true, err);
}

pawl_status buffer_json_shown(buffer *b, const char *text, size_t n, pawl_error *err) {
    return put_json_string(b, text, n, false, err);
}

pawl_status buffer_json_number(buffer *b, double v, pawl_error *err) {
    char text[DOUBLE_CHARS];
    size_t n = strlen(text_double(text, v));
    return isfinite(v) ? buffer_append(b, text, n, err) : buffer_json_string(b, text, n, err);
}

static void put_le(uint8_t *out, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(v >> (8 * i));
    }
}

pawl_status buffer_u32le(buffer *b, uint32_t v, pawl_error *err) {
    uint8_t bytes[4];
    put_le(bytes, v, 4);
    return buffer_append(b, bytes, sizeof(bytes), err);
}

pawl_status buffer_u64le(buffer *b, uint64_t v, pawl_error *err) {
    uint8_t bytes[8];
    put_le(bytes, v, 8);
    return buffer_append(b, bytes, sizeof(bytes), err);
}

pawl_status buffer_varint(buffer *b, uint64_t v, pawl_error *err) {
    uint8_t bytes[10];
    size_t n = 0;
    while (v >= 0x80) {
        bytes[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    bytes[n++] = (uint8_t)v;
    return buffer_append(b, bytes, n, err);
}

pawl_status buffer_varint_bytes(buffer *b, const void *data, size_t n, pawl_error *err) {
    TRY(buffer_varint(b, n, err));
    return buffer_append(b, data, n, err);
}

static pawl_status memory_read_at(void *context, uint64_t offset, void *to, size_t n,
                                  pawl_error *err) {
    const buffer *bytes = context;
    if (offset > bytes->size || n > bytes->size - offset) {
        pawl_status status = error_set(err, PAWL_EDAMAGED, "reading past the end");
        error_range(err, offset, n);
        error_expected(err, "%zu bytes at byte %llu", n, (unsigned long long)offset);
        error_found(err, "%zu bytes in all", bytes->size);
        return status;
    }
    if (n > 0) {
        memcpy(to, bytes->data + offset, n);
    }
    return PAWL_OK;
}

byte_source byte_source_memory(const buffer *bytes) {
    return (byte_source){.context = (void *)bytes, .size = bytes->size, .read_at = memory_read_at};
}

static pawl_status buffer_write(void *context, const void *data, size_t n, pawl_error *err) {
    return buffer_append(context, data, n, err);
}

byte_sink byte_sink_buffer(buffer *bytes) {
    return (byte_sink){.context = bytes, .write = buffer_write};
}
