/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation/storage.h"

#include "simulation/lags.h"
#include "store/implement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_CATCHING_UP 20 /* in one save, or while a run is opened */

typedef struct view {
    store_wrapper wrapper;
    storage *storage;
    machine *machine;
    storage_host *host;
} view;

static void tell(storage *s, const storage_event *event) {
    if (s->watch != NULL) {
        s->watch(s->context, event);
    }
}

static storage_event event_of(machine *by, const store_call *call, pawl_status status,
                              uint64_t begun_ns) {
    return (storage_event){.by = by,
                           .op = call->op,
                           .path = call->path,
                           .to = call->to,
                           .mode = call->mode,
                           .bytes = call->from,
                           .n = call->n,
                           .status = status,
                           .begun_ns = begun_ns};
}

static void trace(const storage *s, const machine *m, const store_call *call, const char *how,
                  pawl_status status) {
    if (s->trace) {
        printf("%14.6f job %d rank %d op %llu: %s %s%s%s%s: %s\n",
               (double)fibers_now() / (double)NS_PER_S, m->job, m->rank,
               (unsigned long long)m->operations, store_op_name(call->op), call->path,
               call->to != NULL ? " to " : "", call->to != NULL ? call->to : "", how,
               pawl_status_name(status));
    }
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool only_looks(const store_call *call) {
    return call->op == STORE_OP_STAT || call->op == STORE_OP_LIST ||
           (call->op == STORE_OP_OPEN && !store_mode_creates(call->mode));
}

static pawl_status look(view *v, const store_call *call, pawl_error *err) {
    storage *s = v->storage;
    pawl_status status;
    if (lags_sees_absent(s, v->host, call->path)) {
        lags_found_absent(s, v->host, call->path);
        return store_failure(&v->wrapper.base, call->path, ENOENT, err, "cannot find this name");
    }
    if (call->op == STORE_OP_STAT) {
        status = lags_stat(s, v->host, call->path, call->found, err);
    } else if (call->op == STORE_OP_LIST) {
        status = lags_list(s, v->host, call, err);
    } else {
        status = store_call_inner(call, err);
    }
    if (status == PAWL_ENOTFOUND) {
        lags_found_absent(s, v->host, call->path);
    }
    return status;
}

/* ---- changing -------------------------------------------------------------------------------- */

static pawl_status take_effect(storage *s, storage_host *h, const store_call *call,
                               storage_event *event, pawl_error *err) {
    lags_change before;
    lags_before(s, call, &before);
    event->status = store_call_inner(call, err);
    lags_after(s, h, call, &before, event->status);
    return event->status;
}

/* What will be done later, by nobody. */
typedef struct late_call {
    storage *storage;
    machine *by;
    store_call call;
    store_tag expected, now;
    uint64_t begun_ns, after_ns;
} late_call;

static void do_late(void *argument) {
    late_call *l = argument;
    struct pawl_error ignored = ERROR_INIT;
    store_file *opened;
    fiber_sleep(l->after_ns);
    l->call.opened = &opened;
    storage_event event = event_of(l->by, &l->call, PAWL_OK, l->begun_ns);
    event.unheard = true;
    pawl_status status = take_effect(l->storage, NULL, &l->call, &event, &ignored);
    trace(l->storage, l->by, &l->call, " (late)", status);
    tell(l->storage, &event);
    if (l->call.op == STORE_OP_OPEN && status == PAWL_OK) {
        store_close(opened);
    }
    free((char *)l->call.path);
    free((char *)l->call.to);
    free((void *)l->call.from);
    free(l);
}

static void *copy_of(const void *bytes, size_t n) {
    void *copy = bytes != NULL ? malloc(n + 1) : NULL;
    if (bytes != NULL && copy == NULL) {
        abort();
    }
    return copy != NULL ? memcpy(copy, bytes, n) : NULL;
}

static char *copy_of_text(const char *text) {
    return text != NULL ? copy_of(text, strlen(text) + 1) : NULL;
}

static void let_be_done_late(view *v, const store_call *call, uint64_t begun_ns) {
    storage *s = v->storage;
    late_call *l = malloc(sizeof *l);
    if (l == NULL) {
        abort();
    }
    uint64_t most_ns = random_below(&s->random, 2) == 0 ? 3 * NS_PER_S : s->lags.late_ns;
    *l = (late_call){.storage = s, .by = v->machine, .call = *call, .begun_ns = begun_ns};
    l->after_ns = random_below(&s->random, most_ns);
    l->expected = call->expected != NULL ? *call->expected : l->expected;
    l->call.expected = call->expected != NULL ? &l->expected : NULL;
    l->call.now = &l->now;
    l->call.path = copy_of_text(call->path);
    l->call.to = copy_of_text(call->to);
    l->call.from = copy_of(call->from, call->n);
    s->late++;
    fiber_let_go(fiber_start(&s->group, do_late, l));
}

typedef enum mishap { MISHAP_NONE, MISHAP_LOST, MISHAP_LATE } mishap;

static bool of_a_manifest(const store_call *call) {
    return strstr(call->path, "/manifest.json") != NULL;
}

static bool changes(const store_call *call) {
    switch (call->op) {
    case STORE_OP_READ:
    case STORE_OP_SIZE:
    case STORE_OP_SPACE:
        return false;
    default:
        return !only_looks(call);
    }
}

static bool can_be_late(const store_call *call) {
    switch (call->op) {
    case STORE_OP_OPEN:
    case STORE_OP_MAKE_DIR:
    case STORE_OP_REMOVE_DIR:
    case STORE_OP_RENAME:
    case STORE_OP_UNLINK:
    case STORE_OP_PUT:
        return true;
    default:
        return false;
    }
}

static mishap befalls(storage *s, const store_call *call) {
    const storage_lags *lags = &s->lags;
    if (lags->calm || !changes(call) || (lags->of_manifests && !of_a_manifest(call))) {
        return MISHAP_NONE;
    }
    if (lags->lost_one_of > 0 && random_below(&s->random, lags->lost_one_of) == 0) {
        return MISHAP_LOST;
    }
    bool late = can_be_late(call) && lags->late_one_of > 0 &&
                random_below(&s->random, lags->late_one_of) == 0;
    return late ? MISHAP_LATE : MISHAP_NONE;
}

/* What the caller hears instead of the reply. */
static pawl_status unheard(view *v, const store_call *call, bool late, pawl_error *err) {
    static const int numbers[] = {EIO, ETIMEDOUT, EINTR};
    int failure = numbers[random_below(&v->storage->random, late ? 3 : 2)];
    return store_failure(&v->wrapper.base, call->path, failure, err, "the storage gives no answer");
}

static pawl_status lose_reply(view *v, const store_call *call, uint64_t begun_ns, pawl_error *err) {
    storage_event event = event_of(v->machine, call, PAWL_OK, begun_ns);
    event.unheard = true;
    pawl_status status = take_effect(v->storage, NULL, call, &event, err);
    trace(v->storage, v->machine, call, " (its reply is lost)", status);
    tell(v->storage, &event);
    if (status != PAWL_OK) {
        return status;
    }
    if (call->op == STORE_OP_OPEN) {
        store_close(*call->opened);
    }
    v->storage->lost++;
    return unheard(v, call, false, err);
}

static pawl_status change(view *v, const store_call *call, uint64_t begun_ns, pawl_error *err) {
    storage *s = v->storage;
    int refused = lags_refuses(s, v->host, call);
    storage_event event = event_of(v->machine, call, PAWL_EIO, begun_ns);
    if (refused != 0) {
        event.status = store_failure(&v->wrapper.base, call->path, refused, err, "cannot do this");
        tell(s, &event);
        return event.status;
    }
    switch (befalls(s, call)) {
    case MISHAP_LOST:
        return lose_reply(v, call, begun_ns, err);
    case MISHAP_LATE:
        let_be_done_late(v, call, begun_ns);
        return unheard(v, call, true, err);
    case MISHAP_NONE:
        break;
    }
    pawl_status status = take_effect(s, v->host, call, &event, err);
    lags_heard(s, v->host, call, status);
    tell(s, &event);
    return status;
}

static pawl_status perform(view *v, const store_call *call, uint64_t begun_ns, pawl_error *err) {
    if (!only_looks(call)) {
        return change(v, call, begun_ns, err);
    }
    pawl_status status = look(v, call, err);
    storage_event event = event_of(v->machine, call, status, begun_ns);
    tell(v->storage, &event);
    return status;
}

/* ---- one operation --------------------------------------------------------------------------- */

/* Bytes go by the page cache, most of the time. */
static bool takes_time(view *v, const store_call *call) {
    switch (call->op) {
    case STORE_OP_READ:
    case STORE_OP_WRITE:
    case STORE_OP_SIZE:
    case STORE_OP_SPACE:
    case STORE_OP_RESERVE:
        return random_below(&v->machine->random, 8) == 0;
    default:
        return true;
    }
}

static uint64_t some_latency_ns(view *v) {
    test_random *r = &v->machine->random;
    uint64_t ns = v->storage->latency_ns / 4 + random_below(r, v->storage->latency_ns + 1);
    ns = random_below(r, 50) == 0 ? ns * 20 : ns;
    return v->machine->fate.slow > 0 ? ns * v->machine->fate.slow : ns;
}

static bool fails_now(const machine_fate *fate, uint64_t n) {
    return fate->fail_at > 0 && n >= fate->fail_at && n < fate->fail_at + fate->fail_count;
}

static void befall(machine *m, uint64_t n, uint64_t die, uint64_t stop) {
    if (n == die) {
        fiber_group_kill(&m->group);
    }
    if (n == stop) {
        machine_stop(m);
    }
}

static bool counts(const machine_fate *fate, const store_call *call) {
    char parent[STORE_MAX_PATH];
    const char *path = call->to != NULL ? call->to : call->path;
    return fate->stop_op_nth > 0 && (int)call->op == fate->stop_op &&
           (fate->stop_name == NULL ||
            strcmp(store_split_path(path, parent), fate->stop_name) == 0);
}

/* What was on its way when the process stood still arrives after that. */
static void stand_still(machine *m, const store_call *call) {
    if (counts(&m->fate, call) && ++m->stop_ops == m->fate.stop_op_nth) {
        machine_stop(m);
    }
}

static pawl_status around(store_wrapper *w, store_call *call, pawl_error *err) {
    view *v = (view *)w;
    machine *m = v->machine;
    const machine_fate *fate = &m->fate;
    uint64_t begun_ns = fibers_now();
    uint64_t n = ++m->operations;
    m->of_trainer += fiber_self() == m->trainer;
    v->storage->operations++;
    befall(m, n, fate->die_before, fate->stop_before);
    bool slow = takes_time(v, call);
    if (slow) {
        fiber_sleep(some_latency_ns(v));
    }
    stand_still(m, call);
    int failure = fails_now(fate, n) ? fate->fail_errno : 0;
    pawl_status status =
        failure != 0 ? store_failure(&w->base, call->path, failure, err, "the storage fails")
                     : perform(v, call, begun_ns, err);
    trace(v->storage, m, call, "", status);
    befall(m, n, fate->die_after, fate->stop_after);
    if (slow && call->op != STORE_OP_LIST) {
        fiber_sleep(some_latency_ns(v) / 4);
    }
    return status;
}

bool storage_lags_looks(const storage *s) {
    return storage_most_lag_ns(s) > 0;
}

uint64_t storage_most_lag_ns(const storage *s) {
    const storage_lags *l = &s->lags;
    uint64_t remembered_ns = l->absent_ns > l->stat_ns ? l->absent_ns : l->stat_ns;
    remembered_ns = remembered_ns > l->list_ns ? remembered_ns : l->list_ns;
    return remembered_ns + l->names_ns + s->late_ns; /* what is seen late may be remembered */
}

double storage_catching_up_s(const storage *s) {
    return MOST_CATCHING_UP * (double)s->late_ns / (double)NS_PER_S;
}

static store *another(void) {
    pawl_error err = ERROR_INIT;
    store *s;
    if (store_mem(&s, &err) != PAWL_OK) {
        abort();
    }
    return s;
}

store *storage_view(storage *s, machine *m, bool of_another) {
    pawl_error err = ERROR_INIT;
    if (of_another) {
        return another();
    }
    view *v = mem_calloc(1, sizeof *v);
    if (v == NULL || store_wrapper_init(&v->wrapper, s->seen, &err) != PAWL_OK) {
        abort();
    }
    v->wrapper.base.traits.coherent = s->coherent;
    v->wrapper.around = around;
    v->storage = s;
    v->machine = m;
    v->host = lags_host(s, m->who.host);
    return &v->wrapper.base;
}
