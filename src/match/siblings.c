/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds siblings that were renumbered: entries whose names differ in numbers alone. A trainer that
 * builds its model a second time in one process, or with one more layer in front, gives them other
 * numbers. Which is which then shows in the entries that share a number with them, or in all of
 * them having moved by the same number.
 */
#include "match/suggest.h"

#include <stdlib.h>
#include <string.h>

/* ---- by the same number --------------------------------------------------------------------- */

static int by_class_and_numbers(const void *a, const void *b) {
    const suggest_member *left = a;
    const suggest_member *right = b;
    if (left->class != right->class) {
        return left->class < right->class ? -1 : 1;
    }
    int order = numbers_compare(&left->numbers, &right->numbers);
    return order != 0 ? order : strcmp(left->name, right->name);
}

/* By how much the number `i` of two names differs. */
static int64_t distance(const suggest_member *a, const suggest_member *b, int i) {
    return (int64_t)b->numbers.value[i] - (int64_t)a->numbers.value[i];
}

static bool same_distance(const suggest_member *a, const suggest_member *b,
                          const suggest_member *first_a, const suggest_member *first_b) {
    if (a->numbers.count != b->numbers.count || a->numbers.count != first_a->numbers.count) {
        return false;
    }
    for (int i = 0; i < a->numbers.count; i++) {
        if (distance(a, b, i) != distance(first_a, first_b, i)) {
            return false;
        }
    }
    return true;
}

/* Are all numbers distinct, and did all move by the same? */
static bool moved_together(const suggest_member *saved, const suggest_member *wanted, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool distinct = i == 0 || (numbers_compare(&saved[i - 1].numbers, &saved[i].numbers) < 0 &&
                                   numbers_compare(&wanted[i - 1].numbers, &wanted[i].numbers) < 0);
        if (!distinct || !same_distance(&saved[i], &wanted[i], saved, wanted)) {
            return false;
        }
    }
    return true;
}

/* ---- groups --------------------------------------------------------------------------------- */

static bool same_span(span a, span b) {
    return a.length == b.length && memcmp(a.text, b.text, a.length) == 0;
}

static pawl_status find_group(suggester *s, span head, int64_t by, size_t *out, pawl_error *err) {
    for (size_t i = 0; i < s->group_count; i++) {
        if (same_span(s->groups[i].head, head)) {
            s->groups[i].bad = s->groups[i].bad || s->groups[i].by != by;
            *out = i;
            return PAWL_OK;
        }
    }
    *out = s->group_count;
    return suggest_add_group(s, &(suggest_group){.head = head, .by = by}, err);
}

static pawl_status add_moves(suggester *s, const suggest_member *saved,
                             const suggest_member *wanted, size_t n, pawl_error *err) {
    suggest_class *c = &s->classes[saved->class];
    int first = numbers_first_difference(&saved->numbers, &wanted->numbers);
    if (first < 0) {
        return PAWL_OK;
    }
    for (size_t i = 0; i < n; i++) {
        span head = {.text = saved[i].name, .length = saved[i].numbers.begin[first]};
        suggest_move move = {.from = saved[i].name,
                             .to = wanted[i].name,
                             .class = saved->class,
                             .casts = saved[i].dtype != wanted[i].dtype,
                             .fitted = !saved[i].homeless};
        if (s->group_count >= SUGGEST_MAX_GROUPS) {
            c->unresolved = true;
            return PAWL_OK;
        }
        TRY(find_group(s, head, distance(&saved[i], &wanted[i], first), &move.group, err));
        suggest_group *g = &s->groups[move.group];
        g->sure = g->sure || c->fitting == 0;
        g->takes = g->takes || move.fitted;
        TRY(suggest_add_move(s, &move, err));
    }
    return PAWL_OK;
}

static size_t end_of_class(const suggest_members *members, size_t from) {
    size_t end = from;
    while (end < members->count && members->items[end].class == members->items[from].class) {
        end++;
    }
    return end;
}

/* Marks groups bad that a sibling of an unresolved class may belong to: they prove nothing then. */
static void doubt_groups(suggester *s) {
    for (size_t i = 0; i < s->saved.count; i++) {
        const suggest_member *member = &s->saved.items[i];
        for (size_t k = 0; s->classes[member->class].unresolved && k < s->group_count; k++) {
            span head = s->groups[k].head;
            bool within = strncmp(member->name, head.text, head.length) == 0;
            const char *rest = within ? member->name + head.length : "a";
            rest += rest[0] == '_' ? 1 : 0;
            if (rest[0] == '\0' || rest[0] == '/' || (rest[0] >= '0' && rest[0] <= '9')) {
                s->groups[k].bad = true;
            }
        }
    }
}

