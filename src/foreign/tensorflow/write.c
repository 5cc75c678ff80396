/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a tensor bundle: the bytes of all tensors, one behind the other, and an index, which is a
 * table of LevelDB with a record of protobuf for each (tensor_bundle.proto of TensorFlow).
 * The index is written last: without it there is no checkpoint.
 */
#include "foreign/tensorflow/write.h"
#include "foreign/tensorflow/write_keys.h"
#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---------------------------------------------------------------------------------- */

#define DT_DOUBLE 2u
#define DT_STRING 7u
#define DT_INT64  9u
#define DT_BOOL   10u

/* tensorflow/core/framework/types.proto; 0: TensorFlow has no such type. */
static uint32_t number_of(pawl_dtype dtype) {
    static const uint8_t numbers[] = {
        [PAWL_F32] = 1,      [PAWL_F64] = DT_DOUBLE,  [PAWL_I32] = 3,
        [PAWL_U8] = 4,       [PAWL_I16] = 5,          [PAWL_I8] = 6,
        [PAWL_C64] = 8,      [PAWL_I64] = DT_INT64,   [PAWL_BOOL] = DT_BOOL,
        [PAWL_BF16] = 14,    [PAWL_U16] = 17,         [PAWL_F16] = 19,
        [PAWL_U32] = 22,     [PAWL_U64] = 23,         [PAWL_F8_E5M2] = 24,
        [PAWL_F8_E4M3] = 25, [PAWL_F8_E4M3FNUZ] = 26, [PAWL_F8_E5M2FNUZ] = 28,
    };
    return (size_t)dtype < ARRAY_LENGTH(numbers) ? numbers[dtype] : 0;
}

const char *bundle_refuses(const writer_item *item) {
    return item->kind == PAWL_KIND_TENSOR && number_of(item->dtype) == 0
               ? "TensorFlow has no such type"
               : NULL;
}

static uint32_t number_of_item(const writer_item *item) {
    switch (item->kind) {
    case PAWL_KIND_TENSOR:
        return number_of(item->dtype);
    case PAWL_KIND_BOOL:
        return DT_BOOL;
    case PAWL_KIND_INT64:
        return DT_INT64;
    case PAWL_KIND_FLOAT64:
        return DT_DOUBLE;
    default:
        return DT_STRING;
    }
}

/* ---- the data ------------------------------------------------------------------------------- */

/* Where an item is, its checksum, and the shape of texts. */
typedef struct stretch {
    uint64_t offset, bytes;
    uint32_t crc;
    int ndim;
    const int64_t *shape;
} stretch;

typedef struct writing {
    const writer_job *job;
    stretch *stretches;
    bundle_text *keys;
    size_t *order;            /* items, ascending by key */
    const writer_item *graph; /* NULL: there is none */
    buffer graph_bytes;       /* what is written of it */
    output out;
    texts texts;
    uint32_t crc; /* of what is being written */
    arena memory;
} writing;

static pawl_status take(void *to, const uint8_t *bytes, size_t n, pawl_error *err) {
    writing *w = to;
    w->crc = crc32c(w->crc, bytes, n);
    return output_write(&w->out, bytes, n, err);
}

/* Lengths, the checksum of them, and the texts. What is checksummed of a length are its four bytes,
 * not those of the varint. */
