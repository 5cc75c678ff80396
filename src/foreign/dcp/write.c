/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what torch.distributed.checkpoint reads: one .distcp file, in which each tensor and each
 * value is a file as torch.save makes it, and .metadata, a pickle that says where they are. It is
 * written last: without it there is no checkpoint.
 */
#include "foreign/dcp/write.h"
#include "foreign/pickle/write.h"
#include "foreign/torch/types.h"
#include "foreign/torch/write.h"

#include <stdlib.h>
#include <string.h>

#define DATA_FILE "__0_0.distcp"
#define METADATA  ".metadata"
#define MODULE    "torch.distributed.checkpoint.metadata"

/* Where an item is in the data file. */
typedef struct blob {
    uint64_t offset, bytes;
} blob;

typedef struct writing {
    const writer_job *job;
    char **fqns; /* of each item */
    blob *blobs;
    arena memory;
} writing;

/* ---- names ---------------------------------------------------------------------------------- */

static pawl_status make_fqn(writing *w, size_t i, pawl_error *err) {
    const char *name = w->job->items[i].name;
    char *fqn = arena_strdup(&w->memory, name);
    if (fqn == NULL) {
        return error_nomem(err, strlen(name) + 1);
    }
    torch_unescape(fqn);
    for (char *slash = strchr(fqn, '/'); slash != NULL; slash = strchr(slash, '/')) {
        *slash = '.';
    }
    w->fqns[i] = fqn;
    return PAWL_OK;
}

static int by_fqn(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static pawl_status check_fqns(const writing *w, pawl_error *err) {
    size_t n = w->job->count;
    AUTOFREE char **sorted = mem_dup(w->fqns, (n + 1) * sizeof(*sorted));
    if (sorted == NULL) {
        return error_nomem(err, n * sizeof(*sorted));
    }
    if (n > 1) {
        qsort(sorted, n, sizeof(*sorted), by_fqn);
    }
    for (size_t i = 1; i < n; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0) {
            error_set(err, PAWL_EUSAGE, "two entries would have one name in DCP, where / is a dot");
            error_entry(err, sorted[i]);
            error_next(err, "give one of them another name (rename)");
            return PAWL_EUSAGE;
        }
    }
    return PAWL_OK;
}

static pawl_status make_fqns(writing *w, pawl_error *err) {
    w->fqns = mem_calloc(w->job->count + 1, sizeof(*w->fqns));
    w->blobs = mem_calloc(w->job->count + 1, sizeof(*w->blobs));
    if (w->fqns == NULL || w->blobs == NULL) {
        return error_nomem(err, w->job->count * sizeof(*w->fqns));
    }
    for (size_t i = 0; i < w->job->count; i++) {
        TRY(make_fqn(w, i, err));
    }
    return check_fqns(w, err);
}

/* ---- the data file -------------------------------------------------------------------------- */

static pawl_status write_blob(const writing *w, const writer_item *item, zip_writer *z,
                              buffer *pickle, pawl_error *err) {
    bool tensor = item->kind == PAWL_KIND_TENSOR;
    pickle_memo memo = {.count = 0};
    char name[64];
    pickle->size = 0;
    TRY(pickle_begin(pickle, err));
    TRY(tensor ? torch_put_tensor(pickle, &memo, item, 0, err)
               : torch_put_value(pickle, item, err));
    TRY(pickle_end(pickle, err));
    TRY(torch_begin(z, pickle, err));
    if (tensor) {
        TRY(torch_begin_storage(z, 0, item->bytes, name, err));
        TRY(w->job->read(w->job->context, zip_take, z, err));
    }
    return torch_finish(z, err);
}

static pawl_status write_data(const writing *w, pawl_error *err) {
    CLEANUP(output_close) output out = {0};
    CLEANUP(buffer_free) buffer pickle = {0};
    TRY(output_open(&out, w->job, DATA_FILE, writer_tensor_bytes(w->job), err));
    for (size_t i = 0; i < w->job->count; i++) {
        CLEANUP(zip_writer_free) zip_writer z = zip_writer_of(&out);
        w->blobs[i].offset = out.at;
        TRY(write_blob(w, &w->job->items[i], &z, &pickle, err));
        w->blobs[i].bytes = out.at - w->blobs[i].offset;
    }
    return output_end(&out, err);
}

/* ---- .metadata ------------------------------------------------------------------------------ */

#define POP    '0'
#define BINPUT 'q'
#define BINGET 'h'

/* What each entry needs is there once, and is kept under these numbers. Texts have no module. */
static const struct known {
    const char *module, *name;
} known[] = {
    {NULL, "offsets"},
    {NULL, "sizes"},
    {NULL, "properties"},
    {NULL, "size"},
    {NULL, "chunks"},
    {NULL, "fqn"},
    {NULL, "offset"},
    {NULL, "index"},
    {NULL, "relative_path"},
    {NULL, "length"},
    {NULL, "torch.strided"},
    {NULL, DATA_FILE},
    {"torch", "Size"},
    {"torch.serialization", "_get_layout"},
    {MODULE, "TensorProperties"},
    {MODULE, "_MEM_FORMAT_ENCODING"},
    {MODULE, "ChunkStorageMetadata"},
    {MODULE, "BytesStorageMetadata"},
    {MODULE, "TensorStorageMetadata"},
    {MODULE, "MetadataIndex"},
    {"torch.distributed.checkpoint.filesystem", "_StorageInfo"},
};

