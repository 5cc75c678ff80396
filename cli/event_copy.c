/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of an event, and figures that follow from it. */
#include "event_copy.h"
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void event_copy_free(event_copy *k) {
    free(k->message);
    free(k->json);
    *k = (event_copy){0};
}

void handed_out_copy(void *to, size_t size, const void *from) {
    size_t known = 0;
    memcpy(&known, from, sizeof known); /* its first member, struct_size */
    memset(to, 0, size);
    memcpy(to, from, known < size ? known : size);
}

void event_copy_set(event_copy *k, const pawl_event *event) {
    event_copy_free(k);
    k->event = *event;
    k->json = must_strdup(event->json);
    k->message = event->message != NULL ? must_strdup(event->message) : NULL;
    k->event.json = k->json;
    k->event.message = k->message;
    if (event->stats != NULL) {
        handed_out_copy(&k->stats, sizeof k->stats, event->stats);
        snprintf(k->io, sizeof k->io, "%s", event->stats->io != NULL ? event->stats->io : "");
        k->stats.io = k->io;
        k->event.stats = &k->stats;
    }
}

bool event_copy_is_set(const event_copy *k) {
    return k->json != NULL;
}

double event_gb_per_s(const event_copy *k) {
    const pawl_event *e = &k->event;
    return e->seconds > 0 ? (double)e->done_bytes / 1e9 / e->seconds : 0;
}

double event_waited_s(const event_copy *k) {
    return k->stats.busy_wait_s + k->stats.fence_wait_s;
}

double event_stall_s(const event_copy *k) {
    return k->stats.prepare_s + k->stats.fence_copy_s + event_waited_s(k);
}

const char *event_verdict(const event_copy *k) {
    return pawl_status_name(k->event.status);
}

style event_style(const event_copy *k) {
    switch (k->event.status) {
    case PAWL_OK:
        return STYLE_GOOD;
    case PAWL_ECANCELED:
        return STYLE_WARNING;
    default:
        return STYLE_BAD;
    }
}
