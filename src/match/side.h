/* SPDX-License-Identifier: Apache-2.0 */
/* side: one side of a difference as text: "[64, 10] F32", "0.001", "\"AdamW\"". */
#ifndef MATCH_SIDE_H
#define MATCH_SIDE_H

#include "match/match.h"

#define SIDE_BYTES 256 /* longer values are cut and end in "..." */

/* What both a state_entry and a record_entry have. */
typedef struct side {
    pawl_kind kind;
    bool per_rank;
    pawl_dtype dtype; /* tensors */
    const char *type; /* tensors of a type that is no dtype: its name; else NULL */
    int ndim;
    const int64_t *shape;
    const uint8_t *value; /* values that are not per rank */
    size_t value_bytes;
    bool exact; /* numbers with all their digits */
} side;

side side_of_state(const state_entry *e);
side side_of_record(const record_entry *e);

/* Returns `out`. `with_kind` says the kind too: "tensor [64, 10] F32", "int64 5". A float64 that
 * came from a float32 is written with the digits of that, unless `exact`: 0.001, not
 * 0.0010000000474974513. */
const char *side_text(char out[SIDE_BYTES], const side *s, bool with_kind);
/* The first dimension in which two shapes differ; -1: in their number. */
int side_first_difference(int a_ndim, const int64_t *a, int b_ndim, const int64_t *b);
/* Do two values of one kind mean the same? JSON is compared as JSON. */
bool side_values_equal(const side *a, const side *b);

#endif
