/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what describes an array of zarr, and, from a line "#" on, as one of its chunks: what
 * is understood can be counted, and a chunk is decoded to as many bytes as it has, or refused.
 */
#include "fuzz.h"

#include "foreign/orbax/zarr.h"

#define MOST_BYTES 1048576u

static void check_array(const zarr_array *z) {
    uint64_t bytes = z->element_bytes;
    uint64_t shards = 1;
    FUZZ_CHECK(z->ndim >= 0 && z->ndim <= PAWL_MAX_NDIM);
    FUZZ_CHECK(z->type[0] != '\0' && memchr(z->type, 0, sizeof z->type) != NULL);
    FUZZ_CHECK(z->element_bytes >= 1 && z->element_bytes <= sizeof z->fill);
    FUZZ_CHECK(z->element_bytes % z->swap_bytes == 0);
    int paired = zarr_is_paired(z);
    FUZZ_CHECK(!paired || z->ndim < PAWL_MAX_NDIM);
    FUZZ_CHECK((int)z->dtype == 0 ||
               pawl_dtype_bits(z->dtype) << paired == (int)z->element_bytes * 8);
    for (int d = 0; d < z->ndim; d++) {
        FUZZ_CHECK(z->shape[d] >= 0 && z->chunk[d] >= 1 && z->shard[d] >= 1);
        FUZZ_CHECK(z->grid[d] * z->shard[d] * (__int128)z->chunk[d] >= z->shape[d]);
        FUZZ_CHECK(!z->codecs.ordered || (z->codecs.order[d] >= 0 && z->codecs.order[d] < z->ndim));
        bytes *= (uint64_t)z->chunk[d];
        shards *= (uint64_t)z->grid[d];
    }
    FUZZ_CHECK(bytes == z->chunk_bytes && shards == z->shards);
    FUZZ_CHECK((__int128)z->chunk_bytes * z->shard_chunks * z->shards == z->stream_bytes);
}

static void decode(const zarr_array *z, const uint8_t *chunk, size_t n) {
    pawl_error err = ERROR_INIT;
    zarr_unpacker *u;
    zarr_input in = {.bytes = chunk, .size = n};
    if (z->unread != NULL || z->chunk_bytes > MOST_BYTES) {
        return;
    }
    CLEANUP(buffer_free) buffer out = {.data = mem_alloc((size_t)z->chunk_bytes)};
    FUZZ_CHECK(out.data != NULL && zarr_unpacker_new(&z->codecs, &u, &err) == PAWL_OK);
    pawl_status status = zarr_unpack_begin(u, &in, z->chunk_bytes, &err);
    if (status == PAWL_OK) {
        status = zarr_unpack(u, out.data, (size_t)z->chunk_bytes, &err);
    }
    if (status != PAWL_OK) {
        fuzz_check_refusal(&err, status);
    }
    zarr_unpacker_free(u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size > 0 ? memchr(data, '#', size) : NULL;
    size_t n = end != NULL ? (size_t)(end - data) : size;
    CLEANUP(buffer_free) buffer text = fuzz_copy(data, n);
    CLEANUP(buffer_free) buffer chunk = fuzz_copy(data + n, size - n);
    size_t skip = chunk.size > 0;
    bool understood = false;
    for (int version = 2; version <= 3; version++) {
        pawl_error err = ERROR_INIT;
        zarr_array z;
        bool group = false;
        pawl_status status = version == 2 ? zarr_read_v2(text.data, text.size, &z, &err)
                                          : zarr_read_v3(text.data, text.size, &z, &group, &err);
        if (status != PAWL_OK) {
            fuzz_check_refusal(&err, status);
        } else if (!group) {
            check_array(&z);
            decode(&z, chunk.data + skip, chunk.size - skip);
        }
        understood = understood || status == PAWL_OK;
    }
    fuzz_accepted += understood;
    return 0;
}
