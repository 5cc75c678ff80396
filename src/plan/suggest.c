/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rename suggestions (R05). Two entries without a partner, of one shape and dtype, whose names end
 * in the same components, suggest that what stands before them was renamed. Each entry of the
 * checkpoint looks at a few entries of the state whose names are near in either direction, so the
 * work stays bounded; the rules that come up most often are then counted exactly.
 */
#include "plan/matcher.h"
#include "plan/rename.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SUGGESTIONS 8
#define MAX_RULES       256 /* that are counted exactly */
#define NEIGHBOURS      8   /* on each side, in each order */
#define MAX_COMPONENTS  16  /* of a common ending that are tried */
#define MIN_LIKENESS    0.5 /* of two whole names, where nothing else speaks for a rule */

typedef struct rule {
    span from, to;
    const loose_entry *source, *target; /* the pair that brought it up */
    size_t count;                       /* votes at first, then the entries it pairs */
    double likeness;
} rule;

typedef struct suggester {
    matcher *m;
    const loose_entry **forward;  /* the state's, by type, then name */
    const loose_entry **backward; /* by type, then name read from its end */
    bool *source_used, *target_used;
    rule *rules;
    size_t rule_count, rule_capacity;
    buffer name;
} suggester;

/* ---- orders --------------------------------------------------------------------------------- */

