/* SPDX-License-Identifier: Apache-2.0 */
/* Finds rename rules that make all moves of a group, few of them, and rename nothing else. */
#include "match/suggest.h"

#include <string.h>

#define MAX_COMPONENTS 16 /* of a common ending that are tried */

size_t suggest_common_ending(const char *a, size_t a_bytes, const char *b, size_t b_bytes) {
    size_t n = 0;
    while (n < a_bytes && n < b_bytes && a[a_bytes - n - 1] == b[b_bytes - n - 1]) {
        n++;
    }
    return n;
}

/* Do the last `ending` bytes of the name begin at a component? */
static bool cuts_component(const char *name, size_t bytes, size_t ending) {
    return ending == bytes || name[bytes - ending - 1] == '/';
}

static span before_ending(const char *name, size_t bytes, size_t ending) {
    size_t left = bytes - ending;
    return (span){.text = name, .length = left > 0 ? left - 1 : 0};
}

bool suggest_cut(const char *a, const char *b, size_t *ending, span *from, span *to) {
    size_t a_bytes = strlen(a);
    size_t b_bytes = strlen(b);
    for (; *ending > 0; --*ending) {
        if (cuts_component(a, a_bytes, *ending) && cuts_component(b, b_bytes, *ending)) {
            *from = before_ending(a, a_bytes, *ending);
            *to = before_ending(b, b_bytes, *ending);
            return true;
        }
    }
    return false;
}

/* Does the rule rename that name of the checkpoint as a move of the group does? Or else, of an
 * entry without a partner, to a name that the state does not have? */
static pawl_status is_right_for(suggester *s, suggest_roll roll, const char *name, span from,
                                span to, size_t group, bool *right, pawl_error *err) {
    const suggest_move *move = suggest_moved(s, name);
    pawl_status status = rename_by(from, to, name, &s->name, err);
    *right = false;
    if (rename_is_invalid(status)) {
        return PAWL_OK;
    }
    TRY(status);
    const char *renamed = (const char *)s->name.data;
    if (move != NULL) {
        *right = move->group == group && strcmp(renamed, move->to) == 0;
    } else {
        *right = roll == ROLL_LOOSE && state_snapshot_find(s->m->wanted, renamed, NULL) == NULL;
    }
    return PAWL_OK;
}

static pawl_status is_right(suggester *s, span from, span to, size_t group, bool *right,
                            pawl_error *err) {
    *right = true;
    for (int roll = 0; roll < ROLL_COUNT && *right; roll++) {
        for (int below = 0; below < 2 && *right; below++) {
            size_t i = suggest_seek(s, (suggest_roll)roll, from, below == 1);
            const char *name = NULL;
            while (*right &&
                   (name = suggest_under(s, (suggest_roll)roll, i++, from, below == 1)) != NULL) {
                TRY(is_right_for(s, (suggest_roll)roll, name, from, to, group, right, err));
            }
        }
    }
    return PAWL_OK;
}

/* The right rule with the shortest prefix; the whole name is tried last. */
static pawl_status find_rule(suggester *s, const suggest_move *move, span *from, span *to,
                             bool *found, pawl_error *err) {
    size_t ending =
        suggest_common_ending(move->from, strlen(move->from), move->to, strlen(move->to));
    for (int tried = 0; tried < MAX_COMPONENTS; tried++, ending--) {
        if (!suggest_cut(move->from, move->to, &ending, from, to)) {
            break;
        }
        TRY(is_right(s, *from, *to, move->group, found, err));
        if (*found) {
            return PAWL_OK;
        }
    }
    *from = span_of(move->from);
    *to = span_of(move->to);
    return is_right(s, *from, *to, move->group, found, err);
}

static char *keep_span(suggester *s, span of, pawl_error *err) {
    char *text = arena_take(&s->memory, of.length + 1, err);
    if (text != NULL) {
        memcpy(text, of.text, of.length);
        text[of.length] = '\0';
    }
    return text;
}

/* Marks the moves that a right rule makes: all that it fits. */
static void mark_made(suggester *s, span from, bool below) {
    size_t low = 0;
    size_t high = from.length == 0 ? 0 : s->move_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (suggest_compare_prefix(s->moves[middle].from, from, below) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < s->move_count && rename_fits(from, s->moves[low].from); low++) {
        s->moves[low].made = true;
    }
}

pawl_status suggest_rules_of(suggester *s, size_t group, pawl_rename **out, size_t *count,
                             pawl_error *err) {
    size_t capacity = 0;
    AUTOFREE pawl_rename *rules = NULL;
    *count = 0;
    for (size_t i = 0; i < s->move_count; i++) {
        const suggest_move *move = &s->moves[i];
        bool found = false;
        span from;
        span to;
        if (move->group != group || move->made) {
            continue;
        }
        TRY(find_rule(s, move, &from, &to, &found, err));
        if (!found) {
            *count = 0;
            return PAWL_OK;
        }
        TRY(vec_reserve(&rules, &capacity, *count + 1, sizeof(*rules), err));
        rules[*count] = (pawl_rename){.from = keep_span(s, from, err), .to = keep_span(s, to, err)};
        if (rules[*count].from == NULL || rules[*count].to == NULL) {
            return PAWL_ENOMEM;
        }
        mark_made(s, from, false);
        mark_made(s, from, true);
        ++*count;
    }
    *out = rules;
    rules = NULL;
    return PAWL_OK;
}
