/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers for property tests from a seed (SplitMix64, after Steele, Lea and Flood, 2014). A test
 * states its seed, so that a failure happens again.
 */
#ifndef LIB_RANDOM_H
#define LIB_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct test_random {
    uint64_t state;
} test_random;

static inline uint64_t random_next(test_random *r) {
    r->state += 0x9e3779b97f4a7c15U;
    uint64_t mixed = r->state;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebU;
    return mixed ^ mixed >> 31;
}

/* 0 to end - 1; 0 when end is 0. The bias is of no account for small ends. */
static inline uint64_t random_below(test_random *r, uint64_t end) {
    return end > 0 ? random_next(r) % end : 0;
}

/* Both included. */
static inline int64_t random_between(test_random *r, int64_t least, int64_t most) {
    return least + (int64_t)random_below(r, (uint64_t)(most - least) + 1);
}

static inline void random_fill(test_random *r, void *to, size_t n) {
    uint8_t *bytes = to;
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)(random_next(r) >> 56);
    }
}

#endif
