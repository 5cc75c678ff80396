/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a zip file: members of what is understood do not overlap, have names that lead
 * nowhere else, and each is found; their bytes have their checksum, or are refused. */
#include "fuzz.h"

#include "foreign/zip/zip.h"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>

#define MOST_BYTES ((size_t)1 << 20)

static const zip_parts no_parts;

static void check_members(const zip_directory *d, uint64_t size) {
    FUZZ_CHECK(d->at + d->bytes < size);
    for (size_t i = 0; i < d->count; i++) {
        const zip_member *m = &d->members[i];
        FUZZ_CHECK(m->name[0] != '\0' && m->name[0] != '/' && strlen(m->name) == m->name_bytes);
        FUZZ_CHECK(utf8_valid(m->name, m->name_bytes) && strncmp(m->name, "../", 3) != 0);
        FUZZ_CHECK(m->at < m->offset && m->offset + m->packed_bytes <= d->at);
        FUZZ_CHECK(m->deflated || m->bytes == m->packed_bytes);
        FUZZ_CHECK(zip_find(d, m->name) == m);
        FUZZ_CHECK(i == 0 || strcmp(d->by_name[i - 1]->name, d->by_name[i]->name) < 0);
        for (size_t k = 0; k < i && d->count < 100; k++) {
            const zip_member *other = &d->members[k];
            FUZZ_CHECK(other->offset + other->packed_bytes <= m->at ||
                       m->offset + m->packed_bytes <= other->at);
        }
    }
}

static void read_member(const byte_source *source, const zip_member *m) {
    CLEANUP(buffer_free) buffer out = {.data = NULL};
    pawl_error err = ERROR_INIT;
    pawl_status status = zip_read_member(source, m, MOST_BYTES, &out, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(err.entry[0] != '\0' && (status == PAWL_EDAMAGED || m->bytes > MOST_BYTES));
    } else {
        FUZZ_CHECK(out.size == m->bytes);
        FUZZ_CHECK(crc32_gzip_refl(0, out.data, out.size) == m->crc32);
    }
    if (m->bytes <= MOST_BYTES) {
        FUZZ_CHECK(zip_check_member(source, m, &no_parts, NULL, NULL, &err) == status);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CLEANUP(buffer_free) buffer file = fuzz_copy(data, size);
    byte_source source = byte_source_memory(&file);
    pawl_error err = ERROR_INIT;
    zip_directory d;
    pawl_status status = zip_read(&source, &d, &err);
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
        FUZZ_CHECK(err.has_range);
        return 0;
    }
    fuzz_accepted++;
    check_members(&d, size);
    for (size_t i = 0; i < d.count && i < 16; i++) {
        read_member(&source, &d.members[i]);
    }
    zip_free(&d);
    return 0;
}

/* ---- repair: sizes, checksums, and where the directory is ---- */

static uint64_t get(const uint8_t *p, size_t n) {
    uint64_t v = 0;
    while (n-- > 0) {
        v = v << 8 | p[n];
    }
    return v;
}

static void put(uint8_t *p, uint64_t v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)(v >> 8 * i);
    }
}

/* The first, or the last. */
static size_t find(const uint8_t *data, size_t size, const char *mark, bool last) {
    size_t found = size;
    for (size_t i = 0; i + 4 <= size && (last || found == size); i++) {
        found = memcmp(data + i, mark, 4) == 0 ? i : found;
    }
    return found;
}

/* What the packed bytes become. */
static bool unpack(const uint8_t *data, size_t n, uint64_t *bytes, uint32_t *crc) {
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

static void repair_member(uint8_t *data, size_t size, uint8_t *central) {
    uint64_t at = get(central + 42, 4);
    if (at > size || size - at < 30 || get(data + at, 4) != 0x04034b50) {
        return;
    }
    uint8_t *local = data + at;
    uint64_t offset = at + 30 + get(local + 26, 2) + get(local + 28, 2);
    uint64_t packed = get(central + 20, 4);
    uint64_t bytes = packed;
    uint32_t crc = 0;
    if (offset > size || packed > size - offset) {
        return;
    }
    if (get(central + 10, 2) != 8) {
        crc = crc32_gzip_refl(0, data + offset, packed);
    } else if (!unpack(data + offset, (size_t)packed, &bytes, &crc)) {
        return;
    }
    put(central + 16, crc, 4);
    put(central + 24, bytes, 4);
    if ((get(central + 8, 2) & 8) == 0) {
        put(local + 14, crc, 4);
        put(local + 18, packed, 4);
        put(local + 22, bytes, 4);
    }
}

size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    size_t end = find(data, size, "PK\5\6", true);
    size_t directory = find(data, size, "PK\1\2", false);
    (void)room;
    if (size - end < 22 || directory > end) {
        return size;
    }
    size_t behind = find(data, end, "PK\6\6", true);
    size_t count = 0;
    for (size_t at = directory; at + 46 <= behind && get(data + at, 4) == 0x02014b50;
         at += 46 + get(data + at + 28, 2) + get(data + at + 30, 2) + get(data + at + 32, 2)) {
        repair_member(data, size, data + at);
        count++;
    }
    put(data + end + 8, count, 2);
    put(data + end + 10, count, 2);
    put(data + end + 12, behind - directory, 4);
    put(data + end + 16, directory, 4);
    put(data + end + 20, size - end - 22, 2);
    if (end - behind == 76) {
        put(data + behind + 24, count, 8);
        put(data + behind + 32, count, 8);
        put(data + behind + 40, behind - directory, 8);
        put(data + behind + 48, directory, 8);
        put(data + behind + 64, behind, 8);
    }
    return size;
}
