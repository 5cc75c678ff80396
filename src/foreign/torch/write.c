/* SPDX-License-Identifier: Apache-2.0 */
/* Writes files as torch.save makes them: a zip of a pickle and the bytes of each storage. */
#include "foreign/torch/write.h"
#include "foreign/torch/nest.h"
#include "foreign/torch/types.h"
#include "foreign/torch/value.h"

#include <stdio.h>
#include <string.h>

#define ALIGNMENT 64u

const char *torch_refuses(const writer_item *item) {
    bool fits = item->kind != PAWL_KIND_TENSOR || torch_type_of(item->dtype) != NULL;
    return fits ? NULL : "PyTorch has no such type";
}

const char *torch_changes(const writer_item *item) {
    bool exact = item->kind != PAWL_KIND_JSON || strcmp(item->name, TORCH_SEQUENCES) == 0 ||
                 torch_json_is_exact((const char *)item->value, item->value_bytes);
    return exact
               ? NULL
               : "as a dict that describes it: torch.load(weights_only=True) makes no such object";
}

/* ---- what is pickled ------------------------------------------------------------------------ */

static pawl_status put_word(buffer *p, const char *word, pawl_error *err) {
    return pickle_text(p, word, strlen(word), err);
}

static pawl_status put_tuple(buffer *p, int ndim, const int64_t *numbers, pawl_error *err) {
    TRY(pickle_put(p, PICKLE_MARK, err));
    for (int d = 0; d < ndim; d++) {
        TRY(pickle_int(p, numbers[d], err));
    }
    return pickle_put(p, PICKLE_TUPLE, err);
}

static pawl_status put_shared_word(buffer *p, pickle_memo *memo, const char *word,
                                   pawl_error *err) {
    size_t from = p->size;
    TRY(put_word(p, word, err));
    return pickle_share(p, memo, from, err);
}

static pawl_status put_global(buffer *p, pickle_memo *memo, const char *module, const char *name,
                              pawl_error *err) {
    size_t from = p->size;
    TRY(pickle_global(p, module, name, err));
    return pickle_share(p, memo, from, err);
}

/* ("storage", its class, its key, where it was, how many elements it has) */
static pawl_status put_storage(buffer *p, pickle_memo *memo, const writer_item *item, size_t number,
                               pawl_error *err) {
    const torch_type *type = torch_type_of(item->dtype);
    char key[24];
    snprintf(key, sizeof(key), "%zu", number);
    uint64_t each = (uint64_t)pawl_dtype_bits(item->dtype) / 8;
    uint64_t count = type->storage != NULL ? item->bytes / each : item->bytes;
    TRY(pickle_put(p, PICKLE_MARK, err));
    TRY(put_shared_word(p, memo, "storage", err));
    TRY(put_global(p, memo, type->storage != NULL ? "torch" : "torch.storage",
                   type->storage != NULL ? type->storage : "UntypedStorage", err));
    TRY(put_word(p, key, err));
    TRY(put_shared_word(p, memo, "cpu", err));
    TRY(pickle_int(p, (int64_t)count, err));
    TRY(pickle_put(p, PICKLE_TUPLE, err));
    return pickle_put(p, PICKLE_PERSID, err);
}

static void dense_strides(const writer_item *item, int64_t strides[PAWL_MAX_NDIM]) {
    int64_t stride = 1;
    for (int d = item->ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= item->shape[d] > 1 ? item->shape[d] : 1;
    }
}

