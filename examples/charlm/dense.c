/* SPDX-License-Identifier: Apache-2.0 */
/* dense: a fully connected layer over OpenBLAS. */
#include "dense.h"

#include <string.h>

#include <cblas.h>

void dense_forward(const struct variable *kernel, const struct variable *bias, int64_t rows,
                   const float *input, float *output) {
    blasint inputs = (blasint)kernel->shape[0];
    blasint outputs = (blasint)kernel->shape[1];
    for (int64_t row = 0; row < rows; row++) {
        memcpy(output + row * outputs, bias->value, (size_t)outputs * sizeof(float));
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)rows, outputs, inputs, 1.0F,
                input, inputs, kernel->value, outputs, 1.0F, output, outputs);
}

static void sum_rows(const float *matrix, int64_t rows, int64_t columns, float *sum) {
    memset(sum, 0, (size_t)columns * sizeof(float));
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t column = 0; column < columns; column++) {
            sum[column] += matrix[row * columns + column];
        }
    }
}

void dense_backward(struct variable *kernel, struct variable *bias, int64_t rows,
                    const float *input, const float *output_gradient, float *input_gradient) {
    blasint inputs = (blasint)kernel->shape[0];
    blasint outputs = (blasint)kernel->shape[1];
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, inputs, outputs, (blasint)rows, 1.0F,
                input, inputs, output_gradient, outputs, 0.0F, kernel->gradient, outputs);
    sum_rows(output_gradient, rows, outputs, bias->gradient);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (blasint)rows, inputs, outputs, 1.0F,
                output_gradient, outputs, kernel->value, outputs, 0.0F, input_gradient, inputs);
}
