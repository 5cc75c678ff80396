/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first files of PyTorch: a tar. Its member `storages` has, behind their number, a pickle (key,
 * location, class) of each, how many elements it has, and these; then a list of those that are
 * parts of others: (key, key of the other, first element, elements). `tensors`, if there is one,
 * has a pickle (key, key of the storage, class) of each, and its sizes, strides and offset.
 * `pickle` is the object, which names tensors by their keys, or storages.
 */
#include "foreign/torch/object.h"
#include "foreign/torch/pickles.h"
#include "foreign/torch/read.h"
#include "foreign/torch/types.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAR_BLOCK    512u
#define MOST_MEMBERS 1000u

typedef struct kept_tensor {
    char key[64];
    torch_tensor tensor;
} kept_tensor;

typedef struct reading {
    archive *a;
    uint32_t file;
    byte_source in;
    pickle_stream storages, tensors, object;
    storage_table table; /* of storages, by their keys as decimals */
    kept_tensor *kept;   /* ascending by key */
    size_t kept_count, kept_room;
} reading;

bool torch_looks_like_tar(const uint8_t *head, size_t n) {
    static const char *const names[] = {"sys_info", "storages", "tensors", "pickle"};
    if (n < TAR_BLOCK || memcmp(head + 257, "ustar", 5) != 0) {
        return false;
    }
    const char *name = (const char *)head + (head[0] == '.' && head[1] == '/' ? 2 : 0);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        if (strncmp(name, names[i], strlen(names[i]) + 1) == 0) {
            return true;
        }
    }
    return false;
}

static pawl_status not_as_torch(uint64_t at, const char *what, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "the tar is not as torch.save wrote it: %s", what);
    error_range(err, at, 1);
    return PAWL_EDAMAGED;
}

/* ---- members -------------------------------------------------------------------------------- */

static bool take_octal(const uint8_t *text, size_t n, uint64_t *out) {
    *out = 0;
    size_t i = 0;
    while (i < n && text[i] == ' ') {
        i++;
    }
    for (; i < n && text[i] >= '0' && text[i] <= '7'; i++) {
        if (*out > UINT64_MAX / 8) {
            return false;
        }
        *out = *out * 8 + (uint64_t)(text[i] - '0');
    }
    return i == n || text[i] == ' ' || text[i] == '\0';
}

static pickle_stream *member_of(reading *r, const char *name) {
    const char *plain = strncmp(name, "./", 2) == 0 ? name + 2 : name;
    return strcmp(plain, "storages") == 0  ? &r->storages
           : strcmp(plain, "tensors") == 0 ? &r->tensors
           : strcmp(plain, "pickle") == 0  ? &r->object
                                           : NULL;
}

