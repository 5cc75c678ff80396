/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a zip file whose members are stored (PKWARE APPNOTE 6.3.10). */
#include "foreign/zip/write.h"

#include <string.h>

#define LOCAL       0x04034b50u
#define DESCRIPTOR  0x08074b50u
#define CENTRAL     0x02014b50u
#define END_64      0x06064b50u
#define LOCATOR_64  0x07064b50u
#define END         0x06054b50u
#define FLAGS       0x0808u /* checksum and sizes follow the bytes; names are UTF-8 */
#define FLAGS_EMPTY 0x0800u
#define LOCAL_BYTES 30u
#define DATE        0x0021u /* 1980-01-01, the first that there is */
#define VERSION_64  45u
#define PADDING_ID  0x4246u /* "FB", by which PyTorch knows it */
#define MAX_32      0xffffffffu
#define MAX_16      0xffffu

static pawl_status put_u16(buffer *b, uint32_t v, pawl_error *err) {
    const uint8_t bytes[2] = {(uint8_t)v, (uint8_t)(v >> 8)};
    return buffer_append(b, bytes, sizeof(bytes), err);
}

zip_writer zip_writer_of(output *out) {
    return (zip_writer){.out = out, .begin = out->at};
}

void zip_writer_free(zip_writer *z) {
    buffer_free(&z->directory);
}

static pawl_status write_buffer(zip_writer *z, const buffer *b, pawl_error *err) {
    return output_write(z->out, b->data, b->size, err);
}

/* ---- members -------------------------------------------------------------------------------- */

/* Sizes are of 8 bytes where 4 are too few; then an extra field says so. */
static bool is_large(const zip_writer *z) {
    return z->bytes >= MAX_32;
}

static pawl_status put_padding(const zip_writer *z, size_t name_bytes, uint32_t alignment,
                               buffer *extra, pawl_error *err) {
    if (alignment <= 1) {
        return PAWL_OK;
    }
    uint64_t at = z->at + LOCAL_BYTES + name_bytes + extra->size + 4;
    uint32_t padding = (uint32_t)((alignment - at % alignment) % alignment);
    TRY(put_u16(extra, PADDING_ID, err));
    TRY(put_u16(extra, padding, err));
    for (uint32_t i = 0; i < padding; i++) {
        TRY(buffer_append(extra, "Z", 1, err));
    }
    return PAWL_OK;
}

static pawl_status put_extra_64(buffer *extra, uint64_t a, uint64_t b, pawl_error *err) {
    TRY(put_u16(extra, 1, err));
    TRY(put_u16(extra, 16, err));
    TRY(buffer_u64le(extra, a, err));
    return buffer_u64le(extra, b, err);
}

static pawl_status put_local(const zip_writer *z, const buffer *extra, buffer *b, pawl_error *err) {
    size_t name_bytes = strlen(z->name);
    TRY(buffer_u32le(b, LOCAL, err));
    TRY(put_u16(b, is_large(z) ? VERSION_64 : 0, err));
    TRY(put_u16(b, z->bytes > 0 ? FLAGS : FLAGS_EMPTY, err));
    TRY(put_u16(b, 0, err)); /* stored */
    TRY(put_u16(b, 0, err)); /* midnight */
    TRY(put_u16(b, DATE, err));
    TRY(buffer_u32le(b, 0, err)); /* the checksum */
    TRY(buffer_u32le(b, is_large(z) ? MAX_32 : 0, err));
    TRY(buffer_u32le(b, is_large(z) ? MAX_32 : 0, err));
    TRY(put_u16(b, (uint32_t)name_bytes, err));
    TRY(put_u16(b, (uint32_t)extra->size, err));
    TRY(buffer_append(b, z->name, name_bytes, err));
    return buffer_append(b, extra->data, extra->size, err);
}

static pawl_status put_central(zip_writer *z, pawl_error *err) {
    buffer *b = &z->directory;
    size_t name_bytes = strlen(z->name);
    bool far = z->at >= MAX_32;
    uint32_t extra = is_large(z) || far ? 4 + (is_large(z) ? 16u : 0) + (far ? 8u : 0) : 0;
    TRY(buffer_u32le(b, CENTRAL, err));
    TRY(put_u16(b, 0, err));
    TRY(put_u16(b, extra > 0 ? VERSION_64 : 0, err));
    TRY(put_u16(b, z->bytes > 0 ? FLAGS : FLAGS_EMPTY, err));
    TRY(put_u16(b, 0, err));
    TRY(put_u16(b, 0, err));
    TRY(put_u16(b, DATE, err));
    TRY(buffer_u32le(b, z->crc, err));
    TRY(buffer_u32le(b, is_large(z) ? MAX_32 : (uint32_t)z->bytes, err));
    TRY(buffer_u32le(b, is_large(z) ? MAX_32 : (uint32_t)z->bytes, err));
    TRY(put_u16(b, (uint32_t)name_bytes, err));
    TRY(put_u16(b, extra, err));
    TRY(put_u16(b, 0, err)); /* no comment */
    TRY(put_u16(b, 0, err)); /* on the first disk */
    TRY(put_u16(b, 0, err));
    TRY(buffer_u32le(b, 0, err)); /* no attributes */
    TRY(buffer_u32le(b, far ? MAX_32 : (uint32_t)z->at, err));
    TRY(buffer_append(b, z->name, name_bytes, err));
    if (extra > 0) {
        TRY(put_u16(b, 1, err));
        TRY(put_u16(b, extra - 4, err));
    }
    if (is_large(z)) {
        TRY(buffer_u64le(b, z->bytes, err));
        TRY(buffer_u64le(b, z->bytes, err));
    }
    return far ? buffer_u64le(b, z->at, err) : PAWL_OK;
}

