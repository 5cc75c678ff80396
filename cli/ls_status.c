/* SPDX-License-Identifier: Apache-2.0 */
/* How pawl ls shows the status of a step, or of a checkpoint. */
#include "ls_status.h"

const char *ls_status_name(pawl_step_status status) {
    static const char *const names[] = {
        [PAWL_STEP_COMMITTED] = "committed",
        [PAWL_STEP_UNFINISHED] = "unfinished",
        [PAWL_STEP_DAMAGED] = "damaged",
        [PAWL_STEP_UNREADABLE] = "unreadable",
    };
    return names[status];
}

style ls_status_style(pawl_step_status status) {
    static const style styles[] = {
        [PAWL_STEP_COMMITTED] = STYLE_GOOD,
        [PAWL_STEP_UNFINISHED] = STYLE_WARNING,
        [PAWL_STEP_DAMAGED] = STYLE_BAD,
        [PAWL_STEP_UNREADABLE] = STYLE_BAD,
    };
    return styles[status];
}

bool ls_status_is_bad(pawl_step_status status) {
    return status == PAWL_STEP_DAMAGED || status == PAWL_STEP_UNREADABLE;
}
