/* SPDX-License-Identifier: Apache-2.0 */
/* The types of PyTorch, and the classes of storages that older ones have. */
#include "foreign/torch/types.h"

#include <string.h>

static const torch_type types[] = {
    {"bool", "BoolStorage", NULL, PAWL_BOOL, 1},
    {"uint8", "ByteStorage", NULL, PAWL_U8, 1},
    {"int8", "CharStorage", NULL, PAWL_I8, 1},
    {"float8_e5m2", NULL, NULL, PAWL_F8_E5M2, 1},
    {"float8_e4m3fn", NULL, NULL, PAWL_F8_E4M3, 1},
    {"float8_e8m0fnu", NULL, NULL, PAWL_F8_E8M0, 1},
    {"float8_e4m3fnuz", NULL, NULL, PAWL_F8_E4M3FNUZ, 1},
    {"float8_e5m2fnuz", NULL, NULL, PAWL_F8_E5M2FNUZ, 1},
    {"int16", "ShortStorage", NULL, PAWL_I16, 2},
    {"uint16", NULL, NULL, PAWL_U16, 2},
    {"float16", "HalfStorage", NULL, PAWL_F16, 2},
    {"bfloat16", "BFloat16Storage", NULL, PAWL_BF16, 2},
    {"int32", "IntStorage", NULL, PAWL_I32, 4},
    {"uint32", NULL, NULL, PAWL_U32, 4},
    {"float32", "FloatStorage", NULL, PAWL_F32, 4},
    {"complex64", "ComplexFloatStorage", NULL, PAWL_C64, 8},
    {"float64", "DoubleStorage", NULL, PAWL_F64, 8},
    {"int64", "LongStorage", NULL, PAWL_I64, 8},
    {"uint64", NULL, NULL, PAWL_U64, 8},
    {"complex32", NULL, "C32", PAWL_F16, 4},
    {"complex128", "ComplexDoubleStorage", "C128", PAWL_F64, 16},
    {"float4_e2m1fn_x2", NULL, "F4_X2", 0, 1},
    {"qint8", "QInt8Storage", "QINT8", 0, 1},
    {"quint8", "QUInt8Storage", "QUINT8", 0, 1},
    {"qint32", "QInt32Storage", "QINT32", 0, 4},
    {"quint4x2", "QUInt4x2Storage", "QUINT4X2", 0, 1},
    {"quint2x4", "QUInt2x4Storage", "QUINT2X4", 0, 1},
};

/* What a tensor has that is to be changed once more when it is read, and is not. */
static const torch_type conjugated[] = {
    {"complex32", NULL, "C32_CONJ", 0, 4},
    {"complex64", NULL, "C64_CONJ", 0, 8},
    {"complex128", NULL, "C128_CONJ", 0, 16},
};
static const torch_type negated = {"", NULL, "NEGATED", 0, 1};

const torch_type *torch_type_of(pawl_dtype dtype) {
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        if (types[i].dtype == dtype && types[i].type == NULL) {
            return &types[i];
        }
    }
    return NULL;
}

const torch_type *torch_type_named(const char *name) {
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        if (strcmp(types[i].name, name) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

const torch_type *torch_type_of_storage(const char *storage) {
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        if (types[i].storage != NULL && strcmp(types[i].storage, storage) == 0) {
            return &types[i];
        }
    }
    return NULL;
}

const torch_type *torch_type_changed(const torch_type *type, bool conjugate) {
    for (size_t i = 0; conjugate && i < ARRAY_LENGTH(conjugated); i++) {
        if (strcmp(conjugated[i].name, type->name) == 0) {
            return &conjugated[i];
        }
    }
    return &negated;
}
