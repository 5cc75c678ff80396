/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation/storage.h"

#include "store/path.h"
#include "store/wrap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REMEMBERED 32u            /* answers of a view */
#define PUT_NS     (NS_PER_S * 3) /* a put that took longer was dropped */

typedef enum answer_kind { ANSWER_NONE, ANSWER_ABSENT, ANSWER_STAT, ANSWER_LIST } answer_kind;

typedef struct answer {
    answer_kind kind;
    char path[96];
    uint64_t until_ns;
    store_stat stat;
    char **names;
    size_t count;
    arena memory;
} answer;

/* The processes of a host see the same: it is the host's kernel that remembers. */
struct storage_host {
    char name[64];
    answer answers[REMEMBERED];
    size_t next_answer;
    struct storage_host *next;
};

typedef struct view {
    store_wrapper wrapper;
    storage *storage;
    machine *machine;
    struct storage_host *host;
} view;

/* ---- answers of a moment ago ----------------------------------------------------------------- */

static void forget_answer(answer *a) {
    arena_free(&a->memory);
    *a = (answer){.kind = ANSWER_NONE};
}

static answer *remembered(view *v, answer_kind kind, const char *path) {
    for (size_t i = 0; i < REMEMBERED; i++) {
        answer *a = &v->host->answers[i];
        if (a->kind == kind && strcmp(a->path, path) == 0) {
            if (a->until_ns > fibers_now()) {
                return a;
            }
            forget_answer(a);
            return NULL;
        }
    }
    return NULL;
}

/* NULL: this one is not remembered. */
static answer *remember(view *v, answer_kind kind, const char *path) {
    uint64_t lag_ns = random_below(&v->machine->random, v->storage->stale_ns + 1);
    if (v->storage->stale_ns == 0 || strlen(path) >= sizeof v->host->answers[0].path ||
        lag_ns < 1000) {
        return NULL;
    }
    answer *a = &v->host->answers[v->host->next_answer++ % REMEMBERED];
    forget_answer(a);
    a->kind = kind;
    a->until_ns = fibers_now() + lag_ns;
    snprintf(a->path, sizeof a->path, "%s", path);
    return a;
}

static void forget_path(view *v, const char *path) {
    for (size_t i = 0; i < REMEMBERED; i++) {
        if (v->host->answers[i].kind != ANSWER_NONE &&
            strcmp(v->host->answers[i].path, path) == 0) {
            forget_answer(&v->host->answers[i]);
        }
    }
}

/* One's own changes are seen at once: of the name, and of its directory. */
static void forget_changed(view *v, const store_call *call) {
    char parent[STORE_MAX_PATH];
    switch (call->op) {
    case STORE_OP_OPEN:
        if (!store_mode_creates(call->mode)) {
            return;
        }
        break;
    case STORE_OP_RENAME:
        forget_path(v, call->to);
        break;
    case STORE_OP_WRITE:
    case STORE_OP_RESERVE:
    case STORE_OP_MAKE_DIR:
    case STORE_OP_REMOVE_DIR:
    case STORE_OP_PUT:
    case STORE_OP_UNLINK:
        break;
    default:
        return;
    }
    forget_path(v, call->path);
    store_split_path(call->path, parent);
    forget_path(v, parent);
}

static bool only_looks(const store_call *call) {
    return call->op == STORE_OP_STAT ||
           (call->op == STORE_OP_OPEN && !store_mode_creates(call->mode));
}

/* ---- listings -------------------------------------------------------------------------------- */

typedef struct listing {
    arena *memory;
    char **names;
    size_t count, capacity;
} listing;

static pawl_status note_name(void *context, const char *name, pawl_error *err) {
    listing *l = context;
    TRY(vec_reserve(&l->names, &l->capacity, l->count + 1, sizeof *l->names, err));
    l->names[l->count++] = arena_strdup(l->memory, name);
    return PAWL_OK;
}

static pawl_status deliver(const answer *a, const store_call *call, pawl_error *err) {
    CLEANUP(arena_free) arena memory = {0}; /* `each` may let others run, who forget */
    listing l = {.memory = &memory};
    for (size_t i = 0; i < a->count; i++) {
        TRY(note_name(&l, a->names[i], err));
    }
    pawl_status status = PAWL_OK;
    for (size_t i = 0; i < l.count && status == PAWL_OK; i++) {
        status = call->each(call->context, l.names[i], err);
    }
    mem_free(l.names);
    return status;
}

static pawl_status keep_listing(view *v, answer *a, pawl_error *err) {
    listing l = {.memory = &a->memory};
    pawl_status status = store_list(v->storage->truth, a->path, note_name, &l, err);
    a->names = arena_alloc(&a->memory, (l.count + 1) * sizeof *a->names);
    for (size_t i = 0; i < l.count; i++) {
        a->names[i] = l.names[i];
    }
    a->count = l.count;
    mem_free(l.names);
    return status;
}

