/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Casts against a model that knows no bits: the sorted list of all values that the target has, and
 * a search for the nearest. Every value goes alone and as a whole block, because blocks of plain
 * values take another way through the code.
 */
#include "lib/random.h"
#include "lib/test.h"
#include "tensor/tensor.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

#define COPIES 130 /* two blocks and a rest */

/* ---- the model ------------------------------------------------------------------------------ */

typedef struct small_format {
    pawl_dtype dtype;
    int mantissa_bits, bias;
} small_format;

static const small_format f16 = {PAWL_F16, 10, 15};
static const small_format bf16 = {PAWL_BF16, 7, 127};

static double decode(uint16_t bits, const small_format *f) {
    int steps = 1 << f->mantissa_bits;
    int magnitude = bits & 0x7fff;
    int exponent = magnitude / steps;
    int mantissa = magnitude % steps;
    double sign = bits & 0x8000 ? -1.0 : 1.0;
    if (exponent == 2 * f->bias + 1) {
        return sign * (mantissa == 0 ? INFINITY : NAN);
    }
    if (exponent == 0) {
        return sign * ldexp(mantissa, 1 - f->bias - f->mantissa_bits);
    }
    return sign * ldexp(steps + mantissa, exponent - f->bias - f->mantissa_bits);
}

static uint16_t infinity_bits(const small_format *f) {
    return (uint16_t)((2 * f->bias + 1) << f->mantissa_bits);
}

/* As decode, but infinity is the power of two that would follow the largest value. */
static double value_at(uint16_t magnitude, const small_format *f) {
    return magnitude == infinity_bits(f) ? ldexp(1.0, f->bias + 1) : decode(magnitude, f);
}

/* To nearest, ties to the even number in the list. The middle of neighbours is exact in double. */
static uint16_t nearest(double x, const small_format *f) {
    double magnitude = fabs(x);
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    uint16_t low = 0;
    uint16_t high = infinity_bits(f);
    if (magnitude >= value_at(high, f)) {
        return high | sign;
    }
    while (high - low > 1) {
        uint16_t middle = (uint16_t)((low + high) / 2);
        if (value_at(middle, f) <= magnitude) {
            low = middle;
        } else {
            high = middle;
        }
    }
    double tie = value_at(low, f) / 2 + value_at(high, f) / 2;
    bool up = magnitude > tie || (magnitude == tie && low % 2 == 1);
    return (up ? high : low) | sign;
}

/* ---- checks --------------------------------------------------------------------------------- */

static uint64_t cast_one(pawl_dtype to_dtype, void *to, pawl_dtype from_dtype, const void *from) {
    struct pawl_error err = ERROR_INIT;
    uint64_t overflows = 99;
    assert_ok(pawl_cast(to_dtype, to, from_dtype, from, 1, &overflows, &err), &err);
    return overflows;
}

/* Alone, and as COPIES copies. Returns the overflows of one. */
static uint64_t cast_both_ways(pawl_dtype to_dtype, void *to, pawl_dtype from_dtype,
                               const void *from) {
    size_t to_item = (size_t)pawl_dtype_bits(to_dtype) / 8;
    size_t from_item = (size_t)pawl_dtype_bits(from_dtype) / 8;
    uint8_t sources[COPIES * 8];
    uint8_t targets[COPIES * 8];
    for (size_t i = 0; i < COPIES; i++) {
        memcpy(sources + i * from_item, from, from_item);
    }
    uint64_t overflows = cast_one(to_dtype, to, from_dtype, from);
    assert_int_equal(cast_elements(to_dtype, targets, from_dtype, sources, COPIES),
                     COPIES * overflows);
    for (size_t i = 0; i < COPIES; i++) {
        assert_memory_equal(targets + i * to_item, to, to_item);
    }
    return overflows;
}

static void check_nearest(pawl_dtype from_dtype, const void *from, double x,
                          const small_format *f) {
    uint16_t got = 99;
    uint16_t wanted = nearest(x, f);
    uint64_t overflows = cast_both_ways(f->dtype, &got, from_dtype, from);
    bool overflow = isfinite(x) && (wanted & 0x7fff) == infinity_bits(f);
    if (got != wanted || overflows != (overflow ? 1U : 0U)) {
        fail_msg("%a is 0x%04x, not 0x%04x; %d overflows", x, wanted, got, (int)overflows);
    }
}

