/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One save across ranks: each votes when its part is durable, rank 0 commits, all get the outcome.
 * The invariants are G1 to G5 in save.h.
 *
 * A save ends alike on all ranks: a rank that cannot save its part votes against the save, and rank
 * 0 publishes the outcome. All of this is done by the engine's thread, except what a call of
 * pawl_save needs to count itself, and to say that it began no save: at most a few small operations
 * on the storage.
 */
#include "run/save.h"

#include <stdio.h>
#include <string.h>

/* ---- numbers -------------------------------------------------------------------------------- */

void save_give_up_retry(pawl_run *run) {
    if (!run->retry_keeps_number) {
        return;
    }
    struct pawl_error story = ERROR_INIT;
    error_set(&story, PAWL_ECANCELED,
              "pawl_save returned an earlier failure instead of beginning this save, and was not "
              "called for the step again");
    error_next(&story, "after such a failure call pawl_save again, on all ranks");
    run->retry_keeps_number = false;
    save_not_started(run, run->called_step, story.status, &story);
}

/* Continues numbering from rank 0's number. */
static void resynchronise_number(pawl_run *run) {
    uint64_t number = outcome_newest(run);
    if (number > 0) {
        run->save_number = number;
        run->called_step = -1;
        run->retry_keeps_number = false;
    }
}

void save_count_call(pawl_run *run, int64_t step) {
    if (atomic_exchange(&run->resynchronise, false)) {
        resynchronise_number(run);
    }
    bool again = step == run->called_step && run->save_number % SAVE_CALLS != SAVE_CALLS - 1;
    if (again && run->retry_keeps_number) {
        run->retry_keeps_number = false;
        return;
    }
    save_give_up_retry(run);
    run->save_number =
        again ? run->save_number + 1 : (run->save_number / SAVE_CALLS + 1) * SAVE_CALLS;
    run->called_step = step;
}

void save_tag(char tag[FORMAT_TAG_CHARS], const pawl_run *run, uint64_t number) {
    snprintf(tag, FORMAT_TAG_CHARS, "%.12s-%u", run->ranks->attempt, (uint32_t)number);
}

/* ---- stories -------------------------------------------------------------------------------- */

/* Removes "saving step N: " from the text: each rank adds it itself. */
static void leave_out_step(pawl_error *story, int64_t step) {
    char prefix[64];
    int n = snprintf(prefix, sizeof prefix, "saving step %lld: ", (long long)step);
    if (strncmp(story->attempt, prefix, (size_t)n) == 0) {
        memmove(story->attempt, story->attempt + n, strlen(story->attempt + n) + 1);
    }
}

/* ---- any rank but 0 ------------------------------------------------------------------------- */

static ballot ballot_of(const save *s, const index_input *input) {
    return (ballot){.directory = s->directory,
                    .tag = s->tag,
                    .step = s->step,
                    .layout = s->layout,
                    .input = input,
                    .sums = s->sums,
                    .left = &s->run->structure_left};
}

/* Makes the directory again: rank 0 may have removed it, because it was empty. */
static pawl_status vote_against(pawl_run *run, const ballot *b, pawl_error *err) {
    pawl_status status = store_make_dir(run->store, b->directory, err);
    if (status != PAWL_OK && status != PAWL_EBUSY) {
        return status;
    }
    return vote_cast(run->ranks, b, err);
}

static pawl_status vote_failed(pawl_run *run, const char *directory, const char *tag, int64_t step,
                               const pawl_error *story, pawl_error *err) {
    struct pawl_error short_story = *story;
    leave_out_step(&short_story, step);
    const ballot b = {.directory = directory, .tag = tag, .step = step, .failed = &short_story};
    return vote_against(run, &b, err);
}

/* Without this vote rank 0 waits until its deadline. */
static void warn_vote_unpublished(const pawl_run *run, pawl_error *err) {
    log_write(&run->log, PAWL_LOG_WARN, "the other ranks could not be told of the failure: %s",
              error_text(err));
}

