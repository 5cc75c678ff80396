/* SPDX-License-Identifier: Apache-2.0 */
/* Files of a directory that are checkpoints: alone, or several of them together by their names. */
#include "foreign/foreign.h"
#include "survey/private.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INDEX             ".index"
#define SAFETENSORS_INDEX ".safetensors.index.json"
#define TORCH_INDEX       ".bin.index.json"
#define KERAS_INDEX       ".weights.json"
#define COUNT_DIGITS      5u /* of 00001-of-00003 */

/* ---- files that belong together ------------------------------------------------------------- */

static bool has_number(const char *text) {
    return strspn(text, "0123456789") == COUNT_DIGITS;
}

/* "NAME-00001-of-00003ENDING": the second number; 0: not of this kind. */
static uint64_t shards_of(const char *name, const char *stem, size_t stem_bytes, const char *middle,
                          const char *ending) {
    size_t at = stem_bytes + strlen(middle);
    size_t of = at + COUNT_DIGITS + strlen("-of-");
    if (strncmp(name, stem, stem_bytes) != 0 ||
        strncmp(name + stem_bytes, middle, strlen(middle)) != 0 || !has_number(name + at) ||
        strncmp(name + at + COUNT_DIGITS, "-of-", strlen("-of-")) != 0 || !has_number(name + of) ||
        strcmp(name + of + COUNT_DIGITS, ending) != 0) {
        return 0;
    }
    return strtoull(name + of, NULL, 10);
}

/* What an index stands for, of which the files have names of this kind. */
typedef struct group {
    foreign_kind kind;
    const char *index, *middle, *ending;
} group;

static const group groups[] = {
    {FOREIGN_TENSORFLOW, INDEX, ".data-", ""},
    {FOREIGN_SAFETENSORS_SHARDED, SAFETENSORS_INDEX, "-", ".safetensors"},
    {FOREIGN_TORCH_SHARDED, TORCH_INDEX, "-", ".bin"},
};

/* Takes the shards of a stem and sums them up; *of is how many there should be. */
static uint64_t take_shards(const survey_directory *d, const group *g, const char *stem,
                            size_t stem_bytes, survey_sum *sum, uint64_t *of) {
    uint64_t there = 0;
    for (size_t i = 0; i < d->count; i++) {
        uint64_t n = shards_of(d->items[i].name, stem, stem_bytes, g->middle, g->ending);
        if (n > 0 && d->items[i].stat.type == STORE_FILE_TYPE) {
            survey_sum_add(sum, &d->items[i].stat);
            d->taken[i] = true;
            *of = n;
            there++;
        }
    }
    return there;
}

static pawl_step_status status_after(pawl_status failed) {
    switch (failed) {
    case PAWL_EDAMAGED:
        return PAWL_STEP_UNFINISHED;
    case PAWL_EPERMISSION:
        return PAWL_STEP_UNREADABLE;
    default:
        return PAWL_STEP_DAMAGED;
    }
}

/* An index of TensorFlow; other programs have files of that ending, too. */
static pawl_status look_at_bundle(pawl_survey *v, const char *path, uint64_t there, pawl_found *f,
                                  bool *is, pawl_error *err) {
    struct pawl_error story = ERROR_INIT;
    const char *format = NULL;
    pawl_status status = foreign_look(v->links, path, &format, &story);
    *is = status == PAWL_OK || there > 0;
    if (status == PAWL_ENOMEM) {
        *err = story;
        return status;
    }
    if (status != PAWL_OK) {
        f->status = status == PAWL_EUSAGE ? PAWL_STEP_UNFINISHED : status_after(status);
        f->why = arena_strdup(&v->texts, story.attempt);
    }
    return PAWL_OK;
}

static pawl_status add_group(pawl_survey *v, const survey_directory *d, size_t i, const group *g,
                             pawl_error *err) {
    char path[STORE_MAX_PATH];
    char why[96];
    const char *name = d->items[i].name;
    size_t stem = strlen(name) - strlen(g->index);
    survey_sum sum = {0};
    uint64_t of = 0;
    bool is = true;
    pawl_found f = {.path = path,
                    .format = foreign_kind_name(g->kind),
                    .status = PAWL_STEP_COMMITTED,
                    .step = -1};
    if (!survey_join(path, d->path, name)) {
        return PAWL_OK;
    }
    uint64_t there = take_shards(d, g, name, stem, &sum, &of);
    if (g->kind == FOREIGN_TENSORFLOW) {
        TRY(look_at_bundle(v, path, there, &f, &is, err));
        path[strlen(path) - strlen(INDEX)] = '\0'; /* as TensorFlow names it */
    }
    if (!is) {
        return PAWL_OK;
    }
    survey_sum_add(&sum, &d->items[i].stat);
    d->taken[i] = true;
    if (f.status == PAWL_STEP_COMMITTED && there != of) {
        snprintf(why, sizeof(why), "%llu of its %llu data files are missing",
                 (unsigned long long)(of > there ? of - there : 0), (unsigned long long)of);
        f.status = PAWL_STEP_DAMAGED;
        f.why = why;
    } else if (f.status == PAWL_STEP_COMMITTED && there == 0 && g->kind == FOREIGN_TENSORFLOW) {
        f.status = PAWL_STEP_DAMAGED;
        f.why = "its data files are missing";
    }
    return survey_add(v, f, &sum, err);
}