static void check_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof(x));
    check_nearest(PAWL_F32, &x, x, &f16);
    check_nearest(PAWL_F32, &x, x, &bf16);
}

static void check_double(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof(x));
    check_nearest(PAWL_F64, &x, x, &f16);
    check_nearest(PAWL_F64, &x, x, &bf16);
    float got;
    float wanted = (float)x;
    uint64_t overflows = cast_both_ways(PAWL_F32, &got, PAWL_F64, &x);
    assert_memory_equal(&got, &wanted, sizeof(got));
    assert_int_equal(overflows, isfinite(x) && isinf(wanted));
}

/* ---- up and back ---------------------------------------------------------------------------- */

static void check_up_and_back(const small_format *f) {
    uint16_t quiet = (uint16_t)(1 << (f->mantissa_bits - 1));
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t bits = (uint16_t)i;
        double wanted = decode(bits, f);
        uint16_t wanted_back = isnan(wanted) ? bits | quiet : bits;
        float single;
        double wide;
        uint16_t back = 0;
        assert_int_equal(cast_both_ways(PAWL_F32, &single, f->dtype, &bits), 0);
        assert_int_equal(cast_both_ways(PAWL_F64, &wide, f->dtype, &bits), 0);
        assert_true(isnan(wanted) ? isnan(single) && isnan(wide)
                                  : single == wanted && wide == wanted);
        assert_int_equal(signbit(wide) != 0, bits >> 15);
        assert_int_equal(cast_both_ways(f->dtype, &back, PAWL_F32, &single), 0);
        assert_int_equal(back, wanted_back);
        assert_int_equal(cast_both_ways(f->dtype, &back, PAWL_F64, &wide), 0);
        assert_int_equal(back, wanted_back);
    }
}

static void test_every_f16_goes_up_exactly_and_comes_back(void **state) {
    (void)state;
    check_up_and_back(&f16);
}

static void test_every_bf16_goes_up_exactly_and_comes_back(void **state) {
    (void)state;
    check_up_and_back(&bf16);
}

static void test_every_f16_and_bf16_is_rounded_to_the_other(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t bits = (uint16_t)i;
        double of_f16 = decode(bits, &f16);
        double of_bf16 = decode(bits, &bf16);
        if (!isnan(of_f16)) {
            check_nearest(PAWL_F16, &bits, of_f16, &bf16);
        }
        if (!isnan(of_bf16)) {
            check_nearest(PAWL_BF16, &bits, of_bf16, &f16);
        }
    }
}

static void test_floats_go_up_to_double_as_the_machine_says(void **state) {
    (void)state;
    test_random r = {50};
    for (int i = 0; i < 100000; i++) {
        uint32_t bits = (uint32_t)random_next(&r);
        bits = i % 10 == 0 ? bits & 0x807fffff : bits; /* subnormals */
        float x;
        memcpy(&x, &bits, sizeof(x));
        double got;
        double wanted = (double)x;
        float back;
        cast_one(PAWL_F64, &got, PAWL_F32, &x);
        assert_memory_equal(&got, &wanted, sizeof(got));
        if (!isnan(x)) {
            cast_one(PAWL_F32, &back, PAWL_F64, &got);
            assert_memory_equal(&back, &x, sizeof(x));
        }
    }
}

/* ---- rounding ------------------------------------------------------------------------------- */

static void test_floats_of_every_exponent_are_rounded_to_nearest_even(void **state) {
    (void)state;
    test_random r = {51};
    for (uint32_t exponent = 0; exponent < 256; exponent++) {
        for (int cut = 0; cut < 24; cut++) {
            uint32_t keep = (uint32_t)random_next(&r) & 0x007fffff;
            uint32_t tie = ((keep >> cut) << cut) | (cut > 0 ? 1U << (cut - 1) : 0);
            for (int32_t near = -1; near <= 1; near++) {
                uint32_t mantissa = (tie + (uint32_t)near) & 0x007fffff;
                mantissa = exponent == 255 ? 0 : mantissa;
                check_float(exponent << 23 | mantissa);
                check_float(0x80000000U | exponent << 23 | mantissa);
            }
        }
    }
}

