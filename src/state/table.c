/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the table of a state's entries, and checks them against each other. */
#include "state/table.h"
#include "state/entry.h"

#include <string.h>

/* One allocation, with its lists behind it. NULL: no memory. */
static state_table *table_new(const pawl_state *state) {
    uint64_t cells = 0; /* of 8 bytes */
    uint64_t bytes;
    if (multiply_overflows(state->count + 2 * state->value_count, sizeof(void *), &cells) ||
        add_overflows(cells, sizeof(state_table), &bytes)) {
        return NULL;
    }
    state_table *table = mem_alloc(bytes);
    if (table != NULL) {
        *table = (state_table){.entries = (const state_entry **)(void *)(table + 1)};
        atomic_init(&table->references, 1);
        table->values = (size_t *)(void *)(table->entries + state->count);
        table->current = (const state_entry **)(void *)(table->values + state->value_count);
    }
    return table;
}

static void collect_entries(const pawl_state *state, state_table *table) {
    table->count = tree_list(state->tree, table->entries);
    for (size_t i = 0; i < table->count; i++) {
        const state_entry *e = table->entries[i];
        if (e->kind == PAWL_KIND_TENSOR) {
            (void)entry_hold(e);
            table->provided = table->provided || e->memory != NULL;
            table->copied = table->copied || e->copied;
            continue;
        }
        table->entries[i] = NULL;
        table->values[table->value_count] = i;
        table->current[table->value_count++] = e;
    }
}

/* ---- slots ---------------------------------------------------------------------------------- */

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

static pawl_status check_slots(const pawl_state *state, const state_table *table, pawl_error *err) {
    for (size_t i = 0; i < table->count; i++) {
        const state_entry *e = table->entries[i];
        if (e != NULL && e->role == PAWL_ROLE_SLOT) {
            TRY(check_variable_of_slot(state, e, err));
        }
    }
    return PAWL_OK;
}

/* ---- making, sharing ------------------------------------------------------------------------ */

pawl_status state_table_of(pawl_state *state, state_table **out, pawl_error *err) {
    if (state->table == NULL) {
        state_table *table = table_new(state);
        if (table == NULL) {
            return error_nomem(err, state->count * sizeof(void *));
        }
        collect_entries(state, table);
        pawl_status status = check_slots(state, table, err);
        if (status != PAWL_OK) {
            state_table_let_go(table);
            return status;
        }
        state->table = table;
    }
    *out = state->table;
    return PAWL_OK;
}

void state_table_replace(pawl_state *state, const state_entry *value) {
    size_t low = 0;
    size_t high = state->table != NULL ? state->table->value_count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const state_entry **there = &state->table->current[middle];
        int order = strcmp((*there)->name, value->name);
        if (order == 0) {
            *there = value;
            return;
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
}

void state_table_outdate(pawl_state *state) {
    state_table_let_go(state->table);
    state->table = NULL;
}

state_table *state_table_hold(state_table *table) {
    atomic_fetch_add_explicit(&table->references, 1, memory_order_relaxed);
    return table;
}

void state_table_let_go(state_table *table) {
    if (table == NULL ||
        atomic_fetch_sub_explicit(&table->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < table->count; i++) {
        entry_let_go(table->entries[i]);
    }
    mem_free(table);
}
