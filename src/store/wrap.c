/* SPDX-License-Identifier: Apache-2.0 */
/* store/wrap: turns operations into calls that a wrapper can look at, refuse, or repeat. */
#include "store/wrap.h"

#include "store/implement.h"
#include "store/queue.h"

#include <string.h>

typedef struct wrapped_file {
    store_file base;
    store_file *inner;
} wrapped_file;

static pawl_status start_inner(const store_call *call, pawl_error *err) {
    const store_ops *ops = call->inner->ops;
    return ops->start != NULL ? ops->start(call->file, call->ring, call->io, call->n, err)
                              : error_set(err, PAWL_EUNSUPPORTED, "this store has no rings");
}

pawl_status store_call_inner(const store_call *call, pawl_error *err) {
    const store_ops *ops = call->inner->ops;
    switch (call->op) {
    case STORE_OP_OPEN:
        return ops->open(call->inner, call->path, call->mode, call->opened, err);
    case STORE_OP_READ:
        return ops->read(call->file, call->at, call->into, call->n, call->moved, err);
    case STORE_OP_WRITE:
        return call->ring != NULL
                   ? start_inner(call, err)
                   : ops->write(call->file, call->at, call->from, call->n, call->moved, err);
    case STORE_OP_SIZE:
        return ops->size(call->file, call->file_bytes, err);
    case STORE_OP_RESERVE:
        return store_reserve(call->file, call->at, err);
    case STORE_OP_SYNC:
        return ops->sync(call->file, err);
    case STORE_OP_MAKE_DIR:
        return ops->make_dir(call->inner, call->path, err);
    case STORE_OP_REMOVE_DIR:
        return ops->remove_dir(call->inner, call->path, err);
    case STORE_OP_RENAME:
        return ops->rename(call->inner, call->path, call->to, err);
    case STORE_OP_PUT:
        return store_put(call->inner, call->path, call->from, call->n, call->expected, call->now,
                         err);
    case STORE_OP_UNLINK:
        return ops->unlink(call->inner, call->path, call->expected, err);
    case STORE_OP_SYNC_DIR:
        return ops->sync_dir(call->inner, call->path, err);
    case STORE_OP_LIST:
        return ops->list(call->inner, call->path, call->each, call->context, err);
    case STORE_OP_STAT:
        return ops->stat(call->inner, call->path, call->found, err);
    case STORE_OP_SPACE:
        return ops->space(call->inner, call->room, err);
    default:
        return error_set(err, PAWL_EINTERNAL, "a store was asked for an unknown operation");
    }
}

static pawl_status call_around(store *s, store_call *call, pawl_error *err) {
    store_wrapper *w = (store_wrapper *)s;
    call->inner = w->inner;
    return w->around(w, call, err);
}

static pawl_status call_around_file(store_file *f, store_call *call, pawl_error *err) {
    call->file = ((wrapped_file *)f)->inner;
    call->path = f->path;
    return call_around(f->in, call, err);
}

/* ---- files ---------------------------------------------------------------------------------- */

static pawl_status wrapped_open(store *s, const char *path, store_mode mode, store_file **out,
                                pawl_error *err) {
    AUTOFREE wrapped_file *f = mem_calloc(1, sizeof(*f));
    if (f == NULL) {
        return error_nomem(err, sizeof(*f));
    }
    store_file_init(&f->base, s, path);
    TRY(call_around(
        s, &(store_call){.op = STORE_OP_OPEN, .path = path, .mode = mode, .opened = &f->inner},
        err));
    f->base.tag = f->inner->tag;
    *out = &f->base;
    f = NULL;
    return PAWL_OK;
}

static pawl_status wrapped_read(store_file *f, uint64_t at, void *to, size_t n, size_t *got,
                                pawl_error *err) {
    pawl_status status = call_around_file(
        f, &(store_call){.op = STORE_OP_READ, .at = at, .into = to, .n = n, .moved = got}, err);
    f->read_cached = ((const wrapped_file *)f)->inner->read_cached;
    return status;
}

static pawl_status wrapped_write(store_file *f, uint64_t at, const void *from, size_t n,
                                 size_t *put, pawl_error *err) {
    return call_around_file(
        f, &(store_call){.op = STORE_OP_WRITE, .at = at, .from = from, .n = n, .moved = put}, err);
}

static pawl_status wrapped_start(store_file *f, store_ring *ring, store_io *io, size_t n,
                                 pawl_error *err) {
    return call_around_file(
        f,
        &(store_call){
            .op = STORE_OP_WRITE, .at = io->at, .from = io->memory, .n = n, .ring = ring, .io = io},
        err);
}

static pawl_status wrapped_size(store_file *f, uint64_t *out, pawl_error *err) {
    return call_around_file(f, &(store_call){.op = STORE_OP_SIZE, .file_bytes = out}, err);
}

