/* SPDX-License-Identifier: Apache-2.0 */
/* torch/numpy: arrays and numbers of NumPy in a pickle. */
#ifndef FOREIGN_TORCH_NUMPY_H
#define FOREIGN_TORCH_NUMPY_H

#include "foreign/archive.h"
#include "foreign/pickle/pickle.h"

typedef struct numpy_type {
    char kind;      /* b, i, u, f, c */
    uint32_t bytes; /* of an element: at most 16 */
    bool swapped;   /* it is big-endian */
} numpy_type;

/* A number of NumPy, little-endian; false: it is none. */
bool numpy_take_scalar(const pickle_node *node, numpy_type *type, uint8_t bytes[16]);
/* Is it an array of numbers? */
bool numpy_is_array(const pickle_node *node);
/* Adds such an array as a tensor: row-major, little-endian, in the archive's memory. *is is false,
 * and nothing was added, where its bytes are not as many as its shape needs. */
pawl_status numpy_add_array(archive *a, const char *name, const pickle_node *node, bool *is,
                            pawl_error *err) PAWL_MUST_CHECK;

#endif
