/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks through the tree of a database. Nodes that are still to be read are on a stack, the next
 * one on top, so keys come in ascending order. Each level is lower than the one above it, so there
 * is an end; and what is decompressed in all is bounded, since a hostile tree may have a node many
 * times.
 */
#include "foreign/orbax/ocdbt.h"
#include "format/limits.h"

#include <stdio.h>
#include <string.h>

#define MANIFEST        "manifest.ocdbt"
#define MANIFEST_BYTES  4194304u
#define NUMBERED_DIGITS 16u

/* A node that is to be read. */
typedef struct pending {
    uint32_t file;
    uint8_t height;
    const char *base; /* what the names of its files begin with; ends in '/', or is "" */
    const char *prefix;
    size_t prefix_bytes; /* of all its keys */
    uint64_t offset, bytes;
} pending;

typedef struct walking {
    archive *a;
    const char *directory;
    key_map *out;
    pending *stack;
    size_t count, room;
    arena memory;
    ocdbt_node *node;
    buffer block, body;
    uint64_t unpacked; /* bytes, so far */
    uint64_t read;     /* of the files; those of databases before this one are */
} walking;

/* ---- files ---- */

static pawl_status is_missing(const walking *w, const char *path, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "a data file of the database is missing");
    store_error_path(err, w->a->base.store, path);
    error_expected(err, "a file, as the database in %.200s names it",
                   w->directory[0] != '\0' ? w->directory : "this directory");
    error_found(err, "no such file");
    error_next(err, "get all of the checkpoint from where it came from; the directories "
                    "ocdbt.process_* are part of it");
    return PAWL_EDAMAGED;
}

static pawl_status add_file(walking *w, const char *path, uint32_t *out, pawl_error *err) {
    uint32_t files = w->a->base.files;
    pawl_status status = archive_add_file(w->a, path, out, err);
    if (status != PAWL_OK) {
        return status == PAWL_ENOTFOUND ? is_missing(w, path, err) : status;
    }
    w->out->file_bytes += *out >= files ? w->a->files[*out].was.size : 0;
    return PAWL_OK;
}

/* A file that a block names, whose files' names begin with `base`. *inner is what those in it
 * begin with, unless it is NULL. */
static pawl_status find_file(walking *w, const char *base, const ocdbt_table *names,
                             const ocdbt_path *path, uint32_t *file, const char **inner,
                             pawl_error *err) {
    char full[STORE_MAX_PATH];
    const char *text = (const char *)names->text.data + path->at;
    const char *slash = w->directory[0] != '\0' ? "/" : "";
    int n = snprintf(full, sizeof(full), "%s%s%s%s", w->directory, slash, base, text);
    if (n < 0 || (size_t)n >= sizeof(full)) {
        error_set(err, PAWL_ELIMIT, "the path of a data file of the database is too long");
        error_expected(err, "at most %zu bytes", sizeof(full) - 1);
        return PAWL_ELIMIT;
    }
    TRY(add_file(w, full, file, err));
    if (inner != NULL) {
        *inner = path->base == 0 ? base
                                 : arena_printf(&w->memory, "%s%.*s", base, (int)path->base, text);
        return *inner != NULL ? PAWL_OK : error_nomem(err, path->base);
    }
    return PAWL_OK;
}

static pawl_status check_range(walking *w, uint32_t file, uint64_t offset, uint64_t bytes,
                               pawl_error *err) {
    uint64_t end;
    uint64_t size = w->a->files[file].was.size;
    if (!add_overflows(offset, bytes, &end) && end <= size) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EDAMAGED, "what the database names lies behind the end of a data file");
    archive_error_file(w->a, file, err);
    error_expected(err, "a range within its %llu bytes", (unsigned long long)size);
    error_found(err, "%llu bytes from %llu on", (unsigned long long)bytes,
                (unsigned long long)offset);
    return PAWL_EDAMAGED;
}

/* ---- nodes ---- */

static pawl_status push(walking *w, const pending *node, pawl_error *err) {
    TRY(vec_reserve(&w->stack, &w->room, w->count + 1, sizeof(*w->stack), err));
    w->stack[w->count++] = *node;
    return PAWL_OK;
}

static pawl_status push_child(walking *w, const pending *node, const ocdbt_item *item,
                              pawl_error *err) {
    pending child = {.height = (uint8_t)(node->height - 1),
                     .prefix_bytes = node->prefix_bytes + item->common,
                     .offset = item->offset,
                     .bytes = item->bytes};
    TRY(key_map_charge(
        w->out, sizeof(child) + child.prefix_bytes + strlen(node->base) + item->path.base, err));
    TRY(find_file(w, node->base, &w->node->table, &item->path, &child.file, &child.base, err));
    TRY(check_range(w, child.file, child.offset, child.bytes, err));
    char *prefix = arena_take(&w->memory, child.prefix_bytes + 1, err);
    if (prefix == NULL) {
        return PAWL_ENOMEM;
    }
    memcpy(prefix, node->prefix, node->prefix_bytes);
    memcpy(prefix + node->prefix_bytes, item->key, item->common);
    child.prefix = prefix;
    return push(w, &child, err);
}