pawl_status suggest_siblings(suggester *s, pawl_error *err) {
    if (!s->siblings || s->saved.count == 0 || s->wanted.count == 0) {
        return suggest_settle_moves(s, err);
    }
    qsort(s->saved.items, s->saved.count, sizeof(*s->saved.items), by_class_and_numbers);
    qsort(s->wanted.items, s->wanted.count, sizeof(*s->wanted.items), by_class_and_numbers);
    size_t k = 0;
    for (size_t i = 0; i < s->saved.count && k < s->wanted.count;) {
        size_t saved_end = end_of_class(&s->saved, i);
        size_t wanted_end = end_of_class(&s->wanted, k);
        suggest_class *c = &s->classes[s->saved.items[i].class];
        if (c->elsewhere == 0 && saved_end - i == wanted_end - k &&
            moved_together(&s->saved.items[i], &s->wanted.items[k], saved_end - i)) {
            TRY(add_moves(s, &s->saved.items[i], &s->wanted.items[k], saved_end - i, err));
        } else {
            c->unresolved = true;
        }
        i = saved_end;
        k = wanted_end;
    }
    doubt_groups(s);
    return suggest_settle_moves(s, err);
}

/* ---- contradictions ------------------------------------------------------------------------- */

/* Is the move's new name taken: by an entry that has a partner and keeps it? */
static bool is_occupied(const suggester *s, const suggest_move *move) {
    size_t place = 0;
    if (state_snapshot_find(s->m->wanted, move->to, &place) == NULL) {
        return true;
    }
    const char *partner = matcher_partner_name(s->m, place);
    return partner != NULL && suggest_moved(s, partner) == NULL;
}

/* A unit: all entries whose names are the same up to one number. What is checked of a move is the
 * same for all moves of a unit, and these follow each other, so each unit is checked once. */
typedef struct checked_unit {
    const char *name;
    size_t length;
    bool given;
} checked_unit;

/* Does some entry of the move's unit stay? All of a unit must move together. */
static bool leaves_behind(const suggester *s, const suggest_move *move, const numbers *n, int at) {
    span unit = {.text = move->from, .length = n->end[at]};
    for (int roll = ROLL_PAIRS; roll <= ROLL_ELSEWHERE; roll++) {
        size_t i = suggest_seek(s, (suggest_roll)roll, unit, false);
        for (; i < suggest_roll_count(s, (suggest_roll)roll); i++) {
            const char *name = suggest_roll_name(s, (suggest_roll)roll, i);
            if (strncmp(name, unit.text, unit.length) != 0) {
                break;
            }
            if (numbers_in_unit(name, move->from, n, at) && suggest_moved(s, name) == NULL) {
                return true;
            }
        }
    }
    return false;
}

/* Does some entry of the unit that it moves to keep a partner by name? The two units must not
 * mix. */
static bool meets_others(const suggester *s, const suggest_move *move, const numbers *n, int at) {
    const state_snapshot *wanted = s->m->wanted;
    size_t low = 0;
    size_t high = wanted->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strncmp(wanted->entries[middle]->name, move->to, n->end[at]) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < wanted->count; low++) {
        const char *name = wanted->entries[low]->name;
        if (strncmp(name, move->to, n->end[at]) != 0) {
            break;
        }
        if (s->m->partner[low] != 0 && numbers_in_unit(name, move->to, n, at) &&
            suggest_arrives(s, name) == NULL) {
            return true;
        }
    }
    return false;
}

/* Is it the unit that was checked last? */
static bool is_checked(const checked_unit *unit, const char *name, const numbers *n, int at) {
    return unit->name != NULL && unit->length == n->end[at] && unit->given == n->given[at] &&
           memcmp(unit->name, name, unit->length) == 0;
}

static checked_unit unit_of(const char *name, const numbers *n, int at) {
    return (checked_unit){.name = name, .length = n->end[at], .given = n->given[at]};
}

