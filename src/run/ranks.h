/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run/ranks: how the ranks of a job work on one run. Private to the run layer.
 *
 * Rank 0 is the run's owner; it alone publishes and removes (commit.c, O4). Every other rank only
 * creates files under names that carry the attempt, the save's number and its rank:
 *
 *   RUN/step-N/data-<tag>-r<rank>-<i>-of-<n>.safetensors   its data
 *   RUN/step-N/vote-<tag>-r<rank>                          its vote, when these are durable
 *   RUN/outcome-<tag>                                      of rank 0: how the save ended
 *   RUN/structure-<attempt>-<crc>-<bytes>                  what the ranks agree on (structure.c)
 *   RUN/meet-<key>-<n>-r<rank>, RUN/meet-<key>-<n>-answer  ranks that meet through the storage
 *   RUN/meet-<attempt>-1-r<rank>                           can this rank write? (removed at once)
 *
 * G1. A save's data files and their names are durable before its rank votes for it.
 * G2. Rank 0 publishes the manifest only when every rank voted for this tag, none against it, and
 *     their parts agree: one step, one structure, every tensor covered once (S12).
 * G3. An outcome is final: when it says "failed" no manifest names the tag's files, ever; when it
 *     says "committed" the manifest is durable.
 * G4. Only rank 0 removes files of a save, whoever wrote them, and only while it is the owner; it
 *     spares the tags of its own attempt that are not ended yet, for other ranks may be ahead.
 *     Another rank may remove data of its own that it has not tried to vote for, to have room to
 *     say that its part failed.
 * G5. Every wait for another rank ends at a deadline that names who is missing (S11).
 */
#ifndef RUN_RANKS_H
#define RUN_RANKS_H

#include "format/outcome.h"
#include "format/vote.h"
#include "group/group.h"
#include "run/private.h"

/* ---- stories between ranks: story.c --------------------------------------------------------- */