static pawl_status end_member(zip_writer *z, pawl_error *err) {
    CLEANUP(buffer_free) buffer b = {0};
    if (z->bytes > 0) {
        TRY(buffer_u32le(&b, DESCRIPTOR, err));
        TRY(buffer_u32le(&b, z->crc, err));
        for (int i = 0; i < 2; i++) { /* packed and unpacked */
            TRY(is_large(z) ? buffer_u64le(&b, z->bytes, err)
                            : buffer_u32le(&b, (uint32_t)z->bytes, err));
        }
        TRY(write_buffer(z, &b, err));
    }
    z->count++;
    return put_central(z, err);
}

pawl_status zip_begin(zip_writer *z, const char *name, uint64_t bytes, uint32_t alignment,
                      pawl_error *err) {
    CLEANUP(buffer_free) buffer local = {0};
    CLEANUP(buffer_free) buffer extra = {0};
    z->name = name;
    z->at = z->out->at - z->begin;
    z->bytes = bytes;
    z->left = bytes;
    z->crc = 0;
    if (strlen(name) > MAX_16) {
        return error_set(err, PAWL_ELIMIT, "a name is too long for a zip file");
    }
    TRY(buffer_append(&extra, "", 0, err));
    if (is_large(z)) {
        TRY(put_extra_64(&extra, 0, 0, err));
    }
    TRY(put_padding(z, strlen(name), alignment, &extra, err));
    TRY(put_local(z, &extra, &local, err));
    TRY(write_buffer(z, &local, err));
    return bytes > 0 ? PAWL_OK : end_member(z, err);
}

pawl_status zip_take(void *to, const uint8_t *bytes, size_t n, pawl_error *err) {
    zip_writer *z = to;
    if (n > z->left) {
        return error_set(err, PAWL_EINTERNAL, "a member of a zip file has too many bytes");
    }
    if (n == 0) {
        return PAWL_OK;
    }
    z->crc = crc32_zip(z->crc, bytes, n);
    TRY(output_write(z->out, bytes, n, err));
    z->left -= n;
    return z->left > 0 ? PAWL_OK : end_member(z, err);
}

pawl_status zip_put(zip_writer *z, const char *name, const void *bytes, size_t n,
                    uint32_t alignment, pawl_error *err) {
    TRY(zip_begin(z, name, n, alignment, err));
    return zip_take(z, bytes, n, err);
}

/* ---- the end -------------------------------------------------------------------------------- */

static uint32_t at_most(uint64_t v, uint32_t most) {
    return v < most ? (uint32_t)v : most;
}

pawl_status zip_finish(zip_writer *z, pawl_error *err) {
    buffer *b = &z->directory;
    uint64_t at = z->out->at - z->begin;
    uint64_t bytes = b->size;
    TRY(buffer_u32le(b, END_64, err));
    TRY(buffer_u64le(b, 44, err)); /* of what follows */
    TRY(put_u16(b, VERSION_64, err));
    TRY(put_u16(b, VERSION_64, err));
    TRY(buffer_u32le(b, 0, err));
    TRY(buffer_u32le(b, 0, err));
    TRY(buffer_u64le(b, z->count, err));
    TRY(buffer_u64le(b, z->count, err));
    TRY(buffer_u64le(b, bytes, err));
    TRY(buffer_u64le(b, at, err));
    TRY(buffer_u32le(b, LOCATOR_64, err));
    TRY(buffer_u32le(b, 0, err));
    TRY(buffer_u64le(b, at + bytes, err));
    TRY(buffer_u32le(b, 1, err));
    TRY(buffer_u32le(b, END, err));
    TRY(buffer_u32le(b, 0, err));
    TRY(put_u16(b, at_most(z->count, MAX_16), err));
    TRY(put_u16(b, at_most(z->count, MAX_16), err));
    TRY(buffer_u32le(b, at_most(bytes, MAX_32), err));
    TRY(buffer_u32le(b, at_most(at, MAX_32), err));
    TRY(put_u16(b, 0, err));
    return write_buffer(z, b, err);
}
