/* SPDX-License-Identifier: Apache-2.0 */
#include "proofs/objects_process.h"

#include "store/implement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALL_NS  20000000u /* that each call takes */
#define TICK_NS  1000u     /* and each look at the clock */
#define RETRIES  4
#define DELAY_NS 1000000u

typedef struct process_store {
    store_wrapper wrapper;
    process *process;
} process_store;

static pawl_status fail(const process_store *s, const store_call *call, int system_errno,
                        pawl_error *err) {
    return store_failure(&s->wrapper.base, call->path, system_errno, err,
                         "the storage gives no answer");
}

static bool only_looks(const store_call *call) {
    switch (call->op) {
    case STORE_OP_OPEN:
        return !store_mode_creates(call->mode);
    case STORE_OP_READ:
    case STORE_OP_SIZE:
    case STORE_OP_LIST:
    case STORE_OP_STAT:
    case STORE_OP_SPACE:
        return true;
    default:
        return false;
    }
}

/* Directories are nothing to an object store, and nothing is reserved or asked for room. */
static bool is_no_request(const store_call *call) {
    switch (call->op) {
    case STORE_OP_MAKE_DIR:
    case STORE_OP_SYNC_DIR:
    case STORE_OP_RESERVE:
    case STORE_OP_SPACE:
    case STORE_OP_SIZE:
        return true;
    default:
        return false;
    }
}

static pawl_status do_call(const process_store *s, const store_call *call, pawl_error *err) {
    const process *p = s->process;
    pawl_status status = store_call_inner(call, err);
    if (status == PAWL_OK && p->changed != NULL && !only_looks(call)) {
        p->changed(p->changed_context, call);
    }
    return status;
}

/* What the caller never hears of it does not keep open. */
static void let_go(const store_call *call, pawl_status status) {
    if (call->op == STORE_OP_OPEN && status == PAWL_OK) {
        store_close(*call->opened);
    }
}

static void note_place(process *p, const fate *f, const store_call *call) {
    if (p->at[0] == '\0') {
        snprintf(p->at, sizeof p->at, "%s %s '%s'%s, call %llu", f->done ? "after" : "before",
                 store_op_name(call->op), call->path,
                 call->op == STORE_OP_OPEN && store_mode_creates(call->mode) ? " (new)" : "",
                 (unsigned long long)p->calls);
    }
}

static fate *fate_of_now(process *p) {
    for (size_t i = 0; i < MOST_FATES; i++) {
        if (p->fates[i].kind != FATE_NONE && p->fates[i].nth == p->calls) {
            p->befallen[i] = true;
            return &p->fates[i];
        }
    }
    return NULL;
}

static void *copy_of(const void *bytes, size_t n) {
    void *copy = malloc(n + 1);
    if (copy == NULL) {
        abort();
    }
    return n > 0 ? memcpy(copy, bytes, n) : copy;
}

static void send(process *p, const store_call *call) {
    if (call->op != STORE_OP_PUT && call->op != STORE_OP_UNLINK) {
        return; /* it never arrives */
    }
    p->on_its_way = *call;
    p->on_its_way.path = copy_of(call->path, strlen(call->path) + 1);
    p->on_its_way.from = copy_of(call->from, call->n);
    p->on_its_way.now = &p->now;
    if (call->expected != NULL) {
        p->expected = *call->expected;
        p->on_its_way.expected = &p->expected;
    }
}

void process_free(process *p) {
    free((char *)p->on_its_way.path);
    free((void *)p->on_its_way.from);
    p->on_its_way = (store_call){.path = NULL};
}

void process_deliver(process *p) {
    struct pawl_error ignored = ERROR_INIT;
    if (p->on_its_way.path != NULL && store_call_inner(&p->on_its_way, &ignored) == PAWL_OK) {
        p->delivered = true;
    }
    process_free(p);
}

static pawl_status befall(const process_store *s, const fate *f, const store_call *call,
                          pawl_error *err) {
    process *p = s->process;
    struct pawl_error ignored = ERROR_INIT;
    pawl_status status = PAWL_OK;
    if (f->kind == FATE_PAUSES) {
        status = f->done ? do_call(s, call, err) : PAWL_OK;
        p->pause(p->pause_context);
        return f->done ? status : do_call(s, call, err);
    }
    if (f->kind == FATE_LATE) {
        send(p, call);
        p->dead = f->system_errno == 0;
        return fail(s, call, p->dead ? EIO : f->system_errno, err);
    }
    if (f->done) {
        status = do_call(s, call, &ignored);
        let_go(call, status);
    }
    p->dead = f->kind == FATE_DIES;
    if (f->done && status != PAWL_OK && f->kind == FATE_FAILS) { /* that is what it hears */
        *err = ignored;
        return status;
    }
    return fail(s, call, f->kind == FATE_DIES ? EIO : f->system_errno, err);
}

static pawl_status around(store_wrapper *w, store_call *call, pawl_error *err) {
    const process_store *s = (const process_store *)w;
    process *p = s->process;
    if (is_no_request(call)) {
        return store_call_inner(call, err);
    }
    p->calls++;
    simulated_platform_advance(p->clock, CALL_NS);
    if (p->dead) {
        return fail(s, call, EIO, err);
    }
    const fate *f = fate_of_now(p);
    if (f == NULL && p->outage > 0) {
        p->outage--;
        return fail(s, call, ETIMEDOUT, err);
    }
    if (f == NULL) {
        return do_call(s, call, err);
    }
    p->outage = f->outage;
    p->idle = p->idle || (f->of_manifest && strstr(call->path, "/manifest.json") == NULL);
    note_place(p, f, call);
    return befall(s, f, call, err);
}

/* All look at one clock. */
static uint64_t clock_ns(void *context) {
    const process *p = context;
    simulated_platform_advance(p->clock, TICK_NS);
    return p->clock->monotonic_ns;
}

static int64_t clock_unix_ns(void *context) {
    return ((const process *)context)->clock->unix_time_ns;
}

static void sleep_by_clock(void *context, uint64_t ns) {
    simulated_platform_advance(((const process *)context)->clock, ns);
}

void process_init(process *p, store *storage, simulated_platform *clock, uint64_t number) {
    memset(p, 0, sizeof *p);
    simulated_platform_init(&p->os, 100 + number);
    snprintf(p->os.identity.host, sizeof p->os.identity.host, "host-%llu",
             (unsigned long long)number);
    p->os.identity.pid += (int64_t)number;
    p->os.table.monotonic_ns = clock_ns;
    p->os.table.unix_time_ns = clock_unix_ns;
    p->os.table.sleep_ns = sleep_by_clock;
    p->storage = storage;
    p->clock = clock;
}

store *process_view(process *p, bool retries) {
    struct pawl_error err = ERROR_INIT;
    store *out = NULL;
    process_store *s = mem_calloc(1, sizeof *s);
    if (s == NULL || store_wrapper_init(&s->wrapper, p->storage, &err) != PAWL_OK) {
        abort();
    }
    s->wrapper.around = around;
    s->process = p;
    if (!retries) {
        return &s->wrapper.base;
    }
    if (store_retry_wrap(&s->wrapper.base, &p->os.table, RETRIES, DELAY_NS, &out, &err) !=
        PAWL_OK) {
        abort();
    }
    return out;
}

bool process_met_its_fate(const process *p) {
    for (size_t i = 0; i < MOST_FATES; i++) {
        if (p->fates[i].kind != FATE_NONE && !p->befallen[i]) {
            return false;
        }
    }
    return true;
}
