/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run/save: what the files of one save share, alone or across ranks. Private to the run layer.
 *
 * Rank 0 is the run's owner; it alone publishes and removes (commit/commit.c, O4). Every other
 * rank only creates files under names that carry the attempt, the save's number and its rank:
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
 * G5. Every wait for another rank ends at a deadline, with an error that names who is missing
 *     (S11).
 */
#ifndef RUN_SAVE_H
#define RUN_SAVE_H

#include "format/outcome.h"
#include "run/private.h"
#include "votes/votes.h"

/* One save, from its begin on the trainer's thread to its end on the engine's, which frees it. The
 * trainer's thread does not touch it once the engine has begun. */
typedef struct save {
    pawl_run *run;
    engine *engine; /* the run's as the save began: a run that is closed may abandon it */
    state_snapshot *snapshot;
    plan_layout *layout;
    int64_t step;
    char directory[32];
    char tag[FORMAT_TAG_CHARS];
    bool pin;
    bool directory_existed; /* files of another save may be in it */
    bool hang_reported;     /* the callback was called with this failure already */
    bool made_pin;
    uint64_t called_ns;      /* pawl_save was entered: times in events count from here */
    uint64_t begun_ns;       /* the save before had ended */
    uint64_t retries_before; /* store_retry_count */
    pawl_save_stats begun;   /* what was known when the engine began */
    manifest manifest;
    index_ahead *index; /* the entries' part of the index, being made while the data is written */

    /* Many ranks. */
    replica_sums *sums;
    bool tried_to_vote;       /* for the save; the vote may have failed */
    bool voted;               /* not rank 0: rank 0 may commit with this rank's part */
    bool names_ranks;         /* rank 0: the failure is not its own; the text names the ranks */
    bool outcome_unpublished; /* rank 0: publishing the outcome has failed */
} save;

static inline bool save_of_many(const pawl_run *run) {
    return run->ranks->world_size > 1;
}

/* ---- save_manifest.c ------------------------------------------------------------------------ */

/* Everything but what is known only once the data is written. Refuses what could not be published
 * later: PAWL_EUSAGE, PAWL_ELIMIT. */
pawl_status save_fill_manifest(save *s, const pawl_save_options *options, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- save_room.c ---------------------------------------------------------------------------- */

pawl_status save_check_room(const save *s, pawl_error *err) PAWL_MUST_CHECK;

/* ---- save_events.c -------------------------------------------------------------------------- */

/* Any thread. Once the save has ended it is what pawl_wait fills in. */
pawl_save_stats save_stats_now(const save *s);
void save_report_begun(const save *s);
/* engine_job.progress: reports PAWL_EVENT_SAVE_PROGRESS. */
void save_on_progress(void *context, uint64_t written, uint64_t of);
/* `story`: the failure; unused with PAWL_OK. `written`: bytes of the data files that were written
 * before a failure. */
void save_report_ended(const save *s, pawl_status status, const pawl_error *story,
                       const pawl_save_stats *stats, uint64_t written, unsigned whom);
void save_report_engine_ended(const save *s, pawl_status status, const pawl_error *story,
                              unsigned whom);

/* ---- save_ranks.c: one save across ranks ---------------------------------------------------- */

/* Trainer's thread, many ranks: pawl_save was called. The ranks number their saves alike without
 * asking each other: a call for the same step adds one, a call for another step goes on to the next
 * multiple of SAVE_CALLS. So ranks that call unequally often for one step agree again at the next.
 * The repeat of a call that only returned an earlier failure keeps its number (retry_keeps_number):
 * other ranks may have learnt of that failure from pawl_wait, and call once. */
#define SAVE_CALLS 16
void save_count_call(pawl_run *run, int64_t step);
void save_tag(char tag[FORMAT_TAG_CHARS], const pawl_run *run, uint64_t number);
/* Engine's thread; this rank's data is durable. Rank 0 collects the votes and publishes the
 * checkpoint and the outcome. The others vote, and wait for the outcome. */
pawl_status save_with_ranks(save *s, const index_input *input, pawl_error *err) PAWL_MUST_CHECK;
/* Rank 0: how a save has ended, for the other ranks. A failure is logged. */
void save_publish_outcome(pawl_run *run, uint64_t number, int64_t step, save_end end,
                          const pawl_error *story);
/* The save has failed: rank 0 publishes the outcome, another rank votes against the save. */
void save_failed_for_ranks(save *s, pawl_status status, const pawl_error *story);
/* Rank 0, after the save's leftovers were removed: publishes the outcome again if that failed
 * before, for a full disk (S07) may only now have room. `story`: unless it is committed. */
void save_publish_outcome_again(save *s, pawl_status status, const pawl_error *story);
/* Trainer's thread: a call of pawl_save began no save; the other ranks learn why. PAWL_OK: this
 * rank skipped it, being busy (S04). */
void save_not_started(pawl_run *run, int64_t step, pawl_status status, const pawl_error *story);
void save_skipped_story(const pawl_run *run, int rank, pawl_error *story);
/* Before it is decided whether a rank is busy (S04): where it only waits for an outcome that has
 * appeared by now, lets the engine's thread take it. */
void save_take_outcome(pawl_run *run);

/* ---- collecting votes, publishing the outcome: collect.c, outcome.c ------------------------- */

/* Rank 0, engine's thread: waits for all votes (S11). `v->own` is there already. PAWL_EMISMATCH
 * (S12); the failure that a rank voted; PAWL_ECANCELED where a rank skipped the save; PAWL_EPEER
 * naming who is missing. */
pawl_status collect_votes(pawl_run *run, const char *directory, const char *tag, int64_t step,
                          votes *v, pawl_error *err) PAWL_MUST_CHECK;
/* Rank 0: publishes how a save ended. `story`: unless it is committed. */
pawl_status outcome_publish(pawl_run *run, const char *tag, save_end end, int64_t step,
                            const pawl_error *story, pawl_error *err) PAWL_MUST_CHECK;
/* The others, engine's thread: waits for the outcome and returns it as status and error. PAWL_EPEER
 * naming rank 0: none came (S11). */
pawl_status outcome_wait(pawl_run *run, const char *directory, const char *tag, int64_t step,
                         pawl_error *err) PAWL_MUST_CHECK;
bool outcome_is_there(pawl_run *run, const char *tag);
/* The highest number of a save whose outcome is in the run's directory; 0: there is none. */
uint64_t outcome_newest(pawl_run *run);

#endif
