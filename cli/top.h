/* SPDX-License-Identifier: Apache-2.0 */
/* What `pawl top` knows of a run, and its picture. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "cli.h"
#include "event_copy.h"

enum { TOP_SAVES = 64, TOP_RESTORES = 3 };

typedef struct top_state {
    const char *run;
    pawl_events *events;
    pawl_owner_info owner;
    bool has_newest;
    pawl_step_info newest; /* without its texts */
    size_t committed;
    int64_t catalog_ns;          /* when the catalog was looked at, by now_ns */
    event_copy begun, progress;  /* of the save in flight, if it has got that far; empty: none */
    event_copy saves[TOP_SAVES]; /* rings: top_save and top_restore */
    event_copy restores[TOP_RESTORES];
    size_t save_count, failed_count, restore_count;
    event_copy failure; /* the last one */
    int64_t now_ns;
} top_state;

/* PAWL_ENOTFOUND where there is no run at all. */
pawl_status top_open(top_state *v, const char *run, output *out);
/* Looks again. */
pawl_status top_refresh(top_state *v, output *out);
void top_close(top_state *v);

/* The i-th last; NULL when there are fewer, or it is forgotten. */
const event_copy *top_save(const top_state *v, size_t i);
const event_copy *top_restore(const top_state *v, size_t i);
/* The event that tells most of the save in flight, or NULL. */
const event_copy *top_saving(const top_state *v);
/* Is there still someone who could end it? */
bool top_writer_may_live(const top_state *v);

/* `rows` bounds the lines; 0: a page for a log, with times instead of ages. */
void top_draw(const top_state *v, output *out, int rows);

#endif
