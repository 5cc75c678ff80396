/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks: the processes that train together, and the three ways in which they exchange bytes.
 *
 * Two files implement it: ranks_one.c for a process alone (the program charlm), ranks_mpi.c for the
 * processes that mpirun started (the program charlm-mpi). All calls but ranks_close are collective:
 * every rank makes them, in the same order. They return when it is done, or end the program: a rank
 * that is gone, or does not come within RANKS_TIMEOUT_S seconds, ends the training of all of them.
 */
#ifndef CHARLM_RANKS_H
#define CHARLM_RANKS_H

#include <pawl/group.h>

#include "shard.h"

enum { RANKS_TIMEOUT_S = 120 };

struct ranks {
    struct place place;
    const pawl_group *group; /* for pawl's options; NULL: one process */
    struct ranks_job *job;   /* of the implementation */
};

/*
 * Called first. From now on only what rank 0 prints to stdout is shown. A rank that exits without
 * ranks_close ends the others, too.
 */
void ranks_open(struct ranks *ranks);
/* After success, when all ranks have come to their end. */
void ranks_close(struct ranks *ranks);

/*
 * `from` is cut into a piece per rank, of sizes[r] bytes; each rank receives its own piece from
 * every rank, in the order of ranks, in `to`.
 */
void ranks_exchange(const struct ranks *ranks, const void *from, const size_t *sizes, void *to);

/* `bytes` is cut into a piece per rank, of sizes[r] bytes; each rank fills its own, and then has
 * all. */
void ranks_share(const struct ranks *ranks, void *bytes, const size_t *sizes);

/* Every rank receives the `n` bytes of each rank, in the order of ranks, in `all`. */
void ranks_tell(const struct ranks *ranks, const void *mine, size_t n, void *all);

#endif
