/* SPDX-License-Identifier: Apache-2.0 */
/* votes/merge: what merge.c and merge_entry.c share. Nobody else includes it. */
#ifndef VOTES_MERGE_H
#define VOTES_MERGE_H

#include "base/heap.h"
#include "votes/private.h"

#define VOTERS_AHEAD 8 /* how far ahead voters are prefetched */

/* A vote that is being merged, at one of its records. */
typedef struct voter {
    const vote *head;
    uint32_t first_file;        /* of the manifest, where those of this rank begin */
    const uint8_t *key, *value; /* key NULL: at the end */
    size_t key_bytes, value_bytes;
    table_cursor *at;
    vote_table table;
} voter;

/* All that is known of one name. */
typedef struct merge_entry {
    voter **voters; /* that have it, by rank */
    size_t voter_count, voter_capacity;
    record_entry *parts; /* of each */
    size_t part_capacity;
    record_piece *pieces; /* of all */
    size_t piece_capacity;
    arena memory; /* of the parts */
    size_t used;  /* parts in `memory` */
    buffer key, value;
} merge_entry;
void merge_entry_free(merge_entry *e);

/* Joins what the voters have of an entry, checks it and adds its record; or adds what is wrong with
 * it to `faults`. */
pawl_status merge_put_entry(merge_entry *e, table_writer *w, mismatches *faults, pawl_error *err)
    PAWL_MUST_CHECK;
/* Replicas with the same box have the same sum, else `faults`. */
pawl_status merge_check_replicas(merge_entry *e, mismatches *faults, pawl_error *err)
    PAWL_MUST_CHECK;

struct merge {
    store *store;
    const votes *votes;
    engine *watched; /* told of progress; or NULL */
    char directory[STORE_MAX_PATH], tag[FORMAT_TAG_CHARS];
    voter *voters; /* by rank */
    size_t count;
    heap heap;       /* ranks, by their voters' keys */
    uint32_t *least; /* positions in the heap of the voters with the smallest key */
    uint32_t *ranks; /* of those voters */
    bool checking;   /* compare the sums of all replicas */
    bool compares;   /* the sums are compared: in checking mode, and where the heads differ */
    merge_entry entry;
    mismatches faults;
};

#endif
