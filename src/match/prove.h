/* SPDX-License-Identifier: Apache-2.0 */
/* prove: the inside of proving advice: prove.c decides what is tried, course.c tries it. */
#ifndef MATCH_PROVE_H
#define MATCH_PROVE_H

#include "match/matcher.h"
#include "match/remedy.h"

#define PROVE_MAX_REMEDIES 16 /* distinct ones that are no rules: remedy.c has 12 */

typedef struct error_key {
    pawl_difference difference;
    const char *name; /* in the checkpoint, where the entry is in it */
} error_key;

typedef struct error_keys {
    error_key *items;
    size_t count;
} error_keys;

/* What is asked for together. */
typedef struct course {
    pawl_restore_options options;
    pawl_rename *rules; /* the given ones first */
    size_t rule_capacity;
    const pawl_remedy **remedies;
    size_t remedy_count, remedy_capacity;
    bool *left_out; /* NULL: nothing is */
    matcher_outcome came;
    error_keys errors; /* that came of it */
} course;

typedef struct tried_remedy {
    const pawl_remedy *of;
    const pawl_remedy *told; /* a copy that says what remains; NULL: it is not offered */
} tried_remedy;

/* A constant list of remedies, and what is left of it. */
typedef struct tried_list {
    const pawl_remedy *const *of;
    const pawl_remedy *const *told;
    size_t told_count;
} tried_list;

typedef struct prover {
    matcher *m;
    entry_source checkpoint;
    pawl_report *report;
    error_keys errors; /* of the report */
    int trials;
    course all; /* what is advised together */
    tried_remedy tried[PROVE_MAX_REMEDIES];
    size_t tried_count;
    tried_list lists[PROVE_MAX_REMEDIES];
    size_t list_count;
} prover;

/* ---- errors of a report --------------------------------------------------------------------- */

bool prove_is_error(const pawl_report_item *item);
pawl_status error_keys_of(const pawl_report *report, error_keys *out, pawl_error *err)
    PAWL_MUST_CHECK;
void error_keys_free(error_keys *keys);
bool error_keys_have(const error_keys *keys, const pawl_report_item *item);

/* ---- courses: course.c ---------------------------------------------------------------------- */

/* Begins with the options and rules of the match. */
pawl_status course_start(const prover *p, course *c, pawl_error *err) PAWL_MUST_CHECK;
pawl_status course_add(course *c, const pawl_remedy *remedy, pawl_error *err) PAWL_MUST_CHECK;
/* All of a difference's: of names that changed. */
pawl_status course_add_all(course *c, const pawl_report_item *item, pawl_error *err)
    PAWL_MUST_CHECK;
/* Takes the entries of all differences that offer the remedy out of the state. */
pawl_status course_take_out(const prover *p, course *c, const pawl_remedy *remedy, pawl_error *err)
    PAWL_MUST_CHECK;
/* Matches; when there were too many trials already it is a dead end. */
pawl_status course_try(prover *p, course *c, pawl_error *err) PAWL_MUST_CHECK;
void course_forget(course *c); /* what came of it */
void course_free(course *c);

/* Is there an error that was none before? Those that were only counted are compared by number. */
bool course_has_new(const prover *p, const course *c);
/* Is every difference gone that offers the remedy? */
bool course_allows_its_own(const prover *p, const course *c, const pawl_remedy *remedy);
/* Are there errors that no option can allow? */
bool course_leaves_hard_ones(const course *c);

#endif
