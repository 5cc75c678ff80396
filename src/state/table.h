/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table: the entries of a state ascending by name, shared by the state and its snapshots until an
 * entry is added or removed. So a snapshot of a state that has not changed touches no tensor's
 * entry: many are scattered over memory.
 */
#ifndef STATE_TABLE_H
#define STATE_TABLE_H

#include "state/map.h"

#include <stdatomic.h>

struct state_table {
    atomic_uint references;
    size_t count, value_count;
    bool provided;               /* some tensors are in providers' memory */
    bool copied;                 /* some are copied by pawl_save */
    const state_entry **entries; /* tensors, which the table holds; NULL where a value is */
    size_t *values;              /* the places of the values, ascending */
    /* Each value as the state has it now: for its thread, while the table is its own. */
    const state_entry **current;
};

/* The state's own, which is made if it has none. Checks what only the whole state shows: each
 * slot's variable (R06, S15). */
pawl_status state_table_of(pawl_state *state, state_table **out, pawl_error *err) PAWL_MUST_CHECK;
/* The value of that name was set anew. */
void state_table_replace(pawl_state *state, const state_entry *value);
/* An entry was added, removed or changed otherwise: the next snapshot needs another table. */
void state_table_outdate(pawl_state *state);
state_table *state_table_hold(state_table *table);
void state_table_let_go(state_table *table); /* NULL is fine */

#endif
