/* SPDX-License-Identifier: Apache-2.0 */
/* report: the inside of a pawl_report, for the files that fill and render it. */
#ifndef MATCH_REPORT_H
#define MATCH_REPORT_H

#include "match/match.h"
#include "match/sentence.h"

/* The most items of one kind of difference that are kept as data; further ones are only counted. */
#define REPORT_MAX_ITEMS   4096u
#define REPORT_SEVERITIES  (PAWL_SEVERITY_ERROR + 1)
#define REPORT_DIFFERENCES (PAWL_DIFF_RANKS + 1)

typedef struct report_item {
    pawl_report_item seen;
    size_t description; /* bytes of the text that say what differs; the rest says what to do */
} report_item;

typedef struct report_fallback {
    int64_t step;
    const char *why;
} report_fallback;

struct pawl_report {
    report_item *items;
    size_t count, capacity;
    uint64_t found[REPORT_SEVERITIES]; /* all of them, kept or only counted */
    uint64_t kept[REPORT_SEVERITIES];
    uint64_t kept_of_kind[REPORT_DIFFERENCES];
    uint64_t errors_of_kind[REPORT_DIFFERENCES];
    report_fallback *fallbacks;
    size_t fallback_count, fallback_capacity;
    bool chosen;       /* there is a checkpoint; it may have no step */
    bool fits_not_all; /* report_set_fits_not_all */
    int64_t step;
    pawl_report_counts counts;
    bool tried; /* `advice` is what was tried */
    pawl_report_advice advice;
    uint64_t all, stay;         /* with what is advised: the state's entries, those that stay, */
    uint64_t model, model_stay; /* and of both the model's */
    buffer sentence;            /* scratch */
    buffer text, json;
    arena memory;
};

/* As report_add, for an item without text. `facts`: what its sentence needs besides the item. */
pawl_status report_add_facts(pawl_report *report, const pawl_report_item *item,
                             const sentence_facts *facts, pawl_error *err) PAWL_MUST_CHECK;

/* The item's remedies or its change are others now: writes its text anew. */
pawl_status report_say_again(pawl_report *report, size_t i, pawl_error *err) PAWL_MUST_CHECK;
/* Takes an item out that is no error. */
void report_drop(pawl_report *report, size_t i);

/* What to do next, as match_error says it: advice.c. */
pawl_status report_next(const pawl_report *report, buffer *out, pawl_error *err) PAWL_MUST_CHECK;

#endif
