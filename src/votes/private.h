/* SPDX-License-Identifier: Apache-2.0 */
/* votes/private: what the files of this folder share. Nobody else includes it. */
#ifndef VOTES_PRIVATE_H
#define VOTES_PRIVATE_H

#include "votes/votes.h"

/* ---- vote_table.c: a vote, as it is read ---------------------------------------------------- */

/* Reads of a file that is opened for each of them and closed again: thousands of votes are read at
 * a time, and need no file descriptor each. Stays where it is once opened. */
typedef struct vote_table {
    store *store;
    const char *directory, *tag; /* borrowed */
    int rank;
    store_file *kept; /* open while much is read at a time; or NULL */
    table *table;
} vote_table;

/* PAWL_ENOTFOUND: there is no such vote. `own`: rank 0's, in memory; used for rank 0. */
pawl_status vote_table_open(vote_table *t, store *s, const buffer *own, const char *directory,
                            const char *tag, int rank, pawl_error *err) PAWL_MUST_CHECK;
void vote_table_close(vote_table *t); /* a zeroed one is fine */
/* Closes the file until the next read. */
void vote_table_rest(vote_table *t);
/* Adds to `err` whose vote could not be read, and its path. Returns `status`. */
pawl_status vote_table_failed(const vote_table *t, pawl_status status, pawl_error *err);
/* The value of the record of exactly that key, valid until the cursor moves; NULL where there is
 * none. */
pawl_status vote_table_find(table_cursor *at, const void *key, size_t key_bytes,
                            const uint8_t **value, size_t *value_bytes, pawl_error *err)
    PAWL_MUST_CHECK;

/* The name in the key of a record, which is not empty. */
pawl_status vote_key_name(const uint8_t *key, size_t key_bytes, char out[PAWL_MAX_NAME_BYTES + 1],
                          pawl_error *err) PAWL_MUST_CHECK;

/* ---- mismatches.c --------------------------------------------------------------------------- */

/* Faults between the ranks; begins zeroed. */
typedef struct mismatches {
    size_t count;    /* of entries */
    char entry[512]; /* the first one's */
    char found[512]; /* the first few */
    const char *next;
} mismatches;
/* `next` is what to do about it, should this be the first. */
void mismatches_add(mismatches *m, const char *entry, const char *next, const char *format, ...)
    PRINTF_LIKE(4, 5);
/* PAWL_OK where there is none, else PAWL_EMISMATCH. */
pawl_status mismatches_end(const mismatches *m, const char *attempt, const char *expected,
                           pawl_error *err) PAWL_MUST_CHECK;

/* ---- agree.c -------------------------------------------------------------------------------- */

/* Two sides that do not agree: what most ranks have, and what the lowest other rank has. */
typedef struct vote_sides {
    int many, few;                      /* the lowest rank of each */
    char many_text[160], few_text[160]; /* "ranks 0 to 2" */
} vote_sides;

/* ---- structure.c ---------------------------------------------------------------------------- */

/* S12, J04: which entries the structures of the two sides differ in. */
pawl_status structure_explain(job_ranks *ranks, const votes *v, const char *directory,
                              const vote_sides *sides, pawl_error *err) PAWL_MUST_CHECK;
/* Leaves the structure in the run's directory for messages, unless it is the one left last: a
 * failure of the storage is no failure of the save. */
void structure_leave(job_ranks *ranks, const buffer *text, uint32_t crc, structure_left *last);

/* ---- replica_sums.c ------------------------------------------------------------------------- */

/* The records of the replicas' sums, in the order of names. They were waited for. */
pawl_status replica_sums_write(const replica_sums *sums, table_writer *w, pawl_error *err)
    PAWL_MUST_CHECK;
/* What the head says of them. */
pawl_status replica_sums_head(const replica_sums *sums, vote *head, arena *memory, pawl_error *err)
    PAWL_MUST_CHECK;
/* Do ranks that hold the same replicas say that they have other bytes? */
pawl_status replica_sums_differ(const votes *v, size_t count, bool *differ, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