static pawl_status add_value(walking *w, const pending *node, const ocdbt_item *item,
                             pawl_error *err) {
    uint8_t key[OCDBT_MAX_KEY];
    size_t n = node->prefix_bytes + item->key_bytes;
    key_value value = {.file = node->file, .offset = item->offset, .bytes = item->bytes};
    if (n > sizeof(key)) {
        return error_set(err, PAWL_EDAMAGED, "a key of the database is longer than there can be");
    }
    if (item->inlined == NULL) {
        TRY(find_file(w, node->base, &w->node->table, &item->path, &value.file, NULL, err));
        TRY(check_range(w, value.file, value.offset, value.bytes, err));
    }
    memcpy(key, node->prefix, node->prefix_bytes);
    memcpy(key + node->prefix_bytes, item->key, item->key_bytes);
    return key_map_add(w->out, key, n, &value, item->inlined, err);
}

static void reverse(pending *nodes, size_t n) {
    for (size_t i = 0; i < n / 2; i++) {
        pending node = nodes[i];
        nodes[i] = nodes[n - 1 - i];
        nodes[n - 1 - i] = node;
    }
}

static pawl_status read_items(walking *w, const pending *node, pawl_error *err) {
    ocdbt_item item;
    size_t begun = w->count;
    if (w->node->height != node->height) {
        error_set(err, PAWL_EDAMAGED, "a node of the database's tree is of another level");
        error_expected(err, "level %d, as the node above it says", node->height);
        error_found(err, "level %d", w->node->height);
        return PAWL_EDAMAGED;
    }
    for (uint64_t i = 0; i < w->node->count; i++) {
        TRY(ocdbt_node_next(w->node, &item, err));
        TRY(node->height > 0 ? push_child(w, node, &item, err) : add_value(w, node, &item, err));
    }
    reverse(w->stack + begun, w->count - begun);
    return PAWL_OK;
}

static pawl_status check_unpacked(walking *w, pawl_error *err) {
    w->unpacked += w->body.size + w->block.size;
    if (w->unpacked <= FOREIGN_MAX_HEADERS) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ELIMIT, "the nodes of the database's tree are too large together");
    error_expected(err, "at most %llu bytes", (unsigned long long)FOREIGN_MAX_HEADERS);
    return PAWL_ELIMIT;
}

static pawl_status read_block(walking *w, const pending *node, cursor *body, pawl_error *err) {
    CLEANUP(store_close_pointer) store_file *file = NULL;
    uint64_t most = w->out->file_bytes * 64; /* as of the keys */
    size_t limit = FOREIGN_MAX_OCDBT_NODE;
    if (node->bytes > w->out->file_bytes - w->read) {
        error_set(err, PAWL_EDAMAGED, "the database's tree has a node more than once");
        error_found(err, "nodes of more bytes than its files have, which are %llu",
                    (unsigned long long)w->out->file_bytes);
        return PAWL_EDAMAGED;
    }
    w->read += node->bytes;
    if (node->bytes > FOREIGN_MAX_OCDBT_NODE) {
        error_set(err, PAWL_ELIMIT, "a node of the database's tree is too large");
        error_expected(err, "at most %u bytes", FOREIGN_MAX_OCDBT_NODE);
        error_found(err, "%llu bytes", (unsigned long long)node->bytes);
        return PAWL_ELIMIT;
    }
    if (most < FOREIGN_MAX_OCDBT_NODE) {
        limit = most > FOREIGN_MAX_OCDBT_NODE / 8 ? (size_t)most : FOREIGN_MAX_OCDBT_NODE / 8;
    }
    w->block.size = 0;
    w->body.size = 0;
    TRY(archive_open_file(w->a, node->file, STORE_READ, &file, err));
    TRY(buffer_reserve(&w->block, (size_t)node->bytes, err));
    TRY(store_read(file, node->offset, w->block.data, (size_t)node->bytes, err));
    w->block.size = (size_t)node->bytes;
    w->a->base.reads.reads++;
    w->a->base.reads.bytes += node->bytes;
    TRY(ocdbt_body(w->block.data, w->block.size, OCDBT_NODE, limit, &w->body, body, err));
    return check_unpacked(w, err);
}

