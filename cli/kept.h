/* SPDX-License-Identifier: Apache-2.0 */
/* An event of a run, kept for longer than the walk over the events does. */
#ifndef CLI_KEPT_H
#define CLI_KEPT_H

#include "table.h"

#include <pawl/pawl.h>
#include <stdbool.h>

typedef struct kept {
    pawl_event event; /* its pointers are ours; `stats` is NULL but for a save's end */
    pawl_save_stats stats;
    char io[16];
    char *message, *json;
} kept;

/* Keeps this event in place of the one before. A zeroed `kept` is empty. */
void kept_take(kept *k, const pawl_event *event);
void kept_free(kept *k);
bool kept_any(const kept *k);

/* Of a save's end. */
double kept_gb_per_s(const kept *k);
double kept_waited_s(const kept *k); /* for an earlier save, and for room in the budget */
double kept_stall_s(const kept *k);  /* all that training stood still for */

/* "ok", or the category of the failure; and how to show it. */
const char *kept_verdict(const kept *k);
style kept_style(const kept *k);

#endif
