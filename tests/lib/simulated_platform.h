/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A platform for tests that must happen the same way each time: one thread (bodies run to their end
 * before thread_start returns), a clock that only the test and sleeps advance, randomness from a
 * seed, and processes that live and die as the test says. Set the fields at any time.
 */
#ifndef LIB_SIMULATED_PLATFORM_H
#define LIB_SIMULATED_PLATFORM_H

#include "base/base.h"
#include "lib/random.h"

typedef struct simulated_platform {
    platform table; /* what is handed to the code under test: &s.table */
    uint64_t monotonic_ns;
    int64_t unix_time_ns;
    uint64_t tick_ns; /* that each look at the monotonic clock takes; 0 at first */
    test_random random;
    process_identity identity;
    liveness
        others; /* what process_alive says of anyone but `identity`; PROCESS_UNKNOWN at first */
    bool random_fails, thread_start_fails, identity_fails;

    /* Called while the code under test sleeps, after the clock was advanced; may be NULL. */
    void (*on_sleep)(void *context, uint64_t ns);
    void *on_sleep_context;

    /* Counted, for the test to look at. */
    uint64_t slept_ns;
    uint64_t threads_started, threads_joined, threads_abandoned;
} simulated_platform;

/* `s` must not move afterwards. Needs no freeing. */
void simulated_platform_init(simulated_platform *s, uint64_t seed);
void simulated_platform_advance(simulated_platform *s, uint64_t ns);

#endif
