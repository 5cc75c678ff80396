/* SPDX-License-Identifier: Apache-2.0 */
/* variable: memory of one variable and its gradient. */
#include "variable.h"

#include <stdlib.h>

#include "die.h"

void variable_open(struct variable *variable, const char *name, int ndim, int64_t rows,
                   int64_t columns) {
    *variable = (struct variable){.name = name, .ndim = ndim, .shape = {rows, columns}};
    variable->value = allocate(variable_size(variable), sizeof(float));
    variable->gradient = allocate(variable_size(variable), sizeof(float));
}

void variable_close(struct variable *variable) {
    free(variable->value);
    free(variable->gradient);
}

size_t variable_size(const struct variable *variable) {
    return (size_t)(variable->shape[0] * (variable->ndim == 2 ? variable->shape[1] : 1));
}
