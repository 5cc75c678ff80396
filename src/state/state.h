/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state: the named entries that are saved and restored, their roles, and every check of S15.
 *
 * May include base, tensor and format. Does the work of pawl/state.h: a call pawl_state_x is
 * state_x here, and its error may not be NULL (src/api allows that).
 *
 * Threads: a state belongs to one thread; a snapshot may be used, let go and freed by any one
 * thread at a time, also after the state is gone. Ownership: a state shares its entries with its
 * snapshots by reference count; the memory of tensors is the trainer's.
 */
#ifndef STATE_STATE_H
#define STATE_STATE_H

#include "base/base.h"
#include "tensor/tensor.h"

#include <pawl/state.h>

#define STATE_MAX_ENTRIES 100000000u

/* Which part of a tensor a rank holds, and where: ndim numbers each. */
typedef struct state_box {
    uint8_t *data;
    int64_t begin; /* bytes from `data` to the first element: not 0 in a provider's memory alone */
    const int64_t *offset, *extent;
    const int64_t *strides; /* NULL: dense */
} state_box;

/* What is visible of an entry: constant once made. Setting a value makes a new entry. */
typedef struct state_entry {
    const char *name;
    pawl_kind kind;
    pawl_role role;
    const pawl_memory *memory;  /* of a tensor: only this provider touches its bytes; NULL: host */
    const char *slot_of, *slot; /* NULL unless role is SLOT */
    bool per_rank, replicated;
    bool copied;                /* a save has read the tensor when run_save returns */
    int replica, replica_count; /* replicated: which copy this is; 0 of 0: one per rank */
    pawl_dtype dtype;           /* values: BOOL, I64, F64 or U8, as they are stored */
    int ndim;
    const int64_t *shape; /* values: [] or [bytes] */
    size_t box_count;     /* tensors: boxes this rank holds; values: 0 */
    const state_box *boxes;
    const uint8_t *value; /* values: the bytes (bool 1, int64 and float64 8, little-endian) */
    size_t value_bytes;
} state_entry;

/* Must it be the same on all ranks of a job? Not if it is a tensor that only some ranks hold. */
static inline bool state_entry_is_alike(const state_entry *e) {
    return e->kind != PAWL_KIND_TENSOR || (e->replicated && e->replica_count == 0);
}

/* Entries are scattered over memory: loops over many of them in the order of their names prefetch
 * each this many entries ahead. */
#define STATE_ENTRIES_AHEAD 8
static inline void state_entry_expect(const state_entry *entry) {
    for (int line = 0; line < 5; line++) {
        __builtin_prefetch((const char *)entry + (ptrdiff_t)64 * line);
    }
}

/* Box `i` of a tensor: of the entry, and as strided memory, which is a copy and so costs more. */
static inline const state_box *state_entry_box(const state_entry *entry, size_t i) {
    return &entry->boxes[i];
}
strided state_entry_memory(const state_entry *entry, size_t i);
strided state_box_memory(const state_entry *e, const state_box *from);

pawl_status state_new(pawl_state **out, pawl_error *err) PAWL_MUST_CHECK;
void state_free(pawl_state *state);
pawl_status state_add_tensor(pawl_state *state, const pawl_tensor *tensor, pawl_error *err)
    PAWL_MUST_CHECK;
/* Elements of an array that a caller made, with a pawl_tensor of `size` bytes. What that has less
 * than ours is zero, and so is what it has more. */
typedef struct state_tensors {
    const void *first;
    size_t size, count;
} state_tensors;
/* Both: all of them, or none. bulk.c. */
pawl_status state_add_tensors(pawl_state *state, const state_tensors *tensors, pawl_error *err)
    PAWL_MUST_CHECK;
pawl_status state_update_tensors(pawl_state *state, const state_tensors *tensors, pawl_error *err)
    PAWL_MUST_CHECK;
