/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of two tensors of one dtype and shape, in memory or read slice by slice. */
#include "diff/private.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum {
    AT_ONCE = 4096, /* elements */
    SLICE_BYTES = 4 * 1024 * 1024,
    MOST_PACKED_BYTES = 256 * 1024 * 1024
};

typedef struct sums {
    pawl_distances *d;
    pawl_dtype dtype;
    size_t size;     /* of an element */
    long double sum; /* of the finite distances */
    uint64_t finite; /* how many those are */
} sums;

/* ---- |a - b| of single elements ------------------------------------------------------------- */

/* As unsigned, since the difference of two I64 may exceed INT64_MAX. */
static double distance_i64(const uint8_t *a, const uint8_t *b) {
    int64_t x;
    int64_t y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (double)(x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x);
}

static double distance_u64(const uint8_t *a, const uint8_t *b) {
    uint64_t x;
    uint64_t y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (double)(x > y ? x - y : y - x);
}

/* The squares of what floats hold are far from what a double cannot hold. */
static double distance_c64(const uint8_t *a, const uint8_t *b) {
    float x[2];
    float y[2];
    memcpy(x, a, sizeof(x));
    memcpy(y, b, sizeof(y));
    double real = (double)x[0] - (double)y[0];
    double imaginary = (double)x[1] - (double)y[1];
    return isinf(real) || isinf(imaginary) ? (double)INFINITY
                                           : sqrt(real * real + imaginary * imaginary);
}

/* NaN where one side is NaN, and where a dtype has no doubles. */
static void distances_real(pawl_dtype dtype, const uint8_t *a, const uint8_t *b, double *to,
                           size_t count) {
    double other[AT_ONCE];
    bool known = pawl_to_double(dtype, a, to, count, NULL) == PAWL_OK &&
                 pawl_to_double(dtype, b, other, count, NULL) == PAWL_OK;
    for (size_t i = 0; i < count; i++) {
        /* Two infinities are equal; their difference is NaN. */
        to[i] = !known ? (double)NAN : to[i] == other[i] ? 0 : fabs(to[i] - other[i]);
    }
}

