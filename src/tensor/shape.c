/* SPDX-License-Identifier: Apache-2.0 */
/* Checks shapes, counts their elements and bytes, and writes them as text. */
#include "tensor/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MOST_COUNT ((uint64_t)1 << 62)

/* `elements` elements are together `bytes` bytes, and no fewer elements fill whole bytes. */
typedef struct packing {
    uint64_t elements, bytes;
} packing;

static packing packing_of(pawl_dtype dtype) {
    int bits = pawl_dtype_bits(dtype);
    if (bits == 4) {
        return (packing){2, 1};
    }
    if (bits == 6) {
        return (packing){4, 3};
    }
    return (packing){1, (uint64_t)bits / 8};
}

static pawl_status refuse_shape(pawl_error *err, pawl_status status, int ndim, const int64_t *shape,
                                const char *why) {
    char text[256];
    error_set(err, status, "the shape cannot be used: %s", why);
    error_found(err, "%s", shape_text(text, sizeof(text), ndim, shape));
    return status;
}

static pawl_status check_extents(int ndim, const int64_t *shape, pawl_error *err) {
    if (ndim < 0 || ndim > PAWL_MAX_NDIM) {
        error_set(err, ndim < 0 ? PAWL_EUSAGE : PAWL_ELIMIT, "the shape cannot be used: %s",
                  ndim < 0 ? "its number of dimensions is negative" : "it has too many dimensions");
        error_expected(err, "0 to %d dimensions (PAWL_MAX_NDIM)", PAWL_MAX_NDIM);
        error_found(err, "%d", ndim);
        return err->status;
    }
    if (ndim > 0 && shape == NULL) {
        return error_set(err, PAWL_EUSAGE, "the shape cannot be used: it is a null pointer");
    }
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0) {
            return refuse_shape(err, PAWL_EUSAGE, ndim, shape, "an extent is negative");
        }
    }
    return PAWL_OK;
}

static bool has_empty_extent(int ndim, const int64_t *shape) {
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 0) {
            return true;
        }
    }
    return false;
}

/* Multiplies in the order in which a reader of safetensors does: after an extent of 0 the count
 * stays 0, however large later ones are. False when it passes MOST_COUNT before that. */
static bool count_elements(int ndim, const int64_t *shape, uint64_t *count) {
    *count = 1;
    for (int i = 0; i < ndim; i++) {
        if (multiply_overflows(*count, (uint64_t)shape[i], count) || *count > MOST_COUNT) {
            return false;
        }
    }
    return true;
}

pawl_status shape_check(pawl_dtype dtype, int ndim, const int64_t *shape, uint64_t *elements,
                        uint64_t *bytes, pawl_error *err) {
    if (!dtype_valid(dtype)) {
        error_set(err, PAWL_EUSAGE, "the dtype is unknown");
        error_expected(err, "a pawl_dtype, 1 (BOOL) to %d (U64)", (int)PAWL_U64);
        error_found(err, "%d", (int)dtype);
        return PAWL_EUSAGE;
    }
    TRY(check_extents(ndim, shape, err));
    packing pack = packing_of(dtype);
    uint64_t count, whole;
    if (!count_elements(ndim, shape, &count) ||
        multiply_overflows(count / pack.elements, pack.bytes, &whole) || whole > MOST_COUNT) {
        return refuse_shape(err, PAWL_ELIMIT, ndim, shape,
                            has_empty_extent(ndim, shape)
                                ? "its extents before the 0 multiply to more than "
                                  "2^62, which a data file cannot say"
                                : "it holds more than 2^62 elements or bytes");
    }
    if (count % pack.elements != 0) {
        refuse_shape(err, PAWL_EUSAGE, ndim, shape, "its elements do not fill whole bytes");
        error_expected(err, "a multiple of %" PRIu64 " elements of %s", pack.elements,
                       pawl_dtype_name(dtype));
        return PAWL_EUSAGE;
    }
    if (elements != NULL) {
        *elements = count;
    }
    if (bytes != NULL) {
        *bytes = whole;
    }
    return PAWL_OK;
}

/* For shapes that were checked, and for empty boxes: an overflow before an extent of 0 still gives
 * 0. */
uint64_t shape_elements(int ndim, const int64_t *shape) {
    uint64_t count = 1;
    for (int i = 0; i < ndim; i++) {
        count *= (uint64_t)shape[i];
    }
    return count;
}

uint64_t shape_bytes(pawl_dtype dtype, int ndim, const int64_t *shape) {
    packing pack = packing_of(dtype);
    return shape_elements(ndim, shape) / pack.elements * pack.bytes;
}

bool shape_equal(int ndim_a, const int64_t *a, int ndim_b, const int64_t *b) {
    if (ndim_a != ndim_b) {
        return false;
    }
    for (int i = 0; i < ndim_a; i++) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

const char *shape_text(char *out, size_t size, int ndim, const int64_t *shape) {
    char text[PAWL_MAX_NDIM * 24 + 4];
    size_t at = 0;
    text[at++] = '[';
    for (int i = 0; i < ndim && i < PAWL_MAX_NDIM; i++) {
        at += (size_t)snprintf(text + at, sizeof(text) - at, i > 0 ? ", %" PRId64 : "%" PRId64,
                               shape[i]);
    }
    snprintf(text + at, sizeof(text) - at, "]");
    if (size > 0 && (size_t)snprintf(out, size, "%s", text) >= size) {
        text_cut(out, size);
    }
    return out;
}
