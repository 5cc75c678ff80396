/* SPDX-License-Identifier: Apache-2.0 */
/* digest: of the weights, which every rank has, and of the slots, which they have parts of. */
#include "digest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "die.h"

/* The finalizer of splitmix64: every bit of `word` changes half of the bits of the result. */
static uint64_t mix(uint64_t word) {
    word = (word ^ (word >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    word = (word ^ (word >> 27)) * UINT64_C(0x94d049bb133111eb);
    return word ^ (word >> 31);
}

/* `tensor` numbers the tensors; `first` is the place in it of the first of `size` elements. */
static uint64_t digest(uint64_t tensor, size_t first, const float *elements, size_t size) {
    uint64_t sum = 0;
    for (size_t i = 0; i < size; i++) {
        uint32_t bits;
        memcpy(&bits, &elements[i], sizeof bits);
        sum += mix(mix((tensor << 48) + first + i + 1) + bits);
    }
    return sum;
}

static uint64_t digest_slots(const struct optimizer *optimizer) {
    uint64_t sum = 0;
    for (size_t slot = 0; slot < optimizer->class->slot_count; slot++) {
        for (size_t i = 0; i < optimizer->variable_count; i++) {
            sum += digest(slot * MAX_VARIABLES + i, optimizer->shards[i].first,
                          optimizer->slots[slot][i], optimizer->shards[i].size);
        }
    }
    return sum;
}

struct digests digests_of(const struct training *training, const struct ranks *ranks) {
    const struct digests own = {model_digest(&training->model), digest_slots(&training->optimizer)};
    struct digests *all = allocate((size_t)ranks->place.ranks, sizeof *all);
    ranks_tell(ranks, &own, sizeof own, all);
    struct digests whole = {own.weights, 0};
    for (int rank = 0; rank < ranks->place.ranks; rank++) {
        if (all[rank].weights != own.weights) {
            die(1, "rank %d has weights %016" PRIx64 ", rank %d %016" PRIx64, rank,
                all[rank].weights, ranks->place.rank, own.weights);
        }
        whole.slots += all[rank].slots;
    }
    free(all);
    return whole;
}
