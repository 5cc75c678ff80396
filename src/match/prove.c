/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves what a report advises, by trying it on the same entries and the same state. Each remedy is
 * tried: its option set, its rules added, its entries taken out of the state. It is offered only if
 * the differences that offer it are gone then, and no other came instead; and all that is to be
 * asked for together is tried as a whole. A trial is one more match: it goes through the entries of
 * the checkpoint and reads nothing else. Their number is bounded (course.c); what is not tried then
 * is not offered.
 *
 * With a group each rank tries by itself: what this finds wrong is wrong, but whether the other
 * ranks' states fit as well, nobody has asked.
 */
#include "match/prove.h"
#include "match/suggest.h"

#include <string.h>

static const char *const model_first =
    "make the model's own entries fit first: as they are, it cannot be restored alone";
static const char *const compare_names =
    "compare the names (pawl show lists the checkpoint's): as they are, no entry of the checkpoint "
    "fits one of the state; or restore another checkpoint";

static int64_t remaining(const prover *p, const course *c) {
    return p->m->ranks.job ? -1 : (int64_t)c->came.report->found[PAWL_SEVERITY_ERROR];
}

static const pawl_remedy *tell(prover *p, const pawl_remedy *remedy, const course *c,
                               pawl_error *err) {
    pawl_remedy *told = arena_take(&p->report->memory, sizeof(*told), err);
    if (told != NULL) {
        *told = *remedy;
        told->remain = remaining(p, c);
    }
    return told;
}

/* ---- names that changed --------------------------------------------------------------------- */

static bool is_rename(const pawl_report_item *item) {
    return item->difference == PAWL_DIFF_RENAMED && !prove_is_error(item);
}

/* The difference's remedies again, with what remains. */
static pawl_status tell_renames(prover *p, pawl_report_item *item, const course *c,
                                pawl_error *err) {
    const pawl_remedy **list =
        arena_take(&p->report->memory, item->remedy_count * sizeof(const pawl_remedy *), err);
    if (list == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t k = 0; k < item->remedy_count; k++) {
        list[k] = tell(p, item->remedies[k], c, err);
        if (list[k] == NULL) {
            return PAWL_ENOMEM;
        }
    }
    item->remedies = list;
    return PAWL_OK;
}

/* A suggestion that fails is no suggestion; a warning stays one, without rules. */
static pawl_status withdraw(prover *p, size_t *i, pawl_error *err) {
    pawl_report_item *item = &p->report->items[*i].seen;
    if (item->severity == PAWL_SEVERITY_NOTE) {
        report_drop(p->report, (*i)--);
        return PAWL_OK;
    }
    item->remedy_count = 0;
    item->change = "compare the two models before you allow what is missing or unexpected";
    return report_say_again(p->report, *i, err);
}

/* Tries each suggestion alone: it must pair as many entries as it says. */
static pawl_status prove_renames(prover *p, pawl_error *err) {
    size_t renamed = match_renamed(p->m->match);
    for (size_t i = 0; i < p->report->count; i++) {
        pawl_report_item *item = &p->report->items[i].seen;
        if (!is_rename(item) || item->remedy_count == 0) {
            continue;
        }
        CLEANUP(course_free) course c = {.rules = NULL};
        TRY(course_start(p, &c, err));
        TRY(course_add_all(&c, item, err));
        TRY(course_try(p, &c, err));
        bool pairs = !c.came.dead_end && c.came.renamed >= renamed + item->count;
        if (pairs && !course_has_new(p, &c)) {
            TRY(tell_renames(p, item, &c, err));
        } else {
            TRY(withdraw(p, &i, err));
        }
    }
    return PAWL_OK;
}

/* ---- all together --------------------------------------------------------------------------- */

/* Where the course stood before a step that may fail. */
typedef struct course_mark {
    pawl_restore_options options;
    size_t remedy_count;
} course_mark;

static course_mark mark_of(const course *c) {
    return (course_mark){.options = c->options, .remedy_count = c->remedy_count};
}

