/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file without its first bytes: where tensors of a foreign file are not aligned to their
 * elements, they are in a file that begins a few bytes later. Errors name places of the real file.
 */
#include "foreign/weights.h"

#include <stdio.h>

typedef struct shifted_file {
    store_file base;
    store in; /* that the file is in, for its operations */
    store_file *inner;
    uint64_t skip;
} shifted_file;

static pawl_status shifted_read(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                                pawl_error *err) {
    const shifted_file *s = (const shifted_file *)f;
    pawl_status status = s->inner->in->ops->read(s->inner, at + s->skip, to, n, got, err);
    f->read_cached = s->inner->read_cached;
    return status;
}

static pawl_status shifted_size(store_file *f, uint64_t *out, pawl_error *err) {
    const shifted_file *s = (const shifted_file *)f;
    TRY(store_size(s->inner, out, err));
    *out = *out > s->skip ? *out - s->skip : 0;
    return PAWL_OK;
}

static void shifted_close(store_file *f) {
    shifted_file *s = (shifted_file *)f;
    store_close(s->inner);
    mem_free(s);
}

static const store_ops shifted_ops = {
    .read = shifted_read, .size = shifted_size, .close = shifted_close};

pawl_status shifted_file_open(store_file *inner, uint64_t skip, store_file **out, pawl_error *err) {
    shifted_file *s = mem_calloc(1, sizeof(*s));
    if (s == NULL) {
        store_close(inner);
        return error_nomem(err, sizeof(*s));
    }
    s->inner = inner;
    s->skip = skip;
    s->in = (store){.ops = &shifted_ops, .traits = inner->in->traits, .root = inner->in->root};
    s->base.in = &s->in;
    (void)snprintf(s->base.path, sizeof(s->base.path), "%s", inner->path);
    *out = &s->base;
    return PAWL_OK;
}
