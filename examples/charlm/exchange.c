/* SPDX-License-Identifier: Apache-2.0 */
/* exchange: packs what goes to other ranks into one message each, and adds up what comes. */
#include "exchange.h"

#include <stdlib.h>
#include <string.h>

#include "die.h"

static struct place place_of(const struct exchange *exchange, int rank) {
    return (struct place){rank, exchange->ranks->place.ranks};
}

/* Elements of a rank's shards of all variables. */
static size_t shards_size(const struct exchange *exchange, int rank) {
    size_t size = 0;
    for (size_t i = 0; i < exchange->count; i++) {
        size += shard_of(&exchange->variables[i], place_of(exchange, rank)).size;
    }
    return size;
}

void exchange_open(struct exchange *exchange, const struct ranks *ranks, struct variable *variables,
                   size_t count) {
    *exchange = (struct exchange){.ranks = ranks, .variables = variables, .count = count};
    const int all = ranks->place.ranks;
    if (all == 1) {
        return; /* there is nobody to exchange with */
    }
    exchange->sizes = allocate((size_t)all, sizeof *exchange->sizes);
    size_t total = 0;
    for (int rank = 0; rank < all; rank++) {
        size_t size = shards_size(exchange, rank);
        exchange->sizes[rank] = size * sizeof(float);
        total += size;
    }
    exchange->packed = allocate(total, sizeof(float));
    exchange->received =
        allocate((size_t)all * shards_size(exchange, ranks->place.rank), sizeof(float));
}

void exchange_close(struct exchange *exchange) {
    free(exchange->sizes);
    free(exchange->packed);
    free(exchange->received);
}

/* ---- packing -------------------------------------------------------------------------------- */

enum what { VALUES, GRADIENTS };

static float *elements_of(const struct exchange *exchange, size_t variable, enum what what) {
    const struct variable *of = &exchange->variables[variable];
    return what == VALUES ? of->value : of->gradient;
}

/* Copies a rank's shards of all variables one after the other, or back. Returns the end of the
 * copy. */
static float *pack(const struct exchange *exchange, int rank, enum what what, float *piece) {
    for (size_t i = 0; i < exchange->count; i++) {
        struct shard shard = shard_of(&exchange->variables[i], place_of(exchange, rank));
        memcpy(piece, elements_of(exchange, i, what) + shard.first, shard.size * sizeof *piece);
        piece += shard.size;
    }
    return piece;
}

static const float *unpack(const struct exchange *exchange, int rank, enum what what,
                           const float *piece) {
    for (size_t i = 0; i < exchange->count; i++) {
        struct shard shard = shard_of(&exchange->variables[i], place_of(exchange, rank));
        memcpy(elements_of(exchange, i, what) + shard.first, piece, shard.size * sizeof *piece);
        piece += shard.size;
    }
    return piece;
}

/* ---- gradients ------------------------------------------------------------------------------ */

void sum_in_order(float *sum, const float *terms, size_t count, size_t size) {
    memcpy(sum, terms, size * sizeof *sum);
    for (size_t term = 1; term < count; term++) {
        const float *each = terms + term * size;
        for (size_t i = 0; i < size; i++) {
            sum[i] += each[i];
        }
    }
}

void exchange_sum_gradients(struct exchange *exchange) {
    const struct place here = exchange->ranks->place;
    if (here.ranks == 1) {
        return;
    }
    float *piece = exchange->packed;
    for (int rank = 0; rank < here.ranks; rank++) {
        piece = pack(exchange, rank, GRADIENTS, piece);
    }
    ranks_exchange(exchange->ranks, exchange->packed, exchange->sizes, exchange->received);
    float *sum = exchange->packed; /* its contents were sent, so it can be reused */
    sum_in_order(sum, exchange->received, (size_t)here.ranks,
                 exchange->sizes[here.rank] / sizeof *sum);
    unpack(exchange, here.rank, GRADIENTS, sum);
}

/* ---- values --------------------------------------------------------------------------------- */

void exchange_share_values(struct exchange *exchange) {
    const struct place here = exchange->ranks->place;
    if (here.ranks == 1) {
        return;
    }
    float *own = exchange->packed;
    for (int rank = 0; rank < here.rank; rank++) {
        own += exchange->sizes[rank] / sizeof *own;
    }
    pack(exchange, here.rank, VALUES, own);
    ranks_share(exchange->ranks, exchange->packed, exchange->sizes);
    const float *piece = exchange->packed;
    for (int rank = 0; rank < here.ranks; rank++) {
        piece = unpack(exchange, rank, VALUES, piece);
    }
}
