/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the headers of GGUF files.
 *
 * Tensors lie one behind the other, each padded to the alignment, in the order of the header: that
 * is what the reference reader asks for, and then none overlaps another.
 */
#include "foreign/gguf/gguf.h"
#include "foreign/gguf/scan.h"
#include "foreign/gguf/types.h"

#include <stdio.h>
#include <string.h>

#define MAX_KEY       65535u
#define MAX_DIMS      4u
#define LEAST_VERSION 2u
#define LAST_VERSION  3u

/* A file, while its header is read. */
typedef struct reading {
    archive *a;
    uint32_t file;
    bool metadata; /* of the first file alone */
    uint64_t tensor_count, value_count;
    uint64_t alignment;
    buffer key, text, json;
    scan scan;
} reading;

bool gguf_looks_like(const uint8_t *head, size_t n) {
    return n >= 4 && memcmp(head, "GGUF", 4) == 0;
}

static pawl_status refuse(const reading *r, pawl_status status, uint64_t at, const char *what,
                          pawl_error *err) {
    error_set(err, status, "the header is wrong at byte %llu: %s", (unsigned long long)at, what);
    error_range(err, at, 1);
    if (r->key.size > 0) {
        error_entry(err, (const char *)r->key.data);
    }
    return status;
}

/* ---- metadata ------------------------------------------------------------------------------- */

static uint64_t little_endian(const uint8_t *bytes, size_t n) {
    uint64_t v = 0;
    for (size_t i = n; i > 0; i--) {
        v = v << 8 | bytes[i - 1];
    }
    return v;
}

static int64_t sign_extended(uint64_t v, size_t bytes) {
    unsigned shift = bytes > 0 && bytes < 8 ? 64u - 8u * (unsigned)bytes : 0;
    return (int64_t)(v << shift) >> shift;
}

/* "metadata/" and the key, in the archive's memory. */
static pawl_status name_of_key(const reading *r, const char **out, pawl_error *err) {
    const char *key;
    TRY(archive_escape_name(r->a, (const char *)r->key.data, r->key.size, &key, err));
    *out = arena_printf(&r->a->base.memory, "metadata/%s", key);
    return *out != NULL ? PAWL_OK : error_nomem(err, r->key.size);
}

static pawl_status add_value(const reading *r, pawl_kind kind, const void *bytes, size_t n,
                             pawl_error *err) {
    const char *name;
    if (!r->metadata) {
        return PAWL_OK;
    }
    TRY(name_of_key(r, &name, err));
    return archive_add_value(r->a, name, PAWL_ROLE_OTHER, kind, bytes, n, err);
}

static pawl_status add_float(const reading *r, const uint8_t *bytes, size_t n, pawl_error *err) {
    double v = 0;
    float single = 0;
    if (n == sizeof(single)) {
        memcpy(&single, bytes, n);
        v = (double)single;
    } else {
        memcpy(&v, bytes, sizeof(v));
    }
    return add_value(r, PAWL_KIND_FLOAT64, &v, sizeof(v), err);
}

static pawl_status add_number(reading *r, uint32_t type, pawl_error *err) {
    pawl_dtype dtype = gguf_value_dtype(type);
    size_t n = (size_t)pawl_dtype_bits(dtype) / 8;
    uint64_t at = r->scan.at;
    const uint8_t *bytes = NULL;
    TRY(scan_bytes(&r->scan, n, &bytes, err));
    uint64_t v = little_endian(bytes, n);
    if (type == GGUF_F32 || type == GGUF_F64) {
        return add_float(r, bytes, n, err);
    }
    if (type == GGUF_BOOL) {
        return v <= 1 ? add_value(r, PAWL_KIND_BOOL, bytes, 1, err)
                      : refuse(r, PAWL_EDAMAGED, at, "a value is neither true nor false", err);
    }
    if (r->key.size == strlen("general.alignment") && type == GGUF_U32 &&
        strcmp((const char *)r->key.data, "general.alignment") == 0) {
        r->alignment = v;
    }
    if (type == GGUF_U64 && v > INT64_MAX) {
        char text[DECIMAL_DIGITS + 1];
        int digits = snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
        return add_value(r, PAWL_KIND_JSON, text, (size_t)digits, err);
    }
    bool is_signed = type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32 || type == GGUF_I64;
    int64_t number = is_signed ? sign_extended(v, n) : (int64_t)v;
    return add_value(r, PAWL_KIND_INT64, &number, sizeof(number), err);
}

