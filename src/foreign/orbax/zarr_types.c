/* SPDX-License-Identifier: Apache-2.0 */
/* What both versions of zarr have: types of elements, shapes, fill values. */
#include "foreign/orbax/zarr.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct named_type {
    const char *name;
    const char *type; /* where there is no dtype, or there are two of it in an element */
    pawl_dtype dtype;
    uint8_t bytes, swap; /* of an element; of what is in another order where it is big-endian */
} named_type;

static const named_type types[] = {
    {"bool", NULL, PAWL_BOOL, 1, 1},
    {"int8", NULL, PAWL_I8, 1, 1},
    {"uint8", NULL, PAWL_U8, 1, 1},
    {"int16", NULL, PAWL_I16, 2, 2},
    {"uint16", NULL, PAWL_U16, 2, 2},
    {"int32", NULL, PAWL_I32, 4, 4},
    {"uint32", NULL, PAWL_U32, 4, 4},
    {"int64", NULL, PAWL_I64, 8, 8},
    {"uint64", NULL, PAWL_U64, 8, 8},
    {"float16", NULL, PAWL_F16, 2, 2},
    {"bfloat16", NULL, PAWL_BF16, 2, 2},
    {"float32", NULL, PAWL_F32, 4, 4},
    {"float64", NULL, PAWL_F64, 8, 8},
    {"complex64", NULL, PAWL_C64, 8, 4},
    {"complex128", "C128", PAWL_F64, 16, 8},
    {"float8_e5m2", NULL, PAWL_F8_E5M2, 1, 1},
    {"float8_e4m3fn", NULL, PAWL_F8_E4M3, 1, 1},
    {"float8_e8m0fnu", NULL, PAWL_F8_E8M0, 1, 1},
    {"float8_e4m3fnuz", NULL, PAWL_F8_E4M3FNUZ, 1, 1},
    {"float8_e5m2fnuz", NULL, PAWL_F8_E5M2FNUZ, 1, 1},
    {"float8_e4m3", "FLOAT8_E4M3", 0, 1, 1},
    {"float8_e3m4", "FLOAT8_E3M4", 0, 1, 1},
    {"float8_e4m3b11fnuz", "FLOAT8_E4M3B11FNUZ", 0, 1, 1},
    {"float4_e2m1fn", "FLOAT4_E2M1FN", 0, 1, 1},
    {"int4", "INT4", 0, 1, 1},
    {"int2", "INT2", 0, 1, 1},
    {"uint4", "UINT4", 0, 1, 1},
    {"uint2", "UINT2", 0, 1, 1},
    {"string", "STRING", 0, 1, 1},
};

void zarr_set_type(zarr_array *z, pawl_dtype dtype, const char *type, uint32_t element_bytes,
                   uint32_t swap_bytes) {
    z->dtype = dtype;
    z->element_bytes = element_bytes;
    z->swap_bytes = swap_bytes;
    snprintf(z->type, sizeof(z->type), "%s", type != NULL ? type : pawl_dtype_name(dtype));
}

bool zarr_is_paired(const zarr_array *z) {
    return z->dtype == PAWL_F64 && z->element_bytes == 16;
}

bool zarr_find_type(json_span name, zarr_array *z) {
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        const named_type *t = &types[i];
        if (json_is(name, t->name)) {
            zarr_set_type(z, t->dtype, t->type, t->bytes, t->swap);
            return true;
        }
    }
    return false;
}

/* ---- shapes ---- */

pawl_status zarr_read_shape(json_reader *r, int64_t shape[PAWL_MAX_NDIM], int *n, pawl_error *err) {
    bool more;
    uint64_t number;
    *n = 0;
    TRY(json_enter(r, '['));
    for (;;) {
        TRY(json_element(r, &more));
        if (!more) {
            return PAWL_OK;
        }
        if (*n == PAWL_MAX_NDIM) {
            error_set(err, PAWL_EUNSUPPORTED, "an array has too many dimensions");
            error_expected(err, "at most %d", PAWL_MAX_NDIM);
            return PAWL_EUNSUPPORTED;
        }
        TRY(json_u64(r, &number));
        if (number > (uint64_t)1 << 62) {
            error_set(err, PAWL_ELIMIT, "an array is too large");
            error_expected(err, "at most 2^62 elements");
            error_found(err, "%llu", (unsigned long long)number);
            return PAWL_ELIMIT;
        }
        shape[(*n)++] = (int64_t)number;
    }
}

/* ---- the fill value ---- */

