/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that advances a record, and the counter that it advances. */
#include "presence/heartbeat.h"

#include "format/presence_record.h"

pawl_status heartbeat_start(heartbeat *h, void (*body)(void *), void *argument, pawl_error *err) {
    const platform *os = h->platform;
    platform_thread *thread = NULL;
    TRY(os->thread_start(os->context, body, argument, &thread, err));
    h->thread = thread;
    return PAWL_OK;
}

bool heartbeat_pause(heartbeat *h, uint64_t until_ns) {
    monitor_enter(h->guard);
    while (!h->stopping && monitor_wait_until(h->guard, until_ns)) {
    }
    bool go_on = !h->stopping;
    monitor_leave(h->guard);
    return go_on;
}

void heartbeat_ended(heartbeat *h) {
    monitor_enter(h->guard);
    h->ended = true;
    monitor_announce(h->guard);
    monitor_leave(h->guard);
}

bool heartbeat_stop(heartbeat *h, double timeout_s) {
    const platform *os = h->platform;
    uint64_t deadline_ns = platform_deadline_ns(os, timeout_s);
    monitor_enter(h->guard);
    h->stopping = true;
    monitor_announce(h->guard);
    bool in_time = true;
    while (h->thread != NULL && !h->ended && in_time) {
        in_time = monitor_wait_until(h->guard, deadline_ns);
    }
    bool ended = h->thread == NULL || h->ended;
    if (!ended) {
        atomic_store(&h->abandoned, true);
    }
    monitor_leave(h->guard);
    if (h->thread != NULL && ended) {
        os->thread_join(os->context, h->thread);
    } else if (!ended) {
        os->thread_abandon(os->context, h->thread);
    }
    h->thread = NULL;
    return ended;
}

pawl_status presence_write_counter(store *s, const char *path, uint64_t counter, pawl_error *err) {
    char digits[PRESENCE_COUNTER_DIGITS + 1];
    presence_counter(digits, counter);
    CLEANUP(store_close_pointer) store_file *file = NULL;
    TRY(store_open(s, path, STORE_UPDATE, &file, err));
    return store_write(file, PRESENCE_COUNTER_AT, digits, PRESENCE_COUNTER_DIGITS, err);
}
