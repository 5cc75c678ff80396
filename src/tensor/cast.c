/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Casts among F64, F32, F16 and BF16, in integer arithmetic: a trainer may have set a rounding or
 * flush-to-zero mode, and it must not change the result. Each source is rounded once, straight into
 * its target.
 */
#include "tensor/tensor.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are stored little-endian");

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define BLOCK         64 /* elements that are cast together */

/* An IEEE 754 binary format: sign, exponent, mantissa. */
typedef struct float_format {
    int bytes, mantissa_bits, bias;
} float_format;

#define FORMAT_F64  ((float_format){8, 52, 1023})
#define FORMAT_F32  ((float_format){4, 23, 127})
#define FORMAT_F16  ((float_format){2, 10, 15})
#define FORMAT_BF16 ((float_format){2, 7, 127})

ALWAYS_INLINE int sign_shift(float_format f) {
    return f.bytes * 8 - 1;
}

ALWAYS_INLINE uint64_t infinity_of(float_format f) {
    return (uint64_t)(2 * f.bias + 1) << f.mantissa_bits;
}

/* By value shifted left, or right when `by` is negative. */
ALWAYS_INLINE uint64_t shifted(uint64_t value, int by) {
    return by >= 0 ? value << by : value >> -by;
}

ALWAYS_INLINE uint64_t load(const uint8_t *from, size_t i, float_format f) {
    uint64_t bits = 0;
    memcpy(&bits, from + i * (size_t)f.bytes, (size_t)f.bytes);
    return bits;
}

ALWAYS_INLINE void store(uint8_t *to, size_t i, float_format t, uint64_t bits) {
    memcpy(to + i * (size_t)t.bytes, &bits, (size_t)t.bytes);
}

/* ---- any value ------------------------------------------------------------------------------ */

/* Drops the lowest `drop` bits, at least one, rounding to nearest, ties to even. */
static uint64_t round_off(uint64_t value, int drop) {
    if (drop > 63) {
        return 0;
    }
    uint64_t kept = value >> drop;
    uint64_t rest = value - (kept << drop);
    uint64_t half = (uint64_t)1 << (drop - 1);
    return kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
}

/* A finite value other than 0, without its sign. One that is too large becomes infinity or more. */
static uint64_t convert_finite(uint64_t magnitude, float_format f, float_format t) {
    int exponent = (int)(magnitude >> f.mantissa_bits);
    uint64_t significand = magnitude & (((uint64_t)1 << f.mantissa_bits) - 1);
    if (exponent == 0) {
        int up = __builtin_clzll(significand) - (63 - f.mantissa_bits);
        significand <<= up;
        exponent = 1 - up;
    } else {
        significand |= (uint64_t)1 << f.mantissa_bits;
    }
    int target = exponent - f.bias + t.bias;
    int drop = f.mantissa_bits - t.mantissa_bits + (target < 1 ? 1 - target : 0);
    uint64_t rounded = drop > 0 ? round_off(significand, drop) : significand << -drop;
    /* The significand's leading bit adds 1 to the exponent field, and so does a carry out of
     * rounding. */
    return target < 1 ? rounded : rounded + ((uint64_t)(target - 1) << t.mantissa_bits);
}

static uint64_t convert(uint64_t bits, float_format f, float_format t, uint64_t *overflows) {
    uint64_t sign = bits >> sign_shift(f);
    uint64_t magnitude = bits - (sign << sign_shift(f));
    uint64_t infinity = infinity_of(t);
    uint64_t result = 0;
    if (magnitude > infinity_of(f)) {
        uint64_t payload = magnitude - infinity_of(f);
        uint64_t quiet = (uint64_t)1 << (t.mantissa_bits - 1);
        result = infinity | quiet | shifted(payload, t.mantissa_bits - f.mantissa_bits);
    } else if (magnitude == infinity_of(f)) {
        result = infinity;
    } else if (magnitude != 0) {
        result = convert_finite(magnitude, f, t);
        if (result >= infinity) {
            result = infinity;
            *overflows += 1;
        }
    }
    return result | sign << sign_shift(t);
}

/* ---- a block of plain values ---------------------------------------------------------------- */

/*
 * Plain values are zero, and what is a normal number in both formats: casting them is a rounding
 * shift and a change of bias, without a branch. Besides zero they are the magnitudes of the source
 * from `lowest` to below `end`.
 */
typedef struct plain_range {
    uint64_t lowest, end;
} plain_range;

