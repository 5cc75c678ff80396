/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of pawl diff. Each returns PAWL_OK, or a status after filling out->err. */
#ifndef CLI_DIFF_H
#define CLI_DIFF_H

#include "cli.h"
#include "entry.h"

typedef struct comparison {
    output *out;
    table *table; /* NULL when printing JSON */
    pawl_checkpoint *a, *b;
    int world_size;    /* the larger of the two */
    bool structure;    /* compare no numbers, and of values only hyperparameters */
    uint64_t of_bytes; /* to read in all, for the progress line */
    uint64_t same, different, only_a, only_b, uncompared; /* entries */
    double max_abs;                                       /* over all tensors */
} comparison;

/* Differences between the numbers of two tensors of one dtype and shape. */
typedef struct distances {
    uint64_t elements;  /* for packed types: bytes */
    uint64_t differing; /* in any bit */
    uint64_t nan;       /* NaN on one side only */
    double max_abs;     /* 0 for packed types */
    long double sum;    /* of the finite distances */
    uint64_t finite;
    bool uncompared; /* a packed tensor too large to be held in memory */
} distances;

/* Compares the bytes of the tensor, slice by slice. */
pawl_status diff_numbers(comparison *c, const tensor_ref *t, distances *d);

/* An entry that both have: reports each difference and counts the entry. */
pawl_status diff_entry(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b);
/* An entry that only one of them has. */
void diff_lone_entry(comparison *c, const pawl_entry_info *info, bool in_a);

#endif