static int compare_numbers(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int compare_types(const loose_entry *a, const loose_entry *b) {
    int order = compare_numbers(a->kind, b->kind);
    order = order != 0 ? order : compare_numbers(a->dtype, b->dtype);
    order = order != 0 ? order : compare_numbers(a->ndim, b->ndim);
    for (int d = 0; d < a->ndim && order == 0; d++) {
        order = compare_numbers(a->shape[d], b->shape[d]);
    }
    return order != 0 ? order : strcmp(a->slot, b->slot);
}

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

static int by_type_and_name(const void *a, const void *b) {
    const loose_entry *const *left = a;
    const loose_entry *const *right = b;
    int order = compare_types(*left, *right);
    return order != 0 ? order : strcmp((*left)->name, (*right)->name);
}

static int by_type_and_ending(const void *a, const void *b) {
    const loose_entry *const *left = a;
    const loose_entry *const *right = b;
    int order = compare_types(*left, *right);
    return order != 0 ? order : compare_backward((*left)->name, (*right)->name);
}

static int compare_spans(span a, span b) {
    size_t shorter = a.length < b.length ? a.length : b.length;
    int order = shorter == 0 ? 0 : memcmp(a.text, b.text, shorter);
    return order != 0 ? order : (a.length > b.length) - (a.length < b.length);
}

static int by_rule(const void *a, const void *b) {
    const rule *left = a;
    const rule *right = b;
    int order = compare_spans(left->from, right->from);
    return order != 0 ? order : compare_spans(left->to, right->to);
}

/* The better rule first: it pairs more entries, is likelier, is shorter. */
static int by_worth(const void *a, const void *b) {
    const rule *left = a;
    const rule *right = b;
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

/* Bytes that both names have in common at their ends. */
static size_t common_ending(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    size_t n = 0;
    while (n < a_bytes && n < b_bytes && a[a_bytes - n - 1] == b[b_bytes - n - 1]) {
        n++;
    }
    return n;
}

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
    size_t same = common_beginning(a, b) + common_ending(a, a_bytes, b, b_bytes);
    return (double)(same < longer ? same : longer) / (double)longer;
}

/* Does the name without its last `ending` bytes end before a '/', or is nothing left of it? */
static bool cuts_component(const char *name, size_t bytes, size_t ending) {
    return ending == bytes || name[bytes - ending - 1] == '/';
}

static span before_ending(const char *name, size_t bytes, size_t ending) {
    size_t left = bytes - ending;
    return (span){.text = name, .length = left > 0 ? left - 1 : 0};
}

/* Order of a name against `from`, or with `below` against `from`/. */
static int compare_to_prefix(const char *name, span from, bool below) {
    int order = strncmp(name, from.text, from.length);
    unsigned char next = order == 0 ? (unsigned char)name[from.length] : 0;
    unsigned char wanted = below ? '/' : '\0';
    return order != 0 ? order : (next > wanted) - (next < wanted);
}

/* Does the rule fit the first pair not before `from`, or with `below` the first not before
 * `from`/? */
static bool fits_pair(const plan_match *match, span from, bool below) {
    size_t low = 0;
    size_t high = match->pair_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_to_prefix(match->pairs[middle].source->name, from, below) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < match->pair_count && rename_fits(from, match->pairs[low].source->name);
}

/* Pairs ascend by their names in the checkpoint: would the rule take one away from its partner? */
static bool breaks_pair(const plan_match *match, span from) {
    return fits_pair(match, from, false) || fits_pair(match, from, true);
}

static pawl_status add_rule(suggester *s, span from, span to, const loose_entry *source,
                            const loose_entry *target, pawl_error *err) {
    TRY(vec_reserve(&s->rules, &s->rule_capacity, s->rule_count + 1, sizeof(*s->rules), err));
    s->rules[s->rule_count++] = (rule){.from = from,
                                       .to = to,
                                       .source = source,
                                       .target = target,
                                       .count = 1,
                                       .likeness = rough_likeness(source->name, target->name)};
    return PAWL_OK;
}

/* The rule with the longest common ending that breaks no pair; the whole name at last. */
static pawl_status consider(suggester *s, const loose_entry *source, const loose_entry *target,
                            pawl_error *err) {
    const char *a = source->name;
    const char *b = target->name;
    size_t a_bytes = strlen(a);
    size_t b_bytes = strlen(b);
    size_t ending = common_ending(a, a_bytes, b, b_bytes);
    for (int tried = 0; ending > 0 && tried < MAX_COMPONENTS; ending--) {
        if (!cuts_component(a, a_bytes, ending) || !cuts_component(b, b_bytes, ending)) {
            continue;
        }
        span from = before_ending(a, a_bytes, ending);
        if (!breaks_pair(s->m->match, from)) {
            return add_rule(s, from, before_ending(b, b_bytes, ending), source, target, err);
        }
        tried++;
    }
    if (breaks_pair(s->m->match, span_of(a))) {
        return PAWL_OK;
    }
    return add_rule(s, span_of(a), span_of(b), source, target, err);
}

typedef int (*pointer_order)(const void *a, const void *b);

static pawl_status consider_near(suggester *s, const loose_entry **sorted, pointer_order order,
                                 const loose_entry *source, pawl_error *err) {
    size_t count = s->m->state.count;
    size_t low = 0;
    size_t high = count;
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
        if (compare_types(sorted[i], source) == 0) {
            TRY(consider(s, source, sorted[i], err));
        }
    }
    return PAWL_OK;
}

/* Equal rules become one, with their number; the most frequent ones stay. */
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
        s->rules[i].likeness = text_likeness(s->rules[i].source->name, s->rules[i].target->name);
    }
}

static pawl_status find_rules(suggester *s, pawl_error *err) {
    for (size_t i = 0; i < s->m->checkpoint.count; i++) {
        const loose_entry *source = &s->m->checkpoint.entries[i];
        TRY(consider_near(s, s->backward, by_type_and_ending, source, err));
        TRY(consider_near(s, s->forward, by_type_and_name, source, err));
    }
    gather_rules(s);
    return PAWL_OK;
}

/* ---- what a rule would pair ----------------------------------------------------------------- */

/* The state's loose entry of that name, or its number when there is none. */
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

