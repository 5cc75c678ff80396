/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of weights, as it is read: only as long as it is the one whose header was read.
 *
 * Nothing keeps others from changing it, and nothing in it shows that they did. So its size and the
 * time of its last change are compared before it is opened and after each read, before the bytes go
 * any further; and it is not mapped, since a mapping changes, or ends, under its reader.
 *
 * It may be without its first bytes: tensors that are not aligned to their elements are in a file
 * that begins a few bytes later. Errors name places of the real file.
 */
#include "foreign/weights.h"

#include <stdio.h>
#include <string.h>

typedef struct weights_file {
    store_file base;
    store in; /* that the file is in, for its operations */
    store_file *inner;
    const weights *of;
    uint32_t shard;
    uint64_t skip;
} weights_file;

/* ---- is it what it was? ---- */

/* What the storage says of a link that leads nowhere stays. */
static pawl_status is_missing(const weights *w, uint32_t shard, pawl_error *err) {
    struct pawl_error story = *err;
    error_set(err, PAWL_EDAMAGED, "a file that the index of the weights names is missing");
    weights_file_path(w, w->shards[shard], err);
    error_expected(err, "a file, as %.200s says", w->name);
    error_found(err, "%s", story.found[0] != '\0' ? story.found : "no such file");
    error_next(err, "get all files of the directory from where it came from");
    return PAWL_EDAMAGED;
}

static pawl_status is_no_file(const weights *w, uint32_t shard, store_type type, pawl_error *err) {
    error_set(err, PAWL_EUNSUPPORTED, "a file of the weights is no regular file");
    weights_file_path(w, w->shards[shard], err);
    error_expected(err, "a regular file");
    error_found(err, "%s", type == STORE_DIR_TYPE ? "a directory" : "a pipe, a socket or a device");
    return PAWL_EUNSUPPORTED;
}

pawl_status weights_look(const weights *w, uint32_t shard, store_stat *out, pawl_error *err) {
    pawl_status status = store_stat_path(w->base.store, w->shards[shard], out, err);
    if (status == PAWL_OK && out->type != STORE_FILE_TYPE) {
        return is_no_file(w, shard, out->type, err);
    }
    return status == PAWL_ENOTFOUND && w->sharded ? is_missing(w, shard, err) : status;
}

static pawl_status was_changed(const weights *w, uint32_t shard, const char *how, pawl_error *err) {
    error_set(err, PAWL_EBUSY, "a file of the weights was %s while it was open", how);
    weights_file_path(w, w->shards[shard], err);
    error_next(err, "open the weights again when nothing changes them any more");
    return PAWL_EBUSY;
}

pawl_status weights_unchanged(const weights *w, uint32_t shard, pawl_error *err) {
    const store_stat *was = &w->seen[shard];
    store_stat is;
    pawl_status status = store_stat_path(w->base.store, w->shards[shard], &is, err);
    if (status == PAWL_ENOTFOUND) {
        (void)was_changed(w, shard, "removed", err);
        error_found(err, "no such file");
        return PAWL_EBUSY;
    }
    if (status != PAWL_OK || (is.type == was->type && is.size == was->size &&
                              is.modified_unix_ns == was->modified_unix_ns)) {
        return status;
    }
    (void)was_changed(w, shard, "changed", err);
    if (is.size != was->size) {
        error_expected(err, "%llu bytes, as when it was opened", (unsigned long long)was->size);
        error_found(err, "%llu bytes", (unsigned long long)is.size);
    } else {
        error_expected(err, "the time of change that it had when it was opened");
        error_found(err, "another one");
    }
    return PAWL_EBUSY;
}

/* ---- the file ---- */

static pawl_status read_unchanged(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                                  pawl_error *err) {
    const weights_file *file = (const weights_file *)f;
    struct pawl_error story = ERROR_INIT;
    pawl_status status =
        file->inner->in->ops->read(file->inner, at + file->skip, to, n, got, &story);
    TRY(weights_unchanged(file->of, file->shard, err));
    f->read_cached = file->inner->read_cached;
    if (status != PAWL_OK) {
        *err = story;
    }
    return status;
}

static pawl_status get_size(store_file *f, uint64_t *out, pawl_error *err) {
    const weights_file *file = (const weights_file *)f;
    TRY(store_size(file->inner, out, err));
    *out = *out > file->skip ? *out - file->skip : 0;
    return PAWL_OK;
}

static void close_file(store_file *f) {
    weights_file *file = (weights_file *)f;
    store_close(file->inner);
    mem_free(file);
}

static const store_ops file_ops = {.read = read_unchanged, .size = get_size, .close = close_file};

pawl_status weights_open_file(weights *w, uint32_t shard, uint64_t skip, store_mode mode,
                              store_file **out, pawl_error *err) {
    TRY(weights_unchanged(w, shard, err));
    AUTOFREE weights_file *file = mem_calloc(1, sizeof(*file));
    if (file == NULL) {
        return error_nomem(err, sizeof(*file));
    }
    TRY(store_open(w->base.store, w->shards[shard], mode, &file->inner, err));
    const store *in = file->inner->in;
    file->of = w;
    file->shard = shard;
    file->skip = skip;
    file->in = (store){.ops = &file_ops, .traits = in->traits, .root = in->root};
    file->base.in = &file->in;
    (void)snprintf(file->base.path, sizeof(file->base.path), "%s", file->inner->path);
    *out = &file->base;
    file = NULL;
    return PAWL_OK;
}
