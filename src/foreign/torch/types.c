/* SPDX-License-Identifier: Apache-2.0 */
/* The types of PyTorch, and the classes of storages that older ones have. */
#include "foreign/torch/types.h"

#include <string.h>

static const torch_type types[] = {
    {"bool", "BoolStorage", PAWL_BOOL, NULL, 1},
    {"uint8", "ByteStorage", PAWL_U8, NULL, 1},
    {"int8", "CharStorage", PAWL_I8, NULL, 1},
    {"float8_e5m2", NULL, PAWL_F8_E5M2, NULL, 1},
    {"float8_e4m3fn", NULL, PAWL_F8_E4M3, NULL, 1},
    {"float8_e8m0fnu", NULL, PAWL_F8_E8M0, NULL, 1},
    {"float8_e4m3fnuz", NULL, PAWL_F8_E4M3FNUZ, NULL, 1},
    {"float8_e5m2fnuz", NULL, PAWL_F8_E5M2FNUZ, NULL, 1},
    {"int16", "ShortStorage", PAWL_I16, NULL, 2},
    {"uint16", NULL, PAWL_U16, NULL, 2},
    {"float16", "HalfStorage", PAWL_F16, NULL, 2},
    {"bfloat16", "BFloat16Storage", PAWL_BF16, NULL, 2},
    {"int32", "IntStorage", PAWL_I32, NULL, 4},
    {"uint32", NULL, PAWL_U32, NULL, 4},
    {"float32", "FloatStorage", PAWL_F32, NULL, 4},
    {"complex64", "ComplexFloatStorage", PAWL_C64, NULL, 8},
    {"float64", "DoubleStorage", PAWL_F64, NULL, 8},
    {"int64", "LongStorage", PAWL_I64, NULL, 8},
    {"uint64", NULL, PAWL_U64, NULL, 8},
    {"complex32", NULL, 0, "C32", 4},
    {"complex128", "ComplexDoubleStorage", 0, "C128", 16},
    {"float4_e2m1fn_x2", NULL, 0, "F4_X2", 1},
    {"qint8", "QInt8Storage", 0, "QINT8", 1},
    {"quint8", "QUInt8Storage", 0, "QUINT8", 1},
    {"qint32", "QInt32Storage", 0, "QINT32", 4},
    {"quint4x2", "QUInt4x2Storage", 0, "QUINT4X2", 1},
    {"quint2x4", "QUInt2x4Storage", 0, "QUINT2X4", 1},
};

/* What a tensor has that is to be changed once more when it is read. */
static const torch_type conjugated[] = {
    {"complex32", NULL, 0, "C32_CONJ", 4},
    {"complex64", NULL, 0, "C64_CONJ", 8},
    {"complex128", NULL, 0, "C128_CONJ", 16},
};
static const torch_type negated = {"", NULL, 0, "NEGATED", 1};

const torch_type *torch_type_of(pawl_dtype dtype) {
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        if (types[i].dtype == dtype && dtype != 0) {
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
