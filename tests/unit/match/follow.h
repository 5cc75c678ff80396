/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows what a report advises, as a caller would who knows nothing but the fields of its items:
 * sets each option by its name, adds rules, takes entries out of the state; matches again, without
 * any proof, and checks what the report said would come of it.
 */
#ifndef UNIT_MATCH_FOLLOW_H
#define UNIT_MATCH_FOLLOW_H

#include "lib/test.h"
#include "match/report.h"

#include <stdlib.h>
#include <string.h>

#define FOLLOW_OF_A_KIND 12 /* items that offer the same remedy: the others are like these */

/* A match that was made, and its report. */
typedef struct followed {
    const state_snapshot *snapshot;
    entry_source checkpoint;
    pawl_restore_options options; /* as they were given */
    match_ranks ranks;
    const pawl_report *report;
    bool refused;
    pawl_error err;
    int count; /* remedies that were followed */
} followed;

/* What is asked for, and what comes of it. */
typedef struct following {
    pawl_restore_options options;
    pawl_rename *rules;
    bool *taken_out;
    pawl_status status;
    pawl_report *report;
    match_result *match;
} following;

static inline void following_begin(const followed *f, following *out) {
    size_t count = f->options.rename_count;
    *out = (following){.options = f->options};
    out->rules = calloc(count + 4096, sizeof *out->rules);
    out->taken_out = calloc(f->snapshot->count + 1, 1);
    assert_true(out->rules != NULL && out->taken_out != NULL);
    if (count > 0) {
        memcpy(out->rules, f->options.renames, count * sizeof *out->rules);
    }
}

static inline void following_end(following *f) {
    free(f->rules);
    free(f->taken_out);
    pawl_report_free(f->report);
    match_free(f->match);
}

