/* SPDX-License-Identifier: Apache-2.0 */
/* commit/leftovers_step: searches one directory of a run for files that nobody needs any more, and
 * removes them. Used by leftovers.c. */
#ifndef COMMIT_LEFTOVERS_STEP_H
#define COMMIT_LEFTOVERS_STEP_H

#include "commit/commit.h"

/* A search of one directory. The caller sets what comes before `removed`; the rest begins as 0. */
typedef struct leftovers_search {
    pawl_run *run;
    const char *directory; /* "" is the run's own */
    bool dry_run;
    bool save_under_way; /* that of run->current_number, which has not ended */
    uint64_t until_ns;   /* what is left then is remembered, for a later search [0: no limit] */
    pawl_gc_fn each;     /* told each leftover; or NULL */
    void *context;
    uint64_t removed, kept; /* out: names. The caller sets `kept` to 1 to keep the directory. */
    bool come_back;         /* out: what is kept now may go later */
    bool directory_removed; /* out: the caller syncs the run's directory */
    manifest manifest;      /* of the step, during its search */
    bool has_manifest;
} leftovers_search;

bool leftovers_time_is_up(const leftovers_search *s);
/* Tells `each` of a file of the directory, and removes it unless this is a dry run. */
pawl_status leftovers_remove_file(leftovers_search *s, const char *name, const char *reason,
                                  pawl_error *err) PAWL_MUST_CHECK;
/* The directory that store_look_anew makes and removes (evidence.h), left by one that was killed.
 */
bool leftovers_is_look(const char *name);
void leftovers_remove_look(const leftovers_search *s);
/* Searches a step's directory and removes what is left over there, at last the directory. */
pawl_status leftovers_search_step(leftovers_search *s, pawl_error *err) PAWL_MUST_CHECK;

#endif
