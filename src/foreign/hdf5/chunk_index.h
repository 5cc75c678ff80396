/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/hdf5/chunk_index: the indexes of chunks of version 4 layouts. Private to this folder. */
#ifndef FOREIGN_HDF5_CHUNK_INDEX_H
#define FOREIGN_HDF5_CHUNK_INDEX_H

#include "foreign/hdf5/dataset.h"

typedef struct chunk_index {
    hdf5_file *f;
    const hdf5_space *space;
    const hdf5_layout *layout;
    hdf5_chunks *out;
    /* Chunks along each dimension, as far as it may grow; of the one without an end it does not
     * count, and that is the slowest in an index. */
    uint64_t most[PAWL_MAX_NDIM];
    int endless;  /* -1: none is */
    uint64_t all; /* chunks; 0: any number */
    /* An element is an address; if chunks have filters, also how many bytes, and a mask. */
    uint64_t element_bytes;
    bool filtered;
} chunk_index;

/* Is element_bytes what elements may have? */
bool chunk_index_fits(const chunk_index *x);
/* Adds those of `n` elements that are there; the first has the number `first`. */
pawl_status chunk_index_elements(const chunk_index *x, uint64_t first, uint64_t n, cursor *c,
                                 pawl_error *err) PAWL_MUST_CHECK;
/* chunk_extensible.c */
pawl_status chunk_index_extensible(chunk_index *x, pawl_error *err) PAWL_MUST_CHECK;

#endif