static pawl_status put_word(buffer *p, const char *word, pawl_error *err) {
    return pickle_text(p, word, strlen(word), err);
}

static pawl_status put_named(buffer *p, const char *module, const char *name, pawl_error *err) {
    return module != NULL ? pickle_global(p, module, name, err) : put_word(p, name, err);
}

static pawl_status keep_known(buffer *p, pawl_error *err) {
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        const uint8_t keep[] = {BINPUT, (uint8_t)i, POP};
        TRY(put_named(p, known[i].module, known[i].name, err));
        TRY(buffer_append(p, keep, sizeof(keep), err));
    }
    return PAWL_OK;
}

/* A text (`module` NULL), or a class or function. */
static pawl_status put_known(buffer *p, const char *module, const char *name, pawl_error *err) {
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        if ((module == NULL) == (known[i].module == NULL) && strcmp(known[i].name, name) == 0) {
            const uint8_t get[] = {BINGET, (uint8_t)i};
            return buffer_append(p, get, sizeof(get), err);
        }
    }
    return put_named(p, module, name, err);
}

/* Begins an object, whose state is a dict that is to be filled. */
static pawl_status begin_object(buffer *p, const char *module, const char *name, pawl_error *err) {
    TRY(put_known(p, module, name, err));
    TRY(pickle_put(p, PICKLE_EMPTY_TUPLE, err));
    TRY(pickle_put(p, PICKLE_NEWOBJ, err));
    TRY(pickle_put(p, PICKLE_EMPTY_DICT, err));
    return pickle_put(p, PICKLE_MARK, err);
}

static pawl_status end_object(buffer *p, pawl_error *err) {
    TRY(pickle_put(p, PICKLE_SETITEMS, err));
    return pickle_put(p, PICKLE_BUILD, err);
}

/* torch.Size; `numbers` NULL: zeros. */
static pawl_status put_size(buffer *p, int ndim, const int64_t *numbers, pawl_error *err) {
    TRY(put_known(p, "torch", "Size", err));
    TRY(pickle_put(p, PICKLE_MARK, err));
    TRY(pickle_put(p, PICKLE_MARK, err));
    for (int d = 0; d < ndim; d++) {
        TRY(pickle_int(p, numbers != NULL ? numbers[d] : 0, err));
    }
    TRY(pickle_put(p, PICKLE_TUPLE, err));
    TRY(pickle_put(p, PICKLE_TUPLE, err));
    return pickle_put(p, PICKLE_REDUCE, err);
}

/* Its state is a tuple: dtype, layout, requires_grad, memory format, pin_memory. */
static pawl_status put_properties(buffer *p, pawl_dtype dtype, pawl_error *err) {
    TRY(put_known(p, MODULE, "TensorProperties", err));
    TRY(pickle_put(p, PICKLE_EMPTY_TUPLE, err));
    TRY(pickle_put(p, PICKLE_NEWOBJ, err));
    TRY(pickle_put(p, PICKLE_MARK, err));
    TRY(pickle_global(p, "torch", torch_type_of(dtype)->name, err));
    TRY(put_known(p, "torch.serialization", "_get_layout", err));
    TRY(pickle_put(p, PICKLE_MARK, err));
    TRY(put_known(p, NULL, "torch.strided", err));
    TRY(pickle_put(p, PICKLE_TUPLE, err));
    TRY(pickle_put(p, PICKLE_REDUCE, err));
    TRY(pickle_bool(p, false, err));
    TRY(put_known(p, MODULE, "_MEM_FORMAT_ENCODING", err));
    TRY(pickle_put(p, PICKLE_MARK, err));
    TRY(pickle_int(p, 0, err)); /* contiguous */
    TRY(pickle_put(p, PICKLE_TUPLE, err));
    TRY(pickle_put(p, PICKLE_REDUCE, err));
    TRY(pickle_bool(p, false, err));
    TRY(pickle_put(p, PICKLE_TUPLE, err));
    return pickle_put(p, PICKLE_BUILD, err);
}

static pawl_status put_chunks(buffer *p, const writer_item *item, pawl_error *err) {
    TRY(pickle_put(p, PICKLE_EMPTY_LIST, err));
    TRY(pickle_put(p, PICKLE_MARK, err));
    TRY(begin_object(p, MODULE, "ChunkStorageMetadata", err));
    TRY(put_known(p, NULL, "offsets", err));
    TRY(put_size(p, item->ndim, NULL, err));
    TRY(put_known(p, NULL, "sizes", err));
    TRY(put_size(p, item->ndim, item->shape, err));
    TRY(end_object(p, err));
    return pickle_put(p, PICKLE_APPENDS, err);
}

