/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_checkpoint_diff; pawl_diff_kind_name is in src/diff. */
#include "diff/diff.h"
#include "api/api.h"

static pawl_status compare_checkpoints(pawl_checkpoint *a, pawl_checkpoint *b,
                                       const pawl_diff_options *options, pawl_diff_result *result,
                                       pawl_error *err) {
    static const char call[] = "pawl_checkpoint_diff";
    pawl_diff_options known;
    pawl_diff_result found;
    TRY(need(a, call, "a", err));
    TRY(need(b, call, "b", err));
    TRY(need_checkpoint(a, call, err));
    TRY(need_checkpoint(b, call, err));
    TRY(take_options(&known, sizeof(known), options, call, "pawl_diff_options", err));
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
