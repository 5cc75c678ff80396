/* SPDX-License-Identifier: Apache-2.0 */
/* gguf/types: the types of tensors, and of metadata. */
#ifndef FOREIGN_GGUF_TYPES_H
#define FOREIGN_GGUF_TYPES_H

#include "base/base.h"

/* Of a tensor: elements come in blocks; a type that is no dtype has blocks that are quantized. */
typedef struct gguf_type {
    const char *name;
    pawl_dtype dtype;         /* 0: quantized */
    uint32_t elements, bytes; /* of a block */
} gguf_type;
/* NULL: a number that no type has. */
const gguf_type *gguf_type_of(uint32_t number);

enum gguf_value {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
};
/* 0: no number. */
pawl_dtype gguf_value_dtype(uint32_t type);

#endif
