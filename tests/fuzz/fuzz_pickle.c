/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a pickle: what is understood is a tree whose nodes are whole, is JSON however odd,
 * and as what torch.save pickled it becomes entries. The bytes are those of each storage, too. */
#include "fuzz_archive.h"

#include "base/json.h"
#include "foreign/torch/object.h"
#include "foreign/torch/value.h"

#define MOST_DEPTH 40

static uint64_t storage_bytes;

static void check_items(const pickle_items *items, int depth, unsigned *left);

/* A tree may be much larger than its pickle: not all of it is walked over. */
static void check_node(const pickle_node *node, int depth, unsigned *left) {
    FUZZ_CHECK(node != NULL && node->kind >= PICKLE_NONE && node->kind <= PICKLE_OUTSIDE);
    if (depth == MOST_DEPTH || *left == 0) {
        return;
    }
    --*left;
    switch (node->kind) {
    case PICKLE_TEXT:
        FUZZ_CHECK(utf8_valid(node->text.bytes, node->text.n));
        break;
    case PICKLE_DICT:
        FUZZ_CHECK(node->items.count % 2 == 0);
        check_items(&node->items, depth, left);
        break;
    case PICKLE_LIST:
    case PICKLE_TUPLE:
    case PICKLE_SET:
    case PICKLE_FROZENSET:
        check_items(&node->items, depth, left);
        break;
    case PICKLE_GLOBAL:
        FUZZ_CHECK(utf8_valid(node->global.module, strlen(node->global.module)));
        FUZZ_CHECK(utf8_valid(node->global.name, strlen(node->global.name)));
        break;
    case PICKLE_CALL:
        FUZZ_CHECK(node->call->callee->kind == PICKLE_GLOBAL);
        FUZZ_CHECK(node->call->arguments->kind == PICKLE_TUPLE);
        check_items(&node->call->arguments->items, depth, left);
        check_items(&node->call->with->items, depth, left);
        FUZZ_CHECK(node->call->with->keywords == NULL ||
                   node->call->with->keywords->kind == PICKLE_DICT);
        if (node->call->with->state != NULL) {
            check_node(node->call->with->state, depth + 1, left);
        }
        break;
    case PICKLE_OUTSIDE:
        check_node(node->id, depth + 1, left);
        break;
    default:
        break;
    }
}

static void check_items(const pickle_items *items, int depth, unsigned *left) {
    FUZZ_CHECK(items->count <= items->room || items->count == 0);
    for (uint32_t i = 0; i < items->count; i++) {
        check_node(items->nodes[i], depth + 1, left);
    }
}

static void check_tree(const pickle_tree *tree, size_t size) {
    CLEANUP(buffer_free) buffer json = {0};
    pawl_error err = ERROR_INIT;
    unsigned left = 10000;
    uint64_t visits = 0;
    FUZZ_CHECK(tree->bytes > 0 && tree->bytes <= size);
    check_node(tree->root, 0, &left);
    for (uint32_t i = 0; i < tree->outside.count; i++) {
        FUZZ_CHECK(tree->outside.nodes[i]->kind == PICKLE_OUTSIDE);
    }
    bool fits;
    FUZZ_CHECK(torch_put_json(tree->root, ARCHIVE_VALUE_BYTES, &json, &fits, &visits, &err) ==
               PAWL_OK);
    FUZZ_CHECK(json.size <= ARCHIVE_VALUE_BYTES && (fits || json.size == 0));
    if (!fits) {
        return;
    }
    json_reader r = json_reader_of((const char *)json.data, json.size);
    json_span whole;
    FUZZ_CHECK(json_skip(&r, &whole) == PAWL_OK && json_end(&r) == PAWL_OK);
    CLEANUP(buffer_free) buffer again = {0}; /* as an object of Python */
    FUZZ_CHECK(torch_put_python(&again, (const char *)json.data, json.size, &err) == PAWL_OK);
}

static pawl_status find_storage(void *context, pickle_text key, torch_storage *out,
                                pawl_error *err) {
    (void)context;
    if (key.n == 0) {
        return error_set(err, PAWL_EDAMAGED, "there is no such storage");
    }
    *out = (torch_storage){.bytes = storage_bytes, .swapped = key.bytes[0] == '1'};
    return PAWL_OK;
}

static pawl_status read_tree(archive *a, const buffer *bytes, pawl_error *err) {
    const torch_source source = {.a = a, .bytes = bytes->size, .find = find_storage};
    pickle_tree tree;
    TRY(pickle_read(bytes->data, bytes->size, 0, torch_knows, &tree, err));
    check_tree(&tree, bytes->size);
    pawl_status status = torch_add_object(&source, tree.root, "", err);
    pickle_free(&tree);
    return status;
}

/* archive_format.read: a file that is nothing but a pickle. */
static pawl_status read_bare(archive *a, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *opened = NULL;
    CLEANUP(buffer_free) buffer bytes = {0};
    uint32_t file;
    TRY(archive_add_file(a, a->name, &file, err));
    TRY(archive_open_file(a, file, STORE_READ, &opened, err));
    TRY(store_size(opened, &storage_bytes, err));
    bytes.data = mem_alloc((size_t)storage_bytes);
    FUZZ_CHECK(bytes.data != NULL);
    bytes.capacity = bytes.size = (size_t)storage_bytes;
    TRY(store_read(opened, 0, bytes.data, bytes.size, err));
    pawl_status status = read_tree(a, &bytes, err);
    if (status != PAWL_OK) {
        archive_error_file(a, file, err);
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const archive_format bare = {.name = "pickle", .unverified = "all", .read = read_bare};
    return fuzz_open_archive(&bare, "object.pkl", data, size);
}