static pawl_status list(view *v, const store_call *call, pawl_error *err) {
    const answer *old = remembered(v, ANSWER_LIST, call->path);
    if (old != NULL) {
        return deliver(old, call, err);
    }
    answer *a = remember(v, ANSWER_LIST, call->path);
    if (a == NULL) {
        return store_call_inner(call, err);
    }
    pawl_status status = keep_listing(v, a, err);
    if (status != PAWL_OK) {
        forget_answer(a);
        return status;
    }
    return deliver(a, call, err);
}

/* ---- one operation --------------------------------------------------------------------------- */

static pawl_status look(view *v, const store_call *call, pawl_error *err) {
    if (remembered(v, ANSWER_ABSENT, call->path) != NULL) {
        return store_failure(&v->wrapper.base, call->path, ENOENT, err,
                             call->op == STORE_OP_STAT ? "cannot look at this name"
                                                       : "cannot open the file");
    }
    if (call->op == STORE_OP_STAT) {
        answer *old = remembered(v, ANSWER_STAT, call->path);
        if (old != NULL) {
            *call->found = old->stat;
            return PAWL_OK;
        }
    }
    pawl_status status = store_call_inner(call, err);
    if (status == PAWL_ENOTFOUND) {
        (void)remember(v, ANSWER_ABSENT, call->path);
    } else if (status == PAWL_OK && call->op == STORE_OP_STAT) {
        answer *a = remember(v, ANSWER_STAT, call->path);
        if (a != NULL) {
            a->stat = *call->found;
        }
    }
    return status;
}

static pawl_status perform(view *v, const store_call *call, pawl_error *err) {
    if (call->op == STORE_OP_LIST) {
        return list(v, call, err);
    }
    if (only_looks(call)) {
        return look(v, call, err);
    }
    pawl_status status = store_call_inner(call, err);
    forget_changed(v, call);
    return status;
}

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

static void trace(const view *v, const store_call *call, uint64_t n, pawl_status status) {
    if (v->storage->trace) {
        const machine *m = v->machine;
        printf("%14.6f job %d rank %d op %llu: %s %s%s%s: %s\n",
               (double)fibers_now() / (double)NS_PER_S, m->job, m->rank, (unsigned long long)n,
               store_op_name(call->op), call->path, call->to != NULL ? " to " : "",
               call->to != NULL ? call->to : "", pawl_status_name(status));
    }
}

static bool fails_now(const machine_fate *fate, uint64_t n) {
    return fate->fail_at > 0 && n >= fate->fail_at && n < fate->fail_at + fate->fail_count;
}

/* As store_ops.put has it: not after so long. */
static bool dropped(const store_call *call, uint64_t begun_ns) {
    return call->op == STORE_OP_PUT && fibers_now() - begun_ns > PUT_NS;
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

static void tell(view *v, const store_call *call, pawl_status status, uint64_t begun_ns) {
    storage *s = v->storage;
    if (s->watch != NULL) {
        s->watch(s->context, &(storage_event){.by = v->machine,
                                              .op = call->op,
                                              .path = call->path,
                                              .to = call->to,
                                              .mode = call->mode,
                                              .bytes = call->from,
                                              .n = call->n,
                                              .status = status,
                                              .begun_ns = begun_ns});
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
    int failure = fails_now(fate, n) ? fate->fail_errno : dropped(call, begun_ns) ? ETIMEDOUT : 0;
    pawl_status status =
        failure != 0 ? store_failure(&w->base, call->path, failure, err, "the storage fails")
                     : perform(v, call, err);
    trace(v, call, n, status);
    tell(v, call, status, begun_ns);
    befall(m, n, fate->die_after, fate->stop_after);
    if (slow && call->op != STORE_OP_LIST) {
        fiber_sleep(some_latency_ns(v) / 4);
    }
    return status;
}

static void destroy(store_wrapper *w) {
    store_wrapper_clear(w);
    mem_free((view *)w);
}

static struct storage_host *host_of(storage *s, const machine *m) {
    for (struct storage_host *h = s->hosts; h != NULL; h = h->next) {
        if (strcmp(h->name, m->who.host) == 0) {
            return h;
        }
    }
    struct storage_host *h = calloc(1, sizeof *h);
    if (h == NULL) {
        abort();
    }
    snprintf(h->name, sizeof h->name, "%s", m->who.host);
    h->next = s->hosts;
    s->hosts = h;
    return h;
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
    if (v == NULL || store_wrapper_init(&v->wrapper, s->truth, &err) != PAWL_OK) {
        abort();
    }
    v->wrapper.around = around;
    v->wrapper.destroy = destroy;
    v->storage = s;
    v->machine = m;
    v->host = host_of(s, m);
    return &v->wrapper.base;
}
