/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_to_double: converts every real type of whole bytes, so that numbers can be shown and
 * compared. */
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

/* An 8-bit float that has no infinities, or counts its NaNs in another way than IEEE 754. */
typedef struct small_float {
    int mantissa_bits, bias;
    uint8_t nan; /* the bits of NaN; those without the sign where `signed_nan` */
    bool signed_nan;
} small_float;

static const small_float e4m3fn = {.mantissa_bits = 3, .bias = 7, .nan = 0x7f, .signed_nan = true};
static const small_float e4m3fnuz = {.mantissa_bits = 3, .bias = 8, .nan = 0x80};
static const small_float e5m2fnuz = {.mantissa_bits = 2, .bias = 16, .nan = 0x80};

static double widen_small(uint8_t bits, const small_float *f) {
    unsigned magnitude = bits & 0x7fU;
    double sign = bits >= 0x80 ? -1.0 : 1.0;
    if (bits == f->nan || (f->signed_nan && magnitude == f->nan)) {
        return f->signed_nan ? copysign(NAN, sign) : NAN;
    }
    unsigned step = 1U << f->mantissa_bits;
    unsigned exponent = magnitude / step;
    unsigned mantissa = magnitude % step;
    if (exponent == 0) {
        return sign * ldexp(mantissa, 1 - f->bias - f->mantissa_bits);
    }
    return sign * ldexp(step + mantissa, (int)exponent - f->bias - f->mantissa_bits);
}

/* It is the upper half of an F16. */
static double widen_e5m2(uint8_t bits) {
    uint16_t half = (uint16_t)(bits << 8);
    double value;
    cast_elements(PAWL_F64, &value, PAWL_F16, &half, 1);
    return value;
}

/* A power of two and no sign: scales of blocks. */
static double widen_e8m0(uint8_t bits) {
    return bits == 0xff ? NAN : ldexp(1.0, bits - 127);
}

static double widen_byte(pawl_dtype dtype, uint8_t bits) {
    switch (dtype) {
    case PAWL_BOOL:
        return bits != 0 ? 1.0 : 0.0;
    case PAWL_I8:
        return (double)(int8_t)bits;
    case PAWL_F8_E5M2:
        return widen_e5m2(bits);
    case PAWL_F8_E4M3:
        return widen_small(bits, &e4m3fn);
    case PAWL_F8_E8M0:
        return widen_e8m0(bits);
    case PAWL_F8_E4M3FNUZ:
        return widen_small(bits, &e4m3fnuz);
    case PAWL_F8_E5M2FNUZ:
        return widen_small(bits, &e5m2fnuz);
    default:
        return (double)bits;
    }
}

static void widen_bytes(pawl_dtype dtype, const uint8_t *from, double *to, size_t count) {
    double table[256];
    for (unsigned bits = 0; bits < 256; bits++) {
        table[bits] = widen_byte(dtype, (uint8_t)bits);
    }
    for (size_t i = 0; i < count; i++) {
        to[i] = table[from[i]];
    }
}

static double widen_integer(pawl_dtype dtype, uint64_t bits) {
    switch (dtype) {
    case PAWL_I16:
        return (double)(int16_t)bits;
    case PAWL_I32:
        return (double)(int32_t)bits;
    case PAWL_I64:
        return (double)(int64_t)bits;
    default:
        return (double)bits;
    }
}

static void widen_integers(pawl_dtype dtype, const uint8_t *from, double *to, size_t count) {
    size_t item = (size_t)pawl_dtype_bits(dtype) / 8;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = 0;
        memcpy(&bits, from + i * item, item);
        to[i] = widen_integer(dtype, bits);
    }
}

pawl_status pawl_to_double(pawl_dtype dtype, const void *from, double *to, size_t count,
                           pawl_error *err) {
    struct pawl_error unwanted = ERROR_INIT;
    err = err != NULL ? err : &unwanted;
    if (!dtype_valid(dtype)) {
        return error_set(err, PAWL_EUSAGE, "cannot widen to double: %d is no dtype", (int)dtype);
    }
    if (pawl_dtype_bits(dtype) < 8 || dtype == PAWL_C64) {
        error_set(err, PAWL_EUNSUPPORTED, "cannot widen %s to double", pawl_dtype_name(dtype));
        error_expected(err, "a real type of 8 bits or more");
        return PAWL_EUNSUPPORTED;
    }
    if (count > 0 && (to == NULL || from == NULL)) {
        return error_set(err, PAWL_EUSAGE, "cannot widen: a null pointer for %zu elements", count);
    }
    if (dtype_castable(dtype)) {
        cast_elements(PAWL_F64, to, dtype, from, count);
    } else if (pawl_dtype_bits(dtype) == 8) {
        widen_bytes(dtype, from, to, count);
    } else {
        widen_integers(dtype, from, to, count);
    }
    return PAWL_OK;
}
