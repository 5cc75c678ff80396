/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard: which rank has what. Nothing here talks to another rank.
 *
 * A batch is split by samples, a variable by rows (a bias by elements), as evenly as it goes: the
 * first `total % ranks` ranks have one more than the others, and where there are fewer than ranks
 * some have none. Every rank can tell what every other one has.
 */
#ifndef CHARLM_SHARD_H
#define CHARLM_SHARD_H

#include "variable.h"

/* One process of a job: this one of so many. One process alone is {0, 1}. */
struct place {
    int rank, ranks;
};

struct part {
    int64_t begin, count;
};

/* What the rank at `place` has of `total` things. */
struct part part_of(int64_t total, struct place place);

/* The rows of a variable that one rank updates, and whose slots it has. */
struct shard {
    int64_t offset[2]; /* of its first element in the variable: {row, 0} */
    int64_t shape[2];  /* as the variable's, but for the number of rows */
    size_t first;      /* the same, in elements: where it begins, */
    size_t size;       /* and how many they are */
};
struct shard shard_of(const struct variable *variable, struct place place);

#endif
