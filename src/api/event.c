/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_events_*. */
#include "api/api.h"
#include "checkpoint/checkpoint.h"
#include "presence/presence.h"

static pawl_status open_events(const char *path, pawl_events **events, pawl_error *err) {
    store *s = NULL;
    TRY(need(path, "pawl_events_open", "run_path", err));
    TRY(need(events, "pawl_events_open", "events", err));
    *events = NULL;
    TRY(open_retrying(path, false, &s, err));
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
