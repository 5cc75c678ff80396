/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of tensors that are read together. */
#include "convert/convert.h"
#include "tensor/tensor.h"

#include <string.h>

pawl_status request_box(request *r, const plan_item *item, const box *b, void *to, size_t bytes,
                        pawl_error *err) {
    size_t n = (size_t)item->to->ndim;
    int64_t *numbers = arena_take(&r->memory, (2 * n + 1) * sizeof(*numbers), err);
    if (numbers == NULL) {
        return PAWL_ENOMEM;
    }
    if (n > 0) {
        memcpy(numbers, b->offset, n * sizeof(*numbers));
        memcpy(numbers + n, b->extent, n * sizeof(*numbers));
    }
    TRY(vec_reserve(&r->slices, &r->room, r->count + 1, sizeof(*r->slices), err));
    r->slices[r->count++] = (pawl_slice){.name = item->from,
                                         .offset = n > 0 ? numbers : NULL,
                                         .extent = n > 0 ? numbers + n : NULL,
                                         .to = to,
                                         .to_bytes = bytes};
    return PAWL_OK;
}

pawl_status request_elements(request *r, const plan_item *item, uint64_t first, uint64_t n,
                             uint8_t *to, pawl_error *err) {
    static const int64_t origin[PAWL_MAX_NDIM];
    box whole = box_of(item->to->ndim, origin, item->to->shape);
    size_t each = (size_t)pawl_dtype_bits(item->from_dtype) / 8;
    while (n > 0) {
        box b = box_leading(&whole, first, n);
        uint64_t elements = box_elements(&b);
        TRY(request_box(r, item, &b, to, (size_t)elements * each, err));
        to += elements * each;
        first += elements;
        n -= elements;
    }
    return PAWL_OK;
}

pawl_status request_read(request *r, pawl_checkpoint *from, pawl_error *err) {
    const slice_array slices = {.first = r->slices, .size = sizeof(*r->slices), .count = r->count};
    pawl_status status = r->count > 0 ? checkpoint_read_many(from, &slices, err) : PAWL_OK;
    r->count = 0;
    arena_free(&r->memory);
    return status;
}

void request_free(request *r) {
    mem_free(r->slices);
    arena_free(&r->memory);
}
