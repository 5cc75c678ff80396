/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/survey share. */
#ifndef SURVEY_PRIVATE_H
#define SURVEY_PRIVATE_H

#include "survey/survey.h"

struct pawl_survey {
    store *store, *links; /* while it looks */
    arena texts;
    pawl_found *found;
    size_t count, capacity;
    size_t names, directories; /* looked at */
    size_t too_deep, unread, led_out;
    bool too_many;
    const char *left_out;
};

/* What a directory has under one name. */
typedef struct survey_item {
    const char *name;
    store_stat stat; /* of the file that a link leads to, where it is followed */
} survey_item;

typedef struct survey_directory {
    const char *path; /* "": the root */
    survey_item *items;
    size_t count;
    bool *taken; /* of each item: it belongs to a checkpoint that was found */
} survey_directory;

/* Files of one checkpoint: how many, how large, and when one was changed last. */
typedef struct survey_sum {
    uint64_t files, bytes;
    int64_t newest_ns;
} survey_sum;
void survey_sum_add(survey_sum *sum, const store_stat *stat);

/* "<directory>/<name>"; false: longer than a storage has paths. */
bool survey_join(char out[STORE_MAX_PATH], const char *directory, const char *name);
/* Lists a directory, within what is left of the maxima. *listed is false where that is noted as
 * left out instead. */
pawl_status survey_list(pawl_survey *v, const char *path, arena *memory, survey_directory *out,
                        bool *listed, pawl_error *err) PAWL_MUST_CHECK;
/* Sums up all files below a directory, which is noted as left out where it is too much. */
pawl_status survey_sum_below(pawl_survey *v, const char *path, int depth, survey_sum *sum,
                             pawl_error *err) PAWL_MUST_CHECK;
/* Adds a copy of `f`, whose path is relative to the root; step -1: that of its name. */
pawl_status survey_add(pawl_survey *v, pawl_found f, const survey_sum *sum, pawl_error *err)
    PAWL_MUST_CHECK;
bool survey_has(const survey_directory *d, const char *name);
bool survey_ends_with(const char *name, const char *ending);

/* ---- run.c, directory.c, files.c: *whole is set where nothing else is to be looked for below - */

pawl_status survey_run(pawl_survey *v, const survey_directory *d, bool *whole, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status survey_as_whole(pawl_survey *v, const survey_directory *d, bool *whole, pawl_error *err)
    PAWL_MUST_CHECK;
/* Of a directory by its own name, before it is listed. */
pawl_status survey_by_name(pawl_survey *v, const survey_directory *d, const survey_item *item,
                           bool *whole, pawl_error *err) PAWL_MUST_CHECK;
pawl_status survey_files(pawl_survey *v, const survey_directory *d, pawl_error *err)
    PAWL_MUST_CHECK;

/* ---- order.c -------------------------------------------------------------------------------- */

/* The step that a path names, -1: none. */
int64_t survey_step_of(const char *path);
/* Components one by one, digits by their value. */
int survey_compare(const char *a, const char *b);

#endif
