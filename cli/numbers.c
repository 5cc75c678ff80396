/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as numbers and as text. */
#include "numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST_DIGITS = 6, F32_DIGITS = 9, SMALL_FLOAT_DIGITS = 5 };

/* `single`: the text need only read back as the same float. */
static const char *shortest_text(char out[NUMBER_SIZE], double value, int digits, bool single) {
    if (!isfinite(value)) {
        snprintf(out, NUMBER_SIZE, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return out;
    }
    for (int d = digits < FEWEST_DIGITS ? digits : FEWEST_DIGITS; d <= digits; d++) {
        snprintf(out, NUMBER_SIZE, "%.*g", d, value);
        if ((single ? (double)strtof(out, NULL) : strtod(out, NULL)) == value) {
            break;
        }
    }
    return out;
}

const char *number_text(char out[NUMBER_SIZE], double value, int digits) {
    return shortest_text(out, value, digits, false);
}

static const char *float_text(char out[NUMBER_SIZE], float value, int digits) {
    return shortest_text(out, (double)value, digits, true);
}

bool numbers_known(pawl_dtype dtype) {
    return pawl_dtype_bits(dtype) >= 8;
}

size_t numbers_size(pawl_dtype dtype) {
    return (size_t)pawl_dtype_bits(dtype) / 8;
}

static bool is_float(pawl_dtype dtype) {
    switch (dtype) {
    case PAWL_BOOL:
    case PAWL_U8:
    case PAWL_I8:
    case PAWL_U16:
    case PAWL_I16:
    case PAWL_U32:
    case PAWL_I32:
    case PAWL_U64:
    case PAWL_I64:
        return false;
    default:
        return true;
    }
}

int numbers_digits(pawl_dtype dtype) {
    switch (dtype) {
    case PAWL_F32:
    case PAWL_C64:
        return F32_DIGITS;
    default:
        return is_float(dtype) && dtype != PAWL_F64 ? SMALL_FLOAT_DIGITS : EXACT_DIGITS;
    }
}

static void complex_text(char out[NUMBER_SIZE], const void *from, int digits) {
    float parts[2];
    char real[NUMBER_SIZE];
    char imaginary[NUMBER_SIZE];
    memcpy(parts, from, sizeof parts);
    float_text(real, parts[0], digits);
    float_text(imaginary, parts[1], digits);
    snprintf(out, NUMBER_SIZE, "%.24s%s%.24sj", real, *imaginary == '-' ? "" : "+", imaginary);
}

const char *numbers_element(char out[NUMBER_SIZE], pawl_dtype dtype, const void *from, int digits) {
    int most = digits > 0 ? digits : numbers_digits(dtype);
    int64_t i64 = 0;
    uint64_t u64 = 0;
    double value = 0;
    float f32 = 0;
    switch (dtype) {
    case PAWL_BOOL:
        snprintf(out, NUMBER_SIZE, "%s", *(const unsigned char *)from != 0 ? "true" : "false");
        break;
    case PAWL_I64:
        memcpy(&i64, from, sizeof i64);
        snprintf(out, NUMBER_SIZE, "%" PRId64, i64);
        break;
    case PAWL_U64:
        memcpy(&u64, from, sizeof u64);
        snprintf(out, NUMBER_SIZE, "%" PRIu64, u64);
        break;
    case PAWL_C64:
        complex_text(out, from, most);
        break;
    case PAWL_F32:
        memcpy(&f32, from, sizeof f32);
        float_text(out, f32, most);
        break;
    default:
        numbers_widen(dtype, from, &value, 1);
        number_text(out, value, is_float(dtype) ? most : EXACT_DIGITS);
    }
    return out;
}

/* As hypot; squares of floats are far from what a double cannot hold. */
static double magnitude(double real, double imaginary) {
    return isinf(real) || isinf(imaginary) ? INFINITY : sqrt(real * real + imaginary * imaginary);
}

void numbers_widen(pawl_dtype dtype, const void *from, double *to, size_t count) {
    if (dtype == PAWL_C64) {
        for (size_t i = 0; i < count; i++) {
            float parts[2];
            memcpy(parts, (const char *)from + i * sizeof parts, sizeof parts);
            to[i] = magnitude((double)parts[0], (double)parts[1]);
        }
        return;
    }
    if (pawl_to_double(dtype, from, to, count, NULL) != PAWL_OK) {
        for (size_t i = 0; i < count; i++) {
            to[i] = NAN;
        }
    }
}

bool numbers_wide(pawl_dtype dtype) {
    return dtype == PAWL_I64 || dtype == PAWL_U64;
}

bool numbers_below(pawl_dtype dtype, const void *a, const void *b) {
    uint64_t x = 0;
    uint64_t y = 0;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return dtype == PAWL_I64 ? (int64_t)x < (int64_t)y : x < y;
}
