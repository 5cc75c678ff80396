/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_checkpoint_diff; pawl_diff_kind_name is in src/diff. */
#include "diff/diff.h"
#include "api/api.h"

static const char call[] = "pawl_checkpoint_diff";

/* *renames is to be freed. */
static pawl_status take_diff(pawl_diff_options *to, const pawl_diff_options *from, void **renames,
                             pawl_error *err) {
    TRY(take_options(to, sizeof(*to), from, call, "pawl_diff_options", err));
    const given_items given = {.items = to->renames,
                               .count = to->rename_count,
                               .size = to->rename_size,
                               .known_size = sizeof(*to->renames),
                               .call = call,
                               .name = "options.renames",
                               .size_name = "rename_size",
                               .type = "pawl_rename"};
    TRY(take_items(&given, renames, err));
    to->renames = *renames != NULL ? *renames : to->renames;
    for (size_t i = 0; i < to->rename_count; i++) {
        TRY(need(to->renames[i].from, call, "options.renames[i].from", err));
        TRY(need(to->renames[i].to, call, "options.renames[i].to", err));
    }
    TRY(need_items(to->transpose, to->transpose_count, call, "options.transpose", err));
    for (size_t i = 0; i < to->transpose_count; i++) {
        TRY(need(to->transpose[i], call, "options.transpose[i]", err));
    }
    return PAWL_OK;
}

static pawl_status compare_checkpoints(pawl_checkpoint *a, pawl_checkpoint *b,
                                       const pawl_diff_options *options, pawl_diff_result *result,
                                       pawl_error *err) {
    CLEANUP(mem_free_pointer) void *renames = NULL;
    pawl_diff_options known;
    pawl_diff_result found;
    TRY(need(a, call, "a", err));
    TRY(need(b, call, "b", err));
    TRY(need_checkpoint(a, call, err));
    TRY(need_checkpoint(b, call, err));
    TRY(take_diff(&known, options, &renames, err));
    TRY(need_output(result, call, "result", "pawl_diff_result", err));
    TRY(checkpoint_diff(a, b, &known, &found, err));
    give_output(result, &found, sizeof(found));
    return PAWL_OK;
}

pawl_status pawl_checkpoint_diff(pawl_checkpoint *a, pawl_checkpoint *b,
                                 const pawl_diff_options *options, pawl_diff_result *result,
                                 pawl_error *err) {
    struct pawl_error story;
    return story_end(compare_checkpoints(a, b, options, result, story_begin(&story)), &story, err);
}
