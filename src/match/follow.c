/* SPDX-License-Identifier: Apache-2.0 */
/* Moves slots with their variables: a slot is identified by its variable and its own name. */
#include "match/side.h"
#include "match/suggest.h"

#include <stdlib.h>
#include <string.h>

static int by_variable_and_slot(const void *a, const void *b) {
    const state_entry *const *left = a;
    const state_entry *const *right = b;
    int order = strcmp((*left)->slot_of, (*right)->slot_of);
    return order != 0 ? order : strcmp((*left)->slot, (*right)->slot);
}

static pawl_status list_slots(suggester *s, pawl_error *err) {
    const state_snapshot *wanted = s->m->wanted;
    if (s->slots != NULL) {
        return PAWL_OK;
    }
    s->slots = mem_calloc(wanted->count, sizeof(const state_entry *));
    if (s->slots == NULL) {
        return error_nomem(err, wanted->count * sizeof(const state_entry *));
    }
    for (size_t i = 0; i < wanted->count; i++) {
        if (wanted->entries[i]->role == PAWL_ROLE_SLOT) {
            s->slots[s->slot_count++] = wanted->entries[i];
        }
    }
    if (s->slot_count > 1) {
        qsort(s->slots, s->slot_count, sizeof(const state_entry *), by_variable_and_slot);
    }
    return PAWL_OK;
}

/* The state's slot of that variable and name; NULL where there is none, or more than one. */
static const state_entry *find_slot(const suggester *s, const char *variable, const char *slot) {
    const state_entry key = {.slot_of = variable, .slot = slot};
    const state_entry *wanted = &key;
    const state_entry **found = s->slot_count == 0
                                    ? NULL
                                    : bsearch(&wanted, s->slots, s->slot_count,
                                              sizeof(const state_entry *), by_variable_and_slot);
    if (found == NULL || (found > s->slots && by_variable_and_slot(found - 1, found) == 0) ||
        (found + 1 < s->slots + s->slot_count && by_variable_and_slot(found + 1, found) == 0)) {
        return NULL;
    }
    return *found;
}

static bool same_type(const loose_entry *saved, const state_entry *wanted) {
    const loose_entry other = {.slot = wanted->slot,
                               .kind = wanted->kind,
                               .dtype = wanted->dtype,
                               .ndim = wanted->ndim,
                               .shape = wanted->shape};
    return wanted->kind == PAWL_KIND_TENSOR && suggest_compare_types(saved, &other) == 0;
}

static pawl_status add_slot_move(suggester *s, const loose_entry *saved, const char *variable,
                                 size_t group, bool fitted, pawl_error *err) {
    const state_entry *wanted = find_slot(s, variable, saved->slot);
    if (wanted == NULL || !same_type(saved, wanted) || strcmp(saved->name, wanted->name) == 0) {
        return PAWL_OK;
    }
    const suggest_move move = {.from = saved->name,
                               .to = wanted->name,
                               .group = group,
                               .class = SUGGEST_NONE,
                               .casts = saved->dtype != wanted->dtype,
                               .fitted = fitted};
    return suggest_add_move(s, &move, err);
}

/* Moves a slot without a partner if its variable moved. */
static pawl_status follow(suggester *s, const loose_entry *saved, pawl_error *err) {
    const suggest_move *variable = suggest_moved(s, saved->slot_of);
    if (saved->slot[0] == '\0' || variable == NULL || suggest_moved(s, saved->name) != NULL) {
        return PAWL_OK;
    }
    const char *to = variable->to;
    return add_slot_move(s, saved, to, variable->group, false, err);
}

/* Moves a slot that matches by name: its variable moved, so the partner is a slot of another
 * one. */
static pawl_status follow_pair(suggester *s, const match_pair *pair, pawl_error *err) {
    const record_entry *record = pair->source;
    const suggest_move *variable =
        record->role == PAWL_ROLE_SLOT ? suggest_moved(s, record->slot_of) : NULL;
    if (variable == NULL || suggest_moved(s, record->name) != NULL ||
        strcmp(record->name, pair->wanted->name) != 0) {
        return PAWL_OK; /* nor if a given rule renamed it: no second rule is applied */
    }
    const loose_entry saved = {.name = record->name,
                               .slot = record->slot,
                               .slot_of = record->slot_of,
                               .kind = record->kind,
                               .dtype = record->dtype,
                               .ndim = record->ndim,
                               .shape = record->shape};
    return add_slot_move(s, &saved, variable->to, variable->group, true, err);
}

/* Moves a slot that was renamed while its variable stayed. */
static pawl_status follow_home(suggester *s, const loose_entry *saved, size_t *group,
                               pawl_error *err) {
    size_t place = 0;
    if (saved->slot[0] == '\0' || suggest_moved(s, saved->slot_of) != NULL ||
        suggest_moved(s, saved->name) != NULL ||
        state_snapshot_find(s->m->wanted, saved->slot_of, &place) == NULL ||
        s->m->partner[place] == 0) {
        return PAWL_OK;
    }
    const state_entry *wanted = find_slot(s, saved->slot_of, saved->slot);
    bool missing = wanted != NULL &&
                   state_snapshot_find(s->m->wanted, wanted->name, &place) != NULL &&
                   s->m->partner[place] == 0;
    if (!missing) {
        return PAWL_OK;
    }
    if (*group == SUGGEST_NONE) {
        *group = s->group_count;
        TRY(suggest_add_group(s, &(suggest_group){0}, err));
    }
    return add_slot_move(s, saved, saved->slot_of, *group, false, err);
}

pawl_status suggest_follow(suggester *s, bool renamed, pawl_error *err) {
    const matcher *m = s->m;
    size_t group = SUGGEST_NONE;
    TRY(list_slots(s, err));
    for (size_t i = 0; i < m->checkpoint.count; i++) {
        TRY(follow(s, &m->checkpoint.entries[i], err));
    }
    for (size_t i = 0; renamed && i < m->checkpoint.count; i++) {
        TRY(follow_home(s, &m->checkpoint.entries[i], &group, err));
    }
    for (size_t i = 0; i < m->unfit_count; i++) {
        if (!suggest_has_rule(s, &m->unfit[i])) {
            TRY(follow(s, &m->unfit[i].record, err));
        }
    }
    for (size_t i = 0; s->settled > 0 && i < m->match->pair_count; i++) {
        TRY(follow_pair(s, &m->match->pairs[i], err));
    }
    return suggest_settle_moves(s, err);
}