static bool parse_number(json_span text, double *out) {
    static const struct {
        const char *name;
        double value;
    } names[] = {{"NaN", NAN}, {"Infinity", INFINITY}, {"-Infinity", -INFINITY}};
    if (text.n >= 2 && text.text[0] == '"') {
        json_span inner = {.text = text.text + 1, .n = text.n - 2};
        for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
            if (json_is(inner, names[i].name)) {
                *out = names[i].value;
                return true;
            }
        }
        return false;
    }
    return text.n > 0 && (text.text[0] == '-' || (text.text[0] >= '0' && text.text[0] <= '9')) &&
           json_number(text, out);
}

/* Of eight bits each number is tried. */
static bool find_small_float(pawl_dtype dtype, double value, uint8_t *out) {
    struct pawl_error ignored = ERROR_INIT;
    for (unsigned code = 0; code < 256; code++) {
        uint8_t byte = (uint8_t)code;
        double is;
        if (pawl_to_double(dtype, &byte, &is, 1, &ignored) != PAWL_OK) {
            return false;
        }
        if ((is == value && (signbit(is) != 0) == (signbit(value) != 0)) ||
            (isnan(is) && isnan(value))) {
            *out = byte;
            return true;
        }
    }
    return false;
}

static bool fill_float(pawl_dtype dtype, double value, uint8_t *out) {
    float single = (float)value;
    switch (dtype) {
    case PAWL_F64:
        memcpy(out, &value, sizeof(value));
        return true;
    case PAWL_F32:
        memcpy(out, &single, sizeof(single));
        return true;
    case PAWL_F16:
    case PAWL_BF16:
        (void)cast_elements(dtype, out, PAWL_F64, &value, 1);
        return true;
    default:
        return find_small_float(dtype, value, out);
    }
}

/* "0x7fc00000": the bits. */
static bool fill_bits(json_span text, uint32_t bytes, uint8_t *out) {
    uint64_t bits = 0;
    if (text.n != 4 + 2 * (size_t)bytes || bytes > 8 || memcmp(text.text, "\"0x", 3) != 0) {
        return false;
    }
    for (size_t i = 3; i + 1 < text.n; i++) {
        static const char digits[] = "0123456789abcdef";
        char c = text.text[i];
        const char *at = strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c);
        if (at == NULL || c == '\0') {
            return false;
        }
        bits = bits << 4 | (uint64_t)(at - digits);
    }
    for (uint32_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(bits >> (8 * i));
    }
    return true;
}

static bool fill_integer(json_span text, uint32_t bytes, bool is_signed, uint8_t *out) {
    bool minus = text.n > 0 && text.text[0] == '-';
    json_reader r = json_reader_of(text.text + minus, text.n - minus);
    uint64_t most = UINT64_MAX >> (64 - 8 * bytes + is_signed);
    uint64_t number;
    if ((minus && !is_signed) || json_u64(&r, &number) != PAWL_OK || r.at != r.n ||
        number > most + minus) {
        return false;
    }
    number = minus ? 0 - number : number;
    for (uint32_t i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(number >> (8 * i));
    }
    return true;
}

/* Two of the type. */
static bool fill_complex(json_span text, pawl_dtype dtype, uint8_t *out) {
    uint32_t each = (uint32_t)pawl_dtype_bits(dtype) / 8;
    json_reader r = json_reader_of(text.text, text.n);
    bool more = false;
    json_span part;
    double value;
    if (json_enter(&r, '[') != PAWL_OK) {
        return false;
    }
    for (int i = 0; i < 2; i++, out += each) {
        if (json_element(&r, &more) != PAWL_OK || !more || json_skip(&r, &part) != PAWL_OK ||
            !(fill_bits(part, each, out) ||
              (parse_number(part, &value) && fill_float(dtype, value, out)))) {
            return false;
        }
    }
    return json_element(&r, &more) == PAWL_OK && !more;
}