static pawl_status find_members(reading *r, pawl_error *err) {
    uint64_t at = 0;
    for (unsigned i = 0; i < MOST_MEMBERS && r->in.size - at >= TAR_BLOCK; i++) {
        uint8_t head[TAR_BLOCK];
        uint64_t bytes;
        char name[101] = "";
        TRY(r->in.read_at(r->in.context, at, head, sizeof(head), err));
        if (head[0] == '\0') {
            break;
        }
        memcpy(name, head, 100);
        at += TAR_BLOCK;
        if (!take_octal(head + 124, 12, &bytes) || bytes > r->in.size - at) {
            return not_as_torch(at, "a member goes beyond the end", err);
        }
        pickle_stream *member = member_of(r, name);
        if (member != NULL && (head[156] == '0' || head[156] == '\0')) {
            *member = (pickle_stream){.in = r->in, .at = at, .end = at + bytes};
        }
        uint64_t padded = (bytes + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
        at = padded < r->in.size - at ? at + padded : r->in.size;
    }
    return r->storages.end > 0 && r->object.end > 0
               ? PAWL_OK
               : not_as_torch(0, "it lacks storages or pickle", err);
}

/* ---- storages ------------------------------------------------------------------------------- */

static const pickle_node *item(const pickle_node *tuple, size_t i) {
    return (tuple->kind == PICKLE_TUPLE || tuple->kind == PICKLE_LIST) && i < tuple->items.count
               ? tuple->items.nodes[i]
               : NULL;
}

#define KEY_CHARS 64u

/* Keys are numbers, or texts. */
static bool take_key(const pickle_node *node, char out[KEY_CHARS]) {
    if (node != NULL && node->kind == PICKLE_INT) {
        snprintf(out, KEY_CHARS, "%lld", (long long)node->integer);
        return true;
    }
    if (node == NULL || node->kind != PICKLE_TEXT || node->text.n >= KEY_CHARS) {
        return false;
    }
    memcpy(out, node->text.bytes, node->text.n);
    out[node->text.n] = '\0';
    return true;
}

static pawl_status read_storage(reading *r, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    pickle_stream *p = &r->storages;
    uint64_t at = p->at;
    pickle_tree tree;
    int64_t count;
    uint64_t size;
    TRY(pickles_next(p, &bytes, &tree, err));
    const pickle_node *key = item(tree.root, 0);
    const pickle_node *class = item(tree.root, 2);
    const torch_type *type = class != NULL && class->kind == PICKLE_GLOBAL
                                 ? torch_type_of_storage(class->global.name)
                                 : NULL;
    char name[KEY_CHARS];
    bool known = take_key(key, name) && type != NULL;
    pickle_free(&tree);
    if (!known) {
        return not_as_torch(at, "a storage has no key, or an unknown class", err);
    }
    TRY(pickles_i64(p, &count, err));
    if (count < 0 || multiply_overflows((uint64_t)count, type->bytes, &size)) {
        return not_as_torch(at, "a storage has a size that cannot be", err);
    }
    uint64_t begin = p->at;
    TRY(pickles_skip(p, size, err));
    char *kept = arena_strdup(&r->table.memory, name);
    if (kept == NULL) {
        return error_nomem(err, KEY_CHARS);
    }
    TRY(storages_add(&r->table, (pickle_text){kept, strlen(kept)}, begin, size, err));
    r->table.items[r->table.count - 1].element_bytes = type->bytes;
    return PAWL_OK;
}

static bool take_number(const pickle_node *node, uint64_t *out) {
    *out = node != NULL && node->kind == PICKLE_INT ? (uint64_t)node->integer : UINT64_MAX;
    return *out <= INT64_MAX;
}

/* A storage that is a part of another one, which is among the first `count`. */
static pawl_status read_view(reading *r, const pickle_node *view, size_t count, uint64_t at,
                             pawl_error *err) {
    const storage_table whole = {.items = r->table.items, .count = count};
    char name[KEY_CHARS], of[KEY_CHARS];
    uint64_t first, elements, begin, bytes, end;
    bool known = take_key(item(view, 0), name) && take_key(item(view, 1), of) &&
                 take_number(item(view, 2), &first) && take_number(item(view, 3), &elements);
    const kept_storage *s = known ? storages_find(&whole, (pickle_text){of, strlen(of)}) : NULL;
    if (s == NULL || multiply_overflows(first, s->element_bytes, &begin) ||
        multiply_overflows(elements, s->element_bytes, &bytes) ||
        add_overflows(begin, bytes, &end) || end > s->bytes) {
        return not_as_torch(at, "a storage is a part of another that has less", err);
    }
    char *kept = arena_strdup(&r->table.memory, name);
    if (kept == NULL) {
        return error_nomem(err, KEY_CHARS);
    }
    return storages_add(&r->table, (pickle_text){kept, strlen(kept)}, s->offset + begin, bytes,
                        err);
}

static pawl_status read_views(reading *r, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    pickle_tree tree;
    size_t count = r->table.count;
    uint64_t at = r->storages.at;
    if (at == r->storages.end) {
        return PAWL_OK;
    }
    TRY(pickles_next(&r->storages, &text, &tree, err));
    pawl_status status = tree.root->kind == PICKLE_LIST
                             ? PAWL_OK
                             : not_as_torch(at, "it has no list of parts of storages", err);
    for (uint32_t i = 0; status == PAWL_OK && i < tree.root->items.count; i++) {
        status = read_view(r, tree.root->items.nodes[i], count, at, err);
    }
    pickle_free(&tree);
    return status;
}

static pawl_status read_storages(reading *r, pawl_error *err) {
    uint64_t count;
    TRY(pickles_count(&r->storages, &count, err));
    for (uint64_t i = 0; i < count; i++) {
        TRY(read_storage(r, err));
    }
    storages_sort(&r->table);
    TRY(read_views(r, err));
    storages_sort(&r->table);
    return PAWL_OK;
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* "FloatTensor" is of the type whose storage is FloatStorage. */
static const torch_type *type_of_tensor(const pickle_node *class) {
    char name[64];
    size_t n = class != NULL && class->kind == PICKLE_GLOBAL ? strlen(class->global.name) : 0;
    if (n <= 6 || n >= 56 || strcmp(class->global.name + n - 6, "Tensor") != 0) {
        return NULL;
    }
    snprintf(name, sizeof(name), "%.*sStorage", (int)(n - 6), class->global.name);
    return torch_type_of_storage(name);
}

static pawl_status read_layout(reading *r, int64_t *strides, int64_t *offset, torch_tensor *t,
                               pawl_error *err) {
    uint8_t head[8]; /* ndim, and padding */
    pickle_stream *p = &r->tensors;
    uint64_t at = p->at;
    TRY(pickles_bytes(p, head, sizeof(head), err));
    uint32_t ndim = (uint32_t)head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 |
                    (uint32_t)head[3] << 24;
    if (ndim > PAWL_MAX_NDIM) {
        return not_as_torch(at, "a tensor has too many dimensions", err);
    }
    t->ndim = (int)ndim;
    for (uint32_t d = 0; d < ndim; d++) {
        TRY(pickles_i64(p, &t->shape[d], err));
    }
    for (uint32_t d = 0; d < ndim; d++) {
        TRY(pickles_i64(p, &strides[d], err));
    }
    return pickles_i64(p, offset, err);
}

static pawl_status read_tensor(reading *r, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    uint64_t at = r->tensors.at;
    pickle_tree tree;
    int64_t strides[PAWL_MAX_NDIM];
    int64_t offset;
    TRY(pickles_next(&r->tensors, &bytes, &tree, err));
    const pickle_node *key = item(tree.root, 0);
    const pickle_node *of = item(tree.root, 1);
    kept_tensor kept = {.key = ""};
    char storage_key[KEY_CHARS] = "";
    kept.tensor.type = type_of_tensor(item(tree.root, 2));
    bool known = take_key(key, kept.key) && kept.tensor.type != NULL;
    const kept_storage *s =
        take_key(of, storage_key)
            ? storages_find(&r->table, (pickle_text){storage_key, strlen(storage_key)})
            : NULL;
    pickle_free(&tree);
    if (!known) {
        return not_as_torch(at, "a tensor has no key, or an unknown class", err);
    }
    TRY(read_layout(r, strides, &offset, &kept.tensor, err));
    const torch_storage storage = {
        .stream = r->file, .offset = s != NULL ? s->offset : 0, .bytes = s != NULL ? s->bytes : 0};
    TRY(torch_place_tensor(r->a, &storage, offset, strides, &kept.tensor, err));
    TRY(vec_reserve(&r->kept, &r->kept_room, r->kept_count + 1, sizeof(*r->kept), err));
    r->kept[r->kept_count++] = kept;
    return PAWL_OK;
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const kept_tensor *)a)->key, ((const kept_tensor *)b)->key);
}

