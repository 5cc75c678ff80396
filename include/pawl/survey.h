/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/survey.h: which checkpoints there are below a directory, of whatever format: runs of pawl,
 * and checkpoints of other tools. They are told by names and by the heads of files; none is opened,
 * and no tensor is read.
 */
#ifndef PAWL_SURVEY_H
#define PAWL_SURVEY_H

#include <pawl/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How far it looks. Beyond, things are left out, which pawl_survey_left_out says. */
#define PAWL_SURVEY_MAX_DEPTH       6 /* directories below the one that is named */
#define PAWL_SURVEY_MAX_DIRECTORIES 10000
#define PAWL_SURVEY_MAX_NAMES       200000

typedef struct pawl_found {
    size_t struct_size;
    const char *path;   /* relative to the directory; ".": the directory itself */
    const char *format; /* as of pawl_checkpoint_info; NULL: nothing says which */
    /* COMMITTED: all is there that names, heads and ends of files ask for. UNFINISHED: it was not
     * written to its end, or not yet, or cut off. DAMAGED: some of its files are missing, or what
     * is in them cannot be opened. UNREADABLE: the system refused to open them. */
    pawl_step_status status;
    const char *why;      /* why it is not committed; otherwise NULL */
    int64_t step;         /* of a run: the newest; else a number in the name; -1: there is none */
    uint64_t steps;       /* of a run: how many are committed; else 0 */
    uint64_t bytes;       /* of its files; of a run: of the newest step */
    uint64_t files;       /* as `bytes` */
    int64_t unix_time_ns; /* when one of these was changed last; 0: unknown */
} pawl_found;

typedef struct pawl_survey pawl_survey;

/* `options` may be NULL; their `step` must be. Nothing found is PAWL_OK. Links that lead out of the
 * directory are not followed, nor links to directories. PAWL_EUSAGE: it is a file. */
PAWL_API pawl_status pawl_survey_open(const char *path, const pawl_open_options *options,
                                      pawl_survey **survey, pawl_error *err) PAWL_MUST_CHECK;
PAWL_API void pawl_survey_free(pawl_survey *survey); /* NULL is fine */
/* Ascending by path, numbers in it by their value. Text lives as long as the survey. */
PAWL_API size_t pawl_survey_count(const pawl_survey *survey);
PAWL_API const pawl_found *pawl_survey_get(const pawl_survey *survey, size_t i);
/* What was not looked at, and why: a sentence; NULL: all was. */
PAWL_API const char *pawl_survey_left_out(const pawl_survey *survey);

#ifdef __cplusplus
}
#endif

#endif