static void test_doubles_of_every_exponent_are_rounded_to_nearest_even(void **state) {
    (void)state;
    test_random r = {52};
    const uint64_t mask = ((uint64_t)1 << 52) - 1;
    for (uint64_t exponent = 0; exponent < 2048; exponent++) {
        bool far = exponent < 1023 - 160 || exponent > 1023 + 130;
        for (int cut = 0; cut < 53; cut += far ? 26 : 1) {
            uint64_t keep = random_next(&r) & mask;
            uint64_t tie = ((keep >> cut) << cut) | (cut > 0 ? (uint64_t)1 << (cut - 1) : 0);
            for (int64_t near = -1; near <= 1; near++) {
                uint64_t mantissa = (tie + (uint64_t)near) & mask;
                mantissa = exponent == 2047 ? 0 : mantissa;
                check_double((random_next(&r) & 1) << 63 | exponent << 52 | mantissa);
            }
        }
    }
}

static void test_doubles_are_not_rounded_by_way_of_float(void **state) {
    (void)state;
    /* As floats they would lie on a tie, and the tie would go the wrong way. */
    static const struct {
        double x;
        uint16_t as_f16, as_bf16;
    } traps[] = {
        {1.0 + 0x1p-11 + 0x1p-40, 0x3c01, 0x3f80},
        {1.0 + 0x1p-10 + 0x1p-11 - 0x1p-40, 0x3c01, 0x3f80},
        {-(1.0 + 0x1p-11 + 0x1p-52), 0xbc01, 0xbf80},
        {1.0 + 0x1p-8 + 0x1p-40, 0x3c04, 0x3f81},
        {1.0 + 0x1p-7 + 0x1p-8 - 0x1p-40, 0x3c0c, 0x3f81},
        {0x1p-25 + 0x1p-60, 0x0001, 0x3300},
        {0x1p-24 + 0x1p-25 - 0x1p-70, 0x0001, 0x33c0},
        {0x1p-134 + 0x1p-170, 0x0000, 0x0001},
        {65520.0 - 0x1p-30, 0x7bff, 0x4780},
        {0x1.ffp127 - 0x1p90, 0x7c00, 0x7f7f},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(traps); i++) {
        uint16_t got;
        cast_both_ways(PAWL_F16, &got, PAWL_F64, &traps[i].x);
        assert_int_equal(got, traps[i].as_f16);
        cast_both_ways(PAWL_BF16, &got, PAWL_F64, &traps[i].x);
        assert_int_equal(got, traps[i].as_bf16);
    }
}

static void test_rounding_mode_of_the_trainer_changes_nothing(void **state) {
    (void)state;
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    for (size_t i = 0; i < ARRAY_LENGTH(modes); i++) {
        volatile double third = 1.0 / 3.0;
        double x = third;
        float single;
        uint16_t half;
        fesetround(modes[i]);
        cast_both_ways(PAWL_F32, &single, PAWL_F64, &x);
        cast_both_ways(PAWL_F16, &half, PAWL_F64, &x);
        fesetround(FE_TONEAREST);
        assert_true(single == 0x1.555556p-2F);
        assert_int_equal(half, 0x3555);
    }
}

/* ---- overflow and NaN ----------------------------------------------------------------------- */

static void test_overflows_are_counted_and_infinities_are_not(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    float from[200];
    uint16_t to[200];
    uint64_t overflows = 0;
    for (size_t i = 0; i < 200; i++) {
        from[i] = i % 4 == 0 ? 65520.0F : i % 4 == 1 ? -1e30F : i % 4 == 2 ? -INFINITY : 65519.0F;
    }
    assert_ok(pawl_cast(PAWL_F16, to, PAWL_F32, from, 200, &overflows, &err), &err);
    assert_int_equal(overflows, 100);
    for (size_t i = 0; i < 200; i++) {
        static const uint16_t wanted[] = {0x7c00, 0xfc00, 0xfc00, 0x7bff};
        assert_int_equal(to[i], wanted[i % 4]);
    }
}

static void test_largest_of_each_type_overflow_only_beyond_half_a_step(void **state) {
    (void)state;
    double largest = 0x1.fffffep127;
    double over = 0x1.ffffffp127;
    float single;
    assert_int_equal(cast_both_ways(PAWL_F32, &single, PAWL_F64, &largest), 0);
    assert_true(single == 0x1.fffffep127F);
    assert_int_equal(cast_both_ways(PAWL_F32, &single, PAWL_F64, &over), 1);
    assert_true(isinf(single));
    over = nextafter(over, 0);
    assert_int_equal(cast_both_ways(PAWL_F32, &single, PAWL_F64, &over), 0);
    assert_true(single == 0x1.fffffep127F);
}

