/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of files as keys. */
#include "foreign/orbax/directory.h"
#include "format/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file takes so much of the storage at least, its name included. */
#define FILE_BYTES 256u

bool directory_describes(const char *name) {
    static const char *const names[] = {".zarray", ".zattrs", ".zgroup", ".zmetadata", "zarr.json"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* As if the names of directories ended in '/'. */
static int by_key(const void *left, const void *right) {
    const listed_name *a = left;
    const listed_name *b = right;
    const unsigned char *x = (const unsigned char *)a->name;
    const unsigned char *y = (const unsigned char *)b->name;
    while (*x != '\0' && *x == *y) {
        x++;
        y++;
    }
    int at_x = *x == '\0' && a->folder ? '/' : *x;
    int at_y = *y == '\0' && b->folder ? '/' : *y;
    return at_x - at_y;
}

static pawl_status join(const char *directory, const char *name, char out[STORE_MAX_PATH],
                        pawl_error *err) {
    const char *slash = directory[0] != '\0' ? "/" : "";
    int n = snprintf(out, STORE_MAX_PATH, "%s%s%s", directory, slash, name);
    if (n >= 0 && n < STORE_MAX_PATH) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ELIMIT, "a path in the checkpoint is too long");
    error_expected(err, "at most %d bytes", STORE_MAX_PATH - 1);
    return PAWL_ELIMIT;
}

pawl_status directory_list(archive *a, const char *directory, arena *memory, listed_name **out,
                           size_t *count, pawl_error *err) {
    char **names;
    size_t n;
    char path[STORE_MAX_PATH];
    store_stat is;
    TRY(store_names(a->base.store, directory, FORMAT_MAX_NAMES, memory, &names, &n, err));
    *out = arena_take(memory, (n + 1) * sizeof(**out), err);
    *count = 0;
    if (*out == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        TRY(join(directory, names[i], path, err));
        TRY(store_stat_path(a->base.store, path, &is, err));
        if (is.type == STORE_FILE_TYPE || is.type == STORE_DIR_TYPE) {
            (*out)[(*count)++] =
                (listed_name){.name = names[i], .folder = is.type == STORE_DIR_TYPE};
        }
    }
    if (*count > 1) {
        qsort(*out, *count, sizeof(**out), by_key);
    }
    return PAWL_OK;
}

static pawl_status add_file(archive *a, const char *path, const char *name, const char *key,
                            key_map *out, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    key_value value = {0};
    out->file_bytes += FILE_BYTES;
    if (directory_describes(name)) {
        TRY(archive_read_description(a, path, FOREIGN_MAX_ZARR_METADATA, &text, err));
        out->file_bytes += text.size;
        value.bytes = text.size;
        return key_map_add(out, key, strlen(key), &value, text.data, err);
    }
    TRY(archive_add_file(a, path, &value.file, err));
    value.bytes = a->files[value.file].was.size;
    return key_map_add(out, key, strlen(key), &value, NULL, err);
}

/* Of the directory that is read only what is zarr's: others have their own reader. */
static bool is_skipped(const listed_name *name, int depth) {
    if (depth > 0) {
        return false;
    }
    if (name->folder) {
        return strcmp(name->name, "array_metadatas") == 0;
    }
    return !directory_describes(name->name) && name->name[0] != 'c' &&
           (name->name[0] < '0' || name->name[0] > '9');
}

/* Recursive; FOREIGN_MAX_ORBAX_DEPTH bounds it. */
static pawl_status read_folder(archive *a, const char *directory, size_t skip, int depth,
                               key_map *out, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0};
    listed_name *names;
    size_t count;
    if (depth > FOREIGN_MAX_ORBAX_DEPTH) {
        error_set(err, PAWL_ELIMIT, "directories of the checkpoint are nested too deep");
        store_error_path(err, a->base.store, directory);
        error_expected(err, "at most %d levels", FOREIGN_MAX_ORBAX_DEPTH);
        return PAWL_ELIMIT;
    }
    TRY(directory_list(a, directory, &memory, &names, &count, err));
    for (size_t i = 0; i < count; i++) {
        char path[STORE_MAX_PATH];
        if (is_skipped(&names[i], depth)) {
            continue;
        }
        TRY(join(directory, names[i].name, path, err));
        if (names[i].folder) {
            TRY(read_folder(a, path, skip, depth + 1, out, err));
        } else {
            TRY(add_file(a, path, names[i].name, path + skip, out, err));
        }
    }
    return PAWL_OK;
}

pawl_status directory_read(archive *a, const char *directory, key_map *out, pawl_error *err) {
    size_t n = strlen(directory);
    return read_folder(a, directory, n > 0 ? n + 1 : 0, 0, out, err);
}
