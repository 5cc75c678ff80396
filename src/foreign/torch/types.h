/* SPDX-License-Identifier: Apache-2.0 */
/* torch/types: what PyTorch calls its types. */
#ifndef FOREIGN_TORCH_TYPES_H
#define FOREIGN_TORCH_TYPES_H

#include "base/base.h"

typedef struct torch_type {
    const char *name;    /* of torch.<name> */
    const char *storage; /* of torch.<storage>; NULL: an untyped one, of newer types */
    const char *type;    /* what it is called, where dtype is 0: none of pawl's; or where an
                            element is two of it (archive_tensor.type) */
    pawl_dtype dtype;
    uint32_t bytes; /* of an element */
} torch_type;

/* NULL: there is none. */
const torch_type *torch_type_of(pawl_dtype dtype);
const torch_type *torch_type_named(const char *name);
const torch_type *torch_type_of_storage(const char *storage);
/* Of a tensor that is to be conjugated, else negated, once it is read: none of pawl's. */
const torch_type *torch_type_changed(const torch_type *type, bool conjugate);

#endif
