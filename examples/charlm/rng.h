/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rng: the trainer's only source of randomness (initial weights, order of the data, dropout).
 *
 * All of it is four words, so saving and restoring them continues the very same sequence. A library
 * generator whose state cannot be read back could not be part of a checkpoint.
 */
#ifndef CHARLM_RNG_H
#define CHARLM_RNG_H

#include <stdint.h>

/* xoshiro256++ by David Blackman and Sebastiano Vigna, https://prng.di.unimi.it */
struct rng {
    uint64_t word[4];
};

void rng_seed(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
/* Every number below `bound` is equally likely; `bound` is at least 1. */
uint64_t rng_below(struct rng *rng, uint64_t bound);
/* From `low` (included) to `high` (excluded, but for rounding). */
float rng_uniform(struct rng *rng, float low, float high);

#endif
