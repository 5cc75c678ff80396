/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/streams: recipes for bytes that lie in a file in another way than pawl reads them. Each
 * is made in the archive's memory, and added with archive_add_stream.
 *
 * A stream that was opened is used by one thread at a time, the recipe by several.
 */
#ifndef FOREIGN_STREAMS_H
#define FOREIGN_STREAMS_H

#include "foreign/archive.h"

/* stream_recipe.open of archive.values. */
pawl_status stream_of_values(const stream_recipe *recipe, archive *a, store_mode mode,
                             store_file **out, pawl_error *err) PAWL_MUST_CHECK;

/* A tensor whose elements are anywhere in a stream, at fixed distances: column-major, a view, or in
 * the other byte order. The stream is row-major, dense and little-endian. */
typedef struct stream_layout {
    uint32_t stream;        /* that the elements are in */
    uint64_t offset;        /* of the first element, in bytes */
    uint32_t element_bytes; /* 1, 2, 4, 8 or 16 */
    uint32_t swap_bytes;    /* of so many bytes each the order is reversed; 1: none is. A complex
                               number has two */
    bool conjugated;        /* of each element, two floats, the second has the other sign */
    int ndim;
    const int64_t *shape;
    const int64_t *strides; /* elements [NULL: row-major]; 0 and negative ones are fine */
} stream_layout;
/* PAWL_EDAMAGED where an element would lie outside of the stream, which is `stream_bytes` long. */
pawl_status stream_add_strided(archive *a, const stream_layout *layout, uint64_t stream_bytes,
                               uint32_t *out, pawl_error *err) PAWL_MUST_CHECK;

/* How the bytes of a stream are compressed. */
typedef enum stream_packing {
    STREAM_DEFLATE, /* RFC 1951, as in a zip */
    STREAM_ZLIB,    /* RFC 1950 */
    STREAM_GZIP,    /* RFC 1952 */
    STREAM_ZSTD     /* RFC 8878 */
} stream_packing;
typedef struct stream_packed {
    uint32_t stream; /* that the compressed bytes are in */
    uint64_t offset, packed_bytes;
    uint64_t bytes; /* decompressed: PAWL_EDAMAGED where they are more or fewer */
    stream_packing packing;
    bool summed;
    uint32_t crc32; /* if summed, of what is decompressed: compared when the last byte is made */
} stream_packed;
/* Decompressed as it is read, forwards, once for all who have the stream open; what lies before is
 * decompressed again from the beginning, unless it is among the last STREAM_KEPT bytes. Where
 * several streams are open that keep STREAM_KEPT_IN_ALL together, further ones keep
 * STREAM_KEPT_LEAST each. PAWL_EDAMAGED: more bytes than so few can become. PAWL_EUNSUPPORTED:
 * there is no decoder. */
#define STREAM_KEPT        33554432u
#define STREAM_KEPT_LEAST  262144u
#define STREAM_KEPT_IN_ALL 67108864u
pawl_status stream_add_packed(archive *a, const stream_packed *packed, uint32_t *out,
                              pawl_error *err) PAWL_MUST_CHECK;
/* When an archive is closed: what is left of its packed streams. */
void stream_packed_end(archive *a);

#endif
