/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors: encodes and decodes the header of a data file.
 *
 *   u64le N | N bytes of JSON | tensors
 *
 * What a decoder must refuse follows the reference implementation
 * (tensor.rs of github.com/huggingface/safetensors), in its order; on top of that, duplicate keys
 * are refused, and a tensor's entry must be an object.
 */
#include "base/json.h"
#include "format/format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8u
#define NAMES_AHEAD  8

/* ---- encode --------------------------------------------------------------------------------- */

uint64_t safetensors_tensor_cost(const char *name, int ndim) {
    /* {"name":{"dtype":"F8_E4M3FNUZ","shape":[...],"data_offsets":[b,e]}, with 20 digits a number
     * and every byte of the name escaped. */
    return strlen(name) * 6 + 120 + 21 * (uint64_t)ndim;
}

static pawl_status encode_metadata(const safetensors_pair *metadata, size_t count, buffer *out,
                                   pawl_error *err) {
    if (count == 0) {
        return PAWL_OK;
    }
    TRY(buffer_printf(out, err, "\"" SAFETENSORS_METADATA_KEY "\":{"));
    for (size_t i = 0; i < count; i++) {
        const safetensors_pair *pair = &metadata[i];
        TRY(buffer_append(out, ",", i > 0, err));
        TRY(buffer_json_string(out, pair->key, strlen(pair->key), err));
        TRY(buffer_append(out, ":", 1, err));
        TRY(buffer_json_string(out, pair->value, strlen(pair->value), err));
    }
    return buffer_append(out, "}", 1, err);
}

/* Appends, in room that was reserved. */
static void put_header_text(buffer *out, const char *text, size_t n) {
    memcpy(out->data + out->size, text, n);
    out->size += n;
}

static void put_number(buffer *out, uint64_t number) {
    out->size += text_decimal((char *)out->data + out->size, number);
}

/* One reservation for all of it: this is most of what a header of many small tensors costs. */
static pawl_status encode_tensor(const safetensors_tensor *tensor, uint64_t begin, buffer *out,
                                 pawl_error *err) {
    static const char dtype[] = ":{\"dtype\":\"", shape[] = "\",\"shape\":[";
    static const char offsets[] = "],\"data_offsets\":[";
    const char *name = pawl_dtype_name(tensor->dtype);
    TRY(buffer_json_string(out, tensor->name, strlen(tensor->name), err));
    TRY(buffer_reserve(out, safetensors_tensor_cost("", tensor->ndim), err));
    put_header_text(out, dtype, sizeof dtype - 1);
    put_header_text(out, name, strlen(name));
    put_header_text(out, shape, sizeof shape - 1);
    for (int d = 0; d < tensor->ndim; d++) {
        put_header_text(out, ",", d > 0 ? 1 : 0);
        put_number(out, (uint64_t)tensor->shape[d]);
    }
    put_header_text(out, offsets, sizeof offsets - 1);
    put_number(out, begin);
    put_header_text(out, ",", 1);
    put_number(out, begin + tensor->bytes);
    put_header_text(out, "]}", 2);
    out->data[out->size] = 0;
    return PAWL_OK;
}

/* Sets bytes and offset within the data of each tensor; *total is their sum. */
static pawl_status lay_out(safetensors_tensor *tensors, size_t count, uint64_t *total,
                           pawl_error *err) {
    *total = 0;
    for (size_t i = 0; i < count; i++) {
        safetensors_tensor *tensor = &tensors[i];
        pawl_status status =
            shape_check(tensor->dtype, tensor->ndim, tensor->shape, NULL, &tensor->bytes, err);
        if (status != PAWL_OK) {
            error_wrap(err, "cannot describe a tensor in a data file");
            error_entry(err, tensor->name);
            return status;
        }
        if (tensor->bytes > FORMAT_MAX_TENSOR_BYTES ||
            strcmp(tensor->name, SAFETENSORS_METADATA_KEY) == 0) {
            error_set(err, PAWL_ELIMIT, "a tensor cannot be described in a data file");
            error_entry(err, tensor->name);
            error_expected(err,
                           "another name than " SAFETENSORS_METADATA_KEY ", and below 2^61 bytes");
            error_found(err, "%" PRIu64 " bytes", tensor->bytes);
            return PAWL_ELIMIT;
        }
        if (*total % dtype_alignment(tensor->dtype) != 0) {
            error_set(err, PAWL_EINTERNAL,
                      "a tensor of dtype %s would lie unaligned at byte %" PRIu64 " of the data",
                      pawl_dtype_name(tensor->dtype), *total);
            error_entry(err, tensor->name);
            return PAWL_EINTERNAL;
        }
        tensor->offset = *total;
        if (add_overflows(*total, tensor->bytes, total) || *total > INT64_MAX / 2) {
            return error_set(err, PAWL_ELIMIT, "the tensors of one data file pass 2^62 bytes");
        }
    }
    return PAWL_OK;
}

