/* SPDX-License-Identifier: Apache-2.0 */
/* pawl_events_*. */
#include "api/api.h"
#include "presence/presence.h"
#include "run/run.h"

static pawl_status open_events(const char *path, const pawl_open_options *options,
                               pawl_events **events, pawl_error *err) {
    static const char call[] = "pawl_events_open";
    store *s = NULL;
    opening how;
    TRY(need(path, call, "run_path", err));
    TRY(need(events, call, "events", err));
    *events = NULL;
    TRY(take_opening(&how, options, false, call, err));
    TRY(open_retrying(how.storage, path, false, &s, err));
    return events_open(s, true, events, err);
}

pawl_status pawl_events_open(const char *run_path, const pawl_open_options *options,
                             pawl_events **events, pawl_error *err) {
    struct pawl_error story;
    return story_end(open_events(run_path, options, events, story_begin(&story)), &story, err);
}

static pawl_status next_event(pawl_events *events, pawl_event *event, int *more, pawl_error *err) {
    static const char call[] = "pawl_events_next";
    TRY(need(events, call, "events", err));
    TRY(need_own(events_process(events), call, "reader of events", "pawl_events_open", err));
    TRY(need_output(event, call, "event", "pawl_event", err));
    TRY(need(more, call, "more", err));
    pawl_event known;
    TRY(events_next(events, &known, more, err));
    give_output(event, &known, sizeof(known));
    return PAWL_OK;
}

pawl_status pawl_events_next(pawl_events *events, pawl_event *event, int *more, pawl_error *err) {
    struct pawl_error story;
    return story_end(next_event(events, event, more, story_begin(&story)), &story, err);
}
