/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts entries into classes of alike ones, and keeps the moves that were found. */
#include "match/suggest.h"

#include <stdlib.h>
#include <string.h>

/* ---- types ---------------------------------------------------------------------------------- */

static int compare_integers(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* Dtypes that can be cast into each other count as one type: another option allows the cast. */
static int64_t dtype_of(const loose_entry *e) {
    return dtype_castable(e->dtype) ? PAWL_F32 : e->dtype;
}

int suggest_compare_types(const loose_entry *a, const loose_entry *b) {
    int order = compare_integers(a->kind, b->kind);
    order = order != 0 ? order : compare_integers(dtype_of(a), dtype_of(b));
    order = order != 0 ? order : compare_integers(a->ndim, b->ndim);
    for (int d = 0; d < a->ndim && order == 0; d++) {
        order = compare_integers(a->shape[d], b->shape[d]);
    }
    return order != 0 ? order : strcmp(a->slot, b->slot);
}

/* ---- classes -------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(const char *mask, const loose_entry *e) {
    uint64_t hash = mix((uint64_t)e->kind, (uint64_t)dtype_of(e));
    for (int d = 0; d < e->ndim; d++) {
        hash = mix(hash, (uint64_t)e->shape[d]);
    }
    for (; *mask != '\0'; mask++) {
        hash = mix(hash, (unsigned char)*mask);
    }
    return hash;
}

static int by_class(const void *a, const void *b) {
    const suggest_class *left = a;
    const suggest_class *right = b;
    if (left->hash != right->hash) {
        return left->hash < right->hash ? -1 : 1;
    }
    int order = strcmp(left->mask, right->mask);
    return order != 0 ? order : suggest_compare_types(left->like, right->like);
}

static bool is_slot_entry(const loose_entry *e) {
    return e->slot[0] != '\0';
}

static pawl_status add_class(suggester *s, const loose_entry *e, pawl_error *err) {
    char mask[PAWL_MAX_NAME_BYTES + 1];
    numbers n;
    if (is_slot_entry(e)) {
        return PAWL_OK;
    }
    numbers_read(e->name, mask, &n);
    const char *kept = arena_strdup(&s->memory, mask);
    if (kept == NULL) {
        return error_nomem(err, strlen(mask) + 1);
    }
    TRY(vec_reserve(&s->classes, &s->class_capacity, s->class_count + 1, sizeof(*s->classes), err));
    s->classes[s->class_count++] =
        (suggest_class){.hash = hash_of(mask, e), .mask = kept, .like = e};
    return PAWL_OK;
}

static size_t find_class(const suggester *s, const loose_entry *e, numbers *n) {
    char mask[PAWL_MAX_NAME_BYTES + 1];
    if (is_slot_entry(e) || s->class_count == 0) {
        return SUGGEST_NONE;
    }
    numbers_read(e->name, mask, n);
    const suggest_class key = {.hash = hash_of(mask, e), .mask = mask, .like = e};
    const suggest_class *found =
        bsearch(&key, s->classes, s->class_count, sizeof(*s->classes), by_class);
    return found == NULL ? SUGGEST_NONE : (size_t)(found - s->classes);
}

static loose_entry loose_of_state(const state_entry *e) {
    bool tensor = e->kind == PAWL_KIND_TENSOR;
    return (loose_entry){.name = e->name,
                         .slot = e->slot == NULL ? "" : e->slot,
                         .slot_of = e->slot_of == NULL ? "" : e->slot_of,
                         .kind = e->kind,
                         .dtype = tensor ? e->dtype : (pawl_dtype)0,
                         .ndim = tensor ? e->ndim : 0,
                         .shape = e->shape};
}

/* The state's entry for a record of another shape; NULL: no memory. */
static const loose_entry *unfit_wanted(suggester *s, const unfit_entry *unfit, pawl_error *err) {
    loose_entry *e = arena_take(&s->memory, sizeof(*e), err);
    if (e != NULL) {
        *e = loose_of_state(s->m->wanted->entries[unfit->place]);
    }
    return e;
}

static pawl_status add_classes(suggester *s, pawl_error *err) {
    const matcher *m = s->m;
    for (size_t i = 0; i < m->checkpoint.count; i++) {
        TRY(add_class(s, &m->checkpoint.entries[i], err));
    }
    for (size_t i = 0; i < m->state.count; i++) {
        TRY(add_class(s, &m->state.entries[i], err));
    }
    for (size_t i = 0; s->siblings && i < m->unfit_count; i++) {
        if (m->unfit[i].other_shape) {
            const loose_entry *wanted = unfit_wanted(s, &m->unfit[i], err);
            if (wanted == NULL) {
                return PAWL_ENOMEM;
            }
            TRY(add_class(s, &m->unfit[i].record, err));
            TRY(add_class(s, wanted, err));
        }
    }
    if (s->class_count > 1) {
        qsort(s->classes, s->class_count, sizeof(*s->classes), by_class);
    }
    size_t distinct = 0;
    for (size_t i = 0; i < s->class_count; i++) {
        if (distinct == 0 || by_class(&s->classes[distinct - 1], &s->classes[i]) != 0) {
            s->classes[distinct++] = s->classes[i];
        }
    }
    s->class_count = distinct;
    return PAWL_OK;
}

static void count_homeless(suggester *s) {
    const matcher *m = s->m;
    numbers n;
    for (size_t i = 0; i < m->checkpoint.count; i++) {
        s->source_class[i] = find_class(s, &m->checkpoint.entries[i], &n);
        if (s->source_class[i] != SUGGEST_NONE) {
            s->classes[s->source_class[i]].saved++;
        }
    }
    for (size_t i = 0; i < m->state.count; i++) {
        s->target_class[i] = find_class(s, &m->state.entries[i], &n);
        if (s->target_class[i] != SUGGEST_NONE) {
            s->classes[s->target_class[i]].wanted++;
        }
    }
    for (size_t i = 0; i < m->elsewhere.count; i++) {
        size_t class = find_class(s, &m->elsewhere.entries[i], &n);
        if (class != SUGGEST_NONE) {
            s->classes[class].elsewhere++;
        }
    }
}

static bool is_shared(const suggest_class *c) {
    return c->saved > 0 && c->wanted > 0;
}

static pawl_status add_member(suggester *s, suggest_members *to, const loose_entry *e,
                              bool homeless, pawl_error *err) {
    suggest_member member = {.name = e->name, .dtype = e->dtype, .homeless = homeless};
    member.class = find_class(s, e, &member.numbers);
    if (!s->siblings || member.class == SUGGEST_NONE || !is_shared(&s->classes[member.class])) {
        return PAWL_OK;
    }
    if (to->count == SUGGEST_MAX_MEMBERS) {
        s->siblings = false;
        return PAWL_OK;
    }
    TRY(vec_reserve(&to->items, &to->capacity, to->count + 1, sizeof(*to->items), err));
    to->items[to->count++] = member;
    return PAWL_OK;
}

bool suggest_has_rule(const suggester *s, const unfit_entry *unfit) {
    return strcmp(unfit->record.name, s->m->wanted->entries[unfit->place]->name) != 0;
}

/* Counts an entry that has a partner, by its name or by a given rename rule. */
static pawl_status add_fitting(suggester *s, const char *saved, const state_entry *wanted,
                               pawl_error *err) {
    numbers n;
    const loose_entry e = loose_of_state(wanted);
    size_t class = find_class(s, &e, &n);
    if (class == SUGGEST_NONE) {
        return PAWL_OK;
    }
    if (strcmp(saved, wanted->name) != 0) {
        s->classes[class].elsewhere++;
        return PAWL_OK;
    }
    s->classes[class].fitting++;
    TRY(add_member(s, &s->saved, &e, false, err));
    return add_member(s, &s->wanted, &e, false, err);
}

static pawl_status add_unfit_members(suggester *s, const unfit_entry *unfit, pawl_error *err) {
    const state_entry *wanted = s->m->wanted->entries[unfit->place];
    if (!unfit->other_shape) {
        return add_fitting(s, unfit->record.name, wanted, err);
    }
    if (suggest_has_rule(s, unfit)) {
        return PAWL_OK;
    }
    const loose_entry e = loose_of_state(wanted);
    TRY(add_member(s, &s->saved, &unfit->record, true, err));
    return add_member(s, &s->wanted, &e, true, err);
}

/* Entries of one name and different shapes count as without a partner, too, unless a given rename
 * rule paired them. Called before members are listed, which depends on these counts. */
static void count_unfit(suggester *s) {
    numbers n;
    for (size_t i = 0; i < s->m->unfit_count; i++) {
        const unfit_entry *unfit = &s->m->unfit[i];
        const loose_entry e = loose_of_state(s->m->wanted->entries[unfit->place]);
        size_t saved = unfit->other_shape ? find_class(s, &unfit->record, &n) : SUGGEST_NONE;
        size_t wanted = unfit->other_shape ? find_class(s, &e, &n) : SUGGEST_NONE;
        bool ruled = suggest_has_rule(s, unfit);
        if (saved != SUGGEST_NONE) {
            s->classes[saved].saved += ruled ? 0 : 1;
            s->classes[saved].elsewhere += ruled ? 1 : 0;
        }
        if (wanted != SUGGEST_NONE) {
            s->classes[wanted].wanted += ruled ? 0 : 1;
            s->classes[wanted].elsewhere += ruled ? 1 : 0;
        }
    }
}

pawl_status suggest_find_classes(suggester *s, pawl_error *err) {
    const matcher *m = s->m;
    TRY(add_classes(s, err));
    count_homeless(s);
    count_unfit(s);
    for (size_t i = 0; i < m->match->pair_count; i++) {
        const match_pair *pair = &m->match->pairs[i];
        TRY(add_fitting(s, pair->source->name, pair->wanted, err));
    }
    for (size_t i = 0; i < m->unfit_count; i++) {
        TRY(add_unfit_members(s, &m->unfit[i], err));
    }
    for (size_t i = 0; i < m->checkpoint.count; i++) {
        TRY(add_member(s, &s->saved, &m->checkpoint.entries[i], true, err));
    }
    for (size_t i = 0; i < m->state.count; i++) {
        TRY(add_member(s, &s->wanted, &m->state.entries[i], true, err));
    }
    return PAWL_OK;
}

/* ---- moves ---------------------------------------------------------------------------------- */

pawl_status suggest_add_move(suggester *s, const suggest_move *move, pawl_error *err) {
    TRY(vec_reserve(&s->moves, &s->move_capacity, s->move_count + 1, sizeof(*s->moves), err));
    s->moves[s->move_count++] = *move;
    return PAWL_OK;
}

pawl_status suggest_add_group(suggester *s, const suggest_group *group, pawl_error *err) {
    TRY(vec_reserve(&s->groups, &s->group_capacity, s->group_count + 1, sizeof(*s->groups), err));
    s->groups[s->group_count++] = *group;
    return PAWL_OK;
}

static int by_from(const void *a, const void *b) {
    return strcmp(((const suggest_move *)a)->from, ((const suggest_move *)b)->from);
}

static int by_to(const void *a, const void *b) {
    const suggest_move *const *left = a;
    const suggest_move *const *right = b;
    return strcmp((*left)->to, (*right)->to);
}

pawl_status suggest_settle_moves(suggester *s, pawl_error *err) {
    size_t kept = 0;
    for (size_t i = 0; i < s->move_count; i++) {
        if (!s->groups[s->moves[i].group].bad) {
            s->moves[kept++] = s->moves[i];
        }
    }
    s->move_count = kept;
    s->settled = kept;
    if (kept > 1) {
        qsort(s->moves, kept, sizeof(*s->moves), by_from);
    }
    mem_free(s->arrivals);
    s->arrivals = mem_calloc(kept, sizeof(const suggest_move *));
    if (s->arrivals == NULL) {
        return error_nomem(err, kept * sizeof(const suggest_move *));
    }
    for (size_t i = 0; i < kept; i++) {
        s->arrivals[i] = &s->moves[i];
    }
    if (kept > 1) {
        qsort(s->arrivals, kept, sizeof(const suggest_move *), by_to);
    }
    return PAWL_OK;
}

const suggest_move *suggest_moved(const suggester *s, const char *from) {
    const suggest_move key = {.from = from};
    return s->settled == 0 ? NULL : bsearch(&key, s->moves, s->settled, sizeof(*s->moves), by_from);
}

const suggest_move *suggest_arrives(const suggester *s, const char *to) {
    const suggest_move key = {.to = to};
    const suggest_move *wanted = &key;
    const suggest_move **found = s->settled == 0 ? NULL
                                                 : bsearch(&wanted, s->arrivals, s->settled,
                                                           sizeof(const suggest_move *), by_to);
    return found == NULL ? NULL : *found;
}

/* ---- names of the checkpoint ---------------------------------------------------------------- */

size_t suggest_roll_count(const suggester *s, suggest_roll roll) {
    switch (roll) {
    case ROLL_PAIRS:
        return s->m->match->pair_count;
    case ROLL_UNFIT:
        return s->m->unfit_count;
    case ROLL_ELSEWHERE:
        return s->m->elsewhere.count;
    default:
        return s->m->checkpoint.count;
    }
}

const char *suggest_roll_name(const suggester *s, suggest_roll roll, size_t i) {
    switch (roll) {
    case ROLL_PAIRS:
        return s->m->match->pairs[i].source->name;
    case ROLL_UNFIT:
        return s->m->unfit[i].record.name;
    case ROLL_ELSEWHERE:
        return s->m->elsewhere.entries[i].name;
    default:
        return s->m->checkpoint.entries[i].name;
    }
}

int suggest_compare_prefix(const char *name, span from, bool below) {
    int order = strncmp(name, from.text, from.length);
    unsigned char next = order == 0 ? (unsigned char)name[from.length] : 0;
    unsigned char wanted = below ? '/' : '\0';
    return order != 0 ? order : (next > wanted) - (next < wanted);
}

size_t suggest_seek(const suggester *s, suggest_roll roll, span from, bool below) {
    size_t low = 0;
    size_t high = from.length == 0 ? 0 : suggest_roll_count(s, roll);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (suggest_compare_prefix(suggest_roll_name(s, roll, middle), from, below) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const char *suggest_under(const suggester *s, suggest_roll roll, size_t i, span from, bool below) {
    if (i >= suggest_roll_count(s, roll)) {
        return NULL;
    }
    const char *name = suggest_roll_name(s, roll, i);
    if (from.length == 0) {
        return below ? name : NULL;
    }
    return suggest_compare_prefix(name, from, below) == 0 ? name : NULL;
}
