/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of a run's event, since pawl_events_next reuses the memory of the last one. */
#ifndef CLI_EVENT_COPY_H
#define CLI_EVENT_COPY_H

#include "table.h"

#include <pawl/pawl.h>
#include <stdbool.h>

typedef struct event_copy {
    pawl_event event; /* its pointers lead to the members below */
    pawl_save_stats stats;
    char io[16];
    char *message, *json;
} event_copy;

/* Copies what the library handed out, as far as it goes, to a struct of ours; the rest is zero. */
void handed_out_copy(void *to, size_t size, const void *from);

/* Replaces the copy. A zeroed event_copy is empty. */
void event_copy_set(event_copy *k, const pawl_event *event);
void event_copy_free(event_copy *k);
bool event_copy_is_set(const event_copy *k);

/* Of a PAWL_EVENT_SAVE_ENDED. */
double event_gb_per_s(const event_copy *k);
double event_waited_s(const event_copy *k); /* for the previous save, and for room in the budget */
double event_stall_s(const event_copy *k);  /* how long training stood still, in all */

/* "ok", or the kind of failure; and its style. */
const char *event_verdict(const event_copy *k);
style event_style(const event_copy *k);

#endif
