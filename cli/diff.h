/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of pawl diff. Each returns PAWL_OK, or a status after filling out->err. */
#ifndef CLI_DIFF_H
#define CLI_DIFF_H

#include "cli.h"
#include "entry.h"

/* Entries that are compared together, so that the numbers of small tensors are read together:
 * diff_queue.c. */
typedef struct diff_queue diff_queue;

typedef struct comparison {
    output *out;
    table *table; /* NULL when printing JSON */
    pawl_checkpoint *a, *b;
    int world_size;    /* the larger of the two */
    bool structure;    /* compare no numbers, and of values only hyperparameters */
    uint64_t of_bytes; /* to read in all, for the progress line */
    uint64_t same, different, only_a, only_b, uncompared; /* entries */
    double max_abs;                                       /* over all tensors */
    diff_queue *queue;                                    /* NULL: empty */
} comparison;

/* Differences between the numbers of two tensors of one dtype and shape. */
typedef struct distances {
    uint64_t elements;  /* for packed types: bytes */
    uint64_t differing; /* in any bit */
    uint64_t nan;       /* NaN on one side only */
    double max_abs;     /* 0 for packed types */
    long double sum;    /* of the finite distances */
    uint64_t finite;
    bool uncompared; /* of an unknown type, or packed and too large to be held in memory */
} distances;

/* Compares all entries of the two checkpoints, and reports what differs. */
pawl_status diff_entries(comparison *c);

/* The bytes of a tensor in both, where they are in memory already. */
typedef struct tensor_bytes {
    const char *a, *b;
} tensor_bytes;

/* Compares the bytes of the tensor: those in memory, or reads them slice by slice (`bytes` NULL).
 */
pawl_status diff_numbers(comparison *c, const tensor_ref *t, const tensor_bytes *bytes,
                         distances *d);

/* An entry that both have: reports each difference and counts the entry. `bytes` as above. */
pawl_status diff_entry(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b,
                       const tensor_bytes *bytes);
/* An entry that only one of them has. */
void diff_lone_entry(comparison *c, const pawl_entry_info *info, bool in_a);

/* What comes next in the order of names: an entry that both have, or one of them (the other is
 * NULL). It is copied, and reported later, in that order. */
pawl_status diff_queue_add(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b);
/* Reports all that wait. */
pawl_status diff_queue_end(comparison *c);
void diff_queue_free(comparison *c);
/* Shows how much of the two checkpoints was read. */
void diff_show_progress(const comparison *c);

#endif