ALWAYS_INLINE plain_range plain_range_of(float_format f, float_format t) {
    int drop = f.mantissa_bits - t.mantissa_bits;
    int lowest = f.bias - t.bias + 1;
    int end =
        f.bias + t.bias + 1; /* exponent field of the target's first power beyond its finite */
    plain_range range;
    range.lowest = (uint64_t)(lowest > 1 ? lowest : 1) << f.mantissa_bits;
    range.end = infinity_of(f);
    if (end < 2 * f.bias + 1 || (end == 2 * f.bias + 1 && drop > 0)) {
        range.end = (uint64_t)end << f.mantissa_bits;
        range.end -= drop > 0 ? (uint64_t)1 << (drop - 1) : 0;
    }
    return range;
}

ALWAYS_INLINE uint64_t rebias(float_format f, float_format t) {
    return (uint64_t)(int64_t)(t.bias - f.bias) << t.mantissa_bits;
}

/* Whole blocks by way of arrays of their own type: what compilers make vector instructions of. */

ALWAYS_INLINE void load_block(uint32_t bits[BLOCK], const uint8_t *from, float_format f) {
    if (f.bytes == 4) {
        memcpy(bits, from, BLOCK * sizeof(*bits));
        return;
    }
    uint16_t narrow[BLOCK];
    memcpy(narrow, from, sizeof(narrow));
    for (size_t i = 0; i < BLOCK; i++) {
        bits[i] = narrow[i];
    }
}

ALWAYS_INLINE void store_block(uint8_t *to, float_format t, const uint32_t bits[BLOCK]) {
    if (t.bytes == 4) {
        memcpy(to, bits, BLOCK * sizeof(*bits));
        return;
    }
    uint16_t narrow[BLOCK];
    for (size_t i = 0; i < BLOCK; i++) {
        narrow[i] = (uint16_t)bits[i];
    }
    memcpy(to, narrow, sizeof(narrow));
}

/* False when a value of the block is not plain; nothing is stored then. */
ALWAYS_INLINE bool plain_block_32(uint8_t *to, const uint8_t *from, float_format f,
                                  float_format t) {
    const plain_range range = plain_range_of(f, t);
    const int drop = f.mantissa_bits - t.mantissa_bits;
    const uint32_t most = ((uint32_t)1 << sign_shift(f)) - 1;
    uint32_t bits[BLOCK];
    uint32_t unusual = 0;
    load_block(bits, from, f);
    for (size_t i = 0; i < BLOCK; i++) {
        uint32_t above = (bits[i] & most) - (uint32_t)range.lowest;
        bool outside = above >= (uint32_t)(range.end - range.lowest);
        unusual |= (uint32_t)outside & (uint32_t)((bits[i] & most) != 0);
    }
    if (unusual != 0) {
        return false;
    }
    for (size_t i = 0; i < BLOCK; i++) {
        uint32_t magnitude = bits[i] & most;
        uint32_t sign = bits[i] >> sign_shift(f) << sign_shift(t);
        uint32_t half = drop > 0 ? ((uint32_t)1 << (drop - 1)) - 1 + (magnitude >> drop & 1) : 0;
        uint32_t moved = (uint32_t)shifted(magnitude + half, -drop) + (uint32_t)rebias(f, t);
        bits[i] = (magnitude != 0 ? moved : 0) | sign;
    }
    store_block(to, t, bits);
    return true;
}

/* The same for pairs with F64. */
ALWAYS_INLINE bool plain_block_64(uint8_t *to, const uint8_t *from, float_format f,
                                  float_format t) {
    const plain_range range = plain_range_of(f, t);
    const int drop = f.mantissa_bits - t.mantissa_bits;
    const uint64_t most = ((uint64_t)1 << sign_shift(f)) - 1;
    uint64_t bits[BLOCK];
    uint64_t unusual = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        bits[i] = load(from, i, f);
        uint64_t above = (bits[i] & most) - range.lowest;
        bool outside = above >= range.end - range.lowest;
        unusual |= (uint64_t)outside & (uint64_t)((bits[i] & most) != 0);
    }
    if (unusual != 0) {
        return false;
    }
    for (size_t i = 0; i < BLOCK; i++) {
        uint64_t magnitude = bits[i] & most;
        uint64_t sign = bits[i] >> sign_shift(f) << sign_shift(t);
        uint64_t half = drop > 0 ? ((uint64_t)1 << (drop - 1)) - 1 + (magnitude >> drop & 1) : 0;
        uint64_t moved = shifted(magnitude + half, -drop) + rebias(f, t);
        store(to, i, t, (magnitude != 0 ? moved : 0) | sign);
    }
    return true;
}

