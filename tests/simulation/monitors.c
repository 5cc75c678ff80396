/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/sync for fibers. A program that links this has it in the place of base/sync.c, all of whose
 * functions are here: who waits for a monitor lets other fibers run, and deadlines are those of the
 * simulated clock of the fiber's machine.
 */
#include "simulation/fibers.h"

#include <assert.h>
#include <string.h>

typedef struct fiber_monitor {
    bool held;
    fiber_list entering, waiting;
} fiber_monitor;

_Static_assert(sizeof(fiber_monitor) <= sizeof(monitor), "it lies in the place of a monitor");

static fiber_monitor *of(monitor *m) {
    return (fiber_monitor *)(void *)m;
}

thread_id thread_self(void) {
    return (thread_id)(uintptr_t)fiber_self();
}

bool thread_is_self(thread_id thread) {
    return thread == thread_self();
}

pawl_status monitor_init(monitor *m, pawl_error *err) {
    (void)err;
    memset(m, 0, sizeof *m);
    return PAWL_OK;
}

void monitor_destroy(monitor *m) {
    assert(!of(m)->held);
}

void monitor_enter(monitor *m) {
    fiber_monitor *f = of(m);
    while (f->held) {
        assert(fiber_self() != NULL);
        fiber_list_add(&f->entering, fiber_self());
        (void)fiber_wait(UINT64_MAX);
        fiber_list_remove(&f->entering, fiber_self());
    }
    f->held = true;
}

void monitor_leave(monitor *m) {
    fiber_monitor *f = of(m);
    assert(f->held);
    f->held = false;
    if (f->entering.first != NULL) {
        fiber_wake(fiber_list_take(&f->entering));
    }
}

void monitor_leave_pointer(monitor **m) {
    if (*m != NULL) {
        monitor_leave(*m);
    }
}

void monitor_announce(monitor *m) {
    fiber *next;
    while ((next = fiber_list_take(&of(m)->waiting)) != NULL) {
        fiber_wake(next);
    }
}

bool monitor_wait_until(monitor *m, uint64_t deadline_ns) {
    fiber *self = fiber_self();
    uint64_t until_ns = UINT64_MAX;
    assert(self != NULL);
    if (deadline_ns <= INT64_MAX) {
        uint64_t offset_ns = fiber_group_of(self)->clock_offset_ns;
        until_ns = deadline_ns > offset_ns ? deadline_ns - offset_ns : 0;
    }
    fiber_list_add(&of(m)->waiting, self);
    monitor_leave(m);
    bool woken = fiber_wait(until_ns);
    fiber_list_remove(&of(m)->waiting, self);
    monitor_enter(m);
    return woken;
}
