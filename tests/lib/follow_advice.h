/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows what the report of a refused restore advises, by restoring again through the public
 * interface, and checks that what the report said comes of it. What takes an entry out of the state
 * is followed where matches are tested: tests/unit/match/follow.h.
 */
#ifndef LIB_FOLLOW_ADVICE_H
#define LIB_FOLLOW_ADVICE_H

#include <pawl/pawl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Restores the same checkpoint into the same state. Once that works the state may have changed in
 * what a restore brings back, which then differs no more. */
typedef struct advised {
    void *context;
    pawl_status (*restore)(void *context, const pawl_restore_options *options,
                           pawl_report **report);
    const char *(*failure)(void *context);
    pawl_restore_options options; /* those of the restore that was refused */
    int followed;
} advised;

#define ADVICE_MAX_RULES 256

typedef struct advice_asked {
    pawl_restore_options options;
    pawl_rename rules[ADVICE_MAX_RULES];
} advice_asked;

static inline void advice_begin(advice_asked *a, const pawl_restore_options *given) {
    a->options = *given;
    a->options.struct_size = sizeof a->options;
    if (given->rename_count > 0) {
        assert_true(given->rename_count < ADVICE_MAX_RULES);
        memcpy(a->rules, given->renames, given->rename_count * sizeof *a->rules);
    }
}

static inline void advice_ask(advice_asked *a, const pawl_remedy *remedy) {
    pawl_restore_options *o = &a->options;
    const struct {
        const char *name;
        pawl_policy *field;
    } policies[] = {{"missing", &o->missing}, {"unexpected", &o->unexpected},
                    {"cast", &o->cast},       {"hyperparameter", &o->hyperparameter},
                    {"batch", &o->batch},     {"per_rank", &o->per_rank}};
    if (strcmp(remedy->option, "model_only") == 0) {
        o->model_only = 1;
        return;
    }
    if (strcmp(remedy->option, "renames") == 0) {
        assert_true(o->rename_count < ADVICE_MAX_RULES);
        a->rules[o->rename_count++] = (pawl_rename){remedy->from, remedy->to};
        o->renames = a->rules;
        o->rename_size = sizeof *a->rules;
        return;
    }
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        if (strcmp(remedy->option, policies[i].name) == 0) {
            *policies[i].field = remedy->policy;
            return;
        }
    }
    fail_msg("%s is no option", remedy->option);
}

static inline int64_t advice_errors(const pawl_report *report) {
    int64_t errors = 0;
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        errors += pawl_report_get(report, i)->severity == PAWL_SEVERITY_ERROR;
    }
    return errors;
}

static inline int advice_is_refused(const pawl_report *report, const pawl_report_item *like) {
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        if (item->difference == like->difference && item->severity == PAWL_SEVERITY_ERROR &&
            strcmp(item->name, like->name) == 0) {
            return 1;
        }
    }
    return 0;
}

/* Restores, and compares with what was said to remain; `item` is gone, if there is one. */
static inline void advice_try(advised *a, const advice_asked *asked, int64_t remain,
                              const pawl_report_item *item) {
    pawl_report *report = NULL;
    pawl_status status = a->restore(a->context, &asked->options, &report);
    a->followed++;
    if (status != (remain == 0 ? PAWL_OK : PAWL_EMISMATCH) || report == NULL) {
        fail_msg("followed: %s\nsaid to leave %lld, and came to: %s",
                 item != NULL ? item->text : "all that is advised", (long long)remain,
                 a->failure(a->context));
    }
    assert_int_equal(advice_errors(report), remain);
    if (item != NULL && advice_is_refused(report, item)) {
        fail_msg("followed, and still there: %s", item->text);
    }
    pawl_report_free(report);
}

/* Each remedy that leaves errors, or each that leaves none. */
static inline void advice_follow_items(advised *a, const pawl_report *report, bool whole) {
    static advice_asked asked;
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        bool error = item->severity == PAWL_SEVERITY_ERROR;
        bool together = item->difference == PAWL_DIFF_RENAMED;
        for (size_t k = 0; k < item->remedy_count && (error || together); k++) {
            const pawl_remedy *remedy = item->remedies[k];
            if (remedy->before != NULL || (remedy->remain == 0) != whole) {
                continue;
            }
            assert_true(remedy->remain >= 0);
            advice_begin(&asked, &a->options);
            for (size_t all = together ? 0 : k; all <= (together ? item->remedy_count - 1 : k);
                 all++) {
                advice_ask(&asked, item->remedies[all]);
            }
            advice_try(a, &asked, remedy->remain, error ? item : NULL);
            k = together ? item->remedy_count : k;
        }
    }
}

/* After a restore that was refused, in a process alone. */
static inline void advice_follow(advised *a, const pawl_report *report) {
    static advice_asked asked;
    const pawl_report_advice *next = pawl_report_next(report);
    assert_non_null(next);
    advice_follow_items(a, report, false);
    advice_begin(&asked, &a->options);
    for (size_t i = 0; i < next->remedy_count; i++) {
        advice_ask(&asked, next->remedies[i]);
    }
    advice_try(a, &asked, next->remain, NULL);
    advice_follow_items(a, report, true);
}

#endif
