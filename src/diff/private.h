/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/diff share. */
#ifndef DIFF_PRIVATE_H
#define DIFF_PRIVATE_H

#include "checkpoint/checkpoint.h"
#include "diff/diff.h"

typedef struct comparison {
    pawl_checkpoint *a, *b;
    int world_size; /* the larger of the two */
    pawl_diff_options options;
    uint64_t of_bytes;    /* to be read in all */
    uint64_t read_before; /* what the two handles had read when this began */
    pawl_diff_result *result;
} comparison;

/* The bytes of a tensor in both, where they are in memory already. */
typedef struct tensor_bytes {
    const uint8_t *a, *b;
} tensor_bytes;

/* Tells how much of the two was read, and asks whether to go on. */
pawl_status diff_go_on(const comparison *c, pawl_error *err) PAWL_MUST_CHECK;
/* Tells one difference; `distances` may be NULL. */
void diff_tell(const comparison *c, pawl_diff_kind kind, const pawl_entry_info *a,
               const pawl_entry_info *b, const pawl_distances *distances);
/* An entry that both have: tells each difference and counts the entry. `bytes` NULL: they are yet
 * to be read. */
pawl_status diff_entry(comparison *c, const pawl_entry_info *a, const pawl_entry_info *b,
                       const tensor_bytes *bytes, pawl_error *err) PAWL_MUST_CHECK;
/* Are they tensors of one dtype, which is known, and of one shape? */
bool diff_tensors_alike(const pawl_entry_info *a, const pawl_entry_info *b);
/* Compares the numbers of two tensors of one type and shape, as it reads them where `bytes` is
 * NULL. */
pawl_status diff_numbers(const comparison *c, const pawl_entry_info *info,
                         const tensor_bytes *bytes, pawl_distances *d, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
