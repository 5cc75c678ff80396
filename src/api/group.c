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

pawl_status check_group_deadline(double deadline_s, const char *call, pawl_error *err) {
    if (deadline_s >= 0 && deadline_s <= 1e6) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "%s: group_deadline_s is out of range", call);
    error_expected(err, "0 to 1000000 seconds");
    error_found(err, "%g", deadline_s);
    return PAWL_EUSAGE;
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
