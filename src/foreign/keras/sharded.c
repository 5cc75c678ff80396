/* SPDX-License-Identifier: Apache-2.0 */
/* Reads weights that Keras put into several files. */
#include "foreign/hdf5/hdf5.h"
#include "foreign/keras/keras.h"
#include "foreign/keras/shards.h"

#include <string.h>

#define METADATA "weights.json@metadata"

static void free_details(void *context) {
    keras_shards *shards = context;
    keras_shards_free(shards);
    mem_free(shards);
}

static pawl_status is_missing(const archive *a, const char *file, pawl_error *err) {
    error_set(err, PAWL_EDAMAGED, "a file that the index of the weights names is missing");
    store_error_path(err, a->base.store, file);
    error_expected(err, "a file, as %.200s says", a->name);
    error_found(err, "no such file");
    error_next(err, "get all files of the directory from where it came from");
    return PAWL_EDAMAGED;
}

static pawl_status add_files(archive *a, const keras_shards *shards, pawl_error *err) {
    hdf5_usage usage = {.loaded = 0};
    uint32_t file;
    for (size_t i = 0; i < shards->file_count; i++) {
        pawl_status status = archive_add_file(a, shards->files[i], &file, err);
        if (status != PAWL_OK) {
            return status == PAWL_ENOTFOUND ? is_missing(a, shards->files[i], err) : status;
        }
    }
    for (uint32_t i = 0; i < a->base.files; i++) {
        const hdf5_place place = {.stream = i, .bytes = a->files[i].was.size};
        TRY(hdf5_add(a, &place, &usage, err));
    }
    return PAWL_OK;
}

pawl_status keras_read_sharded(archive *a, pawl_error *err) {
    CLEANUP(buffer_free) buffer text = {0};
    TRY(archive_read_description(a, a->name, FOREIGN_MAX_HDF5_BLOCK, &text, err));
    keras_shards *shards = mem_calloc(1, sizeof(*shards));
    if (shards == NULL) {
        return error_nomem(err, sizeof(*shards));
    }
    a->details = shards;
    a->free_details = free_details;
    pawl_status status = keras_shards_decode(text.data, text.size, shards, err);
    if (status != PAWL_OK) {
        store_error_path(err, a->base.store, a->name);
        return status;
    }
    TRY(add_files(a, shards, err));
    return shards->metadata == NULL
               ? PAWL_OK
               : archive_add_value(a, METADATA, PAWL_ROLE_OTHER, PAWL_KIND_JSON, shards->metadata,
                                   strlen(shards->metadata), err);
}

/* The first entry whose name is not less than the path and a slash. */
static const record_entry *first_below(const archive *a, const char *path) {
    size_t n = strlen(path);
    size_t low = 0;
    size_t high = (size_t)a->base.entries;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const char *name = a->entries[middle].name;
        int order = strncmp(name, path, n);
        if (order < 0 || (order == 0 && (unsigned char)name[n] < '/')) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < a->base.entries ? &a->entries[low] : NULL;
}

/* Are there tensors of each path of the index? */
pawl_status keras_compare_sharded(const archive *a, pawl_error *err) {
    const keras_shards *shards = a->details;
    for (size_t i = 0; i < shards->place_count; i++) {
        const keras_place *place = &shards->places[i];
        const record_entry *e = first_below(a, place->path);
        size_t n = strlen(place->path);
        if (e != NULL && strncmp(e->name, place->path, n) == 0 && e->name[n] == '/') {
            continue;
        }
        error_set(err, PAWL_EDAMAGED, "the files have nothing of a path that the index names");
        store_error_path(err, a->base.store, a->name);
        error_entry(err, place->path);
        error_range(err, place->at, 1);
        error_next(err, "get all files of the directory from where it came from");
        return PAWL_EDAMAGED;
    }
    return PAWL_OK;
}