/* _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks), or _v3 with the type. */
pawl_status torch_put_tensor(buffer *p, pickle_memo *memo, const writer_item *item, size_t number,
                             pawl_error *err) {
    const torch_type *type = torch_type_of(item->dtype);
    int64_t strides[PAWL_MAX_NDIM];
    dense_strides(item, strides);
    TRY(put_global(p, memo, "torch._utils",
                   type->storage != NULL ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3", err));
    TRY(pickle_put(p, PICKLE_MARK, err));
    TRY(put_storage(p, memo, item, number, err));
    TRY(pickle_int(p, 0, err));
    TRY(put_tuple(p, item->ndim, item->shape, err));
    TRY(put_tuple(p, item->ndim, strides, err));
    TRY(pickle_bool(p, false, err));
    TRY(put_global(p, memo, "collections", "OrderedDict", err));
    TRY(pickle_put(p, PICKLE_EMPTY_TUPLE, err));
    TRY(pickle_put(p, PICKLE_REDUCE, err));
    if (type->storage == NULL) {
        TRY(put_global(p, memo, "torch", type->name, err));
    }
    TRY(pickle_put(p, PICKLE_TUPLE, err));
    return pickle_put(p, PICKLE_REDUCE, err);
}

pawl_status torch_put_value(buffer *p, const writer_item *item, pawl_error *err) {
    int64_t integer;
    double number;
    switch (item->kind) {
    case PAWL_KIND_BOOL:
        return pickle_bool(p, item->value[0] != 0, err);
    case PAWL_KIND_INT64:
        memcpy(&integer, item->value, sizeof(integer));
        return pickle_int(p, integer, err);
    case PAWL_KIND_FLOAT64:
        memcpy(&number, item->value, sizeof(number));
        return pickle_float(p, number, err);
    case PAWL_KIND_STRING:
        return pickle_text(p, (const char *)item->value, item->value_bytes, err);
    case PAWL_KIND_JSON:
        return torch_put_python(p, (const char *)item->value, item->value_bytes, err);
    default:
        return pickle_bytes(p, item->value, item->value_bytes, err);
    }
}

/* ---- the file ------------------------------------------------------------------------------- */

pawl_status torch_begin(zip_writer *z, const buffer *pickle, pawl_error *err) {
    TRY(zip_put(z, "archive/data.pkl", pickle->data, pickle->size, ALIGNMENT, err));
    TRY(zip_put(z, "archive/.format_version", "1", 1, ALIGNMENT, err));
    TRY(zip_put(z, "archive/.storage_alignment", "64", 2, ALIGNMENT, err));
    return zip_put(z, "archive/byteorder", "little", 6, ALIGNMENT, err);
}

pawl_status torch_begin_storage(zip_writer *z, size_t number, uint64_t bytes, char name[64],
                                pawl_error *err) {
    snprintf(name, 64, "archive/data/%zu", number);
    return zip_begin(z, name, bytes, ALIGNMENT, err);
}

pawl_status torch_finish(zip_writer *z, pawl_error *err) {
    TRY(zip_put(z, "archive/version", "3\n", 2, ALIGNMENT, err));
    return zip_finish(z, err);
}

static pawl_status write_storages(const writer_job *job, zip_writer *z, pawl_error *err) {
    size_t number = 0;
    for (size_t i = 0; i < job->count; i++) {
        const writer_item *item = &job->items[i];
        char name[64];
        if (item->kind == PAWL_KIND_TENSOR) {
            TRY(torch_begin_storage(z, number++, item->bytes, name, err));
            TRY(job->read(job->context, zip_take, z, err));
        }
    }
    return PAWL_OK;
}

pawl_status torch_write(const writer_job *job, pawl_error *err) {
    CLEANUP(output_close) output out = {0};
    CLEANUP(buffer_free) buffer pickle = {0};
    CLEANUP(nest_end) nest n = {.items = NULL};
    TRY(nest_begin(&n, job, err));
    TRY(writer_begin_all(job, err));
    TRY(pickle_begin(&pickle, err));
    TRY(nest_put_all(&n, &pickle, err));
    TRY(pickle_end(&pickle, err));
    TRY(output_open(&out, job, job->name, writer_tensor_bytes(job), err));
    CLEANUP(zip_writer_free) zip_writer z = zip_writer_of(&out);
    TRY(torch_begin(&z, &pickle, err));
    buffer_free(&pickle);
    TRY(write_storages(job, &z, err));
    TRY(torch_finish(&z, err));
    return output_end(&out, err);
}
