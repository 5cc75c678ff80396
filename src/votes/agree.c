/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that all votes are of the same save (S12, J04). The heads carry checksums of what must be
 * alike; where these differ, the structures that the ranks left and the votes' own records say in
 * what.
 */
#include "votes/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sides ---------------------------------------------------------------------------------- */

/* What a rank has, as two numbers. */
typedef struct holding {
    uint64_t first, second;
    int rank;
} holding;

static int compare_holdings(const void *a, const void *b) {
    const holding *x = a;
    const holding *y = b;
    if (x->first != y->first) {
        return x->first < y->first ? -1 : 1;
    }
    if (x->second != y->second) {
        return x->second < y->second ? -1 : 1;
    }
    return x->rank - y->rank;
}

static bool same_holding(const holding *a, const holding *b) {
    return a->first == b->first && a->second == b->second;
}

/* The most frequent one; among equals the one with the lowest rank. `held` is sorted. */
static const holding *most_frequent(const holding *held, int n) {
    int most = 0;
    const holding *best = held;
    for (int i = 0; i < n;) {
        int end = i + 1;
        while (end < n && same_holding(&held[end], &held[i])) {
            end++;
        }
        if (end - i > most || (end - i == most && held[i].rank < best->rank)) {
            most = end - i;
            best = &held[i];
        }
        i = end;
    }
    return best;
}

static const holding *lowest_other(const holding *held, int n, const holding *than) {
    const holding *lowest = NULL;
    for (int i = 0; i < n; i++) {
        if (!same_holding(&held[i], than) && (lowest == NULL || held[i].rank < lowest->rank)) {
            lowest = &held[i];
        }
    }
    return lowest;
}

static void name_side(const holding *held, int n, const holding *like, unsigned char *chosen,
                      char text[160]) {
    memset(chosen, 0, (size_t)n);
    for (int i = 0; i < n; i++) {
        chosen[held[i].rank] = same_holding(&held[i], like);
    }
    group_ranks_text(text, 160, chosen, n);
}

/* Sorts `held`. False where all ranks have the same. */
static pawl_status find_sides(holding *held, int n, vote_sides *out, bool *differ,
                              pawl_error *err) {
    qsort(held, (size_t)n, sizeof *held, compare_holdings);
    *differ = !same_holding(&held[0], &held[n - 1]);
    if (!*differ) {
        return PAWL_OK;
    }
    AUTOFREE unsigned char *chosen = mem_alloc((size_t)n);
    if (chosen == NULL) {
        return error_nomem(err, (size_t)n);
    }
    const holding *many = most_frequent(held, n);
    const holding *few = lowest_other(held, n, many);
    out->many = many->rank;
    out->few = few->rank;
    name_side(held, n, many, chosen, out->many_text);
    name_side(held, n, few, chosen, out->few_text);
    return PAWL_OK;
}

typedef struct agreeing {
    job_ranks *ranks;
    const votes *v;
    const char *directory;
    holding *held;
} agreeing;

/* ---- step and world size -------------------------------------------------------------------- */

static pawl_status other_step(const agreeing *a, const vote_sides *sides, pawl_error *err) {
    const vote *heads = a->v->heads;
    error_set(err, PAWL_EMISMATCH, "the ranks do not save the same step");
    error_expected(err, "step %" PRId64 ", as on %s", heads[sides->many].step, sides->many_text);
    error_found(err, "step %" PRId64 " on %s", heads[sides->few].step, sides->few_text);
    error_next(err, "call pawl_save for the same steps on all ranks, in the same order");
    return PAWL_EMISMATCH;
}

static pawl_status other_world_size(const agreeing *a, const vote_sides *sides, pawl_error *err) {
    const vote *heads = a->v->heads;
    error_set(err, PAWL_EMISMATCH, "the ranks do not agree how many they are");
    error_expected(err, "%d ranks, as on %s", heads[sides->many].world_size, sides->many_text);
    error_found(err, "%d on %s", heads[sides->few].world_size, sides->few_text);
    error_next(err, "give all ranks the same pawl_group.world_size");
    return PAWL_EMISMATCH;
}

/* ---- shared values -------------------------------------------------------------------------- */

/* The shared values of one rank. */
typedef struct value_walk {
    vote_table table;
    table_cursor *at;
    const uint8_t *key, *record;
    size_t key_bytes, record_bytes;
} value_walk;

static void walk_end(value_walk *w) {
    table_cursor_free(w->at);
    vote_table_close(&w->table);
}

static void walk_look(value_walk *w) {
    w->key = NULL;
    if (table_valid(w->at)) {
        table_item(w->at, &w->key, &w->key_bytes, &w->record, &w->record_bytes);
        w->key = w->key[0] == 'w' ? w->key : NULL;
    }
}

static pawl_status walk_begin(value_walk *w, const agreeing *a, int rank, pawl_error *err) {
    TRY(vote_table_open(&w->table, a->ranks->store, &a->v->own, a->directory, a->v->heads[0].tag,
                        rank, err));
    pawl_status status = table_cursor_new(w->table.table, &w->at, err);
    if (status == PAWL_OK) {
        status = table_seek(w->at, "w", 1, err);
    }
    if (status != PAWL_OK) {
        return vote_table_failed(&w->table, status, err);
    }
    walk_look(w);
    return PAWL_OK;
}

static pawl_status walk_next(value_walk *w, pawl_error *err) {
    pawl_status status = table_next(w->at, err);
    if (status != PAWL_OK) {
        return vote_table_failed(&w->table, status, err);
    }
    walk_look(w);
    return PAWL_OK;
}

