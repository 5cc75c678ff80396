/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/simulated_platform.h"

#include <errno.h>
#include <string.h>

#define FIRST_MONOTONIC_NS ((uint64_t)1000 * 1000000000)
#define FIRST_UNIX_TIME_NS ((int64_t)1750000000 * 1000000000)

void simulated_platform_advance(simulated_platform *s, uint64_t ns) {
    s->monotonic_ns += ns;
    s->unix_time_ns += (int64_t)ns;
}

static uint64_t simulated_monotonic_ns(void *context) {
    simulated_platform *s = context;
    simulated_platform_advance(s, s->tick_ns);
    return s->monotonic_ns;
}

static int64_t simulated_unix_time_ns(void *context) {
    const simulated_platform *s = context;
    return s->unix_time_ns;
}

static void simulated_sleep_ns(void *context, uint64_t ns) {
    simulated_platform *s = context;
    simulated_platform_advance(s, ns);
    s->slept_ns += ns;
    if (s->on_sleep != NULL) {
        s->on_sleep(s->on_sleep_context, ns);
    }
}

static pawl_status simulated_random_bytes(void *context, void *to, size_t n, pawl_error *err) {
    simulated_platform *s = context;
    if (s->random_fails) {
        return error_sys(err, EIO, "cannot get random bytes from the system");
    }
    random_fill(&s->random, to, n);
    return PAWL_OK;
}

static pawl_status simulated_thread_start(void *context, void (*body)(void *), void *argument,
                                          platform_thread **thread, pawl_error *err) {
    simulated_platform *s = context;
    if (s->thread_start_fails) {
        error_sys(err, EAGAIN, "cannot start a thread");
        err->status = PAWL_ENOMEM;
        return err->status;
    }
    s->threads_started++;
    *thread = (platform_thread *)s; /* a handle that nobody looks into */
    body(argument);
    return PAWL_OK;
}

static void simulated_thread_join(void *context, platform_thread *thread) {
    simulated_platform *s = context;
    (void)thread;
    s->threads_joined++;
}

static void simulated_thread_abandon(void *context, platform_thread *thread) {
    simulated_platform *s = context;
    (void)thread;
    s->threads_abandoned++;
}

static bool simulated_thread_tune(void *context, const thread_tuning *tuning, char why[160]) {
    (void)context;
    (void)tuning;
    why[0] = '\0';
    return true;
}

static pawl_status simulated_identity(void *context, process_identity *out, pawl_error *err) {
    const simulated_platform *s = context;
    if (s->identity_fails) {
        return error_sys(err, EPERM, "cannot get the name of this host");
    }
    *out = s->identity;
    return PAWL_OK;
}

static bool same_process(const process_identity *a, const process_identity *b) {
    return a->pid == b->pid && a->start_ticks == b->start_ticks && strcmp(a->host, b->host) == 0 &&
           strcmp(a->boot_id, b->boot_id) == 0 && strcmp(a->pid_namespace, b->pid_namespace) == 0;
}

static liveness simulated_process_alive(void *context, const process_identity *who) {
    const simulated_platform *s = context;
    return same_process(who, &s->identity) ? PROCESS_ALIVE : s->others;
}

static bool simulated_process_killable(void *context, const process_identity *who, char why[96]) {
    why[0] = '\0';
    return simulated_process_alive(context, who) == PROCESS_ALIVE;
}

void simulated_platform_init(simulated_platform *s, uint64_t seed) {
    *s = (simulated_platform){
        .table = {.context = s,
                  .monotonic_ns = simulated_monotonic_ns,
                  .unix_time_ns = simulated_unix_time_ns,
                  .sleep_ns = simulated_sleep_ns,
                  .random_bytes = simulated_random_bytes,
                  .concurrent = false,
                  .thread_start = simulated_thread_start,
                  .thread_join = simulated_thread_join,
                  .thread_abandon = simulated_thread_abandon,
                  .thread_tune = simulated_thread_tune,
                  .identity = simulated_identity,
                  .process_alive = simulated_process_alive,
                  .process_killable = simulated_process_killable},
        .monotonic_ns = FIRST_MONOTONIC_NS,
        .unix_time_ns = FIRST_UNIX_TIME_NS,
        .random = {seed},
        .identity = {.host = "simulated",
                     .boot_id = "00000000-0000-4000-8000-000000000000",
                     .pid_namespace = "pid:[1]",
                     .time_namespace = "time:[1]",
                     .pid = 1000,
                     .start_ticks = 5000},
        .others = PROCESS_UNKNOWN,
    };
}
