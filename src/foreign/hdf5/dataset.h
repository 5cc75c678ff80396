/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/hdf5/dataset: where the elements of datasets are. Private to this folder. */
#ifndef FOREIGN_HDF5_DATASET_H
#define FOREIGN_HDF5_DATASET_H

#include "foreign/hdf5/file.h"

/* ---- layout.c: where the elements of a dataset are ------------------------------------------ */

typedef enum hdf5_filter_id {
    HDF5_DEFLATE = 1,
    HDF5_SHUFFLE = 2,
    HDF5_FLETCHER32 = 3,
    HDF5_LZF = 32000
} hdf5_filter_id;

/* In the order in which a writer applies them: each at most once, but for checksums. */
#define HDF5_MAX_FILTERS 4
typedef struct hdf5_filters {
    unsigned count;
    hdf5_filter_id id[HDF5_MAX_FILTERS];
} hdf5_filters;

typedef enum hdf5_index {
    HDF5_TREE_1,
    HDF5_SINGLE,
    HDF5_IMPLICIT,
    HDF5_FIXED,
    HDF5_EXTENSIBLE,
    HDF5_TREE_2
} hdf5_index;

typedef struct hdf5_layout {
    bool chunked;
    uint64_t at;    /* position, if not chunked; HDF5_NONE: nothing was written */
    uint64_t bytes; /* there */
    int64_t chunk[PAWL_MAX_NDIM];
    uint64_t chunk_bytes; /* of a whole chunk, decoded */
    hdf5_index index;
    uint64_t address;      /* of the index, or of the one chunk */
    bool cut_raw;          /* filters are not applied to chunks that reach beyond the shape */
    uint64_t single_bytes; /* of the one chunk, 0: as chunk_bytes */
    uint32_t single_mask;
    hdf5_filters filters;
    uint8_t fill[16]; /* of the elements that were never written */
    bool filled;      /* else they are zeros */
    uint64_t message; /* position of what says so */
} hdf5_layout;

/* PAWL_EUNSUPPORTED: it is stored in a way that is not read; what is in `out` is not used. */
pawl_status hdf5_layout_read(hdf5_file *f, const hdf5_header *h, const hdf5_space *space,
                             const hdf5_type *type, hdf5_layout *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- chunks.c: the chunks of a dataset ------------------------------------------------------ */

typedef struct hdf5_chunk {
    uint64_t index;  /* in the grid of chunks, row-major */
    uint64_t at;     /* position; HDF5_NONE: not there, nor are those behind it in `box` */
    uint64_t stored; /* bytes there */
    uint64_t out;    /* where its elements begin in the stream of all of them */
    uint32_t mask;   /* a bit for each filter that was not applied */
} hdf5_chunk;

typedef struct hdf5_chunks {
    hdf5_chunk *items; /* ascending by index */
    size_t count, room;
    int ndim;
    uint64_t grid[PAWL_MAX_NDIM]; /* chunks along each dimension */
} hdf5_chunks;

pawl_status hdf5_chunks_read(hdf5_file *f, const hdf5_space *space, const hdf5_layout *layout,
                             hdf5_chunks *out, pawl_error *err) PAWL_MUST_CHECK;
void hdf5_chunks_free(hdf5_chunks *chunks);
/* chunk_index.c: those of version 4 layouts */
pawl_status hdf5_chunks_add(hdf5_file *f, hdf5_chunks *chunks, const hdf5_chunk *chunk,
                            const hdf5_layout *layout, pawl_error *err) PAWL_MUST_CHECK;
pawl_status hdf5_chunks_indexed(hdf5_file *f, const hdf5_space *space, const hdf5_layout *layout,
                                hdf5_chunks *out, pawl_error *err) PAWL_MUST_CHECK;

/* ---- elements.c: tensors of them; chunk_stream.c -------------------------------------------- */

pawl_status hdf5_add_elements(hdf5_file *f, const hdf5_elements *e, const hdf5_layout *layout,
                              pawl_error *err) PAWL_MUST_CHECK;

/* Elements that are compressed, cut, missing, or in another order. */
typedef struct hdf5_stream_spec {
    const hdf5_layout *layout;
    const hdf5_chunk *chunks;
    size_t count;
    int ndim;
    const int64_t *shape;
    uint32_t element_bytes, swap;
    uint64_t bytes; /* of the stream */
} hdf5_stream_spec;
/* Copies all of it. */
pawl_status hdf5_add_stream(hdf5_file *f, const hdf5_stream_spec *spec, uint32_t *out,
                            pawl_error *err) PAWL_MUST_CHECK;
/* Was a stream added so? */
bool hdf5_is_stream(const stream_recipe *recipe);
/* Unpacks each of its chunks that is packed. */
pawl_status hdf5_check_stream(const stream_recipe *recipe, archive *a, source_verifier *v,
                              pawl_error *err) PAWL_MUST_CHECK;

#endif
