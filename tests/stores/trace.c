/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stores/trace: calls back after each operation, with what it was, how it ended and how long it
 * took. A write on a ring is reported when it has begun; how it ends only the queue knows.
 */
#include "stores/stores.h"

const char *store_op_name(store_op op) {
    static const char *const names[] = {
        "open",   "read", "write",  "size",     "reserve", "sync", "make_dir", "remove_dir",
        "rename", "put",  "unlink", "sync_dir", "list",    "stat", "space",    "any"};
    return (size_t)op < ARRAY_LENGTH(names) ? names[op] : "unknown";
}

typedef struct trace_store {
    store_wrapper wrapper;
    const platform *os;
    void (*each)(void *context, const store_trace_event *event);
    void *context;
} trace_store;

static pawl_status trace_around(store_wrapper *w, store_call *call, pawl_error *err) {
    const trace_store *t = (const trace_store *)w;
    uint64_t start = t->os->monotonic_ns(t->os->context);
    pawl_status status = store_call_inner(call, err);
    if (call->ring != NULL && status != PAWL_OK) {
        return status; /* the queue comes again with a plain write */
    }
    uint64_t end = t->os->monotonic_ns(t->os->context);
    store_trace_event event = {.op = call->op,
                               .path = call->path,
                               .to = call->to,
                               .at = call->at,
                               .status = status,
                               .seconds = (double)(end - start) / 1e9};
    if (store_call_moves_bytes(call)) {
        event.bytes = status == PAWL_OK && call->moved != NULL ? *call->moved : call->n;
    }
    if (t->each != NULL) {
        t->each(t->context, &event);
    }
    return status;
}

pawl_status store_trace_wrap(store *inner, const platform *os,
                             void (*each)(void *context, const store_trace_event *event),
                             void *context, store **out, pawl_error *err) {
    AUTOFREE trace_store *t = mem_calloc(1, sizeof(*t));
    if (t == NULL) {
        return error_nomem(err, sizeof(*t));
    }
    TRY(store_wrapper_init(&t->wrapper, inner, err));
    t->wrapper.around = trace_around;
    t->os = os;
    t->each = each;
    t->context = context;
    *out = &t->wrapper.base;
    t = NULL;
    return PAWL_OK;
}
