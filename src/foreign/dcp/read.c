/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a directory of torch.distributed.checkpoint: .metadata says where each chunk of each tensor
 * is, as a file of torch.save within a file. */
#include "foreign/dcp/read.h"
#include "foreign/torch/blob.h"
#include "foreign/torch/keys.h"
#include "foreign/torch/names.h"
#include "foreign/torch/sequences.h"
#include "foreign/torch/types.h"
#include "format/limits.h"

#include <stdlib.h>
#include <string.h>

#define MODULE "torch.distributed.checkpoint.metadata"

/* Where an item, or a chunk of it, is. */
typedef struct chunk {
    pickle_text fqn;
    const pickle_node *offset; /* of a tensor's */
    pickle_text path;
    uint32_t file;
    uint64_t at, bytes;
    bool taken; /* an item has it */
} chunk;

typedef struct reading {
    archive *a;
    const pickle_node *metadata; /* by FQN */
    const pickle_node *planner;  /* may be NULL */
    torch_sequences sequences;
    const pickle_node **paths; /* of the planner: key, value; ascending by key */
    size_t path_count;
    chunk *chunks; /* ascending by FQN */
    size_t chunk_count;
    store_file *opened; /* one of the files */
    uint32_t opened_file;
    byte_source in;
    archive_part *parts;
    int64_t *boxes; /* of them: offset and extent, PAWL_MAX_NDIM numbers each */
    size_t part_room, box_room;
} reading;

/* The same chunks for the verification, which has no names. */
typedef struct details {
    chunk *chunks;
    size_t count;
} details;

static int compare_texts(pickle_text a, pickle_text b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n > 0 ? memcmp(a.bytes, b.bytes, n) : 0;
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

static pawl_status not_as_dcp(const reading *r, const char *what, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED,
              "the metadata is not as torch.distributed.checkpoint writes it: %s", what);
    store_error_path(err, r->a->base.store, r->a->name);
    return PAWL_EDAMAGED;
}

static bool knows(const char *module, const char *name) {
    return torch_knows(module, name);
}

#define MOST_ATTRIBUTES 64u

/* An attribute of an object. All of them may share one dict: it must not be a large one. */
static const pickle_node *attribute(const pickle_node *object, const char *name) {
    const pickle_node *state = object->kind == PICKLE_CALL ? object->call->with->state : NULL;
    return state != NULL && state->kind == PICKLE_DICT && state->items.count <= 2 * MOST_ATTRIBUTES
               ? pickle_get(state, name)
               : NULL;
}

/* ---- where things are ----------------------------------------------------------------------- */

static bool take_chunk(const pickle_node *index, const pickle_node *info, chunk *out) {
    const pickle_node *fqn = attribute(index, "fqn");
    const pickle_node *path = attribute(info, "relative_path");
    const pickle_node *at = attribute(info, "offset");
    const pickle_node *bytes = attribute(info, "length");
    if (fqn == NULL || fqn->kind != PICKLE_TEXT || path == NULL || path->kind != PICKLE_TEXT ||
        at == NULL || at->kind != PICKLE_INT || at->integer < 0 || bytes == NULL ||
        bytes->kind != PICKLE_INT || bytes->integer < 0) {
        return false;
    }
    *out = (chunk){.fqn = fqn->text,
                   .offset = attribute(index, "offset"),
                   .path = path->text,
                   .at = (uint64_t)at->integer,
                   .bytes = (uint64_t)bytes->integer};
    return true;
}

static int by_fqn(const void *a, const void *b) {
    return compare_texts(((const chunk *)a)->fqn, ((const chunk *)b)->fqn);
}

static int by_place(const void *a, const void *b) {
    const chunk *left = a;
    const chunk *right = b;
    int order = compare_texts(left->path, right->path);
    return order != 0 ? order : (left->at > right->at) - (left->at < right->at);
}

static pawl_status is_missing(const archive *a, const char *path, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "a file that the metadata names is missing");
    store_error_path(err, a->base.store, path);
    error_expected(err, "a file, as %s says", a->name);
    error_found(err, "no such file");
    error_next(err, "get all files of the directory, from all nodes that saved");
    return PAWL_EDAMAGED;
}

