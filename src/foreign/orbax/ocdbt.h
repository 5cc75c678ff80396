/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/orbax/ocdbt: the database that Orbax keeps arrays in: a manifest names the root of a
 * B+tree, whose nodes are in data files.
 *
 * ocdbt_format.c reads what is in memory, ocdbt_read.c walks through the tree.
 */
#ifndef FOREIGN_ORBAX_OCDBT_H
#define FOREIGN_ORBAX_OCDBT_H

#include "foreign/archive.h"
#include "foreign/orbax/keys.h"

#define OCDBT_MANIFEST 0x0cdb3a2au
#define OCDBT_NODE     0x0cdb20deu

#define OCDBT_MAX_KEY    65535u
#define OCDBT_MAX_INLINE 1048576u

/* The body of a block: its header and its checksum are checked, and it is decompressed into `room`,
 * at most `limit` bytes, unless it is not compressed. */
pawl_status ocdbt_body(const uint8_t *block, size_t n, uint32_t magic, size_t limit, buffer *room,
                       cursor *out, pawl_error *err) PAWL_MUST_CHECK;

/* Files that a block names. */
typedef struct ocdbt_path {
    size_t at;
    uint32_t n, base; /* bytes; of those, what the names in blocks of the file begin with */
} ocdbt_path;
typedef struct ocdbt_table {
    ocdbt_path *paths;
    size_t count, room;
    buffer text;
} ocdbt_table;

/* The newest version. */
typedef struct ocdbt_manifest {
    bool numbered; /* it is in other files: nothing else is known */
    bool empty;
    uint8_t height;
    uint64_t generation, offset, bytes;
    ocdbt_path path;
    ocdbt_table table;
} ocdbt_manifest;
/* All of a body. */
pawl_status ocdbt_read_manifest(cursor *c, ocdbt_manifest *out, pawl_error *err) PAWL_MUST_CHECK;
void ocdbt_manifest_free(ocdbt_manifest *m);

/* A node while it is walked through. */
typedef struct ocdbt_node {
    uint8_t height;
    ocdbt_table table;
    uint64_t count, next;
    uint8_t key[OCDBT_MAX_KEY];
    size_t key_bytes;
    cursor prefixes, suffixes, common, keys, bytes, kinds, files, offsets, inlined;
} ocdbt_node;
typedef struct ocdbt_item {
    const uint8_t *key; /* without what all keys of the node begin with */
    size_t key_bytes;
    size_t common;          /* of a child: what the keys in it begin with */
    const uint8_t *inlined; /* NULL: in the file */
    ocdbt_path path;
    uint64_t offset, bytes;
} ocdbt_item;
/* Of a body, which must stay. `node` is freed by ocdbt_node_free whatever happens. */
pawl_status ocdbt_node_begin(cursor *c, ocdbt_node *node, pawl_error *err) PAWL_MUST_CHECK;
/* There are `count`. */
pawl_status ocdbt_node_next(ocdbt_node *node, ocdbt_item *out, pawl_error *err) PAWL_MUST_CHECK;
void ocdbt_node_free(ocdbt_node *node);

/* Adds all keys of the database in a directory ("": the archive's), whose files it adds to the
 * archive. Those of another one may be there: key_map_join. */
pawl_status ocdbt_read(archive *a, const char *directory, key_map *out, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