static pawl_status add_text(reading *r, pawl_error *err) {
    uint64_t at = r->scan.at;
    TRY(scan_text(&r->scan, ARCHIVE_VALUE_BYTES, &r->text, err));
    const char *text = (const char *)r->text.data;
    size_t n = r->text.size;
    if (!utf8_valid(text, n) || memchr(text, 0, n) != NULL) {
        return refuse(r, PAWL_EDAMAGED, at, "a text is not UTF-8 without NUL", err);
    }
    return add_value(r, PAWL_KIND_STRING, text, n, err);
}

/* Where it is as large as a header may be, it is none. */
static pawl_status add_array_in_place(reading *r, pawl_dtype dtype, const char *type, uint64_t at,
                                      uint64_t bytes, uint64_t count, pawl_error *err) {
    const archive_part part = {.stream = r->file, .offset = at, .bytes = bytes};
    const int64_t shape[] = {(int64_t)count};
    archive_tensor tensor = {.dtype = dtype,
                             .type = type,
                             .ndim = 1,
                             .shape = shape,
                             .role = PAWL_ROLE_OTHER,
                             .parts = &part,
                             .part_count = 1};
    if (!r->metadata) {
        return PAWL_OK;
    }
    TRY(name_of_key(r, &tensor.name, err));
    return archive_add_tensor(r->a, &tensor, err);
}

static pawl_status add_texts(reading *r, uint64_t count, pawl_error *err) {
    uint64_t at = r->scan.at;
    bool fits = true;
    r->json.size = 0;
    TRY(buffer_append(&r->json, "[", 1, err));
    for (uint64_t i = 0; i < count; i++) {
        TRY(scan_text(&r->scan, ARCHIVE_VALUE_BYTES, &r->text, err));
        const char *text = (const char *)r->text.data;
        fits = fits && r->metadata && r->json.size + r->text.size < ARCHIVE_VALUE_BYTES &&
               utf8_valid(text, r->text.size) && memchr(text, 0, r->text.size) == NULL;
        if (fits) {
            TRY(buffer_append(&r->json, ",", i > 0 ? 1 : 0, err));
            TRY(buffer_json_string(&r->json, text, r->text.size, err));
        }
    }
    TRY(buffer_append(&r->json, "]", 1, err));
    return fits && r->json.size <= ARCHIVE_VALUE_BYTES
               ? add_value(r, PAWL_KIND_JSON, r->json.data, r->json.size, err)
               : add_array_in_place(r, 0, "STRING", at, r->scan.at - at, count, err);
}

static pawl_status add_array(reading *r, pawl_error *err) {
    uint64_t at = r->scan.at;
    uint32_t type;
    uint64_t count, bytes;
    TRY(scan_u32(&r->scan, &type, err));
    TRY(scan_u64(&r->scan, &count, err));
    if (type == GGUF_STRING) { /* each has 8 bytes at least, so that the count is bounded */
        return count <= r->scan.in.size / 8
                   ? add_texts(r, count, err)
                   : refuse(r, PAWL_EDAMAGED, at, "an array has more texts than bytes", err);
    }
    pawl_dtype dtype = gguf_value_dtype(type);
    if (dtype == 0) {
        return refuse(r, type == GGUF_ARRAY ? PAWL_EUNSUPPORTED : PAWL_EDAMAGED, at,
                      type == GGUF_ARRAY ? "arrays of arrays are not read"
                                         : "an array has elements of an unknown type",
                      err);
    }
    uint64_t begin = r->scan.at;
    if (multiply_overflows(count, (uint64_t)pawl_dtype_bits(dtype) / 8, &bytes)) {
        return refuse(r, PAWL_EDAMAGED, at, "an array is larger than any file", err);
    }
    TRY(scan_skip(&r->scan, bytes, err));
    return add_array_in_place(r, dtype, NULL, begin, bytes, count, err);
}