/* Spaces up to a multiple of FORMAT_DATA_ALIGNMENT, then the length in front. */
static pawl_status pad_header(buffer *header, pawl_error *err) {
    static const char spaces[64] =
        "                                                               ";
    while (header->size % FORMAT_DATA_ALIGNMENT != 0) {
        size_t missing = FORMAT_DATA_ALIGNMENT - header->size % FORMAT_DATA_ALIGNMENT;
        TRY(buffer_append(header, spaces, missing < 63 ? missing : 63, err));
    }
    uint64_t n = header->size - LENGTH_BYTES;
    if (n > FORMAT_MAX_SAFETENSORS_HEADER) {
        error_set(err, PAWL_ELIMIT, "the header of a data file would take %" PRIu64 " bytes", n);
        error_expected(err, "at most %u bytes, the format's own maximum",
                       FORMAT_MAX_SAFETENSORS_HEADER);
        return PAWL_ELIMIT;
    }
    for (unsigned i = 0; i < LENGTH_BYTES; i++) {
        header->data[i] = (uint8_t)(n >> (8 * i));
    }
    return PAWL_OK;
}

pawl_status safetensors_encode(safetensors_tensor *tensors, size_t count,
                               const safetensors_pair *metadata, size_t metadata_count,
                               buffer *header, uint64_t *file_bytes, pawl_error *err) {
    uint64_t total = 0;
    TRY(lay_out(tensors, count, &total, err));
    header->size = 0;
    TRY(buffer_u64le(header, 0, err));
    TRY(buffer_append(header, "{", 1, err));
    TRY(encode_metadata(metadata, metadata_count, header, err));
    for (size_t i = 0; i < count; i++) {
        TRY(buffer_append(header, ",", i > 0 || metadata_count > 0, err));
        if (i + NAMES_AHEAD < count) {
            __builtin_prefetch(tensors[i + NAMES_AHEAD].name); /* names lie all over memory */
        }
        TRY(encode_tensor(&tensors[i], tensors[i].offset, header, err));
    }
    TRY(buffer_append(header, "}", 1, err));
    TRY(pad_header(header, err));
    for (size_t i = 0; i < count; i++) {
        tensors[i].offset += header->size;
    }
    *file_bytes = header->size + total;
    return PAWL_OK;
}

/* ---- decode: the JSON ----------------------------------------------------------------------- */

typedef struct decoded_tensor {
    safetensors_tensor tensor; /* offset is relative to the data */
    uint64_t at;               /* where the header describes it, in the file */
} decoded_tensor;

/* While decoding; what ends up in the header comes from its arena. */
typedef struct decoder {
    json_reader json;
    safetensors_header *out;
    decoded_tensor *tensors;
    size_t tensor_count, tensor_capacity;
    safetensors_pair *metadata;
    size_t metadata_count, metadata_capacity;
    buffer key, text;
    int64_t shape[PAWL_MAX_NDIM];
    bool seen_metadata;
    bool foreign; /* any dtype will do */
} decoder;

static void header_decoder_free(decoder *d) {
    mem_free(d->tensors);
    mem_free(d->metadata);
    buffer_free(&d->key);
    buffer_free(&d->text);
}