static pawl_status wrong_chunk(const reading *r, const chunk *c, const char *what,
                               pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "a chunk is not what the metadata says: %s", what);
    archive_error_file(r->a, c->file, err);
    error_range(err, c->at, c->bytes);
    return PAWL_EDAMAGED;
}

/* A name in the same directory: ".." and "/" would lead elsewhere. */
static pawl_status add_file(const reading *r, pickle_text path, uint32_t *out, pawl_error *err) {
    char name[STORE_MAX_PATH];
    bool plain = path.n > 0 && path.n < sizeof(name) && path.bytes[0] != '.' &&
                 memchr(path.bytes, '/', path.n) == NULL && memchr(path.bytes, 0, path.n) == NULL;
    if (!plain) {
        (void)not_as_dcp(r, "it names a file outside of the directory", err);
        error_found(err, "\"%.*s\"", path.n < 200 ? (int)path.n : 200, path.bytes);
        return PAWL_EDAMAGED;
    }
    memcpy(name, path.bytes, path.n);
    name[path.n] = '\0';
    pawl_status status = archive_add_file(r->a, name, out, err);
    return status == PAWL_ENOTFOUND ? is_missing(r->a, name, err) : status;
}

/* Each item has bytes of its own: what describes it is read once for each. */
static pawl_status check_apart(const reading *r, const chunk *c, const chunk *before,
                               pawl_error *err) {
    if (c->bytes == 0 || c->at - before->at >= before->bytes) {
        return PAWL_OK;
    }
    (void)not_as_dcp(r, "two items are in the same bytes of a file", err);
    archive_error_file(r->a, c->file, err);
    error_range(err, c->at, c->bytes);
    error_expected(err, "one that begins at byte %llu or behind",
                   (unsigned long long)before->at + before->bytes);
    return PAWL_EDAMAGED;
}

static pawl_status add_files(reading *r, pawl_error *err) {
    if (r->chunk_count > 1) {
        qsort(r->chunks, r->chunk_count, sizeof(*r->chunks), by_place);
    }
    for (size_t i = 0; i < r->chunk_count; i++) {
        chunk *c = &r->chunks[i];
        if (i > 0 && compare_texts(c->path, c[-1].path) == 0) {
            c->file = c[-1].file;
            TRY(check_apart(r, c, &c[-1], err));
        } else {
            TRY(add_file(r, c->path, &c->file, err));
        }
    }
    if (r->chunk_count > 1) {
        qsort(r->chunks, r->chunk_count, sizeof(*r->chunks), by_fqn);
    }
    return PAWL_OK;
}

static pawl_status take_chunks(reading *r, const pickle_node *storage, pawl_error *err) {
    if (storage == NULL || storage->kind != PICKLE_DICT) {
        return not_as_dcp(r, "it does not say where the bytes are", err);
    }
    size_t n = storage->items.count / 2;
    r->chunks = mem_calloc(n + 1, sizeof(*r->chunks));
    if (r->chunks == NULL) {
        return error_nomem(err, n * sizeof(*r->chunks));
    }
    for (size_t i = 0; i < n; i++) {
        if (!take_chunk(storage->items.nodes[2 * i], storage->items.nodes[2 * i + 1],
                        &r->chunks[i])) {
            return not_as_dcp(r, "it does not say where the bytes of an item are", err);
        }
    }
    r->chunk_count = n;
    return add_files(r, err);
}

/* The first chunk of an item, and how many there are. */
static chunk *find_chunks(const reading *r, pickle_text fqn, size_t *n) {
    const chunk wanted = {.fqn = fqn};
    chunk *found = r->chunk_count > 0
                       ? bsearch(&wanted, r->chunks, r->chunk_count, sizeof(*r->chunks), by_fqn)
                       : NULL;
    *n = 0;
    if (found == NULL || found->taken) {
        return found;
    }
    while (found > r->chunks && compare_texts(found[-1].fqn, fqn) == 0) {
        found--;
    }
    while (found + *n < r->chunks + r->chunk_count && compare_texts(found[*n].fqn, fqn) == 0) {
        ++*n;
    }
    return found;
}

/* ---- names ---------------------------------------------------------------------------------- */

static int by_key(const void *a, const void *b) {
    const pickle_node *const *left = a;
    const pickle_node *const *right = b;
    return compare_texts((*left)->text, (*right)->text);
}

