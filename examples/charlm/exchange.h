/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange: data parallelism with a sharded optimizer (ZeRO stage 1: Rajbhandari et al., ZeRO:
 * Memory Optimizations Toward Training Trillion Parameter Models, 2020).
 *
 *     every rank       computes the gradients of its own samples
 *     sum_gradients    each rank gets the sum, over all ranks, of the rows that are its own
 *     the optimizer    updates these rows, with the slots of these rows alone
 *     share_values     every rank gets all rows
 *
 * The sum is taken in the order of ranks, whatever order messages come in: the same job on the same
 * number of ranks comes to the same bits. Another number of ranks rounds differently.
 */
#ifndef CHARLM_EXCHANGE_H
#define CHARLM_EXCHANGE_H

#include "ranks.h"

struct exchange {
    const struct ranks *ranks;
    struct variable *variables;
    size_t count;
    size_t *sizes;   /* bytes of each rank's shards of all variables */
    float *packed;   /* all variables, by rank: the shards of rank 0, those of rank 1, ... */
    float *received; /* gradients of this rank's shards, as each rank has them */
};

/* Keeps pointers to `ranks` and `variables`. */
void exchange_open(struct exchange *exchange, const struct ranks *ranks, struct variable *variables,
                   size_t count);
void exchange_close(struct exchange *exchange);

/* Only reads the values, and of the gradients changes this rank's shards. Collective. */
void exchange_sum_gradients(struct exchange *exchange);
/* Changes the values of every shard but this rank's. Collective. */
void exchange_share_values(struct exchange *exchange);

/* sum[i] = terms[0][i] + terms[1][i] + ..., in that order; `terms` is [count, size]. */
void sum_in_order(float *sum, const float *terms, size_t count, size_t size);

#endif