static pawl_status write_texts(writing *w, const writer_item *item, stretch *s, pawl_error *err) {
    CLEANUP(buffer_free) buffer sum = {0};
    texts *t = &w->texts;
    TRY(texts_of(item, t, err));
    w->crc = crc32c(0, t->sizes.data, t->sizes.size);
    TRY(buffer_u32le(&sum, crc32c_mask(w->crc), err));
    TRY(output_write(&w->out, t->lengths.data, t->lengths.size, err));
    TRY(take(w, sum.data, sum.size, err));
    TRY(take(w, t->bytes.data, t->bytes.size, err));
    int64_t *shape = arena_take(&w->memory, sizeof(t->shape), err);
    if (shape == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(shape, t->shape, sizeof(t->shape));
    s->ndim = t->ndim;
    s->shape = shape;
    return PAWL_OK;
}

static pawl_status write_item(writing *w, const writer_item *item, stretch *s, pawl_error *err) {
    w->crc = 0;
    if (item == w->graph) {
        const writer_item cut = {.kind = PAWL_KIND_BYTES,
                                 .value = w->graph_bytes.data,
                                 .value_bytes = w->graph_bytes.size};
        return write_texts(w, &cut, s, err);
    }
    if (number_of_item(item) == DT_STRING) {
        return write_texts(w, item, s, err);
    }
    s->ndim = item->ndim;
    s->shape = item->shape;
    return item->kind == PAWL_KIND_TENSOR ? w->job->read(w->job->context, take, w, err)
                                          : take(w, item->value, item->value_bytes, err);
}

static pawl_status write_data(writing *w, pawl_error *err) {
    char name[STORE_MAX_PATH];
    snprintf(name, sizeof(name), "%s.data-00000-of-00001", w->job->name);
    TRY(output_open(&w->out, w->job, name, writer_tensor_bytes(w->job), err));
    for (size_t i = 0; i < w->job->count; i++) {
        stretch *s = &w->stretches[i];
        s->offset = w->out.at;
        TRY(write_item(w, &w->job->items[i], s, err));
        s->bytes = w->out.at - s->offset;
        s->crc = crc32c_mask(w->crc);
    }
    return output_end(&w->out, err);
}

/* ---- the index ------------------------------------------------------------------------------ */

#define VARINT(field)  ((uint64_t)(field) << 3)
#define BYTES(field)   ((uint64_t)(field) << 3 | 2u)
#define FIXED32(field) ((uint64_t)(field) << 3 | 5u)

/* Zero is what a field that is not there means. */
static pawl_status put_number(buffer *out, uint32_t field, uint64_t v, pawl_error *err) {
    if (v == 0) {
        return PAWL_OK;
    }
    TRY(buffer_varint(out, VARINT(field), err));
    return buffer_varint(out, v, err);
}

static pawl_status put_message(buffer *out, uint32_t field, const buffer *message,
                               pawl_error *err) {
    TRY(buffer_varint(out, BYTES(field), err));
    return buffer_varint_bytes(out, message->data, message->size, err);
}

/* One file, little-endian, of producer 1. */
static pawl_status put_header(table_writer *t, pawl_error *err) {
    static const uint8_t header[] = {0x08, 0x01, 0x1a, 0x02, 0x08, 0x01};
    return table_writer_add(t, "", 0, header, sizeof(header), err);
}

static pawl_status put_shape(const stretch *s, buffer *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer shape = {0};
    CLEANUP(buffer_free) buffer dim = {0};
    TRY(buffer_append(&shape, "", 0, err));
    for (int d = 0; d < s->ndim; d++) {
        dim.size = 0;
        TRY(buffer_append(&dim, "", 0, err));
        TRY(put_number(&dim, 1, (uint64_t)s->shape[d], err));
        TRY(put_message(&shape, 2, &dim, err));
    }
    return put_message(out, 2, &shape, err);
}

static pawl_status put_entry(const writer_item *item, const stretch *s, buffer *out,
                             pawl_error *err) {
    out->size = 0;
    TRY(put_number(out, 1, number_of_item(item), err));
    TRY(put_shape(s, out, err));
    TRY(put_number(out, 4, s->offset, err));
    TRY(put_number(out, 5, s->bytes, err));
    TRY(buffer_varint(out, FIXED32(6), err));
    return buffer_u32le(out, s->crc, err);
}

static pawl_status put_entries(const writing *w, table_writer *t, pawl_error *err) {
    CLEANUP(buffer_free) buffer record = {0};
    table_summary summary;
    TRY(put_header(t, err));
    for (size_t i = 0; i < w->job->count; i++) {
        size_t item = w->order[i];
        const bundle_text key = w->keys[item];
        TRY(put_entry(&w->job->items[item], &w->stretches[item], &record, err));
        TRY(table_writer_add(t, key.bytes, key.n, record.data, record.size, err));
    }
    return table_writer_finish(t, &summary, err);
}

static pawl_status append(void *context, const void *data, size_t n, pawl_error *err) {
    return output_write(context, data, n, err);
}

static pawl_status write_index(const writing *w, pawl_error *err) {
    CLEANUP(output_close) output out = {0};
    char name[STORE_MAX_PATH];
    table_writer *writer = NULL;
    snprintf(name, sizeof(name), "%s.index", w->job->name);
    TRY(output_open(&out, w->job, name, 0, err));
    TRY(table_writer_new((byte_sink){.context = &out, .write = append}, &writer, err));
    pawl_status status = put_entries(w, writer, err);
    table_writer_free(writer);
    TRY(status);
    return output_end(&out, err);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static int by_key(const void *left, const void *right, void *context) {
    const bundle_text *keys = context;
    return bundle_text_compare(keys[*(const size_t *)left], keys[*(const size_t *)right]);
}

static pawl_status sort_keys(writing *w, pawl_error *err) {
    size_t count = w->job->count;
    for (size_t i = 0; i < count; i++) {
        w->order[i] = i;
    }
    if (count > 1) {
        qsort_r(w->order, count, sizeof(*w->order), by_key, w->keys);
    }
    for (size_t i = 1; i < count; i++) {
        if (by_key(&w->order[i - 1], &w->order[i], w->keys) == 0) {
            error_set(err, PAWL_EUNSUPPORTED, "two entries would have one key in TensorFlow");
            error_entry(err, w->job->items[w->order[i]].name);
            return PAWL_EUNSUPPORTED;
        }
    }
    return PAWL_OK;
}

static pawl_status find_keys(writing *w, pawl_error *err) {
    CLEANUP(graph_free) object_graph graph = {.nodes = NULL};
    const writer_job *job = w->job;
    graph_fit fit;
    bundle_text bytes = {0};
    w->graph = graph_item(job->items, job->count);
    if (w->graph != NULL) {
        bytes = (bundle_text){w->graph->value, w->graph->value_bytes};
        TRY(graph_decode(bytes.bytes, bytes.n, &graph, err));
    }
    TRY(graph_keys(&graph, job->items, job->count, &w->memory, w->keys, &fit, err));
    TRY(sort_keys(w, err));
    return fit.missing > 0 ? graph_cut(&graph, &fit, bytes, &w->graph_bytes, err)
                           : buffer_append(&w->graph_bytes, bytes.bytes, bytes.n, err);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static pawl_status write_all(writing *w, pawl_error *err) {
    TRY(find_keys(w, err));
    TRY(writer_begin_all(w->job, err));
    TRY(write_data(w, err));
    return write_index(w, err);
}

pawl_status bundle_write(const writer_job *job, pawl_error *err) {
    size_t count = job->count + 1;
    AUTOFREE stretch *stretches = mem_calloc(count, sizeof(*stretches));
    AUTOFREE bundle_text *keys = mem_calloc(count, sizeof(*keys));
    AUTOFREE size_t *order = mem_calloc(count, sizeof(*order));
    writing w = {.job = job, .stretches = stretches, .keys = keys, .order = order};
    if (stretches == NULL || keys == NULL || order == NULL) {
        return error_nomem(err, count * sizeof(*stretches));
    }
    pawl_status status = write_all(&w, err);
    output_close(&w.out);
    texts_free(&w.texts);
    buffer_free(&w.graph_bytes);
    arena_free(&w.memory);
    return status;
}
