/* SPDX-License-Identifier: Apache-2.0 */
/*
 * votes: what each rank says of its part of a save, and one index out of the parts of all.
 *
 *   RUN/step-N/vote-<tag>-r<rank>            a rank's vote, when its part is durable
 *   RUN/structure-<attempt>-<crc>-<bytes>    what all ranks must have alike, for messages
 *
 * May include base, tensor, store, group, format, state, plan, engine, checkpoint, ranks. Threads:
 * everything of one save on the engine's thread, but structure_make and replica_sums_start on the
 * trainer's. Ownership: what is given is borrowed.
 */
#ifndef VOTES_VOTES_H
#define VOTES_VOTES_H

#include "checkpoint/index.h"
#include "engine/engine.h"
#include "format/manifest.h"
#include "format/vote.h"
#include "plan/plan.h"
#include "ranks/ranks.h"
#include "state/state.h"

/* ---- what must be alike: structure.c -------------------------------------------------------- */

/* What must be alike on all ranks, as text, a line an entry, ascending by name: tensors replicated
 * on all ranks, shared values (without their bytes), names per rank. */
pawl_status structure_make(const state_snapshot *snapshot, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Which text a rank left last in the run's directory; zeroed: none. */
typedef struct structure_left {
    uint32_t crc32c;
    uint64_t bytes;
} structure_left;

/* ---- sums of replicas: replica_sums.c ------------------------------------------------------- */

/* Sums of the replicas in the snapshot: of the small ones, or of all (checking mode). Many bytes
 * are read by a thread of its own, which must be waited for before the tensors are let go. That
 * thread gets the tuning of `tuned`, which may be NULL. */
#define REPLICA_SMALL_BYTES 65536u /* of a tensor on a rank */
typedef struct replica_sums replica_sums;
pawl_status replica_sums_start(const state_snapshot *snapshot, bool all, engine *tuned,
                               const platform *os, replica_sums **out, pawl_error *err)
    PAWL_MUST_CHECK;
void replica_sums_wait(replica_sums *sums); /* NULL is fine */
void replica_sums_free(replica_sums *sums); /* waits; NULL is fine */

/* ---- one vote: vote.c ----------------------------------------------------------------------- */

/* What this rank says of a save. A vote against the save uses neither `input` nor `sums`. */
typedef struct ballot {
    const char *directory, *tag;
    int64_t step;
    const plan_layout *layout; /* NULL: the save failed before there was one */
    const index_input *input;  /* its entries and checksums */
    const replica_sums *sums;  /* may be NULL */
    structure_left *left;      /* may be NULL where there is no layout */
    bool skipped;
    const pawl_error *failed; /* NULL: its part is durable */
} ballot;
/* Any rank but 0: makes its data files' names durable and publishes its vote (G1). */
pawl_status vote_cast(job_ranks *ranks, const ballot *b, pawl_error *err) PAWL_MUST_CHECK;
/* Rank 0: its own vote, kept in memory. */
pawl_status vote_keep(job_ranks *ranks, const ballot *b, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Reads the head of a vote. PAWL_ENOTFOUND: it is not there (yet). */
pawl_status vote_read_head(store *s, const char *directory, const char *tag, int rank,
                           arena *memory, vote *out, pawl_error *err) PAWL_MUST_CHECK;

/* ---- all votes of a save: vote.c, agree.c --------------------------------------------------- */

/* Begins zeroed, but for `own`. */
typedef struct votes {
    buffer own;          /* rank 0's */
    vote *heads;         /* by rank, set where the vote has come */
    unsigned char *came; /* by rank */
    arena memory;
} votes;
/* Makes room for the heads; rank 0's own, which is kept already, has come. */
pawl_status votes_begin(job_ranks *ranks, const char *tag, votes *v, pawl_error *err)
    PAWL_MUST_CHECK;
void votes_free(votes *v);
/* The data files of all ranks, in the order in which the index counts them. All votes are there. */
pawl_status votes_manifest_files(int world_size, const votes *v, manifest *m, pawl_error *err)
    PAWL_MUST_CHECK;
/* S12, J04: same step, tag, world size, structure, shared values. All votes are there, and none
 * is against the save. */
pawl_status votes_agree(job_ranks *ranks, const votes *v, int64_t step, const char *tag,
                        pawl_error *err) PAWL_MUST_CHECK;

/* ---- one index of all: merge.c, merge_entry.c ----------------------------------------------- */

typedef struct merge_input {
    store *store;
    const char *directory, *tag;
    const votes *votes; /* which agree */
    int world_size;
    bool checking;   /* compare the sums of all replicas */
    engine *watched; /* told of progress, for its hang watchdog; or NULL */
} merge_input;
typedef struct merge merge;
pawl_status merge_open(const merge_input *in, merge **out, pawl_error *err) PAWL_MUST_CHECK;
void merge_close(merge *m); /* NULL is fine */
/* Writes the index of all ranks' files, which are numbered by rank, then as each vote has them.
 * PAWL_EMISMATCH where entries of one name differ, their pieces do not cover the tensor once, or
 * replicas are not equal. As index_writer.write (commit_index). */
pawl_status merge_write(void *context, byte_sink sink, table_summary *summary,
                        uint64_t *entry_count, pawl_error *err) PAWL_MUST_CHECK;

#endif
