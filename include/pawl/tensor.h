/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/tensor.h: element types and conversions between them.
 *
 * The element types are exactly those of the safetensors format, by its names. Elements are stored
 * little-endian and row-major; complex is two floats, real part first; the sub-byte types are
 * packed, and a tensor of them must fill whole bytes; boxes and slices are cut between bytes only
 * (PAWL_EUNSUPPORTED, where a read would have to cut within one).
 *
 * C64 is saved, restored, compared (pawl/diff.h: by the magnitude) and searched for NaN, but is not
 * converted: neither into another type nor into double. complex128 has no type: hand it over as F64
 * with a last dimension of 2 more, the real part first. It then is what F64 is: saved, restored,
 * compared and converted part by part; nothing turns it into C64, or tells its magnitude.
 */
#ifndef PAWL_TENSOR_H
#define PAWL_TENSOR_H

#include <pawl/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* In the order that safetensors files sort them: ascending alignment. The numbers are stable. */
typedef enum pawl_dtype {
    PAWL_BOOL = 1,
    PAWL_F4 = 2,      /* e2m1, 4 bits */
    PAWL_F6_E2M3 = 3, /* 6 bits */
    PAWL_F6_E3M2 = 4, /* 6 bits */
    PAWL_U8 = 5,
    PAWL_I8 = 6,
    PAWL_F8_E5M2 = 7,
    PAWL_F8_E4M3 = 8, /* "fn": no infinities */
    PAWL_F8_E8M0 = 9,
    PAWL_F8_E4M3FNUZ = 10,
    PAWL_F8_E5M2FNUZ = 11,
    PAWL_I16 = 12,
    PAWL_U16 = 13,
    PAWL_F16 = 14,
    PAWL_BF16 = 15,
    PAWL_I32 = 16,
    PAWL_U32 = 17,
    PAWL_F32 = 18,
    PAWL_C64 = 19, /* two f32 */
    PAWL_F64 = 20,
    PAWL_I64 = 21,
    PAWL_U64 = 22
} pawl_dtype;

#define PAWL_MAX_NDIM 32

/* "F32", "BF16", ...: the name in a safetensors header. NULL for a number that is no dtype. */
PAWL_API const char *pawl_dtype_name(pawl_dtype dtype);
/* 0 when no dtype has that name. */
PAWL_API pawl_dtype pawl_dtype_from_name(const char *name);
/* Bits of one element: 4, 6, 8, 16, 32 or 64. 0 for a number that is no dtype. */
PAWL_API int pawl_dtype_bits(pawl_dtype dtype);

/*
 * Converts `count` elements among F64, F32, F16 and BF16, rounding to nearest, ties to even, as
 * IEEE 754 defines it: a finite value too large for the target becomes infinity and is counted in
 * `*overflows` (may be NULL); NaN stays NaN (quiet, sign and leading payload bits kept); subnormals
 * are exact where the target has them. `to` and `from` must not overlap. Any other pair of types is
 * PAWL_EUSAGE.
 */
PAWL_API pawl_status pawl_cast(pawl_dtype to_dtype, void *to, pawl_dtype from_dtype,
                               const void *from, size_t count, uint64_t *overflows, pawl_error *err)
    PAWL_MUST_CHECK;

/*
 * Widens `count` elements of any real dtype of 8 bits or more to double, for looking at numbers
 * (U64 and I64 above 2^53 round). PAWL_EUNSUPPORTED for C64 and the packed types.
 */
PAWL_API pawl_status pawl_to_double(pawl_dtype dtype, const void *from, double *to, size_t count,
                                    pawl_error *err) PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
