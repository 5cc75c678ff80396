/* SPDX-License-Identifier: Apache-2.0 */
/* What `pawl top` knows of a run: its owner, its newest checkpoint, and its events. */
#include "clock.h"
#include "memory.h"
#include "top.h"

#define CATALOG_AGE_NS INT64_C(10000000000) /* it may also change without an event */

const event_copy *top_save(const top_state *v, size_t i) {
    return i < v->save_count && i < TOP_SAVES ? &v->saves[(v->save_count - 1 - i) % TOP_SAVES]
                                              : NULL;
}

const event_copy *top_restore(const top_state *v, size_t i) {
    return i < v->restore_count && i < TOP_RESTORES
               ? &v->restores[(v->restore_count - 1 - i) % TOP_RESTORES]
               : NULL;
}

const event_copy *top_saving(const top_state *v) {
    return event_copy_is_set(&v->progress) ? &v->progress
           : event_copy_is_set(&v->begun)  ? &v->begun
                                           : NULL;
}

bool top_writer_may_live(const top_state *v) {
    return v->owner.state == PAWL_OWNER_ALIVE || v->owner.state == PAWL_OWNER_UNKNOWN;
}

/* ---- events --------------------------------------------------------------------------------- */

static void take_save_end(top_state *v, const pawl_event *event) {
    event_copy_free(&v->begun);
    event_copy_free(&v->progress);
    event_copy_set(&v->saves[v->save_count++ % TOP_SAVES], event);
    if (event->status != PAWL_OK && event->status != PAWL_ECANCELED) {
        v->failed_count++;
        event_copy_set(&v->failure, event);
    }
}

static void take_event(top_state *v, const pawl_event *event) {
    switch (event->kind) {
    case PAWL_EVENT_SAVE_BEGUN:
        event_copy_free(&v->progress);
        event_copy_set(&v->begun, event);
        break;
    case PAWL_EVENT_SAVE_PROGRESS:
        event_copy_set(&v->progress, event);
        break;
    case PAWL_EVENT_SAVE_ENDED:
        take_save_end(v, event);
        break;
    case PAWL_EVENT_RESTORED:
        event_copy_set(&v->restores[v->restore_count++ % TOP_RESTORES], event);
        break;
    }
}

/* *changed: there may be a new newest checkpoint. */
static pawl_status take_new_events(top_state *v, bool *changed, output *out) {
    pawl_event event = {.struct_size = sizeof event};
    int more = 1;
    while (more) {
        pawl_status status = pawl_events_next(v->events, &event, &more, out->err);
        if (status != PAWL_OK) {
            return status;
        }
        if (more) {
            take_event(v, &event);
            *changed = *changed || event.kind == PAWL_EVENT_SAVE_ENDED;
        }
    }
    return PAWL_OK;
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

static void count_committed(top_state *v, const pawl_catalog *catalog) {
    v->has_newest = false;
    v->committed = 0;
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *step = pawl_catalog_get(catalog, i);
        if (step->status == PAWL_STEP_COMMITTED) {
            handed_out_copy(&v->newest, sizeof v->newest, step);
            v->newest.metrics_json = NULL;
            v->has_newest = true;
            v->committed++;
        }
    }
}

/* A run without a checkpoint is no error if it has an owner or events. */
static pawl_status read_catalog(top_state *v, output *out) {
    SCOPED(scoped_catalog) pawl_catalog *catalog = NULL;
    pawl_status status = pawl_catalog_open(v->run, NULL, &catalog, out->err);
    bool known = v->owner.state != PAWL_OWNER_NONE || v->save_count > 0 || v->restore_count > 0;
    if (status != PAWL_OK && !(status == PAWL_ENOTFOUND && known)) {
        return status;
    }
    count_committed(v, catalog);
    v->catalog_ns = v->now_ns;
    return PAWL_OK;
}

/* ---- all of it ------------------------------------------------------------------------------ */

pawl_status top_refresh(top_state *v, output *out) {
    bool changed = v->catalog_ns == 0;
    v->now_ns = clock_unix_ns();
    v->owner.struct_size = sizeof v->owner;
    pawl_status status = pawl_owner_look(v->run, NULL, &v->owner, out->err);
    if (status == PAWL_OK) {
        status = take_new_events(v, &changed, out);
    }
    changed = changed || v->now_ns - v->catalog_ns >= CATALOG_AGE_NS;
    return status == PAWL_OK && changed ? read_catalog(v, out) : status;
}

pawl_status top_open(top_state *v, const char *run, output *out) {
    *v = (top_state){.run = run};
    return pawl_events_open(run, NULL, &v->events, out->err);
}

void top_close(top_state *v) {
    pawl_events_close(v->events);
    for (size_t i = 0; i < TOP_SAVES; i++) {
        event_copy_free(&v->saves[i]);
    }
    for (size_t i = 0; i < TOP_RESTORES; i++) {
        event_copy_free(&v->restores[i]);
    }
    event_copy_free(&v->begun);
    event_copy_free(&v->progress);
    event_copy_free(&v->failure);
}
