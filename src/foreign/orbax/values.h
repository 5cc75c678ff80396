/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/orbax/values: what is no array: JSON, strings, and other small files, as values. */
#ifndef FOREIGN_ORBAX_VALUES_H
#define FOREIGN_ORBAX_VALUES_H

#include "foreign/archive.h"
#include "foreign/orbax/tree.h"

typedef struct found_value {
    const char *name;
    const char *path;
    uint8_t *bytes; /* NULL: still in the file */
    size_t n;
} found_value;

typedef struct orbax_values {
    archive *a;
    found_value *found;
    size_t count, room;
    uint64_t bytes; /* that were read, of all of them */
    buffer unread;  /* JSON: files that are not read, and why */
} orbax_values;

void values_free(orbax_values *v);
/* A file becomes a value by its name, or by that of its item. */
pawl_status values_find_file(orbax_values *v, const char *prefix, const char *path,
                             const char *name, pawl_error *err) PAWL_MUST_CHECK;
/* A file whose text was read. */
pawl_status values_add_text(orbax_values *v, const char *prefix, const char *name, const char *path,
                            const buffer *text, pawl_error *err) PAWL_MUST_CHECK;
/* A path that is not read. */
pawl_status values_add_unread(orbax_values *v, const char *path, const char *why, pawl_error *err)
    PAWL_MUST_CHECK;
/* What _strings.json has; those that are leaves of the tree are marked. */
pawl_status values_add_strings(orbax_values *v, const char *directory, const char *prefix,
                               orbax_tree *tree, pawl_error *err) PAWL_MUST_CHECK;
/* Adds what was found to the archive, which has all its files. */
pawl_status values_add_all(orbax_values *v, pawl_error *err) PAWL_MUST_CHECK;

#endif
