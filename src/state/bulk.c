/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds or updates many tensors: all of them, or none.
 *
 * Their entries are made and sorted by name before the state is looked at. Where they are many
 * beside those that are there, the tree is built anew of both, which costs less than inserting one
 * after the other; otherwise they are inserted in the order of their names.
 */
#include "state/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One for so many that are there, and more: building anew pays. */
#define BUILD_PART 8u

#define NEAR_LOOKED_AT 400u /* entries before a name and after it */
#define NEAR_LIKENESS  0.6

/* ---- the new entries ------------------------------------------------------------------------ */

/* Of this call, until the state has them. */
typedef struct batch {
    const state_entry **entries;
    size_t count;
} batch;

static void batch_free(batch *b) {
    for (size_t i = 0; i < b->count; i++) {
        entry_let_go(b->entries[i]);
    }
    mem_free(b->entries);
}

static pawl_tensor tensor_at(const state_tensors *tensors, size_t i) {
    pawl_tensor known = {0};
    size_t size = tensors->size < sizeof(known) ? tensors->size : sizeof(known);
    memcpy(&known, (const uint8_t *)tensors->first + i * tensors->size, size);
    known.struct_size = sizeof(known);
    return known;
}

static pawl_status make_entry(batch *b, const pawl_tensor *tensor, const char *attempt,
                              pawl_error *err) {
    TRY(tensor_check(tensor, attempt, err));
    held_entry *e = entry_of_tensor(tensor);
    if (e == NULL) {
        return error_nomem(err, sizeof(*e));
    }
    b->entries[b->count++] = &e->seen;
    return PAWL_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(const state_entry *const *)a)->name, (*(const state_entry *const *)b)->name);
}

static void sort_entries(batch *b) {
    for (size_t i = 1; i < b->count; i++) {
        if (by_name(&b->entries[i - 1], &b->entries[i]) > 0) {
            qsort(b->entries, b->count, sizeof(const state_entry *), by_name);
            return;
        }
    }
}

static pawl_status check_alone(const batch *b, const char *attempt, pawl_error *err) {
    for (size_t i = 1; i < b->count; i++) {
        if (by_name(&b->entries[i - 1], &b->entries[i]) == 0) {
            error_set(err, PAWL_EUSAGE, "%s: the call has two tensors of that name", attempt);
            error_entry(err, b->entries[i]->name);
            error_next(err, "give each tensor a name of its own");
            return PAWL_EUSAGE;
        }
    }
    return PAWL_OK;
}

/* What is found after the entries were sorted names its entry alone; of a name that the call has
 * twice this is the last place. */
static void tell_place(const state_tensors *tensors, pawl_error *err) {
    for (size_t i = tensors->count; i-- > 0;) {
        const pawl_tensor tensor = tensor_at(tensors, i);
        if (strcmp(tensor.name, err->entry) == 0) {
            error_wrap(err, "tensors[%zu]", i);
            return;
        }
    }
}

/* An entry for each tensor, ascending by name. */
static pawl_status batch_make(batch *b, const state_tensors *tensors, const char *attempt,
                              pawl_error *err) {
    b->entries = mem_calloc(tensors->count, sizeof(const state_entry *));
    if (b->entries == NULL) {
        return error_nomem(err, tensors->count * sizeof(const state_entry *));
    }
    for (size_t i = 0; i < tensors->count; i++) {
        const pawl_tensor tensor = tensor_at(tensors, i);
        pawl_status status = make_entry(b, &tensor, attempt, err);
        if (status != PAWL_OK) {
            error_wrap(err, "tensors[%zu]", i);
            return status;
        }
    }
    sort_entries(b);
    pawl_status status = check_alone(b, attempt, err);
    if (status != PAWL_OK) {
        tell_place(tensors, err);
    }
    return status;
}

/* ---- adding --------------------------------------------------------------------------------- */

static pawl_status insert_all(pawl_state *state, const batch *b, pawl_error *err) {
    for (size_t i = 0; i < b->count; i++) {
        const state_entry *there = state_find(state, b->entries[i]->name);
        if (there != NULL) {
            return state_refuse_repeated(there, err);
        }
    }
    for (size_t i = 0; i < b->count; i++) {
        (void)tree_insert(&state->tree, entry_held(b->entries[i]));
    }
    return PAWL_OK;
}