static void distances_of(const sums *s, const uint8_t *a, const uint8_t *b, double *to,
                         size_t count) {
    double (*distance)(const uint8_t *, const uint8_t *) = s->dtype == PAWL_I64   ? distance_i64
                                                           : s->dtype == PAWL_U64 ? distance_u64
                                                           : s->dtype == PAWL_C64 ? distance_c64
                                                                                  : NULL;
    if (distance == NULL) {
        distances_real(s->dtype, a, b, to, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        to[i] = distance(a + i * s->size, b + i * s->size);
    }
}

/* ---- sums ----------------------------------------------------------------------------------- */

static void add_distance(sums *s, double distance) {
    if (isnan(distance)) {
        return;
    }
    s->d->max_abs = distance > s->d->max_abs ? distance : s->d->max_abs;
    if (isfinite(distance)) {
        s->sum += (long double)distance;
        s->finite++;
    }
}

static void add_elements(sums *s, const uint8_t *a, const uint8_t *b, size_t count) {
    double distances[AT_ONCE];
    distances_of(s, a, b, distances, count);
    for (size_t i = 0; i < count; i++) {
        bool same = memcmp(a + i * s->size, b + i * s->size, s->size) == 0;
        s->d->differing += !same;
        s->d->nan_on_one_side += !same && isnan(distances[i]);
        add_distance(s, same ? 0 : distances[i]); /* NaNs of the same bits are the same */
    }
}

static void add_slice(sums *s, const uint8_t *a, const uint8_t *b, uint64_t count) {
    s->d->elements += count;
    for (uint64_t done = 0; done < count; done += AT_ONCE) {
        size_t n = count - done < AT_ONCE ? (size_t)(count - done) : AT_ONCE;
        const uint8_t *from_a = a + done * s->size;
        const uint8_t *from_b = b + done * s->size;
        if (memcmp(from_a, from_b, n * s->size) == 0) {
            s->finite += n;
        } else {
            add_elements(s, from_a, from_b, n);
        }
    }
}

/* Elements of packed types do not fill whole bytes: their tensors are compared byte by byte. */
static void compare_bytes(pawl_distances *d, const uint8_t *a, const uint8_t *b, size_t bytes) {
    d->elements = bytes;
    for (size_t i = 0; i < bytes; i++) {
        d->differing += a[i] != b[i];
    }
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Two tensors of one type, and of one shape where A's is not transposed. */
typedef struct entry_pair {
    const pawl_entry_info *a, *b;
    bool transposed;
} entry_pair;

/* A box of the tensor; NULL: all of it. */
static pawl_status read_both(const comparison *c, const entry_pair *of, const box *part, uint8_t *a,
                             uint8_t *b, size_t bytes, pawl_error *err) {
    const int64_t *offset = part != NULL ? part->offset : NULL;
    const int64_t *extent = part != NULL ? part->extent : NULL;
    TRY(checkpoint_read(c->a, of->a->name, offset, extent, a, bytes, err));
    TRY(checkpoint_read(c->b, of->b->name, offset, extent, b, bytes, err));
    return diff_go_on(c, err);
}

static pawl_status read_packed(const comparison *c, const entry_pair *of, pawl_distances *d,
                               pawl_error *err) {
    size_t bytes = (size_t)of->a->bytes;
    AUTOFREE uint8_t *a = mem_alloc(bytes);
    AUTOFREE uint8_t *b = mem_alloc(bytes);
    if (a == NULL || b == NULL) {
        return error_nomem(err, bytes);
    }
    TRY(read_both(c, of, NULL, a, b, bytes, err));
    compare_bytes(d, a, b, bytes);
    return PAWL_OK;
}

static pawl_status read_slices(const comparison *c, const entry_pair *of, sums *s,
                               pawl_error *err) {
    const pawl_entry_info *info = of->a;
    const box whole = box_whole(info->ndim, info->shape);
    uint64_t elements = shape_elements(info->ndim, info->shape);
    size_t most = info->bytes < SLICE_BYTES ? (size_t)info->bytes : SLICE_BYTES;
    AUTOFREE uint8_t *a = mem_alloc(most);
    AUTOFREE uint8_t *b = mem_alloc(most);
    if (a == NULL || b == NULL) {
        return error_nomem(err, most);
    }
    for (uint64_t first = 0; first < elements;) {
        const box part = box_leading(&whole, first, SLICE_BYTES / s->size);
        uint64_t count = box_elements(&part);
        TRY(read_both(c, of, &part, a, b, (size_t)count * s->size, err));
        add_slice(s, a, b, count);
        first += count;
    }
    return PAWL_OK;
}

static void add_part(void *context, const uint8_t *a, const uint8_t *b, uint64_t count) {
    add_slice(context, a, b, count);
}

/* Both are in memory: A's is turned there. */
static pawl_status turn_and_add(const pawl_entry_info *a, const tensor_bytes *bytes, sums *s,
                                pawl_error *err) {
    AUTOFREE uint8_t *turned = mem_alloc((size_t)a->bytes);
    if (turned == NULL) {
        return error_nomem(err, (size_t)a->bytes);
    }
    diff_turn(bytes->a, (size_t)a->shape[0], (size_t)a->shape[1], s->size, turned);
    add_slice(s, turned, bytes->b, shape_elements(a->ndim, a->shape));
    return PAWL_OK;
}

static pawl_status compare_elements(const comparison *c, const entry_pair *of,
                                    const tensor_bytes *bytes, pawl_distances *d, pawl_error *err) {
    const pawl_entry_info *a = of->a;
    sums s = {.d = d, .dtype = a->dtype, .size = (size_t)pawl_dtype_bits(a->dtype) / 8};
    if (bytes != NULL && of->transposed) {
        TRY(turn_and_add(a, bytes, &s, err));
    } else if (bytes != NULL) {
        add_slice(&s, bytes->a, bytes->b, shape_elements(a->ndim, a->shape));
    } else if (of->transposed) {
        TRY(diff_read_turned(c, a, of->b, s.size, add_part, &s, err));
    } else {
        TRY(read_slices(c, of, &s, err));
    }
    d->mean_abs = s.finite > 0 ? (double)(s.sum / (long double)s.finite) : 0;
    return PAWL_OK;
}

pawl_status diff_numbers(const comparison *c, const pawl_entry_info *a, const pawl_entry_info *b,
                         const tensor_bytes *bytes, pawl_distances *d, pawl_error *err) {
    const entry_pair of = {.a = a, .b = b, .transposed = diff_is_transposed(c, a)};
    *d = (pawl_distances){.struct_size = sizeof(*d), .compared = 1};
    if (a->dtype == (pawl_dtype)0) {
        d->compared = 0;
        return PAWL_OK;
    }
    if (pawl_dtype_bits(a->dtype) >= 8) {
        return compare_elements(c, &of, bytes, d, err);
    }
    if (of.transposed || (bytes == NULL && a->bytes > MOST_PACKED_BYTES)) {
        d->elements = a->bytes;
        d->compared = 0;
        return PAWL_OK;
    }
    if (bytes != NULL) {
        compare_bytes(d, bytes->a, bytes->b, (size_t)a->bytes);
        return PAWL_OK;
    }
    return read_packed(c, &of, d, err);
}
