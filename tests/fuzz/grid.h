/* SPDX-License-Identifier: Apache-2.0 */
/* grid: how often each element of a small shape lies in some box, told by counting. */
#ifndef FUZZ_GRID_H
#define FUZZ_GRID_H

#include "fuzz.h"

#define GRID_MAX 343 /* elements: 7 along each of three dimensions */

typedef struct grid {
    int ndim;
    int64_t shape[3];
    unsigned counts[GRID_MAX];
} grid;

/* Element `i` of the shape, by its place along each dimension. */
static inline bool grid_holds(const grid *g, const box *b, int64_t i) {
    for (int d = g->ndim; d-- > 0;) {
        int64_t at = i % g->shape[d];
        i /= g->shape[d];
        if (at < b->offset[d] || at - b->offset[d] >= b->extent[d]) {
            return false;
        }
    }
    return true;
}

static inline int64_t grid_elements(const grid *g) {
    int64_t n = 1;
    for (int d = 0; d < g->ndim; d++) {
        n *= g->shape[d];
    }
    return n;
}

static inline void grid_add(grid *g, const box *b) {
    int64_t at[3] = {0}, n[3] = {1, 1, 1}, size[3] = {1, 1, 1};
    for (int d = 0; d < g->ndim; d++) {
        at[3 - g->ndim + d] = b->offset[d];
        n[3 - g->ndim + d] = b->extent[d];
        size[3 - g->ndim + d] = g->shape[d];
    }
    for (int64_t i = at[0]; i < at[0] + n[0]; i++) {
        for (int64_t j = at[1]; j < at[1] + n[1]; j++) {
            for (int64_t k = at[2]; k < at[2] + n[2]; k++) {
                g->counts[(i * size[1] + j) * size[2] + k]++;
            }
        }
    }
}

/* Is every element in exactly one box? */
static inline bool grid_whole(const grid *g, bool *hole, bool *overlap) {
    *hole = false;
    *overlap = false;
    for (int64_t i = 0; i < grid_elements(g); i++) {
        *hole = *hole || g->counts[i] == 0;
        *overlap = *overlap || g->counts[i] > 1;
    }
    return !*hole && !*overlap;
}

/* A shape of at most three dimensions of at most `most` elements, 0 included. */
static inline void grid_take(grid *g, fuzz_bytes *in, unsigned most) {
    *g = (grid){.ndim = (int)fuzz_below(in, 4)};
    for (int d = 0; d < g->ndim; d++) {
        g->shape[d] = (int64_t)fuzz_below(in, most + 1);
    }
}

/* A box inside the shape, empty ones included. */
static inline box grid_take_box(const grid *g, fuzz_bytes *in) {
    box b = {.ndim = g->ndim};
    for (int d = 0; d < g->ndim; d++) {
        b.offset[d] = (int64_t)fuzz_below(in, (unsigned)g->shape[d] + 1);
        b.extent[d] = (int64_t)fuzz_below(in, (unsigned)(g->shape[d] - b.offset[d]) + 1);
    }
    return b;
}

#endif