/* Data files of TensorFlow whose index is not there. */
static pawl_status add_without_index(pawl_survey *v, const survey_directory *d, size_t i,
                                     pawl_error *err) {
    char path[STORE_MAX_PATH];
    const char *name = d->items[i].name;
    const char *data = strstr(name, ".data-");
    survey_sum sum = {0};
    uint64_t of = 0;
    if (data == NULL || data == name || !survey_join(path, d->path, name) ||
        shards_of(name, name, (size_t)(data - name), ".data-", "") == 0) {
        return PAWL_OK;
    }
    (void)take_shards(d, &groups[0], name, (size_t)(data - name), &sum, &of);
    path[strlen(path) - strlen(data)] = '\0';
    const pawl_found f = {.path = path,
                          .format = foreign_kind_name(FOREIGN_TENSORFLOW),
                          .status = PAWL_STEP_UNFINISHED,
                          .why = "its .index is missing, which is written last",
                          .step = -1};
    return survey_add(v, f, &sum, err);
}

/* X.weights.json and X_00000.weights.h5, ... */
static pawl_status add_keras(pawl_survey *v, const survey_directory *d, size_t i, pawl_error *err) {
    char path[STORE_MAX_PATH];
    const char *name = d->items[i].name;
    size_t stem = strlen(name) - strlen(KERAS_INDEX);
    survey_sum sum = {0};
    if (!survey_join(path, d->path, name)) {
        return PAWL_OK;
    }
    for (size_t j = 0; j < d->count; j++) {
        const char *other = d->items[j].name;
        if (strncmp(other, name, stem) == 0 && fnmatch("_*.weights.h5", other + stem, 0) == 0 &&
            d->items[j].stat.type == STORE_FILE_TYPE) {
            survey_sum_add(&sum, &d->items[j].stat);
            d->taken[j] = true;
        }
    }
    pawl_found f = {.path = path,
                    .format = foreign_kind_name(FOREIGN_KERAS_SHARDED),
                    .status = sum.files > 0 ? PAWL_STEP_COMMITTED : PAWL_STEP_DAMAGED,
                    .why = sum.files > 0 ? NULL : "its data files are missing",
                    .step = -1};
    survey_sum_add(&sum, &d->items[i].stat);
    d->taken[i] = true;
    return survey_add(v, f, &sum, err);
}

/* ---- single files --------------------------------------------------------------------------- */

/* What failed says what the file is: cut off or empty, of no format, or not readable. */
static pawl_found failed(const char *path, const struct pawl_error *story) {
    return (pawl_found){.path = path,
                        .status = status_after(story->status),
                        .why = story->status == PAWL_EUSAGE ? "it is no checkpoint that pawl knows"
                                                            : story->attempt,
                        .step = -1};
}

static pawl_status add_file(pawl_survey *v, const survey_directory *d, size_t i, pawl_error *err) {
    char path[STORE_MAX_PATH];
    struct pawl_error story = ERROR_INIT;
    const char *format = NULL;
    survey_sum sum = {0};
    if (!survey_join(path, d->path, d->items[i].name)) {
        return PAWL_OK;
    }
    pawl_status status = foreign_look(v->links, path, &format, &story);
    if (status == PAWL_ENOMEM) {
        *err = story;
        return status;
    }
    /* .bin is an ending of anything. */
    if (status == PAWL_EUSAGE && survey_ends_with(path, ".bin")) {
        return PAWL_OK;
    }
    pawl_found f = {.path = path, .status = PAWL_STEP_COMMITTED, .step = -1};
    if (status != PAWL_OK) {
        f = failed(path, &story);
    }
    f.format = format;
    survey_sum_add(&sum, &d->items[i].stat);
    return survey_add(v, f, &sum, err);
}

/* ---- all of a directory --------------------------------------------------------------------- */

static bool is_free_file(const survey_directory *d, size_t i) {
    return !d->taken[i] && d->items[i].stat.type == STORE_FILE_TYPE && d->items[i].name[0] != '.';
}

static pawl_status add_indexed(pawl_survey *v, const survey_directory *d, size_t i,
                               pawl_error *err) {
    for (size_t g = 0; g < ARRAY_LENGTH(groups); g++) {
        if (survey_ends_with(d->items[i].name, groups[g].index)) {
            return add_group(v, d, i, &groups[g], err);
        }
    }
    return survey_ends_with(d->items[i].name, KERAS_INDEX) ? add_keras(v, d, i, err) : PAWL_OK;
}

pawl_status survey_files(pawl_survey *v, const survey_directory *d, pawl_error *err) {
    for (size_t i = 0; i < d->count; i++) {
        if (is_free_file(d, i)) {
            TRY(add_indexed(v, d, i, err));
        }
    }
    for (size_t i = 0; i < d->count; i++) {
        if (is_free_file(d, i)) {
            TRY(add_without_index(v, d, i, err));
        }
        if (is_free_file(d, i) && foreign_opens(d->items[i].name)) {
            TRY(add_file(v, d, i, err));
        }
    }
    return PAWL_OK;
}
