/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/hdf5/chunk_unpack: the elements of one chunk, from its bytes in the file. Private to this
 * folder. */
#ifndef FOREIGN_HDF5_CHUNK_UNPACK_H
#define FOREIGN_HDF5_CHUNK_UNPACK_H

#include "foreign/hdf5/dataset.h"
#include "foreign/unpack.h"

typedef struct chunk_unpacker {
    store_file *inner; /* borrowed */
    uint8_t *data;     /* of the chunk that was unpacked last; as large as any may be */
    bool shuffled;     /* its elements still are */
    uint8_t *packed;   /* bytes of the file */
    size_t packed_room;
    unpacker *zlib; /* NULL until one is needed */
} chunk_unpacker;

/* Is anything done to the bytes of this chunk? */
bool chunk_is_packed(const hdf5_filters *filters, uint32_t mask);
/* Bytes that a chunk may have while it is unpacked. */
uint64_t chunk_room(const hdf5_filters *filters, uint64_t chunk_bytes);
/* A failure has the position, and no path. */
pawl_status chunk_unpack(chunk_unpacker *u, const hdf5_filters *filters, const hdf5_chunk *chunk,
                         uint64_t chunk_bytes, pawl_error *err) PAWL_MUST_CHECK;
void chunk_unpacker_free(chunk_unpacker *u);
/* LZF: false where the bytes are wrong, or do not make up exactly `room`. */
bool chunk_unpack_lzf(const uint8_t *in, size_t n, uint8_t *out, size_t room);

#endif
