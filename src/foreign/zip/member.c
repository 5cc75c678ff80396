/* SPDX-License-Identifier: Apache-2.0 */
/* Reads whole members, and compares their checksums. */
#include "base/checksum_join.h"
#include "foreign/unpack.h"
#include "foreign/zip/private.h"

#include <string.h>

#define PIECE_BYTES ((size_t)128 << 10)
#define FIRST_BYTES ((size_t)4 << 10) /* for who wants but the start */

/* One pass over a member. */
typedef struct pass {
    const byte_source *file;
    const zip_member *m;
    uint8_t *in;
    zip_parts parts;
    unpacker *unpack; /* NULL: it is stored */
    uint64_t taken;   /* read from the file */
    uint64_t made;
    uint32_t crc;
    unpack_step step;
} pass;

static pawl_status is_wrong(const pass *p, const char *what, uint64_t expected, uint64_t found,
                            pawl_error *err) {
    const zip_member *m = p->m;
    error_set(err, PAWL_EDAMAGED, "a member of the zip file is damaged: %s", what);
    error_entry(err, m->name);
    error_range(err, m->offset, m->packed_bytes);
    error_expected(err, "%llu", (unsigned long long)expected);
    error_found(err, "%llu", (unsigned long long)found);
    return PAWL_EDAMAGED;
}

static pawl_status wrong_bytes(const pass *p, pawl_error *err) {
    error_wrap(err, "a member of the zip file");
    error_entry(err, p->m->name);
    error_range(err, p->m->offset + p->taken - p->step.in_bytes, 1);
    return PAWL_EDAMAGED;
}

/* More of the compressed bytes, where there are more. */
static pawl_status fill(pass *p, pawl_error *err) {
    uint64_t left = p->m->packed_bytes - p->taken;
    size_t most = p->taken == 0 ? FIRST_BYTES : PIECE_BYTES;
    size_t n = left < most ? (size_t)left : most;
    if (p->step.in_bytes > 0 || n == 0) {
        return PAWL_OK;
    }
    TRY(p->file->read_at(p->file->context, p->m->offset + p->taken, p->in, n, err));
    p->taken += n;
    p->step.in = p->in;
    p->step.in_bytes = n;
    return PAWL_OK;
}

/* Puts at most n bytes to `to`, and says how many: none only where it has ended. */
static pawl_status unpack_some(pass *p, uint8_t *to, size_t n, size_t *got, pawl_error *err) {
    *got = 0;
    while (*got == 0 && !p->step.ended) {
        TRY(fill(p, err));
        size_t before = p->step.in_bytes;
        p->step.out = to;
        p->step.room = n;
        pawl_status status = unpacker_step(p->unpack, &p->step, err);
        if (status != PAWL_OK) {
            return status == PAWL_EDAMAGED ? wrong_bytes(p, err) : status;
        }
        *got = n - p->step.room;
        if (*got == 0 && !p->step.ended && p->step.in_bytes == before) {
            return is_wrong(p, "it ends too early", p->m->bytes, p->made, err);
        }
    }
    return PAWL_OK;
}

static pawl_status read_stored(pass *p, uint8_t *to, size_t n, size_t *got, pawl_error *err) {
    uint64_t left = p->m->bytes - p->made;
    *got = n < left ? n : (size_t)left;
    if (*got > 0) {
        TRY(p->file->read_at(p->file->context, p->m->offset + p->made, to, *got, err));
    }
    return PAWL_OK;
}

/* Adds the parts that come next and were read already. Returns how much behind them was not. */
static uint64_t add_parts(pass *p) {
    const zip_member *m = p->m;
    uint64_t begin = p->parts.at + m->offset;
    source_part part = {0};
    if (p->unpack != NULL) {
        return UINT64_MAX;
    }
    while (
        source_parts_find(p->parts.read, p->parts.file, begin + p->made, begin + m->bytes, &part)) {
        p->crc = crc32_zip_join(p->crc, part.sum, part.bytes);
        p->made += part.bytes;
    }
    return p->made < m->bytes ? part.bytes : 0;
}

static pawl_status read_some(pass *p, uint8_t *to, size_t n, size_t *got, pawl_error *err) {
    TRY(p->unpack != NULL ? unpack_some(p, to, n, got, err) : read_stored(p, to, n, got, err));
    p->crc = crc32_zip(p->crc, to, *got);
    p->made += *got;
    return PAWL_OK;
}

