/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/orbax/directory: a directory of files as keys, as zarr has them without a database. */
#ifndef FOREIGN_ORBAX_DIRECTORY_H
#define FOREIGN_ORBAX_DIRECTORY_H

#include "foreign/archive.h"
#include "foreign/orbax/keys.h"

/* A name in a directory. */
typedef struct listed_name {
    const char *name;
    bool folder;
} listed_name;
/* Those that are files or directories; in the order of the keys that are in them. */
pawl_status directory_list(archive *a, const char *directory, arena *memory, listed_name **out,
                           size_t *count, pawl_error *err) PAWL_MUST_CHECK;

/* Adds the files below a directory: what describes arrays is read, others are files of the archive.
 * Of the directory itself only names that belong to zarr. */
pawl_status directory_read(archive *a, const char *directory, key_map *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Is it a file that describes arrays of zarr? */
bool directory_describes(const char *name);

#endif
