/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_checkpoint_restore, pawl_checkpoint_verify, and the totals of a report; pawl_restore is in
 * api/run.c, and what else a report tells in src/match/report.c. */
#include "restore/restore.h"
#include "api/api.h"
#include "checkpoint/checkpoint.h"
#include "match/match.h"

#define DEFAULT_GROUP_DEADLINE_S 600.0

static void free_ranks(job_ranks **ranks) {
    ranks_free(*ranks);
}

static pawl_status restore_with_group(pawl_checkpoint *checkpoint, pawl_state *state,
                                      pawl_restore_options *options, pawl_report **report,
                                      pawl_error *err) {
    static const char call[] = "pawl_checkpoint_restore";
    pawl_group given;
    rank_group *group = NULL;
    CLEANUP(free_ranks) job_ranks *ranks = NULL;
    double deadline_s = options->group_deadline_s;
    TRY(take_group(&options->group, &given, call, err));
    TRY(group_new(options->group, &group, err));
    TRY(ranks_new(group, platform_system(), &ranks, err));
    ranks->timeout_s = deadline_s > 0 ? deadline_s : DEFAULT_GROUP_DEADLINE_S;
    return restore_given(ranks, checkpoint, state, options, report, err);
}

static pawl_status restore_checkpoint(pawl_checkpoint *checkpoint, pawl_state *state,
                                      const pawl_restore_options *options, pawl_report **report,
                                      pawl_error *err) {
    static const char call[] = "pawl_checkpoint_restore";
    pawl_restore_options known;
    CLEANUP(mem_free_pointer) void *renames = NULL;
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(need(state, call, "state", err));
    TRY(take_restore_options(&known, &renames, options, call, err));
    TRY(check_group_deadline(known.group_deadline_s, call, err));
    if (known.group == NULL) {
        return checkpoint_restore(checkpoint, state, &known, 0, 1, report, err);
    }
    return restore_with_group(checkpoint, state, &known, report, err);
}

pawl_status pawl_checkpoint_restore(pawl_checkpoint *checkpoint, pawl_state *state,
                                    const pawl_restore_options *options, pawl_report **report,
                                    pawl_error *err) {
    struct pawl_error story;
    if (report != NULL) {
        *report = NULL;
    }
    return story_end(restore_checkpoint(checkpoint, state, options, report, story_begin(&story)),
                     &story, err);
}

static pawl_status verify_checkpoint(pawl_checkpoint *checkpoint,
                                     const pawl_verify_options *options, pawl_verify_result *result,
                                     pawl_error *err) {
    static const char call[] = "pawl_checkpoint_verify";
    pawl_verify_options known;
    pawl_verify_result found;
    TRY(need_checkpoint(checkpoint, call, err));
    TRY(take_options(&known, sizeof(known), options, call, "pawl_verify_options", err));
    if (result == NULL) {
        return checkpoint_verify(checkpoint, &known, &found, err);
    }
    TRY(need_output(result, call, "result", "pawl_verify_result", err));
    pawl_status status = checkpoint_verify(checkpoint, &known, &found, err);
    give_output(result, &found, sizeof(found));
    return status;
}

pawl_status pawl_checkpoint_verify(pawl_checkpoint *checkpoint, const pawl_verify_options *options,
                                   pawl_verify_result *result, pawl_error *err) {
    struct pawl_error story;
    return story_end(verify_checkpoint(checkpoint, options, result, story_begin(&story)), &story,
                     err);
}

/* ---- reports ---- */

static pawl_status sum_report(const pawl_report *report, pawl_report_counts *counts,
                              pawl_error *err) {
    static const char call[] = "pawl_report_totals";
    TRY(need(report, call, "report", err));
    TRY(need_output(counts, call, "counts", "pawl_report_counts", err));
    const pawl_report_counts known = report_totals(report);
    give_output(counts, &known, sizeof(known));
    return PAWL_OK;
}

pawl_status pawl_report_totals(const pawl_report *report, pawl_report_counts *counts,
                               pawl_error *err) {
    struct pawl_error story;
    return story_end(sum_report(report, counts, story_begin(&story)), &story, err);
}
