/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a zip file: members of what is understood do not overlap, have names that lead
 * nowhere else, and each is found; their bytes have their checksum, or are refused. */
#include "fuzz.h"
#include "repair_zip.h"

#include "foreign/zip/zip.h"

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

size_t fuzz_repair(uint8_t *data, size_t size, size_t room) {
    return fuzz_repair_zip(data, size, room);
}