/* Makes room for the vote against the save (G4). */
static void remove_own_part(const save *s) {
    char path[STORE_MAX_PATH];
    struct pawl_error ignored = ERROR_INIT;
    for (size_t i = 0; i < s->layout->file_count; i++) {
        snprintf(path, sizeof path, "%s/%s", s->directory, s->layout->files[i].name);
        (void)!store_unlink(s->run->store, path, &ignored);
    }
}

/* Data that this rank has tried to vote for stays: a checkpoint may name it. */
static void fail_own_part(const save *s, const pawl_error *story) {
    pawl_run *run = s->run;
    struct pawl_error err = ERROR_INIT;
    pawl_status status = vote_failed(run, s->directory, s->tag, s->step, story, &err);
    if (status == PAWL_ENOSPACE && !s->tried_to_vote) {
        err = ERROR_INIT;
        remove_own_part(s);
        status = vote_failed(run, s->directory, s->tag, s->step, story, &err);
    }
    if (status != PAWL_OK) {
        warn_vote_unpublished(run, &err);
    }
}

static pawl_status wait_for_outcome(save *s, pawl_error *err) {
    pawl_run *run = s->run;
    const platform *os = run->platform;
    uint64_t begun_ns = platform_now_ns(os);
    pawl_status status = outcome_wait(run, s->directory, s->tag, s->step, err);
    atomic_store(&run->group_wait_ns, platform_now_ns(os) - begun_ns);
    if (status == PAWL_OK && s->step > atomic_load(&run->newest_step)) {
        atomic_store(&run->newest_step, s->step);
    }
    return status;
}

/* Publishing the vote may fail because rank 0 has given the save up and removed the directory: then
 * the outcome is there. */
static pawl_status vote_and_wait(save *s, const index_input *input, pawl_error *err) {
    const ballot b = ballot_of(s, input);
    atomic_store(&s->run->awaited_first, 0);
    atomic_store(&s->run->awaited_count, 1); /* stays so until the next save begins */
    s->tried_to_vote = true;
    pawl_status status = vote_cast(s->run->ranks, &b, err);
    run_made_progress(s->run);
    if (status == PAWL_OK) {
        notes_set_voted(s->run->ranks, s->run->current_number);
    }
    s->voted = status == PAWL_OK || outcome_is_there(s->run, s->tag);
    return s->voted ? wait_for_outcome(s, err) : status;
}

/* ---- rank 0 --------------------------------------------------------------------------------- */

static pawl_status collect_timed(save *s, votes *v, pawl_error *err) {
    pawl_run *run = s->run;
    const platform *os = run->platform;
    uint64_t begun_ns = platform_now_ns(os);
    pawl_status status = collect_votes(run, s->directory, s->tag, s->step, v, err);
    atomic_store(&run->awaited_count, 0);
    atomic_store(&run->group_wait_ns, platform_now_ns(os) - begun_ns);
    return status;
}

static void merge_close_pointer(merge **m) {
    merge_close(*m);
}

static pawl_status publish_all(save *s, const votes *v, pawl_error *err) {
    CLEANUP(merge_close_pointer) merge *m = NULL;
    const merge_input in = {.store = s->run->store,
                            .directory = s->directory,
                            .tag = s->tag,
                            .votes = v,
                            .world_size = s->run->ranks->world_size,
                            .checking = s->run->checking,
                            .watched = s->run->watched};
    TRY(merge_open(&in, &m, err));
    TRY(votes_manifest_files(s->run->ranks->world_size, v, &s->manifest, err));
    run_made_progress(s->run);
    const index_writer index = {.context = m, .write = merge_write, .large = true};
    return commit_publish(s->run, s->directory, s->tag, &s->manifest, &index, err);
}

