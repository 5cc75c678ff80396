/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes what torch.distributed.checkpoint reads: one .distcp file, in which each tensor and each
 * value is a file as torch.save makes it, and .metadata, a pickle that says where they are. It is
 * written last: without it there is no checkpoint.
 */
#include "foreign/dcp/write.h"
#include "foreign/pickle/write.h"
#include "foreign/torch/keys.h"
#include "foreign/torch/nest.h"
#include "foreign/torch/types.h"
#include "foreign/torch/value.h"
#include "foreign/torch/write.h"

#include <stdlib.h>
#include <string.h>

#define DATA_FILE "__0_0.distcp"
#define METADATA  ".metadata"
#define MODULE    "torch.distributed.checkpoint.metadata"
#define KEPT      ((size_t)1 << 16) /* bytes of the metadata, before they are written */

/* What DCP has as one: an item, or a tuple with all that is in it. */
typedef struct unit {
    char *fqn;
    size_t low, high; /* of the nest's items */
    size_t prefix;    /* where names go on in it; 0: it is one item, */
    json_span json;   /* or a part of its value */
    size_t path, path_bytes;
    uint64_t offset, bytes; /* in the data file */
} unit;

typedef struct writing {
    const writer_job *job;
    nest nest;
    unit *units;
    size_t count, room;
    buffer fqn;      /* of where the walk is */
    buffer path;     /* the same, as keys that are pushed */
    buffer paths;    /* of all units */
    output metadata; /* what is written of it, before what the pickle has */
    arena memory;
} writing;

/* ---- names ---------------------------------------------------------------------------------- */

static pawl_status add_unit(writing *w, const unit *found, pawl_error *err) {
    TRY(vec_reserve(&w->units, &w->room, w->count + 1, sizeof(*w->units), err));
    unit *u = &w->units[w->count++];
    *u = *found;
    u->fqn = arena_strdup(&w->memory, w->fqn.size > 0 ? (const char *)w->fqn.data : "");
    u->path = w->paths.size;
    u->path_bytes = w->path.size;
    if (u->fqn == NULL) {
        return error_nomem(err, w->fqn.size);
    }
    return buffer_append(&w->paths, w->path.data, w->path.size, err);
}

static pawl_status go_to(writing *w, const char *key, size_t n, pawl_error *err) {
    TRY(buffer_append(&w->fqn, ".", w->path.size > 0 ? 1 : 0, err));
    return buffer_append(&w->fqn, key, n, err);
}

/* Goes down to a key; DCP makes texts of all but places in lists. */
static pawl_status go_down(writing *w, const char *component, size_t n, bool place,
                           pawl_error *err) {
    char key[PAWL_MAX_NAME_BYTES + 1];
    size_t bytes = n;
    memcpy(key, component, n);
    (void)torch_key_of(key, &bytes);
    if (memchr(key, 0, bytes) != NULL) { /* an FQN is a text of C here */
        memcpy(key, component, n);
        bytes = n;
    }
    TRY(go_to(w, key, bytes, err));
    return place ? pickle_json_scalar(&w->path, (json_span){key, bytes}, err)
                 : pickle_text(&w->path, key, bytes, err);
}

static void go_back(writing *w, size_t fqn, size_t path) {
    w->fqn.size = fqn;
    w->path.size = path;
    if (fqn > 0) {
        w->fqn.data[fqn] = 0;
    }
}

/* Would DCP take a list as one thing? Not where there is a tensor or a dict in it. */
static bool is_one(const writing *w, size_t low, size_t high, size_t prefix) {
    const nest *n = &w->nest;
    for (size_t i = low; i < high;) {
        size_t end, key;
        bool leaf;
        nest_child(n, i, high, prefix, &end, &key, &leaf);
        size_t below = prefix + key + 1;
        if (leaf && n->items[i].kind == PAWL_KIND_TENSOR) {
            return false;
        }
        torch_sequence kind =
            leaf ? TORCH_TUPLE : torch_sequence_of(&n->sequences, n->items, i, end, below);
        if (kind == TORCH_DICT || (kind == TORCH_LIST && !is_one(w, i, end, below))) {
            return false;
        }
        i = end;
    }
    return true;
}