static pawl_status add_value_mismatch(const value_walk *many, const value_walk *few,
                                      const vote_sides *sides, mismatches *m, pawl_error *err) {
    vote_value a, b;
    char a_text[160];
    char b_text[160];
    char name[PAWL_MAX_NAME_BYTES + 1];
    TRY(vote_value_decode(many->record, many->record_bytes, &a, err));
    TRY(vote_value_decode(few->record, few->record_bytes, &b, err));
    vote_value_text(a_text, &a);
    vote_value_text(b_text, &b);
    TRY(vote_key_name(many->key, many->key_bytes, name, err));
    const char *next = "give all ranks the same value, or let each have its own with "
                       "pawl_state_set_rank_bytes";
    if (strcmp(a_text, b_text) != 0) {
        mismatches_add(m, name, next, "%s on %s; %s on %s", a_text, sides->many_text, b_text,
                       sides->few_text);
    } else { /* they differ behind what is shown */
        mismatches_add(m, name, next,
                       "%s with CRC32C %08" PRIx32 " on %s; %s with CRC32C %08" PRIx32 " on %s",
                       a_text, a.crc32c, sides->many_text, b_text, b.crc32c, sides->few_text);
    }
    return PAWL_OK;
}

/* Structures agree, so the names are the same. */
static pawl_status compare_shared_values(value_walk *many, value_walk *few, const vote_sides *sides,
                                         mismatches *m, pawl_error *err) {
    while (many->key != NULL && few->key != NULL) {
        if (many->key_bytes != few->key_bytes ||
            memcmp(many->key, few->key, many->key_bytes) != 0) {
            return error_set(err, PAWL_EDAMAGED, "the votes of %s and %s list different values",
                             sides->many_text, sides->few_text);
        }
        if (many->record_bytes != few->record_bytes ||
            memcmp(many->record, few->record, many->record_bytes) != 0) {
            TRY(add_value_mismatch(many, few, sides, m, err));
        }
        TRY(walk_next(many, err));
        TRY(walk_next(few, err));
    }
    return PAWL_OK;
}

static pawl_status other_values(const agreeing *a, const vote_sides *sides, pawl_error *err) {
    CLEANUP(walk_end) value_walk many = {.at = NULL};
    CLEANUP(walk_end) value_walk few = {.at = NULL};
    mismatches m = {.count = 0};
    TRY(walk_begin(&many, a, sides->many, err));
    TRY(walk_begin(&few, a, sides->few, err));
    TRY(compare_shared_values(&many, &few, sides, &m, err));
    TRY(mismatches_end(&m, "the ranks do not have the same values",
                       "one value on all ranks for what is not per rank", err));
    return error_set(err, PAWL_EDAMAGED,
                     "the votes of %s and %s say that their values differ, but they do not",
                     sides->many_text, sides->few_text);
}

/* ---- all ------------------------------------------------------------------------------------ */

static pawl_status other_structure(const agreeing *a, const vote_sides *sides, pawl_error *err) {
    return structure_explain(a->ranks, a->v, a->directory, sides, err);
}

static holding step_of(const vote *head) {
    return (holding){.first = (uint64_t)head->step, .rank = head->rank};
}

static holding world_size_of(const vote *head) {
    return (holding){.first = (uint64_t)head->world_size, .rank = head->rank};
}

static holding structure_of(const vote *head) {
    return (holding){
        .first = head->structure_bytes, .second = head->structure_crc32c, .rank = head->rank};
}

static holding values_of(const vote *head) {
    return (holding){.first = head->values_crc32c, .rank = head->rank};
}

/* What the ranks must have alike, each only to be asked where those before it are. */
static const struct {
    holding (*of)(const vote *head);
    pawl_status (*explain)(const agreeing *a, const vote_sides *sides, pawl_error *err);
} questions[] = {{step_of, other_step},
                 {world_size_of, other_world_size},
                 {structure_of, other_structure},
                 {values_of, other_values}};

static pawl_status compare_heads(const agreeing *a, pawl_error *err) {
    vote_sides sides;
    bool differ;
    int n = a->ranks->world_size;
    for (size_t i = 0; i < ARRAY_LENGTH(questions); i++) {
        for (int r = 0; r < n; r++) {
            a->held[r] = questions[i].of(&a->v->heads[r]);
        }
        TRY(find_sides(a->held, n, &sides, &differ, err));
        if (differ) {
            return questions[i].explain(a, &sides, err);
        }
    }
    return PAWL_OK;
}

/* Votes are found by their tag and in the step's directory: here they could only lie. */
static pawl_status check_save(const votes *v, int64_t step, const char *tag, pawl_error *err) {
    const vote *own = &v->heads[0];
    if (own->step == step && strcmp(own->tag, tag) == 0) {
        return PAWL_OK;
    }
    return error_set(err, PAWL_EINTERNAL, "the votes are not of save %s of step %" PRId64, tag,
                     step);
}

pawl_status votes_agree(job_ranks *ranks, const votes *v, int64_t step, const char *tag,
                        pawl_error *err) {
    char directory[32];
    name_step(directory, step);
    TRY(check_save(v, step, tag, err));
    AUTOFREE holding *held = mem_calloc((size_t)ranks->world_size, sizeof *held);
    if (held == NULL) {
        return error_nomem(err, (size_t)ranks->world_size * sizeof *held);
    }
    const agreeing a = {.ranks = ranks, .v = v, .directory = directory, .held = held};
    pawl_status status = compare_heads(&a, err);
    if (status != PAWL_OK) {
        error_step(err, step);
    }
    return status;
}