/* Tries the course with what was added since the mark; goes back to it where that fails. `fails`
 * may refuse what came of it; NULL: nothing more. */
static pawl_status take_step(prover *p, course_mark mark, bool (*fails)(const course *c),
                             pawl_error *err) {
    course *c = &p->all;
    if (c->remedy_count == mark.remedy_count) {
        return PAWL_OK;
    }
    TRY(course_try(p, c, err));
    bool nothing = c->came.pairs == 0 && !p->m->ranks.job;
    if (c->came.dead_end || nothing || course_has_new(p, c) || (fails != NULL && fails(c))) {
        course_forget(c);
        c->options = mark.options;
        c->remedy_count = mark.remedy_count;
    }
    return PAWL_OK;
}

/* The differences that the course leaves, as far as it was tried. */
static const pawl_report *left_by(const prover *p) {
    return p->all.came.report != NULL ? p->all.came.report : p->report;
}

static pawl_status again_if_forgotten(prover *p, pawl_error *err) {
    if (p->all.remedy_count > 0 && p->all.came.report == NULL) {
        TRY(course_try(p, &p->all, err));
        p->all.remedy_count = p->all.came.dead_end ? 0 : p->all.remedy_count;
    }
    return PAWL_OK;
}

static const char *last_component(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash != NULL ? slash + 1 : name;
}

/* One entry, under another name of its own: its type alone speaks for it, so it is a question. */
static bool is_guess(const prover *p, const pawl_report_item *item) {
    return item->count == 1 && state_snapshot_find(p->m->wanted, item->other_name, NULL) != NULL &&
           strcmp(last_component(item->name), last_component(item->other_name)) != 0;
}

/* All suggestions but guesses, or else the first. */
static pawl_status take_renames(prover *p, pawl_error *err) {
    for (int most = SUGGEST_MAX; most > 0 && p->all.remedy_count == 0; most = most > 1 ? 1 : 0) {
        course_mark mark = mark_of(&p->all);
        int taken = 0;
        for (size_t i = 0; i < p->report->count && taken < most; i++) {
            const pawl_report_item *item = &p->report->items[i].seen;
            if (is_rename(item) && item->severity == PAWL_SEVERITY_NOTE && item->remedy_count > 0 &&
                !is_guess(p, item)) {
                TRY(course_add_all(&p->all, item, err));
                taken++;
            }
        }
        TRY(take_step(p, mark, NULL, err));
    }
    return PAWL_OK;
}

/* Is restoring the model alone the only option that allows it? */
static bool needs_model_only(const pawl_report_item *item) {
    bool only = prove_is_error(item) && item->remedy_count > 0;
    for (size_t k = 0; k < item->remedy_count; k++) {
        only = only && remedy_is_model_only(item->remedies[k]);
    }
    return only;
}

static pawl_status take_model_only(prover *p, pawl_error *err) {
    const pawl_report *left = left_by(p);
    course_mark mark = mark_of(&p->all);
    for (size_t i = 0; i < left->count; i++) {
        if (needs_model_only(&left->items[i].seen)) {
            TRY(course_add(&p->all, left->items[i].seen.remedies[0], err));
            break;
        }
    }
    TRY(take_step(p, mark, course_leaves_hard_ones, err));
    return again_if_forgotten(p, err);
}

static const pawl_remedy *first_option(const pawl_report_item *item) {
    for (size_t k = 0; prove_is_error(item) && k < item->remedy_count; k++) {
        if (item->remedies[k]->before == NULL && !remedy_is_model_only(item->remedies[k])) {
            return item->remedies[k];
        }
    }
    return NULL;
}

static bool is_asked(const course *c, const pawl_remedy *remedy) {
    for (size_t i = 0; i < c->remedy_count; i++) {
        if (strcmp(c->remedies[i]->option, remedy->option) == 0) {
            return true;
        }
    }
    return false;
}

