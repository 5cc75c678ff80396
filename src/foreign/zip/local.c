/* SPDX-License-Identifier: Apache-2.0 */
/* The local headers before the bytes of members: they must say what the directory says. They are
 * read in the order of the file, those that are near each other at once. */
#include "foreign/zip/private.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_BYTES ((size_t)256 << 10)
#define NEAR_BYTES   ((uint64_t)8 << 10) /* reading so much more is cheaper than another read */
#define EXTRA_BYTES  128u                /* of a local header, as most are; more are read, too */

typedef struct locals {
    const byte_source *file;
    zip_directory *d;
    zip_member **order; /* ascending by place */
    uint8_t *window;
    uint64_t at; /* of the window, in the file */
    size_t bytes;
} locals;

/* How much to read from a member's header on: as many headers as come one near the other. */
static size_t reach(const locals *l, size_t i, size_t least) {
    uint64_t from = l->order[i]->at;
    uint64_t end = from + least;
    for (size_t k = i + 1; k < l->d->count; k++) {
        const zip_member *m = l->order[k];
        uint64_t next = m->at + ZIP_LOCAL_BYTES + m->name_bytes + EXTRA_BYTES;
        if (m->at > end + NEAR_BYTES || next - from > WINDOW_BYTES) {
            break;
        }
        end = next > end ? next : end;
    }
    return (size_t)((end < l->d->at ? end : l->d->at) - from);
}

/* The first n bytes of a local header. */
static pawl_status look(locals *l, size_t i, size_t n, const uint8_t **out, pawl_error *err) {
    const zip_member *m = l->order[i];
    if (n > l->d->at - m->at) {
        return zip_refuse(err, PAWL_EDAMAGED, m->name, m->at,
                          "has a local header that is not before the directory");
    }
    if (m->at < l->at || m->at - l->at > l->bytes || l->bytes - (m->at - l->at) < n) {
        size_t bytes = reach(l, i, n);
        l->bytes = 0;
        TRY(l->file->read_at(l->file->context, m->at, l->window, bytes, err));
        l->at = m->at;
        l->bytes = bytes;
    }
    *out = l->window + (m->at - l->at);
    return PAWL_OK;
}

static pawl_status differs(const zip_member *m, const char *what, uint64_t expected, uint64_t found,
                           pawl_error *err) {
    (void)zip_refuse(err, PAWL_EDAMAGED, m->name, m->at,
                     "has a local header that is not as its directory says");
    error_expected(err, "%s %llu", what, (unsigned long long)expected);
    error_found(err, "%llu", (unsigned long long)found);
    return PAWL_EDAMAGED;
}

/* What is behind the bytes may be 0 here. */
static bool is_said(const zip_member *m, uint64_t here, uint64_t directory) {
    return here == directory || (m->described && here == 0);
}

static pawl_status compare(const zip_member *m, const uint8_t *r, const zip_numbers *numbers,
                           pawl_error *err) {
    unsigned method = m->deflated ? ZIP_METHOD_PACKED : ZIP_METHOD_STORED;
    unsigned flags = zip_u16(r + 6);
    if (zip_u16(r + 8) != method) {
        return differs(m, "method", method, zip_u16(r + 8), err);
    }
    if ((flags & (ZIP_FLAG_LOCKED | ZIP_FLAG_STRONG | ZIP_FLAG_MASKED | ZIP_FLAG_PATCH)) != 0) {
        return differs(m, "flags", 0, flags, err);
    }
    if (((flags & ZIP_FLAG_BEHIND) != 0) != m->described) {
        return differs(m, "sizes behind the bytes:", m->described, !m->described, err);
    }
    if (!is_said(m, numbers->packed_bytes, m->packed_bytes)) {
        return differs(m, "bytes in the file:", m->packed_bytes, numbers->packed_bytes, err);
    }
    if (!is_said(m, numbers->bytes, m->bytes)) {
        return differs(m, "bytes:", m->bytes, numbers->bytes, err);
    }
    return is_said(m, zip_u32(r + 14), m->crc32)
               ? PAWL_OK
               : differs(m, "checksum", m->crc32, zip_u32(r + 14), err);
}

static pawl_status read_local(locals *l, size_t i, pawl_error *err) {
    zip_member *m = l->order[i];
    const uint8_t *r = NULL;
    size_t n = ZIP_LOCAL_BYTES + (size_t)m->name_bytes;
    TRY(look(l, i, n, &r, err));
    if (r == NULL || zip_u32(r) != ZIP_LOCAL || zip_u16(r + 26) != m->name_bytes ||
        memcmp(r + ZIP_LOCAL_BYTES, m->name, m->name_bytes) != 0) {
        return zip_refuse(err, PAWL_EDAMAGED, m->name, m->at,
                          "has no local header of the member where its directory says");
    }
    size_t extra = zip_u16(r + 28);
    zip_numbers numbers = {.bytes = zip_u32(r + 22), .packed_bytes = zip_u32(r + 18)};
    if (numbers.bytes == ZIP_NO_SIZE || numbers.packed_bytes == ZIP_NO_SIZE) {
        TRY(look(l, i, n + extra, &r, err));
        if (!zip_take_extra(r + n, extra, &numbers)) {
            return zip_refuse(err, PAWL_EDAMAGED, m->name, m->at, "has a member without its sizes");
        }
    }
    m->offset = m->at + n + extra;
    return compare(m, r, &numbers, err);
}

/* Each ends before the next one begins, and the last one before the directory. */
static pawl_status check_end(const locals *l, size_t i, pawl_error *err) {
    const zip_member *m = l->order[i];
    uint64_t limit = i + 1 < l->d->count ? l->order[i + 1]->at : l->d->at;
    if (m->offset <= limit && m->packed_bytes <= limit - m->offset) {
        return PAWL_OK;
    }
    (void)zip_refuse(err, PAWL_EDAMAGED, m->name, m->at,
                     i + 1 < l->d->count ? "has members that overlap"
                                         : "has a member that overlaps the directory");
    error_expected(err, "an end at byte %llu or before", (unsigned long long)limit);
    error_found(err, "%llu bytes from byte %llu on", (unsigned long long)m->packed_bytes,
                (unsigned long long)m->offset);
    return PAWL_EDAMAGED;
}

static int by_place(const void *left, const void *right) {
    const zip_member *a = *(const zip_member *const *)left;
    const zip_member *b = *(const zip_member *const *)right;
    return (a->at > b->at) - (a->at < b->at);
}

pawl_status zip_read_locals(const byte_source *file, zip_directory *d, pawl_error *err) {
    AUTOFREE uint8_t *window = mem_alloc(WINDOW_BYTES);
    AUTOFREE zip_member **order = mem_alloc((d->count + 1) * sizeof(zip_member *));
    if (window == NULL || order == NULL) {
        return error_nomem(err, WINDOW_BYTES);
    }
    for (size_t i = 0; i < d->count; i++) {
        order[i] = &d->members[i];
    }
    if (d->count > 1) {
        qsort(order, d->count, sizeof(void *), by_place);
    }
    locals l = {.file = file, .d = d, .order = order, .window = window};
    for (size_t i = 0; i < d->count; i++) {
        TRY(read_local(&l, i, err));
        TRY(check_end(&l, i, err));
    }
    return PAWL_OK;
}
