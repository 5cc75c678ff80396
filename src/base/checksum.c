/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums by ISA-L. Its function for CRC32C takes an int length and leaves initial and final xor
 * to us. */
#include "base/checksum.h"

#include <isa-l/crc.h>
#include <string.h>

#define CRC_CALL_BYTES   ((size_t)1 << 30)
#define COPY_CHUNK_BYTES ((size_t)8 * 1024) /* twice this stays in the first-level cache */
#define MASK_DELTA       0xa282ead8U

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

uint32_t crc32c_mask(uint32_t crc) {
    return (crc >> 15 | crc << 17) + MASK_DELTA;
}

uint32_t crc32c_unmask(uint32_t masked) {
    uint32_t rotated = masked - MASK_DELTA;
    return rotated << 15 | rotated >> 17;
}
