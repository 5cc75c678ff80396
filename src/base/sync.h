/* SPDX-License-Identifier: Apache-2.0 */
/* base/sync: a mutex with one condition, whose waits have monotonic deadlines; threads
 * told apart, and processes. */
#ifndef BASE_SYNC_H
#define BASE_SYNC_H

#include <pawl/error.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Which thread one is. */
typedef pthread_t thread_id;
thread_id thread_self(void);
bool thread_is_self(thread_id thread);

/* Which process one is. What a process made is there in a forked child, too, but as a copy of its
 * memory alone: without its threads, and with locks that nobody may ever let go of. */
typedef int64_t process_id;
process_id process_self(void);
bool process_is_self(process_id process);

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