static pawl_status keep_header_text(decoder *d, const buffer *text, const char **out,
                                    pawl_error *err) {
    char *copy = arena_take(&d->out->memory, text->size + 1, err);
    if (copy == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(copy, text->data, text->size);
    copy[text->size] = '\0';
    *out = copy;
    return PAWL_OK;
}

/* A refusal of one tensor, or of a metadata key. */
static pawl_status refuse_header(const char *name, uint64_t position, pawl_error *err,
                                 const char *what) {
    error_set(err, PAWL_EDAMAGED, "the header of the data file is wrong at byte %" PRIu64 ": %s",
              position, what);
    error_entry(err, name);
    error_range(err, position, 1);
    return PAWL_EDAMAGED;
}

static pawl_status decode_metadata(decoder *d, pawl_error *err) {
    uint64_t position = json_position(&d->json);
    if (d->seen_metadata) {
        return refuse_header(SAFETENSORS_METADATA_KEY, position, err, "the key is there twice");
    }
    d->seen_metadata = true;
    if (json_peek(&d->json) == 'n') {
        return json_skip(&d->json, NULL); /* null: as if it were not there */
    }
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        bool more = false;
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        TRY(json_text(&d->json, &d->text, err));
        TRY(vec_reserve(&d->metadata, &d->metadata_capacity, d->metadata_count + 1,
                        sizeof *d->metadata, err));
        safetensors_pair *pair = &d->metadata[d->metadata_count];
        TRY(keep_header_text(d, &d->key, &pair->key, err));
        TRY(keep_header_text(d, &d->text, &pair->value, err));
        d->metadata_count++;
    }
}

/* Text that is harmless wherever it is shown. */
static bool is_type_name(const buffer *text) {
    for (size_t i = 0; i < text->size; i++) {
        if (text->data[i] <= ' ' || text->data[i] > '~') {
            return false;
        }
    }
    return text->size > 0 && text->size <= FORMAT_MAX_TYPE_NAME;
}

static pawl_status decode_dtype(decoder *d, safetensors_tensor *tensor, pawl_error *err) {
    uint64_t position = json_position(&d->json);
    TRY(json_text(&d->json, &d->text, err));
    tensor->dtype = pawl_dtype_from_name((const char *)d->text.data);
    if (d->foreign && !dtype_valid(tensor->dtype) && is_type_name(&d->text)) {
        return keep_header_text(d, &d->text, &tensor->type, err);
    }
    if (!dtype_valid(tensor->dtype)) {
        pawl_status status = refuse_header(tensor->name, position, err, "unknown dtype");
        error_expected(err, "a dtype of the safetensors format, such as F32");
        error_found(err, "\"%s\"", (const char *)d->text.data);
        return status;
    }
    return PAWL_OK;
}