/* All has been read, and one more was asked for. */
static pawl_status check_all(const pass *p, pawl_error *err) {
    const zip_member *m = p->m;
    uint64_t behind = m->packed_bytes - p->taken + p->step.in_bytes + p->step.over;
    if (p->made != m->bytes) {
        return is_wrong(p, "it has another size, in bytes", m->bytes, p->made, err);
    }
    if (p->unpack != NULL && behind > 0) {
        return is_wrong(p, "there are more compressed bytes than it needs", m->packed_bytes,
                        m->packed_bytes - behind, err);
    }
    if (p->crc == m->crc32 || m->unsummed) {
        return PAWL_OK;
    }
    (void)is_wrong(p, "its checksum (CRC32) differs", 0, 0, err);
    error_expected(err, "%08x", (unsigned)m->crc32);
    error_found(err, "%08x", (unsigned)p->crc);
    return PAWL_EDAMAGED;
}

static pawl_status begin(pass *p, const byte_source *file, const zip_member *m, pawl_error *err) {
    *p = (pass){.file = file, .m = m};
    if (!m->deflated) {
        return PAWL_OK;
    }
    p->in = mem_alloc(PIECE_BYTES);
    p->step.in = p->in;
    return p->in != NULL ? unpacker_new(STREAM_DEFLATE, &p->unpack, err)
                         : error_nomem(err, PIECE_BYTES);
}

static void end(pass *p) {
    unpacker_free(p->unpack);
    mem_free(p->in);
}

static pawl_status read_whole(pass *p, buffer *out, pawl_error *err) {
    uint8_t extra;
    uint8_t *to = out->data + out->size;
    size_t got;
    do {
        size_t left = (size_t)(p->m->bytes - p->made);
        TRY(read_some(p, left > 0 ? to + p->made : &extra, left > 0 ? left : 1, &got, err));
    } while (got > 0 && p->made <= p->m->bytes);
    TRY(check_all(p, err));
    out->size += (size_t)p->m->bytes;
    out->data[out->size] = 0;
    return PAWL_OK;
}

pawl_status zip_read_member(const byte_source *file, const zip_member *m, size_t limit, buffer *out,
                            pawl_error *err) {
    CLEANUP(end) pass p;
    TRY(begin(&p, file, m, err));
    if (m->bytes > limit) {
        error_set(err, PAWL_ELIMIT, "a member of the zip file is too large");
        error_entry(err, m->name);
        error_range(err, m->offset, m->packed_bytes);
        error_expected(err, "at most %zu bytes", limit);
        error_found(err, "%llu", (unsigned long long)m->bytes);
        return PAWL_ELIMIT;
    }
    TRY(buffer_reserve(out, (size_t)m->bytes, err));
    return read_whole(&p, out, err);
}

pawl_status zip_read_start(const byte_source *file, const zip_member *m, size_t n, buffer *out,
                           pawl_error *err) {
    CLEANUP(end) pass p;
    size_t got;
    TRY(begin(&p, file, m, err));
    n = n < m->bytes ? n : (size_t)m->bytes;
    TRY(buffer_reserve(out, n, err));
    while (p.made < n) {
        TRY(read_some(&p, out->data + out->size + p.made, n - (size_t)p.made, &got, err));
        if (got == 0) {
            return is_wrong(&p, "it has another size, in bytes", m->bytes, p.made, err);
        }
    }
    out->size += n;
    out->data[out->size] = 0;
    return PAWL_OK;
}

static bool to_compare(const zip_member *m, const zip_parts *parts) {
    uint64_t begin = parts->at + m->offset;
    if (parts->read == NULL || parts->any) {
        return true;
    }
    return !m->deflated && source_parts_touch(parts->read, parts->file, begin, begin + m->bytes);
}

pawl_status zip_check_member(const byte_source *file, const zip_member *m, const zip_parts *parts,
                             zip_progress *progress, void *context, pawl_error *err) {
    CLEANUP(end) pass p;
    AUTOFREE uint8_t *to = mem_alloc(PIECE_BYTES);
    size_t got;
    TRY(begin(&p, file, m, err));
    if (!to_compare(m, parts)) {
        return PAWL_OK;
    }
    if (to == NULL) {
        return error_nomem(err, PIECE_BYTES);
    }
    p.parts = *parts;
    do {
        uint64_t left = add_parts(&p);
        TRY(read_some(&p, to, left < PIECE_BYTES ? (size_t)left : PIECE_BYTES, &got, err));
        if (progress != NULL) {
            TRY(progress(context, err));
        }
    } while (got > 0 && p.made <= m->bytes);
    return check_all(&p, err);
}
