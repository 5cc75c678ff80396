/* SPDX-License-Identifier: Apache-2.0 */
/* doctor/xla: which ops an accelerator can be given: those that XLA has kernels for (J07). */
#ifndef DOCTOR_XLA_H
#define DOCTOR_XLA_H

#include "base/base.h"

#define XLA_MAX_ATTRIBUTES 4

/* What an attribute's type may be: a bit for each number of types.proto. */
typedef struct xla_limit {
    const char *attribute;
    uint64_t types;
} xla_limit;

typedef struct xla_kernel {
    const char *op;
    xla_limit limits[XLA_MAX_ATTRIBUTES]; /* the rest is NULL */
} xla_kernel;

/* ---- xla_kernels.c, which tools/xla_table writes -------------------------------------------- */

extern const char xla_version[]; /* of TensorFlow, whose table it is */
extern const xla_kernel xla_kernels[];
extern const size_t xla_kernel_count;

/* ---- xla.c ---------------------------------------------------------------------------------- */

/* The first kernel of an op; others of it follow. NULL: there is none. */
const xla_kernel *xla_kernel_find(const void *op, size_t n);
/* Is this one of the same op, too? `kernel` may be the end of the table. */
bool xla_kernel_is_of(const xla_kernel *kernel, const char *op);
/* "float32"; of a number that TensorFlow 2.21 does not have: "type 99". */
const char *xla_type_name(uint32_t type, char room[32]);

#endif