/* A whole error as bytes, at most `limit` of them (texts are cut), and back. */
pawl_status story_encode(const pawl_error *story, size_t limit, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status story_decode(const void *bytes, size_t n, pawl_error *story, pawl_error *err)
    PAWL_MUST_CHECK;
/* Makes the story of rank `rank` that of everybody: "rank 3 (host b): ..." */
void story_of_rank(pawl_error *story, int rank, const char *host);

/* ---- who the ranks are ---------------------------------------------------------------------- */

/* "rank 3 (host b, pid 17)"; without what is not known. */
const char *rank_text(char out[320], const pawl_run *run, int rank);
/* Is the process known to be gone? Only of the same host; otherwise PROCESS_UNKNOWN. */
liveness rank_alive(const pawl_run *run, int rank);
/* The run's group_deadline_s. Rank 0 gives up collecting after three quarters of it, so that the
 * others hear who was missing within theirs. */
double ranks_deadline_s(const pawl_run *run);
double ranks_collect_s(const pawl_run *run);

/* Sleeps a little, longer each time up to 100 ms, not beyond deadline_ns; also does what must go on
 * while one waits on a platform without threads (the heartbeat). */
typedef struct ranks_pause {
    uint64_t next_ns; /* 0 at first */
} ranks_pause;
void ranks_sleep(pawl_run *run, ranks_pause *pause, uint64_t deadline_ns);

/* ---- meetings: meet.c, meet_store.c --------------------------------------------------------- */

#define MEET_BYTES 4096u /* of what one rank hands in, its story included */

typedef struct meet_card {
    bool came;
    pawl_status status;   /* PAWL_OK, or how the rank failed before it came */
    const uint8_t *story; /* then: story_encode's bytes; in the meeting's memory */
    size_t story_bytes;
    const uint8_t *bytes; /* what it handed in */
    size_t n;
} meet_card;

typedef struct meeting {
    const char *what;   /* "open run": for messages; fewer than 32 characters */
    pawl_status status; /* this rank comes with a failure: its story goes to all */
    const pawl_error *story;
    const void *mine;
    size_t mine_bytes; /* at most MEET_BYTES / 2 */
    /*
     * On rank 0, when all ranks came: makes the answer that all get, or the failure that all get.
     * NULL: the failures of ranks are everybody's, else an empty answer.
     */
    pawl_status (*judge)(void *context, pawl_run *run, const meet_card *cards, buffer *answer,
                         pawl_error *err);
    void *context;
} meeting;

/* Collective. `answer` is the same on all ranks. A failure is the same on all ranks, too, except
 * for a rank that did not hear it in time. In one process the judge is simply called. */
pawl_status ranks_meet(pawl_run *run, const meeting *m, buffer *answer, pawl_error *err)
    PAWL_MUST_CHECK;
/* PAWL_OK where no rank came with a failure; else the first one's story, and how many more. */
pawl_status ranks_failed(pawl_run *run, const meet_card *cards, pawl_error *err) PAWL_MUST_CHECK;
/* The story of one rank that came with a failure, as that of everybody. Returns its status. */
pawl_status ranks_story(pawl_run *run, const meet_card *cards, int rank, pawl_error *err);

/* ---- what pawl_meet brings: heard.c. Any thread. -------------------------------------------- */

/* Only hints, so that nobody looks for what is not there yet: what they tell of is in the storage,
 * or will be there soon. */

/* This rank's vote on its save `number` is published, whatever it says. */
void ranks_note_voted(pawl_run *run, uint64_t number);
/* Rank 0: the outcome of the save is published. */
void ranks_note_told(pawl_run *run, uint64_t number);
/* Rank 0: sets came[r] for each rank that said it had voted; leaves the others. */
void ranks_heard_votes(pawl_run *run, uint64_t number, unsigned char *came);
/* Did rank 0 say that the outcome is there? */
bool ranks_heard_outcome(pawl_run *run, uint64_t number);

/* ---- opening: join.c ------------------------------------------------------------------------ */

/* PAWL_EUSAGE on every rank but 0: "pawl_run_gc: this is rank 3 ...; call it on rank 0". */
pawl_status ranks_refuse_guest(const pawl_run *run, const char *call, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- votes: structure.c, replica_sums.c, vote.c, agree.c, merge.c --------------------------- */

/* What must be alike on all ranks, as text, a line an entry, ascending by name: tensors replicated
 * on all ranks, shared values (without their bytes), names per rank. */
pawl_status structure_make(const state_snapshot *snapshot, buffer *out, pawl_error *err)
    PAWL_MUST_CHECK;

/* Sums of the replicas in the snapshot: of the small ones, or of all (checking mode). Much is read
 * by a thread of its own, which must be waited for before the tensors are let go. Tuned as those of
 * the engine, which may be NULL. */
#define REPLICA_SMALL_BYTES 65536u /* of a tensor on a rank */
typedef struct replica_sums replica_sums;
pawl_status replica_sums_start(const state_snapshot *snapshot, bool all, engine *tuned,
                               const platform *os, replica_sums **out, pawl_error *err)
    PAWL_MUST_CHECK;
void replica_sums_wait(replica_sums *sums); /* NULL is fine */
void replica_sums_free(replica_sums *sums); /* waits; NULL is fine */

/* What this rank says of a save. `input` and `sums` (may be NULL) are left out of a vote that tells
 * of a failure. */
typedef struct ballot {
    const char *directory, *tag;
    int64_t step;
    const plan_layout *layout; /* NULL: it came to none */
    const index_input *input;  /* its entries and checksums */
    const replica_sums *sums;
    bool skipped;
    const pawl_error *failed; /* NULL: its part is durable */
} ballot;
/* Any rank but 0: makes its data files' names durable and publishes its vote (G1). */
pawl_status vote_cast(pawl_run *run, const ballot *b, pawl_error *err) PAWL_MUST_CHECK;
/* Rank 0: its own vote, kept in memory. */
pawl_status vote_keep(pawl_run *run, const ballot *b, buffer *out, pawl_error *err) PAWL_MUST_CHECK;

/* All votes of a save, by rank. Begins zeroed, but for `own`. */
typedef struct votes {
    buffer own;          /* rank 0's */
    vote *heads;         /* those that came */
    unsigned char *came; /* by rank */
    arena memory;
} votes;
/* Makes room for the heads; rank 0's own, which is kept already, has come. */
pawl_status votes_begin(pawl_run *run, const char *tag, votes *v, pawl_error *err) PAWL_MUST_CHECK;
/* Reads the head of a vote. PAWL_ENOTFOUND: it is not there (yet). */
pawl_status vote_read_head(pawl_run *run, const char *directory, const char *tag, int rank,
                           arena *memory, vote *out, pawl_error *err) PAWL_MUST_CHECK;
void votes_free(votes *v);
/* The data files of all ranks, in the order in which the index counts them. All votes are there. */
pawl_status votes_manifest_files(pawl_run *run, const votes *v, manifest *m, pawl_error *err)
    PAWL_MUST_CHECK;

/* S12, J04: same step, tag, world size, structure, shared values. Then merge: entries of one name
 * agree, their pieces cover the tensor once, replicas are equal. All are there, none failed. */
pawl_status votes_agree(pawl_run *run, const votes *v, int64_t step, const char *tag,
                        pawl_error *err) PAWL_MUST_CHECK;
typedef struct merge merge;
pawl_status merge_open(pawl_run *run, const char *directory, const char *tag, const votes *v,
                       merge **out, pawl_error *err) PAWL_MUST_CHECK;
void merge_close(merge *m); /* NULL is fine */
/* Writes the index of all ranks' files, which are numbered by rank, then as each vote has them. Any
 * check that fails ends it with PAWL_EMISMATCH. As index_writer.write (private.h). */
pawl_status merge_write(void *context, byte_sink sink, table_summary *summary,
                        uint64_t *entry_count, pawl_error *err) PAWL_MUST_CHECK;

/* ---- collecting and telling: collect.c, outcome.c ------------------------------------------- */

/* A moment so many seconds from now; any number of seconds is one. */
uint64_t ranks_deadline_ns(const pawl_run *run, double seconds);
bool ranks_late(const pawl_run *run, uint64_t deadline_ns);

/* Rank 0, engine's thread: waits for all votes (S11). `votes->own` is there already. PAWL_EMISMATCH
 * (S12); a rank's own failure, as it told it; PAWL_ECANCELED where a rank skipped the save;
 * PAWL_EPEER naming who is missing. */
pawl_status collect_votes(pawl_run *run, const char *directory, const char *tag, int64_t step,
                          votes *v, pawl_error *err) PAWL_MUST_CHECK;
/* Rank 0: publishes how a save ended. `story`: unless it is committed. */
pawl_status outcome_tell(pawl_run *run, const char *tag, save_end end, int64_t step,
                         const pawl_error *story, pawl_error *err) PAWL_MUST_CHECK;
/* The others, engine's thread: waits for it; returns it. PAWL_EPEER naming rank 0 (S11). */
pawl_status outcome_wait(pawl_run *run, const char *directory, const char *tag, int64_t step,
                         pawl_error *err) PAWL_MUST_CHECK;
bool outcome_is_there(pawl_run *run, const char *tag);
/* The highest number of a save whose outcome rank 0 has told; 0: none is to be seen. */
uint64_t outcome_newest(pawl_run *run);

#endif