static pawl_status publish_outcome(pawl_run *run, uint64_t number, int64_t step, save_end end,
                                   const pawl_error *story, pawl_error *err) {
    char tag[FORMAT_TAG_CHARS];
    save_tag(tag, run, number);
    return outcome_publish(run, tag, end, step, story, err);
}

static void warn_outcome_unpublished(const pawl_run *run, pawl_error *err) {
    log_write(&run->log, PAWL_LOG_WARN, "the other ranks could not be told how the save ended: %s",
              error_text(err));
}

void save_publish_outcome(pawl_run *run, uint64_t number, int64_t step, save_end end,
                          const pawl_error *story) {
    struct pawl_error err = ERROR_INIT;
    if (publish_outcome(run, number, step, end, story, &err) != PAWL_OK) {
        warn_outcome_unpublished(run, &err);
    }
}

static void blame_rank_0(const pawl_run *run, pawl_error *story) {
    char who[320];
    error_wrap(story, "%s", rank_text(who, run->ranks, 0));
}

/* G3, I8. `story`: unless it is committed. */
static pawl_status publish_end(const save *s, pawl_status status, const pawl_error *story,
                               pawl_error *err) {
    pawl_run *run = s->run;
    struct pawl_error for_all = ERROR_INIT;
    if (status == PAWL_OK) {
        return publish_outcome(run, run->current_number, s->step, SAVE_END_COMMITTED, NULL, err);
    }
    for_all = *story;
    leave_out_step(&for_all, s->step);
    if (!s->names_ranks) {
        blame_rank_0(run, &for_all);
    }
    bool doubt = !commit_never_names(run, s->directory, s->tag);
    return publish_outcome(run, run->current_number, s->step,
                           doubt ? SAVE_END_UNKNOWN : SAVE_END_FAILED, &for_all, err);
}

static pawl_status collect_and_publish(save *s, const index_input *input, pawl_error *err) {
    pawl_run *run = s->run;
    CLEANUP(votes_free) votes v = {0};
    const ballot b = ballot_of(s, input);
    TRY(vote_keep(run->ranks, &b, &v.own, err));
    s->names_ranks = true;
    TRY(collect_timed(s, &v, err));
    TRY(votes_agree(run->ranks, &v, s->step, s->tag, err));
    s->names_ranks = false;
    pawl_status status = publish_all(s, &v, err);
    s->names_ranks = status == PAWL_EMISMATCH;
    if (status == PAWL_OK) {
        struct pawl_error ignored = ERROR_INIT;
        s->outcome_unpublished = publish_end(s, status, NULL, &ignored) != PAWL_OK;
    }
    return status;
}

pawl_status save_with_ranks(save *s, const index_input *input, pawl_error *err) {
    return s->run->ranks->rank == 0 ? collect_and_publish(s, input, err)
                                    : vote_and_wait(s, input, err);
}

/* ---- failures ------------------------------------------------------------------------------- */

void save_failed_for_ranks(save *s, pawl_status status, const pawl_error *story) {
    struct pawl_error whole = *story;
    struct pawl_error ignored = ERROR_INIT;
    whole.status = status;
    if (!save_of_many(s->run) || (s->run->ranks->rank != 0 && s->voted)) {
        return;
    }
    if (s->run->ranks->rank != 0) {
        fail_own_part(s, &whole);
    } else {
        s->outcome_unpublished = publish_end(s, status, &whole, &ignored) != PAWL_OK;
        leftovers_remember(s->run, s->step);
    }
}

void save_publish_outcome_again(save *s, pawl_status status, const pawl_error *story) {
    struct pawl_error whole = ERROR_INIT;
    struct pawl_error err = ERROR_INIT;
    if (!s->outcome_unpublished) {
        return;
    }
    if (status != PAWL_OK) {
        whole = *story;
        whole.status = status;
    }
    if (publish_end(s, status, &whole, &err) != PAWL_OK) {
        warn_outcome_unpublished(s->run, &err);
    }
    s->outcome_unpublished = false;
}

