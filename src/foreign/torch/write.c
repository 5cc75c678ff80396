/* SPDX-License-Identifier: Apache-2.0 */
/* Writes files as torch.save makes them: a zip of a pickle and the bytes of each storage. */
#include "foreign/torch/write.h"
#include "foreign/torch/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64u

const char *torch_refuses(const writer_item *item) {
    bool fits = item->kind != PAWL_KIND_TENSOR || torch_type_of(item->dtype) != NULL;
    return fits ? NULL : "PyTorch has no such type";
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
        return pickle_json(p, (const char *)item->value, item->value_bytes, err);
    default:
        return pickle_bytes(p, item->value, item->value_bytes, err);
    }
}

/* ---- nested dicts --------------------------------------------------------------------------- */

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

void torch_unescape(char *name) {
    size_t n = strlen(name);
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        bool two = name[i] == '%' && i + 2 < n;
        int high = two ? hex_digit(name[i + 1]) : -1;
        int low = two ? hex_digit(name[i + 2]) : -1;
        bool escaped = high >= 0 && high < 8 && low >= 0 && (high > 0 || low > 0);
        if (escaped) {
            name[at++] = (char)(high * 16 + low);
            i += 2;
        } else {
            name[at++] = name[i];
        }
    }
    name[at] = '\0';
}

static pawl_status put_key(buffer *p, const char *text, size_t n, pawl_error *err) {
    char key[PAWL_MAX_NAME_BYTES + 1];
    memcpy(key, text, n);
    key[n] = '\0';
    torch_unescape(key);
    return put_word(p, key, err);
}

typedef struct nesting {
    buffer *pickle;
    pickle_memo memo; /* of it */
    const writer_job *job;
    const char *open;  /* a name that begins with the path of the innermost dict that is open */
    size_t open_bytes; /* of that path; with a "/" at its end, unless it is empty */
    size_t tensors;
} nesting;

/* Does some other item have the name that a dict would need? Then there is none, and "/" is part
 * of a key. */
static bool is_an_item(const nesting *n, const char *name, size_t length) {
    size_t low = 0;
    size_t high = n->job->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *other = n->job->items[middle].name;
        int order = strncmp(other, name, length);
        order = order == 0 && other[length] != '\0' ? 1 : order;
        if (order == 0) {
            return true;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return false;
}

static pawl_status close_dict(nesting *n, pawl_error *err) {
    size_t at = n->open_bytes - 1; /* of the "/" */
    do {
        while (at > 0 && n->open[at - 1] != '/') {
            at--;
        }
        if (at > 0 && is_an_item(n, n->open, at - 1)) {
            at--; /* that "/" is part of a key */
            continue;
        }
        break;
    } while (at > 0);
    n->open_bytes = at;
    return pickle_put(n->pickle, PICKLE_SETITEMS, err);
}

/* Opens the dicts that the name is in. *key is where its own key begins. */
static pawl_status open_dicts(nesting *n, const char *name, const char **key, pawl_error *err) {
    const char *begin = name + n->open_bytes;
    for (const char *slash = strchr(begin, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        if (is_an_item(n, name, (size_t)(slash - name))) {
            continue;
        }
        TRY(put_key(n->pickle, begin, (size_t)(slash - begin), err));
        TRY(pickle_put(n->pickle, PICKLE_EMPTY_DICT, err));
        TRY(pickle_put(n->pickle, PICKLE_MARK, err));
        begin = slash + 1;
        n->open_bytes = (size_t)(begin - name);
    }
    n->open = name;
    *key = begin;
    return PAWL_OK;
}

static pawl_status put_item(nesting *n, const writer_item *item, pawl_error *err) {
    const char *key;
    while (n->open_bytes > 0 && strncmp(n->open, item->name, n->open_bytes) != 0) {
        TRY(close_dict(n, err));
    }
    TRY(open_dicts(n, item->name, &key, err));
    TRY(put_key(n->pickle, key, strlen(key), err));
    return item->kind == PAWL_KIND_TENSOR
               ? torch_put_tensor(n->pickle, &n->memo, item, n->tensors++, err)
               : torch_put_value(n->pickle, item, err);
}

/* ---- keys that would be the same ------------------------------------------------------------ */

#define SEPARATOR '\xff' /* no byte of a name, nor of a key */

/* The keys on the way to an item, as one text. */
static char *path_of(const nesting *n, const char *name, arena *memory) {
    char *path = arena_strdup(memory, name);
    for (char *slash = path != NULL ? strchr(path, '/') : NULL; slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = is_an_item(n, name, (size_t)(slash - path)) ? '/' : SEPARATOR;
    }
    if (path != NULL) {
        torch_unescape(path);
    }
    return path;
}

static int by_path(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names differ, but "a%2Fb" and "a/b" may become one key. */
static pawl_status check_paths(const nesting *n, arena *memory, pawl_error *err) {
    size_t count = n->job->count;
    AUTOFREE char **paths = mem_calloc(count + 1, sizeof(*paths));
    if (paths == NULL) {
        return error_nomem(err, count * sizeof(*paths));
    }
    for (size_t i = 0; i < count; i++) {
        paths[i] = path_of(n, n->job->items[i].name, memory);
        if (paths[i] == NULL) {
            return error_nomem(err, PAWL_MAX_NAME_BYTES);
        }
    }
    if (count > 1) {
        qsort(paths, count, sizeof(*paths), by_path);
    }
    for (size_t i = 1; i < count; i++) {
        if (strcmp(paths[i - 1], paths[i]) == 0) {
            for (char *at = paths[i]; *at != '\0'; at++) {
                *at = *at == SEPARATOR ? '/' : *at;
            }
            error_set(err, PAWL_EUSAGE, "two entries would have one key in PyTorch");
            error_entry(err, paths[i]);
            error_next(err, "give one of them another name (rename)");
            return PAWL_EUSAGE;
        }
    }
    return PAWL_OK;
}

static pawl_status check_keys(const writer_job *job, pawl_error *err) {
    const nesting n = {.job = job};
    arena memory = {0};
    pawl_status status = check_paths(&n, &memory, err);
    arena_free(&memory);
    return status;
}

static pawl_status make_pickle(const writer_job *job, buffer *pickle, pawl_error *err) {
    nesting n = {.pickle = pickle, .job = job};
    TRY(pickle_begin(pickle, err));
    TRY(pickle_put(pickle, PICKLE_EMPTY_DICT, err));
    TRY(pickle_put(pickle, PICKLE_MARK, err));
    for (size_t i = 0; i < job->count; i++) {
        TRY(put_item(&n, &job->items[i], err));
    }
    while (n.open_bytes > 0) {
        TRY(close_dict(&n, err));
    }
    TRY(pickle_put(pickle, PICKLE_SETITEMS, err));
    return pickle_end(pickle, err);
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
    TRY(check_keys(job, err));
    TRY(writer_begin_all(job, err));
    TRY(make_pickle(job, &pickle, err));
    TRY(output_open(&out, job, job->name, writer_tensor_bytes(job), err));
    CLEANUP(zip_writer_free) zip_writer z = zip_writer_of(&out);
    TRY(torch_begin(&z, &pickle, err));
    TRY(write_storages(job, &z, err));
    TRY(torch_finish(&z, err));
    return output_end(&out, err);
}
