/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suggest: the search for rename rules that would pair entries without a partner (R05).
 *
 * It finds moves. A move is a pair of names: of an entry of the checkpoint, and of the entry of the
 * state that is the same thing under a new name. Moves come in groups that are reported or dropped
 * together, each as one difference of the report:
 *
 *   kin.c       classes of entries that are alike, and the moves
 *   siblings.c  entries whose names differ in numbers alone, renumbered
 *   follow.c    slots move with their variables
 *   prefixes.c  prefixes that changed
 *   rules.c     rename rules that make all moves of a group and nothing else
 *   doubts.c    drops moves of entries whose names are closer to another candidate
 *   suggest.c   calls these in the order of the strongest evidence, and reports
 *
 * A suggestion that could be wrong is not made. Entries that are alike (of one type, and of one
 * name without its numbers) could be mistaken for each other: they are paired only when all of them
 * move by the same number, and where some match by their names already, that is a warning and no
 * suggestion. Homeless entries have no partner, or a namesake of another shape only.
 */
#ifndef MATCH_SUGGEST_H
#define MATCH_SUGGEST_H

#include "match/matcher.h"
#include "match/numbers.h"
#include "match/rename.h"

#define SUGGEST_NONE        SIZE_MAX
#define SUGGEST_MAX_MEMBERS 65536 /* alike entries that are looked at */
#define SUGGEST_MAX_GROUPS  64
#define SUGGEST_MAX         8 /* differences that are reported */

/* Entries that are alike, of which some are homeless. No slots. */
typedef struct suggest_class {
    uint64_t hash;
    const char *mask;
    const loose_entry *like;
    size_t saved, wanted; /* homeless, and not paired yet */
    size_t fitting;       /* that have a partner by their name */
    size_t elsewhere;     /* that other ranks have, or a given rename rule moved */
    bool unresolved;      /* homeless on both sides, and it is not clear which is which */
} suggest_class;

/* An entry of a class that has homeless ones on both sides. */
typedef struct suggest_member {
    size_t class;
    const char *name;
    pawl_dtype dtype;
    bool homeless;
    numbers numbers;
} suggest_member;

typedef struct suggest_members {
    suggest_member *items;
    size_t count, capacity;
} suggest_members;

typedef struct suggest_move {
    const char *from, *to; /* names */
    size_t group;
    size_t class; /* NONE: a slot */
    bool casts;   /* the dtypes differ */
    bool fitted;  /* it had a partner by its name */
    bool made;    /* a rule makes it */
} suggest_move;

typedef struct suggest_group {
    span head;  /* siblings: their names up to the number that changed */
    int64_t by; /* siblings: by how much */
    bool bad;   /* it contradicts itself, or other entries */
    bool sure;  /* siblings: some are of a class in which no entry matches by its name */
    bool takes; /* some match by their names, and would lose these partners */
    size_t count;
} suggest_group;

/* A roll: a list of names of the checkpoint, ascending. */
typedef enum suggest_roll {
    ROLL_PAIRS = 0,
    ROLL_UNFIT,
    ROLL_ELSEWHERE,
    ROLL_LOOSE,
    ROLL_COUNT
} suggest_roll;

typedef struct suggest_rule {
    span from, to;
    const loose_entry *source, *target; /* the pair that brought it up */
    size_t count; /* at first how often it was found, then the entries it pairs */
    double likeness;
    bool dead;
} suggest_rule;

typedef struct suggester {
    matcher *m;
    bool siblings; /* no list was cut, so that all siblings are known */
    suggest_class *classes;
    size_t class_count, class_capacity;
    size_t *source_class, *target_class; /* per loose entry */
    suggest_members saved, wanted;
    suggest_move *moves;           /* ascending by `from`, but for those added last */
    const suggest_move **arrivals; /* ascending by `to` */
    size_t settled;                /* of the moves, those that are sorted */
    size_t move_count, move_capacity;
    suggest_group *groups;
    size_t group_count, group_capacity;
    const state_entry **slots; /* of the state, by variable and slot */
    size_t slot_count;
    const loose_entry **forward;  /* the state's, by type, then name */
    const loose_entry **backward; /* by type, then name read from its end */
    bool *source_used, *target_used;
    size_t *image; /* per loose entry of the checkpoint: what a rule makes of it, or NONE */
    suggest_rule *rules;
    size_t rule_count, rule_capacity;
    buffer name;
    arena memory;
} suggester;

