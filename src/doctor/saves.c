/* SPDX-License-Identifier: Apache-2.0 */
/* How the run's last saves went, as its events have it. */
#include "doctor/examination.h"
#include "run/run.h"

#include <stdlib.h>

#define MOST_SAVES 32u /* the newest of them count */

typedef struct save_seen {
    double begun_s; /* when pawl_save was called, by the writer's clock */
    double total_s, busy_s, stall_s;
    uint64_t bytes;
} save_seen;

typedef struct saves_seen {
    save_seen of[MOST_SAVES];
    size_t count; /* all that were seen: the newest MOST_SAVES are kept */
} saves_seen;

static void note_save(saves_seen *seen, const pawl_event *event) {
    const pawl_save_stats *stats = event->stats;
    if (event->kind != PAWL_EVENT_SAVE_ENDED || event->status != PAWL_OK || stats == NULL) {
        return;
    }
    seen->of[seen->count++ % MOST_SAVES] =
        (save_seen){.begun_s = (double)event->unix_time_ns / NANOSECONDS - stats->total_s,
                    .total_s = stats->total_s,
                    .busy_s = stats->busy_wait_s,
                    .stall_s = stats->busy_wait_s + stats->prepare_s + stats->fence_copy_s +
                               stats->fence_wait_s,
                    .bytes = stats->bytes};
}

static int by_number(const void *left, const void *right) {
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double doctor_median(double *numbers, size_t count) {
    if (count == 0) {
        return 0;
    }
    qsort(numbers, count, sizeof(*numbers), by_number);
    return numbers[count / 2];
}

/* A save that waits for the one before begins late by that wait: the job asked for a shorter time
 * between the two. */
static void sum_up(const saves_seen *seen, doctor_saves *out) {
    double save_s[MOST_SAVES] = {0};
    double stall_s[MOST_SAVES] = {0};
    double every_s[MOST_SAVES] = {0};
    size_t n = seen->count < MOST_SAVES ? seen->count : MOST_SAVES;
    for (size_t i = 0; i < n; i++) {
        const save_seen *one = &seen->of[(seen->count - n + i) % MOST_SAVES];
        save_s[i] = one->total_s - one->busy_s;
        stall_s[i] = one->stall_s;
        out->bytes = one->bytes;
        if (i + 1 < n) {
            const save_seen *next = &seen->of[(seen->count - n + i + 1) % MOST_SAVES];
            double asked_s = next->begun_s - one->begun_s - one->busy_s;
            if (asked_s > 0) {
                every_s[out->intervals++] = asked_s;
            }
        }
    }
    out->count = n;
    out->save_s = doctor_median(save_s, n);
    out->stall_s = doctor_median(stall_s, n);
    out->every_s = doctor_median(every_s, out->intervals);
}

void doctor_look_at_saves(examination *x, store *s) {
    struct pawl_error ignored = ERROR_INIT;
    pawl_events *events = NULL;
    pawl_event event;
    int more = 1;
    AUTOFREE saves_seen *seen = mem_calloc(1, sizeof(*seen));
    if (seen == NULL || events_open(s, false, &events, &ignored) != PAWL_OK) {
        return; /* nothing depends on them */
    }
    while (events_next(events, &event, &more, &ignored) == PAWL_OK && more != 0) {
        note_save(seen, &event);
        x->last_unix_ns =
            event.unix_time_ns > x->last_unix_ns ? event.unix_time_ns : x->last_unix_ns;
    }
    pawl_events_close(events);
    sum_up(seen, &x->saves);
}