static pawl_status put_metadata_of(buffer *p, const writer_item *item, pawl_error *err) {
    if (item->kind != PAWL_KIND_TENSOR) {
        TRY(put_known(p, MODULE, "BytesStorageMetadata", err));
        TRY(pickle_put(p, PICKLE_EMPTY_TUPLE, err));
        return pickle_put(p, PICKLE_NEWOBJ, err);
    }
    TRY(begin_object(p, MODULE, "TensorStorageMetadata", err));
    TRY(put_known(p, NULL, "properties", err));
    TRY(put_properties(p, item->dtype, err));
    TRY(put_known(p, NULL, "size", err));
    TRY(put_size(p, item->ndim, item->shape, err));
    TRY(put_known(p, NULL, "chunks", err));
    TRY(put_chunks(p, item, err));
    return end_object(p, err);
}

/* The components of a name: the keys of the dicts that it was in. */
static pawl_status put_path(const writing *w, buffer *p, size_t i, pawl_error *err) {
    const char *at = w->job->items[i].name;
    TRY(pickle_put(p, PICKLE_MARK, err));
    for (const char *end = at; *end != '\0'; at = end + 1) {
        char key[PAWL_MAX_NAME_BYTES + 1];
        end = at + strcspn(at, "/");
        memcpy(key, at, (size_t)(end - at));
        key[end - at] = '\0';
        torch_unescape(key);
        TRY(put_word(p, key, err));
        if (*end == '\0') {
            break;
        }
    }
    return pickle_put(p, PICKLE_TUPLE, err);
}

static pawl_status put_storage_of(const writing *w, buffer *p, size_t i, pawl_error *err) {
    const writer_item *item = &w->job->items[i];
    bool tensor = item->kind == PAWL_KIND_TENSOR;
    TRY(begin_object(p, MODULE, "MetadataIndex", err));
    TRY(put_known(p, NULL, "fqn", err));
    TRY(put_word(p, w->fqns[i], err));
    TRY(put_known(p, NULL, "offset", err));
    TRY(tensor ? put_size(p, item->ndim, NULL, err) : pickle_none(p, err));
    TRY(put_known(p, NULL, "index", err));
    TRY(tensor ? pickle_int(p, 0, err) : pickle_none(p, err));
    TRY(end_object(p, err));
    TRY(begin_object(p, "torch.distributed.checkpoint.filesystem", "_StorageInfo", err));
    TRY(put_known(p, NULL, "relative_path", err));
    TRY(put_known(p, NULL, DATA_FILE, err));
    TRY(put_known(p, NULL, "offset", err));
    TRY(pickle_int(p, (int64_t)w->blobs[i].offset, err));
    TRY(put_known(p, NULL, "length", err));
    TRY(pickle_int(p, (int64_t)w->blobs[i].bytes, err));
    return end_object(p, err);
}

typedef enum column { OF_METADATA, OF_PATHS, OF_STORAGE } column;

/* A dict of all items. */
static pawl_status put_all(const writing *w, buffer *p, const char *name, column what,
                           pawl_error *err) {
    TRY(put_word(p, name, err));
    TRY(pickle_put(p, PICKLE_EMPTY_DICT, err));
    TRY(pickle_put(p, PICKLE_MARK, err));
    for (size_t i = 0; i < w->job->count; i++) {
        if (what == OF_STORAGE) {
            TRY(put_storage_of(w, p, i, err));
            continue;
        }
        TRY(put_word(p, w->fqns[i], err));
        TRY(what == OF_PATHS ? put_path(w, p, i, err) : put_metadata_of(p, &w->job->items[i], err));
    }
    return pickle_put(p, PICKLE_SETITEMS, err);
}

static pawl_status make_metadata(const writing *w, buffer *p, pawl_error *err) {
    TRY(pickle_begin(p, err));
    TRY(keep_known(p, err));
    TRY(begin_object(p, MODULE, "Metadata", err));
    TRY(put_all(w, p, "state_dict_metadata", OF_METADATA, err));
    TRY(put_all(w, p, "planner_data", OF_PATHS, err));
    TRY(put_all(w, p, "storage_data", OF_STORAGE, err));
    TRY(put_known(p, NULL, "storage_meta", err));
    TRY(pickle_none(p, err));
    TRY(put_known(p, NULL, "version", err));
    TRY(put_word(p, "1.0.0", err));
    TRY(end_object(p, err));
    return pickle_end(p, err);
}

static pawl_status write_metadata(const writing *w, pawl_error *err) {
    CLEANUP(output_close) output out = {0};
    CLEANUP(buffer_free) buffer pickle = {0};
    TRY(make_metadata(w, &pickle, err));
    TRY(output_open(&out, w->job, METADATA, 0, err));
    TRY(output_write(&out, pickle.data, pickle.size, err));
    return output_end(&out, err);
}

static pawl_status write_all(writing *w, pawl_error *err) {
    TRY(make_fqns(w, err));
    TRY(writer_begin_all(w->job, err));
    TRY(write_data(w, err));
    return write_metadata(w, err);
}

pawl_status dcp_write(const writer_job *job, pawl_error *err) {
    writing w = {.job = job};
    pawl_status status = write_all(&w, err);
    mem_free(w.fqns);
    mem_free(w.blobs);
    arena_free(&w.memory);
    return status;
}