/* Keys and values beside each other, to be searched. */
static pawl_status sort_paths(reading *r, pawl_error *err) {
    size_t n =
        r->planner != NULL && r->planner->kind == PICKLE_DICT ? r->planner->items.count / 2 : 0;
    r->paths = mem_calloc(2 * n + 2, sizeof(void *));
    if (r->paths == NULL) {
        return error_nomem(err, 2 * n * sizeof(void *));
    }
    for (size_t i = 0; i < n; i++) {
        if (r->planner->items.nodes[2 * i]->kind == PICKLE_TEXT) {
            r->paths[2 * r->path_count] = r->planner->items.nodes[2 * i];
            r->paths[2 * r->path_count++ + 1] = r->planner->items.nodes[2 * i + 1];
        }
    }
    if (r->path_count > 1) {
        qsort(r->paths, r->path_count, 2 * sizeof(void *), by_key);
    }
    return PAWL_OK;
}

/* The same long text may be in it again and again. */
static pawl_status check_component(const reading *r, const buffer *name, const pickle_node *key,
                                   pawl_error *err) {
    if (key->kind == PICKLE_TEXT && key->text.n + name->size > PAWL_MAX_NAME_BYTES) {
        error_set(err, PAWL_EUNSUPPORTED, "the name of an item is too long");
        store_error_path(err, r->a->base.store, r->a->name);
        error_expected(err, "at most %d bytes", PAWL_MAX_NAME_BYTES);
        return PAWL_EUNSUPPORTED;
    }
    return PAWL_OK;
}

/* A number is a place in a list. DCP makes texts of keys that are numbers: a text that looks like
 * one is taken for it. */
static pawl_status put_component(reading *r, buffer *name, const pickle_node *key,
                                 pawl_error *err) {
    uint64_t visits = 0;
    size_t above = name->size;
    bool integer = key->kind == PICKLE_TEXT && torch_is_integer(key->text.bytes, key->text.n);
    TRY(check_component(r, name, key, err));
    if (key->kind == PICKLE_INT) {
        TRY(torch_sequences_note(&r->sequences, (const char *)name->data, above, TORCH_LIST, err));
    }
    TRY(buffer_append(name, "/", above > 0 ? 1 : 0, err));
    if (integer) {
        return buffer_append(name, key->text.bytes, key->text.n, err);
    }
    if (key->kind != PICKLE_TEXT && key->kind != PICKLE_INT) {
        return not_as_dcp(r, "a path has a component that is neither text nor number", err);
    }
    bool alone = r->metadata->items.count == 2 && pickle_says(key, "object");
    bool whole = above == 0 && (alone || pickle_says(key, TORCH_SEQUENCES));
    return torch_name_key(key, whole, name, &visits, err);
}

static pawl_status make_name(reading *r, pickle_text fqn, buffer *name, pawl_error *err) {
    const pickle_node key = {.kind = PICKLE_TEXT, .text = fqn};
    const pickle_node *wanted = &key;
    const pickle_node **found =
        r->path_count > 0 ? bsearch(&wanted, r->paths, r->path_count, 2 * sizeof(void *), by_key)
                          : NULL;
    const pickle_node *path = found != NULL ? found[1] : NULL;
    name->size = 0;
    if (path == NULL || (path->kind != PICKLE_TUPLE && path->kind != PICKLE_LIST) ||
        path->items.count == 0) {
        return put_component(r, name, &key, err);
    }
    for (size_t i = 0; i < path->items.count; i++) {
        TRY(put_component(r, name, path->items.nodes[i], err));
    }
    return PAWL_OK;
}

/* ---- items ---------------------------------------------------------------------------------- */

static pawl_status open_file_of(reading *r, const chunk *c, pawl_error *err) {
    if (r->opened != NULL && r->opened_file == c->file) {
        return PAWL_OK;
    }
    store_close(r->opened);
    r->opened = NULL;
    TRY(archive_open_file(r->a, c->file, STORE_READ, &r->opened, err));
    r->opened_file = c->file;
    return store_source(r->opened, &r->in, err);
}

static pawl_status open_blob(reading *r, const chunk *c, torch_blob *blob, pawl_error *err) {
    TRY(open_file_of(r, c, err));
    return torch_blob_open(blob, r->a, c->file, &r->in, c->at, c->bytes, NULL, err);
}