void zarr_set_fill(zarr_array *z, json_span value) {
    double number;
    memset(z->fill, 0, sizeof(z->fill));
    if (value.text == NULL || (value.n == 4 && memcmp(value.text, "null", 4) == 0)) {
        z->filled = true;
        return;
    }
    if (zarr_is_paired(z)) {
        z->filled = fill_complex(value, z->dtype, z->fill);
        return;
    }
    switch (z->dtype) {
    case PAWL_BOOL:
        z->fill[0] = value.text[0] == 't' || value.text[0] == '1';
        z->filled = strchr("tf01", value.text[0]) != NULL;
        return;
    case PAWL_I8:
    case PAWL_I16:
    case PAWL_I32:
    case PAWL_I64:
        z->filled = fill_integer(value, z->element_bytes, true, z->fill);
        return;
    case PAWL_U8:
    case PAWL_U16:
    case PAWL_U32:
    case PAWL_U64:
        z->filled = fill_integer(value, z->element_bytes, false, z->fill);
        return;
    case PAWL_C64:
        z->filled = fill_complex(value, PAWL_F32, z->fill);
        return;
    default:
        z->filled = dtype_valid(z->dtype) &&
                    (fill_bits(value, z->element_bytes, z->fill) ||
                     (parse_number(value, &number) && fill_float(z->dtype, number, z->fill)));
        return;
    }
}

/* ---- all of it ---- */

static bool is_row_major(const zarr_codecs *c, int ndim) {
    for (int d = 0; c->ordered && d < ndim; d++) {
        if (c->order[d] != d) {
            return false;
        }
    }
    return true;
}

static pawl_status check_chunk(const zarr_array *z, pawl_error *err) {
    for (int d = 0; d < z->ndim; d++) {
        if (z->chunk[d] < 1 || z->shard[d] < 1) {
            error_set(err, PAWL_EDAMAGED, "the chunks of an array are empty");
            error_expected(err, "at least 1 element in dimension %d", d);
            error_found(err, "%lld", (long long)z->chunk[d]);
            return PAWL_EDAMAGED;
        }
    }
    return PAWL_OK;
}

/* All chunks of all shards, those behind the end, too. */
static pawl_status find_grid(zarr_array *z, pawl_error *err) {
    bool fits = !multiply_overflows(z->chunk_bytes, z->shard_chunks, &z->stream_bytes);
    z->shards = 1;
    for (int d = 0; fits && d < z->ndim; d++) {
        uint64_t all = (uint64_t)(z->chunk[d] * z->shard[d]);
        z->grid[d] = (int64_t)(((uint64_t)z->shape[d] + all - 1) / all);
        z->shards *= (uint64_t)z->grid[d]; /* no more than the bytes */
        fits = !multiply_overflows(z->stream_bytes, (uint64_t)z->grid[d], &z->stream_bytes) &&
               z->stream_bytes <= (uint64_t)1 << 62;
    }
    if (!fits) {
        error_set(err, PAWL_ELIMIT, "the chunks of an array are too large together");
        error_expected(err, "at most 2^62 bytes");
        return PAWL_ELIMIT;
    }
    return PAWL_OK;
}

pawl_status zarr_finish(zarr_array *z, pawl_error *err) {
    TRY(check_chunk(z, err));
    if (zarr_is_paired(z) && z->ndim == PAWL_MAX_NDIM) {
        z->dtype = 0; /* it would have one dimension too many */
    }
    z->codecs.ordered = !is_row_major(&z->codecs, z->ndim);
    z->codecs.swapped = z->codecs.swapped && z->swap_bytes > 1;
    z->chunk_bytes = z->element_bytes;
    z->shard_chunks = 1;
    for (int d = 0; d < z->ndim; d++) {
        if (multiply_overflows(z->chunk_bytes, (uint64_t)z->chunk[d], &z->chunk_bytes) ||
            multiply_overflows(z->shard_chunks, (uint64_t)z->shard[d], &z->shard_chunks) ||
            z->chunk_bytes > (uint64_t)1 << 62 || z->shard_chunks > (uint64_t)1 << 62) {
            error_set(err, PAWL_ELIMIT, "the chunks of an array are too large");
            error_expected(err, "at most 2^62 bytes");
            return PAWL_ELIMIT;
        }
    }
    if (z->unread == NULL && z->dtype != 0 && (z->codecs.ordered || z->codecs.swapped) &&
        z->chunk_bytes > FOREIGN_MAX_ZARR_CHUNK) {
        z->unread = z->codecs.ordered ? "large, not row-major" : "large, big-endian";
    }
    if (z->sharded && z->shard_chunks > FOREIGN_MAX_ZARR_INDEX / 16) {
        error_set(err, PAWL_ELIMIT, "a shard of an array has too many chunks");
        error_expected(err, "at most %u", FOREIGN_MAX_ZARR_INDEX / 16);
        error_found(err, "%llu", (unsigned long long)z->shard_chunks);
        return PAWL_ELIMIT;
    }
    return find_grid(z, err);
}
