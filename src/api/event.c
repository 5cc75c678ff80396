/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_events_*, pawl_owner_look. */
#include "api/api.h"
#include "run/run.h"

#include <stdio.h>

/* ---- events --------------------------------------------------------------------------------- */

static pawl_status open_events(const char *path, pawl_events **events, pawl_error *err) {
    store *s = NULL;
    TRY(need(path, "pawl_events_open", "run_path", err));
    TRY(need(events, "pawl_events_open", "events", err));
    *events = NULL;
    TRY(storage_open(path, false, &s, err));
    return events_open(s, true, events, err);
}

pawl_status pawl_events_open(const char *run_path, pawl_events **events, pawl_error *err) {
    struct pawl_error story;
    return story_end(open_events(run_path, events, story_begin(&story)), &story, err);
}

static pawl_status next_event(pawl_events *events, pawl_event *event, int *more, pawl_error *err) {
    static const char call[] = "pawl_events_next";
    TRY(need(events, call, "events", err));
    TRY(need_own(events_process(events), call, "reader of events", "pawl_events_open", err));
    TRY(need(event, call, "event", err));
    TRY(need(more, call, "more", err));
    return events_next(events, event, more, err);
}

pawl_status pawl_events_next(pawl_events *events, pawl_event *event, int *more, pawl_error *err) {
    struct pawl_error story;
    return story_end(next_event(events, event, more, story_begin(&story)), &story, err);
}

/* ---- the owner ------------------------------------------------------------------------------ */

static pawl_owner_state state_of(const owner_view *v) {
    static const pawl_owner_state states[] = {[PROCESS_ALIVE] = PAWL_OWNER_ALIVE,
                                              [PROCESS_DEAD] = PAWL_OWNER_GONE,
                                              [PROCESS_UNKNOWN] = PAWL_OWNER_UNKNOWN};
    return v->present ? states[v->alive] : PAWL_OWNER_NONE;
}

static void describe(const owner_view *v, pawl_owner_info *info) {
    *info = (pawl_owner_info){.state = state_of(v),
                              .pid = v->who.pid,
                              .lease_s = v->lease_s,
                              .heartbeat_age_s = v->present ? v->heartbeat_age_s : -1};
    (void)snprintf(info->host, sizeof(info->host), "%s", v->who.host);
    (void)snprintf(info->attempt, sizeof(info->attempt), "%s", v->attempt);
}

static pawl_status look(const char *path, pawl_owner_info *info, pawl_error *err) {
    CLEANUP(store_destroy_pointer) store *s = NULL;
    owner_view seen;
    TRY(need(path, "pawl_owner_look", "run_path", err));
    TRY(need(info, "pawl_owner_look", "info", err));
    TRY(storage_open(path, false, &s, err));
    TRY(owner_look(s, platform_system(), &seen, err));
    describe(&seen, info);
    return PAWL_OK;
}

pawl_status pawl_owner_look(const char *run_path, pawl_owner_info *info, pawl_error *err) {
    struct pawl_error story;
    return story_end(look(run_path, info, story_begin(&story)), &story, err);
}
