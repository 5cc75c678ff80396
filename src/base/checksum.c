/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums by ISA-L. Its function for CRC32C takes an int length and leaves initial and final xor
 * to us. */
#include "base/checksum.h"

#include <isa-l/crc.h>
#include <string.h>

#define CRC_CALL_BYTES   ((size_t)1 << 30)
#define COPY_CHUNK_BYTES ((size_t)8 * 1024) /* twice this stays in the first-level cache */
#define MASK_DELTA       0xa282ead8U
#define POLY_CASTAGNOLI  0x82f63b78U /* reflected */
#define POLY_IEEE        0xedb88320U
#define X_TO_0           0x80000000U
#define X_TO_8           0x00800000U

uint32_t crc32c(uint32_t crc, const void *data, size_t n) {
    const uint8_t *at = data;
    crc = ~crc;
    while (n > 0) {
        size_t now = n < CRC_CALL_BYTES ? n : CRC_CALL_BYTES;
        crc = crc32_iscsi((unsigned char *)at, (int)now, crc);
        at += now;
        n -= now;
    }
    return ~crc;
}

uint32_t crc32_zip(uint32_t crc, const void *data, size_t n) {
    return crc32_gzip_refl(crc, data, n);
}

static size_t copy_streamed(uint32_t *crc, uint8_t *to, const uint8_t *from, size_t n) {
    size_t done = 0;
    uint32_t value = ~*crc;
    if (n < CHECKSUM_STREAM_BYTES || !checksum_streams()) {
        return 0;
    }
    for (; n - done >= CHECKSUM_STREAM_BYTES; done += CHECKSUM_STREAM_BYTES) {
        value = checksum_stream(value, to + done, from + done);
    }
    mem_copies_end();
    *crc = ~value;
    return done;
}

uint32_t crc32c_copy(uint32_t crc, void *to, const void *from, size_t n) {
    size_t streamed = copy_streamed(&crc, to, from, n);
    uint8_t *target = (uint8_t *)to + streamed;
    const uint8_t *source = (const uint8_t *)from + streamed;
    n -= streamed;
    while (n > 0) {
        size_t now = n < COPY_CHUNK_BYTES ? n : COPY_CHUNK_BYTES;
        memcpy(target, source, now);
        /* Of the copy: it is what will be written, whatever happens to the source meanwhile. */
        crc = crc32c(crc, target, now);
        target += now;
        source += now;
        n -= now;
    }
    return crc;
}

/* ---- joining -------------------------------------------------------------------------------- */

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

uint32_t crc32c_mask(uint32_t crc) {
    return (crc >> 15 | crc << 17) + MASK_DELTA;
}

uint32_t crc32c_unmask(uint32_t masked) {
    uint32_t rotated = masked - MASK_DELTA;
    return rotated << 15 | rotated >> 17;
}