static pawl_status read_value(reading *r, pawl_error *err) {
    uint32_t type;
    TRY(scan_text(&r->scan, MAX_KEY, &r->key, err));
    uint64_t at = r->scan.at;
    TRY(scan_u32(&r->scan, &type, err));
    if (type == GGUF_STRING) {
        return add_text(r, err);
    }
    if (type == GGUF_ARRAY) {
        return add_array(r, err);
    }
    return gguf_value_dtype(type) != 0
               ? add_number(r, type, err)
               : refuse(r, PAWL_EDAMAGED, at, "a value has an unknown type", err);
}

/* ---- tensors -------------------------------------------------------------------------------- */

typedef struct tensor_info {
    const char *name;
    const gguf_type *type;
    int ndim;
    int64_t shape[MAX_DIMS];
    uint64_t at;     /* of what says where it is */
    uint64_t offset; /* of its bytes, from the beginning of all tensors */
    uint64_t bytes;
} tensor_info;

static pawl_status read_shape(reading *r, tensor_info *t, pawl_error *err) {
    uint32_t ndim;
    uint64_t at = r->scan.at;
    uint64_t elements = 1;
    TRY(scan_u32(&r->scan, &ndim, err));
    if (ndim > MAX_DIMS) {
        return refuse(r, PAWL_EDAMAGED, at, "a tensor has more than 4 dimensions", err);
    }
    t->ndim = (int)ndim;
    for (uint32_t d = 0; d < ndim; d++) { /* the fastest comes first */
        uint64_t length;
        TRY(scan_u64(&r->scan, &length, err));
        if (length > INT64_MAX || multiply_overflows(elements, length, &elements) ||
            elements > INT64_MAX) {
            return refuse(r, PAWL_EDAMAGED, at, "a tensor is larger than any file", err);
        }
        t->shape[ndim - 1 - d] = (int64_t)length;
    }
    t->bytes = elements; /* until its type is known */
    return PAWL_OK;
}

static pawl_status read_tensor(reading *r, tensor_info *t, pawl_error *err) {
    uint32_t type;
    TRY(scan_text(&r->scan, MAX_KEY, &r->key, err));
    TRY(archive_escape_name(r->a, (const char *)r->key.data, r->key.size, &t->name, err));
    TRY(read_shape(r, t, err));
    uint64_t at = r->scan.at;
    TRY(scan_u32(&r->scan, &type, err));
    t->type = gguf_type_of(type);
    if (t->type == NULL) {
        (void)refuse(r, PAWL_EUNSUPPORTED, at, "a tensor has a type that pawl does not know", err);
        error_found(err, "type %u", type);
        return PAWL_EUNSUPPORTED;
    }
    uint64_t row = t->ndim > 0 ? (uint64_t)t->shape[t->ndim - 1] : 1;
    uint64_t row_bytes; /* other dimensions may be 0 */
    if (row % t->type->elements != 0) {
        return refuse(r, PAWL_EDAMAGED, at, "the rows of a tensor are no whole blocks", err);
    }
    if (multiply_overflows(row / t->type->elements, t->type->bytes, &row_bytes) ||
        row_bytes > INT64_MAX ||
        multiply_overflows(t->bytes / t->type->elements, t->type->bytes, &t->bytes)) {
        return refuse(r, PAWL_EDAMAGED, at, "a tensor is larger than any file", err);
    }
    t->at = r->scan.at;
    return scan_u64(&r->scan, &t->offset, err);
}

/* What can be read of a quantized tensor. */
static pawl_status add_blocks(const reading *r, const tensor_info *t, const archive_part *part,
                              pawl_error *err) {
    int64_t shape[MAX_DIMS];
    int last = t->ndim - 1; /* a block has more than one element, so there is a dimension */
    memcpy(shape, t->shape, sizeof(shape));
    shape[last] = t->shape[last] / t->type->elements * t->type->bytes;
    archive_tensor blocks = {
        .dtype = PAWL_U8, .ndim = t->ndim, .shape = shape, .parts = part, .part_count = 1};
    blocks.name = arena_printf(&r->a->base.memory, "%s/blocks", t->name);
    return blocks.name != NULL ? archive_add_tensor(r->a, &blocks, err)
                               : error_nomem(err, strlen(t->name));
}

