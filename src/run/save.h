/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run/save: what the files of one save share, alone or across ranks. Private to the run layer.
 *
 * Rank 0 is the run's owner; it alone publishes and removes (commit.c, O4). Every other rank only
 * creates files under names that carry the attempt, the save's number and its rank:
 *
 *   RUN/step-N/data-<tag>-r<rank>-<i>-of-<n>.safetensors   its data
 *   RUN/step-N/vote-<tag>-r<rank>                          its vote, when these are durable
 *   RUN/outcome-<tag>                                      of rank 0: how the save ended
 *
 * and what votes/votes.h and ranks/ranks.h name.
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
#ifndef RUN_SAVE_H
#define RUN_SAVE_H

#include "format/outcome.h"
#include "run/private.h"

/* What a save owns from its begin to its end on the engine's thread. */
typedef struct save {
    pawl_run *run;
    engine *engine; /* the run's, which it may have left behind */
    state_snapshot *snapshot;
    plan_layout *layout;
    int64_t step;
    char directory[32];
    char tag[FORMAT_TAG_CHARS];
    bool pin;
    bool reused;    /* the directory was there before: files of another save may be in it */
    bool told_hung; /* the callback knows already that it failed */
    bool made_pin;
    uint64_t called_ns;      /* pawl_save was entered: everything told of time begins there */
    uint64_t begun_ns;       /* the save before had ended */
    uint64_t retries_before; /* store_retry_count */
    pawl_save_stats begun;   /* what was known when the engine began */
    manifest manifest;
    index_ahead *index; /* the entries' part of the index, being made while the data is written */

    /* Of many ranks. */
    replica_sums *sums;
    bool tried_to_vote; /* for it; perhaps in vain */
    bool voted;         /* rank 0 may commit with this rank's part */
    bool of_all;        /* the failure is not this rank's own: its story names the ranks */
    bool untold;        /* rank 0: how it ended could not be told */
} save;

static inline bool save_of_many(const pawl_run *run) {
    return run->ranks->world_size > 1;
}

/* ---- save_manifest.c ------------------------------------------------------------------------ */

/* All but what is known only when the data is written. Refuses what could not be published then:
 * PAWL_EUSAGE, PAWL_ELIMIT. */
pawl_status save_fill_manifest(save *s, const pawl_save_options *options, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- save_room.c ---------------------------------------------------------------------------- */

pawl_status save_check_room(const save *s, pawl_error *err) PAWL_MUST_CHECK;

/* ---- save_events.c -------------------------------------------------------------------------- */

double save_seconds_since(const platform *os, uint64_t ns);
/* Any thread. The same as what pawl_wait fills in, once the save has ended. */
pawl_save_stats save_stats_now(const save *s);
void save_tell_begun(const save *s);
/* engine_job.progress */
void save_on_progress(void *context, uint64_t written, uint64_t of);
/* `written`: of the data files, after a failure. */
void save_tell_ended(const save *s, pawl_status status, const pawl_error *story,
                     const pawl_save_stats *stats, uint64_t written, unsigned whom);
void save_tell_end_of_engine(const save *s, pawl_status status, const pawl_error *story,
                             unsigned whom);

/* ---- save_ranks.c: one save across ranks ---------------------------------------------------- */

/* Trainer's thread, on many ranks: pawl_save was called. Numbers go up by calls for the same step,
 * and to the next multiple of SAVE_CALLS with another one, so that ranks which disagree about one
 * step are together again at the next. A call that only told of an earlier failure (run->refused)
 * does not count when it is repeated: others were told by pawl_wait. */
#define SAVE_CALLS 16
void save_count_call(pawl_run *run, int64_t step);
void save_tag(char tag[FORMAT_TAG_CHARS], const pawl_run *run, uint64_t number);
/* Engine's thread, this rank's data is durable. Rank 0: collects the votes, publishes the
 * checkpoint, and tells so. The others: vote, and wait for the outcome. */
pawl_status save_with_ranks(save *s, const index_input *input, pawl_error *err) PAWL_MUST_CHECK;
/* Rank 0: a save has ended. */
void save_tell_ranks(pawl_run *run, uint64_t number, int64_t step, save_end end,
                     const pawl_error *story);
/* The end of a save that failed: the other ranks learn of it. */
void save_failed_for_ranks(save *s, pawl_status status, const pawl_error *story);
/* Rank 0, when what the save leaves has been removed: on a full disk (S07) only now there is room
 * to tell how it ended. `story`: unless it is committed. */
void save_tell_untold(save *s, pawl_status status, const pawl_error *story);
/* Trainer's thread: a save of this number was not started. PAWL_OK: this rank was busy (S04). */
void save_not_started(pawl_run *run, int64_t step, pawl_status status, const pawl_error *story);
void save_skipped_story(const pawl_run *run, int rank, pawl_error *story);
/* May another save begin now? A rank that only waits for an outcome which is there takes it. */
void save_look_for_outcome(pawl_run *run);

/* ---- collecting votes, telling the outcome: collect.c, outcome.c ---------------------------- */

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