/* The first option of each error that is left. */
static pawl_status take_options(prover *p, pawl_error *err) {
    const pawl_report *left = left_by(p);
    course_mark mark = mark_of(&p->all);
    for (size_t i = 0; i < left->count; i++) {
        const pawl_remedy *remedy = first_option(&left->items[i].seen);
        if (remedy != NULL && !is_asked(&p->all, remedy)) {
            TRY(course_add(&p->all, remedy, err));
        }
    }
    TRY(take_step(p, mark, NULL, err));
    return again_if_forgotten(p, err);
}

static pawl_status prove_all(prover *p, pawl_error *err) {
    TRY(course_start(p, &p->all, err));
    TRY(take_renames(p, err));
    TRY(take_model_only(p, err));
    return take_options(p, err);
}

/* ---- each remedy ---------------------------------------------------------------------------- */

/* Where nothing fits, leaving out what differs leads nowhere, unless something else that is asked
 * for together makes pairs. */
static bool leads_on(const prover *p, const course *c, const pawl_remedy *remedy) {
    if (c->came.dead_end || course_has_new(p, c) || !course_allows_its_own(p, c, remedy)) {
        return false;
    }
    if (remedy_is_model_only(remedy) && course_leaves_hard_ones(c)) {
        return false;
    }
    bool leaves_out = remedy_is_model_only(remedy) || strcmp(remedy->option, "missing") == 0 ||
                      strcmp(remedy->option, "unexpected") == 0;
    return c->came.pairs > 0 || !leaves_out || is_asked(&p->all, remedy) || p->m->ranks.job;
}

/* Was it tried already, as all that is asked for together? */
static bool is_all(const prover *p, const pawl_remedy *remedy) {
    return p->all.came.report != NULL && p->all.remedy_count == 1 && p->all.remedies[0] == remedy;
}

static pawl_status prove_remedy(prover *p, const pawl_remedy *remedy, pawl_error *err) {
    for (size_t i = 0; i < p->tried_count; i++) {
        if (p->tried[i].of == remedy) {
            return PAWL_OK;
        }
    }
    if (p->tried_count == PROVE_MAX_REMEDIES) {
        return PAWL_OK;
    }
    CLEANUP(course_free) course alone = {.rules = NULL};
    const course *c = &p->all;
    if (!is_all(p, remedy)) {
        TRY(course_start(p, &alone, err));
        TRY(course_add(&alone, remedy, err));
        TRY(remedy->before != NULL ? course_take_out(p, &alone, remedy, err) : PAWL_OK);
        TRY(course_try(p, &alone, err));
        c = &alone;
    }
    tried_remedy *tried = &p->tried[p->tried_count++];
    *tried = (tried_remedy){.of = remedy};
    if (leads_on(p, c, remedy)) {
        tried->told = tell(p, remedy, c, err);
        return tried->told != NULL ? PAWL_OK : PAWL_ENOMEM;
    }
    return PAWL_OK;
}

static const pawl_remedy *told_of(const prover *p, const pawl_remedy *remedy) {
    for (size_t i = 0; i < p->tried_count; i++) {
        if (p->tried[i].of == remedy) {
            return p->tried[i].told;
        }
    }
    return NULL;
}

/* What is left of a list of remedies: the lists are few, and many items share each. */
static pawl_status tell_list(prover *p, const pawl_report_item *item, tried_list *out,
                             pawl_error *err) {
    for (size_t i = 0; i < p->list_count; i++) {
        if (p->lists[i].of == item->remedies) {
            *out = p->lists[i];
            return PAWL_OK;
        }
    }
    const pawl_remedy **told =
        arena_take(&p->report->memory, item->remedy_count * sizeof(const pawl_remedy *), err);
    if (told == NULL) {
        return PAWL_ENOMEM;
    }
    *out = (tried_list){.of = item->remedies, .told = told};
    for (size_t k = 0; k < item->remedy_count; k++) {
        TRY(prove_remedy(p, item->remedies[k], err));
        told[out->told_count] = told_of(p, item->remedies[k]);
        out->told_count += told[out->told_count] != NULL;
    }
    if (p->list_count < PROVE_MAX_REMEDIES) {
        p->lists[p->list_count++] = *out;
    }
    return PAWL_OK;
}

