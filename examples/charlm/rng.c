/* SPDX-License-Identifier: Apache-2.0 */
/* rng: xoshiro256++, seeded by splitmix64 as its authors recommend. */
#include "rng.h"

static uint64_t splitmix(uint64_t *state) {
    uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

static uint64_t rotate_left(uint64_t word, int bits) {
    return (word << bits) | (word >> (64 - bits));
}

void rng_seed(struct rng *rng, uint64_t seed) {
    for (int i = 0; i < 4; i++) {
        rng->word[i] = splitmix(&seed);
    }
}

uint64_t rng_next(struct rng *rng) {
    uint64_t *word = rng->word;
    uint64_t result = rotate_left(word[0] + word[3], 23) + word[0];
    uint64_t shifted = word[1] << 17;
    word[2] ^= word[0];
    word[3] ^= word[1];
    word[1] ^= word[2];
    word[0] ^= word[3];
    word[2] ^= shifted;
    word[3] = rotate_left(word[3], 45);
    return result;
}

uint64_t rng_below(struct rng *rng, uint64_t bound) {
    /* 2^64 is not a multiple of `bound`: without the loop small results would be a little more
     * likely. */
    uint64_t unfair = (UINT64_MAX % bound + 1) % bound;
    uint64_t drawn;
    do {
        drawn = rng_next(rng);
    } while (drawn > UINT64_MAX - unfair);
    return drawn % bound;
}

float rng_uniform(struct rng *rng, float low, float high) {
    float unit = (float)(rng_next(rng) >> 40) * 0x1p-24f;
    return low + (high - low) * unit;
}
