/* SPDX-License-Identifier: Apache-2.0 */
/* The library's side of the JSON reader: its refusals as errors, its strings in buffers. */
#include "base/json.h"

static void refused_byte(const json_reader *r, pawl_error *err) {
    unsigned char byte = r->at < r->n ? (unsigned char)r->text[r->at] : 0;
    if (r->at >= r->n) {
        error_found(err, "the end of the text");
    } else if (byte > ' ' && byte < 0x7f) {
        error_found(err, "'%c'", byte);
    } else {
        error_found(err, "the byte 0x%02x", byte);
    }
}

static pawl_status refused(const json_reader *r, pawl_status status, const char *expected,
                           const char *found) {
    pawl_error *err = r->told;
    uint64_t position = r->base + r->at;
    if (status == PAWL_ELIMIT) {
        return error_set(err, status,
                         "the JSON of the %s is nested deeper than %d objects and lists at byte "
                         "%llu",
                         r->what, r->max_depth, (unsigned long long)position);
    }
    error_set(err, status, "the JSON of the %s is wrong at byte %llu", r->what,
              (unsigned long long)position);
    error_expected(err, "%s", expected);
    error_range(err, position, 1);
    if (found == NULL) {
        refused_byte(r, err);
        return status;
    }
    error_found(err, "%s", found);
    error_next(err,
               "JSON has no %s (RFC 8259): write null or a text such as \"%s\"; a value of its "
               "own can be set as a float64, which keeps it",
               found, found);
    return status;
}

json_reader json_reader_for(const void *text, size_t n, uint64_t base, const char *what,
                            pawl_error *err) {
    json_reader r = json_reader_of(text, n);
    r.refused = refused;
    r.told = err;
    r.base = base;
    r.what = what;
    return r;
}

uint64_t json_position(json_reader *r) {
    (void)json_peek(r);
    return r->base + r->at;
}

static pawl_status decode_into(json_span string, buffer *out, pawl_error *err) {
    out->size = 0;
    TRY(buffer_reserve(out, string.n, err));
    out->size = json_decode(string, (char *)out->data, string.n);
    out->data[out->size] = 0;
    return PAWL_OK;
}

pawl_status json_key(json_reader *r, buffer *key, bool *more, pawl_error *err) {
    json_span string = {NULL, 0};
    TRY(json_member(r, &string, more));
    return *more ? decode_into(string, key, err) : PAWL_OK;
}

pawl_status json_text(json_reader *r, buffer *out, pawl_error *err) {
    json_span string = {NULL, 0};
    TRY(json_string(r, &string));
    return decode_into(string, out, err);
}

pawl_status json_check(const void *text, size_t n, const char *what, pawl_error *err) {
    json_reader r = json_reader_for(text, n, 0, what, err);
    r.max_depth = PAWL_MAX_JSON_DEPTH;
    TRY(json_skip(&r, NULL));
    return json_end(&r);
}
