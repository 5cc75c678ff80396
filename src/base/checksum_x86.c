/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy and checksum in one pass on x86-64. Each word is loaded once, goes into the CRC (SSE 4.2's
 * instruction) and to memory by a store that does not fetch the line it overwrites. A copy by
 * ordinary stores moves half as much again over the memory bus, which is what limits a fence.
 *
 * The instruction takes three cycles and can begin every cycle, so four lanes are summed side by
 * side and joined at the end. CRC being linear, what n zero bytes do to a register is the XOR of
 * what they do to each of its bits.
 */
#if defined(__x86_64__)
#include "base/checksum.h"

#include <nmmintrin.h>
#include <string.h>

#define LANE_BYTES (CHECKSUM_STREAM_BYTES / 4)
#define LINE_BYTES 64

/* What LANE_BYTES zero bytes make of a register with one bit set, from the lowest on. */
static const uint32_t past_lane[32] = {
    0xc2a5b65e, 0x80a71a4d, 0x04a2426b, 0x094484d6, 0x128909ac, 0x25121358, 0x4a2426b0, 0x94484d60,
    0x2d7cec31, 0x5af9d862, 0xb5f3b0c4, 0x6e0b1779, 0xdc162ef2, 0xbdc02b15, 0x7e6c20db, 0xfcd841b6,
    0xfc5cf59d, 0xfd559dcb, 0xff474d67, 0xfb62ec3f, 0xf329ae8f, 0xe3bf2bef, 0xc292212f, 0x80c834af,
    0x047c1faf, 0x08f83f5e, 0x11f07ebc, 0x23e0fd78, 0x47c1faf0, 0x8f83f5e0, 0x1aeb9d31, 0x35d73a62,
};

static uint32_t shift_past_lane(uint64_t crc) {
    uint32_t shifted = 0;
    for (int i = 0; i < 32; i++) {
        shifted ^= past_lane[i] & (0 - (uint32_t)(crc >> i & 1));
    }
    return shifted;
}

__attribute__((target("sse4.2"))) static inline uint64_t stream_line(uint64_t crc, uint8_t *to,
                                                                     const uint8_t *from) {
    for (size_t i = 0; i < LINE_BYTES; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, from + i, sizeof(word));
        crc = _mm_crc32_u64(crc, word);
        _mm_stream_si64((long long *)(to + i), (long long)word);
    }
    return crc;
}

bool checksum_streams(void) {
    return __builtin_cpu_supports("sse4.2");
}

/* The lanes are too short for the processor's own prefetching, so the next stretch is prefetched
 * here. After the last one that is beyond `from`: a prefetch never faults. */
__attribute__((target("sse4.2"))) uint32_t checksum_stream(uint32_t crc, void *to,
                                                           const void *from) {
    uint8_t *target = to;
    const uint8_t *source = from;
    uint64_t lanes[4] = {crc, 0, 0, 0};
    for (size_t at = 0; at < LANE_BYTES; at += LINE_BYTES) {
        for (size_t lane = 0; lane < 4; lane++) {
            size_t place = lane * LANE_BYTES + at;
            _mm_prefetch((const char *)source + CHECKSUM_STREAM_BYTES + place, _MM_HINT_T0);
            lanes[lane] = stream_line(lanes[lane], target + place, source + place);
        }
    }
    uint32_t joined = shift_past_lane(lanes[0]);
    joined = shift_past_lane(joined ^ lanes[1]);
    joined = shift_past_lane(joined ^ lanes[2]);
    return joined ^ (uint32_t)lanes[3];
}
#endif
