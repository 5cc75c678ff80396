/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a checkpoint as one text of JSON, in a file of a tool that has no place for them. */
#include "base/json.h"
#include "foreign/archive.h"
#include "foreign/writer.h"

#include <math.h>
#include <string.h>

static pawl_status put_base64(buffer *out, const uint8_t *bytes, size_t n, pawl_error *err) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    TRY(buffer_append(out, "\"", 1, err));
    for (size_t i = 0; i < n; i += 3) {
        uint32_t left = n - i < 3 ? (uint32_t)(n - i) : 3;
        uint32_t v = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                     (left > 2 ? (uint32_t)bytes[i + 2] : 0);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63u], '=', '='};
        if (left > 1) {
            four[2] = digits[v >> 6 & 63u];
        }
        if (left > 2) {
            four[3] = digits[v & 63u];
        }
        TRY(buffer_append(out, four, sizeof(four), err));
    }
    return buffer_append(out, "\"", 1, err);
}

static pawl_status put_value(buffer *out, const writer_item *item, pawl_error *err) {
    int64_t integer;
    double number;
    switch (item->kind) {
    case PAWL_KIND_BOOL:
        return buffer_printf(out, err, item->value[0] != 0 ? "true" : "false");
    case PAWL_KIND_INT64:
        memcpy(&integer, item->value, sizeof(integer));
        return buffer_decimal(out, integer, err);
    case PAWL_KIND_FLOAT64:
        memcpy(&number, item->value, sizeof(number));
        return buffer_json_number(out, number, err);
    case PAWL_KIND_STRING:
        return buffer_json_string(out, (const char *)item->value, item->value_bytes, err);
    case PAWL_KIND_JSON:
        return buffer_append(out, item->value, item->value_bytes, err);
    default:
        return put_base64(out, item->value, item->value_bytes, err);
    }
}

pawl_status writer_values(const writer_item *items, size_t count, buffer *json, pawl_error *err) {
    size_t begin = json->size;
    for (size_t i = 0; i < count; i++) {
        const writer_item *item = &items[i];
        if (item->kind == PAWL_KIND_TENSOR) {
            continue;
        }
        TRY(buffer_append(json, json->size == begin ? "{" : ", ", json->size == begin ? 1 : 2,
                          err));
        TRY(buffer_json_string(json, item->name, strlen(item->name), err));
        TRY(buffer_printf(json, err,
                          ": {\"kind\": \"%s\", \"value\": ", pawl_kind_name(item->kind)));
        TRY(put_value(json, item, err));
        TRY(buffer_append(json, "}", 1, err));
    }
    return json->size > begin ? buffer_append(json, "}", 1, err) : PAWL_OK;
}

/* ---- reading them --------------------------------------------------------------------------- */

