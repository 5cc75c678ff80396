/* SPDX-License-Identifier: Apache-2.0 */
/* stores/fault: fails, shortens, delays or hangs a chosen operation. */
#include "stores/stores.h"

#include "store/implement.h"

#include <assert.h>
#include <errno.h>

typedef struct fault_store {
    store_wrapper wrapper;
    const platform *os;
    monitor lock; /* for all below */
    store_fault plan;
    uint64_t counts[STORE_OP_ANY + 1];
    bool fired;
    uint64_t released; /* how often: one release ends all hangs of the moment */
} fault_store;

static fault_store *fault_of(store *s) {
    return (fault_store *)s;
}

/* What the fault does to one operation. */
typedef struct stroke {
    bool struck;
    store_fault plan;
    uint64_t released; /* when it was struck: a release after that is for it */
} stroke;

/* `count`: the operation's own number, from 1. */
static bool fault_strikes(const fault_store *f, store_op op, uint64_t count) {
    const store_fault *plan = &f->plan;
    return (plan->op == op || plan->op == STORE_OP_ANY) && plan->nth > 0 &&
           (plan->forever ? count >= plan->nth : count == plan->nth && !f->fired);
}

static stroke count_and_judge(fault_store *f, store_op op) {
    monitor_enter(&f->lock);
    f->counts[op]++;
    f->counts[STORE_OP_ANY]++;
    stroke s = {.plan = f->plan, .released = f->released};
    s.struck = fault_strikes(f, op, f->counts[s.plan.op]);
    f->fired = f->fired || s.struck;
    monitor_leave(&f->lock);
    return s;
}

/* Without threads nobody could release it: the operation then fails as on a mount that hangs. */
static int hang_until_released(fault_store *f, uint64_t released) {
    if (!f->os->concurrent) {
        return ETIMEDOUT;
    }
    monitor_enter(&f->lock);
    while (f->released == released) {
        monitor_wait_until(&f->lock, UINT64_MAX);
    }
    monitor_leave(&f->lock);
    return 0;
}

static const char *failure_words(const store_call *call) {
    static const char *const words[] = {"cannot open the file",
                                        "cannot read",
                                        "cannot write",
                                        "cannot find out the size",
                                        "cannot reserve room for the file",
                                        "cannot sync the file",
                                        "cannot create the directory",
                                        "cannot remove the directory",
                                        "cannot rename the file",
                                        "cannot put the file",
                                        "cannot remove the file",
                                        "cannot sync the directory",
                                        "cannot list the directory",
                                        "cannot look at this name",
                                        "cannot find out how much room there is"};
    if (call->op == STORE_OP_OPEN && store_mode_creates(call->mode)) {
        return "cannot create the file";
    }
    assert((size_t)call->op < ARRAY_LENGTH(words));
    return words[call->op];
}

static pawl_status fail_call(const fault_store *f, const store_call *call, int system_errno,
                             pawl_error *err) {
    return store_failure(&f->wrapper.base, call->path, system_errno, err, failure_words(call));
}

/* Counts a write that is to be begun on a ring, unless it would be struck. */
static bool count_unless_struck(fault_store *f) {
    monitor_enter(&f->lock);
    bool struck = fault_strikes(f, STORE_OP_WRITE, f->counts[f->plan.op] + 1);
    if (!struck) {
        f->counts[STORE_OP_WRITE]++;
        f->counts[STORE_OP_ANY]++;
    }
    monitor_leave(&f->lock);
    return !struck;
}

static void uncount_write(fault_store *f) {
    monitor_enter(&f->lock);
    f->counts[STORE_OP_WRITE]--;
    f->counts[STORE_OP_ANY]--;
    monitor_leave(&f->lock);
}

/* A write that cannot begin on the ring, or that is to be struck, is refused: the queue comes again
 * with a plain write. */
static pawl_status begin_on_ring(fault_store *f, store_call *call, pawl_error *err) {
    if (!count_unless_struck(f)) {
        return error_set(err, PAWL_EUNSUPPORTED, "this write is not begun on a ring");
    }
    pawl_status status = store_call_inner(call, err);
    if (status != PAWL_OK) {
        uncount_write(f);
    }
    return status;
}

static pawl_status fault_around(store_wrapper *w, store_call *call, pawl_error *err) {
    fault_store *f = (fault_store *)w;
    if (call->ring != NULL) {
        return begin_on_ring(f, call, err);
    }
    stroke s = count_and_judge(f, call->op);
    if (!s.struck) {
        return store_call_inner(call, err);
    }
    if (s.plan.delay_ns > 0) {
        f->os->sleep_ns(f->os->context, s.plan.delay_ns);
    }
    int failed = s.plan.hang ? hang_until_released(f, s.released) : 0;
    failed = s.plan.system_errno != 0 ? s.plan.system_errno : failed;
    if (failed != 0 && s.plan.lost) {
        (void)!store_call_inner(call, err);
        *err = (struct pawl_error)ERROR_INIT;
    }
    if (failed != 0) {
        return fail_call(f, call, failed, err);
    }
    if (s.plan.shorten && store_call_moves_bytes(call) && call->n > 1) {
        call->n /= 2;
    }
    return store_call_inner(call, err);
}

void store_fault_set(store *fault, const store_fault *plan) {
    fault_store *f = fault_of(fault);
    monitor_enter(&f->lock);
    f->plan = *plan;
    f->fired = false;
    for (size_t i = 0; i < ARRAY_LENGTH(f->counts); i++) {
        f->counts[i] = 0;
    }
    monitor_leave(&f->lock);
}

uint64_t store_fault_count(store *fault, store_op op) {
    fault_store *f = fault_of(fault);
    monitor_enter(&f->lock);
    uint64_t count = f->counts[op];
    monitor_leave(&f->lock);
    return count;
}

bool store_fault_fired(store *fault) {
    fault_store *f = fault_of(fault);
    monitor_enter(&f->lock);
    bool fired = f->fired;
    monitor_leave(&f->lock);
    return fired;
}

void store_fault_release(store *fault) {
    fault_store *f = fault_of(fault);
    monitor_enter(&f->lock);
    f->released++;
    monitor_announce(&f->lock);
    monitor_leave(&f->lock);
}

static void fault_destroy(store_wrapper *w) {
    fault_store *f = (fault_store *)w;
    monitor_destroy(&f->lock);
    store_wrapper_clear(w);
    mem_free(f);
}

pawl_status store_fault_wrap(store *inner, const platform *os, store **out, pawl_error *err) {
    AUTOFREE fault_store *f = mem_calloc(1, sizeof(*f));
    if (f == NULL) {
        return error_nomem(err, sizeof(*f));
    }
    TRY(store_wrapper_init(&f->wrapper, inner, err));
    pawl_status status = monitor_init(&f->lock, err);
    if (status != PAWL_OK) {
        store_wrapper_clear(&f->wrapper);
        return status;
    }
    f->wrapper.around = fault_around;
    f->wrapper.destroy = fault_destroy;
    f->os = os;
    *out = &f->wrapper.base;
    f = NULL;
    return PAWL_OK;
}
