/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch/sequences: which names are those of lists, tuples and sets. A list without tensors is one
 * value; of one that has tensors the names cannot say whether they were in a list, or in a dict
 * with integer keys. So the entry TORCH_SEQUENCES says it: {"list": [NAME, ...], "tuple": [...]},
 * "" for the whole. It is there where there are such lists, and goes through every format that
 * keeps values, so that lists are lists again where objects of Python are written.
 */
#ifndef FOREIGN_TORCH_SEQUENCES_H
#define FOREIGN_TORCH_SEQUENCES_H

#include "foreign/archive.h"
#include "foreign/writer.h"

#define TORCH_SEQUENCES "__sequences__"

typedef enum torch_sequence { TORCH_DICT, TORCH_LIST, TORCH_TUPLE, TORCH_SET } torch_sequence;

typedef struct torch_named_sequence {
    const char *name;
    torch_sequence kind;
} torch_named_sequence;

typedef struct torch_sequences {
    torch_named_sequence *items; /* ascending by name once sorted, each once */
    size_t count, room;
    arena memory;
} torch_sequences;

pawl_status torch_sequences_note(torch_sequences *s, const char *name, size_t n,
                                 torch_sequence kind, pawl_error *err) PAWL_MUST_CHECK;
/* Adds the entry, unless there is nothing to say. */
pawl_status torch_sequences_add(torch_sequences *s, archive *a, pawl_error *err) PAWL_MUST_CHECK;
/* Reads what is among the items; nothing where there is none. */
pawl_status torch_sequences_take(torch_sequences *s, const writer_item *items, size_t count,
                                 pawl_error *err) PAWL_MUST_CHECK;
/* What is the dict of that name? TORCH_DICT also where the items below it, which are those from
 * `low` to `high`, are not the places 0, 1, ... `prefix`: where what is below it begins in their
 * names. */
torch_sequence torch_sequence_of(const torch_sequences *s, const writer_item *items, size_t low,
                                 size_t high, size_t prefix);
void torch_sequences_free(torch_sequences *s); /* for CLEANUP */

/* writer_format.misfit */
pawl_status torch_misfit(const writer_item *last, const writer_item *items, size_t count,
                         bool renamed, const char **why, pawl_error *err) PAWL_MUST_CHECK;

#endif
