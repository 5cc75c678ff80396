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
    pawl_step_info newest;       /* without its texts */
    size_t committed;            /* how many checkpoints */
    int64_t catalog_ns;          /* when the catalog was last read, by the clock of now_ns */
    event_copy begun, progress;  /* the latest of each kind of the save in flight, or empty */
    event_copy saves[TOP_SAVES]; /* rings; read them by top_save and top_restore */
    event_copy restores[TOP_RESTORES];
    size_t save_count, failed_count, restore_count;
    event_copy failure; /* the last one */
    int64_t now_ns;
} top_state;

/* PAWL_ENOTFOUND if there is no run. */
pawl_status top_open(top_state *v, const char *run, output *out);
/* Reads what is new. */
pawl_status top_refresh(top_state *v, output *out);
void top_close(top_state *v);

/* The latest for i = 0, the one before for i = 1, ...; NULL: there was none, or it is not kept. */
const event_copy *top_save(const top_state *v, size_t i);
const event_copy *top_restore(const top_state *v, size_t i);
/* The latest event of the save in flight, or NULL. */
const event_copy *top_saving(const top_state *v);
/* Might the writer still be alive? */
bool top_writer_may_live(const top_state *v);

/* `rows`: the height of the screen; 0: not for a screen, with times instead of ages. */
void top_draw(const top_state *v, output *out, int rows);

#endif
