/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/orbax/zarr: arrays in chunks, of zarr's versions 2 and 3: what describes one
 * (zarr_v2.c, zarr_v3.c), how a chunk is decoded (zarr_chunk.c), and the stream of an array
 * (zarr_stream.c).
 */
#ifndef FOREIGN_ORBAX_ZARR_H
#define FOREIGN_ORBAX_ZARR_H

#include "base/json.h"
#include "foreign/archive.h"
#include "format/limits.h"

typedef enum zarr_packing { ZARR_PLAIN, ZARR_ZSTD, ZARR_GZIP, ZARR_ZLIB } zarr_packing;

/* The elements of a chunk become bytes, those are compressed. */
typedef struct zarr_codecs {
    zarr_packing packing;
    bool sum_within; /* the CRC32C of the bytes is behind them, and is compressed with them */
    bool sum_behind; /* the CRC32C of what is compressed is behind that */
    bool swapped;    /* big-endian */
    bool ordered;    /* not row-major: */
    int order[PAWL_MAX_NDIM]; /* which dimension of the array comes first, second, ... */
} zarr_codecs;

typedef struct zarr_array {
    int ndim;
    int64_t shape[PAWL_MAX_NDIM];
    int64_t chunk[PAWL_MAX_NDIM]; /* that is decoded: of a sharded array, one within a shard */
    pawl_dtype dtype;             /* 0: `type` alone says what it is */
    char type[FORMAT_MAX_TYPE_NAME + 1];
    uint32_t element_bytes, swap_bytes; /* as in stream_layout; swapped or not */
    zarr_codecs codecs;
    bool sharded;
    int64_t
        shard[PAWL_MAX_NDIM]; /* chunks of each dimension in one shard; 1 where there are none */
    bool index_first, index_sum, index_swapped;
    bool stored;                 /* no chunk may be missing */
    bool filled;                 /* `fill` is known */
    uint8_t fill[16];            /* an element, little-endian */
    char separator;              /* between the numbers in a chunk's key */
    bool prefixed;               /* the key begins with "c" */
    json_span attributes;        /* of zarr.json, if there are any; into the text */
    const char *unread;          /* why its values are not read; NULL: they are */
    uint64_t chunk_bytes;        /* decoded */
    uint64_t shard_chunks;       /* in a shard */
    int64_t grid[PAWL_MAX_NDIM]; /* shards, or chunks where there are none, of each dimension */
    uint64_t shards;             /* in all */
    uint64_t stream_bytes;       /* of the chunks of all of them */
} zarr_array;

/* The text of a .zarray, and of a zarr.json. A group has *group set, and nothing else. */
pawl_status zarr_read_v2(const void *text, size_t n, zarr_array *z, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status zarr_read_v3(const void *text, size_t n, zarr_array *z, bool *group, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- zarr_types.c: what both have ---- */

void zarr_set_type(zarr_array *z, pawl_dtype dtype, const char *type, uint32_t element_bytes,
                   uint32_t swap_bytes);
/* "bfloat16", "float8_e4m3fn", ...; false where the name is not known. */
bool zarr_find_type(json_span name, zarr_array *z);
/* Is an element two of its dtype, as of complex128? */
bool zarr_is_paired(const zarr_array *z);
/* A list of numbers; *n is how many. */
pawl_status zarr_read_shape(json_reader *r, int64_t shape[PAWL_MAX_NDIM], int *n, pawl_error *err)
    PAWL_MUST_CHECK;
/* z->fill of the text of its value. */
void zarr_set_fill(zarr_array *z, json_span value);
/* The rest of z, out of shape, chunk and shard; refuses what cannot be. */
pawl_status zarr_finish(zarr_array *z, pawl_error *err) PAWL_MUST_CHECK;

/* ---- the stream of an array ---- */

/* Where the bytes of a chunk are, or those of a shard. */
typedef struct zarr_place {
    uint64_t number;        /* row-major, among the chunks, or shards */
    const uint8_t *inlined; /* NULL: in the file */
    uint32_t file;
    uint64_t offset, bytes;
} zarr_place;

/*
 * The chunks of an array one after the other: `chunk_bytes` for each, whether it is there or not;
 * by shards, where there are any. Each chunk is cut at the shape, little-endian and row-major, and
 * padded. What is not there has the fill value. `places` ascend, and stay; `z` is copied.
 */
pawl_status zarr_add_stream(archive *a, const zarr_array *z, const zarr_place *places, size_t count,
                            uint32_t *out, pawl_error *err) PAWL_MUST_CHECK;

bool zarr_is_stream(const stream_recipe *recipe);
/* Decodes all chunks that are there. PAWL_EDAMAGED: the first that cannot be. */
pawl_status zarr_check_stream(const stream_recipe *recipe, archive *a, source_verifier *v,
                              pawl_error *err) PAWL_MUST_CHECK;

/* ---- a chunk: zarr_chunk.c ---- */

/* Decodes what chunks are stored as, forwards. */
typedef struct zarr_unpacker zarr_unpacker;
/* Where the stored bytes come from. */
typedef struct zarr_input {
    const uint8_t *bytes; /* NULL: in the file */
    store_file *file;
    uint64_t offset, size;
} zarr_input;
pawl_status zarr_unpacker_new(const zarr_codecs *codecs, zarr_unpacker **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* A chunk that has `bytes` bytes. */
pawl_status zarr_unpack_begin(zarr_unpacker *u, const zarr_input *in, uint64_t bytes,
                              pawl_error *err) PAWL_MUST_CHECK;
/* The next n bytes of it; with the last ones its checksums are compared, and that it ends there. */
pawl_status zarr_unpack(zarr_unpacker *u, void *to, size_t n, pawl_error *err) PAWL_MUST_CHECK;
void zarr_unpacker_free(zarr_unpacker *u); /* NULL is fine */

#endif