static pawl_status read_node(walking *w, const pending *node, pawl_error *err) {
    cursor body;
    w->node->table = (ocdbt_table){0};
    pawl_status status = read_block(w, node, &body, err);
    if (status == PAWL_OK) {
        status = ocdbt_node_begin(&body, w->node, err);
        if (status == PAWL_OK) {
            status = read_items(w, node, err);
        }
        ocdbt_node_free(w->node);
    }
    if (status != PAWL_OK && err->path[0] == '\0') {
        archive_error_file(w->a, node->file, err);
        error_range(err, node->offset, node->bytes);
    }
    return status;
}

/* ---- the manifest ---- */

static pawl_status read_manifest(walking *w, const char *name, ocdbt_manifest *out,
                                 pawl_error *err) {
    CLEANUP(buffer_free) buffer block = {0};
    CLEANUP(buffer_free) buffer room = {0};
    char path[STORE_MAX_PATH];
    cursor body;
    const char *slash = w->directory[0] != '\0' ? "/" : "";
    int n = snprintf(path, sizeof(path), "%s%s%s", w->directory, slash, name);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        return error_set(err, PAWL_ELIMIT, "the path of a manifest is too long");
    }
    TRY(archive_read_description(w->a, path, MANIFEST_BYTES, &block, err));
    w->out->file_bytes += block.size;
    pawl_status status =
        ocdbt_body(block.data, block.size, OCDBT_MANIFEST, MANIFEST_BYTES, &room, &body, err);
    if (status == PAWL_OK) {
        status = ocdbt_read_manifest(&body, out, err);
    }
    if (status != PAWL_OK) {
        store_error_path(err, w->a->base.store, path);
    }
    return status;
}

static bool is_numbered(const char *name) {
    const char *digits = name + sizeof("manifest.") - 1;
    return strncmp(name, "manifest.", sizeof("manifest.") - 1) == 0 &&
           strlen(digits) == NUMBERED_DIGITS &&
           strspn(digits, "0123456789abcdef") == NUMBERED_DIGITS;
}

/* The newest of those that have numbers. */
static pawl_status read_numbered(walking *w, ocdbt_manifest *out, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    char **names;
    size_t count;
    const char *newest = NULL;
    TRY(store_names(w->a->base.store, w->directory, FORMAT_MAX_NAMES, &memory, &names, &count,
                    err));
    for (size_t i = 0; i < count; i++) {
        newest = is_numbered(names[i]) ? names[i] : newest; /* they are sorted */
    }
    if (newest == NULL) {
        error_set(err, PAWL_EDAMAGED, "the database has no manifest of a version");
        store_error_path(err, w->a->base.store, w->directory);
        error_expected(err, "manifest.0000000000000001, or a later one");
        return PAWL_EDAMAGED;
    }
    TRY(read_manifest(w, newest, out, err));
    if (out->numbered) {
        return error_set(err, PAWL_EDAMAGED, "a manifest of a version has none");
    }
    return PAWL_OK;
}

static pawl_status push_root(walking *w, const ocdbt_manifest *m, pawl_error *err) {
    pending root = {
        .height = m->height, .prefix = "", .offset = m->offset, .bytes = m->bytes, .base = ""};
    if (m->height > FOREIGN_MAX_OCDBT_LEVELS) {
        error_set(err, PAWL_ELIMIT, "the database's tree has too many levels");
        error_expected(err, "at most %u", FOREIGN_MAX_OCDBT_LEVELS);
        error_found(err, "%d", m->height);
        return PAWL_ELIMIT;
    }
    TRY(find_file(w, "", &m->table, &m->path, &root.file, &root.base, err));
    TRY(check_range(w, root.file, root.offset, root.bytes, err));
    return push(w, &root, err);
}

static void free_manifest(ocdbt_manifest *m) {
    ocdbt_manifest_free(m);
}

static pawl_status walk(walking *w, pawl_error *err) {
    CLEANUP(free_manifest) ocdbt_manifest m = {0};
    TRY(read_manifest(w, MANIFEST, &m, err));
    if (m.numbered) {
        TRY(read_numbered(w, &m, err));
    }
    if (m.empty) {
        return PAWL_OK;
    }
    TRY(push_root(w, &m, err));
    while (w->count > 0) {
        pending node = w->stack[--w->count];
        TRY(read_node(w, &node, err));
    }
    return PAWL_OK;
}

pawl_status ocdbt_read(archive *a, const char *directory, key_map *out, pawl_error *err) {
    walking w = {.a = a, .directory = directory, .out = out, .read = out->file_bytes};
    out->begun = out->count;
    w.node = mem_calloc(1, sizeof(*w.node));
    pawl_status status = w.node != NULL ? walk(&w, err) : error_nomem(err, sizeof(*w.node));
    if (status != PAWL_OK && status != PAWL_ENOMEM && err->path[0] == '\0') {
        store_error_path(err, a->base.store, directory);
    }
    mem_free(w.stack);
    mem_free(w.node);
    buffer_free(&w.block);
    buffer_free(&w.body);
    arena_free(&w.memory);
    return status;
}
