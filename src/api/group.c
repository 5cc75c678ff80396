/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the group out of a caller's options; pawl_group_discover. */
#include "group/group.h"
#include "api/api.h"

pawl_status take_group(const pawl_group **group, pawl_group *known, const char *call,
                       pawl_error *err) {
    if (*group != NULL) {
        TRY(take_options(known, sizeof(*known), *group, call, "pawl_group", err));
        *group = known;
    }
    return PAWL_OK;
}

static pawl_status discover_group(const char *const *environment, pawl_group_found *found,
                                  pawl_error *err) {
    static const char call[] = "pawl_group_discover";
    pawl_group_found all;
    TRY(need(environment, call, "environment", err));
    TRY(need_output(found, call, "found", "pawl_group_found", err));
    TRY(group_discover(environment, &all, err));
    give_output(found, &all, sizeof(all));
    return PAWL_OK;
}

pawl_status pawl_group_discover(const char *const *environment, pawl_group_found *found,
                                pawl_error *err) {
    struct pawl_error story;
    return story_end(discover_group(environment, found, story_begin(&story)), &story, err);
}
