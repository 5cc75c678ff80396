/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds rename rules for prefixes that changed. Two entries without a partner, of one shape, whose
 * names end in the same components, suggest that the part before these was renamed. Each entry of
 * the checkpoint is compared with only a few entries of the state, its neighbours in the order of
 * names and in that of names read backwards, so the work stays bounded; the rules found most often
 * are then counted exactly. A rule is dropped if another one contradicts it and pairs as many
 * entries, and if it leaves over entries like those that it pairs.
 */
#include "match/suggest.h"

#include <stdlib.h>
#include <string.h>

#define MAX_RULES      256 /* that are counted exactly */
#define NEIGHBOURS     8   /* on each side, in each order */
#define MAX_RIVALS     64  /* of one entry that are counted exactly */
#define LEFT_BESIDE    4   /* entries that a rule pairs for each that it leaves on both sides */
#define MAX_COMPONENTS 16  /* of a common ending that are tried */
#define MIN_LIKENESS   0.5 /* of the two names, for a rule that pairs one entry only */

/* ---- orders --------------------------------------------------------------------------------- */

static int compare_backward(const char *a, const char *b) {
    size_t left = strlen(a);
    size_t right = strlen(b);
    while (left > 0 && right > 0) {
        unsigned char x = (unsigned char)a[--left];
        unsigned char y = (unsigned char)b[--right];
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return (left > 0) - (right > 0);
}

int suggest_by_type_and_name(const void *a, const void *b) {
    const loose_entry *const *left = a;
    const loose_entry *const *right = b;
    int order = suggest_compare_types(*left, *right);
    return order != 0 ? order : strcmp((*left)->name, (*right)->name);
}

int suggest_by_type_and_ending(const void *a, const void *b) {
    const loose_entry *const *left = a;
    const loose_entry *const *right = b;
    int order = suggest_compare_types(*left, *right);
    return order != 0 ? order : compare_backward((*left)->name, (*right)->name);
}

static int compare_spans(span a, span b) {
    size_t shorter = a.length < b.length ? a.length : b.length;
    int order = shorter == 0 ? 0 : memcmp(a.text, b.text, shorter);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int by_rule(const void *a, const void *b) {
    const suggest_rule *left = a;
    const suggest_rule *right = b;
    int order = compare_spans(left->from, right->from);
    return order != 0 ? order : compare_spans(left->to, right->to);
}

/* The better rule first: it pairs more entries, is likelier, is shorter. */
static int by_worth(const void *a, const void *b) {
    const suggest_rule *left = a;
    const suggest_rule *right = b;
    if (left->count != right->count) {
        return left->count > right->count ? -1 : 1;
    }
    if (left->likeness != right->likeness) {
        return left->likeness > right->likeness ? -1 : 1;
    }
    if (left->from.length != right->from.length) {
        return left->from.length < right->from.length ? -1 : 1;
    }
    return by_rule(a, b);
}

/* ---- rules from pairs ----------------------------------------------------------------------- */

static size_t common_beginning(const char *a, const char *b) {
    size_t n = 0;
    while (a[n] != '\0' && a[n] == b[n]) {
        n++;
    }
    return n;
}

/* A cheap stand-in for text_likeness, where there are many pairs. */
static double rough_likeness(const char *a, const char *b) {
    size_t a_bytes = strlen(a);
    size_t b_bytes = strlen(b);
    size_t longer = a_bytes > b_bytes ? a_bytes : b_bytes;
    size_t same = common_beginning(a, b) + suggest_common_ending(a, a_bytes, b, b_bytes);
    return (double)(same < longer ? same : longer) / (double)longer;
}

/* Would the rule also rename an entry that has a partner? */
static bool breaks_pair(const suggester *s, span from) {
    for (int roll = ROLL_PAIRS; roll <= ROLL_ELSEWHERE; roll++) {
        for (int below = 0; below < 2; below++) {
            size_t i = suggest_seek(s, (suggest_roll)roll, from, below == 1);
            if (suggest_under(s, (suggest_roll)roll, i, from, below == 1) != NULL) {
                return true;
            }
        }
    }
    return false;
}

static pawl_status add_rule(suggester *s, span from, span to, const loose_entry *source,
                            const loose_entry *target, pawl_error *err) {
    TRY(vec_reserve(&s->rules, &s->rule_capacity, s->rule_count + 1, sizeof(*s->rules), err));
    s->rules[s->rule_count++] =
        (suggest_rule){.from = from,
                       .to = to,
                       .source = source,
                       .target = target,
                       .count = 1,
                       .likeness = rough_likeness(source->name, target->name)};
    return PAWL_OK;
}

/* The rule with the longest common ending that breaks no pair; the whole name is tried last. */
static bool rule_of(const suggester *s, const loose_entry *source, const loose_entry *target,
                    span *from, span *to) {
    const char *a = source->name;
    const char *b = target->name;
    size_t ending = suggest_common_ending(a, strlen(a), b, strlen(b));
    for (int tried = 0; tried < MAX_COMPONENTS; tried++, ending--) {
        if (!suggest_cut(a, b, &ending, from, to)) {
            break;
        }
        if (!breaks_pair(s, *from)) {
            return true;
        }
    }
    *from = span_of(a);
    *to = span_of(b);
    return !breaks_pair(s, *from);
}

typedef int (*pointer_order)(const void *a, const void *b);

static pawl_status consider_near(suggester *s, const loose_entry **sorted, pointer_order order,
                                 const loose_entry *source, pawl_error *err) {
    size_t count = s->m->state.count;
    size_t low = 0;
    size_t high = count;
    span from;
    span to;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (order(&sorted[middle], &source) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    size_t begin = low > NEIGHBOURS ? low - NEIGHBOURS : 0;
    size_t end = count - low > NEIGHBOURS ? low + NEIGHBOURS : count;
    for (size_t i = begin; i < end; i++) {
        if (suggest_compare_types(sorted[i], source) == 0 &&
            rule_of(s, source, sorted[i], &from, &to)) {
            TRY(add_rule(s, from, to, source, sorted[i], err));
        }
    }
    return PAWL_OK;
}

/* Joins equal rules and counts them; keeps the best MAX_RULES. */
static void gather_rules(suggester *s) {
    size_t distinct = 0;
    if (s->rule_count > 1) {
        qsort(s->rules, s->rule_count, sizeof(*s->rules), by_rule);
    }
    for (size_t i = 0; i < s->rule_count; i++) {
        if (distinct > 0 && by_rule(&s->rules[distinct - 1], &s->rules[i]) == 0) {
            s->rules[distinct - 1].count++;
        } else {
            s->rules[distinct++] = s->rules[i];
        }
    }
    if (distinct > 1) {
        qsort(s->rules, distinct, sizeof(*s->rules), by_worth);
    }
    s->rule_count = distinct < MAX_RULES ? distinct : MAX_RULES;
    for (size_t i = 0; i < s->rule_count; i++) {
        suggest_rule *r = &s->rules[i];
        r->likeness = text_likeness(r->source->name, r->target->name);
    }
}

static pawl_status find_rules(suggester *s, pawl_error *err) {
    for (size_t i = 0; i < s->m->checkpoint.count; i++) {
        if (!s->source_used[i]) {
            const loose_entry *source = &s->m->checkpoint.entries[i];
            TRY(consider_near(s, s->backward, suggest_by_type_and_ending, source, err));
            TRY(consider_near(s, s->forward, suggest_by_type_and_name, source, err));
        }
    }
    gather_rules(s);
    return PAWL_OK;
}

/* ---- what a rule pairs ---------------------------------------------------------------------- */

/* The place of the state's loose entry of that name, or their count when there is none. */
static size_t find_target(const suggester *s, const char *name) {
    const loose_list *list = &s->m->state;
    size_t low = 0;
    size_t high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(list->entries[middle].name, name);
        if (order == 0) {
            return middle;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return list->count;
}

/* The source's image: the unused target that the rule pairs it with, or NONE. */
static pawl_status image_of(suggester *s, span from, span to, size_t source, size_t *out,
                            pawl_error *err) {
    const loose_entry *e = &s->m->checkpoint.entries[source];
    *out = SUGGEST_NONE;
    if (s->source_used[source] || !rename_fits(from, e->name)) {
        return PAWL_OK;
    }
    pawl_status status = rename_by(from, to, e->name, &s->name, err);
    if (rename_is_invalid(status)) {
        return PAWL_OK; /* then it pairs nothing */
    }
    TRY(status);
    size_t target = find_target(s, (const char *)s->name.data);
    if (target < s->m->state.count && !s->target_used[target] &&
        suggest_compare_types(e, &s->m->state.entries[target]) == 0) {
        *out = target;
    }
    return PAWL_OK;
}

/* [*begin, *end) are all sources whose names begin with `from`: it fits no others. */
static void sources_of(const suggester *s, span from, size_t *begin, size_t *end) {
    *begin = suggest_seek(s, ROLL_LOOSE, from, false);
    *end = *begin;
    while (*end < s->m->checkpoint.count &&
           strncmp(s->m->checkpoint.entries[*end].name, from.text, from.length) == 0) {
        ++*end;
    }
}

/* How many entries a rule pairs; no more than `enough` are counted. */
static pawl_status count_pairs(suggester *s, span from, span to, size_t enough, size_t *count,
                               pawl_error *err) {
    size_t i = 0;
    size_t end = 0;
    *count = 0;
    for (sources_of(s, from, &i, &end); i < end && *count < enough; i++) {
        size_t target = SUGGEST_NONE;
        TRY(image_of(s, from, to, i, &target, err));
        *count += target != SUGGEST_NONE;
    }
    return PAWL_OK;
}

static pawl_status find_image(suggester *s, const suggest_rule *r, pawl_error *err) {
    for (size_t i = 0; i < s->m->checkpoint.count; i++) {
        TRY(image_of(s, r->from, r->to, i, &s->image[i], err));
    }
    return PAWL_OK;
}

/* ---- doubts --------------------------------------------------------------------------------- */

/* Does the rule pair a source or a target of s->image with another partner? */
static pawl_status disagrees(suggester *s, const suggest_rule *r, const bool *targets, bool *out,
                             pawl_error *err) {
    size_t i = 0;
    size_t end = 0;
    *out = false;
    for (sources_of(s, r->from, &i, &end); i < end && !*out; i++) {
        size_t target = SUGGEST_NONE;
        TRY(image_of(s, r->from, r->to, i, &target, err));
        *out = target != SUGGEST_NONE && target != s->image[i] &&
               (s->image[i] != SUGGEST_NONE || targets[target]);
    }
    return PAWL_OK;
}

/* Does another rule pair as many entries, and one of them with another partner? */
static pawl_status has_equal(suggester *s, const suggest_rule *r, bool *out, pawl_error *err) {
    AUTOFREE bool *targets = mem_calloc(s->m->state.count, sizeof(bool));
    *out = false;
    if (targets == NULL) {
        return error_nomem(err, s->m->state.count);
    }
    for (size_t i = 0; i < s->m->checkpoint.count; i++) {
        if (s->image[i] != SUGGEST_NONE) {
            targets[s->image[i]] = true;
        }
    }
    for (size_t k = 0; k < s->rule_count && !*out; k++) {
        const suggest_rule *other = &s->rules[k];
        if (other != r && other->count >= r->count) {
            TRY(disagrees(s, other, targets, out, err));
        }
    }
    return PAWL_OK;
}

/* Does the rule that pairs `source` with `target` pair `enough` entries? `budget`: how many rules
 * may still be counted; when it is used up, the answer is yes. */
static pawl_status is_rival(suggester *s, const loose_entry *source, const loose_entry *target,
                            size_t enough, int *budget, bool *out, pawl_error *err) {
    span from;
    span to;
    size_t begin = 0;
    size_t end = 0;
    size_t count = 0;
    if (!rule_of(s, source, target, &from, &to)) {
        return PAWL_OK;
    }
    sources_of(s, from, &begin, &end);
    if (end - begin < enough) {
        return PAWL_OK; /* it cannot pair as many */
    }
    *out = --*budget < 0;
    TRY(count_pairs(s, from, to, enough, &count, err));
    *out = *out || count >= enough;
    return PAWL_OK;
}

/* Entries whose namesake has another shape have no partner either: could one of them go with the
 * source, or with the target? */
static bool has_unfit_rival(const matcher *m, const loose_entry *source,
                            const loose_entry *target) {
    for (size_t i = 0; i < m->unfit_count; i++) {
        const unfit_entry *unfit = &m->unfit[i];
        const state_entry *e = m->wanted->entries[unfit->place];
        const loose_entry wanted = {.slot = e->slot == NULL ? "" : e->slot,
                                    .kind = e->kind,
                                    .dtype = e->dtype,
                                    .ndim = e->ndim,
                                    .shape = e->shape};
        if (unfit->other_shape && (suggest_compare_types(&unfit->record, target) == 0 ||
                                   suggest_compare_types(&wanted, source) == 0)) {
            return true;
        }
    }
    return false;
}

/* Takes one pair of the rule: could its source or its target go with another entry, by a rule that
 * pairs as many? That finds rules which the neighbours did not show. */
static pawl_status has_rival(suggester *s, const suggest_rule *r, bool *out, pawl_error *err) {
    const matcher *m = s->m;
    int budget = MAX_RIVALS;
    size_t first = 0;
    *out = false;
    while (s->image[first] == SUGGEST_NONE) {
        first++;
    }
    const loose_entry *source = &m->checkpoint.entries[first];
    const loose_entry *target = &m->state.entries[s->image[first]];
    *out = r->count == 1 && has_unfit_rival(m, source, target);
    for (size_t i = 0; i < m->state.count && !*out; i++) {
        const loose_entry *other = &m->state.entries[i];
        if (other != target && !s->target_used[i] && suggest_compare_types(source, other) == 0) {
            TRY(is_rival(s, source, other, r->count, &budget, out, err));
            *out = *out || r->count == 1;
        }
    }
    for (size_t i = 0; i < m->checkpoint.count && !*out; i++) {
        const loose_entry *other = &m->checkpoint.entries[i];
        if (other != source && !s->source_used[i] && suggest_compare_types(other, target) == 0) {
            TRY(is_rival(s, other, target, r->count, &budget, out, err));
            *out = *out || r->count == 1;
        }
    }
    return PAWL_OK;
}

/* Do others of the class match by name? Then an entry could be one of these, too. */
static bool has_fitting(const suggest_class *c) {
    return c->fitting > 0 || c->elsewhere > 0;
}

static bool has_numbers_behind(const numbers *n, size_t at) {
    for (int i = 0; i < n->count; i++) {
        if (n->given[i] && n->end[i] > at) {
            return true;
        }
    }
    return false;
}

/* Do both names have the same numbers? With `fixed`: are all numbers in the beginning that both
 * names share, so that they number the same thing? */
static bool keeps_numbers(const char *from, const char *to, bool fixed) {
    char mask[PAWL_MAX_NAME_BYTES + 1];
    numbers a;
    numbers b;
    size_t same = common_beginning(from, to);
    while (same > 0 && from[same - 1] != '/') {
        same--;
    }
    numbers_read(from, mask, &a);
    numbers_read(to, mask, &b);
    return fixed ? !has_numbers_behind(&a, same) && !has_numbers_behind(&b, same)
                 : numbers_same_given(&a, &b);
}

static bool tells_apart(const suggester *s, size_t source, size_t target) {
    const suggest_class *a = &s->classes[s->source_class[source]];
    const suggest_class *b = &s->classes[s->target_class[target]];
    bool alone = a->saved == 1 && b->wanted == 1;
    bool fixed = has_fitting(a) || has_fitting(b);
    return (alone && !fixed) || keeps_numbers(s->m->checkpoint.entries[source].name,
                                              s->m->state.entries[target].name, fixed);
}

/* Does the rule leave over entries that are like those it pairs, or change their numbers? Then it
 * is not clear which is which. left_saved, left_wanted: room for a count of each class. */
static bool leaves_siblings(suggester *s, size_t *left_saved, size_t *left_wanted) {
    const matcher *m = s->m;
    bool leaves = false;
    for (size_t c = 0; c < s->class_count; c++) {
        left_saved[c] = s->classes[c].saved;
        left_wanted[c] = s->classes[c].wanted;
    }
    for (size_t i = 0; i < m->checkpoint.count; i++) {
        if (s->image[i] != SUGGEST_NONE) {
            left_saved[s->source_class[i]]--;
            left_wanted[s->target_class[s->image[i]]]--;
        }
    }
    for (size_t i = 0; i < m->checkpoint.count && !leaves; i++) {
        if (s->image[i] == SUGGEST_NONE) {
            continue;
        }
        size_t source = s->source_class[i];
        size_t target = s->target_class[s->image[i]];
        leaves =
            left_saved[source] > 0 || left_wanted[target] > 0 || !tells_apart(s, i, s->image[i]);
    }
    return leaves;
}

/* If a prefix was renamed, all under the old one moved, or all under the new one came from it. If
 * entries are left over under both, the rule mixes up two other ones, unless they are few beside
 * those that it pairs: a part that was renamed may have lost one entry and got another. */
static bool crosses(const suggester *s, const suggest_rule *r) {
    const matcher *m = s->m;
    size_t sources = 0;
    size_t targets = 0;
    for (size_t i = 0; i < m->checkpoint.count; i++) {
        sources += !s->source_used[i] && rename_fits(r->from, m->checkpoint.entries[i].name);
    }
    for (size_t i = 0; i < m->state.count; i++) {
        targets += !s->target_used[i] && rename_fits(r->to, m->state.entries[i].name);
    }
    size_t left = sources < targets ? sources - r->count : targets - r->count;
    return left * LEFT_BESIDE > r->count;
}

/* Whole components that two names have in common at their ends. */
static int common_components(const char *a, const char *b) {
    size_t a_bytes = strlen(a);
    size_t b_bytes = strlen(b);
    size_t ending = suggest_common_ending(a, a_bytes, b, b_bytes);
    int components = 0;
    for (size_t i = 1; i <= ending; i++) {
        bool begins = (i == a_bytes || a[a_bytes - i - 1] == '/') &&
                      (i == b_bytes || b[b_bytes - i - 1] == '/');
        components += begins;
    }
    return components;
}

/* Is there an entry without a partner whose name shares more components at its end with the source,
 * or with the target, than these two share? */
static bool has_better(const suggester *s, size_t source, size_t target) {
    const suggest_class *from = &s->classes[s->source_class[source]];
    const suggest_class *to = &s->classes[s->target_class[target]];
    int same = common_components(from->mask, to->mask);
    for (size_t i = 0; i < s->class_count; i++) {
        const suggest_class *c = &s->classes[i];
        bool for_source =
            c->wanted > 0 && c != to && suggest_compare_types(c->like, from->like) == 0;
        bool for_target =
            c->saved > 0 && c != from && suggest_compare_types(c->like, to->like) == 0;
        if ((for_source && common_components(c->mask, from->mask) > same) ||
            (for_target && common_components(c->mask, to->mask) > same)) {
            return true;
        }
    }
    return false;
}

/* Asks has_better for one entry of each class. */
static bool any_has_better(const suggester *s) {
    size_t last = SUGGEST_NONE;
    int looked = 0;
    for (size_t i = 0; i < s->m->checkpoint.count && looked < MAX_RIVALS; i++) {
        if (s->image[i] != SUGGEST_NONE && s->source_class[i] != last) {
            last = s->source_class[i];
            looked++;
            if (has_better(s, i, s->image[i])) {
                return true;
            }
        }
    }
    return false;
}

static pawl_status is_doubtful_rule(suggester *s, const suggest_rule *r, bool *out,
                                    pawl_error *err) {
    AUTOFREE size_t *left = mem_calloc(2 * s->class_count, sizeof(*left));
    if (left == NULL) {
        return error_nomem(err, 2 * s->class_count * sizeof(*left));
    }
    TRY(find_image(s, r, err));
    *out = crosses(s, r) || leaves_siblings(s, left, left + s->class_count) || any_has_better(s);
    if (!*out) {
        TRY(has_equal(s, r, out, err));
    }
    if (!*out) {
        TRY(has_rival(s, r, out, err));
    }
    return PAWL_OK;
}

/* ---- choice --------------------------------------------------------------------------------- */

static bool convinces(const suggest_rule *r) {
    return r->count >= 2 || (r->count == 1 && r->likeness >= MIN_LIKENESS);
}

static pawl_status add_rule_moves(suggester *s, pawl_error *err) {
    const matcher *m = s->m;
    size_t group = s->group_count;
    TRY(suggest_add_group(s, &(suggest_group){0}, err));
    for (size_t i = 0; i < m->checkpoint.count; i++) {
        if (s->image[i] == SUGGEST_NONE) {
            continue;
        }
        const loose_entry *source = &m->checkpoint.entries[i];
        const loose_entry *target = &m->state.entries[s->image[i]];
        const suggest_move move = {.from = source->name,
                                   .to = target->name,
                                   .group = group,
                                   .class = s->source_class[i],
                                   .casts = source->dtype != target->dtype};
        s->source_used[i] = true;
        s->target_used[s->image[i]] = true;
        s->classes[s->source_class[i]].saved--;
        s->classes[s->target_class[s->image[i]]].wanted--;
        TRY(suggest_add_move(s, &move, err));
    }
    return PAWL_OK;
}

static pawl_status count_all(suggester *s, pawl_error *err) {
    for (size_t i = 0; i < s->rule_count; i++) {
        suggest_rule *r = &s->rules[i];
        TRY(count_pairs(s, r->from, r->to, SIZE_MAX, &r->count, err));
    }
    return PAWL_OK;
}

static suggest_rule *best_of(const suggester *s) {
    suggest_rule *best = NULL;
    for (size_t i = 0; i < s->rule_count; i++) {
        suggest_rule *r = &s->rules[i];
        if (!r->dead && convinces(r) && (best == NULL || by_worth(r, best) < 0)) {
            best = r;
        }
    }
    return best;
}

/* Takes the best rule, then the best one for what is left, and so on. */
static pawl_status choose_rules(suggester *s, pawl_error *err) {
    suggest_rule *best = NULL;
    size_t taken = 0;
    TRY(count_all(s, err));
    while (taken < SUGGEST_MAX && (best = best_of(s)) != NULL) {
        bool doubtful = false;
        TRY(is_doubtful_rule(s, best, &doubtful, err));
        best->dead = true;
        if (!doubtful) {
            TRY(add_rule_moves(s, err));
            TRY(count_all(s, err));
            taken++;
        }
    }
    return PAWL_OK;
}

/* Slots and what moved already take no part. */
static pawl_status allocate_prefixes(suggester *s, pawl_error *err) {
    const matcher *m = s->m;
    size_t targets = m->state.count;
    s->forward = mem_calloc(targets, sizeof(const loose_entry *));
    s->backward = mem_calloc(targets, sizeof(const loose_entry *));
    s->image = mem_calloc(m->checkpoint.count, sizeof(size_t));
    if (s->forward == NULL || s->backward == NULL || s->image == NULL) {
        return error_nomem(err, targets * sizeof(const loose_entry *));
    }
    for (size_t i = 0; i < m->checkpoint.count; i++) {
        const loose_entry *e = &m->checkpoint.entries[i];
        s->source_used[i] = e->slot[0] != '\0' || suggest_moved(s, e->name) != NULL;
    }
    for (size_t i = 0; i < targets; i++) {
        const loose_entry *e = &m->state.entries[i];
        s->target_used[i] = e->slot[0] != '\0' || suggest_arrives(s, e->name) != NULL;
        s->forward[i] = e;
        s->backward[i] = e;
    }
    qsort(s->forward, targets, sizeof(const loose_entry *), suggest_by_type_and_name);
    qsort(s->backward, targets, sizeof(const loose_entry *), suggest_by_type_and_ending);
    return PAWL_OK;
}

pawl_status suggest_prefixes(suggester *s, pawl_error *err) {
    TRY(allocate_prefixes(s, err));
    TRY(find_rules(s, err));
    TRY(choose_rules(s, err));
    return suggest_settle_moves(s, err);
}
