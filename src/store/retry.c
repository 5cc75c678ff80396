/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/retry: repeats what failed for a reason that passes.
 *
 * 1. A failed sync of a filesystem is never repeated: the kernel reports a lost write once, and the
 *    next sync of the same file may succeed without it.
 * 2. A time-out, or an interruption, does not say whether the operation was done, or will be. What
 *    is not the same when done twice (exclusive creation, rename, removal, a put on a condition) is
 *    not repeated after it: it would fail with the consequence of its own success.
 * 3. A stale handle is worth a repetition only where names are looked up again: in open.
 * 4. A listing that has delivered names is not repeated, or they would come twice.
 */
#include "store/wrap.h"

#include <errno.h>
#include <stdatomic.h>

typedef struct retry_store {
    store_wrapper wrapper;
    const platform *os;
    int most_tries;
    uint64_t first_delay_ns;
    _Atomic uint64_t repeated;
} retry_store;

/* Of a filesystem. On an object store it completes an upload, which nobody has begun to forget. */
static bool is_sync(const store_call *call) {
    return (call->op == STORE_OP_SYNC || call->op == STORE_OP_SYNC_DIR) &&
           !call->inner->traits.objects;
}

static bool same_when_done_twice(const store_call *call) {
    switch (call->op) {
    case STORE_OP_OPEN:
        return !store_mode_creates(call->mode);
    case STORE_OP_SYNC:
    case STORE_OP_MAKE_DIR:
    case STORE_OP_REMOVE_DIR:
    case STORE_OP_RENAME:
    case STORE_OP_UNLINK:
        return false;
    case STORE_OP_PUT:
        return call->expected == NULL;
    default:
        return true;
    }
}

static bool reason_passes(const store_call *call, int system_errno) {
    switch (system_errno) {
    case EAGAIN:
        return true;
    case EINTR:
    case ENETDOWN:
    case ETIMEDOUT:
        return same_when_done_twice(call);
    case ESTALE:
        return call->op == STORE_OP_OPEN && !store_mode_creates(call->mode);
    default:
        return false;
    }
}

/* Counts the names that a listing has delivered. */
typedef struct listing {
    store_each_fn each;
    void *context;
    uint64_t delivered;
} listing;

static pawl_status count_name(void *context, const store_listed *found, pawl_error *err) {
    listing *l = context;
    l->delivered++;
    return l->each(l->context, found, err);
}

static pawl_status retry_around(store_wrapper *w, store_call *call, pawl_error *err) {
    retry_store *r = (retry_store *)w;
    if (call->ring != NULL) {
        return store_call_inner(call, err); /* one that fails comes again as a plain write */
    }
    uint64_t delay_ns = r->first_delay_ns;
    listing listed = {.each = call->each, .context = call->context};
    store_call again = *call;
    if (call->op == STORE_OP_LIST) {
        again.each = count_name;
        again.context = &listed;
    }
    for (int tries = 1;; tries++) {
        pawl_status status = store_call_inner(&again, err);
        if (status == PAWL_OK || is_sync(call) || listed.delivered > 0 ||
            !reason_passes(call, err->system_errno)) {
            return status;
        }
        if (tries >= r->most_tries) {
            error_wrap(err, "gave up after %d attempts", tries);
            return status;
        }
        atomic_fetch_add(&r->repeated, 1);
        r->os->sleep_ns(r->os->context, delay_ns);
        delay_ns = delay_ns > UINT64_MAX / 2 ? UINT64_MAX : delay_ns * 2;
    }
}

uint64_t store_retry_count(const store *s) {
    return s->retries != NULL ? atomic_load(s->retries) : 0;
}

static void retry_destroy(store_wrapper *w) {
    store_destroy(w->inner);
    store_wrapper_clear(w);
    mem_free(w);
}

pawl_status store_retry_wrap(store *inner, const platform *os, int most_tries,
                             uint64_t first_delay_ns, store **out, pawl_error *err) {
    AUTOFREE retry_store *r = mem_calloc(1, sizeof(*r));
    if (r == NULL) {
        store_destroy(inner);
        return error_nomem(err, sizeof(*r));
    }
    pawl_status status = store_wrapper_init(&r->wrapper, inner, err);
    if (status != PAWL_OK) {
        store_destroy(inner);
        return status;
    }
    r->wrapper.base.retries = &r->repeated;
    r->wrapper.around = retry_around;
    r->wrapper.destroy = retry_destroy;
    r->os = os;
    r->most_tries = most_tries;
    r->first_delay_ns = first_delay_ns;
    *out = &r->wrapper.base;
    r = NULL;
    return PAWL_OK;
}
