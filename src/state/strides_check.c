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

/* Sets how far the elements reach, in bytes from the first one's first byte. */
static pawl_status measure(pawl_dtype dtype, int ndim, const int64_t *extent,
                           const int64_t *strides, uint64_t *before, uint64_t *after,
                           pawl_error *err) {
    if (pawl_dtype_bits(dtype) % 8 != 0) {
        refuse_strides(ndim, strides, err, "packed elements cannot have strides");
        error_next(err, "hand in dense memory and leave strides NULL");
        return PAWL_EUSAGE;
    }
    *before = 0;
    *after = 0;
    return memory_reach(ndim, extent, strides, before, after)
               ? PAWL_OK
               : refuse_strides(ndim, strides, err, "its strides overflow");
}

static pawl_status check_not_shared(pawl_dtype dtype, int ndim, const int64_t *extent,
                                    const int64_t *strides, pawl_error *err) {
    int shared = -1;
    find_shared_memory(pawl_dtype_bits(dtype) / 8, ndim, extent, strides, &shared);
    if (shared >= 0) {
        refuse_strides(ndim, strides, err, "its strides make elements share memory");
        error_expected(err, "a stride in dimension %d that steps over the other elements", shared);
        error_next(err, "make the tensor contiguous before adding it; "
                        "a restore could not write to broadcast memory");
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

pawl_status strides_check(pawl_dtype dtype, int ndim, const int64_t *extent, const int64_t *strides,
                          const void *data, pawl_error *err) {
    uint64_t before = 0;
    uint64_t after = 0;
    if (strides == NULL) {
        return check_dense_memory(dtype, ndim, extent, data, err);
    }
    TRY(measure(dtype, ndim, extent, strides, &before, &after, err));
    TRY(check_reach((uint64_t)pawl_dtype_bits(dtype) / 8, before, after, data, err));
    return check_not_shared(dtype, ndim, extent, strides, err);
}

/* Bytes of each stretch of elements that lie behind each other in row-major order. */
static uint64_t run_bytes(pawl_dtype dtype, int ndim, const int64_t *extent,
                          const int64_t *strides) {
    uint64_t run = (uint64_t)pawl_dtype_bits(dtype) / 8;
    for (int d = ndim - 1; d >= 0 && (extent[d] == 1 || (uint64_t)strides[d] == run); d--) {
        run *= (uint64_t)extent[d];
    }
    return run;
}

pawl_status provided_strides_check(pawl_dtype dtype, int ndim, const int64_t *extent,
                                   const int64_t *strides, pawl_error *err) {
    uint64_t before = 0;
    uint64_t after = 0;
    if (strides == NULL) {
        return PAWL_OK;
    }
    TRY(measure(dtype, ndim, extent, strides, &before, &after, err));
    TRY(check_not_shared(dtype, ndim, extent, strides, err));
    uint64_t run = run_bytes(dtype, ndim, extent, strides);
    uint64_t runs = shape_bytes(dtype, ndim, extent) / run;
    if (run >= PAWL_MIN_RUN_BYTES || runs <= PAWL_MAX_SHORT_RUNS) {
        return PAWL_OK;
    }
    refuse_strides(ndim, strides, err, "its strides make too many small copies");
    error_expected(err, "runs of at least %d bytes, or at most %d runs", PAWL_MIN_RUN_BYTES,
                   PAWL_MAX_SHORT_RUNS);
    error_found(err, "%" PRIu64 " runs of %" PRIu64 " bytes", runs, run);
    error_next(err, "make the tensor contiguous on its device before adding it");
    err->status = PAWL_EUNSUPPORTED;
    return PAWL_EUNSUPPORTED;
}