/* ---- what DCP takes apart, in a value ------------------------------------------------------- */

/* A dict, and none that is described. */
static bool is_dict(json_span span) {
    json_span tag = {NULL, 0};
    json_field field = {.key = "$", .to = &tag, .type = FIELD_ANY};
    json_reader r = json_reader_of(span.text, span.n);
    return json_peek(&r) == '{' && json_fields(span.text, span.n, &field, 1) &&
           field.found == FIELD_ABSENT;
}

/* A list with a dict in it, or in a list that is in it. */
static bool has_dict(json_span list) {
    json_reader r = json_reader_of(list.text, list.n);
    json_span one;
    bool more = json_peek(&r) == '[' && json_enter(&r, '[') == PAWL_OK;
    r.nul = true;
    while (more && json_element(&r, &more) == PAWL_OK && more && json_skip(&r, &one) == PAWL_OK) {
        if (is_dict(one) || has_dict(one)) {
            return true;
        }
    }
    return false;
}

static pawl_status add_part(writing *w, size_t i, json_span span, pawl_error *err);

static pawl_status add_elements(writing *w, size_t i, json_span list, pawl_error *err) {
    json_reader r = json_reader_for(list.text, list.n, 0, "value", err);
    size_t fqn = w->fqn.size;
    size_t path = w->path.size;
    r.nul = true;
    TRY(json_enter(&r, '['));
    for (int64_t place = 0;; place++) {
        char text[DECIMAL_DIGITS + 1];
        json_span one;
        bool more = false;
        TRY(json_element(&r, &more));
        if (!more) {
            return PAWL_OK;
        }
        TRY(json_skip(&r, &one));
        TRY(go_to(w, text, text_decimal(text, (uint64_t)place), err));
        TRY(pickle_int(&w->path, place, err));
        TRY(add_part(w, i, one, err));
        go_back(w, fqn, path);
    }
}

static pawl_status add_members(writing *w, size_t i, json_span dict, pawl_error *err) {
    CLEANUP(buffer_free) buffer key = {0};
    json_reader r = json_reader_for(dict.text, dict.n, 0, "value", err);
    size_t fqn = w->fqn.size;
    size_t path = w->path.size;
    TRY(json_enter(&r, '{'));
    for (;;) {
        json_span one;
        bool more = false;
        TRY(json_key(&r, &key, &more, err));
        if (!more) {
            return PAWL_OK;
        }
        TRY(json_skip(&r, &one));
        const char *text = key.size > 0 ? (const char *)key.data : "";
        TRY(go_to(w, text, key.size, err));
        TRY(pickle_text(&w->path, text, key.size, err));
        TRY(add_part(w, i, one, err));
        go_back(w, fqn, path);
    }
}

static pawl_status add_part(writing *w, size_t i, json_span span, pawl_error *err) {
    const unit found = {.low = i, .high = i + 1, .json = span};
    bool empty = span.n < 4 && span.text[span.n - 1] == '}';
    if (is_dict(span) && !empty) {
        return add_members(w, i, span, err);
    }
    return has_dict(span) ? add_elements(w, i, span, err) : add_unit(w, &found, err);
}

static pawl_status add_leaf(writing *w, size_t i, pawl_error *err) {
    const writer_item *item = &w->nest.items[i];
    const unit found = {.low = i, .high = i + 1};
    json_span span = {(const char *)item->value, item->value_bytes};
    bool apart = item->kind == PAWL_KIND_JSON && has_dict(span) &&
                 memchr(span.text, 0, span.n) == NULL && strstr(span.text, "\\u0000") == NULL;
    return apart ? add_elements(w, i, span, err) : add_unit(w, &found, err);
}

static pawl_status find_units(writing *w, size_t low, size_t high, size_t prefix, bool list,
                              pawl_error *err);

