/* SPDX-License-Identifier: Apache-2.0 */
#include "base/checksum_join.h"

#define POLY_CASTAGNOLI 0x82f63b78U /* reflected */
#define POLY_IEEE       0xedb88320U
#define X_TO_0          0x80000000U
#define X_TO_8          0x00800000U

/* Polynomials over GF(2) modulo `poly`: the highest bit is x^0. */
static uint32_t multiply(uint32_t poly, uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (uint32_t bit = X_TO_0; bit != 0; bit >>= 1) {
        product ^= (a & bit) != 0 ? b : 0;
        b = (b & 1) != 0 ? b >> 1 ^ poly : b >> 1;
    }
    return product;
}

/* n zero bytes behind multiply by x^(8 n); the sum of what follows is added. */
static uint32_t join(uint32_t poly, uint32_t crc, uint32_t of_more, uint64_t n) {
    uint32_t square = X_TO_8;
    uint32_t power = X_TO_0;
    for (; n > 0; n >>= 1) {
        power = (n & 1) != 0 ? multiply(poly, square, power) : power;
        square = multiply(poly, square, square);
    }
    return multiply(poly, power, crc) ^ of_more;
}

uint32_t crc32c_join(uint32_t crc, uint32_t of_more, uint64_t n) {
    return join(POLY_CASTAGNOLI, crc, of_more, n);
}

uint32_t crc32_zip_join(uint32_t crc, uint32_t of_more, uint64_t n) {
    return join(POLY_IEEE, crc, of_more, n);
}
