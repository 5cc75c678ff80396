/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share: the records of a zip, and numbers in them. */
#ifndef FOREIGN_ZIP_PRIVATE_H
#define FOREIGN_ZIP_PRIVATE_H

#include "foreign/zip/zip.h"

#define ZIP_LOCAL_BYTES   30u
#define ZIP_LOCAL         0x04034b50u
#define ZIP_NO_SIZE       0xffffffffu /* it is in the zip64 extra field */
#define ZIP_FLAG_LOCKED   (1u << 0)
#define ZIP_FLAG_BEHIND   (1u << 3) /* sizes and checksum are behind the bytes */
#define ZIP_FLAG_PATCH    (1u << 5)
#define ZIP_FLAG_STRONG   (1u << 6)
#define ZIP_FLAG_MASKED   (1u << 13)
#define ZIP_METHOD_STORED 0u
#define ZIP_METHOD_PACKED 8u

static inline uint16_t zip_u16(const uint8_t *p) {
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t zip_u32(const uint8_t *p) {
    return (uint32_t)zip_u16(p) | (uint32_t)zip_u16(p + 2) << 16;
}

static inline uint64_t zip_u64(const uint8_t *p) {
    return (uint64_t)zip_u32(p) | (uint64_t)zip_u32(p + 4) << 32;
}

/* A failure of a member, at a place of the file. */
pawl_status zip_refuse(pawl_error *err, pawl_status status, const char *name, uint64_t at,
                       const char *what);

/* The numbers of a zip64 extra field, each of which is there only where the header's own is
 * ZIP_NO_SIZE. */
typedef struct zip_numbers {
    uint64_t bytes, packed_bytes, at;
} zip_numbers;
/* False: what is needed is not there, or the extra fields are none. */
bool zip_take_extra(const uint8_t *extra, size_t n, zip_numbers *numbers);

/* Reads all local headers, in the order of the file; sets the offsets of members. */
pawl_status zip_read_locals(const byte_source *file, zip_directory *d, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
