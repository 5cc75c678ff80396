/* SPDX-License-Identifier: Apache-2.0 */
/* The events of a save: begun, progress, ended. */
#include "run/save.h"

pawl_save_stats save_stats_now(const save *s) {
    pawl_save_stats stats = s->begun;
    engine_stats part;
    engine_stats_now(s->engine, &part);
    run_stats_take(&stats, &part);
    stats.group_wait_s = (double)atomic_load(&s->run->group_wait_ns) / NANOSECONDS;
    stats.retries = store_retry_count(s->run->store) - s->retries_before;
    return stats;
}

void save_report_begun(const save *s) {
    const pawl_event event = {
        .kind = PAWL_EVENT_SAVE_BEGUN, .step = s->step, .of_bytes = s->layout->bytes};
    events_report(s->run->events, &event, NULL, EVENTS_ALL);
}

void save_on_progress(void *context, uint64_t written, uint64_t of) {
    const save *s = context;
    const pawl_event event = {.kind = PAWL_EVENT_SAVE_PROGRESS,
                              .step = s->step,
                              .done_bytes = written,
                              .of_bytes = of,
                              .seconds = platform_since_s(s->run->platform, s->called_ns)};
    events_report(s->run->events, &event, NULL, EVENTS_ALL);
}

void save_report_ended(const save *s, pawl_status status, const pawl_error *story,
                       const pawl_save_stats *stats, uint64_t written, unsigned whom) {
    char message[2048];
    bool failed = status != PAWL_OK;
    if (failed) {
        error_line(message, sizeof message, story);
    }
    const pawl_event event = {.kind = PAWL_EVENT_SAVE_ENDED,
                              .step = s->step,
                              .status = status,
                              .message = failed ? message : NULL,
                              .done_bytes = failed ? written : stats->bytes,
                              .of_bytes = stats->bytes,
                              .seconds = stats->total_s,
                              .stats = stats};
    events_report(s->run->events, &event, NULL, whom);
}

void save_report_engine_ended(const save *s, pawl_status status, const pawl_error *story,
                              unsigned whom) {
    pawl_save_stats stats = save_stats_now(s);
    uint64_t written;
    uint64_t of;
    engine_written(s->engine, &written, &of);
    save_report_ended(s, status, story, &stats, written, whom);
}
