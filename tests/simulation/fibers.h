/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fibers on a simulated clock: many threads of many machines in one thread of one process, in an
 * order that a seed decides. One runs at a time, until it sleeps, waits or ends; then the next one
 * whose time has come. When all wait, the clock moves to the next time at which one wants to go on.
 *
 * monitors.c puts fibers in the place of base/sync, so library code that waits for another thread
 * lets other fibers run. AddressSanitizer is told of the switches; ThreadSanitizer cannot follow.
 */
#ifndef SIMULATION_FIBERS_H
#define SIMULATION_FIBERS_H

#include "base/base.h"

typedef struct fiber fiber;

/* What stops and goes on together: the threads of one process. Zero is a process that runs. */
typedef struct fiber_group {
    bool dead;    /* its fibers never run again */
    bool stopped; /* they run again when it goes on */
    uint64_t clock_offset_ns;
    fiber *parked; /* their time has come while it was stopped */
} fiber_group;

void fibers_begin(uint64_t seed);
/* Runs until nobody is left whose time will come, or until the clock passes `until_ns`. */
void fibers_run(uint64_t until_ns);
uint64_t fibers_now(void); /* nanoseconds since fibers_begin */
uint64_t fibers_switches(void);

/* Begins now. The fiber is freed when it has ended and was joined or let go. */
fiber *fiber_start(fiber_group *group, void (*body)(void *), void *argument);
fiber *fiber_self(void); /* NULL: outside of all fibers */
fiber_group *fiber_group_of(const fiber *f);
bool fiber_ended(const fiber *f);
void fiber_join(fiber *f); /* waits for its end */
void fiber_let_go(fiber *f);

void fiber_sleep(uint64_t ns);
/* Looking at the clock takes a little, so that nobody looks for ever at the same time. */
uint64_t fiber_clock_ns(void);
/* Waits until it is woken, at most until a time by fibers_now; false when that came first. */
bool fiber_wait(uint64_t until_ns);
void fiber_wake(fiber *f);
/* Calls `work` on the stack of whoever called fibers_run, which is as large as a program's. */
void fiber_call_outside(void (*work)(void *), void *argument);

void fiber_group_stop(fiber_group *group);
void fiber_group_go_on(fiber_group *group);
/* Does not return when the calling fiber is one of them. */
void fiber_group_kill(fiber_group *group);

/* Fibers that wait together: a list through the fibers themselves. */
typedef struct fiber_list {
    fiber *first;
} fiber_list;
void fiber_list_add(fiber_list *list, fiber *f);
void fiber_list_remove(fiber_list *list, fiber *f); /* may be in none */
fiber *fiber_list_take(fiber_list *list);           /* NULL: there is none */

/* Is this program built so that fibers can run? */
bool fibers_possible(void);

#endif
