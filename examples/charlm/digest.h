/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest: numbers by which to see that nothing was lost on the way: any bit of any element changes
 * them. They are sums over all elements of a mix of place and bits, so ranks that have parts of a
 * tensor add theirs up, and any number of ranks comes to the same.
 */
#ifndef CHARLM_DIGEST_H
#define CHARLM_DIGEST_H

#include "ranks.h"
#include "training.h"

struct digests {
    uint64_t weights;
    uint64_t slots; /* of the optimizer, those of all ranks */
};

/* Collective. Dies when the ranks do not have the same weights. */
struct digests digests_of(const struct training *training, const struct ranks *ranks);

#endif
