/* SPDX-License-Identifier: Apache-2.0 */
/*
 * survey: which checkpoints there are below a directory, of any format.
 *
 * walk.c goes through directories, within the maxima of pawl/survey.h; directory.c says what one
 * directory is as a whole, files.c what files in it are, run.c what a run has; order.c knows the
 * numbers in names. May include base, store, path, format and foreign.
 *
 * Threads: the caller's alone. Names, and what is in files, are anybody's: none is trusted.
 */
#ifndef SURVEY_SURVEY_H
#define SURVEY_SURVEY_H

#include "base/base.h"
#include "store/store.h"

#include <pawl/survey.h>

/* Both stores are of one directory, and borrowed. `links` follows links to files, as
 * store_posix_of_links; it may be `s` where the storage has no links. */
pawl_status survey_open(store *s, store *links, pawl_survey **out, pawl_error *err) PAWL_MUST_CHECK;

#endif
