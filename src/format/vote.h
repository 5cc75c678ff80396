/* SPDX-License-Identifier: Apache-2.0 */
/*
 * format/vote: what a rank hands to rank 0 when its part of a save is durable, or has failed.
 *
 * A vote is a sorted table (as the index is), so that rank 0 merges any number of them with a few
 * blocks of each in memory:
 *
 *   'c' u32be(file) u32be(record)  checksums of the rank's data files, numbered from 0
 *   'e' name                       entries with the pieces that this rank wrote, same numbers
 *   'r' name                       sums of the replicas that this rank holds
 *   'v'                            the head: who votes, on what, and how it went
 *   'w' name                       values that all ranks share: what this rank has
 *
 * docs/format.md has it byte for byte.
 */
#ifndef FORMAT_VOTE_H
#define FORMAT_VOTE_H

#include "format/format.h"

#define VOTE_VERSION     1
#define VOTE_SHOWN_BYTES 32u /* of a value, for messages */

typedef struct vote_file {
    const char *name;
    uint64_t bytes;
} vote_file;

/* The replicas that a rank holds with one replica_count. Ranks that hold the same ones hold the
 * same bytes. */
typedef struct vote_copies {
    int replica_count;    /* 0: of all ranks */
    uint64_t bytes;       /* of all of them */
    uint32_t held_crc32c; /* which they are: names and boxes */
    uint32_t sums_crc32c; /* their sums */
} vote_copies;

typedef struct vote {
    int64_t step;
    int rank, world_size;
    const char *tag;
    const char *host;
    int64_t pid;
    bool skipped;       /* the rank was still busy with the save before (S04) */
    const char *failed; /* NULL: its part is durable. Otherwise a story (failure_encode's bytes) */
    size_t failed_bytes;
    /* Only of a part that is durable: */
    vote_file *files;
    size_t file_count;
    /* What must be alike on all ranks: replicated tensors, shared values, names per rank; and the
     * values, as the sum of the bytes of their records in the table, keys and values. */
    uint32_t structure_crc32c;
    uint64_t structure_bytes;
    uint32_t values_crc32c;
    vote_copies *copies; /* of those whose sums the vote has; each replica_count once, ascending */
    size_t copies_count;
} vote;

/* Names of files are not written: they follow from tag, rank and number, and must be those. */
pawl_status vote_head_encode(const vote *v, buffer *out, pawl_error *err) PAWL_MUST_CHECK;
/* Checks everything; what it points to lives in `memory`. PAWL_EUNSUPPORTED for a newer version. */
pawl_status vote_head_decode(const uint8_t *bytes, size_t n, arena *memory, vote *out,
                             pawl_error *err) PAWL_MUST_CHECK;

/* A value that all ranks share: its checksum, and its first bytes for messages. */
typedef struct vote_value {
    pawl_kind kind;
    uint32_t crc32c;
    uint64_t bytes;
    size_t shown_bytes;
    uint8_t shown[VOTE_SHOWN_BYTES];
} vote_value;
vote_value vote_value_of(pawl_kind kind, const uint8_t *bytes, size_t n);
pawl_status vote_value_encode(const vote_value *value, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status vote_value_decode(const uint8_t *bytes, size_t n, vote_value *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* "0.001", "\"adam\"", "17 bytes 0a1b2c..." */
const char *vote_value_text(char out[160], const vote_value *value);

/* The key of a record of a name: `letter` is 'r' or 'w'. */
pawl_status vote_key(buffer *key, char letter, const char *name, pawl_error *err) PAWL_MUST_CHECK;

/* One replica that a rank holds. */
typedef struct vote_replica {
    int64_t *offset, *extent; /* ndim numbers */
    uint32_t crc32c;          /* of its bytes, dense and row-major */
} vote_replica;
pawl_status vote_replicas_encode(const vote_replica *replicas, size_t count, int ndim, buffer *out,
                                 pawl_error *err) PAWL_MUST_CHECK;
pawl_status vote_replicas_decode(const uint8_t *bytes, size_t n, arena *memory,
                                 vote_replica **replicas, size_t *count, int *ndim, pawl_error *err)
    PAWL_MUST_CHECK;

#endif
