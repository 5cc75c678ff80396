/* SPDX-License-Identifier: Apache-2.0 */
/* The .zarray of an array of zarr's version 2. */
#include "foreign/orbax/zarr.h"

#include <string.h>

/* "<f4", "|b1": how the bytes are ordered, what it is, how many bytes. */
static bool set_numpy_type(json_span name, zarr_array *z) {
    static const struct {
        const char *name;
        const char *type;
    } kinds[] = {
        {"b1", "bool"},      {"i1", "int8"},        {"u1", "uint8"},   {"i2", "int16"},
        {"u2", "uint16"},    {"i4", "int32"},       {"u4", "uint32"},  {"i8", "int64"},
        {"u8", "uint64"},    {"f2", "float16"},     {"f4", "float32"}, {"f8", "float64"},
        {"c8", "complex64"}, {"c16", "complex128"},
    };
    if (name.n < 3 || strchr("<>|", name.text[0]) == NULL) {
        return false;
    }
    json_span kind = {.text = name.text + 1, .n = name.n - 1};
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        if (json_is(kind, kinds[i].name)) {
            z->codecs.swapped = name.text[0] == '>';
            return zarr_find_type((json_span){.text = kinds[i].type, .n = strlen(kinds[i].type)},
                                  z);
        }
    }
    return false;
}

/* Types whose values are not read. */
static void set_other_type(json_span value, zarr_array *z) {
    char kind = '\0';
    if (value.n > 3) {
        kind = value.text[2];
    }
    const char *type = value.n > 0 && value.text[0] == '[' ? "STRUCT"
                       : kind == 'S' || kind == 'V'        ? "BYTES"
                       : kind == 'U'                       ? "UNICODE"
                       : kind == 'M' || kind == 'm'        ? "TIME"
                       : kind == 'O'                       ? "OBJECT"
                                                           : "OTHER";
    zarr_set_type(z, 0, type, 1, 1);
}

static void set_type(json_span value, zarr_array *z) {
    json_span name = {.text = value.text + 1, .n = value.n >= 2 ? value.n - 2 : 0};
    bool text = value.n >= 2 && value.text[0] == '"';
    if (!text || (!set_numpy_type(name, z) && !zarr_find_type(name, z))) {
        set_other_type(value, z);
    }
}

static bool is_null(json_span value) {
    return value.text == NULL || (value.n == 4 && memcmp(value.text, "null", 4) == 0);
}

static pawl_status set_compressor(json_span value, zarr_array *z, pawl_error *err) {
    json_span id = {0};
    json_field fields[] = {{.key = "id", .to = &id, .type = FIELD_STRING}};
    if (is_null(value)) {
        return PAWL_OK;
    }
    if (!json_fields(value.text, value.n, fields, ARRAY_LENGTH(fields)) ||
        fields[0].found != FIELD_FOUND) {
        return error_set(err, PAWL_EDAMAGED, "the compressor of an array has no id");
    }
    if (json_is(id, "zstd")) {
        z->codecs.packing = ZARR_ZSTD;
    } else if (json_is(id, "gzip")) {
        z->codecs.packing = ZARR_GZIP;
    } else if (json_is(id, "zlib")) {
        z->codecs.packing = ZARR_ZLIB;
    } else {
        z->unread = json_is(id, "blosc") ? "blosc" : "compressed";
    }
    return PAWL_OK;
}

static pawl_status set_order(json_span order, zarr_array *z, pawl_error *err) {
    if (json_is(order, "F")) {
        z->codecs.ordered = true;
        for (int d = 0; d < z->ndim; d++) {
            z->codecs.order[d] = z->ndim - 1 - d;
        }
        return PAWL_OK;
    }
    return json_is(order, "C")
               ? PAWL_OK
               : error_set(err, PAWL_EDAMAGED, "the order of an array is neither C nor F");
}

static pawl_status set_shapes(json_span shape, json_span chunks, zarr_array *z, pawl_error *err) {
    int n;
    json_reader r = json_reader_for(shape.text, shape.n, 0, "shape of an array", err);
    json_reader c = json_reader_for(chunks.text, chunks.n, 0, "chunks of an array", err);
    TRY(zarr_read_shape(&r, z->shape, &z->ndim, err));
    TRY(zarr_read_shape(&c, z->chunk, &n, err));
    if (n != z->ndim) {
        error_set(err, PAWL_EDAMAGED, "the chunks of an array have other dimensions");
        error_expected(err, "%d", z->ndim);
        error_found(err, "%d", n);
        return PAWL_EDAMAGED;
    }
    for (int d = 0; d < n; d++) {
        z->shard[d] = 1;
    }
    return PAWL_OK;
}

static pawl_status is_incomplete(const json_field *fields, size_t count, pawl_error *err) {
    for (size_t i = 0; i < count; i++) {
        if (fields[i].found != FIELD_FOUND) {
            error_set(err, PAWL_EDAMAGED, "what describes an array lacks a member");
            error_expected(err, "%s", fields[i].key);
            return PAWL_EDAMAGED;
        }
    }
    return PAWL_OK;
}

pawl_status zarr_read_v2(const void *text, size_t n, zarr_array *z, pawl_error *err) {
    uint64_t format = 0;
    json_span shape = {0}, chunks = {0}, type = {0}, compressor = {0}, fill = {0};
    json_span filters = {0}, order = {0}, separator = {0};
    json_field fields[] = {
        {.key = "zarr_format", .to = &format, .type = FIELD_COUNT},
        {.key = "shape", .to = &shape, .type = FIELD_ANY},
        {.key = "chunks", .to = &chunks, .type = FIELD_ANY},
        {.key = "dtype", .to = &type, .type = FIELD_ANY},
        {.key = "order", .to = &order, .type = FIELD_STRING},
        {.key = "compressor", .to = &compressor, .type = FIELD_ANY},
        {.key = "fill_value", .to = &fill, .type = FIELD_ANY},
        {.key = "filters", .to = &filters, .type = FIELD_ANY},
        {.key = "dimension_separator", .to = &separator, .type = FIELD_STRING},
    };
    *z = (zarr_array){.separator = '.'};
    TRY(json_check(text, n, "description of an array", err));
    if (!json_fields(text, n, fields, ARRAY_LENGTH(fields))) {
        return error_set(err, PAWL_EDAMAGED, "what describes an array has members twice");
    }
    TRY(is_incomplete(fields, 5, err));
    if (format != 2) {
        error_set(err, PAWL_EUNSUPPORTED, "an array is of a version of zarr that is not read");
        error_expected(err, "2");
        error_found(err, "%llu", (unsigned long long)format);
        return PAWL_EUNSUPPORTED;
    }
    TRY(set_shapes(shape, chunks, z, err));
    set_type(type, z);
    TRY(set_compressor(compressor, z, err));
    TRY(set_order(order, z, err));
    if (!is_null(filters) && !(filters.n == 2 && memcmp(filters.text, "[]", 2) == 0)) {
        z->unread = "filtered";
    }
    z->separator = json_is(separator, "/") ? '/' : '.';
    zarr_set_fill(z, fill);
    return zarr_finish(z, err);
}
