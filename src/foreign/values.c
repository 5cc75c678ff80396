/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a checkpoint as one text of JSON, in a file of a tool that has no place for them. */
#include "base/json.h"
#include "foreign/archive.h"
#include "foreign/base64.h"
#include "foreign/writer.h"

#include <math.h>
#include <string.h>

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
        return base64_put(out, item->value, item->value_bytes, err);
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
        return json_string(&r, &text) == PAWL_OK && base64_take(text, out, n);
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
