/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_owner_look. */
#include "api/api.h"
#include "presence/presence.h"

#include <stdio.h>

static pawl_owner_state state_of(const owner_sight *v) {
    static const pawl_owner_state states[] = {[PROCESS_ALIVE] = PAWL_OWNER_ALIVE,
                                              [PROCESS_DEAD] = PAWL_OWNER_GONE,
                                              [PROCESS_UNKNOWN] = PAWL_OWNER_UNKNOWN};
    return v->present ? states[v->alive] : PAWL_OWNER_NONE;
}

static void describe_owner(const owner_sight *v, pawl_owner_info *info) {
    *info = (pawl_owner_info){.state = state_of(v),
                              .pid = v->who.pid,
                              .lease_s = v->lease_s,
                              .heartbeat_age_s = v->present ? v->heartbeat_age_s : -1};
    (void)snprintf(info->host, sizeof(info->host), "%s", v->who.host);
    (void)snprintf(info->attempt, sizeof(info->attempt), "%s", v->attempt);
}

static pawl_status look_at_owner(const char *path, const pawl_open_options *options,
                                 pawl_owner_info *info, pawl_error *err) {
    static const char call[] = "pawl_owner_look";
    CLEANUP(store_destroy_pointer) store *s = NULL;
    opening how;
    owner_sight seen;
    pawl_owner_info known;
    TRY(need(path, call, "run_path", err));
    TRY(need_output(info, call, "info", "pawl_owner_info", err));
    TRY(take_opening(&how, options, false, call, err));
    TRY(open_retrying(how.storage, path, false, &s, err));
    TRY(owner_look(s, platform_system(), &seen, err));
    describe_owner(&seen, &known);
    give_output(info, &known, sizeof(known));
    return PAWL_OK;
}

pawl_status pawl_owner_look(const char *run_path, const pawl_open_options *options,
                            pawl_owner_info *info, pawl_error *err) {
    struct pawl_error story;
    return story_end(look_at_owner(run_path, options, info, story_begin(&story)), &story, err);
}
