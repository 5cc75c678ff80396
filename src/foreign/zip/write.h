/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zip/write: a zip file, written from its beginning to its end; all members are stored. It is as
 * torch.save makes it: checksums follow the bytes, which begin at multiples of 64 where that is
 * wanted, the end is always that of zip64.
 */
#ifndef FOREIGN_ZIP_WRITE_H
#define FOREIGN_ZIP_WRITE_H

#include "foreign/writer.h"

typedef struct zip_writer {
    output *out;
    uint64_t begin; /* of the zip, in the output */
    buffer directory;
    uint64_t count;
    /* The member that is being written. */
    const char *name;
    uint64_t at, bytes, left;
    uint32_t crc;
} zip_writer;

/* A zip that begins where the output is. */
zip_writer zip_writer_of(output *out);
/* Begins a member of exactly so many bytes, which begin at a multiple of `alignment` (1: anywhere)
 * of the zip. The name lives until the member ends. */
pawl_status zip_begin(zip_writer *z, const char *name, uint64_t bytes, uint32_t alignment,
                      pawl_error *err) PAWL_MUST_CHECK;
/* writer_take, `to` being the zip_writer. The last byte ends the member. */
pawl_status zip_take(void *to, const uint8_t *bytes, size_t n, pawl_error *err) PAWL_MUST_CHECK;
/* A whole member. */
pawl_status zip_put(zip_writer *z, const char *name, const void *bytes, size_t n,
                    uint32_t alignment, pawl_error *err) PAWL_MUST_CHECK;
/* Writes the directory. */
pawl_status zip_finish(zip_writer *z, pawl_error *err) PAWL_MUST_CHECK;
void zip_writer_free(zip_writer *z);

#endif
