/* SPDX-License-Identifier: Apache-2.0 */
/* The map from names to entries: a balanced tree of the C library, ordered by name. */
#include "state/entry.h"
#include "state/map.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <string.h>

/* Bytewise by name. */
static int compare_entry_names(const void *a, const void *b) {
    return strcmp(((const state_entry *)a)->name, ((const state_entry *)b)->name);
}

pawl_status state_new(pawl_state **out, pawl_error *err) {
    *out = mem_calloc(1, sizeof(**out));
    return *out == NULL ? error_nomem(err, sizeof(**out)) : PAWL_OK;
}

static void free_node(void *e) {
    entry_let_go(e);
}

void state_free(pawl_state *state) {
    if (state != NULL) {
        tdestroy(state->root, free_node);
        mem_free(state);
    }
}

/* Where the tree keeps the entry of that name. It may be replaced there by another entry of that
 * name. */
static const state_entry **find_node(const pawl_state *state, const char *name) {
    state_entry key = {.name = name};
    return tfind(&key, &state->root, compare_entry_names);
}

const state_entry *state_find(const pawl_state *state, const char *name) {
    const state_entry **node = find_node(state, name);
    return node == NULL ? NULL : *node;
}

size_t state_count(const pawl_state *state) {
    return state->count;
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
    if (tsearch(e, &state->root, compare_entry_names) == NULL) {
        entry_let_go(&e->seen);
        return error_nomem(err, 4 * sizeof(void *));
    }
    state->count++;
    return PAWL_OK;
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

static pawl_status refuse_repeated(const state_entry *there, pawl_error *err) {
    char text[192];
    describe_entry(text, sizeof(text), there);
    error_set(err, PAWL_EUSAGE,
              "cannot add the tensor: the state has an entry of that name already");
    error_entry(err, there->name);
    error_found(err, "%s", text);
    error_next(err, "give it another name, or remove the entry first");
    return PAWL_EUSAGE;
}

pawl_status state_add_tensor(pawl_state *state, const pawl_tensor *tensor, pawl_error *err) {
    TRY(tensor_check(tensor, err));
    const state_entry *there = state_find(state, tensor->name);
    if (there != NULL) {
        return refuse_repeated(there, err);
    }
    held_entry *e = entry_of_tensor(tensor);
    if (e == NULL) {
        return error_nomem(err, sizeof(*e));
    }
    return insert(state, e, err);
}

static pawl_status refuse_kind(const state_entry *there, const char *attempt, const char *wanted,
                               pawl_error *err) {
    char text[192];
    describe_entry(text, sizeof(text), there);
    error_set(err, PAWL_EUSAGE, "%s: the entry is of another kind", attempt);
    error_entry(err, there->name);
    error_expected(err, "a value of kind %s", wanted);
    error_found(err, "%s", text);
    return PAWL_EUSAGE;
}

pawl_status state_set_value(pawl_state *state, const char *name, pawl_kind kind, pawl_role role,
                            bool per_rank, const void *bytes, size_t n, pawl_error *err) {
    TRY(value_check(name, kind, role, bytes, n, err));
    const state_entry **node = find_node(state, name);
    if (node != NULL && ((*node)->kind != kind || (*node)->per_rank != per_rank)) {
        pawl_status status = refuse_kind(*node, "cannot set the value", pawl_kind_name(kind), err);
        error_next(err, "give it another name, or remove the entry first");
        return status;
    }
    held_entry *e = entry_of_value(name, kind, role, per_rank, bytes, n);
    if (e == NULL) {
        return error_nomem(err, sizeof(*e) + n);
    }
    if (node == NULL) {
        return insert(state, e, err);
    }
    const state_entry *old = *node;
    *node = &e->seen;
    entry_let_go(old);
    return PAWL_OK;
}

static pawl_status not_found(const char *name, const char *attempt, pawl_error *err) {
    error_set(err, PAWL_ENOTFOUND, "%s: the state has no entry of that name", attempt);
    error_entry(err, name);
    return PAWL_ENOTFOUND;
}

pawl_status state_get_value(const pawl_state *state, const char *name, pawl_kind kind,
                            const state_entry **out, pawl_error *err) {
    const state_entry *found = state_find(state, name);
    if (found == NULL) {
        return not_found(name, "cannot get the value", err);
    }
    if (found->kind != kind) {
        return refuse_kind(found, "cannot get the value", pawl_kind_name(kind), err);
    }
    *out = found;
    return PAWL_OK;
}

static pawl_status refuse_in_flight(const held_entry *e, pawl_error *err) {
    error_set(err, PAWL_EBUSY,
              "cannot remove the entry: the save of step %" PRId64 " still reads its memory",
              e->flight_step);
    error_entry(err, e->seen.name);
    error_step(err, e->flight_step);
    error_safe(err, "the entry is still in the state, and the save goes on");
    error_next(err, "call pawl_fence first");
    return PAWL_EBUSY;
}

pawl_status state_remove(pawl_state *state, const char *name, pawl_error *err) {
    const state_entry *found = state_find(state, name);
    if (found == NULL) {
        return not_found(name, "cannot remove the entry", err);
    }
    const held_entry *e = (const held_entry *)(const void *)found;
    if (atomic_load_explicit(&e->flights, memory_order_acquire) > 0) {
        return refuse_in_flight(e, err);
    }
    tdelete(found, &state->root, compare_entry_names);
    state->count--;
    entry_let_go(found);
    return PAWL_OK;
}
