/* SPDX-License-Identifier: Apache-2.0 */
/* Finds an op in the table of XLA's kernels, and names the types of TensorFlow. */
#include "doctor/xla.h"

#include <stdio.h>
#include <string.h>

static int compare(const char *op, const void *text, size_t n) {
    size_t length = strlen(op);
    int order = memcmp(op, text, length < n ? length : n);
    return order != 0 ? order : (length > n) - (length < n);
}

const xla_kernel *xla_kernel_find(const void *op, size_t n) {
    size_t low = 0;
    size_t high = xla_kernel_count;
    while (n > 0 && low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(xla_kernels[middle].op, op, n) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    bool found = n > 0 && low < xla_kernel_count && compare(xla_kernels[low].op, op, n) == 0;
    return found ? &xla_kernels[low] : NULL;
}

bool xla_kernel_is_of(const xla_kernel *kernel, const char *op) {
    return kernel < xla_kernels + xla_kernel_count && strcmp(kernel->op, op) == 0;
}

const char *xla_type_name(uint32_t type, char room[32]) {
    static const char *const names[] = {
        NULL,
        "float32",
        "float64",
        "int32",
        "uint8",
        "int16",
        "int8",
        "string",
        "complex64",
        "int64",
        "bool",
        "qint8",
        "quint8",
        "qint32",
        "bfloat16",
        "qint16",
        "quint16",
        "uint16",
        "complex128",
        "float16",
        "resource",
        "variant",
        "uint32",
        "uint64",
        "float8_e5m2",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e4m3b11fnuz",
        "float8_e5m2fnuz",
        "int4",
        "uint4",
        "int2",
        "uint2",
        "float4_e2m1fn",
    };
    if (type < ARRAY_LENGTH(names) && names[type] != NULL) {
        return names[type];
    }
    (void)snprintf(room, 32, "type %u", type);
    return room;
}