static const char *otherwise(const pawl_report_item *item) {
    return remedy_is_model_only(item->remedies[0]) ? model_first : compare_names;
}

/* An item without any next step gets one that is no option. */
static pawl_status tell_item(prover *p, size_t i, const tried_list *list, pawl_error *err) {
    pawl_report_item *item = &p->report->items[i].seen;
    bool fewer = list->told_count < item->remedy_count;
    if (list->told_count == 0 && item->change == NULL) {
        item->change = otherwise(item);
    }
    item->remedies = list->told;
    item->remedy_count = list->told_count;
    return fewer ? report_say_again(p->report, i, err) : PAWL_OK;
}

/* The lists are made first: a trial asks which items offer a remedy. */
static pawl_status prove_each(prover *p, pawl_error *err) {
    for (int telling = 0; telling < 2; telling++) {
        for (size_t i = 0; i < p->report->count; i++) {
            const pawl_report_item *item = &p->report->items[i].seen;
            tried_list list;
            if (prove_is_error(item) && item->remedy_count > 0) {
                TRY(tell_list(p, item, &list, err));
                TRY(telling == 1 ? tell_item(p, i, &list, err) : PAWL_OK);
            }
        }
    }
    return PAWL_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* The remedies are those of the report's items, so that each is found among them. */
static const pawl_remedy *as_told(const prover *p, const pawl_remedy *remedy) {
    const pawl_remedy *told = remedy->from != NULL ? remedy : told_of(p, remedy);
    return told != NULL ? told : remedy;
}

static pawl_status set_advice(prover *p, pawl_error *err) {
    pawl_report *report = p->report;
    size_t count = p->all.remedy_count;
    const pawl_remedy **list =
        arena_take(&report->memory, count * sizeof(const pawl_remedy *), err);
    if (list == NULL) {
        return PAWL_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        list[i] = as_told(p, p->all.remedies[i]);
    }
    bool tried = p->all.came.report != NULL;
    for (size_t i = 0; i < report->count; i++) {
        pawl_report_item *item = &report->items[i].seen;
        item->remains = prove_is_error(item) && (!tried || error_keys_have(&p->all.errors, item));
    }
    report->tried = true;
    if (tried) {
        report->all = p->m->wanted->count;
        report->stay = report_counts(p->all.came.report)->kept;
        report->model = p->all.came.model;
        report->model_stay = p->all.came.model_stay;
    }
    report->advice = (pawl_report_advice){
        .struct_size = sizeof(report->advice),
        .remedies = list,
        .remedy_count = count,
        .remain = p->m->ranks.job ? -1 : (int64_t)left_by(p)->found[PAWL_SEVERITY_ERROR],
    };
    return PAWL_OK;
}

static void prover_free(prover *p) {
    error_keys_free(&p->errors);
    course_free(&p->all);
}

/* Most matches have nothing to prove, and cost nothing here. */
static bool has_something_to_prove(const matcher *m) {
    bool rename = false;
    for (size_t i = 0; i < m->report->count; i++) {
        rename = rename || is_rename(&m->report->items[i].seen);
    }
    return m->match->refused || rename;
}

pawl_status matcher_prove(matcher *m, entry_source checkpoint, pawl_error *err) {
    CLEANUP(prover_free)
    prover p = {.m = m, .checkpoint = checkpoint, .report = m->report};
    if (!has_something_to_prove(m)) {
        return PAWL_OK;
    }
    TRY(error_keys_of(m->report, &p.errors, err));
    TRY(prove_renames(&p, err));
    if (!m->match->refused) {
        return PAWL_OK;
    }
    TRY(prove_all(&p, err));
    TRY(prove_each(&p, err));
    return set_advice(&p, err);
}
