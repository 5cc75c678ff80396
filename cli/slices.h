/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a tensor of any size in bounded memory: it is cut into boxes, each of consecutive
 * elements in row-major order.
 *
 *     slices s = slices_of(ndim, shape, SLICE_BYTES / size);
 *     while (slices_next(&s)) { read s.offset, s.extent: s.elements of them }
 */
#ifndef CLI_SLICES_H
#define CLI_SLICES_H

#include <pawl/tensor.h>
#include <stdbool.h>
#include <stdint.h>

enum { SLICE_BYTES = 4 * 1024 * 1024 };

typedef struct slices {
    int ndim;
    int64_t shape[PAWL_MAX_NDIM];
    int64_t offset[PAWL_MAX_NDIM];
    int64_t extent[PAWL_MAX_NDIM];
    uint64_t elements; /* of the current slice */
    int cut;           /* this dimension is cut; later ones are whole, earlier ones have extent 1 */
    int64_t at_once;   /* extent of a slice in the cut dimension */
    uint64_t row;      /* elements per index of the cut dimension */
    bool started, empty;
} slices;

/* Slices have at most `most` elements; `most` is at least 1. */
slices slices_of(int ndim, const int64_t *shape, uint64_t most);
bool slices_next(slices *s);

#endif
