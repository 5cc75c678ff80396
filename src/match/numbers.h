/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numbers: names of entries that differ in nothing but numbers: "dense/kernel" and
 * "dense_1/kernel", "layers.0.weight" and "layers.11.weight".
 */
#ifndef MATCH_NUMBERS_H
#define MATCH_NUMBERS_H

#include "match/match.h"

#define NUMBERS_MAX 16 /* of a name; what stands behind them is text */

/* A component ends in a number: that behind its last '_', or 0 where there is none. */
typedef struct numbers {
    int count;
    uint32_t value[NUMBERS_MAX];
    uint16_t begin[NUMBERS_MAX], end[NUMBERS_MAX]; /* its bytes of the name, '_' included */
    bool given[NUMBERS_MAX];
} numbers;

/* Reads the numbers of a name, and what the name is without them: equal for names that differ in
 * nothing else. */
void numbers_read(const char *name, char mask[PAWL_MAX_NAME_BYTES + 1], numbers *out);
/* Lexicographic; only of names that are alike without their numbers. */
int numbers_compare(const numbers *a, const numbers *b);
/* The first number in which two differ; -1: none. */
int numbers_first_difference(const numbers *a, const numbers *b);
/* Do two names, of any texts, have the same numbers written in them? */
bool numbers_same_given(const numbers *a, const numbers *b);
/* Is the name in what is named up to its number `i`? */
bool numbers_in_unit(const char *name, const char *of, const numbers *n, int i);

#endif
