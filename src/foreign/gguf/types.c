/* SPDX-License-Identifier: Apache-2.0 */
/* The types of GGUF, by their numbers (the headers of ggml). */
#include "foreign/gguf/types.h"

static const gguf_type types[] = {
    [0] = {"F32", PAWL_F32, 1, 4},    [1] = {"F16", PAWL_F16, 1, 2},
    [2] = {"Q4_0", 0, 32, 18},        [3] = {"Q4_1", 0, 32, 20},
    [6] = {"Q5_0", 0, 32, 22},        [7] = {"Q5_1", 0, 32, 24},
    [8] = {"Q8_0", 0, 32, 34},        [9] = {"Q8_1", 0, 32, 36},
    [10] = {"Q2_K", 0, 256, 84},      [11] = {"Q3_K", 0, 256, 110},
    [12] = {"Q4_K", 0, 256, 144},     [13] = {"Q5_K", 0, 256, 176},
    [14] = {"Q6_K", 0, 256, 210},     [15] = {"Q8_K", 0, 256, 292},
    [16] = {"IQ2_XXS", 0, 256, 66},   [17] = {"IQ2_XS", 0, 256, 74},
    [18] = {"IQ3_XXS", 0, 256, 98},   [19] = {"IQ1_S", 0, 256, 50},
    [20] = {"IQ4_NL", 0, 32, 18},     [21] = {"IQ3_S", 0, 256, 110},
    [22] = {"IQ2_S", 0, 256, 82},     [23] = {"IQ4_XS", 0, 256, 136},
    [24] = {"I8", PAWL_I8, 1, 1},     [25] = {"I16", PAWL_I16, 1, 2},
    [26] = {"I32", PAWL_I32, 1, 4},   [27] = {"I64", PAWL_I64, 1, 8},
    [28] = {"F64", PAWL_F64, 1, 8},   [29] = {"IQ1_M", 0, 256, 56},
    [30] = {"BF16", PAWL_BF16, 1, 2}, [34] = {"TQ1_0", 0, 256, 54},
    [35] = {"TQ2_0", 0, 256, 66},     [39] = {"MXFP4", 0, 32, 17},
    [40] = {"NVFP4", 0, 64, 36},      [41] = {"Q1_0", 0, 128, 18},
    [42] = {"Q2_0", 0, 64, 18},
};

const gguf_type *gguf_type_of(uint32_t number) {
    return number < ARRAY_LENGTH(types) && types[number].name != NULL ? &types[number] : NULL;
}

pawl_dtype gguf_value_dtype(uint32_t type) {
    static const pawl_dtype dtypes[] = {
        [GGUF_U8] = PAWL_U8,   [GGUF_I8] = PAWL_I8,     [GGUF_U16] = PAWL_U16,
        [GGUF_I16] = PAWL_I16, [GGUF_U32] = PAWL_U32,   [GGUF_I32] = PAWL_I32,
        [GGUF_F32] = PAWL_F32, [GGUF_BOOL] = PAWL_BOOL, [GGUF_U64] = PAWL_U64,
        [GGUF_I64] = PAWL_I64, [GGUF_F64] = PAWL_F64,
    };
    return type < ARRAY_LENGTH(dtypes) ? dtypes[type] : 0;
}
