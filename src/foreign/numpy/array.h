/* SPDX-License-Identifier: Apache-2.0 */
/* foreign/numpy/array: one array of a .npy as a tensor of an archive. */
#ifndef FOREIGN_NUMPY_ARRAY_H
#define FOREIGN_NUMPY_ARRAY_H

#include "foreign/archive.h"
#include "foreign/numpy/npy_header.h"

/* Where a .npy is. */
typedef struct npy_place {
    uint32_t file, stream; /* the file that it is in; the stream, that may be the file itself */
    uint64_t offset, bytes;
} npy_place;

/* PAWL_EDAMAGED where its elements are more or fewer bytes than the place has. */
pawl_status npy_add(archive *a, const char *name, const npy_header *header, const npy_place *place,
                    pawl_error *err) PAWL_MUST_CHECK;
/* The name without ".npy", as an entry can have it. */
pawl_status npy_entry_name(archive *a, const char *name, const char **out, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
