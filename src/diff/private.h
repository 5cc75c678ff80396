/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/diff share. */
#ifndef DIFF_PRIVATE_H
#define DIFF_PRIVATE_H

#include "checkpoint/checkpoint.h"
#include "diff/diff.h"
#include "match/rename.h"

typedef struct comparison {
    pawl_checkpoint *a, *b;
    int world_size; /* the larger of the two */
    pawl_diff_options options;
    uint64_t of_bytes;    /* to be read in all */
    uint64_t read_before; /* what the two handles had read when this began */
    pawl_diff_result *result;
    pawl_restore_options renames; /* what rename_apply takes */
    buffer slot_of;               /* of A's entry, renamed */
    const char *name;             /* by which the entry that is compared is told */
} comparison;

/* An entry of A by the name that it is compared by. */
typedef struct renamed_entry {
    const char *name, *from;
} renamed_entry;
/* All of A, ascending by their new names. */
typedef struct renamed_entries {
    arena memory;
    renamed_entry *items;
    size_t count, capacity;
} renamed_entries;
pawl_status diff_rename(const comparison *c, renamed_entries *out, pawl_error *err) PAWL_MUST_CHECK;
void renamed_entries_free(renamed_entries *r); /* for CLEANUP */

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
/* Is A's tensor to be transposed before it is compared? */
bool diff_is_transposed(const comparison *c, const pawl_entry_info *a);
/* Are they tensors of one dtype, which is known, and of one shape? */
bool diff_tensors_alike(const comparison *c, const pawl_entry_info *a, const pawl_entry_info *b);
/* Compares the numbers of two tensors of one type and shape, as it reads them where `bytes` is
 * NULL. */
pawl_status diff_numbers(const comparison *c, const pawl_entry_info *a, const pawl_entry_info *b,
                         const tensor_bytes *bytes, pawl_distances *d, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- transpose.c ---------------------------------------------------------------------------- */

/* Turns `rows` rows of `columns` elements of `size` bytes into as many columns. */
void diff_turn(const uint8_t *from, size_t rows, size_t columns, size_t size, uint8_t *to);
/* Dense parts of A, transposed, and of B, in the same order. */
typedef void (*diff_part)(void *context, const uint8_t *a, const uint8_t *b, uint64_t count);
/* Reads B, and A turned to its shape, tile by tile; elements have `size` whole bytes. */
pawl_status diff_read_turned(const comparison *c, const pawl_entry_info *a,
                             const pawl_entry_info *b, size_t size, diff_part part, void *context,
                             pawl_error *err) PAWL_MUST_CHECK;

#endif
