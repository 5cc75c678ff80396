/* SPDX-License-Identifier: Apache-2.0 */
/* A mutex with one condition on the monotonic clock. */
#include "base/base.h"

#include <assert.h>
#include <errno.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000U

thread_id thread_self(void) {
    return pthread_self();
}

bool thread_is_self(thread_id thread) {
    return pthread_equal(thread, pthread_self()) != 0;
}

process_id process_self(void) {
    return getpid();
}

bool process_is_self(process_id process) {
    return process == getpid();
}

static int condition_init(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    if (failed != 0) {
        return failed;
    }
    failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (failed == 0) {
        failed = pthread_cond_init(condition, &attributes);
    }
    pthread_condattr_destroy(&attributes);
    return failed;
}

pawl_status monitor_init(monitor *m, pawl_error *err) {
    int failed = pthread_mutex_init(&m->mutex, NULL);
    if (failed != 0) {
        return error_sys(err, failed, "cannot make a mutex");
    }
    failed = condition_init(&m->changed);
    if (failed != 0) {
        pthread_mutex_destroy(&m->mutex);
        return error_sys(err, failed, "cannot make a condition");
    }
    return PAWL_OK;
}

void monitor_destroy(monitor *m) {
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->mutex);
}

void monitor_enter(monitor *m) {
    int failed = pthread_mutex_lock(&m->mutex);
    assert(failed == 0);
    (void)failed;
}

void monitor_leave(monitor *m) {
    int failed = pthread_mutex_unlock(&m->mutex);
    assert(failed == 0);
    (void)failed;
}

void monitor_leave_pointer(monitor **m) {
    if (*m != NULL) {
        monitor_leave(*m);
    }
}

void monitor_announce(monitor *m) {
    pthread_cond_broadcast(&m->changed);
}

bool monitor_wait_until(monitor *m, uint64_t deadline_ns) {
    if (deadline_ns > INT64_MAX) { /* no deadline: beyond what the kernel can count to */
        pthread_cond_wait(&m->changed, &m->mutex);
        return true;
    }
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / NS_PER_S),
                                .tv_nsec = (long)(deadline_ns % NS_PER_S)};
    return pthread_cond_timedwait(&m->changed, &m->mutex, &deadline) != ETIMEDOUT;
}
