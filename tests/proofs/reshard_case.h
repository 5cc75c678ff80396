/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reshard_case: random tensors, and random ways in which they lie on the ranks of a job: in rows,
 * along any dimension, in meshes inside meshes, in irregular boxes, each once or in groups of
 * replicas, whole on every rank, or on one rank alone.
 */
#ifndef PROOFS_RESHARD_CASE_H
#define PROOFS_RESHARD_CASE_H

#include "lib/random.h"
#include "state/state.h"

#define RESHARD_RANKS   6
#define RESHARD_TENSORS 4
#define RESHARD_PARTS   24
#define RESHARD_NDIM    4
#define RESHARD_LARGE   ((uint64_t)1 << 20)

typedef struct reshard_tensor {
    char name[16];
    pawl_dtype dtype;
    int ndim;
    int64_t shape[RESHARD_NDIM];
    uint64_t bytes;
    uint8_t *image; /* dense */
} reshard_tensor;

/* Where a tensor lies: parts, each on one group of ranks. */
typedef struct reshard_placement {
    bool everywhere; /* whole on every rank */
    int replicas;    /* of each part: ranks in a group */
    box parts[RESHARD_PARTS];
    int groups[RESHARD_PARTS];
    size_t count;
} reshard_placement;

/* The ranks of a job. */
typedef struct reshard_side {
    int ranks;
    int replicas; /* of what is replicated by groups */
    bool strided; /* ranks of a group: in a row, or each so many */
    reshard_placement placements[RESHARD_TENSORS];
} reshard_side;

typedef struct reshard_case {
    reshard_tensor tensors[RESHARD_TENSORS];
    size_t count;
    bool large; /* tensors of more than RESHARD_LARGE, and nothing else */
    reshard_side from, to;
} reshard_case;

void reshard_case_make(reshard_case *c, uint64_t seed);
void reshard_case_free(reshard_case *c);

/* The memory of one part on one rank. */
typedef struct reshard_memory {
    size_t tensor;
    box part;
    int64_t strides[RESHARD_NDIM];
    bool dense;
    uint8_t *data;
    size_t bytes;
} reshard_memory;

/* What one rank has. */
typedef struct reshard_rank {
    pawl_state *state;
    reshard_memory held[RESHARD_TENSORS * RESHARD_PARTS];
    size_t held_count;
} reshard_rank;

/* `filled`: with the tensors' bytes; otherwise with others. */
void reshard_rank_make(reshard_rank *r, const reshard_case *c, const reshard_side *side, int rank,
                       bool filled, test_random *random);
void reshard_rank_free(reshard_rank *r);
/* NULL, or the name of the first tensor whose bytes are not those of the case. */
const char *reshard_rank_differs(const reshard_rank *r, const reshard_case *c);

#endif
