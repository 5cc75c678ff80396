/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every save ends with an event that has its figures. The linker sends the events of a test program
 * here first (--wrap), so that each save of each test is checked: do its figures add up as
 * pawl/run.h says?
 */
#include "run/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDING_S 1e-9

/* The names that the linker's --wrap asks for. */
void __real_events_report(events *e, const pawl_event *what, const event_restore *restore,
                          unsigned whom);
void __wrap_events_report(events *e, const pawl_event *what, const event_restore *restore,
                          unsigned whom);

/* On whatever thread: an assertion of cmocka's would not find its way from the engine's. */
static void must(bool so, const char *what, const pawl_event *e) {
    const pawl_save_stats *s = e->stats;
    if (so) {
        return;
    }
    fprintf(stderr,
            "the figures of the save of step %" PRId64 " do not add up: %s\n"
            "seconds %.9f, total %.9f = wait %.9f + prepare %.9f + ... + write %.9f + sync %.9f + "
            "commit %.9f (group %.9f), tidy %.9f\n",
            e->step, what, e->seconds, s->total_s, s->busy_wait_s, s->prepare_s, s->write_s,
            s->sync_s, s->commit_s, s->group_wait_s, s->tidy_s);
    abort();
}

static void check(const pawl_event *e) {
    const pawl_save_stats *s = e->stats;
    const double parts[] = {s->busy_wait_s, s->prepare_s,    s->write_s, s->sync_s,
                            s->commit_s,    s->group_wait_s, s->tidy_s};
    double sum = s->busy_wait_s + s->prepare_s + s->write_s + s->sync_s + s->commit_s;
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        must(parts[i] >= 0, "less than nothing", e);
    }
    must(sum <= s->total_s + ROUNDING_S, "the parts are more than the whole", e);
    must(s->group_wait_s <= s->commit_s + ROUNDING_S, "ranks were waited for outside commit", e);
    must(e->seconds == s->total_s, "the event has another time", e);
    must(e->status == PAWL_OK || s->tidy_s == 0, "something was tidied after a failure", e);
    must(e->status != PAWL_OK || e->done_bytes == s->bytes, "not all bytes were saved", e);
}

void __wrap_events_report(events *e, const pawl_event *what, const event_restore *restore,
                          unsigned whom) {
    if (what->stats != NULL) {
        check(what);
    }
    __real_events_report(e, what, restore, whom);
}
