/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drops moves that names leave in doubt: an entry shares more of its name with another candidate
 * than with its partner. It may share the beginning with one and the end with another, both of its
 * type, and could be either: one part of a model may take over words that another gave up.
 */
#include "match/suggest.h"

#include <stdlib.h>
#include <string.h>

/* One side's entries without a partner, in two orders. */
typedef struct loose_side {
    const loose_list *list;
    const loose_entry **forward, **backward; /* by type, then name; name read from its end */
} loose_side;

typedef int (*entry_order)(const void *a, const void *b);
typedef size_t (*sameness)(const char *a, const char *b);

static void loose_side_free(loose_side *s) {
    mem_free(s->forward);
    mem_free(s->backward);
}

static pawl_status loose_side_make(const loose_list *list, loose_side *out, pawl_error *err) {
    size_t bytes = list->count * sizeof(const loose_entry *);
    out->list = list;
    out->forward = mem_calloc(list->count, sizeof(const loose_entry *));
    out->backward = mem_calloc(list->count, sizeof(const loose_entry *));
    if (out->forward == NULL || out->backward == NULL) {
        return error_nomem(err, bytes);
    }
    for (size_t i = 0; i < list->count; i++) {
        out->forward[i] = out->backward[i] = &list->entries[i];
    }
    qsort(out->forward, list->count, sizeof(const loose_entry *), suggest_by_type_and_name);
    qsort(out->backward, list->count, sizeof(const loose_entry *), suggest_by_type_and_ending);
    return PAWL_OK;
}

/* Bytes of the components that both names begin with. */
static size_t same_beginning(const char *a, const char *b) {
    size_t whole = 0;
    for (size_t n = 0; a[n] != '\0' && a[n] == b[n]; n++) {
        whole = a[n] == '/' ? n + 1 : whole;
    }
    return whole;
}

/* Bytes of the components that both names end with. */
static size_t same_ending(const char *a, const char *b) {
    size_t n = suggest_common_ending(a, strlen(a), b, strlen(b));
    span from, to;
    return suggest_cut(a, b, &n, &from, &to) ? n : 0;
}

/* In a sorted list, the names that share most with a name are next to its place. */
static bool has_closer(const loose_side *s, const loose_entry **sorted, entry_order order,
                       sameness same, const loose_entry *entry, size_t than) {
    size_t low = 0;
    size_t high = s->list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (order(&sorted[middle], &entry) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (size_t i = low > 0 ? low - 1 : 0; i < s->list->count && i <= low; i++) {
        if (suggest_compare_types(sorted[i], entry) == 0 &&
            same(sorted[i]->name, entry->name) > than) {
            return true;
        }
    }
    return false;
}

static bool prefers_another(const loose_side *others, const loose_entry *entry,
                            const loose_entry *partner) {
    return has_closer(others, others->forward, suggest_by_type_and_name, same_beginning, entry,
                      same_beginning(entry->name, partner->name)) ||
           has_closer(others, others->backward, suggest_by_type_and_ending, same_ending, entry,
                      same_ending(entry->name, partner->name));
}

static int compare_loose_name(const void *name, const void *entry) {
    return strcmp(name, ((const loose_entry *)entry)->name);
}

static const loose_entry *find_loose(const loose_side *s, const char *name) {
    return bsearch(name, s->list->entries, s->list->count, sizeof(loose_entry), compare_loose_name);
}

/* Only moves between entries without partners: siblings.c judges those that match by name. */
static bool is_doubtful_move(const loose_side *saved, const loose_side *wanted,
                             const suggest_move *move) {
    const loose_entry *from = find_loose(saved, move->from);
    const loose_entry *to = find_loose(wanted, move->to);
    return move->class != SUGGEST_NONE && from != NULL && to != NULL &&
           (prefers_another(wanted, from, to) || prefers_another(saved, to, from));
}

pawl_status suggest_doubt(suggester *s, pawl_error *err) {
    CLEANUP(loose_side_free) loose_side saved = {.list = NULL};
    CLEANUP(loose_side_free) loose_side wanted = {.list = NULL};
    TRY(loose_side_make(&s->m->checkpoint, &saved, err));
    TRY(loose_side_make(&s->m->state, &wanted, err));
    for (size_t i = 0; i < s->move_count; i++) {
        size_t group = s->moves[i].group;
        if (!s->groups[group].bad && is_doubtful_move(&saved, &wanted, &s->moves[i])) {
            suggest_mark_bad(s, group);
        }
    }
    return suggest_settle_moves(s, err);
}
