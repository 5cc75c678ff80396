/* SPDX-License-Identifier: Apache-2.0 */
/* The table of element types: names and widths are those of the safetensors format. */
#include "tensor/tensor.h"

#include <string.h>

typedef struct dtype_facts {
    const char *name;
    int bits;
} dtype_facts;

static const dtype_facts dtypes[] = {
    [PAWL_BOOL] = {"BOOL", 8},
    [PAWL_F4] = {"F4", 4},
    [PAWL_F6_E2M3] = {"F6_E2M3", 6},
    [PAWL_F6_E3M2] = {"F6_E3M2", 6},
    [PAWL_U8] = {"U8", 8},
    [PAWL_I8] = {"I8", 8},
    [PAWL_F8_E5M2] = {"F8_E5M2", 8},
    [PAWL_F8_E4M3] = {"F8_E4M3", 8},
    [PAWL_F8_E8M0] = {"F8_E8M0", 8},
    [PAWL_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
    [PAWL_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
    [PAWL_I16] = {"I16", 16},
    [PAWL_U16] = {"U16", 16},
    [PAWL_F16] = {"F16", 16},
    [PAWL_BF16] = {"BF16", 16},
    [PAWL_I32] = {"I32", 32},
    [PAWL_U32] = {"U32", 32},
    [PAWL_F32] = {"F32", 32},
    [PAWL_C64] = {"C64", 64},
    [PAWL_F64] = {"F64", 64},
    [PAWL_I64] = {"I64", 64},
    [PAWL_U64] = {"U64", 64},
};

bool dtype_valid(pawl_dtype dtype) {
    /* As a long: a caller or a file may hand in any number. */
    long number = (long)dtype;
    return number > 0 && number < (long)ARRAY_LENGTH(dtypes);
}

const char *pawl_dtype_name(pawl_dtype dtype) {
    return dtype_valid(dtype) ? dtypes[dtype].name : NULL;
}

pawl_dtype pawl_dtype_from_name(const char *name) {
    for (size_t i = 1; name != NULL && i < ARRAY_LENGTH(dtypes); i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            return (pawl_dtype)i;
        }
    }
    return (pawl_dtype)0;
}

int pawl_dtype_bits(pawl_dtype dtype) {
    return dtype_valid(dtype) ? dtypes[dtype].bits : 0;
}

size_t dtype_alignment(pawl_dtype dtype) {
    int bits = pawl_dtype_bits(dtype);
    return bits < 8 ? 1 : (size_t)bits / 8;
}

pawl_dtype dtype_of_value(pawl_kind kind) {
    switch (kind) {
    case PAWL_KIND_BOOL:
        return PAWL_BOOL;
    case PAWL_KIND_INT64:
        return PAWL_I64;
    case PAWL_KIND_FLOAT64:
        return PAWL_F64;
    default:
        return PAWL_U8;
    }
}

bool dtype_castable(pawl_dtype dtype) {
    return dtype == PAWL_F64 || dtype == PAWL_F32 || dtype == PAWL_F16 || dtype == PAWL_BF16;
}
