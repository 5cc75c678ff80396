/* SPDX-License-Identifier: Apache-2.0 */
#include "simulation/machine.h"

#include <stdio.h>
#include <string.h>

#define FIRST_UNIX_TIME_NS ((int64_t)1750000000 * 1000000000)

static uint64_t monotonic_ns(void *context) {
    (void)context;
    return fiber_clock_ns();
}

static int64_t unix_time_ns(void *context) {
    (void)context;
    return FIRST_UNIX_TIME_NS + (int64_t)fibers_now();
}

static void sleep_ns(void *context, uint64_t ns) {
    (void)context;
    fiber_sleep(ns);
}

static pawl_status random_bytes(void *context, void *to, size_t n, pawl_error *err) {
    machine *m = context;
    (void)err;
    random_fill(&m->random, to, n);
    return PAWL_OK;
}

static pawl_status thread_start(void *context, void (*body)(void *), void *argument,
                                platform_thread **thread, pawl_error *err) {
    machine *m = context;
    (void)err;
    if (!m->os.concurrent) {
        *thread = (platform_thread *)m; /* nobody looks into it */
        body(argument);
    } else {
        *thread = (platform_thread *)fiber_start(&m->group, body, argument);
    }
    return PAWL_OK;
}

static void thread_join(void *context, platform_thread *thread) {
    const machine *m = context;
    if (m->os.concurrent) {
        fiber_join((fiber *)thread);
    }
}

static void thread_abandon(void *context, platform_thread *thread) {
    const machine *m = context;
    if (m->os.concurrent) {
        fiber_let_go((fiber *)thread);
    }
}

static bool thread_tune(void *context, const thread_tuning *tuning, char why[160]) {
    (void)context;
    (void)tuning;
    why[0] = '\0';
    return true;
}

static pawl_status identity(void *context, process_identity *out, pawl_error *err) {
    const machine *m = context;
    (void)err;
    *out = m->who;
    return PAWL_OK;
}

static const machine *find(const machine *of, const process_identity *who) {
    for (const machine *m = of; m != NULL; m = m->next) {
        if (m->who.pid == who->pid && strcmp(m->who.host, who->host) == 0) {
            return m;
        }
    }
    return NULL;
}

static liveness process_alive(void *context, const process_identity *who) {
    const machine *self = context;
    if (strcmp(who->host, self->who.host) != 0) {
        return PROCESS_UNKNOWN;
    }
    const machine *other = find(self->cluster->machines, who);
    return other == NULL || machine_is_gone(other) ? PROCESS_DEAD : PROCESS_ALIVE;
}

void machine_init(machine *m, cluster *c, const char *host, uint64_t seed, bool threads) {
    *m = (machine){.os = {.context = m,
                          .monotonic_ns = monotonic_ns,
                          .unix_time_ns = unix_time_ns,
                          .sleep_ns = sleep_ns,
                          .random_bytes = random_bytes,
                          .concurrent = threads,
                          .thread_start = thread_start,
                          .thread_join = thread_join,
                          .thread_abandon = thread_abandon,
                          .thread_tune = thread_tune,
                          .identity = identity,
                          .process_alive = process_alive},
                   .random = {seed},
                   .cluster = c,
                   .next = c->machines};
    c->machines = m;
    m->group.clock_offset_ns = random_below(&m->random, 1000000) * NS_PER_S;
    m->who = (process_identity){.boot_id = "00000000-0000-4000-8000-000000000000",
                                .pid_namespace = "pid:[1]",
                                .pid = ++c->next_pid,
                                .start_ticks = 5000};
    snprintf(m->who.host, sizeof m->who.host, "%s", host);
}

bool machine_is_gone(const machine *m) {
    return m->group.dead || m->has_ended;
}

void machine_stop(machine *m) {
    if (!machine_is_gone(m)) {
        m->was_stopped = true;
        fiber_group_stop(&m->group);
    }
}

void machine_go_on(machine *m) {
    fiber_group_go_on(&m->group);
}
