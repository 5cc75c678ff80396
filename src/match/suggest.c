/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for rename suggestions (R05), the strongest evidence first, and reports them. */
#include "match/suggest.h"

#include <stdlib.h>
#include <string.h>

/* ---- report --------------------------------------------------------------------------------- */

/* A group that would take partners away from entries that match by name is only a warning, unless
 * some of its entries are of a class in which nothing matches by name: then it is certain that they
 * were renumbered. */
static pawl_severity severity_of_group(const suggest_group *g) {
    return g->takes && !g->sure ? PAWL_SEVERITY_WARNING : PAWL_SEVERITY_NOTE;
}

static pawl_status report_group(suggester *s, size_t group, size_t *reported, pawl_error *err) {
    AUTOFREE pawl_rename *rules = NULL;
    size_t count = 0;
    bool casts = false;
    bool capped =
        s->m->checkpoint.count == MATCHER_MAX_LOOSE || s->m->state.count == MATCHER_MAX_LOOSE;
    for (size_t i = 0; i < s->move_count; i++) {
        casts = casts || (s->moves[i].group == group && s->moves[i].casts);
    }
    TRY(suggest_rules_of(s, group, &rules, &count, err));
    if (count == 0) {
        return suggest_drop_group(s, group, err);
    }
    pawl_report_item item = {.difference = PAWL_DIFF_RENAMED,
                             .severity = severity_of_group(&s->groups[group]),
                             .name = rules[0].from,
                             .other_name = rules[0].to,
                             .dimension = -1,
                             .count = s->groups[group].count};
    const sentence_facts facts = {.or_more = capped,
                                  .renames = rules,
                                  .rename_count = count,
                                  .needs_cast = casts && s->m->options.cast != PAWL_POLICY_ALLOW};
    ++*reported;
    return report_add_facts(s->m->report, &item, &facts, err);
}

/* The largest first. */
static pawl_status report_groups(suggester *s, size_t *reported, pawl_error *err) {
    for (size_t i = 0; i < s->move_count; i++) {
        s->groups[s->moves[i].group].count++;
    }
    while (*reported < SUGGEST_MAX) {
        size_t largest = SUGGEST_NONE;
        for (size_t i = 0; i < s->group_count; i++) {
            const suggest_group *g = &s->groups[i];
            if (!g->bad && g->count > 0 &&
                (largest == SUGGEST_NONE || g->count > s->groups[largest].count)) {
                largest = i;
            }
        }
        if (largest == SUGGEST_NONE) {
            return PAWL_OK;
        }
        TRY(report_group(s, largest, reported, err));
        s->groups[largest].count = 0;
    }
    return PAWL_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void suggester_free(suggester *s) {
    mem_free(s->classes);
    mem_free(s->source_class);
    mem_free(s->target_class);
    mem_free(s->saved.items);
    mem_free(s->wanted.items);
    mem_free(s->moves);
    mem_free(s->arrivals);
    mem_free(s->groups);
    mem_free(s->slots);
    mem_free(s->forward);
    mem_free(s->backward);
    mem_free(s->source_used);
    mem_free(s->target_used);
    mem_free(s->image);
    mem_free(s->rules);
    buffer_free(&s->name);
    arena_free(&s->memory);
}

static pawl_status suggester_start(suggester *s, pawl_error *err) {
    const matcher *m = s->m;
    s->siblings = m->checkpoint.count < MATCHER_MAX_LOOSE && m->state.count < MATCHER_MAX_LOOSE &&
                  m->elsewhere.count < MATCHER_MAX_LOOSE && m->unfit_count < MATCHER_MAX_LOOSE;
    s->source_class = mem_calloc(m->checkpoint.count, sizeof(size_t));
    s->target_class = mem_calloc(m->state.count, sizeof(size_t));
    s->source_used = mem_calloc(m->checkpoint.count, sizeof(bool));
    s->target_used = mem_calloc(m->state.count, sizeof(bool));
    if (s->source_class == NULL || s->target_class == NULL || s->source_used == NULL ||
        s->target_used == NULL) {
        return error_nomem(err, (m->checkpoint.count + m->state.count) * sizeof(size_t));
    }
    return PAWL_OK;
}

pawl_status matcher_suggest(matcher *m, pawl_error *err) {
    if (m->checkpoint.count == 0 || m->state.count == 0) {
        return PAWL_OK;
    }
    CLEANUP(suggester_free)
    suggester s = {.m = m};
    size_t reported = 0;
    TRY(suggester_start(&s, err));
    TRY(suggest_find_classes(&s, err));
    TRY(suggest_siblings(&s, err));
    TRY(suggest_follow(&s, false, err));
    TRY(suggest_check(&s, err));
    suggest_claim(&s);
    TRY(suggest_prefixes(&s, err));
    TRY(suggest_follow(&s, true, err));
    TRY(suggest_doubt(&s, err));
    TRY(suggest_check(&s, err));
    TRY(report_groups(&s, &reported, err));
    return suggest_warn(&s, &reported, err);
}
