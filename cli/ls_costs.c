/* SPDX-License-Identifier: Apache-2.0 */
/* pawl ls --stats: one walk over the events of a run finds how each of its steps was saved. */
#include "ls_costs.h"
#include "memory.h"

#include <stdlib.h>

struct ls_costs {
    const pawl_catalog *catalog;
    event_copy *saves; /* one per step of the catalog */
};

void ls_costs_free(ls_costs **c) {
    if (*c == NULL) {
        return;
    }
    for (size_t i = 0; i < pawl_catalog_count((*c)->catalog); i++) {
        event_copy_free(&(*c)->saves[i]);
    }
    free((*c)->saves);
    free(*c);
}

const event_copy *ls_costs_of(const ls_costs *c, size_t i) {
    return c != NULL && event_copy_is_set(&c->saves[i]) ? &c->saves[i] : NULL;
}

/* False for a step that is not in the catalog. */
static bool find_step(const pawl_catalog *catalog, int64_t step, size_t *at) {
    size_t low = 0;
    size_t high = pawl_catalog_count(catalog);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pawl_catalog_get(catalog, middle)->step < step) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *at = low;
    return low < pawl_catalog_count(catalog) && pawl_catalog_get(catalog, low)->step == step;
}

/* Passes over saves that did not make what is on disk: those that ended before the step was last
 * saved, and later ones that failed. */
static void take_cost(ls_costs *c, const pawl_event *event) {
    size_t at;
    if (event->kind != PAWL_EVENT_SAVE_ENDED || !find_step(c->catalog, event->step, &at)) {
        return;
    }
    const pawl_step_info *step = pawl_catalog_get(c->catalog, at);
    bool committed = step->status == PAWL_STEP_COMMITTED;
    bool of_another = event->unix_time_ns < step->unix_time_ns;
    if (!of_another && !(committed && event->status != PAWL_OK)) {
        event_copy_set(&c->saves[at], event);
    }
}

ls_costs *ls_costs_read(const char *run, const pawl_catalog *catalog, output *out) {
    SCOPED(scoped_events) pawl_events *events = NULL;
    pawl_event event = {.struct_size = sizeof event};
    const pawl_open_options options = output_open_options(out);
    int more = 1;
    if (pawl_events_open(run, &options, &events, out->err) != PAWL_OK) {
        return NULL;
    }
    ls_costs *c = must_alloc(sizeof *c);
    c->catalog = catalog;
    c->saves = must_alloc((pawl_catalog_count(catalog) + 1) * sizeof *c->saves);
    while (more) {
        if (pawl_events_next(events, &event, &more, out->err) != PAWL_OK) {
            ls_costs_free(&c);
            return NULL;
        }
        if (more) {
            take_cost(c, &event);
        }
    }
    return c;
}