static pawl_status add_tensor(reading *r, const tensor_info *t, uint64_t data, pawl_error *err) {
    const archive_part part = {.stream = r->file, .offset = data + t->offset, .bytes = t->bytes};
    const archive_tensor tensor = {.name = t->name,
                                   .dtype = t->type->dtype,
                                   .type = t->type->dtype == 0 ? t->type->name : NULL,
                                   .ndim = t->ndim,
                                   .shape = t->shape,
                                   .parts = &part,
                                   .part_count = 1};
    TRY(archive_add_tensor(r->a, &tensor, err));
    return t->type->dtype == 0 ? add_blocks(r, t, &part, err) : PAWL_OK;
}

static pawl_status outside(const tensor_info *t, uint64_t end, uint64_t size, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "a tensor lies behind the end of the file");
    error_entry(err, t->name);
    error_range(err, t->at, 8);
    error_expected(err, "a file of at least %llu bytes", (unsigned long long)end);
    error_found(err, "%llu bytes", (unsigned long long)size);
    error_next(err, "get the file again: it was cut off, or not copied to its end");
    return PAWL_EDAMAGED;
}

/* Each begins where the one before it ends, padded. */
static pawl_status place_tensors(reading *r, const tensor_info *tensors, pawl_error *err) {
    uint64_t mask = r->alignment - 1;
    uint64_t data = (r->scan.at + mask) & ~mask;
    uint64_t next = 0;
    for (uint64_t i = 0; i < r->tensor_count; i++) {
        const tensor_info *t = &tensors[i];
        uint64_t end;
        if (t->offset != next) {
            error_set(err, PAWL_EDAMAGED, "a tensor does not begin where the one before it ends");
            error_entry(err, t->name);
            error_range(err, t->at, 8);
            error_expected(err, "offset %llu", (unsigned long long)next);
            error_found(err, "offset %llu", (unsigned long long)t->offset);
            return PAWL_EDAMAGED;
        }
        if (add_overflows(data + t->offset, t->bytes, &end) || end > r->scan.in.size) {
            return outside(t, end, r->scan.in.size, err);
        }
        next = (t->offset + t->bytes + mask) & ~mask;
        TRY(add_tensor(r, t, data, err));
    }
    return PAWL_OK;
}

static pawl_status read_tensors(reading *r, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    uint64_t at = r->scan.at;
    if (r->tensor_count > FOREIGN_MAX_ENTRIES || r->tensor_count > r->scan.in.size / 24) {
        r->key.size = 0;
        return refuse(r, PAWL_EDAMAGED, at, "there are more tensors than the file has room for",
                      err);
    }
    tensor_info *tensors =
        arena_take(&memory, ((size_t)r->tensor_count + 1) * sizeof(*tensors), err);
    if (tensors == NULL) {
        return PAWL_ENOMEM;
    }
    for (uint64_t i = 0; i < r->tensor_count; i++) {
        TRY(read_tensor(r, &tensors[i], err));
    }
    return place_tensors(r, tensors, err);
}

/* ---- a file --------------------------------------------------------------------------------- */

static pawl_status read_head(reading *r, pawl_error *err) {
    const uint8_t *magic = NULL;
    uint32_t version;
    TRY(scan_bytes(&r->scan, 4, &magic, err));
    if (!gguf_looks_like(magic, 4)) {
        return refuse(r, PAWL_EDAMAGED, 0, "it does not begin as a GGUF file does", err);
    }
    TRY(scan_u32(&r->scan, &version, err));
    if (version < LEAST_VERSION || version > LAST_VERSION) {
        bool swapped = (version & 0xffffu) == 0;
        (void)refuse(r, PAWL_EUNSUPPORTED, 4,
                     swapped ? "the file is big-endian" : "the file has another version", err);
        error_expected(err, "version 2 or 3, little-endian");
        error_found(err, "%u", version);
        return PAWL_EUNSUPPORTED;
    }
    TRY(scan_u64(&r->scan, &r->tensor_count, err));
    TRY(scan_u64(&r->scan, &r->value_count, err));
    return r->value_count <= r->scan.in.size / 13
               ? PAWL_OK
               : refuse(r, PAWL_EDAMAGED, 16, "there are more values than the file has room for",
                        err);
}

