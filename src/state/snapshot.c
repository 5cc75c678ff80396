/* SPDX-License-Identifier: Apache-2.0 */
/* The entries at one moment: a sorted array of shared entries. */
#include "state/entry.h"
#include "state/map.h"

#include <inttypes.h>
#include <search.h>
#include <string.h>

static void collect_entries(const void *node, VISIT which, void *context) {
    state_snapshot *snapshot = context;
    if (which == postorder || which == leaf) { /* in ascending order, each entry once */
        const state_entry *e = *(const state_entry *const *)node;
        snapshot->entries[snapshot->count++] = &entry_hold(e)->seen;
    }
}

static pawl_status refuse_slot(const state_entry *slot, pawl_error *err, const char *why) {
    error_set(err, PAWL_EUSAGE, "the optimizer slot \"%s\" does not fit its variable \"%s\": %s",
              slot->slot, slot->slot_of, why);
    error_entry(err, slot->name);
    return PAWL_EUSAGE;
}

static pawl_status check_variable_of_slot(const pawl_state *state, const state_entry *slot,
                                          pawl_error *err) {
    const state_entry *variable = state_find(state, slot->slot_of);
    if (variable == NULL) {
        pawl_status status = refuse_slot(slot, err, "the state has no entry of that name");
        error_next(err, "add the variable to the state, or mend slot_of");
        return status;
    }
    if (variable->kind != PAWL_KIND_TENSOR) {
        pawl_status status = refuse_slot(slot, err, "that entry is not a tensor");
        error_found(err, "a value of kind %s", pawl_kind_name(variable->kind));
        error_next(err, "mend slot_of");
        return status;
    }
    return PAWL_OK; /* a slot may have any shape: some optimizers keep a row, or a number */
}

static pawl_status check_slots(const pawl_state *state, const state_snapshot *snapshot,
                               pawl_error *err) {
    for (size_t i = 0; i < snapshot->count; i++) {
        if (snapshot->entries[i]->role == PAWL_ROLE_SLOT) {
            TRY(check_variable_of_slot(state, snapshot->entries[i], err));
        }
    }
    return PAWL_OK;
}

static void take_off(state_snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->count; i++) {
        held_entry *e = (held_entry *)(uintptr_t)snapshot->entries[i];
        if (e->seen.kind == PAWL_KIND_TENSOR) {
            atomic_fetch_add_explicit(&e->flights, 1, memory_order_relaxed);
            e->flight_step = snapshot->step;
        }
    }
    snapshot->in_flight = true;
}

pawl_status state_snapshot_check_idle(const state_snapshot *snapshot, pawl_error *err) {
    for (size_t i = 0; i < snapshot->count; i++) {
        const held_entry *e = (const held_entry *)(const void *)snapshot->entries[i];
        if (atomic_load_explicit(&e->flights, memory_order_acquire) == 0) {
            continue;
        }
        error_set(err, PAWL_EBUSY,
                  "the memory of the tensor may not change: the save of step %" PRId64
                  " still reads it",
                  e->flight_step);
        error_entry(err, e->seen.name);
        error_safe(err, "the tensors are as they were, and the save goes on");
        error_next(err, "call pawl_fence or pawl_wait on the run that saves, then restore");
        return PAWL_EBUSY;
    }
    return PAWL_OK;
}

void state_snapshot_let_go(state_snapshot *snapshot) {
    if (!snapshot->in_flight) {
        return;
    }
    for (size_t i = 0; i < snapshot->count; i++) {
        held_entry *e = (held_entry *)(uintptr_t)snapshot->entries[i];
        if (e->seen.kind == PAWL_KIND_TENSOR) {
            atomic_fetch_sub_explicit(&e->flights, 1, memory_order_release);
        }
    }
    snapshot->in_flight = false;
}

pawl_status state_snapshot_take(pawl_state *state, int64_t step, bool in_flight,
                                state_snapshot **out, pawl_error *err) {
    state_snapshot *snapshot = mem_calloc(1, sizeof(*snapshot));
    if (snapshot == NULL) {
        return error_nomem(err, sizeof(*snapshot));
    }
    snapshot->step = step;
    snapshot->entries = mem_calloc(state->count, sizeof(const state_entry *));
    if (snapshot->entries == NULL) {
        mem_free(snapshot);
        return error_nomem(err, state->count * sizeof(const state_entry *));
    }
    twalk_r(state->root, collect_entries, snapshot);
    pawl_status status = check_slots(state, snapshot, err);
    if (status != PAWL_OK) {
        state_snapshot_free(snapshot);
        return status;
    }
    if (in_flight) {
        take_off(snapshot);
    }
    *out = snapshot;
    return PAWL_OK;
}

void state_snapshot_free(state_snapshot *snapshot) {
    if (snapshot == NULL) {
        return;
    }
    state_snapshot_let_go(snapshot);
    for (size_t i = 0; i < snapshot->count; i++) {
        entry_let_go(snapshot->entries[i]);
    }
    mem_free(snapshot->entries);
    mem_free(snapshot);
}

const state_entry *state_snapshot_find(const state_snapshot *snapshot, const char *name,
                                       size_t *position) {
    size_t low = 0;
    size_t high = snapshot->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(snapshot->entries[middle]->name, name);
        if (order == 0) {
            if (position != NULL) {
                *position = middle;
            }
            return snapshot->entries[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}