static pawl_status add_bytes(reading *r, const chunk *c, const char *name, pawl_error *err) {
    torch_blob blob;
    TRY(open_blob(r, c, &blob, err));
    blob.source.sequences = &r->sequences;
    pawl_status status = torch_add_object(&blob.source, blob.tree.root, name, err);
    torch_blob_close(&blob);
    return status;
}

static pawl_status take_part(reading *r, const chunk *c, torch_tensor *t, pawl_error *err) {
    torch_blob blob;
    bool is = false;
    TRY(open_blob(r, c, &blob, err));
    pawl_status status = torch_take_tensor(&blob.source, blob.tree.root, t, &is, err);
    torch_blob_close(&blob);
    if (status == PAWL_OK && !is) {
        error_set(err, PAWL_EUNSUPPORTED, "a chunk of a tensor is none that pawl can read");
        archive_error_file(r->a, c->file, err);
        error_range(err, c->at, c->bytes);
        return PAWL_EUNSUPPORTED;
    }
    return status;
}

/* A tensor with all of its chunks. */
static pawl_status add_tensor(reading *r, const pickle_node *about, chunk *chunks, size_t n,
                              const char *name, pawl_error *err) {
    const torch_type *type = NULL;
    int64_t shape[PAWL_MAX_NDIM];
    int ndim;
    if (!torch_take_size(attribute(about, "size"), &ndim, shape)) {
        return not_as_dcp(r, "a tensor has no size, or too many dimensions", err);
    }
    TRY(vec_reserve(&r->parts, &r->part_room, n + 1, sizeof(*r->parts), err));
    TRY(vec_reserve(&r->boxes, &r->box_room, (n + 1) * 2 * PAWL_MAX_NDIM, sizeof(*r->boxes), err));
    for (size_t i = 0; chunks != NULL && i < n; i++) {
        torch_tensor part;
        int64_t *offset = r->boxes + i * 2 * PAWL_MAX_NDIM;
        int offset_ndim;
        TRY(take_part(r, &chunks[i], &part, err));
        if (type != NULL && part.type != type) {
            return wrong_chunk(r, &chunks[i], "it has another type than the others", err);
        }
        type = part.type;
        if (chunks[i].offset == NULL || !torch_take_size(chunks[i].offset, &offset_ndim, offset) ||
            offset_ndim != ndim || part.ndim != ndim) {
            return wrong_chunk(r, &chunks[i], "it has another number of dimensions", err);
        }
        memcpy(offset + PAWL_MAX_NDIM, part.shape, (size_t)ndim * sizeof(*offset));
        r->parts[i] = part.part;
        r->parts[i].box_offset = offset;
        r->parts[i].box_extent = offset + PAWL_MAX_NDIM;
    }
    if (type == NULL) {
        return not_as_dcp(r, "it does not say where a tensor is", err);
    }
    const archive_tensor tensor = {.name = name,
                                   .dtype = type->dtype,
                                   .type = type->type,
                                   .ndim = ndim,
                                   .shape = shape,
                                   .parts = r->parts,
                                   .part_count = n};
    return archive_add_tensor(r->a, &tensor, err);
}

static pawl_status add_item(reading *r, const pickle_node *fqn, const pickle_node *about,
                            buffer *name, pawl_error *err) {
    size_t n;
    if (fqn->kind != PICKLE_TEXT) {
        return not_as_dcp(r, "a name is no text", err);
    }
    chunk *chunks = find_chunks(r, fqn->text, &n);
    if (chunks != NULL && chunks->taken) {
        return not_as_dcp(r, "an item is there twice", err);
    }
    for (size_t i = 0; chunks != NULL && i < n; i++) {
        chunks[i].taken = true;
    }
    TRY(make_name(r, fqn->text, name, err));
    if (pickle_is_call(about, MODULE, "TensorStorageMetadata")) {
        return add_tensor(r, about, chunks, n, (const char *)name->data, err);
    }
    if (n == 0) {
        return not_as_dcp(r, "it does not say where an item is", err);
    }
    return add_bytes(r, chunks, (const char *)name->data, err);
}