static pawl_status wrapped_reserve(store_file *f, uint64_t bytes, pawl_error *err) {
    return call_around_file(f, &(store_call){.op = STORE_OP_RESERVE, .at = bytes}, err);
}

static pawl_status wrapped_map(store_file *f, size_t n, store_mapping *out, pawl_error *err) {
    return store_map(((wrapped_file *)f)->inner, n, out, err);
}

static pawl_status wrapped_sync(store_file *f, pawl_error *err) {
    pawl_status status = call_around_file(f, &(store_call){.op = STORE_OP_SYNC}, err);
    f->tag = ((const wrapped_file *)f)->inner->tag;
    return status;
}

static void wrapped_close(store_file *f) {
    store_close(((wrapped_file *)f)->inner);
    mem_free(f);
}

/* ---- names ---------------------------------------------------------------------------------- */

static pawl_status wrapped_make_dir(store *s, const char *path, pawl_error *err) {
    return call_around(s, &(store_call){.op = STORE_OP_MAKE_DIR, .path = path}, err);
}

static pawl_status wrapped_remove_dir(store *s, const char *path, pawl_error *err) {
    return call_around(s, &(store_call){.op = STORE_OP_REMOVE_DIR, .path = path}, err);
}

static pawl_status wrapped_rename(store *s, const char *from, const char *to, pawl_error *err) {
    return call_around(s, &(store_call){.op = STORE_OP_RENAME, .path = from, .to = to}, err);
}

static pawl_status wrapped_put(store *s, const char *path, const void *data, size_t n,
                               const store_tag *expected, store_tag *now, pawl_error *err) {
    return call_around(s,
                       &(store_call){.op = STORE_OP_PUT,
                                     .path = path,
                                     .from = data,
                                     .n = n,
                                     .expected = expected,
                                     .now = now},
                       err);
}

static pawl_status wrapped_unlink(store *s, const char *path, const store_tag *expected,
                                  pawl_error *err) {
    return call_around(s, &(store_call){.op = STORE_OP_UNLINK, .path = path, .expected = expected},
                       err);
}

static void wrapped_catch_up(store *s) {
    store_catch_up(((store_wrapper *)s)->inner);
}

static pawl_status wrapped_sync_dir(store *s, const char *path, pawl_error *err) {
    return call_around(s, &(store_call){.op = STORE_OP_SYNC_DIR, .path = path}, err);
}

static pawl_status wrapped_list(store *s, const char *path, store_each_fn each, void *context,
                                pawl_error *err) {
    return call_around(
        s, &(store_call){.op = STORE_OP_LIST, .path = path, .each = each, .context = context}, err);
}

static pawl_status wrapped_stat(store *s, const char *path, store_stat *out, pawl_error *err) {
    return call_around(s, &(store_call){.op = STORE_OP_STAT, .path = path, .found = out}, err);
}

static pawl_status wrapped_space(store *s, store_space *out, pawl_error *err) {
    return call_around(s, &(store_call){.op = STORE_OP_SPACE, .path = "", .room = out}, err);
}

/* ---- the store ------------------------------------------------------------------------------ */

static void wrapped_destroy(store *s) {
    store_wrapper *w = (store_wrapper *)s;
    if (w->destroy != NULL) {
        w->destroy(w);
        return;
    }
    store_wrapper_clear(w);
    mem_free(w);
}

static const store_ops wrapped_ops = {.open = wrapped_open,
                                      .read = wrapped_read,
                                      .write = wrapped_write,
                                      .size = wrapped_size,
                                      .reserve = wrapped_reserve,
                                      .map = wrapped_map,
                                      .start = wrapped_start,
                                      .sync = wrapped_sync,
                                      .close = wrapped_close,
                                      .make_dir = wrapped_make_dir,
                                      .remove_dir = wrapped_remove_dir,
                                      .rename = wrapped_rename,
                                      .put = wrapped_put,
                                      .unlink = wrapped_unlink,
                                      .sync_dir = wrapped_sync_dir,
                                      .catch_up = wrapped_catch_up,
                                      .list = wrapped_list,
                                      .stat = wrapped_stat,
                                      .space = wrapped_space,
                                      .destroy = wrapped_destroy};

pawl_status store_wrapper_init(store_wrapper *w, store *inner, pawl_error *err) {
    w->base.ops = &wrapped_ops;
    w->base.traits = inner->traits;
    w->base.retries = inner->retries;
    w->base.root = mem_strdup(inner->root);
    w->inner = inner;
    return w->base.root == NULL ? error_nomem(err, strlen(inner->root) + 1) : PAWL_OK;
}

void store_wrapper_clear(store_wrapper *w) {
    mem_free(w->base.root);
    w->base.root = NULL;
}
