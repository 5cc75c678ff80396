/* SPDX-License-Identifier: Apache-2.0 */
/* ranks: one process alone. */
#include "ranks.h"

#include <string.h>

void ranks_open(struct ranks *ranks) {
    *ranks = (struct ranks){.place = {.rank = 0, .ranks = 1}};
}

void ranks_close(struct ranks *ranks) {
    (void)ranks;
}

void ranks_exchange(const struct ranks *ranks, const void *from, const size_t *sizes, void *to) {
    (void)ranks;
    memcpy(to, from, sizes[0]);
}

void ranks_share(const struct ranks *ranks, void *bytes, const size_t *sizes) {
    (void)ranks;
    (void)bytes;
    (void)sizes;
}

void ranks_tell(const struct ranks *ranks, const void *mine, size_t n, void *all) {
    (void)ranks;
    memcpy(all, mine, n);
}
