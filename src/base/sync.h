/* SPDX-License-Identifier: Apache-2.0 */
/* base/sync: a mutex with one condition, whose waits have monotonic deadlines; the calling thread's
 * id. */
#ifndef BASE_SYNC_H
#define BASE_SYNC_H

#include <pawl/error.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The calling thread, and whether a thread is that. */
typedef pthread_t thread_id;
thread_id thread_self(void);
bool thread_is_self(thread_id thread);

typedef struct monitor {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
} monitor;

pawl_status monitor_init(monitor *m, pawl_error *err) PAWL_MUST_CHECK;
void monitor_destroy(monitor *m);
void monitor_enter(monitor *m);
void monitor_leave(monitor *m);
void monitor_leave_pointer(monitor **m); /* for CLEANUP: leaves unless NULL */
/* Wakes everyone who waits. */
void monitor_announce(monitor *m);
/* Waits for an announcement until the CLOCK_MONOTONIC time `deadline_ns`; false when it passed. */
bool monitor_wait_until(monitor *m, uint64_t deadline_ns);

#endif
