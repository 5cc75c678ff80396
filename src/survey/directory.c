/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that are one checkpoint, or what is left of one: of DCP, Orbax and TensorFlow. */
#include "foreign/foreign.h"
#include "survey/private.h"

#include <fnmatch.h>
#include <string.h>

#define DCP_METADATA ".metadata"

/* ---- by what is in them --------------------------------------------------------------------- */

static survey_sum sum_files(const survey_directory *d) {
    survey_sum sum = {0};
    for (size_t i = 0; i < d->count; i++) {
        if (d->items[i].stat.type == STORE_FILE_TYPE) {
            survey_sum_add(&sum, &d->items[i].stat);
        }
    }
    return sum;
}

static size_t count_of(const survey_directory *d, const char *pattern) {
    size_t count = 0;
    for (size_t i = 0; i < d->count; i++) {
        count +=
            d->items[i].stat.type == STORE_FILE_TYPE && fnmatch(pattern, d->items[i].name, 0) == 0;
    }
    return count;
}

static pawl_status add_dcp(pawl_survey *v, const survey_directory *d, bool described,
                           pawl_error *err) {
    const survey_sum sum = sum_files(d);
    pawl_found f = {.path = d->path,
                    .format = foreign_kind_name(FOREIGN_DCP),
                    .status = PAWL_STEP_COMMITTED,
                    .step = -1};
    if (!described) {
        f.status = PAWL_STEP_UNFINISHED;
        f.why = "its .metadata is missing, which is written last";
    } else if (sum.files == 1) {
        f.status = PAWL_STEP_DAMAGED;
        f.why = "its data files are missing";
    }
    return survey_add(v, f, &sum, err);
}

static bool is_there(pawl_survey *v, const char *directory, const char *name) {
    char path[STORE_MAX_PATH];
    store_stat stat;
    struct pawl_error ignored = ERROR_INIT;
    return survey_join(path, directory, name) &&
           store_stat_path(v->store, path, &stat, &ignored) == PAWL_OK;
}

/* Older steps of Orbax have nothing but their items. */
static bool has_item_of_orbax(pawl_survey *v, const survey_directory *d) {
    static const char *const items[] = {"default", "state", "items", "params"};
    static const char *const files[] = {"_METADATA", "manifest.ocdbt", "_CHECKPOINT_METADATA"};
    for (size_t i = 0; i < ARRAY_LENGTH(items); i++) {
        char item[STORE_MAX_PATH];
        bool listed = survey_has(d, items[i]) && survey_join(item, d->path, items[i]);
        for (size_t j = 0; listed && j < ARRAY_LENGTH(files); j++) {
            if (is_there(v, item, files[j])) {
                return true;
            }
        }
    }
    return false;
}

static bool is_of_orbax(pawl_survey *v, const survey_directory *d) {
    for (size_t i = 0; i < d->count; i++) {
        if (foreign_is_of_orbax(d->items[i].name)) {
            return true;
        }
    }
    return has_item_of_orbax(v, d);
}

/* Databases of processes, which Orbax puts together last. */
static bool has_only_processes(const survey_directory *d) {
    bool processes = false;
    for (size_t i = 0; i < d->count; i++) {
        processes = processes || fnmatch("ocdbt.process_*", d->items[i].name, 0) == 0;
    }
    return processes && !survey_has(d, "manifest.ocdbt");
}

/* An item of a step, or the step that is its own only item. */
static pawl_status find_unmerged(pawl_survey *v, const survey_directory *d, bool *unmerged,
                                 pawl_error *err) {
    *unmerged = has_only_processes(d);
    for (size_t i = 0; i < d->count && !*unmerged; i++) {
        CLEANUP(arena_free) arena memory = {0};
        survey_directory item;
        bool listed = false;
        char path[STORE_MAX_PATH];
        if (d->items[i].stat.type == STORE_DIR_TYPE &&
            survey_join(path, d->path, d->items[i].name)) {
            TRY(survey_list(v, path, &memory, &item, &listed, err));
        }
        *unmerged = listed && has_only_processes(&item);
    }
    return PAWL_OK;
}

static pawl_status add_all_below(pawl_survey *v, const char *path, foreign_kind kind,
                                 const char *unfinished, pawl_error *err) {
    survey_sum sum = {0};
    pawl_found f = {.path = path,
                    .format = foreign_kind_name(kind),
                    .status = unfinished != NULL ? PAWL_STEP_UNFINISHED : PAWL_STEP_COMMITTED,
                    .why = unfinished,
                    .step = -1};
    TRY(survey_sum_below(v, path, 0, &sum, err));
    return survey_add(v, f, &sum, err);
}

pawl_status survey_as_whole(pawl_survey *v, const survey_directory *d, bool *whole,
                            pawl_error *err) {
    bool described = survey_has(d, DCP_METADATA);
    *whole = true;
    if (described || count_of(d, "__*_*.distcp") > 0) {
        return add_dcp(v, d, described, err);
    }
    if (is_of_orbax(v, d)) {
        bool unmerged;
        TRY(find_unmerged(v, d, &unmerged, err));
        return add_all_below(v, d->path, FOREIGN_ORBAX,
                             unmerged ? "what its processes saved was not put together, which is "
                                        "done last"
                                      : NULL,
                             err);
    }
    bool model = survey_has(d, "saved_model.pb") || survey_has(d, "saved_model.pbtxt");
    if (model && is_there(v, d->path, "variables/variables.index")) {
        return add_all_below(v, d->path, FOREIGN_TENSORFLOW, NULL, err);
    }
    *whole = false;
    return PAWL_OK;
}

/* ---- by their names ------------------------------------------------------------------------- */

static bool has_parts(pawl_survey *v, const char *path, pawl_error *err, pawl_status *status) {
    CLEANUP(arena_free) arena memory = {0};
    survey_directory d;
    bool listed;
    *status = survey_list(v, path, &memory, &d, &listed, err);
    return *status == PAWL_OK && listed && count_of(&d, "part-*") > 0;
}

static pawl_status add_conversion(pawl_survey *v, const char *path, const survey_item *item,
                                  pawl_error *err) {
    survey_sum sum = {0};
    const pawl_found f = {.path = path,
                          .status = PAWL_STEP_UNFINISHED,
                          .why = "a conversion that was interrupted, or goes on",
                          .step = -1};
    if (item->stat.type == STORE_DIR_TYPE) {
        TRY(survey_sum_below(v, path, 0, &sum, err));
    } else {
        survey_sum_add(&sum, &item->stat);
    }
    return survey_add(v, f, &sum, err);
}

pawl_status survey_by_name(pawl_survey *v, const survey_directory *d, const survey_item *item,
                           bool *whole, pawl_error *err) {
    char path[STORE_MAX_PATH];
    pawl_status status = PAWL_OK;
    bool directory = item->stat.type == STORE_DIR_TYPE;
    if (!survey_join(path, d->path, item->name)) {
        return PAWL_OK;
    }
    *whole = true;
    if (fnmatch(".*.pawl-*", item->name, 0) == 0) {
        return add_conversion(v, path, item, err);
    }
    if (directory && fnmatch("*.orbax-checkpoint-tmp*", item->name, 0) == 0) {
        return add_all_below(v, path, FOREIGN_ORBAX,
                             "it has not been given its own name, which is done last", err);
    }
    if (directory && survey_ends_with(item->name, "_temp") && has_parts(v, path, err, &status)) {
        return add_all_below(v, path, FOREIGN_TENSORFLOW,
                             "parts that were not put together, which is done last", err);
    }
    *whole = false;
    return status;
}