static pawl_status decode_shape(decoder *d, safetensors_tensor *tensor, pawl_error *err) {
    TRY(json_enter(&d->json, '['));
    for (;;) {
        bool more = false;
        uint64_t extent = 0;
        TRY(json_element(&d->json, &more));
        if (!more) {
            break;
        }
        uint64_t position = json_position(&d->json);
        if (tensor->ndim == PAWL_MAX_NDIM) {
            error_set(err, PAWL_ELIMIT, "the tensor has more than %d dimensions, at byte %" PRIu64,
                      PAWL_MAX_NDIM, position);
            error_entry(err, tensor->name);
            return PAWL_ELIMIT;
        }
        TRY(json_u64(&d->json, &extent));
        if (extent > INT64_MAX) {
            return refuse_header(tensor->name, position, err, "the shape overflows");
        }
        d->shape[tensor->ndim++] = (int64_t)extent;
    }
    size_t bytes = (size_t)tensor->ndim * sizeof d->shape[0];
    int64_t *shape = arena_take(&d->out->memory, bytes, err);
    if (shape == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(shape, d->shape, bytes);
    tensor->shape = shape;
    return PAWL_OK;
}

/* Exactly two integers: first byte and the byte after the last. */
static pawl_status decode_offsets(decoder *d, safetensors_tensor *tensor, pawl_error *err) {
    uint64_t position = json_position(&d->json);
    uint64_t offsets[2] = {0, 0};
    size_t count = 0;
    TRY(json_enter(&d->json, '['));
    for (;;) {
        bool more = false;
        TRY(json_element(&d->json, &more));
        if (!more) {
            break;
        }
        if (count == 2) {
            return refuse_header(tensor->name, position, err,
                                 "data_offsets has more than two numbers");
        }
        TRY(json_u64(&d->json, &offsets[count++]));
    }
    if (count != 2) {
        return refuse_header(tensor->name, position, err,
                             "data_offsets has fewer than two numbers");
    }
    if (offsets[1] < offsets[0]) {
        pawl_status status =
            refuse_header(tensor->name, position, err, "data_offsets end before they begin");
        error_found(err, "[%" PRIu64 ", %" PRIu64 "]", offsets[0], offsets[1]);
        return status;
    }
    tensor->offset = offsets[0];
    tensor->bytes = offsets[1] - offsets[0];
    return PAWL_OK;
}

typedef pawl_status (*member_decoder)(decoder *d, safetensors_tensor *tensor, pawl_error *err);
static const struct member {
    const char *key;
    member_decoder decode;
} members[] = {
    {"dtype", decode_dtype},
    {"shape", decode_shape},
    {"data_offsets", decode_offsets},
};

/* The value of the key just read; other keys than ours are passed over, as the reference does. */
static pawl_status decode_member(decoder *d, safetensors_tensor *tensor, unsigned *seen,
                                 pawl_error *err) {
    for (unsigned i = 0; i < ARRAY_LENGTH(members); i++) {
        if (strcmp((const char *)d->key.data, members[i].key) != 0) {
            continue;
        }
        if ((*seen & 1u << i) != 0) {
            return refuse_header(tensor->name, json_position(&d->json), err,
                                 "a key is there twice");
        }
        *seen |= 1u << i;
        return members[i].decode(d, tensor, err);
    }
    return json_skip(&d->json, NULL);
}

static pawl_status decode_tensor(decoder *d, pawl_error *err) {
    TRY(vec_reserve(&d->tensors, &d->tensor_capacity, d->tensor_count + 1, sizeof *d->tensors,
                    err));
    const uint64_t position = json_position(&d->json);
    decoded_tensor *decoded = &d->tensors[d->tensor_count++];
    *decoded = (decoded_tensor){.at = position};
    safetensors_tensor *tensor = &decoded->tensor;
    TRY(keep_header_text(d, &d->key, &tensor->name, err));
    unsigned seen = 0;
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        bool more = false;
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            break;
        }
        pawl_status status = decode_member(d, tensor, &seen, err);
        if (status != PAWL_OK) {
            error_entry(err, tensor->name);
            return status;
        }
    }
    if (seen != (1u << ARRAY_LENGTH(members)) - 1) {
        return refuse_header(tensor->name, position, err,
                             "dtype, shape or data_offsets is missing");
    }
    return PAWL_OK;
}

static pawl_status decode_header_json(decoder *d, pawl_error *err) {
    TRY(json_enter(&d->json, '{'));
    for (;;) {
        bool more = false;
        TRY(json_key(&d->json, &d->key, &more, err));
        if (!more) {
            return json_end(&d->json);
        }
        if (strcmp((const char *)d->key.data, SAFETENSORS_METADATA_KEY) == 0) {
            TRY(decode_metadata(d, err));
        } else {
            TRY(decode_tensor(d, err));
        }
    }
}

/* ---- decode: what the numbers must fulfil --------------------------------------------------- */

static int by_header_name(const void *a, const void *b) {
    const decoded_tensor *left = a, *right = b;
    int order = strcmp(left->tensor.name, right->tensor.name);
    return order != 0 ? order : (left->at > right->at) - (left->at < right->at);
}

static int by_metadata_key(const void *a, const void *b) {
    return strcmp(((const safetensors_pair *)a)->key, ((const safetensors_pair *)b)->key);
}

/* Empty tensors come before the one that begins where they lie; ties by name. */
static int by_offset(const void *a, const void *b) {
    const safetensors_tensor *left = &((const decoded_tensor *)a)->tensor;
    const safetensors_tensor *right = &((const decoded_tensor *)b)->tensor;
    if (left->offset != right->offset) {
        return left->offset < right->offset ? -1 : 1;
    }
    if (left->bytes != right->bytes) {
        return left->bytes < right->bytes ? -1 : 1;
    }
    return by_header_name(a, b);
}