/* `all` has the state's entries behind the room for those of the batch: they move to the front. */
static pawl_status merge(const batch *b, const state_entry **all, size_t there_count,
                         pawl_error *err) {
    const state_entry *const *there = all + b->count;
    const state_entry *const *end = there + there_count;
    size_t taken = 0;
    for (const state_entry **out = all; taken < b->count; out++) {
        int order = there < end ? by_name(there, &b->entries[taken]) : 1;
        if (order == 0) {
            return state_refuse_repeated(*there, err);
        }
        *out = order < 0 ? *there++ : b->entries[taken++];
    }
    return PAWL_OK;
}

static pawl_status build_anew(pawl_state *state, const batch *b, pawl_error *err) {
    size_t count = state->count + b->count;
    AUTOFREE const state_entry **all = mem_calloc(count, sizeof(const state_entry *));
    if (all == NULL) {
        return error_nomem(err, count * sizeof(const state_entry *));
    }
    (void)tree_list(state->tree, all + b->count);
    TRY(merge(b, all, state->count, err));
    state->tree = tree_build(all, count);
    return PAWL_OK;
}

static pawl_status check_room(const pawl_state *state, size_t count, pawl_error *err) {
    if (count <= STATE_MAX_ENTRIES - state->count) {
        return PAWL_OK;
    }
    error_set(err, PAWL_ELIMIT, "cannot add the tensors: the state would have too many entries");
    error_expected(err, "at most %u entries", STATE_MAX_ENTRIES);
    error_found(err, "%zu %s, and %zu %s", state->count,
                text_noun(state->count, "entry", "entries"), count,
                text_noun(count, "tensor", "tensors"));
    return PAWL_ELIMIT;
}

static pawl_status add_all(pawl_state *state, const state_tensors *tensors, batch *b,
                           pawl_error *err) {
    TRY(check_room(state, tensors->count, err));
    TRY(batch_make(b, tensors, "cannot add the tensor", err));
    pawl_status status = b->count >= state->count / BUILD_PART ? build_anew(state, b, err)
                                                               : insert_all(state, b, err);
    if (status != PAWL_OK) {
        tell_place(tensors, err);
        return status;
    }
    state_has_added(state, b->entries, b->count);
    b->count = 0; /* the state has them */
    return PAWL_OK;
}

pawl_status state_add_tensors(pawl_state *state, const state_tensors *tensors, pawl_error *err) {
    CLEANUP(batch_free) batch b = {0};
    pawl_status status = tensors->count > 0 ? add_all(state, tensors, &b, err) : PAWL_OK;
    if (status != PAWL_OK) {
        error_safe(err, "none of the %zu %s was added", tensors->count,
                   text_noun(tensors->count, "tensor", "tensors"));
    }
    return status;
}

/* ---- updating ------------------------------------------------------------------------------- */

static const char update_attempt[] = "cannot update the tensor";

/* The name among so many entries around its place that is spelt most like it; NULL: none is
 * similar. */
static const char *similar_name(const pawl_state *state, const char *name) {
    AUTOFREE const state_entry **all = mem_calloc(state->count, sizeof(const state_entry *));
    const char *best = NULL;
    double likeness = NEAR_LIKENESS;
    size_t count = all != NULL ? tree_list(state->tree, all) : 0;
    size_t place = 0;
    while (place < count && strcmp(all[place]->name, name) < 0) {
        place++;
    }
    for (size_t i = place > NEAR_LOOKED_AT ? place - NEAR_LOOKED_AT : 0;
         i < count && i < place + NEAR_LOOKED_AT; i++) {
        double this_one = text_likeness(name, all[i]->name);
        if (this_one > likeness) {
            likeness = this_one;
            best = all[i]->name;
        }
    }
    return best;
}

static pawl_status nothing_to_update(const pawl_state *state, const char *name, pawl_error *err) {
    const char *similar = similar_name(state, name);
    state_not_found(name, update_attempt, err);
    if (similar != NULL) {
        error_next(err, "did you mean %s?", similar);
    } else {
        error_next(err, "add it with pawl_state_add_tensor");
    }
    return PAWL_ENOTFOUND;
}

/* What an update leaves as it is; otherwise the member that differs. */
static const char *differing_member(const state_entry *a, const state_entry *b) {
    if (a->dtype != b->dtype) {
        return "dtype";
    }
    if (a->ndim != b->ndim ||
        memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof(*a->shape)) != 0) {
        return "shape";
    }
    if (a->role != b->role) {
        return "role";
    }
    if (!text_equal(a->slot_of, b->slot_of)) {
        return "slot_of";
    }
    if (!text_equal(a->slot, b->slot)) {
        return "slot";
    }
    return a->replicated != b->replicated ? "replicated" : NULL;
}

