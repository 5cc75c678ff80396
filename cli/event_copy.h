/* SPDX-License-Identifier: Apache-2.0 */
/* An event of a run, kept for longer than the walk over the events does. */
#ifndef CLI_EVENT_COPY_H
#define CLI_EVENT_COPY_H

#include "table.h"

#include <pawl/pawl.h>
#include <stdbool.h>

typedef struct event_copy {
    pawl_event event; /* its pointers are ours; `stats` is NULL but for a save's end */
    pawl_save_stats stats;
    char io[16];
    char *message, *json;
} event_copy;

/* Keeps this event in place of the one before. A zeroed `event_copy` is empty. */
void event_copy_set(event_copy *k, const pawl_event *event);
void event_copy_free(event_copy *k);
bool event_copy_is_set(const event_copy *k);

/* Of a save's end. */
double event_gb_per_s(const event_copy *k);
double event_waited_s(const event_copy *k); /* for an earlier save, and for room in the budget */
double event_stall_s(const event_copy *k);  /* all that training stood still for */

/* "ok", or the category of the failure; and how to show it. */
const char *event_verdict(const event_copy *k);
style event_style(const event_copy *k);

#endif
