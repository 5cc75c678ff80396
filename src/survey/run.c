/* SPDX-License-Identifier: Apache-2.0 */
/* A run of pawl: its newest step, and how many there are. No manifest is read. */
#include "format/format.h"
#include "format/presence_record.h"
#include "survey/private.h"

#include <string.h>

/* Is this a name that only a run's directory has? Others may have a `latest`, too. */
static bool makes_run(const survey_item *item) {
    static const char *const common[] = {NAME_LATEST, NAME_EVENTS, NAME_EVENTS_OLD, NAME_RESERVE};
    int64_t step;
    for (size_t i = 0; i < ARRAY_LENGTH(common); i++) {
        if (strcmp(item->name, common[i]) == 0) {
            return false;
        }
    }
    return name_step_parse(item->name, &step) ? item->stat.type == STORE_DIR_TYPE
                                              : name_makes_run(item->name);
}

/* A step's directory alone, as after a copy: not a run, and nothing else either. */
static bool is_of_step(const char *name) {
    char tag[FORMAT_TAG_CHARS];
    name_kind kind = name_classify(name, tag);
    return kind == NAME_KIND_DATA || kind == NAME_KIND_INDEX;
}

/* Only where there is no manifest is it known that the step is unfinished. */
static pawl_step_status status_of_step(pawl_survey *v, const char *step) {
    char path[STORE_MAX_PATH];
    store_stat stat;
    struct pawl_error story = ERROR_INIT;
    if (!survey_join(path, step, NAME_MANIFEST)) {
        return PAWL_STEP_UNFINISHED;
    }
    pawl_status status = store_stat_path(v->store, path, &stat, &story);
    if (status != PAWL_OK && status != PAWL_ENOTFOUND) {
        return status == PAWL_EPERMISSION ? PAWL_STEP_UNREADABLE : PAWL_STEP_DAMAGED;
    }
    bool committed =
        status == PAWL_OK && stat.type == STORE_FILE_TYPE && stat.size > FORMAT_MAX_PLACEHOLDER;
    return committed ? PAWL_STEP_COMMITTED : PAWL_STEP_UNFINISHED;
}

static pawl_status add_run(pawl_survey *v, const survey_directory *d, pawl_error *err) {
    pawl_found f = {.path = d->path, .format = "pawl", .status = PAWL_STEP_COMMITTED, .step = -1};
    survey_sum sum = {0};
    char newest[STORE_MAX_PATH] = "";
    pawl_step_status worst = PAWL_STEP_UNFINISHED; /* of those that are not committed */
    for (size_t i = 0; i < d->count; i++) {
        char path[STORE_MAX_PATH];
        int64_t step;
        if (!name_step_parse(d->items[i].name, &step) ||
            !survey_join(path, d->path, d->items[i].name)) {
            continue;
        }
        pawl_step_status status = status_of_step(v, path);
        worst = status > worst ? status : worst;
        if (status == PAWL_STEP_COMMITTED) {
            f.steps++;
            if (step > f.step) {
                f.step = step;
                memcpy(newest, path, sizeof(newest));
            }
        }
    }
    if (f.steps == 0) {
        f.status = worst;
        f.why = worst == PAWL_STEP_UNFINISHED ? "none of its steps is committed"
                                              : "cannot look at its steps";
        return survey_add(v, f, &sum, err);
    }
    TRY(survey_sum_below(v, newest, PAWL_SURVEY_MAX_DEPTH, &sum, err));
    return survey_add(v, f, &sum, err);
}

pawl_status survey_run(pawl_survey *v, const survey_directory *d, bool *whole, pawl_error *err) {
    bool run = false;
    for (size_t i = 0; i < d->count; i++) {
        *whole = *whole || is_of_step(d->items[i].name);
        run = run || makes_run(&d->items[i]) ||
              (v->store->traits.objects && strcmp(d->items[i].name, NAME_OWNER_OBJECT) == 0);
    }
    *whole = *whole || run;
    return run ? add_run(v, d, err) : PAWL_OK;
}
