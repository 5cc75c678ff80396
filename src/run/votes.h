/* SPDX-License-Identifier: Apache-2.0 */
/* run/votes: what the files that write, compare and merge votes share. Nobody else includes it. */
#ifndef RUN_VOTES_H
#define RUN_VOTES_H

#include "run/ranks.h"

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
/* A failure to read the vote, as that of its rank. Returns `status`. */
pawl_status vote_table_failed(const vote_table *t, pawl_status status, pawl_error *err);
/* The value of the record of exactly that key, valid until the cursor moves; NULL where there is
 * none. */
pawl_status vote_table_find(table_cursor *at, const void *key, size_t key_bytes,
                            const uint8_t **value, size_t *value_bytes, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- structure.c ---------------------------------------------------------------------------- */

/* Leaves the structure in the run's directory for messages, once per attempt and text: a failure of
 * the storage is no failure of the save. */
void structure_leave(pawl_run *run, const buffer *text, uint32_t crc);

/* ---- replica_sums.c ------------------------------------------------------------------------- */

/* The records of a replica's sums, in the order of names. */
pawl_status replica_sums_write(const replica_sums *sums, table_writer *w, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
