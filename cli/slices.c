/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor cut into consecutive boxes of bounded size. */
#include "slices.h"

#include <assert.h>
#include <string.h>

slices slices_of(int ndim, const int64_t *shape, uint64_t most) {
    slices s = {.ndim = ndim, .cut = 0, .row = 1};
    assert(ndim >= 0 && ndim <= PAWL_MAX_NDIM && most > 0);
    for (int i = 0; i < ndim; i++) {
        s.shape[i] = shape[i];
        s.empty = s.empty || shape[i] <= 0;
    }
    for (int i = ndim - 1; i >= 0 && !s.empty; i--) {
        s.cut = i;
        if ((uint64_t)shape[i] > most / s.row) {
            break; /* this dimension does not fit as a whole */
        }
        s.row *= i > 0 ? (uint64_t)shape[i] : 1;
    }
    s.at_once = (int64_t)(most / s.row < INT64_MAX ? most / s.row : INT64_MAX);
    return s;
}

/* Moves to the next index of the cut dimension, or of those before it; false at the end. */
static bool advance(slices *s) {
    s->offset[s->cut] += s->extent[s->cut];
    for (int i = s->cut; s->offset[i] >= s->shape[i]; i--) {
        if (i == 0) {
            return false;
        }
        s->offset[i] = 0;
        s->offset[i - 1]++;
    }
    return true;
}

bool slices_next(slices *s) {
    if (s->empty || (s->started && (s->ndim == 0 || !advance(s)))) {
        s->empty = true;
        return false;
    }
    s->started = true;
    s->elements = 1;
    for (int i = 0; i < s->ndim; i++) {
        int64_t left = s->shape[i] - s->offset[i];
        s->extent[i] = i < s->cut          ? 1
                       : i > s->cut        ? s->shape[i]
                       : left < s->at_once ? left
                                           : s->at_once;
        s->elements *= (uint64_t)s->extent[i];
    }
    return true;
}
