/* SPDX-License-Identifier: Apache-2.0 */
/* The entries at one moment: those of the state's table, and the values as they are now. */
#include "state/flight.h"
#include "state/table.h"

#include <inttypes.h>
#include <string.h>

static pawl_status say_is_read(const flight *f, const state_entry *e, pawl_error *err) {
    error_set(err, PAWL_EBUSY,
              "the memory of the tensor may not change: the save of step %" PRId64
              " still reads it",
              f->step);
    error_entry(err, e->name);
    error_safe(err, "the tensors are as they were, and the save goes on");
    error_next(err, "call pawl_fence or pawl_wait on the run that saves, then restore");
    return PAWL_EBUSY;
}

static pawl_status say_is_written(const state_entry *e, pawl_error *err) {
    error_set(err, PAWL_EBUSY,
              "nothing can be restored into the tensor: copies to it of a restore that was given "
              "up have not ended, and would change it later");
    error_entry(err, e->name);
    error_safe(err, "nothing was restored");
    error_next(err, "restore into a state with other memory, or wait until the device answers (see "
                    "its driver's log)");
    return PAWL_EBUSY;
}

pawl_status state_check_idle(pawl_state *state, const state_snapshot *snapshot, pawl_error *err) {
    const flight *f = flight_latest(state);
    for (size_t i = 0; f != NULL && i < snapshot->count; i++) {
        const state_entry *e = snapshot->entries[i];
        if (flight_uses(f, e)) {
            return f->writes ? say_is_written(e, err) : say_is_read(f, e, err);
        }
    }
    return PAWL_OK;
}

pawl_status state_snapshot_begin_writing(pawl_state *state, state_snapshot *snapshot,
                                         pawl_error *err) {
    TRY(flight_begin(state, snapshot->step, &snapshot->flight, err));
    snapshot->flight->writes = true;
    return PAWL_OK;
}

pawl_status state_snapshot_check_writable(const state_snapshot *snapshot, pawl_error *err) {
    for (size_t i = 0; snapshot->provided && i < snapshot->count; i++) {
        const state_entry *e = snapshot->entries[i];
        if (e->memory == NULL || e->memory->start_in != NULL) {
            continue;
        }
        error_set(err, PAWL_EUSAGE,
                  "nothing can be restored into the tensor: its memory, \"%s\", "
                  "can only be read from",
                  e->memory->name);
        error_entry(err, e->name);
        error_expected(err, "start_in in the tensor's pawl_memory");
        error_safe(err, "nothing was restored");
        error_next(err, "restore into a state whose tensors are in memory that can be written");
        return PAWL_EUSAGE;
    }
    return PAWL_OK;
}

void state_snapshot_let_go(state_snapshot *snapshot) {
    flight_end(snapshot->flight);
    snapshot->flight = NULL;
}

static pawl_status take_entries(state_snapshot *snapshot, state_table *table, pawl_error *err) {
    size_t bytes = table->count * sizeof(const state_entry *);
    snapshot->entries = mem_alloc(bytes);
    if (snapshot->entries == NULL) {
        return error_nomem(err, bytes);
    }
    memcpy(snapshot->entries, table->entries, bytes);
    snapshot->count = table->count;
    snapshot->values = table->values;
    snapshot->value_count = table->value_count;
    snapshot->provided = table->provided;
    snapshot->copied = table->copied;
    snapshot->table = state_table_hold(table);
    for (size_t i = 0; i < table->value_count; i++) {
        snapshot->entries[table->values[i]] = &entry_hold(table->current[i])->seen;
    }
    return PAWL_OK;
}

pawl_status state_snapshot_take(pawl_state *state, int64_t step, bool in_flight,
                                state_snapshot **out, pawl_error *err) {
    state_table *table = NULL;
    TRY(state_table_of(state, &table, err));
    state_snapshot *snapshot = mem_calloc(1, sizeof(*snapshot));
    if (snapshot == NULL) {
        return error_nomem(err, sizeof(*snapshot));
    }
    snapshot->step = step;
    pawl_status status = take_entries(snapshot, table, err);
    if (status == PAWL_OK && in_flight) {
        status = flight_begin(state, step, &snapshot->flight, err);
    }
    if (status != PAWL_OK) {
        state_snapshot_free(snapshot);
        return status;
    }
    *out = snapshot;
    return PAWL_OK;
}

void state_snapshot_drop_values(state_snapshot *snapshot) {
    for (size_t i = 0; i < snapshot->value_count; i++) {
        const state_entry **value = &snapshot->entries[snapshot->values[i]];
        entry_let_go(*value);
        *value = NULL;
    }
}

void state_snapshot_free(state_snapshot *snapshot) {
    if (snapshot == NULL) {
        return;
    }
    state_snapshot_let_go(snapshot);
    state_snapshot_drop_values(snapshot);
    state_table_let_go(snapshot->table);
    mem_free(snapshot->entries);
    mem_free(snapshot);
}

bool state_snapshot_alike(const state_snapshot *a, const state_snapshot *b) {
    return a->table == b->table;
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