/* Counts the unused entries that the rule pairs; with `take` they are used from then on. */
static pawl_status apply_rule(suggester *s, rule *r, bool take, pawl_error *err) {
    r->count = 0;
    for (size_t i = 0; i < s->m->checkpoint.count; i++) {
        const loose_entry *source = &s->m->checkpoint.entries[i];
        if (s->source_used[i] || !rename_fits(r->from, source->name)) {
            continue;
        }
        pawl_status status = rename_by(r->from, r->to, source->name, &s->name, err);
        if (status == PAWL_EUSAGE) {
            continue; /* a name too long: then it pairs nothing */
        }
        TRY(status);
        size_t target = find_target(s, (const char *)s->name.data);
        if (target < s->m->state.count && !s->target_used[target] &&
            compare_types(source, &s->m->state.entries[target]) == 0) {
            r->count++;
            s->source_used[i] = s->source_used[i] || take;
            s->target_used[target] = s->target_used[target] || take;
        }
    }
    return PAWL_OK;
}

static bool convinces(const rule *r) {
    return r->count >= 2 || (r->count == 1 && r->likeness >= MIN_LIKENESS);
}

static pawl_status report_rule(suggester *s, const rule *r, pawl_error *err) {
    char from[PAWL_MAX_NAME_BYTES + 1];
    char to[PAWL_MAX_NAME_BYTES + 1];
    memcpy(from, r->from.text, r->from.length);
    from[r->from.length] = '\0';
    memcpy(to, r->to.text, r->to.length);
    to[r->to.length] = '\0';
    pawl_report_item item = {.difference = PAWL_DIFF_RENAMED,
                             .severity = PAWL_SEVERITY_NOTE,
                             .name = from,
                             .other_name = to,
                             .dimension = -1,
                             .count = r->count};
    bool or_more =
        s->m->checkpoint.count == MATCHER_MAX_LOOSE || s->m->state.count == MATCHER_MAX_LOOSE;
    const pawl_rename rename = {.from = from, .to = to};
    const sentence_facts facts = {.or_more = or_more, .renames = &rename, .rename_count = 1};
    return report_add_facts(s->m->report, &item, &facts, err);
}

/* Takes the best rule, then the best of those that the rest leaves, and so on. */
static pawl_status choose_rules(suggester *s, pawl_error *err) {
    for (int i = 0; i < MAX_SUGGESTIONS; i++) {
        rule *best = NULL;
        for (size_t k = 0; k < s->rule_count; k++) {
            rule *r = &s->rules[k];
            TRY(apply_rule(s, r, false, err));
            if (convinces(r) && (best == NULL || by_worth(r, best) < 0)) {
                best = r;
            }
        }
        if (best == NULL) {
            return PAWL_OK;
        }
        TRY(apply_rule(s, best, true, err));
        TRY(report_rule(s, best, err));
    }
    return PAWL_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static void suggester_free(suggester *s) {
    mem_free(s->forward);
    mem_free(s->backward);
    mem_free(s->source_used);
    mem_free(s->target_used);
    mem_free(s->rules);
    buffer_free(&s->name);
}

static pawl_status start(suggester *s, pawl_error *err) {
    size_t sources = s->m->checkpoint.count;
    size_t targets = s->m->state.count;
    s->forward = mem_calloc(targets, sizeof(const loose_entry *));
    s->backward = mem_calloc(targets, sizeof(const loose_entry *));
    s->source_used = mem_calloc(sources, sizeof(bool));
    s->target_used = mem_calloc(targets, sizeof(bool));
    if (s->forward == NULL || s->backward == NULL || s->source_used == NULL ||
        s->target_used == NULL) {
        return error_nomem(err, targets * sizeof(const loose_entry *));
    }
    for (size_t i = 0; i < targets; i++) {
        s->forward[i] = &s->m->state.entries[i];
        s->backward[i] = &s->m->state.entries[i];
    }
    qsort(s->forward, targets, sizeof(const loose_entry *), by_type_and_name);
    qsort(s->backward, targets, sizeof(const loose_entry *), by_type_and_ending);
    return PAWL_OK;
}

pawl_status matcher_suggest(matcher *m, pawl_error *err) {
    if (m->checkpoint.count == 0 || m->state.count == 0) {
        return PAWL_OK;
    }
    CLEANUP(suggester_free)
    suggester s = {.m = m};
    TRY(start(&s, err));
    TRY(find_rules(&s, err));
    return choose_rules(&s, err);
}
