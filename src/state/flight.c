/* SPDX-License-Identifier: Apache-2.0 */
/* Begins, ends and finds the flights of a state. */
#include "state/flight.h"

static void let_go(flight *f) {
    if (atomic_fetch_sub_explicit(&f->references, 1, memory_order_acq_rel) == 1) {
        mem_free(f);
    }
}

static bool is_over(const flight *f) {
    return atomic_load_explicit(&f->over, memory_order_acquire);
}

flight *state_flight_hold(flight *f) {
    (void)atomic_fetch_add_explicit(&f->references, 1, memory_order_relaxed);
    return f;
}

void state_flight_let_go(flight **f) {
    if (*f != NULL) {
        let_go(*f);
    }
}

/* Takes those that are over off the state's list. */
static void forget_ended(pawl_state *state) {
    flight **link = &state->flights;
    while (*link != NULL) {
        flight *f = *link;
        if (is_over(f)) {
            *link = f->earlier;
            let_go(f);
        } else {
            link = &f->earlier;
        }
    }
}

pawl_status flight_begin(pawl_state *state, int64_t step, flight **out, pawl_error *err) {
    flight *f = mem_alloc(sizeof(*f));
    if (f == NULL) {
        return error_nomem(err, sizeof(*f));
    }
    forget_ended(state);
    *f = (flight){.step = step, .newest = state->added, .earlier = state->flights};
    atomic_init(&f->references, 2);
    atomic_init(&f->over, false);
    state->flights = f;
    *out = f;
    return PAWL_OK;
}

void flight_end(flight *f) {
    if (f != NULL) {
        atomic_store_explicit(&f->over, true, memory_order_release);
        let_go(f);
    }
}

const flight *flight_latest(pawl_state *state) {
    forget_ended(state);
    return state->flights;
}

bool flight_uses(const flight *f, const state_entry *e) {
    const held_entry *held = (const held_entry *)(const void *)e;
    return f != NULL && e->kind == PAWL_KIND_TENSOR && held->number <= f->newest &&
           !(f->copied && e->copied);
}

/* An earlier one that still uses them stands behind this one: flight_latest. Once this one is over
 * the state may have forgotten it, and those before it. */
void state_flight_has_copied(flight *f) {
    if (is_over(f)) {
        return;
    }
    const flight *earlier = f->earlier;
    while (earlier != NULL && is_over(earlier)) {
        earlier = earlier->earlier;
    }
    f->copied = earlier == NULL || earlier->copied;
}

void flight_forget_all(pawl_state *state) {
    while (state->flights != NULL) {
        flight *f = state->flights;
        state->flights = f->earlier;
        f->earlier = NULL; /* for who holds it still */
        let_go(f);
    }
}
