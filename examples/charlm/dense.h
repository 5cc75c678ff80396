/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dense: output = input x kernel + bias, and its derivatives. Matrices are row-major:
 * input [rows, inputs], kernel [inputs, outputs], bias [outputs], output [rows, outputs].
 */
#ifndef CHARLM_DENSE_H
#define CHARLM_DENSE_H

#include "variable.h"

void dense_forward(const struct variable *kernel, const struct variable *bias, int64_t rows,
                   const float *input, float *output);

/*
 * From the loss's derivative by the output to those by kernel and bias (into their gradients) and
 * by the input (into `input_gradient`, [rows, inputs]).
 */
void dense_backward(struct variable *kernel, struct variable *bias, int64_t rows,
                    const float *input, const float *output_gradient, float *input_gradient);

#endif
