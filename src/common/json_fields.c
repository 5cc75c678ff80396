/* SPDX-License-Identifier: Apache-2.0 */
/* Reads those members of a JSON object that the caller lists, in any order. */
#include "common/json.h"

#include <string.h>

static bool is_number(uint8_t byte) {
    return byte == '-' || (byte >= '0' && byte <= '9');
}

/* Passes over a number that is no integer. False: it is one, of more than 64 bits. */
static bool skip_real(json_reader *r, json_field *f) {
    json_span number;
    f->found = FIELD_OTHER_TYPE;
    return json_skip(r, &number) == PAWL_OK && (memchr(number.text, '.', number.n) != NULL ||
                                                memchr(number.text, 'e', number.n) != NULL ||
                                                memchr(number.text, 'E', number.n) != NULL);
}

static bool read_integer(json_reader *r, json_field *f) {
    size_t begin = r->at;
    int64_t value = 0;
    if (json_i64(r, &value) != PAWL_OK) {
        r->at = begin;
        return skip_real(r, f);
    }
    if (f->type == FIELD_COUNT && value < 0) {
        f->found = FIELD_OTHER_TYPE;
    } else {
        memcpy(f->to, &value, sizeof value);
    }
    return true;
}

static bool read_number(json_reader *r, json_field *f) {
    json_span number;
    return json_skip(r, &number) == PAWL_OK && json_number(number, f->to);
}

static bool read_object(json_reader *r, const char *object, json_field *fields, size_t count);

static bool read_field(json_reader *r, json_field *f, json_field *fields, size_t count) {
    uint8_t byte = json_peek(r);
    if (f->found != FIELD_ABSENT) {
        return false; /* it is there twice */
    }
    f->found = FIELD_FOUND;
    if (f->type == FIELD_ANY) {
        r->round = false; /* its numbers are the caller's */
        bool good = json_skip(r, f->to) == PAWL_OK;
        r->round = true;
        return good;
    }
    if (f->type == FIELD_OBJECT && byte == '{') {
        return read_object(r, f->key, fields, count);
    }
    if (f->type == FIELD_STRING && byte == '"') {
        return json_string(r, f->to) == PAWL_OK;
    }
    if (f->type == FIELD_NUMBER && is_number(byte)) {
        return read_number(r, f);
    }
    if ((f->type == FIELD_INTEGER || f->type == FIELD_COUNT) && is_number(byte)) {
        return read_integer(r, f);
    }
    f->found = FIELD_OTHER_TYPE;
    return json_skip(r, NULL) == PAWL_OK;
}

static json_field *field_of(json_field *fields, size_t count, const char *object, json_span key) {
    for (size_t i = 0; i < count; i++) {
        bool here = object == NULL || fields[i].object == NULL
                        ? object == fields[i].object
                        : strcmp(object, fields[i].object) == 0;
        if (here && json_is(key, fields[i].key)) {
            return &fields[i];
        }
    }
    return NULL;
}

/* Recursive, as deep as fields that are objects are nested. */
static bool read_object(json_reader *r, const char *object, json_field *fields, size_t count) {
    json_span key;
    bool more = true;
    bool good = json_enter(r, '{') == PAWL_OK;
    while (good && more) {
        good = json_member(r, &key, &more) == PAWL_OK;
        if (good && more) {
            json_field *f = field_of(fields, count, object, key);
            good = f != NULL ? read_field(r, f, fields, count) : json_skip(r, NULL) == PAWL_OK;
        }
    }
    return good;
}

bool json_fields(const char *text, size_t n, json_field *fields, size_t count) {
    json_reader r = json_reader_of(text, n);
    r.round = true;
    for (size_t i = 0; i < count; i++) {
        fields[i].found = FIELD_ABSENT;
    }
    return read_object(&r, NULL, fields, count) && json_end(&r) == PAWL_OK;
}
