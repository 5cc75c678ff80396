/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/orbax/arrays: the arrays that keys describe, as tensors of an archive. */
#ifndef FOREIGN_ORBAX_ARRAYS_H
#define FOREIGN_ORBAX_ARRAYS_H

#include "foreign/archive.h"
#include "foreign/orbax/keys.h"
#include "foreign/orbax/tree.h"

typedef struct arrays_of {
    const char *place;  /* the directory, for errors; "" is the archive's */
    const char *prefix; /* of names; "", or ends in '/' */
    const key_map *keys;
    orbax_tree *tree; /* what the arrays are called; leaves that are found are marked */
    bool in_part;     /* chunks that are missing may be elsewhere */
    bool unmerged;    /* of several processes: chunks that are missing were never saved */
    uint64_t *parts;  /* of all arrays, so far */
} arrays_of;

/* All of them. The archive has all its files. */
pawl_status arrays_add(archive *a, const arrays_of *from, pawl_error *err) PAWL_MUST_CHECK;

#endif