static bool contradicts(const suggester *s, const suggest_move *move, checked_unit *left,
                        checked_unit *met) {
    char from_mask[PAWL_MAX_NAME_BYTES + 1];
    char to_mask[PAWL_MAX_NAME_BYTES + 1];
    numbers from;
    numbers to;
    if (is_occupied(s, move)) {
        return true;
    }
    numbers_read(move->from, from_mask, &from);
    numbers_read(move->to, to_mask, &to);
    int at = numbers_first_difference(&from, &to);
    if (at < 0 || strcmp(from_mask, to_mask) != 0) {
        return false; /* a slot whose name changed in more than numbers */
    }
    if (!is_checked(left, move->from, &from, at)) {
        if (leaves_behind(s, move, &from, at)) {
            return true;
        }
        *left = unit_of(move->from, &from, at);
    }
    if (!is_checked(met, move->to, &to, at)) {
        if (meets_others(s, move, &to, at)) {
            return true;
        }
        *met = unit_of(move->to, &to, at);
    }
    return false;
}

void suggest_mark_bad(suggester *s, size_t group) {
    s->groups[group].bad = true;
    for (size_t i = 0; i < s->move_count; i++) {
        if (s->moves[i].group == group && s->moves[i].class != SUGGEST_NONE) {
            s->classes[s->moves[i].class].unresolved = true;
        }
    }
}

pawl_status suggest_drop_group(suggester *s, size_t group, pawl_error *err) {
    suggest_mark_bad(s, group);
    return suggest_settle_moves(s, err);
}

pawl_status suggest_check(suggester *s, pawl_error *err) {
    for (bool again = true; again;) {
        checked_unit left = {0};
        checked_unit met = {0};
        again = false;
        for (size_t i = 0; i < s->move_count; i++) {
            const suggest_group *g = &s->groups[s->moves[i].group];
            if (!g->bad && (g->head.text != NULL ? contradicts(s, &s->moves[i], &left, &met)
                                                 : is_occupied(s, &s->moves[i]))) {
                suggest_mark_bad(s, s->moves[i].group);
                again = true;
            }
        }
        TRY(suggest_settle_moves(s, err));
    }
    return PAWL_OK;
}

void suggest_claim(suggester *s) {
    for (size_t i = 0; i < s->move_count; i++) {
        suggest_class *c =
            s->moves[i].class == SUGGEST_NONE ? NULL : &s->classes[s->moves[i].class];
        if (c != NULL && !s->moves[i].fitted) {
            c->saved -= c->saved > 0 ? 1 : 0;
            c->wanted -= c->wanted > 0 ? 1 : 0;
        }
    }
}

/* ---- a warning ------------------------------------------------------------------------------ */

/* The first of a class that has no partner and no move. */
static const suggest_member *first_homeless(const suggester *s, const suggest_members *of,
                                            size_t class) {
    size_t low = 0;
    size_t high = of->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (of->items[middle].class < class) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < of->count && of->items[low].class == class; low++) {
        const suggest_member *member = &of->items[low];
        if (member->homeless && (of == &s->saved ? suggest_moved(s, member->name) == NULL
                                                 : suggest_arrives(s, member->name) == NULL)) {
            return member;
        }
    }
    return NULL;
}

static span head_of(const suggest_member *saved, const suggest_member *wanted) {
    int at = numbers_first_difference(&saved->numbers, &wanted->numbers);
    return (span){.text = saved->name,
                  .length = at < 0 ? strlen(saved->name) : saved->numbers.begin[at]};
}

pawl_status suggest_warn(suggester *s, size_t *reported, pawl_error *err) {
    span heads[SUGGEST_MAX];
    size_t warned = 0;
    for (size_t i = 0; s->siblings && i < s->class_count && *reported < SUGGEST_MAX; i++) {
        const suggest_class *c = &s->classes[i];
        if (!c->unresolved || c->fitting + c->elsewhere == 0) {
            continue;
        }
        const suggest_member *saved = first_homeless(s, &s->saved, i);
        const suggest_member *wanted = first_homeless(s, &s->wanted, i);
        bool known = saved == NULL || wanted == NULL;
        span head = {.text = NULL};
        if (!known) {
            head = head_of(saved, wanted);
        }
        for (size_t k = 0; k < warned && !known; k++) {
            known = same_span(heads[k], head);
        }
        if (known) {
            continue;
        }
        pawl_report_item item = {.difference = PAWL_DIFF_RENAMED,
                                 .severity = PAWL_SEVERITY_WARNING,
                                 .name = saved->name,
                                 .other_name = wanted->name,
                                 .dimension = -1,
                                 .count = 1};
        heads[warned++] = head;
        ++*reported;
        TRY(report_add(s->m->report, &item, err));
    }
    return PAWL_OK;
}
