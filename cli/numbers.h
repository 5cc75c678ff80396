/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of tensors as numbers and as text. */
#ifndef CLI_NUMBERS_H
#define CLI_NUMBERS_H

#include <pawl/tensor.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NUMBER_SIZE 64 /* of the arrays that are written to below */

/* Significant digits: for people, and for programs (any double reads back as itself). */
enum { SHOWN_DIGITS = 6, EXACT_DIGITS = 17 };

/* The shortest text of at most `digits` significant digits that reads back as the same number, or
 * else the one with `digits`; "nan", "inf", "-inf". Returns out. */
const char *number_text(char out[NUMBER_SIZE], double value, int digits);

/* Whether elements of a dtype can be looked at: not the packed ones. */
bool numbers_known(pawl_dtype dtype);
/* Bytes of one element of a known dtype. */
size_t numbers_size(pawl_dtype dtype);
/* Significant digits that tell any two numbers of the dtype apart. */
int numbers_digits(pawl_dtype dtype);

/* The element at `from` as text: "true", "-3", "0.25", "1.5-2j". At most `digits` significant
 * digits for floats; 0: as many as it takes. Returns out. */
const char *numbers_element(char out[NUMBER_SIZE], pawl_dtype dtype, const void *from, int digits);

/* Widens elements of a known dtype; complex ones to their magnitude. */
void numbers_widen(pawl_dtype dtype, const void *from, double *to, size_t count);
/* Is the 64-bit integer at `a` below the one at `b`? Exact, as doubles are not. */
bool numbers_below(pawl_dtype dtype, const void *a, const void *b);
bool numbers_wide(pawl_dtype dtype); /* one of those, I64 or U64 */
/* |a - b| of each pair of a known dtype: exact for 64-bit integers, NaN where one side is NaN. */
void numbers_distance(pawl_dtype dtype, const void *a, const void *b, double *to, size_t count);

#endif
