/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/local_group.h"

#include "lib/test.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define MAX_BROADCASTS 1000

typedef struct member {
    local_group *group;
    int rank;
    int code; /* not 0: its callbacks are broken */
    uint64_t gathers, broadcasts;
    uint64_t handed; /* number of the gather that `bytes` belongs to; 0: none */
    void *bytes;
    size_t n;
} member;

typedef struct message {
    void *bytes;
    size_t n;
} message;

struct local_group {
    monitor guard;
    int world_size;
    member *members;
    message sent[MAX_BROADCASTS]; /* all of rank 0's: a rank may be late */
};

static uint64_t after_ns(double seconds) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    double most = seconds < 1e6 ? seconds : 1e6;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec + (uint64_t)(most * 1e9);
}

local_group *local_group_new(int world_size) {
    struct pawl_error err = ERROR_INIT;
    local_group *g = mem_calloc(1, sizeof *g);
    assert_non_null(g);
    g->world_size = world_size;
    g->members = mem_calloc((size_t)world_size, sizeof *g->members);
    assert_non_null(g->members);
    for (int r = 0; r < world_size; r++) {
        g->members[r] = (member){.group = g, .rank = r};
    }
    assert_ok(monitor_init(&g->guard, &err), &err);
    return g;
}

void local_group_free(local_group *g) {
    for (int r = 0; r < g->world_size; r++) {
        mem_free(g->members[r].bytes);
    }
    for (size_t i = 0; i < MAX_BROADCASTS; i++) {
        mem_free(g->sent[i].bytes);
    }
    monitor_destroy(&g->guard);
    mem_free(g->members);
    mem_free(g);
}

static bool all_handed(const local_group *g, uint64_t number) {
    for (int r = 1; r < g->world_size; r++) {
        if (g->members[r].handed != number) {
            return false;
        }
    }
    return true;
}

static void take_all(local_group *g, uint64_t number, size_t n, void *all, unsigned char *came) {
    for (int r = 1; r < g->world_size; r++) {
        member *m = &g->members[r];
        if (m->handed == number && m->n == n) {
            memcpy((char *)all + (size_t)r * n, m->bytes, n);
            came[r] = 1;
        }
    }
}

static int gather(void *context, const void *mine, size_t n, void *all, unsigned char *came,
                  double deadline_s) {
    member *self = context;
    local_group *g = self->group;
    uint64_t deadline_ns = after_ns(deadline_s);
    monitor_enter(&g->guard);
    uint64_t number = ++self->gathers;
    int code = self->code;
    if (code == 0 && self->rank == 0) {
        while (!all_handed(g, number) && monitor_wait_until(&g->guard, deadline_ns)) {
        }
        memcpy(all, mine, n);
        came[0] = 1;
        take_all(g, number, n, all, came);
    } else if (code == 0) {
        mem_free(self->bytes);
        self->bytes = mem_dup(mine, n);
        self->n = n;
        self->handed = number;
        monitor_announce(&g->guard);
    }
    monitor_leave(&g->guard);
    return code;
}

static int broadcast(void *context, void *bytes, size_t n, double deadline_s) {
    member *self = context;
    local_group *g = self->group;
    uint64_t deadline_ns = after_ns(deadline_s);
    monitor_enter(&g->guard);
    message *m = &g->sent[self->broadcasts++ % MAX_BROADCASTS];
    int code = self->code;
    if (code == 0 && self->rank == 0) {
        m->bytes = mem_dup(bytes, n);
        m->n = n;
        monitor_announce(&g->guard);
    } else if (code == 0) {
        while (m->bytes == NULL && monitor_wait_until(&g->guard, deadline_ns)) {
        }
        code = m->bytes == NULL ? 110 : m->n != n ? 71 : 0;
        if (code == 0) {
            memcpy(bytes, m->bytes, n);
        }
    }
    monitor_leave(&g->guard);
    return code;
}

pawl_group local_group_of(local_group *g, int rank) {
    return (pawl_group){.struct_size = sizeof(pawl_group),
                        .rank = rank,
                        .world_size = g->world_size,
                        .context = &g->members[rank],
                        .gather = gather,
                        .broadcast = broadcast};
}

void local_group_break(local_group *g, int rank, int code) {
    monitor_enter(&g->guard);
    g->members[rank].code = code;
    monitor_leave(&g->guard);
}

typedef struct body_call {
    void (*body)(void *context, int rank);
    void *context;
    int rank;
    pthread_t thread;
} body_call;

static void *call_body(void *argument) {
    const body_call *call = argument;
    call->body(call->context, call->rank);
    return NULL;
}

void local_group_run(int world_size, void (*body)(void *context, int rank), void *context) {
    body_call *calls = mem_calloc((size_t)world_size, sizeof *calls);
    assert_non_null(calls);
    for (int r = 0; r < world_size; r++) {
        calls[r] = (body_call){.body = body, .context = context, .rank = r};
        assert_int_equal(pthread_create(&calls[r].thread, NULL, call_body, &calls[r]), 0);
    }
    for (int r = 0; r < world_size; r++) {
        assert_int_equal(pthread_join(calls[r].thread, NULL), 0);
    }
    mem_free(calls);
}
