/* SPDX-License-Identifier: Apache-2.0 */
/* An event that is kept. */
#include "kept.h"
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>

void kept_free(kept *k) {
    free(k->message);
    free(k->json);
    *k = (kept){0};
}

void kept_take(kept *k, const pawl_event *event) {
    kept_free(k);
    k->event = *event;
    k->json = must_strdup(event->json);
    k->message = event->message != NULL ? must_strdup(event->message) : NULL;
    k->event.json = k->json;
    k->event.message = k->message;
    if (event->stats != NULL) {
        k->stats = *event->stats;
        snprintf(k->io, sizeof k->io, "%s", event->stats->io != NULL ? event->stats->io : "");
        k->stats.io = k->io;
        k->event.stats = &k->stats;
    }
}

bool kept_any(const kept *k) {
    return k->json != NULL;
}

double kept_gb_per_s(const kept *k) {
    const pawl_event *e = &k->event;
    return e->seconds > 0 ? (double)e->done_bytes / 1e9 / e->seconds : 0;
}

double kept_waited_s(const kept *k) {
    return k->stats.busy_wait_s + k->stats.fence_wait_s;
}

double kept_stall_s(const kept *k) {
    return k->stats.prepare_s + k->stats.fence_copy_s + kept_waited_s(k);
}

const char *kept_verdict(const kept *k) {
    return pawl_status_name(k->event.status);
}

style kept_style(const kept *k) {
    switch (k->event.status) {
    case PAWL_OK:
        return STYLE_GOOD;
    case PAWL_ECANCELED:
        return STYLE_WARNING;
    default:
        return STYLE_BAD;
    }
}
