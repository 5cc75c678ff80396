/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of torch.save before PyTorch 1.6: five pickles (a magic number, a version, what the machine
 * was like, the object, the keys of the storages), and then for each key how many elements it has,
 * and these.
 */
#include "foreign/torch/object.h"
#include "foreign/torch/pickles.h"
#include "foreign/torch/read.h"
#include "foreign/torch/types.h"

#include <string.h>

#define VERSION 1001

typedef struct reading {
    archive *a;
    uint32_t file;
    pickle_stream stream;
    bool swapped;
    storage_table storages;
    buffer bytes, keys; /* of the object's pickle, and that of the keys */
    pickle_tree object, key_tree;
} reading;

/* A pickle of protocol 2 to 5, the later ones in a frame, of one number. */
bool torch_looks_like_stream(const uint8_t *head, size_t n) {
    static const uint8_t magic[] = {0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46, 0xf9,
                                    0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};
    const size_t at = n > 2 && head[2] == 0x95 ? 11 : 2;
    return n >= at + sizeof(magic) && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5 &&
           memcmp(head + at, magic, sizeof(magic)) == 0;
}

static pawl_status not_as_torch(uint64_t at, const char *what, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the file is not as torch.save wrote it: %s", what);
    error_range(err, at, 1);
    return PAWL_EDAMAGED;
}

static pawl_status find_storage(void *context, pickle_text key, torch_storage *out,
                                pawl_error *err) {
    const reading *r = context;
    const kept_storage *s = storages_find(&r->storages, key);
    if (s == NULL) {
        return error_set(err, PAWL_EDAMAGED, "the bytes of a tensor are not in the file");
    }
    *out = (torch_storage){
        .stream = r->file, .offset = s->offset, .bytes = s->bytes, .swapped = r->swapped};
    return PAWL_OK;
}

/* ---- what comes before the object ----------------------------------------------------------- */

static pawl_status read_machine(reading *r, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    pickle_tree tree;
    TRY(pickles_next(&r->stream, &bytes, &tree, err));
    const pickle_node *little = pickle_get(tree.root, "little_endian");
    r->swapped = little != NULL && little->kind == PICKLE_BOOL && !little->truth;
    pickle_free(&tree);
    return PAWL_OK;
}

static pawl_status read_head(reading *r, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    pickle_tree magic;
    uint64_t version;
    TRY(pickles_next(&r->stream, &bytes, &magic, err));
    pickle_free(&magic); /* it was looked at before */
    uint64_t at = r->stream.at;
    TRY(pickles_count(&r->stream, &version, err));
    if (version != VERSION) {
        error_set(err, PAWL_EUNSUPPORTED, "the file is of another version of torch.save");
        error_range(err, at, 1);
        error_expected(err, "%d", VERSION);
        error_found(err, "%llu", (unsigned long long)version);
        return PAWL_EUNSUPPORTED;
    }
    return read_machine(r, err);
}

/* ---- storages ------------------------------------------------------------------------------- */

/* How large the elements of each storage are, the object says: keys and classes. */
static pawl_status gather_classes(const reading *r, storage_table *out, pawl_error *err) {
    for (uint32_t i = 0; i < r->object.outside.count; i++) {
        const pickle_node *id = r->object.outside.nodes[i]->id;
        if (id->kind != PICKLE_TUPLE || id->items.count < 5 ||
            !pickle_says(id->items.nodes[0], "storage") ||
            id->items.nodes[1]->kind != PICKLE_GLOBAL || id->items.nodes[2]->kind != PICKLE_TEXT) {
            continue;
        }
        const torch_type *type = torch_type_of_storage(id->items.nodes[1]->global.name);
        pickle_text key = id->items.nodes[2]->text;
        TRY(storages_add(out, key, 0, type != NULL ? type->bytes : 1, err));
    }
    storages_sort(out);
    return PAWL_OK;
}

static pawl_status read_storage(reading *r, const storage_table *classes, const pickle_node *key,
                                pawl_error *err) {
    int64_t count;
    uint64_t bytes;
    uint64_t at = r->stream.at;
    const kept_storage *class = key->kind == PICKLE_TEXT ? storages_find(classes, key->text) : NULL;
    if (class == NULL) {
        return not_as_torch(at, "it has a storage that no tensor is in", err);
    }
    TRY(pickles_i64(&r->stream, &count, err));
    if (count < 0 || multiply_overflows((uint64_t)count, class->bytes, &bytes)) {
        return not_as_torch(at, "a storage has a size that cannot be", err);
    }
    uint64_t begin = r->stream.at;
    TRY(pickles_skip(&r->stream, bytes, err));
    return storages_add(&r->storages, key->text, begin, bytes, err);
}

static pawl_status read_storages(reading *r, pawl_error *err) {
    CLEANUP(storages_free) storage_table classes = {0};
    uint64_t at = r->stream.at;
    TRY(gather_classes(r, &classes, err));
    TRY(pickles_next(&r->stream, &r->keys, &r->key_tree, err));
    const pickle_node *keys = r->key_tree.root;
    if (keys->kind != PICKLE_LIST) {
        return not_as_torch(at, "it has no list of storages", err);
    }
    for (uint32_t i = 0; i < keys->items.count; i++) {
        TRY(read_storage(r, &classes, keys->items.nodes[i], err));
    }
    storages_sort(&r->storages);
    return PAWL_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static pawl_status read_stream(reading *r, pawl_error *err) {
    torch_source source = {.a = r->a, .context = r, .find = find_storage};
    TRY(read_head(r, err));
    TRY(pickles_next(&r->stream, &r->bytes, &r->object, err));
    source.bytes = r->object.bytes;
    archive_allow(r->a, r->object.bytes);
    TRY(read_storages(r, err));
    r->a->base.reads.bytes += r->object.bytes;
    return torch_add_object(&source, r->object.root, "", err);
}

pawl_status torch_stream_read(archive *a, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    reading r = {.a = a};
    TRY(archive_add_file(a, a->name, &r.file, err));
    TRY(archive_open_file(a, r.file, STORE_READ, &opened, err));
    TRY(store_source(opened, &r.stream.in, err));
    r.stream.end = r.stream.in.size;
    pawl_status status = read_stream(&r, err);
    pickle_free(&r.object);
    pickle_free(&r.key_tree);
    storages_free(&r.storages);
    buffer_free(&r.bytes);
    buffer_free(&r.keys);
    if (status != PAWL_OK && err->path[0] == '\0') {
        archive_error_file(a, r.file, err);
    }
    return status;
}
