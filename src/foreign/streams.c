/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that are made of memory: the values of an archive. */
#include "foreign/streams.h"

#include <stdio.h>
#include <string.h>

typedef struct values_file {
    store_file base;
    store in;
    const buffer *bytes;
} values_file;

static pawl_status read_values(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                               pawl_error *err) {
    const buffer *bytes = ((values_file *)f)->bytes;
    size_t left = at < bytes->size ? bytes->size - (size_t)at : 0;
    (void)err;
    *got = n < left ? n : left;
    if (*got > 0) {
        memcpy(to, bytes->data + at, *got);
    }
    return PAWL_OK;
}

static pawl_status size_of_values(store_file *f, uint64_t *out, pawl_error *err) {
    (void)err;
    *out = ((values_file *)f)->bytes->size;
    return PAWL_OK;
}

static void close_values(store_file *f) {
    mem_free(f);
}

static const store_ops values_ops = {
    .read = read_values, .size = size_of_values, .close = close_values};

pawl_status stream_of_values(const stream_recipe *recipe, archive *a, store_mode mode,
                             store_file **out, pawl_error *err) {
    values_file *file = mem_calloc(1, sizeof(*file));
    (void)recipe;
    (void)mode;
    if (file == NULL) {
        return error_nomem(err, sizeof(*file));
    }
    file->in =
        (store){.ops = &values_ops, .traits = a->base.store->traits, .root = a->base.store->root};
    file->base.in = &file->in;
    file->bytes = &a->values.bytes;
    (void)snprintf(file->base.path, sizeof(file->base.path), "%s", a->name);
    *out = &file->base;
    return PAWL_OK;
}