void save_skipped_story(const pawl_run *run, int rank, pawl_error *story) {
    char who[320];
    error_set(story, PAWL_ECANCELED,
              "%s was still busy with the save before this one, and skipped it",
              rank_text(who, run->ranks, rank));
    error_next(story, "save less often, or choose PAWL_ON_BUSY_WAIT");
}

static void rank_0_did_not_start(pawl_run *run, int64_t step, pawl_status status,
                                 const pawl_error *story) {
    struct pawl_error whole = ERROR_INIT;
    bool skipped = status == PAWL_OK;
    if (skipped) {
        save_skipped_story(run, 0, &whole);
    } else {
        whole = *story;
        whole.status = status;
    }
    leave_out_step(&whole, step);
    if (!skipped) {
        blame_rank_0(run, &whole);
    }
    save_publish_outcome(run, run->save_number, step, SAVE_END_FAILED, &whole);
    leftovers_remember(run, step);
}

static void rank_did_not_start(pawl_run *run, int64_t step, pawl_status status,
                               const pawl_error *story) {
    char directory[32];
    char tag[FORMAT_TAG_CHARS];
    struct pawl_error err = ERROR_INIT;
    name_step(directory, step);
    save_tag(tag, run, run->save_number);
    if (status != PAWL_OK) {
        if (vote_failed(run, directory, tag, step, story, &err) != PAWL_OK) {
            warn_vote_unpublished(run, &err);
        }
        return;
    }
    const ballot b = {.directory = directory, .tag = tag, .step = step, .skipped = true};
    if (vote_against(run, &b, &err) != PAWL_OK) {
        log_write(&run->log, PAWL_LOG_WARN, "the other ranks could not be told of the skip: %s",
                  error_text(&err));
    }
}

/* Does the save in flight hang? Then the storage must not be used. */
static bool hangs(pawl_run *run) {
    struct pawl_error ignored = ERROR_INIT;
    return !engine_busy(run->engine) && engine_ready(run->engine, &ignored) != PAWL_OK;
}

void save_not_started(pawl_run *run, int64_t step, pawl_status status, const pawl_error *story) {
    if (step < 0 || hangs(run)) { /* no directory, or no storage, to tell the others in */
        return;
    }
    (run->ranks->rank == 0 ? rank_0_did_not_start : rank_did_not_start)(run, step, status, story);
}

void save_name_awaited(const pawl_run *run, pawl_error *err) {
    char who[320];
    int ranks = atomic_load(&run->awaited_count);
    if (ranks == 0) {
        return;
    }
    rank_text(who, run->ranks, atomic_load(&run->awaited_first));
    if (run->ranks->rank != 0) {
        error_found(err, "this rank's part is durable; %s has not told yet how the save went", who);
    } else {
        error_found(err,
                    "this rank's part is durable; %d %s not voted yet, the first of them is %s",
                    ranks, ranks == 1 ? "rank has" : "ranks have", who);
    }
    error_next(err, "wait again; a rank that stays silent is given up after group_deadline_s");
}

/* ---- S04: skipping -------------------------------------------------------------------------- */

#define OUTCOME_TAKEN_S 1.0 /* at most, for the engine's thread to read an outcome */

/* Ranks see an outcome at slightly different times: without this some would skip the next save as
 * busy, and others begin it. */
void save_take_outcome(pawl_run *run) {
    struct pawl_error ignored = ERROR_INIT;
    struct pawl_error story = ERROR_INIT;
    engine_stats stats;
    pawl_status outcome;
    char tag[FORMAT_TAG_CHARS];
    save_tag(tag, run, run->current_number);
    if (run->ranks->rank != 0 && atomic_load(&run->awaited_count) > 0 && engine_busy(run->engine) &&
        outcome_is_there(run, tag)) {
        (void)!engine_wait(run->engine, OUTCOME_TAKEN_S, NULL, &outcome, &story, &stats, &ignored);
    }
}