static int digit_of(char c) {
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* False: it is no base64. */
static bool take_base64(json_span text, uint8_t *out, size_t *n) {
    size_t padding = 0;
    *n = 0;
    if (text.n % 4 != 0) {
        return false;
    }
    while (padding < 2 && padding < text.n && text.text[text.n - 1 - padding] == '=') {
        padding++;
    }
    for (size_t i = 0; i < text.n; i += 4) {
        uint32_t v = 0;
        size_t digits = i + 4 < text.n ? 4 : 4 - padding;
        for (size_t k = 0; k < 4; k++) {
            int digit = k < digits ? digit_of(text.text[i + k]) : 0;
            if (digit < 0) {
                return false;
            }
            v = v << 6 | (uint32_t)digit;
        }
        for (size_t k = 0; k + 1 < digits; k++) {
            out[(*n)++] = (uint8_t)(v >> (16 - 8 * k));
        }
    }
    return true;
}

/* A number, or a text for what JSON has no number for. */
static bool take_number(json_span span, double *out) {
    json_reader r = json_reader_of(span.text, span.n);
    json_span text;
    if (json_peek(&r) != '"') {
        return json_number(span, out);
    }
    if (json_string(&r, &text) != PAWL_OK) {
        return false;
    }
    *out = json_is(text, "inf")    ? (double)INFINITY
           : json_is(text, "-inf") ? (double)-INFINITY
                                   : (double)NAN;
    return isinf(*out) || json_is(text, "nan") || json_is(text, "-nan");
}

/* A value in the JSON's form, as bytes. `out` has room for span.n + 8 of them. */
static bool take_value(pawl_kind kind, json_span span, uint8_t *out, size_t *n) {
    json_reader r = json_reader_of(span.text, span.n);
    json_span text;
    bool truth;
    int64_t integer;
    double number;
    switch (kind) {
    case PAWL_KIND_BOOL:
        *n = 1;
        return json_bool(&r, &truth) == PAWL_OK && ((out[0] = truth ? 1 : 0), true);
    case PAWL_KIND_INT64:
        *n = sizeof(integer);
        return json_i64(&r, &integer) == PAWL_OK && (memcpy(out, &integer, *n), true);
    case PAWL_KIND_FLOAT64:
        *n = sizeof(number);
        return take_number(span, &number) && (memcpy(out, &number, *n), true);
    case PAWL_KIND_STRING:
        return json_string(&r, &text) == PAWL_OK &&
               ((*n = json_decode(text, (char *)out, span.n)), true);
    case PAWL_KIND_BYTES:
        return json_string(&r, &text) == PAWL_OK && take_base64(text, out, n);
    case PAWL_KIND_JSON:
        *n = span.n;
        memcpy(out, span.text, span.n);
        return true;
    default:
        return false;
    }
}

static pawl_status refuse_values(const char *name, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the values that pawl put into a file are not as it writes them");
    if (name != NULL) {
        error_entry(err, name);
    }
    return PAWL_EDAMAGED;
}

static pawl_status add_one(archive *a, const char *name, json_span span, pawl_error *err) {
    json_span kind_name = {0};
    json_span value = {0};
    json_field fields[] = {{.key = "kind", .to = &kind_name, .type = FIELD_STRING},
                           {.key = "value", .to = &value, .type = FIELD_ANY}};
    char word[16];
    pawl_kind kind;
    size_t n = 0;
    if (!json_fields(span.text, span.n, fields, ARRAY_LENGTH(fields)) ||
        fields[0].found != FIELD_FOUND || fields[1].found != FIELD_FOUND ||
        kind_name.n >= sizeof(word)) {
        return refuse_values(name, err);
    }
    memcpy(word, kind_name.text, kind_name.n);
    word[kind_name.n] = '\0';
    AUTOFREE uint8_t *bytes = mem_alloc(value.n + 8);
    if (bytes == NULL) {
        return error_nomem(err, value.n + 8);
    }
    if (!kind_from_name(word, &kind) || !take_value(kind, value, bytes, &n)) {
        return refuse_values(name, err);
    }
    return archive_add_value(a, name, PAWL_ROLE_OTHER, kind, bytes, n, err);
}

pawl_status archive_add_values(archive *a, const char *json, size_t n, pawl_error *err) {
    json_reader r = json_reader_of(json, n);
    if (json_enter(&r, '{') != PAWL_OK) {
        return refuse_values(NULL, err);
    }
    for (;;) {
        char name[PAWL_MAX_NAME_BYTES + 1];
        json_span key, value;
        bool more = false;
        if (json_member(&r, &key, &more) != PAWL_OK) {
            return refuse_values(NULL, err);
        }
        if (!more) {
            break;
        }
        size_t length = json_decode(key, name, PAWL_MAX_NAME_BYTES);
        if (length > PAWL_MAX_NAME_BYTES || json_skip(&r, &value) != PAWL_OK) {
            return refuse_values(NULL, err);
        }
        name[length] = '\0';
        TRY(add_one(a, name, value, err));
    }
    return json_end(&r) == PAWL_OK ? PAWL_OK : refuse_values(NULL, err);
}