static void describe_tensor(char *out, size_t size, const state_entry *e) {
    char shape[128];
    (void)snprintf(out, size, "%s %s, %s%s%s%s%s%s",
                   shape_text(shape, sizeof(shape), e->ndim, e->shape), pawl_dtype_name(e->dtype),
                   pawl_role_name(e->role), e->slot != NULL ? " " : "",
                   e->slot != NULL ? e->slot : "", e->slot_of != NULL ? " of " : "",
                   e->slot_of != NULL ? e->slot_of : "", e->replicated ? ", replicated" : "");
}

static pawl_status refuse_other_tensor(const state_entry *there, const state_entry *next,
                                       const char *member, pawl_error *err) {
    char text[400];
    error_set(err, PAWL_EUSAGE, "%s: its %s is another", update_attempt, member);
    error_entry(err, next->name);
    describe_tensor(text, sizeof(text), there);
    error_expected(err, "%s", text);
    describe_tensor(text, sizeof(text), next);
    error_found(err, "%s", text);
    error_next(err, "remove the entry and add it, if it is meant to be another tensor");
    return PAWL_EUSAGE;
}

/* `there`: the entry of that name; NULL: none. */
static pawl_status check_update(pawl_state *state, const held_entry *there, const state_entry *next,
                                pawl_error *err) {
    if (there == NULL) {
        return nothing_to_update(state, next->name, err);
    }
    if (there->seen.kind != PAWL_KIND_TENSOR) {
        return state_refuse_kind(&there->seen, update_attempt, "a tensor", err);
    }
    const char *member = differing_member(&there->seen, next);
    return member == NULL ? state_check_unread(state, &there->seen, update_attempt, err)
                          : refuse_other_tensor(&there->seen, next, member, err);
}

/* After each of these two the batch has the entries that the state had. */
static pawl_status update_one_by_one(pawl_state *state, batch *b, pawl_error *err) {
    for (size_t i = 0; i < b->count; i++) {
        const state_entry *next = b->entries[i];
        TRY(check_update(state, tree_find(state->tree, next->name), next, err));
    }
    for (size_t i = 0; i < b->count; i++) {
        const held_entry *before = tree_replace(&state->tree, entry_held(b->entries[i]));
        b->entries[i] = before == NULL ? NULL : &before->seen; /* it is there: check_update */
    }
    return PAWL_OK;
}

/* *places: of the entries of the batch among all. */
static pawl_status find_places(pawl_state *state, const batch *b, const state_entry *const *all,
                               size_t *places, pawl_error *err) {
    size_t at = 0;
    for (size_t i = 0; i < b->count; i++) {
        int order = 1;
        while (at < state->count && (order = by_name(&all[at], &b->entries[i])) < 0) {
            at++;
        }
        const held_entry *there = order == 0 ? entry_held(all[at]) : NULL;
        TRY(check_update(state, there, b->entries[i], err));
        places[i] = at;
    }
    return PAWL_OK;
}

static pawl_status update_by_building(pawl_state *state, batch *b, pawl_error *err) {
    AUTOFREE const state_entry **all = mem_calloc(state->count, sizeof(const state_entry *));
    AUTOFREE size_t *places = mem_calloc(b->count, sizeof(*places));
    if (all == NULL || places == NULL) {
        return error_nomem(err, state->count * sizeof(const state_entry *));
    }
    size_t count = tree_list(state->tree, all);
    TRY(find_places(state, b, all, places, err));
    for (size_t i = 0; i < b->count; i++) {
        const state_entry *before = all[places[i]];
        all[places[i]] = b->entries[i];
        b->entries[i] = before;
    }
    state->tree = tree_build(all, count);
    return PAWL_OK;
}

static pawl_status update_all(pawl_state *state, const state_tensors *tensors, batch *b,
                              pawl_error *err) {
    TRY(batch_make(b, tensors, update_attempt, err));
    state_number(state, b->entries, b->count);
    pawl_status status = b->count >= state->count / BUILD_PART ? update_by_building(state, b, err)
                                                               : update_one_by_one(state, b, err);
    if (status != PAWL_OK) {
        tell_place(tensors, err);
        return status;
    }
    state_table_outdate(state);
    return PAWL_OK;
}

pawl_status state_update_tensors(pawl_state *state, const state_tensors *tensors, pawl_error *err) {
    CLEANUP(batch_free) batch b = {0};
    pawl_status status = tensors->count > 0 ? update_all(state, tensors, &b, err) : PAWL_OK;
    if (status != PAWL_OK) {
        error_safe(err, "all tensors are as they were");
    }
    return status;
}
