/* SPDX-License-Identifier: Apache-2.0 */
/* Zip files made by hand, right or wrong. */
#ifndef FOREIGN_MADE_ZIP_H
#define FOREIGN_MADE_ZIP_H

#include "lib/test.h"

#include <isa-l/crc.h>
#include <isa-l/igzip_lib.h>
#include <string.h>

/* What a member's headers say; `make_zip_member` fills in what is true. */
typedef struct made_member {
    const char *name, *local_name; /* the same unless it is set */
    const void *data;              /* as it is in the file */
    size_t n, size;                /* size: unpacked; 0: n */
    uint32_t crc32;
    unsigned method, flags, local_flags, attributes;
    bool wide, behind; /* zip64 sizes; sizes behind the bytes */
    uint32_t local_size_off, local_crc_off;
    int64_t at_off;
    size_t padding; /* of an extra field before the bytes */
    size_t at;
} made_member;

typedef struct made_zip {
    buffer file;
    made_member members[8];
    size_t count;
    size_t directory, directory_end;
} made_zip;

static inline void made_bytes(buffer *b, const void *data, size_t n) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(buffer_append(b, data, n, &err), &err);
}

/* An integer of n bytes. */
static inline void made_number(buffer *b, uint64_t v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)(v >> 8 * i);
        made_bytes(b, &byte, 1);
    }
}

/* Appends n bytes, deflated. */
static inline void made_deflate(buffer *out, const void *data, size_t n, uint16_t wrapper) {
    struct pawl_error err = ERROR_INIT;
    struct isal_zstream s;
    isal_deflate_stateless_init(&s);
    s.gzip_flag = wrapper;
    s.end_of_stream = 1;
    s.next_in = (uint8_t *)data;
    s.avail_in = (uint32_t)n;
    assert_ok(buffer_reserve(out, n + n / 8 + 1024, &err), &err);
    s.next_out = out->data + out->size;
    s.avail_out = (uint32_t)(n + n / 8 + 1024);
    assert_int_equal(isal_deflate_stateless(&s), COMP_OK);
    out->size += s.total_out;
}

static inline made_member made_of(const char *name, const void *data, size_t n) {
    return (made_member){
        .name = name, .data = data, .n = n, .crc32 = crc32_gzip_refl(0, data, (uint64_t)n)};
}

static inline void made_add(made_zip *z, made_member m) {
    buffer *b = &z->file;
    const char *name = m.local_name != NULL ? m.local_name : m.name;
    uint64_t size = (m.size > 0 ? m.size : m.n) + m.local_size_off;
    uint64_t none = m.behind ? 0 : UINT64_MAX;
    m.at = b->size;
    m.flags |= m.behind ? 8u : 0;
    made_number(b, 0x04034b50, 4);
    made_number(b, 20, 2);
    made_number(b, m.flags | m.local_flags, 2);
    made_number(b, m.method, 2);
    made_number(b, 0, 4);
    made_number(b, none & (m.crc32 + m.local_crc_off), 4);
    made_number(b, m.wide ? 0xffffffff : none & (m.n + m.local_size_off), 4);
    made_number(b, m.wide ? 0xffffffff : none & size, 4);
    made_number(b, strlen(name), 2);
    made_number(b, (m.wide ? 20 : 0) + (m.padding > 0 ? m.padding + 4 : 0), 2);
    made_bytes(b, name, strlen(name));
    if (m.padding > 0) {
        made_number(b, 0x4246, 2);
        made_number(b, m.padding, 2);
        for (size_t i = 0; i < m.padding; i++) {
            made_bytes(b, "Z", 1);
        }
    }
    if (m.wide) {
        made_number(b, 1, 2);
        made_number(b, 16, 2);
        made_number(b, none & size, 8);
        made_number(b, none & (m.n + m.local_size_off), 8);
    }
    made_bytes(b, m.data, m.n);
    if (m.behind) {
        made_number(b, 0x08074b50, 4);
        made_number(b, m.crc32, 4);
        made_number(b, m.n, m.wide ? 8 : 4);
        made_number(b, size, m.wide ? 8 : 4);
    }
    assert_true(z->count < ARRAY_LENGTH(z->members));
    z->members[z->count++] = m;
}

static inline void made_central(buffer *b, const made_member *m) {
    made_number(b, 0x02014b50, 4);
    made_number(b, 3u << 8 | 20, 2);
    made_number(b, 20, 2);
    made_number(b, m->flags, 2);
    made_number(b, m->method, 2);
    made_number(b, 0, 4);
    made_number(b, m->crc32, 4);
    made_number(b, m->wide ? 0xffffffff : m->n, 4);
    made_number(b, m->wide ? 0xffffffff : m->size > 0 ? m->size : m->n, 4);
    made_number(b, strlen(m->name), 2);
    made_number(b, m->wide ? 20 : 0, 2);
    made_number(b, 0, 6);
    made_number(b, (uint64_t)m->attributes << 16, 4);
    made_number(b, m->at + (uint64_t)m->at_off, 4);
    made_bytes(b, m->name, strlen(m->name));
    if (m->wide) {
        made_number(b, 1, 2);
        made_number(b, 16, 2);
        made_number(b, m->size > 0 ? m->size : m->n, 8);
        made_number(b, m->n, 8);
    }
}

static inline void made_directory(made_zip *z) {
    z->directory = z->file.size;
    for (size_t i = 0; i < z->count; i++) {
        made_central(&z->file, &z->members[i]);
    }
    z->directory_end = z->file.size;
}

static inline void made_end_64(made_zip *z) {
    buffer *b = &z->file;
    uint64_t at = b->size;
    made_number(b, 0x06064b50, 4);
    made_number(b, 44, 8);
    made_number(b, 0, 12);
    made_number(b, z->count, 8);
    made_number(b, z->count, 8);
    made_number(b, z->directory_end - z->directory, 8);
    made_number(b, z->directory, 8);
    made_number(b, 0x07064b50, 4);
    made_number(b, 0, 4);
    made_number(b, at, 8);
    made_number(b, 1, 4);
}

static inline void made_end(made_zip *z, const char *comment) {
    buffer *b = &z->file;
    uint64_t bytes = z->directory_end - z->directory;
    made_number(b, 0x06054b50, 4);
    made_number(b, 0, 4);
    made_number(b, z->count, 2);
    made_number(b, z->count, 2);
    made_number(b, bytes, 4);
    made_number(b, z->directory, 4);
    made_number(b, strlen(comment), 2);
    made_bytes(b, comment, strlen(comment));
}

static inline void made_all(made_zip *z) {
    made_directory(z);
    made_end(z, "");
}

#endif
