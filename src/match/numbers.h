/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers: the numbers in names of entries, to find names that differ in nothing else:
 * "dense/kernel" and "dense_1/kernel", "layers.0.weight" and "layers.11.weight".
 */
#ifndef MATCH_NUMBERS_H
#define MATCH_NUMBERS_H

#include "match/match.h"

#define NUMBERS_MAX 16 /* of a name; further digits are text */

/* Every component ends in a number: the one after its last '_', or 0 where none is given. */
typedef struct numbers {
    int count;
    uint32_t value[NUMBERS_MAX];
    uint16_t begin[NUMBERS_MAX], end[NUMBERS_MAX]; /* its bytes in the name, '_' included */
    bool given[NUMBERS_MAX];
} numbers;

/* Reads the numbers of a name, and the name without them into `mask`: equal for names that differ
 * in nothing else. */
void numbers_read(const char *name, char mask[PAWL_MAX_NAME_BYTES + 1], numbers *out);
/* Lexicographic; only for names with equal masks. */
int numbers_compare(const numbers *a, const numbers *b);
/* The first number in which two differ; -1: none. */
int numbers_first_difference(const numbers *a, const numbers *b);
/* Are the numbers written in two names the same? Their masks may differ. */
bool numbers_same_given(const numbers *a, const numbers *b);
/* Does `name` begin as `of` does up to its number `i`, with no more digits? `n` are the numbers of
 * `of`. */
bool numbers_in_unit(const char *name, const char *of, const numbers *n, int i);

#endif