static pawl_status read_header(reading *r, pawl_error *err) {
    r->alignment = 32;
    TRY(read_head(r, err));
    for (uint64_t i = 0; i < r->value_count; i++) {
        TRY(read_value(r, err));
    }
    if (r->alignment == 0 || (r->alignment & (r->alignment - 1)) != 0) {
        r->key.size = 0;
        return refuse(r, PAWL_EDAMAGED, 0, "general.alignment is no power of two", err);
    }
    return read_tensors(r, err);
}

static pawl_status read_file(reading *r, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    TRY(archive_open_file(r->a, r->file, STORE_READ, &opened, err));
    TRY(store_source(opened, &r->scan.in, err));
    r->scan.at = 0;
    r->scan.in_window = 0;
    r->key.size = 0;
    pawl_status status = read_header(r, err);
    r->a->base.reads.reads++;
    r->a->base.reads.bytes += r->scan.at;
    if (status != PAWL_OK && err->path[0] == '\0') {
        archive_error_file(r->a, r->file, err);
    }
    return status;
}

/* ---- several files -------------------------------------------------------------------------- */

#define SPLIT_ENDING "-00001-of-00009.gguf"

static bool take_five(const char *text, unsigned *out) {
    *out = 0;
    for (int i = 0; i < 5; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        *out = *out * 10 + (unsigned)(text[i] - '0');
    }
    return true;
}

/* Where the numbers stand in the name of a file that is one of several. */
static bool is_split(const char *name, size_t *stem, unsigned *count) {
    size_t n = strlen(name);
    size_t ending = strlen(SPLIT_ENDING);
    unsigned number = 0;
    if (n <= ending) {
        return false;
    }
    *stem = n - ending;
    *count = 0;
    const char *at = name + *stem;
    return at[0] == '-' && take_five(at + 1, &number) && strncmp(at + 6, "-of-", 4) == 0 &&
           take_five(at + 10, count) && strcmp(at + 15, ".gguf") == 0 && number >= 1 &&
           number <= *count;
}

static pawl_status is_missing(const archive *a, const char *file, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "one of the files that a model was split into is missing");
    store_error_path(err, a->base.store, file);
    error_expected(err, "a file, as the name of %.200s says", a->name);
    error_found(err, "no such file");
    error_next(err, "get all files of the model from where it came from");
    return PAWL_EDAMAGED;
}

static pawl_status add_files(archive *a, size_t stem, unsigned count, pawl_error *err) {
    for (unsigned i = 1; i <= count; i++) {
        char name[STORE_MAX_PATH];
        uint32_t file;
        int n =
            snprintf(name, sizeof(name), "%.*s-%05u-of-%05u.gguf", (int)stem, a->name, i, count);
        if (n < 0 || (size_t)n >= sizeof(name)) {
            return error_set(err, PAWL_ELIMIT, "the name of a file is too long");
        }
        pawl_status status = archive_add_file(a, name, &file, err);
        if (status != PAWL_OK) {
            return status == PAWL_ENOTFOUND ? is_missing(a, name, err) : status;
        }
    }
    return PAWL_OK;
}

static pawl_status read_files(reading *r, pawl_error *err) {
    archive *a = r->a;
    size_t stem;
    unsigned count;
    uint32_t file;
    if (is_split(a->name, &stem, &count)) {
        TRY(add_files(a, stem, count, err));
    } else {
        TRY(archive_add_file(a, a->name, &file, err));
    }
    for (r->file = 0; r->file < a->base.files; r->file++) {
        r->metadata = r->file == 0;
        TRY(read_file(r, err));
    }
    return PAWL_OK;
}

pawl_status gguf_read(archive *a, pawl_error *err) {
    reading *r = mem_calloc(1, sizeof(*r));
    if (r == NULL) {
        return error_nomem(err, sizeof(*r));
    }
    r->a = a;
    pawl_status status = read_files(r, err);
    buffer_free(&r->key);
    buffer_free(&r->text);
    buffer_free(&r->json);
    mem_free(r);
    return status;
}
