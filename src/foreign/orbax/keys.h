/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/orbax/keys: what a database, or a directory of files, has: keys in ascending order, and
 * where the bytes of each are.
 *
 * How much memory the keys may take follows from how large the files are that they are in: a small
 * file does not become many keys.
 */
#ifndef FOREIGN_ORBAX_KEYS_H
#define FOREIGN_ORBAX_KEYS_H

#include "base/base.h"

typedef struct key_value {
    size_t at;     /* of the key, in the text */
    uint32_t n;    /* bytes of the key */
    bool inlined;  /* the bytes are in `inlined`, from `offset` on; else in the file */
    uint32_t file; /* of the archive: that the bytes are in, or the key */
    uint64_t offset, bytes;
} key_value;

typedef struct key_map {
    key_value *items;
    size_t count, room;
    size_t begun; /* the first key of what is being added: those before are in another order */
    buffer text, inlined;
    uint64_t file_bytes; /* of the files that describe the keys */
    uint64_t used;       /* memory */
} key_map;

void key_map_free(key_map *map);
/* Memory is about to be used for the keys. PAWL_ELIMIT: that is too much. */
pawl_status key_map_charge(key_map *map, uint64_t bytes, pawl_error *err) PAWL_MUST_CHECK;
void key_map_discharge(key_map *map, uint64_t bytes);
/* PAWL_EDAMAGED where the key does not come behind the last one. The place is that of `value`, of
 * which the rest is filled in; `inlined` may be NULL. */
pawl_status key_map_add(key_map *map, const void *key, size_t n, const key_value *value,
                        const void *inlined, pawl_error *err) PAWL_MUST_CHECK;
/* Puts the keys of several databases, each of which began at `begun`, into one order. Keys that are
 * there twice with the same few bytes become one; PAWL_EDAMAGED where the bytes may differ. */
pawl_status key_map_join(key_map *map, pawl_error *err) PAWL_MUST_CHECK;
/* The first item whose key is not less. */
size_t key_map_lower_bound(const key_map *map, const char *key, size_t n);
const char *key_text(const key_map *map, const key_value *item);
bool key_begins(const key_map *map, const key_value *item, const char *prefix, size_t n);
bool key_is(const key_map *map, const key_value *item, const char *key, size_t n);

#endif
