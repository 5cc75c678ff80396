/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many ranks restore a checkpoint that each of them has opened, without owning the run. First they
 * meet to find out whether all have opened the same one; then they try it (joint.c). There is no
 * other that could take its place: what fails on one rank fails on all.
 */
#include "restore/restore.h"

#include <string.h>

/* ---- is it the same? ------------------------------------------------------------------------ */

/* R11. */
static pawl_status different_checkpoints(const joint_restore *j, const char *const *said,
                                         pawl_error *err) {
    const job_ranks *ranks = j->ranks;
    char found[512];
    TRY(joint_said_text(found, sizeof found, ranks, said, err));
    error_set(err, PAWL_EMISMATCH, "the ranks have opened different checkpoints");
    if (ranks->store != NULL) {
        store_error_path(err, ranks->store, "");
    }
    error_expected(err, "the same one on all %d ranks", ranks->world_size);
    error_found(err, "%s", found);
    error_safe(err, "nothing was read into any state");
    error_next(
        err, "%s",
        j->step >= 0
            ? "open the same step by its number on all ranks: a newer one may have been "
              "committed while they opened the newest"
            : "open the same files on all ranks, or exact copies of them; see how two differ "
              "with: pawl diff PATH PATH");
    return PAWL_EMISMATCH;
}

/* Each card is what checkpoint_identity says. */
static pawl_status judge_identities(void *context, job_ranks *ranks, const meet_card *cards,
                                    buffer *answer, pawl_error *err) {
    const joint_restore *j = context;
    bool same = true;
    AUTOFREE const char **said = mem_calloc((size_t)ranks->world_size, sizeof *said);
    if (said == NULL) {
        return error_nomem(err, (size_t)ranks->world_size * sizeof *said);
    }
    TRY(ranks_failed(ranks, cards, err));
    for (int r = 0; r < ranks->world_size; r++) {
        said[r] = (const char *)cards[r].bytes; /* a NUL follows */
        same = same && strcmp(said[0], said[r]) == 0;
    }
    return same ? joint_decision_encode(JOINT_TAKE_STEP, j->step, NULL, answer, err)
                : different_checkpoints(j, said, err);
}

static pawl_status meet_about_checkpoint(joint_restore *j, pawl_error *err) {
    CLEANUP(buffer_free) buffer mine = {0};
    char identity[CHECKPOINT_IDENTITY_CHARS] = "";
    struct pawl_error story = ERROR_INIT;
    pawl_status own = restore_check_held(j->checkpoint, &story);
    if (own == PAWL_OK) {
        own = checkpoint_identity(j->checkpoint, identity, &story);
    }
    meeting m = {.what = "restore", .status = own, .failed = &story, .judge = judge_identities};
    TRY(buffer_append(&mine, identity, strlen(identity), err));
    return joint_meet(j, &m, &mine, err);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Ranks without callbacks meet through files, for which a run has a place and nothing else has. */
static pawl_status need_place_to_meet(const joint_restore *j, pawl_error *err) {
    pawl_checkpoint_info info;
    if (j->step >= 0 || j->ranks->world_size == 1 || j->ranks->group->connected) {
        return PAWL_OK;
    }
    checkpoint_describe(j->checkpoint, &info);
    error_set(err, PAWL_EUSAGE, "ranks without callbacks cannot restore weights together");
    error_path(err, "%s", info.path);
    error_expected(err, "a group with the callbacks gather and broadcast, or no group");
    error_found(err,
                "a group of %d ranks without them, which would meet through files; and pawl "
                "writes nothing beside files of other tools",
                j->ranks->world_size);
    error_safe(err, "nothing was read into any state, and nothing was written");
    error_next(err, "give the group its callbacks gather and broadcast (pawl/mpi.h has them for "
                    "MPI), or let each rank restore by itself, without a group");
    return PAWL_EUSAGE;
}

static pawl_status restore_by_all(joint_restore *j, pawl_error *err) {
    TRY(need_place_to_meet(j, err));
    TRY(ranks_prepare_visit(j->ranks, err));
    pawl_status status = meet_about_checkpoint(j, err);
    if (status == PAWL_OK) {
        status = joint_try(j, err);
    }
    ranks_end_visit(j->ranks);
    return status;
}

pawl_status restore_given(job_ranks *ranks, pawl_checkpoint *c, pawl_state *state,
                          const pawl_restore_options *options, pawl_report **report,
                          pawl_error *err) {
    if (report != NULL) {
        *report = NULL;
    }
    AUTOFREE joint_restore *j = mem_calloc(1, sizeof *j);
    if (j == NULL) {
        return error_nomem(err, sizeof *j);
    }
    ranks->store = checkpoint_store(c);
    ranks->log = *checkpoint_log(c);
    ranks->visiting = true;
    *j = (joint_restore){.ranks = ranks,
                         .stop = restore_interrupt(options),
                         .all = {.state = state,
                                 .stop = &j->stop,
                                 .hang_timeout_s = ranks->timeout_s,
                                 .options = options,
                                 .rank = ranks->rank,
                                 .world_size = ranks->world_size,
                                 .report_wanted = report != NULL,
                                 .job = ranks->world_size > 1},
                         .no_fallback = true,
                         .checkpoint = c,
                         .step = checkpoint_step(c)};
    ranks->stop = &j->stop;
    pawl_status status = restore_by_all(j, err);
    ranks->stop = NULL;
    if (status != PAWL_OK) {
        joint_end_report(j, status);
        error_wrap(err, "restoring %s", checkpoint_label(c));
    }
    restore_end(&j->all, status, report);
    restoration_free(&j->all);
    return status;
}
