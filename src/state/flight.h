/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flight: a snapshot in flight: a save that still reads the memory of a state's tensors (S02), or
 * a restore that was given up and may still write to it. The state finds by it which of its tensors
 * are in use; the snapshot ends it, on any thread.
 */
#ifndef STATE_FLIGHT_H
#define STATE_FLIGHT_H

#include "state/entry.h"
#include "state/map.h"

struct flight {
    atomic_uint references; /* of the state, of the snapshot, and of a call that copies */
    atomic_bool over;
    int64_t step;
    bool writes;     /* a restore */
    bool copied;     /* it no longer uses the tensors that pawl_save copies */
    uint64_t newest; /* it uses the state's tensors up to that number (held_entry) */
    struct flight *earlier;
};

pawl_status flight_begin(pawl_state *state, int64_t step, flight **out, pawl_error *err)
    PAWL_MUST_CHECK;
/* Any thread; the caller's reference is gone. NULL is fine. */
void flight_end(flight *f);
/* The latest that is not over; NULL: none. It uses every tensor that an earlier one uses. */
const flight *flight_latest(pawl_state *state);
/* Does it use the memory of that entry, which is still in the state? */
bool flight_uses(const flight *f, const state_entry *e);
/* The state is being freed; its flights are not over for that. */
void flight_forget_all(pawl_state *state);

#endif