static void test_threshold_of_overflow_is_exact_for_the_small_types(void **state) {
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        float of_f16 = 65520.0F * (float)sign;
        float of_bf16 = 0x1.ffp127F * (float)sign;
        double thresholds[] = {(double)of_f16, (double)of_bf16};
        check_nearest(PAWL_F32, &of_f16, thresholds[0], &f16);
        check_nearest(PAWL_F32, &of_bf16, thresholds[1], &bf16);
        of_f16 = nextafterf(of_f16, 0);
        of_bf16 = nextafterf(of_bf16, 0);
        check_nearest(PAWL_F32, &of_f16, (double)of_f16, &f16);
        check_nearest(PAWL_F32, &of_bf16, (double)of_bf16, &bf16);
        for (size_t i = 0; i < 2; i++) {
            double below = nextafter(thresholds[i], 0);
            check_nearest(PAWL_F64, &thresholds[i], thresholds[i], i == 0 ? &f16 : &bf16);
            check_nearest(PAWL_F64, &below, below, i == 0 ? &f16 : &bf16);
        }
    }
}

static void test_nan_keeps_sign_and_leading_payload_and_is_quiet(void **state) {
    (void)state;
    static const uint64_t wide[] = {0x7ff8000000000000, 0xfff8000000000000, 0x7ff0000000000001,
                                    0xfff5a5a5a5a5a5a5, 0x7fffffffffffffff};
    static const uint32_t single[] = {0x7fc00000, 0xffc00000, 0x7fc00000, 0xffed2d2d, 0x7fffffff};
    static const uint16_t half[] = {0x7e00, 0xfe00, 0x7e00, 0xff69, 0x7fff};
    static const uint16_t brain[] = {0x7fc0, 0xffc0, 0x7fc0, 0xffed, 0x7fff};
    for (size_t i = 0; i < ARRAY_LENGTH(wide); i++) {
        uint32_t as_single;
        uint16_t as_half;
        assert_int_equal(cast_both_ways(PAWL_F32, &as_single, PAWL_F64, &wide[i]), 0);
        assert_int_equal(as_single, single[i]);
        assert_int_equal(cast_both_ways(PAWL_F16, &as_half, PAWL_F64, &wide[i]), 0);
        assert_int_equal(as_half, half[i]);
        assert_int_equal(cast_both_ways(PAWL_BF16, &as_half, PAWL_F64, &wide[i]), 0);
        assert_int_equal(as_half, brain[i]);
        assert_int_equal(cast_both_ways(PAWL_F16, &as_half, PAWL_F32, &single[i]), 0);
        assert_int_equal(as_half, half[i]);
    }
}

static void test_same_type_is_copied_bit_by_bit(void **state) {
    (void)state;
    static const uint32_t signalling[] = {0x7f800001, 0x00000001, 0x80000000};
    uint32_t to[3];
    assert_int_equal(cast_elements(PAWL_F32, to, PAWL_F32, signalling, 3), 0);
    assert_memory_equal(to, signalling, sizeof(to));
}

/* A block of plain values with one of another kind in it, at each place. */
static void test_one_unusual_value_in_a_block_is_seen_wherever_it_is(void **state) {
    (void)state;
    static const float unusual[] = {NAN, INFINITY, 1e30F, 0x1p-20F, 0x1p-140F};
    for (size_t u = 0; u < ARRAY_LENGTH(unusual); u++) {
        for (size_t at = 0; at < 64; at++) {
            float from[64];
            uint16_t to[64];
            for (size_t i = 0; i < 64; i++) {
                from[i] = i == at ? unusual[u] : (float)i;
            }
            cast_elements(PAWL_F16, to, PAWL_F32, from, 64);
            for (size_t i = 0; i < 64; i++) {
                uint16_t wanted = isnan(from[i]) ? 0x7e00 : nearest((double)from[i], &f16);
                assert_int_equal(to[i], wanted);
            }
        }
    }
}

/* ---- arguments ------------------------------------------------------------------------------ */