static pawl_status check_duplicates(decoder *d, pawl_error *err) {
    if (d->tensor_count > 1) {
        qsort(d->tensors, d->tensor_count, sizeof *d->tensors, by_header_name);
    }
    for (size_t i = 1; i < d->tensor_count; i++) {
        const decoded_tensor *second = &d->tensors[i];
        if (strcmp(d->tensors[i - 1].tensor.name, second->tensor.name) == 0) {
            return refuse_header(second->tensor.name, second->at, err, "the tensor is there twice");
        }
    }
    if (d->metadata_count > 1) {
        qsort(d->metadata, d->metadata_count, sizeof *d->metadata, by_metadata_key);
    }
    for (size_t i = 1; i < d->metadata_count; i++) {
        if (by_metadata_key(&d->metadata[i - 1], &d->metadata[i]) == 0) {
            return refuse_header(d->metadata[i].key, LENGTH_BYTES, err,
                                 "the metadata key is there twice");
        }
    }
    return PAWL_OK;
}

/* Bytes that dtype and shape ask for. */
static pawl_status bytes_of_shape(const decoded_tensor *decoded, uint64_t *bytes, pawl_error *err) {
    const safetensors_tensor *tensor = &decoded->tensor;
    const uint64_t position = decoded->at;
    uint64_t bits = 1;
    for (int i = 0; i < tensor->ndim; i++) {
        if (multiply_overflows(bits, (uint64_t)tensor->shape[i], &bits)) {
            return refuse_header(tensor->name, position, err, "the shape overflows");
        }
    }
    if (multiply_overflows(bits, (uint64_t)pawl_dtype_bits(tensor->dtype), &bits)) {
        return refuse_header(tensor->name, position, err, "the shape overflows");
    }
    if (bits % 8 != 0) {
        return refuse_header(tensor->name, position, err, "the elements do not fill whole bytes");
    }
    *bytes = bits / 8;
    return PAWL_OK;
}

/* Each begins where the one before it ended: no holes, no overlap. *end is where the
 * last one ends. */
static pawl_status check_tensors(const decoder *d, uint64_t *end, pawl_error *err) {
    *end = 0;
    for (size_t i = 0; i < d->tensor_count; i++) {
        const safetensors_tensor *tensor = &d->tensors[i].tensor;
        const uint64_t position = d->tensors[i].at;
        uint64_t bytes = 0;
        if (tensor->offset != *end) {
            pawl_status status = refuse_header(
                tensor->name, position, err,
                tensor->offset > *end ? "there is a hole before the tensor" : "tensors overlap");
            error_expected(err, "data_offsets that begin at %" PRIu64, *end);
            error_found(err, "%" PRIu64, tensor->offset);
            return status;
        }
        if (tensor->type != NULL) {
            *end += tensor->bytes;
            continue;
        }
        TRY(bytes_of_shape(&d->tensors[i], &bytes, err));
        if (bytes != tensor->bytes) {
            char shape[256];
            pawl_status status = refuse_header(tensor->name, position, err,
                                               "dtype and shape do not fit data_offsets");
            error_expected(err, "%" PRIu64 " bytes for %s %s", bytes,
                           pawl_dtype_name(tensor->dtype),
                           shape_text(shape, sizeof shape, tensor->ndim, tensor->shape));
            error_found(err, "%" PRIu64 " bytes", tensor->bytes);
            return status;
        }
        *end += bytes;
    }
    return PAWL_OK;
}