static pawl_status find_unit(writing *w, size_t low, size_t high, size_t prefix, bool leaf,
                             pawl_error *err) {
    const nest *n = &w->nest;
    const unit found = {.low = low, .high = high, .prefix = prefix};
    if (leaf) {
        return add_leaf(w, low, err);
    }
    torch_sequence kind = torch_sequence_of(&n->sequences, n->items, low, high, prefix);
    bool one = kind == TORCH_TUPLE || kind == TORCH_SET ||
               (kind == TORCH_LIST && is_one(w, low, high, prefix));
    return one ? add_unit(w, &found, err)
               : find_units(w, low, high, prefix, kind == TORCH_LIST, err);
}

static pawl_status find_units(writing *w, size_t low, size_t high, size_t prefix, bool list,
                              pawl_error *err) {
    for (size_t i = low; i < high;) {
        size_t end, n;
        bool leaf;
        size_t fqn = w->fqn.size;
        size_t path = w->path.size;
        nest_child(&w->nest, i, high, prefix, &end, &n, &leaf);
        TRY(go_down(w, w->nest.items[i].name + prefix, n, list, err));
        TRY(find_unit(w, i, end, prefix + n + 1, leaf, err));
        go_back(w, fqn, path);
        i = end;
    }
    return PAWL_OK;
}

