/* SPDX-License-Identifier: Apache-2.0 */
/* shard: arithmetic of the parts. */
#include "shard.h"

struct part part_of(int64_t total, struct place place) {
    int64_t each = total / place.ranks;
    int64_t larger = total % place.ranks; /* ranks that have one more */
    int64_t before = place.rank < larger ? place.rank : larger;
    return (struct part){place.rank * each + before, each + (place.rank < larger)};
}

struct shard shard_of(const struct variable *variable, struct place place) {
    struct part rows = part_of(variable->shape[0], place);
    int64_t columns = variable->ndim == 2 ? variable->shape[1] : 1;
    return (struct shard){.offset = {rows.begin, 0},
                          .shape = {rows.count, variable->shape[1]},
                          .first = (size_t)(rows.begin * columns),
                          .size = (size_t)(rows.count * columns)};
}