static pawl_status add_items(reading *r, pawl_error *err) {
    CLEANUP(buffer_free) buffer name = {0};
    if (r->metadata == NULL || r->metadata->kind != PICKLE_DICT) {
        return not_as_dcp(r, "it has no state_dict_metadata", err);
    }
    for (size_t i = 0; i + 1 < r->metadata->items.count; i += 2) {
        pawl_status status =
            add_item(r, r->metadata->items.nodes[i], r->metadata->items.nodes[i + 1], &name, err);
        if (status != PAWL_OK) {
            if (status != PAWL_ENOMEM && err->entry[0] == '\0' && name.size > 0) {
                error_entry(err, (const char *)name.data);
            }
            return status;
        }
    }
    return PAWL_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static pawl_status read_tree(reading *r, const pickle_node *root, pawl_error *err) {
    if (!pickle_is_call(root, MODULE, "Metadata")) {
        return not_as_dcp(r, "it is no Metadata", err);
    }
    r->metadata = attribute(root, "state_dict_metadata");
    r->planner = attribute(root, "planner_data");
    TRY(take_chunks(r, attribute(root, "storage_data"), err));
    TRY(sort_paths(r, err));
    TRY(add_items(r, err));
    return torch_sequences_add(&r->sequences, r->a, err);
}

static void free_details(void *context) {
    details *d = context;
    mem_free(d->chunks);
    mem_free(d);
}

static pawl_status keep_details(reading *r, pawl_error *err) {
    details *d = mem_calloc(1, sizeof(*d));
    if (d == NULL) {
        return error_nomem(err, sizeof(*d));
    }
    *d = (details){.chunks = r->chunks, .count = r->chunk_count};
    r->chunks = NULL;
    r->a->details = d;
    r->a->free_details = free_details;
    return PAWL_OK;
}

static void reading_free(reading *r) {
    store_close(r->opened);
    mem_free(r->chunks);
    mem_free(r->paths);
    mem_free(r->parts);
    mem_free(r->boxes);
    torch_sequences_free(&r->sequences);
}

pawl_status dcp_read(archive *a, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    CLEANUP(reading_free) reading r = {.a = a};
    pickle_tree tree;
    TRY(archive_read_description(a, a->name, FOREIGN_MAX_PICKLE, &text, err));
    archive_allow(a, text.size);
    pawl_status status = pickle_read(text.data, text.size, 0, knows, &tree, err);
    if (status == PAWL_OK) {
        status = read_tree(&r, tree.root, err);
        pickle_free(&tree);
    }
    if (status != PAWL_OK) {
        if (err->path[0] == '\0') {
            store_error_path(err, a->base.store, a->name);
        }
        return status;
    }
    return keep_details(&r, err);
}

/* ---- verifying ------------------------------------------------------------------------------ */

static pawl_status go_on(void *context, pawl_error *err) {
    source_verifier *v = context;
    return v->progress(v->context, 0, err);
}

static pawl_status check_blob(const chunk *c, torch_blob *blob, source_verifier *v,
                              pawl_error *err) {
    const zip_parts parts = {.read = v->parts, .file = c->file, .at = c->at};
    for (size_t i = 0; i < blob->zip->count; i++) {
        TRY(zip_check_member(&blob->bytes, &blob->zip->members[i], &parts, go_on, v, err));
    }
    return PAWL_OK;
}

pawl_status dcp_verify(archive *a, source_verifier *v, pawl_error *err) {
    const details *d = a->details;
    CLEANUP(reading_free) reading r = {.a = a};
    for (size_t i = 0; i < d->count; i++) {
        const chunk *c = &d->chunks[i];
        struct pawl_error story = ERROR_INIT;
        torch_blob blob;
        if (!source_parts_touch(v->parts, c->file, c->at, c->at + c->bytes)) {
            continue;
        }
        pawl_status status = open_blob(&r, c, &blob, &story);
        if (status == PAWL_OK) {
            status = check_blob(c, &blob, v, &story);
            torch_blob_close(&blob);
        }
        if (status == PAWL_ECANCELED || status == PAWL_ENOMEM || status == PAWL_EBUSY) {
            *err = story;
            return status;
        }
        if (status != PAWL_OK) {
            error_range(&story, c->at + (story.has_range ? story.offset : 0),
                        story.has_range ? story.length : c->bytes);
            archive_error_file(a, c->file, &story);
            v->problem(v->context, a->files[c->file].path, NULL, &story);
        }
    }
    return PAWL_OK;
}