static int by_fqn(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static pawl_status check_fqns(const writing *w, pawl_error *err) {
    size_t n = w->count;
    AUTOFREE char **sorted = mem_calloc(n + 1, sizeof(*sorted));
    if (sorted == NULL) {
        return error_nomem(err, n * sizeof(*sorted));
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = w->units[i].fqn;
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

/* ---- the data file -------------------------------------------------------------------------- */

static pawl_status put_unit(const writing *w, const unit *u, buffer *pickle, pawl_error *err) {
    const writer_item *item = &w->nest.items[u->low];
    if (u->json.n > 0) {
        return torch_put_python(pickle, u->json.text, u->json.n, err);
    }
    if (u->prefix > 0) {
        return nest_put(&w->nest, pickle, u->low, u->high, u->prefix, true, err);
    }
    pickle_memo memo = {.count = 0};
    return item->kind == PAWL_KIND_TENSOR ? torch_put_tensor(pickle, &memo, item, 0, err)
                                          : torch_put_value(pickle, item, err);
}

/* A file as torch.save makes it. */
static pawl_status write_unit(const writing *w, const unit *u, zip_writer *z, buffer *pickle,
                              pawl_error *err) {
    size_t number = 0;
    pickle->size = 0;
    TRY(pickle_begin(pickle, err));
    TRY(put_unit(w, u, pickle, err));
    TRY(pickle_end(pickle, err));
    TRY(torch_begin(z, pickle, err));
    for (size_t i = u->low; i < u->high; i++) {
        const writer_item *item = &w->nest.items[i];
        char name[64];
        if (item->kind == PAWL_KIND_TENSOR) {
            TRY(torch_begin_storage(z, number++, item->bytes, name, err));
            TRY(w->job->read(w->job->context, zip_take, z, err));
        }
    }
    return torch_finish(z, err);
}

static pawl_status write_data(const writing *w, pawl_error *err) {
    CLEANUP(output_close) output out = {0};
    CLEANUP(buffer_free) buffer pickle = {0};
    TRY(output_open(&out, w->job, DATA_FILE, writer_tensor_bytes(w->job), err));
    for (size_t i = 0; i < w->count; i++) {
        CLEANUP(zip_writer_free) zip_writer z = zip_writer_of(&out);
        unit *u = &w->units[i];
        u->offset = out.at;
        TRY(write_unit(w, u, &z, &pickle, err));
        u->bytes = out.at - u->offset;
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
    if (item == NULL) {
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

/* The keys of the dicts that it was in, and places of lists. */
static pawl_status put_path(const writing *w, buffer *p, const unit *u, pawl_error *err) {
    TRY(pickle_put(p, PICKLE_MARK, err));
    TRY(buffer_append(p, w->paths.data + u->path, u->path_bytes, err));
    return pickle_put(p, PICKLE_TUPLE, err);
}

/* NULL: it is no tensor. */
static const writer_item *tensor_of(const writing *w, const unit *u) {
    const writer_item *item = &w->nest.items[u->low];
    return u->prefix == 0 && u->json.n == 0 && item->kind == PAWL_KIND_TENSOR ? item : NULL;
}

static pawl_status put_storage_of(const writing *w, buffer *p, const unit *u, pawl_error *err) {
    const writer_item *item = tensor_of(w, u);
    TRY(begin_object(p, MODULE, "MetadataIndex", err));
    TRY(put_known(p, NULL, "fqn", err));
    TRY(put_word(p, u->fqn, err));
    TRY(put_known(p, NULL, "offset", err));
    TRY(item != NULL ? put_size(p, item->ndim, NULL, err) : pickle_none(p, err));
    TRY(put_known(p, NULL, "index", err));
    TRY(item != NULL ? pickle_int(p, 0, err) : pickle_none(p, err));
    TRY(end_object(p, err));
    TRY(begin_object(p, "torch.distributed.checkpoint.filesystem", "_StorageInfo", err));
    TRY(put_known(p, NULL, "relative_path", err));
    TRY(put_known(p, NULL, DATA_FILE, err));
    TRY(put_known(p, NULL, "offset", err));
    TRY(pickle_int(p, (int64_t)u->offset, err));
    TRY(put_known(p, NULL, "length", err));
    TRY(pickle_int(p, (int64_t)u->bytes, err));
    return end_object(p, err);
}

typedef enum column { OF_METADATA, OF_PATHS, OF_STORAGE } column;

/* What is pickled of many items is written now and then. */
static pawl_status write_some(writing *w, buffer *p, size_t least, pawl_error *err) {
    if (p->size >= least) {
        TRY(output_write(&w->metadata, p->data, p->size, err));
        p->size = 0;
    }
    return PAWL_OK;
}

/* A dict of all units. */
static pawl_status put_all(writing *w, buffer *p, const char *name, column what, pawl_error *err) {
    TRY(put_word(p, name, err));
    TRY(pickle_put(p, PICKLE_EMPTY_DICT, err));
    TRY(pickle_put(p, PICKLE_MARK, err));
    for (size_t i = 0; i < w->count; i++) {
        const unit *u = &w->units[i];
        TRY(write_some(w, p, KEPT, err));
        if (what == OF_STORAGE) {
            TRY(put_storage_of(w, p, u, err));
            continue;
        }
        TRY(put_word(p, u->fqn, err));
        TRY(what == OF_PATHS ? put_path(w, p, u, err) : put_metadata_of(p, tensor_of(w, u), err));
    }
    return pickle_put(p, PICKLE_SETITEMS, err);
}

static pawl_status make_metadata(writing *w, buffer *p, pawl_error *err) {
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

static pawl_status write_metadata(writing *w, pawl_error *err) {
    CLEANUP(buffer_free) buffer pickle = {0};
    TRY(output_open(&w->metadata, w->job, METADATA, 0, err));
    TRY(make_metadata(w, &pickle, err));
    TRY(write_some(w, &pickle, 0, err));
    return output_end(&w->metadata, err);
}

static pawl_status write_all(writing *w, pawl_error *err) {
    TRY(nest_begin(&w->nest, w->job, err));
    TRY(find_units(w, 0, w->nest.count, 0, false, err));
    TRY(check_fqns(w, err));
    TRY(writer_begin_all(w->job, err));
    TRY(write_data(w, err));
    return write_metadata(w, err);
}

pawl_status dcp_write(const writer_job *job, pawl_error *err) {
    writing w = {.job = job};
    pawl_status status = write_all(&w, err);
    output_close(&w.metadata);
    nest_end(&w.nest);
    mem_free(w.units);
    buffer_free(&w.fqn);
    buffer_free(&w.path);
    buffer_free(&w.paths);
    arena_free(&w.memory);
    return status;
}
