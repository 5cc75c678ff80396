/* SPDX-License-Identifier: Apache-2.0 */
/* The map from names to entries. */
#include "state/flight.h"
#include "state/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

pawl_status state_new(pawl_state **out, pawl_error *err) {
    *out = mem_calloc(1, sizeof(**out));
    return *out == NULL ? error_nomem(err, sizeof(**out)) : PAWL_OK;
}

void state_free(pawl_state *state) {
    if (state != NULL) {
        state_table_outdate(state);
        flight_forget_all(state);
        tree_free(state->tree);
        mem_free(state);
    }
}

const state_entry *state_find(const pawl_state *state, const char *name) {
    const held_entry *e = tree_find(state->tree, name);
    return e == NULL ? NULL : &e->seen;
}

size_t state_count(const pawl_state *state) {
    return state->count;
}

static void describe_entry(char *out, size_t size, const state_entry *e) {
    char shape[128];
    if (e->kind == PAWL_KIND_TENSOR) {
        snprintf(out, size, "a tensor %s %s", shape_text(shape, sizeof(shape), e->ndim, e->shape),
                 pawl_dtype_name(e->dtype));
    } else {
        snprintf(out, size, "a value of kind %s%s", pawl_kind_name(e->kind),
                 e->per_rank ? ", one for each rank" : "");
    }
}

pawl_status state_refuse_repeated(const state_entry *there, pawl_error *err) {
    char text[192];
    describe_entry(text, sizeof(text), there);
    error_set(err, PAWL_EUSAGE,
              "cannot add the tensor: the state has an entry of that name already");
    error_entry(err, there->name);
    error_found(err, "%s", text);
    error_next(err, "give it another name, or remove the entry first");
    return PAWL_EUSAGE;
}

void state_number(pawl_state *state, const state_entry *const *entries, size_t count) {
    for (size_t i = 0; i < count; i++) {
        entry_held(entries[i])->number = ++state->added;
    }
}

void state_has_added(pawl_state *state, const state_entry *const *entries, size_t count) {
    state_number(state, entries, count);
    for (size_t i = 0; i < count; i++) {
        state->value_count += entries[i]->kind != PAWL_KIND_TENSOR;
    }
    state->count += count;
    state_table_outdate(state);
}

/* Takes over the caller's reference, also when it fails. */
static pawl_status insert(pawl_state *state, held_entry *e, pawl_error *err) {
    if (state->count >= STATE_MAX_ENTRIES) {
        error_set(err, PAWL_ELIMIT, "cannot add the entry: the state has %zu entries already",
                  state->count);
        error_entry(err, e->seen.name);
        entry_let_go(&e->seen);
        return PAWL_ELIMIT;
    }
    const held_entry *there = tree_insert(&state->tree, e);
    if (there != NULL) {
        entry_let_go(&e->seen);
        return state_refuse_repeated(&there->seen, err);
    }
    const state_entry *added = &e->seen;
    state_has_added(state, &added, 1);
    return PAWL_OK;
}

pawl_status state_add_tensor(pawl_state *state, const pawl_tensor *tensor, pawl_error *err) {
    TRY(tensor_check(tensor, "cannot add the tensor", err));
    held_entry *e = entry_of_tensor(tensor);
    if (e == NULL) {
        return error_nomem(err, sizeof(*e));
    }
    return insert(state, e, err);
}

pawl_status state_refuse_kind(const state_entry *there, const char *attempt, const char *wanted,
                              pawl_error *err) {
    char text[192];
    describe_entry(text, sizeof(text), there);
    error_set(err, PAWL_EUSAGE, "%s: the entry is of another kind", attempt);
    error_entry(err, there->name);
    error_expected(err, "%s", wanted);
    error_found(err, "%s", text);
    return PAWL_EUSAGE;
}

static pawl_status refuse_value(const state_entry *there, const char *attempt, pawl_kind wanted,
                                pawl_error *err) {
    char text[64];
    snprintf(text, sizeof(text), "a value of kind %s", pawl_kind_name(wanted));
    return state_refuse_kind(there, attempt, text, err);
}

pawl_status state_set_value(pawl_state *state, const char *name, pawl_kind kind, pawl_role role,
                            bool per_rank, const void *bytes, size_t n, pawl_error *err) {
    TRY(value_check(name, kind, role, per_rank, bytes, n, err));
    held_entry *there = tree_find(state->tree, name);
    if (there != NULL && (there->seen.kind != kind || there->seen.per_rank != per_rank)) {
        pawl_status status = refuse_value(&there->seen, "cannot set the value", kind, err);
        error_next(err, "give it another name, or remove the entry first");
        return status;
    }
    held_entry *e = entry_of_value(name, kind, role, per_rank, bytes, n);
    if (e == NULL) {
        return error_nomem(err, sizeof(*e) + n);
    }
    if (there == NULL) {
        return insert(state, e, err);
    }
    tree_replace(&state->tree, e);
    if (there->seen.role == role) {
        state_table_replace(state, &e->seen);
    } else {
        state_table_outdate(state);
    }
    entry_let_go(&there->seen);
    return PAWL_OK;
}

pawl_status state_not_found(const char *name, const char *attempt, pawl_error *err) {
    error_set(err, PAWL_ENOTFOUND, "%s: the state has no entry of that name", attempt);
    error_entry(err, name);
    return PAWL_ENOTFOUND;
}

pawl_status state_get_value(const pawl_state *state, const char *name, pawl_kind kind,
                            const state_entry **out, pawl_error *err) {
    const state_entry *found = state_find(state, name);
    if (found == NULL) {
        return state_not_found(name, "cannot get the value", err);
    }
    if (found->kind != kind) {
        return refuse_value(found, "cannot get the value", kind, err);
    }
    *out = found;
    return PAWL_OK;
}

pawl_status state_check_unread(pawl_state *state, const state_entry *e, const char *attempt,
                               pawl_error *err) {
    const flight *f = flight_latest(state);
    if (!flight_uses(f, e) || f->writes) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EBUSY, "%s: the save of step %" PRId64 " still reads its memory", attempt,
              f->step);
    error_entry(err, e->name);
    error_step(err, f->step);
    error_safe(err, "the entry is still in the state, and the save goes on");
    error_next(err, "call pawl_fence first");
    return PAWL_EBUSY;
}

pawl_status state_remove(pawl_state *state, const char *name, pawl_error *err) {
    static const char attempt[] = "cannot remove the entry";
    held_entry *found = tree_find(state->tree, name);
    if (found == NULL) {
        return state_not_found(name, attempt, err);
    }
    TRY(state_check_unread(state, &found->seen, attempt, err));
    tree_remove(&state->tree, found);
    state->count--;
    state->value_count -= found->seen.kind != PAWL_KIND_TENSOR;
    state_table_outdate(state);
    entry_let_go(&found->seen);
    return PAWL_OK;
}
