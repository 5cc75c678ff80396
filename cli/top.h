/* SPDX-License-Identifier: Apache-2.0 */
/* What `pawl top` knows of a run, and its two forms. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "cli.h"
#include "kept.h"

enum { TOP_SAVES = 64, TOP_RESTORES = 3 };

typedef struct top_view {
    const char *run;
    pawl_events *events;
    pawl_owner_info owner;
    bool has_newest;
    pawl_step_info newest; /* without its texts */
    size_t committed;
    int64_t catalog_ns;    /* when the catalog was looked at, by now_ns */
    kept begun, progress;  /* of the save in flight, if it has got that far; empty: none */
    kept saves[TOP_SAVES]; /* rings: top_save and top_restore */
    kept restores[TOP_RESTORES];
    size_t save_count, failed_count, restore_count;
    kept failure; /* the last one */
    int64_t now_ns;
} top_view;

/* PAWL_ENOTFOUND where there is no run at all. */
pawl_status top_open(top_view *v, const char *run, output *out);
/* Looks again. */
pawl_status top_look(top_view *v, output *out);
void top_close(top_view *v);

/* The i-th last; NULL when there are fewer, or it is forgotten. */
const kept *top_save(const top_view *v, size_t i);
const kept *top_restore(const top_view *v, size_t i);
/* The event that tells most of the save in flight, or NULL. */
const kept *top_saving(const top_view *v);
/* Is there still someone who could end it? */
bool top_writer_may_live(const top_view *v);

/* `rows` bounds the lines; 0: a page for a log, with times instead of ages. */
void top_draw(const top_view *v, output *out, int rows);
void top_json(const top_view *v, json *j);

#endif
