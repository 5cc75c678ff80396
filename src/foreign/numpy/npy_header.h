/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foreign/numpy/npy_header: what stands before the elements of a .npy (versions 1 to 3). It is a
 * dictionary in Python's notation, read by a parser of its own: nothing is evaluated.
 */
#ifndef FOREIGN_NPY_HEADER_H
#define FOREIGN_NPY_HEADER_H

#include "foreign/foreign.h"

#define NPY_START_BYTES 12u /* enough for npy_header_bytes */

typedef struct npy_header {
    pawl_dtype dtype;                    /* 0: `type` says what it is */
    char type[FORMAT_MAX_TYPE_NAME + 1]; /* "U5", "STRUCT"; "C128", of two dtype; else "" */
    uint32_t element_bytes;              /* 0: not known */
    uint32_t swap_bytes;                 /* of so many bytes each the order is reversed; 1: none */
    bool column_major;
    int ndim;
    int64_t shape[PAWL_MAX_NDIM];
    uint64_t elements;
    size_t bytes; /* of the header, all of it: here the elements begin */
} npy_header;

bool npy_looks_like(const uint8_t *head, size_t n);
/* How long the whole header is, from the first bytes of a file of `size` bytes. */
pawl_status npy_header_bytes(const uint8_t *start, size_t n, uint64_t size, size_t *out,
                             pawl_error *err) PAWL_MUST_CHECK;
/* `n` is that. PAWL_EDAMAGED, PAWL_EUNSUPPORTED: with the byte. */
pawl_status npy_header_decode(const uint8_t *header, size_t n, npy_header *out, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