static void test_other_types_are_refused(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    float from = 1;
    int32_t to = 5;
    assert_fails(pawl_cast(PAWL_I32, &to, PAWL_F32, &from, 1, NULL, &err), PAWL_EUSAGE, &err);
    assert_status_text(&err, PAWL_EUSAGE,
                       "cannot cast F32 to I32\n  expected: two of F64, F32, F16 and BF16");
    assert_fails(pawl_cast(PAWL_F32, &to, (pawl_dtype)99, &from, 1, NULL, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.attempt, "cannot cast an unknown dtype to F32");
    assert_int_equal(to, 5);
    assert_int_equal(pawl_cast(PAWL_I32, &to, PAWL_F32, &from, 1, NULL, NULL), PAWL_EUSAGE);
}

static void test_null_pointers_are_refused_when_there_is_something(void **state) {
    (void)state;
    struct pawl_error err = ERROR_INIT;
    float x = 1;
    uint64_t overflows = 9;
    assert_fails(pawl_cast(PAWL_F16, NULL, PAWL_F32, &x, 3, NULL, &err), PAWL_EUSAGE, &err);
    assert_status_text(&err, PAWL_EUSAGE, "cannot cast: a null pointer for 3 elements");
    assert_fails(pawl_to_double(PAWL_F16, NULL, NULL, 3, &err), PAWL_EUSAGE, &err);
    assert_status_text(&err, PAWL_EUSAGE, "cannot widen: a null pointer for 3 elements");
    assert_ok(pawl_cast(PAWL_F16, NULL, PAWL_F32, NULL, 0, &overflows, &err), &err);
    assert_int_equal(overflows, 0);
    assert_ok(pawl_to_double(PAWL_I8, NULL, NULL, 0, &err), &err);
}

/* ---- pawl_to_double ------------------------------------------------------------------------- */

static double widen(pawl_dtype dtype, uint64_t bits) {
    struct pawl_error err = ERROR_INIT;
    double out = 12345;
    assert_ok(pawl_to_double(dtype, &bits, &out, 1, &err), &err);
    return out;
}

static void test_integers_and_booleans_are_widened(void **state) {
    (void)state;
    assert_true(widen(PAWL_BOOL, 0) == 0 && widen(PAWL_BOOL, 1) == 1 && widen(PAWL_BOOL, 7) == 1);
    assert_true(widen(PAWL_U8, 0xff) == 255 && widen(PAWL_I8, 0x80) == -128);
    assert_true(widen(PAWL_U16, 0xffff) == 65535 && widen(PAWL_I16, 0x8000) == -32768);
    assert_true(widen(PAWL_U32, 0xffffffff) == 4294967295.0);
    assert_true(widen(PAWL_I32, 0x80000000) == -2147483648.0);
    assert_true(widen(PAWL_U64, UINT64_MAX) == 0x1p64);
    assert_true(widen(PAWL_I64, (uint64_t)1 << 63) == -0x1p63);
    assert_true(widen(PAWL_F32, 0x3fc00000) == 1.5 && widen(PAWL_BF16, 0xbfc0) == -1.5);
}

static void test_small_floats_are_widened(void **state) {
    (void)state;
    static const struct {
        pawl_dtype dtype;
        uint8_t bits;
        double value;
    } wanted[] = {
        {PAWL_F8_E4M3, 0x00, 0},        {PAWL_F8_E4M3, 0x01, 0x1p-9},
        {PAWL_F8_E4M3, 0x07, 0x1.cp-7}, {PAWL_F8_E4M3, 0x08, 0x1p-6},
        {PAWL_F8_E4M3, 0x38, 1},        {PAWL_F8_E4M3, 0x7e, 448},
        {PAWL_F8_E4M3, 0xfe, -448},     {PAWL_F8_E5M2, 0x01, 0x1p-16},
        {PAWL_F8_E5M2, 0x3c, 1},        {PAWL_F8_E5M2, 0x7b, 57344},
        {PAWL_F8_E5M2, 0x7c, INFINITY}, {PAWL_F8_E5M2, 0xfc, -INFINITY},
        {PAWL_F8_E8M0, 0x00, 0x1p-127}, {PAWL_F8_E8M0, 0x7f, 1},
        {PAWL_F8_E8M0, 0xfe, 0x1p127},  {PAWL_F8_E4M3FNUZ, 0x01, 0x1p-10},
        {PAWL_F8_E4M3FNUZ, 0x40, 1},    {PAWL_F8_E4M3FNUZ, 0x7f, 240},
        {PAWL_F8_E4M3FNUZ, 0xff, -240}, {PAWL_F8_E5M2FNUZ, 0x01, 0x1p-17},
        {PAWL_F8_E5M2FNUZ, 0x40, 1},    {PAWL_F8_E5M2FNUZ, 0x7f, 57344},
        {PAWL_F8_E5M2FNUZ, 0xc0, -1},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(wanted); i++) {
        double got = widen(wanted[i].dtype, wanted[i].bits);
        if (got != wanted[i].value) {
            fail_msg("%s 0x%02x is %a, not %a", pawl_dtype_name(wanted[i].dtype), wanted[i].bits,
                     wanted[i].value, got);
        }
    }
    assert_true(signbit(widen(PAWL_F8_E4M3, 0x80)) != 0);
}

static void test_nan_of_each_small_float_is_nan(void **state) {
    (void)state;
    static const struct {
        pawl_dtype dtype;
        int nans;
    } wanted[] = {{PAWL_F8_E4M3, 2},
                  {PAWL_F8_E5M2, 6},
                  {PAWL_F8_E8M0, 1},
                  {PAWL_F8_E4M3FNUZ, 1},
                  {PAWL_F8_E5M2FNUZ, 1}};
    for (size_t i = 0; i < ARRAY_LENGTH(wanted); i++) {
        int nans = 0;
        for (unsigned bits = 0; bits < 256; bits++) {
            nans += isnan(widen(wanted[i].dtype, bits)) ? 1 : 0;
        }
        assert_int_equal(nans, wanted[i].nans);
    }
    assert_true(isnan(widen(PAWL_F8_E4M3, 0x7f)) && isnan(widen(PAWL_F8_E4M3, 0xff)));
    assert_true(isnan(widen(PAWL_F8_E8M0, 0xff)));
    assert_true(isnan(widen(PAWL_F8_E4M3FNUZ, 0x80)) && isnan(widen(PAWL_F8_E5M2FNUZ, 0x80)));
}

static void test_packed_and_complex_types_cannot_be_widened(void **state) {
    (void)state;
    static const pawl_dtype dtypes[] = {PAWL_F4, PAWL_F6_E2M3, PAWL_F6_E3M2, PAWL_C64};
    uint64_t bits = 0;
    double out;
    struct pawl_error err = ERROR_INIT;
    for (size_t i = 0; i < ARRAY_LENGTH(dtypes); i++) {
        assert_fails(pawl_to_double(dtypes[i], &bits, &out, 1, &err), PAWL_EUNSUPPORTED, &err);
    }
    assert_status_text(&err, PAWL_EUNSUPPORTED,
                       "cannot widen C64 to double\n  expected: a real type of 8 bits or more");
    assert_fails(pawl_to_double((pawl_dtype)0, &bits, &out, 1, &err), PAWL_EUSAGE, &err);
    assert_status_text(&err, PAWL_EUSAGE, "cannot widen to double: 0 is no dtype");
    assert_int_equal(pawl_to_double(PAWL_F4, &bits, &out, 1, NULL), PAWL_EUNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_f16_goes_up_exactly_and_comes_back),
        cmocka_unit_test(test_every_bf16_goes_up_exactly_and_comes_back),
        cmocka_unit_test(test_every_f16_and_bf16_is_rounded_to_the_other),
        cmocka_unit_test(test_floats_go_up_to_double_as_the_machine_says),
        cmocka_unit_test(test_floats_of_every_exponent_are_rounded_to_nearest_even),
        cmocka_unit_test(test_doubles_of_every_exponent_are_rounded_to_nearest_even),
        cmocka_unit_test(test_doubles_are_not_rounded_by_way_of_float),
        cmocka_unit_test(test_rounding_mode_of_the_trainer_changes_nothing),
        cmocka_unit_test(test_overflows_are_counted_and_infinities_are_not),
        cmocka_unit_test(test_largest_of_each_type_overflow_only_beyond_half_a_step),
        cmocka_unit_test(test_threshold_of_overflow_is_exact_for_the_small_types),
        cmocka_unit_test(test_nan_keeps_sign_and_leading_payload_and_is_quiet),
        cmocka_unit_test(test_same_type_is_copied_bit_by_bit),
        cmocka_unit_test(test_one_unusual_value_in_a_block_is_seen_wherever_it_is),
        cmocka_unit_test(test_other_types_are_refused),
        cmocka_unit_test(test_null_pointers_are_refused_when_there_is_something),
        cmocka_unit_test(test_integers_and_booleans_are_widened),
        cmocka_unit_test(test_small_floats_are_widened),
        cmocka_unit_test(test_nan_of_each_small_float_is_nan),
        cmocka_unit_test(test_packed_and_complex_types_cannot_be_widened),
    };
    return cmocka_run_group_tests_name("tensor cast", tests, NULL, NULL);
}
