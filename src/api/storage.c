/* SPDX-License-Identifier: Apache-2.0 */
/* The storage of a path: a posix store that is asked again where that makes sense (S08). */
#include "api/api.h"
#include "path/path.h"

#include "run/run.h"
#include "store/wrap.h"

#define RETRY_ATTEMPTS       4
#define RETRY_FIRST_DELAY_NS 100000000u

/* Wrappers do not own what they wrap; this one does, so that one store_destroy ends them all. */
typedef struct owned_store {
    store_wrapper wrapper;
    store *retry, *posix;
} owned_store;

static pawl_status pass_on(store_wrapper *w, store_call *call, pawl_error *err) {
    (void)w;
    return store_call_inner(call, err);
}

static void destroy(store_wrapper *w) {
    owned_store *o = (owned_store *)w;
    store_destroy(o->retry);
    store_destroy(o->posix);
    store_wrapper_clear(w);
    mem_free(o);
}

static pawl_status wrap(store *posix, store **out, pawl_error *err) {
    owned_store *o = mem_calloc(1, sizeof(*o));
    if (o == NULL) {
        return error_nomem(err, sizeof(*o));
    }
    pawl_status status = store_retry_wrap(posix, platform_system(), RETRY_ATTEMPTS,
                                          RETRY_FIRST_DELAY_NS, &o->retry, err);
    if (status == PAWL_OK) {
        status = store_wrapper_init(&o->wrapper, o->retry, err);
    }
    if (status != PAWL_OK) {
        store_destroy(o->retry);
        mem_free(o);
        return status;
    }
    o->posix = posix;
    o->wrapper.around = pass_on;
    o->wrapper.destroy = destroy;
    *out = &o->wrapper.base;
    return PAWL_OK;
}

pawl_status storage_open(const char *path, bool create, store **out, pawl_error *err) {
    store *posix;
    TRY(path_open(path, create, &posix, err));
    pawl_status status = wrap(posix, out, err);
    if (status != PAWL_OK) {
        store_destroy(posix);
    }
    return status;
}
