/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the blocks of a database: manifests, and nodes of the tree. Numbers are in columns:
 * all first ones, then all second ones. */
#include "foreign/orbax/ocdbt.h"
#include "foreign/orbax/zstd.h"
#include "format/limits.h"

#include <string.h>

#define HEADER_BYTES  14u /* at least, with the checksum 4 more */
#define MISSING       UINT64_MAX
#define MAX_NODE_KEYS 1048576u
#define MAX_VERSIONS  65536u

static pawl_status damaged(pawl_error *err, const char *what) {
    return error_set(err, PAWL_EDAMAGED, "the database is damaged: %s", what);
}

/* ---- a block ---- */

static pawl_status check_block(const uint8_t *block, size_t n, uint32_t magic, pawl_error *err) {
    uint64_t length = 0;
    uint32_t sum = 0;
    if (n < HEADER_BYTES + 4) {
        damaged(err, "a block is shorter than its header");
        error_found(err, "%zu bytes", n);
        return PAWL_EDAMAGED;
    }
    uint32_t found = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 |
                     (uint32_t)block[3];
    for (int i = 7; i >= 0; i--) {
        length = length << 8 | block[4 + i];
    }
    for (int i = 3; i >= 0; i--) {
        sum = sum << 8 | block[n - 4 + (size_t)i];
    }
    if (found != magic) {
        damaged(err, "a block does not begin as it should");
        error_expected(err, "%08x", magic);
        error_found(err, "%08x", found);
        return PAWL_EDAMAGED;
    }
    if (length != n) {
        damaged(err, "a block has another length");
        error_expected(err, "%zu bytes", n);
        error_found(err, "%llu bytes", (unsigned long long)length);
        return PAWL_EDAMAGED;
    }
    uint32_t is = crc32c(0, block, n - 4);
    if (is != sum) {
        damaged(err, "a block has another checksum");
        error_expected(err, "%08x, as is written behind it", sum);
        error_found(err, "%08x", is);
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}

pawl_status ocdbt_body(const uint8_t *block, size_t n, uint32_t magic, size_t limit, buffer *room,
                       cursor *out, pawl_error *err) {
    const char *what =
        magic == OCDBT_MANIFEST ? "manifest of the database" : "node of the database's tree";
    uint64_t version, packing;
    TRY(check_block(block, n, magic, err));
    *out = cursor_of(block + 12, n - 16, 12, what);
    TRY(cursor_varint64(out, &version, err));
    TRY(cursor_varint64(out, &packing, err));
    if (version != 0 || packing > 1) {
        error_set(err, PAWL_EUNSUPPORTED,
                  version != 0 ? "the database has a version that is not read"
                               : "a block of the database is compressed in a way that is not read");
        error_expected(err, "version 0, compression 0 or 1");
        error_found(err, "version %llu, compression %llu", (unsigned long long)version,
                    (unsigned long long)packing);
        return PAWL_EUNSUPPORTED;
    }
    if (packing == 0) {
        return PAWL_OK;
    }
    room->size = 0;
    TRY(zstd_unpack(out->data + out->at, cursor_left(out), limit, room, err));
    *out = cursor_of(room->data, room->size, 0, what);
    return PAWL_OK;
}

/* ---- columns ---- */

/* *column stays at the first of the n numbers, c goes on behind the last. */
static pawl_status take_column(cursor *c, uint64_t n, cursor *column, pawl_error *err) {
    uint64_t number;
    *column = *c;
    for (uint64_t i = 0; i < n; i++) {
        TRY(cursor_varint64(c, &number, err));
    }
    return PAWL_OK;
}

/* The same of numbers of `each` bytes. */
static pawl_status take_fixed(cursor *c, uint64_t n, size_t each, cursor *column, pawl_error *err) {
    const uint8_t *bytes;
    *column = *c;
    return cursor_bytes(c, (size_t)n * each, &bytes, err);
}

/* How many there are: no more than the bytes that are left, as each takes one. */
static pawl_status take_count(cursor *c, uint64_t most, uint64_t *n, pawl_error *err) {
    TRY(cursor_varint64(c, n, err));
    if (*n > most || *n > cursor_left(c)) {
        damaged(err, "it says that there are more than there can be");
        error_expected(err, "at most %llu", (unsigned long long)most);
        error_found(err, "%llu", (unsigned long long)*n);
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}

static pawl_status take_end(const cursor *c, pawl_error *err) {
    if (cursor_left(c) == 0) {
        return PAWL_OK;
    }
    damaged(err, "there is more behind the end of a block");
    error_expected(err, "%zu bytes", c->at);
    error_found(err, "%zu bytes", c->size);
    return PAWL_EDAMAGED;
}

/* ---- data files ---- */

static void free_table(ocdbt_table *t) {
    mem_free(t->paths);
    buffer_free(&t->text);
    *t = (ocdbt_table){0};
}

/* A path within the directory, and no other. */
static bool is_path(const char *text, size_t n) {
    size_t at = 0;
    if (n == 0 || memchr(text, 0, n) != NULL) {
        return false;
    }
    while (at <= n) {
        const char *slash = memchr(text + at, '/', n - at);
        size_t length = slash != NULL ? (size_t)(slash - text) - at : n - at;
        if (length == 0 || (length <= 2 && memcmp(text + at, "..", length) == 0)) {
            return false;
        }
        at += length + 1;
    }
    return true;
}

static pawl_status refuse_path(const char *text, size_t n, pawl_error *err) {
    damaged(err, "a data file has a name that leads elsewhere");
    error_expected(err, "a path below the directory, of at most %d bytes", STORE_MAX_PATH - 1);
    error_found(err, "%.*s", (int)(n < 200 ? n : 200), text);
    return PAWL_EDAMAGED;
}

static pawl_status add_path(ocdbt_table *t, uint64_t prefix, uint64_t base, const uint8_t *suffix,
                            size_t n, pawl_error *err) {
    const ocdbt_path *before = t->count > 0 ? &t->paths[t->count - 1] : NULL;
    size_t at = t->text.size;
    if (prefix > (before != NULL ? before->n : 0) || base > prefix + n) {
        return damaged(err, "the name of a data file is shorter than what it shares");
    }
    size_t length = (size_t)prefix + n;
    if (length >= STORE_MAX_PATH) {
        return refuse_path((const char *)suffix, n, err);
    }
    TRY(buffer_reserve(&t->text, length + 1, err));
    if (prefix > 0) {
        memcpy(t->text.data + at, t->text.data + before->at, (size_t)prefix);
    }
    if (n > 0) {
        memcpy(t->text.data + at + prefix, suffix, n);
    }
    t->text.size += length + 1;
    t->text.data[t->text.size - 1] = 0;
    t->text.data[t->text.size] = 0;
    const char *text = (const char *)t->text.data + at;
    if (length > 0 && (!is_path(text, length) || base == length)) {
        return refuse_path(text, length, err);
    }
    t->paths[t->count++] = (ocdbt_path){.at = at, .n = (uint32_t)length, .base = (uint32_t)base};
    return PAWL_OK;
}

static pawl_status read_table(cursor *c, ocdbt_table *t, pawl_error *err) {
    uint64_t n, prefix = 0, suffix, base;
    cursor prefixes, suffixes, bases;
    const uint8_t *text;
    TRY(take_count(c, FOREIGN_MAX_OCDBT_PATHS, &n, err));
    if (n == 0) {
        return PAWL_OK;
    }
    TRY(take_column(c, n - 1, &prefixes, err));
    TRY(take_column(c, n, &suffixes, err));
    TRY(take_column(c, n, &bases, err));
    TRY(vec_reserve(&t->paths, &t->room, (size_t)n, sizeof(*t->paths), err));
    for (uint64_t i = 0; i < n; i++) {
        if (i > 0) {
            TRY(cursor_varint64(&prefixes, &prefix, err));
        }
        TRY(cursor_varint64(&suffixes, &suffix, err));
        TRY(cursor_varint64(&bases, &base, err));
        if (suffix >= STORE_MAX_PATH) {
            return damaged(err, "the name of a data file is too long");
        }
        TRY(cursor_bytes(c, (size_t)suffix, &text, err));
        TRY(add_path(t, prefix, base, text, (size_t)suffix, err));
    }
    return PAWL_OK;
}

static pawl_status find_path(const ocdbt_table *t, uint64_t id, ocdbt_path *out, pawl_error *err) {
    if (id >= t->count) {
        damaged(err, "a block names a data file by a number that there is not");
        error_expected(err, "a number below %zu", t->count);
        error_found(err, "%llu", (unsigned long long)id);
        return PAWL_EDAMAGED;
    }
    *out = t->paths[id];
    return out->n > 0 ? PAWL_OK : refuse_path("", 0, err); /* that of a version without a tree */
}

/* ---- manifests ---- */

void ocdbt_manifest_free(ocdbt_manifest *m) {
    free_table(&m->table);
}

static pawl_status read_configuration(cursor *c, ocdbt_manifest *out, pawl_error *err) {
    const uint8_t *bytes;
    uint64_t kind, packing, number;
    TRY(cursor_bytes(c, 16, &bytes, err));
    TRY(cursor_varint64(c, &kind, err));
    TRY(cursor_varint64(c, &number, err)); /* bytes of a value in a node */
    TRY(cursor_varint64(c, &number, err)); /* bytes of a node */
    TRY(cursor_bytes(c, 1, &bytes, err));  /* versions of a node, as a logarithm */
    TRY(cursor_varint64(c, &packing, err));
    if (kind > 1 || packing > 1) {
        error_set(err, PAWL_EUNSUPPORTED,
                  "the database has a manifest, or a compression, that is not read");
        error_found(err, "manifest %llu, compression %llu", (unsigned long long)kind,
                    (unsigned long long)packing);
        return PAWL_EUNSUPPORTED;
    }
    if (packing == 1) {
        TRY(cursor_bytes(c, 4, &bytes, err)); /* the level */
    }
    out->numbered = kind == 1;
    return PAWL_OK;
}

static pawl_status last_number(cursor *column, uint64_t n, uint64_t *out, pawl_error *err) {
    *out = 0;
    for (uint64_t i = 0; i < n; i++) {
        TRY(cursor_varint64(column, out, err));
    }
    return PAWL_OK;
}

static pawl_status find_root(ocdbt_manifest *out, cursor *files, cursor *offsets, cursor *lengths,
                             uint64_t n, pawl_error *err) {
    uint64_t id;
    TRY(last_number(files, n, &id, err));
    TRY(last_number(offsets, n, &out->offset, err));
    TRY(last_number(lengths, n, &out->bytes, err));
    out->empty = out->offset == MISSING && out->bytes == MISSING;
    if (out->empty) {
        return out->height == 0 ? PAWL_OK : damaged(err, "a tree of nothing has a height");
    }
    return find_path(&out->table, id, &out->path, err);
}

/* The last one is the newest. */
static pawl_status read_versions(cursor *c, ocdbt_manifest *out, pawl_error *err) {
    uint64_t n;
    cursor generations, heights, files, offsets, lengths, other;
    TRY(take_count(c, MAX_VERSIONS, &n, err));
    if (n == 0) {
        return damaged(err, "its manifest has no version");
    }
    TRY(take_column(c, n, &generations, err));
    TRY(take_fixed(c, n, 1, &heights, err));
    TRY(take_column(c, n, &files, err));
    TRY(take_column(c, n, &offsets, err));
    TRY(take_column(c, n, &lengths, err));
    for (int i = 0; i < 3; i++) { /* keys, bytes of nodes, and of values outside of them */
        TRY(take_column(c, n, &other, err));
    }
    TRY(take_fixed(c, n, 8, &other, err)); /* times */
    TRY(last_number(&generations, n, &out->generation, err));
    out->height = heights.data[heights.at + n - 1];
    return find_root(out, &files, &offsets, &lengths, n, err);
}

/* Older versions: they are passed over. */
static pawl_status skip_older(cursor *c, pawl_error *err) {
    uint64_t n;
    cursor other;
    TRY(take_count(c, MAX_VERSIONS, &n, err));
    for (int i = 0; i < 5; i++) { /* generations, files, offsets, lengths, how many */
        TRY(take_column(c, n, &other, err));
    }
    TRY(take_fixed(c, n, 8, &other, err));
    return take_fixed(c, n, 1, &other, err);
}

pawl_status ocdbt_read_manifest(cursor *c, ocdbt_manifest *out, pawl_error *err) {
    *out = (ocdbt_manifest){.empty = true};
    TRY(read_configuration(c, out, err));
    if (out->numbered) {
        return take_end(c, err);
    }
    TRY(read_table(c, &out->table, err));
    TRY(read_versions(c, out, err));
    TRY(skip_older(c, err));
    return take_end(c, err);
}

/* ---- nodes ---- */

void ocdbt_node_free(ocdbt_node *node) {
    free_table(&node->table);
}

static pawl_status sum_column(cursor column, uint64_t n, uint64_t *sum, pawl_error *err) {
    uint64_t number;
    *sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        TRY(cursor_varint64(&column, &number, err));
        if (add_overflows(*sum, number, sum)) {
            return damaged(err, "the lengths in a node overflow");
        }
    }
    return PAWL_OK;
}

static pawl_status take_bytes(cursor *c, uint64_t n, cursor *out, pawl_error *err) {
    const uint8_t *bytes;
    *out = *c;
    return cursor_bytes(c, n <= SIZE_MAX ? (size_t)n : SIZE_MAX, &bytes, err);
}

static pawl_status begin_leaf(cursor *c, ocdbt_node *node, pawl_error *err) {
    cursor kinds, bytes;
    uint64_t kind, length;
    uint64_t outside = 0;
    uint64_t inside = 0;
    TRY(take_column(c, node->count, &node->bytes, err));
    TRY(take_column(c, node->count, &node->kinds, err));
    kinds = node->kinds;
    bytes = node->bytes;
    for (uint64_t i = 0; i < node->count; i++) {
        TRY(cursor_varint64(&kinds, &kind, err));
        TRY(cursor_varint64(&bytes, &length, err));
        if (kind > 1 || (kind == 0 && length > OCDBT_MAX_INLINE)) {
            return damaged(err, "a value is of a kind, or a length, that there is not");
        }
        outside += kind;
        inside += kind == 0 ? length : 0;
    }
    TRY(take_column(c, outside, &node->files, err));
    TRY(take_column(c, outside, &node->offsets, err));
    return take_bytes(c, inside, &node->inlined, err);
}

static pawl_status begin_interior(cursor *c, ocdbt_node *node, pawl_error *err) {
    cursor other;
    TRY(take_column(c, node->count, &node->files, err));
    TRY(take_column(c, node->count, &node->offsets, err));
    TRY(take_column(c, node->count, &node->bytes, err));
    for (int i = 0; i < 3; i++) { /* keys, bytes of nodes, and of values outside of them */
        TRY(take_column(c, node->count, &other, err));
    }
    return PAWL_OK;
}

pawl_status ocdbt_node_begin(cursor *c, ocdbt_node *node, pawl_error *err) {
    uint64_t n;
    node->table = (ocdbt_table){0};
    node->next = 0;
    node->key_bytes = 0;
    TRY(cursor_u8(c, &node->height, err));
    TRY(read_table(c, &node->table, err));
    TRY(take_count(c, MAX_NODE_KEYS, &node->count, err));
    if (node->count == 0) {
        return damaged(err, "a node has no key");
    }
    TRY(take_column(c, node->count - 1, &node->prefixes, err));
    TRY(take_column(c, node->count, &node->suffixes, err));
    if (node->height > 0) {
        TRY(take_column(c, node->count, &node->common, err));
    }
    TRY(sum_column(node->suffixes, node->count, &n, err));
    TRY(take_bytes(c, n, &node->keys, err));
    TRY(node->height > 0 ? begin_interior(c, node, err) : begin_leaf(c, node, err));
    return take_end(c, err);
}

static pawl_status next_key(ocdbt_node *node, ocdbt_item *out, pawl_error *err) {
    uint64_t prefix = 0;
    uint64_t suffix;
    const uint8_t *bytes;
    if (node->next > 0) {
        TRY(cursor_varint64(&node->prefixes, &prefix, err));
    }
    TRY(cursor_varint64(&node->suffixes, &suffix, err));
    if (prefix > node->key_bytes || suffix > OCDBT_MAX_KEY - prefix) {
        damaged(err, "a key is longer than there can be, or shares more than there is");
        error_expected(err, "at most %u bytes", OCDBT_MAX_KEY);
        return PAWL_EDAMAGED;
    }
    TRY(cursor_bytes(&node->keys, (size_t)suffix, &bytes, err));
    if (suffix > 0) {
        memcpy(node->key + prefix, bytes, (size_t)suffix);
    }
    node->key_bytes = (size_t)(prefix + suffix);
    out->key = node->key;
    out->key_bytes = node->key_bytes;
    if (node->height > 0) {
        uint64_t common;
        TRY(cursor_varint64(&node->common, &common, err));
        if (common > node->key_bytes) {
            return damaged(err, "keys of a child begin with more than its first key has");
        }
        out->common = (size_t)common;
    }
    return PAWL_OK;
}

pawl_status ocdbt_node_next(ocdbt_node *node, ocdbt_item *out, pawl_error *err) {
    uint64_t kind = 1;
    uint64_t id;
    *out = (ocdbt_item){0};
    TRY(next_key(node, out, err));
    node->next++;
    TRY(cursor_varint64(&node->bytes, &out->bytes, err));
    if (node->height == 0) {
        TRY(cursor_varint64(&node->kinds, &kind, err));
    }
    if (kind == 0) {
        return cursor_bytes(&node->inlined, (size_t)out->bytes, &out->inlined, err);
    }
    TRY(cursor_varint64(&node->files, &id, err));
    TRY(cursor_varint64(&node->offsets, &out->offset, err));
    return find_path(&node->table, id, &out->path, err);
}
