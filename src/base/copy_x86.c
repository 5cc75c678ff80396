/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies past the caches on x86-64: stores that do not fetch the lines they overwrite. A copy by
 * ordinary stores moves half as much again over the memory bus, and drops from the caches what is
 * in them. Below LEAST_BYTES it is as fast, and leaves the copy where it is used next.
 */
#if defined(__x86_64__)
#include "base/base.h"

#include <emmintrin.h>
#include <string.h>

#define LEAST_BYTES ((size_t)2 << 10)
#define LINE_BYTES  ((size_t)64)

static void copy_line(uint8_t *to, const uint8_t *from) {
    for (size_t i = 0; i < LINE_BYTES; i += sizeof(__m128i)) {
        _mm_stream_si128((__m128i *)(to + i), _mm_loadu_si128((const __m128i *)(from + i)));
    }
}

void mem_copy_past_caches(void *to, const void *from, size_t n) {
    uint8_t *target = to;
    const uint8_t *source = from;
    if (n < LEAST_BYTES) {
        memcpy(to, from, n);
        return;
    }
    size_t at = (0 - (uintptr_t)to) % LINE_BYTES;
    memcpy(target, source, at);
    for (; n - at >= LINE_BYTES; at += LINE_BYTES) {
        copy_line(target + at, source + at);
    }
    memcpy(target + at, source + at, n - at);
}

void mem_copies_end(void) {
    _mm_sfence();
}
#endif