/* For all kinds of values: checks the bytes against the kind (JSON parses, strings are UTF-8).
 * PAWL_ELIMIT past PAWL_MAX_VALUE_BYTES, per rank past PAWL_MAX_RANK_BYTES. What is kept is
 * followed by a NUL that is not counted. */
pawl_status state_set_value(pawl_state *state, const char *name, pawl_kind kind, pawl_role role,
                            bool per_rank, const void *bytes, size_t n, pawl_error *err)
    PAWL_MUST_CHECK;
/* ENOTFOUND; EUSAGE when it is of another kind. The entry lives until it is set or removed. */
pawl_status state_get_value(const pawl_state *state, const char *name, pawl_kind kind,
                            const state_entry **out, pawl_error *err) PAWL_MUST_CHECK;
pawl_status state_remove(pawl_state *state, const char *name, pawl_error *err) PAWL_MUST_CHECK;
size_t state_count(const pawl_state *state);
const state_entry *state_find(const pawl_state *state, const char *name);

typedef struct state_table state_table;
typedef struct flight flight;

/* The entries at one moment, ascending by name (bytewise). */
typedef struct state_snapshot {
    const state_entry **entries;
    size_t count;
    const size_t *values; /* the places of the values among them, ascending */
    size_t value_count;
    int64_t step;
    bool provided;      /* some tensors are in providers' memory */
    bool copied;        /* some are to be read before the save is under way */
    state_table *table; /* holds the tensors; the snapshot itself holds the values */
    flight *flight;     /* NULL: not in flight, or let go */
} state_snapshot;

static inline const state_entry *state_snapshot_value(const state_snapshot *snapshot, size_t i) {
    return snapshot->entries[snapshot->values[i]];
}

/*
 * Takes a snapshot after checking what only the whole state shows: each slot's variable exists and
 * is a tensor (R06, S15). With `in_flight` its tensors cannot be removed from the state until
 * state_snapshot_let_go (S02). Where no entry was added or removed since the one before it costs a
 * copy of the pointers, and a look at each value.
 */
pawl_status state_snapshot_take(pawl_state *state, int64_t step, bool in_flight,
                                state_snapshot **out, pawl_error *err) PAWL_MUST_CHECK;
/* Of a snapshot just taken. PAWL_EBUSY naming a tensor whose memory a save still reads, or to which
 * a restore that was given up may still write: nothing may be put into it now. */
pawl_status state_check_idle(pawl_state *state, const state_snapshot *snapshot, pawl_error *err)
    PAWL_MUST_CHECK;
/* For a restore into providers' memory: until the snapshot is let go, which is later than the end
 * of the restore where its copies hang, nothing else is restored into the tensors. */
pawl_status state_snapshot_begin_writing(pawl_state *state, state_snapshot *snapshot,
                                         pawl_error *err) PAWL_MUST_CHECK;
/* PAWL_EUSAGE naming a tensor whose provider can only be read from. */
pawl_status state_snapshot_check_writable(const state_snapshot *snapshot, pawl_error *err)
    PAWL_MUST_CHECK;
/* Keeps the flight of a snapshot, which may be over and gone meanwhile, and the state too. */
flight *state_flight_hold(flight *f);
void state_flight_let_go(flight **f); /* for CLEANUP; one that is NULL is fine */
/* On the state's thread: the tensors that pawl_save is to copy have been copied. */
void state_flight_has_copied(flight *f);
void state_snapshot_let_go(state_snapshot *snapshot); /* idempotent */
void state_snapshot_free(state_snapshot *snapshot);   /* lets go first; NULL is fine */
/* Do they have the same entries of the same state? Only the bytes of values may then differ. */
bool state_snapshot_alike(const state_snapshot *a, const state_snapshot *b);
/* Lets go of the values: for one that is kept only to be compared (state_snapshot_alike). */
void state_snapshot_drop_values(state_snapshot *snapshot);
/* Binary search; NULL when absent. */
const state_entry *state_snapshot_find(const state_snapshot *snapshot, const char *name,
                                       size_t *position);

#endif
