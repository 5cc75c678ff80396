/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of less than a byte: boxes of them as boxes of bytes. */
#include "tensor/tensor.h"

/* So many elements times the `inner` ones of each, in whole bytes. Exact for negative ones, too. */
static bool in_bytes(int64_t count, int64_t inner, int bits, int64_t *bytes) {
    int64_t elements = count * inner; /* of one tensor, so it does not overflow */
    *bytes = elements / 8 * bits + elements % 8 * bits / 8;
    return elements % 8 * bits % 8 == 0;
}

bool boxes_as_bytes(pawl_dtype dtype, box *a, box *b) {
    int bits = pawl_dtype_bits(dtype);
    int last = a->ndim - 1;
    int64_t inner = 1;
    if (bits % 8 == 0 || a->ndim == 0) {
        return true;
    }
    /* Dimensions further in that both have alike are parts of what is counted in bytes. */
    while (last > 0 && a->offset[last] == b->offset[last] && a->extent[last] == b->extent[last]) {
        inner *= a->extent[last--];
    }
    int64_t ahead = b->offset[last] - a->offset[last];
    a->ndim = b->ndim = last + 1;
    a->offset[last] = 0;
    return in_bytes(ahead, inner, bits, &b->offset[last]) &&
           in_bytes(a->extent[last], inner, bits, &a->extent[last]) &&
           in_bytes(b->extent[last], inner, bits, &b->extent[last]);
}
