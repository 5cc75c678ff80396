/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as numbers and as text. */
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <pawl/tensor.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBER_SIZE 64 /* of the `out` arrays below */

/* Significant digits: for people, and for programs (any double reads back as itself). */
enum { SHOWN_DIGITS = 6, EXACT_DIGITS = 17 };

/* The shortest text that reads back as the same number, but at most `digits` significant digits;
 * "nan", "inf", "-inf". Returns out. */
const char *number_text(char out[NUMBER_SIZE], double value, int digits);

/* Can single elements be read? Not of packed dtypes; the functions below take none of those. */
bool numbers_known(pawl_dtype dtype);
/* Bytes of one element. */
size_t numbers_size(pawl_dtype dtype);
/* Significant digits that tell any two numbers of the dtype apart. */
int numbers_digits(pawl_dtype dtype);

/* The element at `from` as text: "true", "-3", "0.25", "1.5-2j". At most `digits` significant
 * digits for floats; 0: as many as it takes. Returns out. */
const char *numbers_element(char out[NUMBER_SIZE], pawl_dtype dtype, const void *from, int digits);

/* Converts elements to doubles; complex ones to their magnitude. */
void numbers_widen(pawl_dtype dtype, const void *from, double *to, size_t count);
/* I64 or U64: doubles cannot hold all of their values. */
bool numbers_wide(pawl_dtype dtype);
/* Is the I64 or U64 at `a` less than the one at `b`? */
bool numbers_below(pawl_dtype dtype, const void *a, const void *b);

#endif