static inline void ask_for(following *f, const pawl_remedy *remedy) {
    pawl_restore_options *o = &f->options;
    const struct {
        const char *name;
        pawl_policy *field;
    } policies[] = {{"missing", &o->missing}, {"unexpected", &o->unexpected},
                    {"cast", &o->cast},       {"hyperparameter", &o->hyperparameter},
                    {"batch", &o->batch},     {"per_rank", &o->per_rank}};
    if (strcmp(remedy->option, "renames") == 0) {
        assert_true(o->rename_count < 4096);
        f->rules[o->rename_count++] = (pawl_rename){.from = remedy->from, .to = remedy->to};
        return;
    }
    if (strcmp(remedy->option, "model_only") == 0) {
        assert_string_equal(remedy->value, "1");
        o->model_only = 1;
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

static inline void take_entry_out(const followed *f, following *out, const char *name) {
    size_t place = 0;
    assert_non_null(state_snapshot_find(f->snapshot, name, &place));
    out->taken_out[place] = true;
}

/* Matches a state that really lacks what was taken out. */
static inline void follow_match(followed *f, following *out) {
    state_snapshot less = *f->snapshot;
    const state_entry **entries = calloc(f->snapshot->count + 1, sizeof *entries);
    entry_source plain = f->checkpoint;
    plain.again = NULL;
    less.count = 0;
    for (size_t i = 0; i < f->snapshot->count; i++) {
        if (!out->taken_out[i]) {
            entries[less.count++] = f->snapshot->entries[i];
        }
    }
    less.entries = entries;
    out->options.renames = out->rules;
    assert_ok(f->checkpoint.again(f->checkpoint.context, &f->err), &f->err);
    assert_ok(report_new(&out->report, &f->err), &f->err);
    out->status =
        match_make(&less, plain, &out->options, &f->ranks, out->report, &out->match, &f->err);
    free(entries);
    f->count++;
}

static inline const char *followed_name(const pawl_report_item *item) {
    bool renamed = item->saved_as != NULL && item->difference != PAWL_DIFF_RENAMED;
    return renamed ? item->saved_as : item->name;
}

/* Does a report have that difference as an error? */
static inline bool is_still_refused(const pawl_report *report, const pawl_report_item *like) {
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        if (item->severity == PAWL_SEVERITY_ERROR && item->difference == like->difference &&
            strcmp(followed_name(item), followed_name(like)) == 0) {
            return true;
        }
    }
    return false;
}

static inline uint64_t errors_of(const pawl_report *report) {
    return report->found[PAWL_SEVERITY_ERROR];
}

/* A long list is too much for the plain comparison; its items are alike. */
static inline bool is_long(const pawl_report *report) {
    return pawl_report_count(report) > 300;
}

static inline void assert_no_new_error(const followed *f, const following *came) {
    assert_true(errors_of(came->report) <= errors_of(f->report));
    for (size_t i = 0; i < pawl_report_count(came->report) && !is_long(f->report); i++) {
        const pawl_report_item *item = pawl_report_get(came->report, i);
        if (item->severity == PAWL_SEVERITY_ERROR && !is_still_refused(f->report, item)) {
            fail_msg("following an advice brings: %s", item->text);
        }
    }
}

static inline void assert_remain(const followed *f, const following *came, int64_t said) {
    if (f->ranks.job) {
        assert_int_equal(said, -1);
    } else {
        assert_int_equal(said, errors_of(came->report));
    }
}

/* Not refused in another way: a restore of nothing, rules that make no name. */
static inline void assert_leads_on(const followed *f, const following *came,
                                   const pawl_report_item *item) {
    if (came->status != PAWL_OK) {
        fail_msg("%s\nleads to: %s", item != NULL ? item->text : "all that is advised",
                 error_text((pawl_error *)&f->err));
    }
    assert_no_new_error(f, came);
}

/* ---- one remedy ----------------------------------------------------------------------------- */

/* For this difference alone, then for all that offer it, which is what `remain` counts. */
static inline void follow_remedy(followed *f, const pawl_report_item *item,
                                 const pawl_remedy *remedy) {
    for (int all = 0; all <= (remedy->before != NULL); all++) {
        following came;
        following_begin(f, &came);
        ask_for(&came, remedy);
        for (size_t i = 0; i < pawl_report_count(f->report) && remedy->before != NULL; i++) {
            const pawl_report_item *other = pawl_report_get(f->report, i);
            for (size_t k = 0; k < other->remedy_count; k++) {
                if (other == item || (all == 1 && other->remedies[k] == remedy)) {
                    assert_string_equal(remedy->before, "take the entry out of the state");
                    take_entry_out(f, &came, other->name);
                }
            }
        }
        follow_match(f, &came);
        assert_leads_on(f, &came, item);
        if (is_still_refused(came.report, item)) {
            fail_msg("followed, and still there: %s", item->text);
        }
        if (all == 1 || remedy->before == NULL) {
            assert_remain(f, &came, remedy->remain);
        }
        following_end(&came);
    }
}

/* Of a warning: a restore that keeps the state's value. */
static inline void follow_keeping(followed *f, const pawl_report_item *item,
                                  const pawl_remedy *remedy) {
    following came;
    following_begin(f, &came);
    ask_for(&came, remedy);
    follow_match(f, &came);
    assert_leads_on(f, &came, item);
    bool kept = f->refused;
    for (size_t i = 0; i < came.match->pair_count && !kept; i++) {
        kept = came.match->pairs[i].keep_caller &&
               strcmp(came.match->pairs[i].wanted->name, item->name) == 0;
    }
    assert_true(kept);
    following_end(&came);
}

/* Rules, all together: they pair as many entries as was said. */
static inline void follow_rules(followed *f, const pawl_report_item *item) {
    following came;
    size_t before = 0;
    size_t after = 0;
    following_begin(f, &came);
    follow_match(f, &came);
    for (size_t i = 0; came.match != NULL && i < came.match->pair_count; i++) {
        before += strcmp(came.match->pairs[i].source->name, came.match->pairs[i].wanted->name) != 0;
    }
    following_end(&came);
    following_begin(f, &came);
    for (size_t k = 0; k < item->remedy_count; k++) {
        ask_for(&came, item->remedies[k]);
    }
    follow_match(f, &came);
    assert_leads_on(f, &came, item);
    for (size_t i = 0; i < came.match->pair_count; i++) {
        after += strcmp(came.match->pairs[i].source->name, came.match->pairs[i].wanted->name) != 0;
    }
    assert_true(after >= before + item->count);
    for (size_t k = 0; k < item->remedy_count; k++) {
        assert_remain(f, &came, item->remedies[k]->remain);
    }
    following_end(&came);
}

/* ---- everything ----------------------------------------------------------------------------- */

static inline void follow_next(followed *f) {
    const pawl_report_advice *next = pawl_report_next(f->report);
    following came;
    assert_non_null(next);
    following_begin(f, &came);
    for (size_t i = 0; i < next->remedy_count; i++) {
        assert_null(next->remedies[i]->before);
        ask_for(&came, next->remedies[i]);
    }
    follow_match(f, &came);
    if (next->remedy_count > 0) {
        assert_leads_on(f, &came, NULL);
        assert_true(f->ranks.job || came.match->pair_count > 0);
    }
    assert_remain(f, &came, next->remain);
    for (size_t i = 0; i < pawl_report_count(f->report) && !is_long(f->report); i++) {
        const pawl_report_item *item = pawl_report_get(f->report, i);
        bool error = item->severity == PAWL_SEVERITY_ERROR;
        assert_int_equal(item->remains, error && is_still_refused(came.report, item));
    }
    following_end(&came);
}

/* The error has a next step, and says what remains. */
static inline void assert_next_is_said(followed *f) {
    const pawl_report_advice *next = pawl_report_next(f->report);
    assert_int_equal(match_error(f->report, &f->err), PAWL_EMISMATCH);
    if (f->err.next[0] == '\0') {
        fail_msg("no next step: %s", f->err.attempt);
    }
    bool cut = strlen(f->err.next) > sizeof(f->err.next) - 8;
    if (next->remedy_count > 0 && !f->ranks.job && !cut) {
        bool whole = strstr(f->err.next, "with this it restores") != NULL ||
                     strstr(f->err.next, "with these it restores") != NULL ||
                     strstr(f->err.next, "with one of these it restores") != NULL;
        assert_int_equal(whole, next->remain == 0);
        assert_int_equal(strstr(f->err.next, "then ") != NULL, next->remain > 0);
    }
}

static inline void follow_item(followed *f, const pawl_report_item *item, int *of_kind) {
    bool error = item->severity == PAWL_SEVERITY_ERROR;
    if (item->difference == PAWL_DIFF_RENAMED && !error) {
        if (item->remedy_count > 0) {
            follow_rules(f, item);
        } else {
            assert_non_null(item->change);
        }
        return;
    }
    if (error) {
        assert_true(item->change != NULL || item->remedy_count > 0);
    }
    for (size_t k = 0; k < item->remedy_count; k++) {
        if (of_kind[item->difference]++ >= FOLLOW_OF_A_KIND) {
            continue;
        }
        if (error) {
            follow_remedy(f, item, item->remedies[k]);
        } else {
            follow_keeping(f, item, item->remedies[k]);
        }
    }
}

/* Follows all that the report advises; returns how many matches that took. */
static inline int follow_all(followed *f) {
    int of_kind[REPORT_DIFFERENCES] = {0};
    for (size_t i = 0; i < pawl_report_count(f->report); i++) {
        follow_item(f, pawl_report_get(f->report, i), of_kind);
    }
    if (f->refused) {
        follow_next(f);
        assert_next_is_said(f);
    } else {
        assert_null(pawl_report_next(f->report));
    }
    return f->count;
}

#endif
