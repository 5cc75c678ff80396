/* SPDX-License-Identifier: Apache-2.0 */
/* Checks strides (S15): a box's memory stays inside the address space, and no two elements share a
 * byte. */
#include "state/entry.h"

#include <inttypes.h>

bool strides_are_dense(pawl_dtype dtype, int ndim, const int64_t *extent, const int64_t *strides) {
    uint64_t dense = (uint64_t)pawl_dtype_bits(dtype) / 8; /* for an empty box it may overflow */
    for (int d = ndim - 1; d >= 0; d--) {
        if (extent[d] != 1 && (uint64_t)strides[d] != dense) {
            return false;
        }
        dense *= (uint64_t)extent[d];
    }
    return true;
}

/* How many bytes the elements reach before and after the first byte of the first one. */
static bool memory_reach(int ndim, const int64_t *extent, const int64_t *strides, uint64_t *before,
                         uint64_t *after) {
    for (int d = 0; d < ndim; d++) {
        int64_t span = 0;
        if (__builtin_mul_overflow(extent[d] - 1, strides[d], &span) || span == INT64_MIN) {
            return false;
        }
        uint64_t *side = span < 0 ? before : after;
        if (add_overflows(*side, (uint64_t)(span < 0 ? -span : span), side)) {
            return false;
        }
    }
    return true;
}

static bool fits_address_space(const void *data, uint64_t before, uint64_t after) {
    uint64_t address = (uint64_t)(uintptr_t)data;
    uint64_t last = 0;
    return before <= address && after <= (uint64_t)PTRDIFF_MAX &&
           !add_overflows(address, after, &last) && last <= (uint64_t)UINTPTR_MAX;
}

static uint64_t stride_size(int64_t stride) {
    return stride < 0 ? 0 - (uint64_t)stride : (uint64_t)stride;
}

/* Of the dimensions with more than one element, the one with the smallest stride not below
 * `least`. */
static int next_dimension(int ndim, const int64_t *extent, const int64_t *strides,
                          const bool *done) {
    int best = -1;
    for (int d = 0; d < ndim; d++) {
        if (done[d] || extent[d] <= 1) {
            continue;
        }
        if (best < 0 || stride_size(strides[d]) < stride_size(strides[best])) {
            best = d;
        }
    }
    return best;
}

/*
 * From the smallest stride to the largest, each must step over all that the smaller ones reach.
 * Slices, steps and transpositions of dense memory do; broadcast memory does not, and a restore
 * could not write to it. *shared is the dimension that steps back into other elements, or -1.
 */
static void find_shared_memory(int64_t element_bytes, int ndim, const int64_t *extent,
                               const int64_t *strides, int *shared) {
    bool done[PAWL_MAX_NDIM] = {false};
    uint64_t reach = (uint64_t)element_bytes;
    *shared = -1;
    for (;;) {
        int d = next_dimension(ndim, extent, strides, done);
        if (d < 0) {
            return;
        }
        if (stride_size(strides[d]) < reach) {
            *shared = d;
            return;
        }
        done[d] = true;
        reach += (uint64_t)(extent[d] - 1) * stride_size(strides[d]);
    }
}

static pawl_status check_reach(uint64_t element_bytes, uint64_t before, uint64_t after,
                               const void *data, pawl_error *err) {
    if (add_overflows(after, element_bytes - 1, &after) ||
        !fits_address_space(data, before, after)) {
        error_set(err, PAWL_EUSAGE, "its memory would pass the end of the address space");
        error_found(err, "%" PRIu64 " bytes before and %" PRIu64 " bytes after the address %p",
                    before, after, data);
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

static pawl_status refuse_strides(int ndim, const int64_t *strides, pawl_error *err,
                                  const char *why) {
    char text[256];
    error_set(err, PAWL_EUSAGE, "%s", why);
    error_found(err, "strides %s, in bytes", shape_text(text, sizeof(text), ndim, strides));
    return PAWL_EUSAGE;
}

static pawl_status check_dense_memory(pawl_dtype dtype, int ndim, const int64_t *extent,
                                      const void *data, pawl_error *err) {
    return check_reach(1, 0, shape_bytes(dtype, ndim, extent) - 1, data, err);
}

pawl_status strides_check(pawl_dtype dtype, int ndim, const int64_t *extent, const int64_t *strides,
                          const void *data, pawl_error *err) {
    int bits = pawl_dtype_bits(dtype);
    if (strides == NULL) {
        return check_dense_memory(dtype, ndim, extent, data, err);
    }
    if (bits % 8 != 0) {
        refuse_strides(ndim, strides, err, "packed elements cannot have strides");
        error_next(err, "hand in dense memory and leave strides NULL");
        return PAWL_EUSAGE;
    }
    uint64_t before = 0;
    uint64_t after = 0;
    if (!memory_reach(ndim, extent, strides, &before, &after)) {
        return refuse_strides(ndim, strides, err, "its strides overflow");
    }
    TRY(check_reach((uint64_t)bits / 8, before, after, data, err));
    int shared = -1;
    find_shared_memory(bits / 8, ndim, extent, strides, &shared);
    if (shared >= 0) {
        refuse_strides(ndim, strides, err, "its strides make elements share memory");
        error_expected(err, "a stride in dimension %d that steps over the other elements", shared);
        error_next(err, "make the tensor contiguous before adding it; "
                        "a restore could not write to broadcast memory");
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}