static pawl_status check_layout(decoder *d, pawl_error *err) {
    safetensors_header *out = d->out;
    uint64_t end = 0;
    TRY(check_duplicates(d, err));
    if (d->tensor_count > 1) {
        qsort(d->tensors, d->tensor_count, sizeof *d->tensors, by_offset);
    }
    TRY(check_tensors(d, &end, err));
    if (end != out->file_bytes - out->data_offset) {
        error_set(err, PAWL_EDAMAGED, "the data file is %s than its tensors",
                  end > out->file_bytes - out->data_offset ? "shorter" : "longer");
        error_expected(err, "%" PRIu64 " bytes after the header", end);
        error_found(err, "%" PRIu64 " bytes", out->file_bytes - out->data_offset);
        error_range(err, out->data_offset, out->file_bytes - out->data_offset);
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}

/* ---- decode: the file ----------------------------------------------------------------------- */

static pawl_status read_length(const byte_source *file, uint64_t *n, pawl_error *err) {
    uint8_t bytes[LENGTH_BYTES];
    if (file->size < LENGTH_BYTES) {
        error_set(err, PAWL_EDAMAGED, "the data file is too short for a header");
        error_expected(err, "at least %u bytes", LENGTH_BYTES);
        error_found(err, "%" PRIu64 " bytes", file->size);
        error_range(err, 0, file->size);
        return PAWL_EDAMAGED;
    }
    TRY(file->read_at(file->context, 0, bytes, sizeof bytes, err));
    cursor c = cursor_of(bytes, sizeof bytes, 0, "data file");
    TRY(cursor_u64le(&c, n, err));
    if (*n > FORMAT_MAX_SAFETENSORS_HEADER) {
        error_set(err, PAWL_ELIMIT, "the header length at byte 0 is too large");
        error_expected(err, "at most %u bytes", FORMAT_MAX_SAFETENSORS_HEADER);
        error_found(err, "%" PRIu64 " bytes", *n);
        error_range(err, 0, LENGTH_BYTES);
        return PAWL_ELIMIT;
    }
    if (*n > file->size - LENGTH_BYTES) {
        error_set(err, PAWL_EDAMAGED,
                  "the header length at byte 0 passes the end of the data file");
        error_expected(err, "at most %" PRIu64 " bytes", file->size - LENGTH_BYTES);
        error_found(err, "%" PRIu64 " bytes", *n);
        error_range(err, 0, LENGTH_BYTES);
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}

/* Moves what was decoded into the header's arena. */
static pawl_status move_to_header(decoder *d, pawl_error *err) {
    safetensors_header *out = d->out;
    size_t tensor_bytes = d->tensor_count * sizeof *out->tensors;
    size_t metadata_bytes = d->metadata_count * sizeof *d->metadata;
    out->tensors = arena_alloc(&out->memory, tensor_bytes);
    out->metadata = arena_alloc(&out->memory, metadata_bytes);
    if (out->tensors == NULL || out->metadata == NULL) {
        return error_nomem(err, tensor_bytes + metadata_bytes);
    }
    for (size_t i = 0; i < d->tensor_count; i++) {
        out->tensors[i] = d->tensors[i].tensor;
        out->tensors[i].offset += out->data_offset;
    }
    for (size_t i = 0; i < d->metadata_count; i++) {
        out->metadata[i] = d->metadata[i];
    }
    out->tensor_count = d->tensor_count;
    out->metadata_count = d->metadata_count;
    return PAWL_OK;
}

static pawl_status decode_header(const byte_source *file, bool foreign, safetensors_header *out,
                                 pawl_error *err) {
    uint64_t n = 0;
    TRY(read_length(file, &n, err));
    AUTOFREE uint8_t *text = mem_alloc(n);
    if (text == NULL) {
        return error_nomem(err, n);
    }
    TRY(file->read_at(file->context, LENGTH_BYTES, text, n, err));
    out->data_offset = LENGTH_BYTES + n;
    out->file_bytes = file->size;
    CLEANUP(header_decoder_free)
    decoder d = {.json = json_reader_for(text, n, LENGTH_BYTES, "header of the data file", err),
                 .out = out,
                 .foreign = foreign};
    d.json.max_depth = FORMAT_MAX_HEADER_DEPTH; /* both as the reference parser has it */
    d.json.round = true;
    TRY(decode_header_json(&d, err));
    TRY(check_layout(&d, err));
    return move_to_header(&d, err);
}

static pawl_status decode_or_free(const byte_source *file, bool foreign, safetensors_header *out,
                                  pawl_error *err) {
    *out = (safetensors_header){.tensors = NULL};
    pawl_status status = decode_header(file, foreign, out, err);
    if (status != PAWL_OK) {
        safetensors_header_free(out);
    }
    return status;
}

pawl_status safetensors_decode(const byte_source *file, safetensors_header *out, pawl_error *err) {
    return decode_or_free(file, false, out, err);
}

pawl_status safetensors_decode_foreign(const byte_source *file, safetensors_header *out,
                                       pawl_error *err) {
    return decode_or_free(file, true, out, err);
}

void safetensors_header_free(safetensors_header *header) {
    arena_free(&header->memory);
    *header = (safetensors_header){.tensors = NULL};
}
