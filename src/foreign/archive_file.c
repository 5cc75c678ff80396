/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file of another tool, as it is read: only as long as it is the one that was looked at when the
 * checkpoint was opened.
 *
 * Nothing keeps others from changing it, and often nothing in it shows that they did. So its size
 * and the time of its last change are compared before it is opened and after each read, before the
 * bytes go any further; and it is not mapped, since a mapping changes, or ends, under its reader.
 *
 * It may be without its first bytes: tensors that are not aligned to their elements are in a file
 * that begins a few bytes later. Errors name places of the real file.
 */
#include "foreign/archive.h"

#include <stdio.h>
#include <string.h>

typedef struct archive_file {
    store_file base;
    store in; /* that the file is in, for its operations */
    store_file *inner;
    const archive *of;
    const archive_seen *seen;
    uint64_t skip;
} archive_file;

/* ---- is it what it was? ---- */

pawl_status archive_look(const archive *a, const char *path, store_stat *out, pawl_error *err) {
    pawl_status status = store_stat_path(a->base.store, path, out, err);
    if (status != PAWL_OK || out->type == STORE_FILE_TYPE) {
        return status;
    }
    error_set(err, PAWL_EUNSUPPORTED, "a file of the checkpoint is no regular file");
    store_error_path(err, a->base.store, path);
    error_expected(err, "a regular file");
    error_found(err, "%s",
                out->type == STORE_DIR_TYPE ? "a directory" : "a pipe, a socket or a device");
    return PAWL_EUNSUPPORTED;
}

static pawl_status was_changed(const archive *a, const archive_seen *file, const char *how,
                               pawl_error *err) {
    error_set(err, PAWL_EBUSY, "a file of the checkpoint was %s while it was open", how);
    store_error_path(err, a->base.store, file->path);
    error_next(err, "open the checkpoint again when nothing changes it any more");
    return PAWL_EBUSY;
}

pawl_status archive_unchanged(const archive *a, const archive_seen *file, pawl_error *err) {
    const store_stat *was = &file->was;
    store_stat is;
    pawl_status status = store_stat_path(a->base.store, file->path, &is, err);
    if (status == PAWL_ENOTFOUND) {
        (void)was_changed(a, file, "removed", err);
        error_found(err, "no such file");
        return PAWL_EBUSY;
    }
    if (status != PAWL_OK || (is.type == was->type && is.size == was->size &&
                              is.modified_unix_ns == was->modified_unix_ns)) {
        return status;
    }
    (void)was_changed(a, file, "changed", err);
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
    const archive_file *file = (const archive_file *)f;
    struct pawl_error story = ERROR_INIT;
    pawl_status status =
        file->inner->in->ops->read(file->inner, at + file->skip, to, n, got, &story);
    TRY(archive_unchanged(file->of, file->seen, err));
    f->read_cached = file->inner->read_cached;
    if (status != PAWL_OK) {
        *err = story;
    }
    return status;
}

static pawl_status get_size(store_file *f, uint64_t *out, pawl_error *err) {
    const archive_file *file = (const archive_file *)f;
    TRY(store_size(file->inner, out, err));
    *out = *out > file->skip ? *out - file->skip : 0;
    return PAWL_OK;
}

static void close_file(store_file *f) {
    archive_file *file = (archive_file *)f;
    store_close(file->inner);
    mem_free(file);
}

static const store_ops file_ops = {.read = read_unchanged, .size = get_size, .close = close_file};

/* Without its first `skip` bytes. */
pawl_status archive_open_seen(archive *a, const archive_seen *seen, uint64_t skip, store_mode mode,
                              store_file **out, pawl_error *err) {
    TRY(archive_unchanged(a, seen, err));
    AUTOFREE archive_file *file = mem_calloc(1, sizeof(*file));
    if (file == NULL) {
        return error_nomem(err, sizeof(*file));
    }
    TRY(store_open(a->base.store, seen->path, mode, &file->inner, err));
    const store *in = file->inner->in;
    file->of = a;
    file->seen = seen;
    file->skip = skip;
    file->in = (store){.ops = &file_ops, .traits = in->traits, .root = in->root};
    file->base.in = &file->in;
    (void)snprintf(file->base.path, sizeof(file->base.path), "%s", file->inner->path);
    *out = &file->base;
    file = NULL;
    return PAWL_OK;
}

pawl_status archive_open_file(archive *a, uint32_t file, store_mode mode, store_file **out,
                              pawl_error *err) {
    return archive_open_seen(a, &a->files[file], 0, mode, out, err);
}

pawl_status archive_open_stream(archive *a, uint32_t stream, store_mode mode, store_file **out,
                                pawl_error *err) {
    uint32_t files = a->base.files;
    uint32_t real = ARCHIVE_PHASES * files;
    if (stream >= real) {
        const stream_recipe *recipe = a->streams[stream - real].recipe;
        return recipe->open(recipe, a, mode, out, err);
    }
    return archive_open_seen(a, &a->files[stream % files], stream / files, mode, out, err);
}