/* Inlined into one function per pair, so that the formats are constants there. */
ALWAYS_INLINE uint64_t cast_all(uint8_t *to, const uint8_t *from, size_t count, float_format f,
                                float_format t) {
    uint64_t overflows = 0;
    for (size_t at = 0; at < count; at += BLOCK) {
        const uint8_t *block = from + at * (size_t)f.bytes;
        uint8_t *target = to + at * (size_t)t.bytes;
        size_t n = count - at < BLOCK ? count - at : BLOCK;
        if (n == BLOCK && (f.bytes == 8 || t.bytes == 8 ? plain_block_64(target, block, f, t)
                                                        : plain_block_32(target, block, f, t))) {
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            store(target, i, t, convert(load(block, i, f), f, t, &overflows));
        }
    }
    return overflows;
}

/* ---- the pairs ------------------------------------------------------------------------------ */

typedef uint64_t cast_function(uint8_t *to, const uint8_t *from, size_t count);

#define CAST_PAIR(from_name, to_name)                                                              \
    static uint64_t cast_##from_name##_##to_name(uint8_t *to, const uint8_t *from, size_t count) { \
        return cast_all(to, from, count, FORMAT_##from_name, FORMAT_##to_name);                    \
    }
CAST_PAIR(F64, F32)
CAST_PAIR(F64, F16)
CAST_PAIR(F64, BF16)
CAST_PAIR(F32, F64)
CAST_PAIR(F32, F16)
CAST_PAIR(F32, BF16)
CAST_PAIR(F16, F64)
CAST_PAIR(F16, F32)
CAST_PAIR(F16, BF16)
CAST_PAIR(BF16, F64)
CAST_PAIR(BF16, F32)
CAST_PAIR(BF16, F16)

static cast_function *const pairs[PAWL_F64 + 1][PAWL_F64 + 1] = {
    [PAWL_F64] =
        {[PAWL_F32] = cast_F64_F32, [PAWL_F16] = cast_F64_F16, [PAWL_BF16] = cast_F64_BF16},
    [PAWL_F32] =
        {[PAWL_F64] = cast_F32_F64, [PAWL_F16] = cast_F32_F16, [PAWL_BF16] = cast_F32_BF16},
    [PAWL_F16] =
        {[PAWL_F64] = cast_F16_F64, [PAWL_F32] = cast_F16_F32, [PAWL_BF16] = cast_F16_BF16},
    [PAWL_BF16] =
        {[PAWL_F64] = cast_BF16_F64, [PAWL_F32] = cast_BF16_F32, [PAWL_F16] = cast_BF16_F16},
};

uint64_t cast_elements(pawl_dtype to_dtype, void *to, pawl_dtype from_dtype, const void *from,
                       size_t count) {
    if (count == 0) {
        return 0;
    }
    if (to_dtype == from_dtype) {
        memcpy(to, from, count * (size_t)pawl_dtype_bits(to_dtype) / 8);
        return 0;
    }
    return pairs[from_dtype][to_dtype](to, from, count);
}

static const char *shown_name(pawl_dtype dtype) {
    const char *name = pawl_dtype_name(dtype);
    return name != NULL ? name : "an unknown dtype";
}

pawl_status pawl_cast(pawl_dtype to_dtype, void *to, pawl_dtype from_dtype, const void *from,
                      size_t count, uint64_t *overflows, pawl_error *err) {
    struct pawl_error unwanted = ERROR_INIT;
    err = err != NULL ? err : &unwanted;
    if (!dtype_castable(to_dtype) || !dtype_castable(from_dtype)) {
        error_set(err, PAWL_EUSAGE, "cannot cast %s to %s", shown_name(from_dtype),
                  shown_name(to_dtype));
        error_expected(err, "two of F64, F32, F16 and BF16");
        return PAWL_EUSAGE;
    }
    if (count > 0 && (to == NULL || from == NULL)) {
        return error_set(err, PAWL_EUSAGE, "cannot cast: a null pointer for %zu elements", count);
    }
    uint64_t counted = cast_elements(to_dtype, to, from_dtype, from, count);
    if (overflows != NULL) {
        *overflows = counted;
    }
    return PAWL_OK;
}
