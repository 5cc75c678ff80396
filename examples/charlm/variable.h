/* SPDX-License-Identifier: Apache-2.0 */
/* variable: a named array of floats that training changes, and its gradient. */
#ifndef CHARLM_VARIABLE_H
#define CHARLM_VARIABLE_H

#include <stddef.h>
#include <stdint.h>

struct variable {
    const char *name; /* "model/dense1/kernel" */
    int ndim;         /* 1 or 2 */
    int64_t shape[2];
    float *value;
    float *gradient;
};

void variable_open(struct variable *variable, const char *name, int ndim, int64_t rows,
                   int64_t columns);
void variable_close(struct variable *variable);
/* Number of elements. */
size_t variable_size(const struct variable *variable);

#endif
