/* SPDX-License-Identifier: Apache-2.0 */
/* map: the inside of a pawl_state, for the files of this folder. */
#ifndef STATE_MAP_H
#define STATE_MAP_H

#include "state/tree.h"

struct pawl_state {
    entry_tree tree;
    size_t count;
    size_t value_count;
    uint64_t added;     /* entries that were ever added */
    state_table *table; /* NULL: made for the next snapshot */
    flight *flights;    /* the latest first */
};

/* ---- refusals: state.c ---------------------------------------------------------------------- */

/* PAWL_EUSAGE: the state has `there`, which has the name of a tensor that is to be added. */
pawl_status state_refuse_repeated(const state_entry *there, pawl_error *err);
/* PAWL_EUSAGE. `attempt`: "cannot get the value"; `wanted`: "a tensor". */
pawl_status state_refuse_kind(const state_entry *there, const char *attempt, const char *wanted,
                              pawl_error *err);
pawl_status state_not_found(const char *name, const char *attempt, pawl_error *err);
/* PAWL_EBUSY where a save still reads the entry's memory. */
pawl_status state_check_unread(pawl_state *state, const state_entry *e, const char *attempt,
                               pawl_error *err) PAWL_MUST_CHECK;

/* ---- changes: state.c ----------------------------------------------------------------------- */

/* Numbers entries that are going to be in the state: no save reads them yet. */
void state_number(pawl_state *state, const state_entry *const *entries, size_t count);
/* The tree has these entries now, and had none of their names. */
void state_has_added(pawl_state *state, const state_entry *const *entries, size_t count);

#endif