/* ---- kin.c: classes, moves and rolls -------------------------------------------------------- */

/* Order of types: kind, dtype unless it can be cast, shape, slot. */
int suggest_compare_types(const loose_entry *a, const loose_entry *b);
/* Was it renamed by a given rule? Then no other applies: only the first rule that fits does. */
bool suggest_has_rule(const suggester *s, const unfit_entry *unfit);
pawl_status suggest_find_classes(suggester *s, pawl_error *err) PAWL_MUST_CHECK;
pawl_status suggest_add_move(suggester *s, const suggest_move *move, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status suggest_add_group(suggester *s, const suggest_group *group, pawl_error *err)
    PAWL_MUST_CHECK;
/* Sorts the moves, and drops those of bad groups. */
pawl_status suggest_settle_moves(suggester *s, pawl_error *err) PAWL_MUST_CHECK;
const suggest_move *suggest_moved(const suggester *s, const char *from);
const suggest_move *suggest_arrives(const suggester *s, const char *to);
size_t suggest_roll_count(const suggester *s, suggest_roll roll);
const char *suggest_roll_name(const suggester *s, suggest_roll roll, size_t i);
/* Order of a name against `from`, or with `below` against `from`/. */
int suggest_compare_prefix(const char *name, span from, bool below);
/* The first name of a roll not before `from`, or with `below` not before `from`/. */
size_t suggest_seek(const suggester *s, suggest_roll roll, span from, bool below);
/* The name at `i` in the roll if it is `from`, or with `below` begins with `from`/; else NULL. */
const char *suggest_under(const suggester *s, suggest_roll roll, size_t i, span from, bool below);

/* ---- siblings.c ----------------------------------------------------------------------------- */

pawl_status suggest_siblings(suggester *s, pawl_error *err) PAWL_MUST_CHECK;
/* Drops the group, and marks its classes unresolved. */
pawl_status suggest_drop_group(suggester *s, size_t group, pawl_error *err) PAWL_MUST_CHECK;
/* The same, but its moves are dropped by the next suggest_settle_moves. */
void suggest_mark_bad(suggester *s, size_t group);
/* Drops groups that contradict other entries. */
pawl_status suggest_check(suggester *s, pawl_error *err) PAWL_MUST_CHECK;
/* Entries that moved are not homeless any more. */
void suggest_claim(suggester *s);
/* Warns of siblings that match by name, where others like them have no partner. */
pawl_status suggest_warn(suggester *s, size_t *reported, pawl_error *err) PAWL_MUST_CHECK;

/* ---- follow.c ------------------------------------------------------------------------------- */

/* Moves slots with their variables; with `renamed` also slots that were renamed while their
 * variables stayed. */
pawl_status suggest_follow(suggester *s, bool renamed, pawl_error *err) PAWL_MUST_CHECK;

/* ---- prefixes.c ----------------------------------------------------------------------------- */

pawl_status suggest_prefixes(suggester *s, pawl_error *err) PAWL_MUST_CHECK;
/* For qsort of pointers to loose entries; the second reads names from their ends. */
int suggest_by_type_and_name(const void *a, const void *b);
int suggest_by_type_and_ending(const void *a, const void *b);

/* ---- doubts.c ------------------------------------------------------------------------------- */

/* Drops groups in which an entry's name is closer to another candidate than to its partner. */
pawl_status suggest_doubt(suggester *s, pawl_error *err) PAWL_MUST_CHECK;

/* ---- rules.c -------------------------------------------------------------------------------- */

/* Bytes that both names have in common at their ends. */
size_t suggest_common_ending(const char *a, size_t a_bytes, const char *b, size_t b_bytes);
/* The longest ending of both names, `*ending` bytes at most, that begins at a component of each;
 * from, to: what is before it. False when there is none. */
bool suggest_cut(const char *a, const char *b, size_t *ending, span *from, span *to);
/* The rules of a group, their texts in the suggester's memory; *count is 0 when no rules do. */
pawl_status suggest_rules_of(suggester *s, size_t group, pawl_rename **out, size_t *count,
                             pawl_error *err) PAWL_MUST_CHECK;

#endif
