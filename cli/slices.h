/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensor cut into boxes of bounded size that are each consecutive in row-major order, in that
 * order: how any tensor is looked at in bounded memory.
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
    uint64_t elements; /* of the present slice */
    int cut;           /* the dimension that is cut; those after it are whole, those before it 1 */
    int64_t at_once;   /* of the cut dimension */
    uint64_t row;      /* elements of one index of the cut dimension */
    bool started, empty;
} slices;

/* `most` elements in each slice, at least 1. */
slices slices_of(int ndim, const int64_t *shape, uint64_t most);
bool slices_next(slices *s);

#endif
