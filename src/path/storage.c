/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_storage: which storage serves a path, and how long it is held. */
#include "path/path.h"
#include "store/wrap.h"

#include <stdatomic.h>

struct pawl_storage {
    const storage_ops *ops;
    void *context;
    atomic_size_t holders; /* the caller, until it closes the handle, and each store in use */
};

/* A store that holds the storage which it is of. */
typedef struct held_store {
    store_wrapper wrapper;
    pawl_storage *storage;
} held_store;

static pawl_status open_file(void *context, const char *given, bool create, store **out,
                             pawl_error *err) {
    (void)context;
    return path_open(given, create, out, err);
}

const storage_ops storage_file = {.open = open_file};

pawl_status storage_new(const storage_ops *ops, void *context, pawl_storage **out,
                        pawl_error *err) {
    pawl_storage *storage = mem_calloc(1, sizeof(*storage));
    if (storage == NULL) {
        if (ops->destroy != NULL) {
            ops->destroy(context);
        }
        return error_nomem(err, sizeof(*storage));
    }
    storage->ops = ops;
    storage->context = context;
    atomic_init(&storage->holders, 1);
    *out = storage;
    return PAWL_OK;
}

void storage_release(pawl_storage *storage) {
    if (storage == NULL || atomic_fetch_sub(&storage->holders, 1) > 1) {
        return;
    }
    if (storage->ops->destroy != NULL) {
        storage->ops->destroy(storage->context);
    }
    mem_free(storage);
}

bool storage_is_local(const pawl_storage *storage) {
    return storage == NULL || storage->ops == &storage_file;
}

/* ---- stores that hold it ---- */

static pawl_status pass_on(store_wrapper *w, store_call *call, pawl_error *err) {
    (void)w;
    return store_call_inner(call, err);
}

static void held_destroy(store_wrapper *w) {
    pawl_storage *storage = ((held_store *)w)->storage;
    store_destroy(w->inner);
    store_wrapper_clear(w);
    mem_free(w);
    storage_release(storage);
}

/* Takes `inner` over, also when it fails. */
static pawl_status hold(pawl_storage *storage, store *inner, store **out, pawl_error *err) {
    AUTOFREE held_store *held = mem_calloc(1, sizeof(*held));
    if (held == NULL) {
        store_destroy(inner);
        return error_nomem(err, sizeof(*held));
    }
    pawl_status status = store_wrapper_init(&held->wrapper, inner, err);
    if (status != PAWL_OK) {
        store_destroy(inner);
        return status;
    }
    held->wrapper.around = pass_on;
    held->wrapper.destroy = held_destroy;
    held->storage = storage;
    atomic_fetch_add(&storage->holders, 1);
    *out = &held->wrapper.base;
    held = NULL;
    return PAWL_OK;
}

pawl_status storage_open_path(const pawl_storage *storage, const char *given, bool create,
                              store **out, pawl_error *err) {
    store *inner = NULL;
    *out = NULL;
    if (storage_is_local(storage)) { /* its stores need no handle */
        return path_open(given, create, out, err);
    }
    TRY(storage->ops->open(storage->context, given, create, &inner, err));
    /* What a caller must not change through its handle is what is counted here. */
    return hold((pawl_storage *)storage, inner, out, err);
}
