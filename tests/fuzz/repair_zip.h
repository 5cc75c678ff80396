/* SPDX-License-Identifier: Apache-2.0 */
/* repair_zip: sizes, checksums, and where the directory is, made to fit what is in a zip. */
#ifndef FUZZ_REPAIR_ZIP_H
#define FUZZ_REPAIR_ZIP_H

#include "fuzz.h"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

static inline uint64_t zip_get(const uint8_t *p, size_t n) {
    uint64_t v = 0;
    while (n-- > 0) {
        v = v << 8 | p[n];
    }
    return v;
}

static inline void zip_put(uint8_t *p, uint64_t v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(v >> 8 * i);
    }
}

/* The first, or the last. */
static inline size_t zip_find_mark(const uint8_t *data, size_t size, const char *mark, bool last) {
    size_t found = size;
    for (size_t i = 0; i + 4 <= size && (last || found == size); i++) {
        found = memcmp(data + i, mark, 4) == 0 ? i : found;
    }
    return found;
}

/* What the packed bytes become. */
static inline bool zip_unpack(const uint8_t *data, size_t n, uint64_t *bytes, uint32_t *crc) {
    static uint8_t out[1 << 16];
    struct inflate_state s;
    isal_inflate_init(&s);
    s.next_in = (uint8_t *)data;
    s.avail_in = (uint32_t)n;
    s.next_out = out;
    s.avail_out = sizeof out;
    if (isal_inflate_stateless(&s) != ISAL_DECOMP_OK) {
        return false;
    }
    *bytes = s.total_out;
    *crc = crc32_gzip_refl(0, out, s.total_out);
    return true;
}

static inline void zip_repair_member(uint8_t *data, size_t size, uint8_t *central) {
    uint64_t at = zip_get(central + 42, 4);
    if (at > size || size - at < 30 || zip_get(data + at, 4) != 0x04034b50) {
        return;
    }
    uint8_t *local = data + at;
    uint64_t offset = at + 30 + zip_get(local + 26, 2) + zip_get(local + 28, 2);
    uint64_t packed = zip_get(central + 20, 4);
    uint64_t bytes = packed;
    uint32_t crc = 0;
    if (offset > size || packed > size - offset) {
        return;
    }
    if (zip_get(central + 10, 2) != 8) {
        crc = crc32_gzip_refl(0, data + offset, packed);
    } else if (!zip_unpack(data + offset, (size_t)packed, &bytes, &crc)) {
        return;
    }
    zip_put(central + 16, crc, 4);
    zip_put(central + 24, bytes, 4);
    if ((zip_get(central + 8, 2) & 8) == 0) {
        zip_put(local + 14, crc, 4);
        zip_put(local + 18, packed, 4);
        zip_put(local + 22, bytes, 4);
    }
}

static inline size_t fuzz_repair_zip(uint8_t *data, size_t size, size_t room) {
    size_t end = zip_find_mark(data, size, "PK\5\6", true);
    size_t directory = zip_find_mark(data, size, "PK\1\2", false);
    (void)room;
    if (size - end < 22 || directory > end) {
        return size;
    }
    size_t behind = zip_find_mark(data, end, "PK\6\6", true);
    size_t count = 0;
    for (size_t at = directory; at + 46 <= behind && zip_get(data + at, 4) == 0x02014b50;
         at += 46 + zip_get(data + at + 28, 2) + zip_get(data + at + 30, 2) +
               zip_get(data + at + 32, 2)) {
        zip_repair_member(data, size, data + at);
        count++;
    }
    zip_put(data + end + 8, count, 2);
    zip_put(data + end + 10, count, 2);
    zip_put(data + end + 12, behind - directory, 4);
    zip_put(data + end + 16, directory, 4);
    zip_put(data + end + 20, size - end - 22, 2);
    if (end - behind == 76) {
        zip_put(data + behind + 24, count, 8);
        zip_put(data + behind + 32, count, 8);
        zip_put(data + behind + 40, behind - directory, 8);
        zip_put(data + behind + 48, directory, 8);
        zip_put(data + behind + 64, behind, 8);
    }
    return size;
}

#endif
