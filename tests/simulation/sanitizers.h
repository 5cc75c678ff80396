/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sanitizers want to know of fibers: nothing, without one. And switching between fibers: a
 * switch by swapcontext costs two calls of the kernel, for a signal mask that is always the same;
 * the other way costs none, but sanitizers do not follow it.
 */
#ifndef SIMULATION_SANITIZERS_H
#define SIMULATION_SANITIZERS_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <ucontext.h>

/* Where a fiber, or who called it, goes on. */
typedef struct fiber_place {
    ucontext_t first; /* where it begins; later `at`, if `begun` */
    jmp_buf at;
    bool begun;
} fiber_place;

#ifdef __SANITIZE_THREAD__
#define SANITIZER_FIBERS 0
#else
#define SANITIZER_FIBERS 1
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>

#define SANITIZER_STACK_BYTES ((size_t)2 << 20)
#define SANITIZER_SLOWNESS    8 /* so much less is tried */

static inline void fiber_place_switch(fiber_place *from, fiber_place *to) {
    swapcontext(&from->first, &to->first);
}

/* Before a switch to a stack. `keep` NULL: the present one is left for ever. */
static inline void sanitizer_leave(void **keep, const void *stack, size_t bytes) {
    __sanitizer_start_switch_fiber(keep, stack, bytes);
}
/* After it: on the stack that `kept` was kept for. */
static inline void sanitizer_enter(void *kept, const void **from, size_t *from_bytes) {
    __sanitizer_finish_switch_fiber(kept, from, from_bytes);
}
#else
#define SANITIZER_STACK_BYTES ((size_t)512 << 10)
#define SANITIZER_SLOWNESS    1

static inline void fiber_place_switch(fiber_place *from, fiber_place *to) {
    from->begun = true;
    if (_setjmp(from->at) != 0) {
        return;
    }
    if (to->begun) {
        _longjmp(to->at, 1);
    }
    setcontext(&to->first);
}

static inline void sanitizer_leave(void **keep, const void *stack, size_t bytes) {
    (void)keep;
    (void)stack;
    (void)bytes;
}
static inline void sanitizer_enter(void *kept, const void **from, size_t *from_bytes) {
    (void)kept;
    *from = NULL;
    *from_bytes = 0;
}
#endif

#endif
