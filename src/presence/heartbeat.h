/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presence/heartbeat: what the owner and a reader's mark do alike: a thread that advances the
 * counter of a record, and that can be left behind when it hangs in the storage.
 *
 * The thread's body is its owner's: it works for as long as heartbeat_pause says so, and ends with
 * heartbeat_ended.
 */
#ifndef PRESENCE_HEARTBEAT_H
#define PRESENCE_HEARTBEAT_H

#include "base/base.h"
#include "store/store.h"

#include <stdatomic.h>

typedef struct heartbeat {
    const platform *platform;
    monitor *guard;          /* of `stopping` and `ended`; may guard more */
    platform_thread *thread; /* NULL: none was started, or it was stopped */
    bool stopping, ended;
    _Atomic bool abandoned; /* it hung when it was stopped, and may still run */
} heartbeat;

/* The platform has threads. */
pawl_status heartbeat_start(heartbeat *h, void (*body)(void *), void *argument, pawl_error *err)
    PAWL_MUST_CHECK;
/* For the thread: sleeps until `until_ns`; false when it is time to stop. */
bool heartbeat_pause(heartbeat *h, uint64_t until_ns);
/* The thread's last act. */
void heartbeat_ended(heartbeat *h);
/* Stops the thread, if there is one. False when it has not ended within `timeout_s`: it is
 * abandoned then, and what it uses must stay. */
bool heartbeat_stop(heartbeat *h, double timeout_s);

/* Overwrites the counter of the record in that file: needs no room. */
pawl_status presence_write_counter(store *s, const char *path, uint64_t counter, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