static pawl_status read_tensors(reading *r, pawl_error *err) {
    uint64_t count;
    if (r->tensors.end == 0) {
        return PAWL_OK;
    }
    TRY(pickles_count(&r->tensors, &count, err));
    for (uint64_t i = 0; i < count; i++) {
        TRY(read_tensor(r, err));
    }
    if (r->kept_count > 1) {
        qsort(r->kept, r->kept_count, sizeof(*r->kept), by_key);
    }
    return PAWL_OK;
}

static bool find_tensor(void *context, const pickle_node *id, torch_tensor *out) {
    const reading *r = context;
    kept_tensor wanted = {.key = ""};
    if (r->kept_count == 0 || !take_key(id, wanted.key)) {
        return false;
    }
    const kept_tensor *found = bsearch(&wanted, r->kept, r->kept_count, sizeof(*r->kept), by_key);
    if (found != NULL) {
        *out = found->tensor;
    }
    return found != NULL;
}

static pawl_status find_storage(void *context, pickle_text key, torch_storage *out,
                                pawl_error *err) {
    const reading *r = context;
    const kept_storage *s = storages_find(&r->table, key);
    if (s == NULL) {
        return error_set(err, PAWL_EDAMAGED, "the bytes of a tensor are not in the file");
    }
    *out = (torch_storage){.stream = r->file, .offset = s->offset, .bytes = s->bytes};
    return PAWL_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

static pawl_status read_tar(reading *r, pawl_error *err) {
    CLEANUP(buffer_free) buffer bytes = {0};
    torch_source source = {.a = r->a, .context = r, .find = find_storage, .tensor = find_tensor};
    pickle_tree tree;
    TRY(find_members(r, err));
    TRY(read_storages(r, err));
    TRY(read_tensors(r, err));
    TRY(pickles_next(&r->object, &bytes, &tree, err));
    source.bytes = tree.bytes;
    archive_allow(r->a, tree.bytes);
    pawl_status status = torch_add_object(&source, tree.root, "", err);
    pickle_free(&tree);
    return status;
}

pawl_status torch_tar_read(archive *a, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    reading r = {.a = a};
    TRY(archive_add_file(a, a->name, &r.file, err));
    TRY(archive_open_file(a, r.file, STORE_READ, &opened, err));
    TRY(store_source(opened, &r.in, err));
    pawl_status status = read_tar(&r, err);
    storages_free(&r.table);
    mem_free(r.kept);
    if (status != PAWL_OK && err->path[0] == '\0') {
        archive_error_file(a, r.file, err);
    }
    return status;
}
