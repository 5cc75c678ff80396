/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stores: the stores that tests put in the place of a disk. `mem` keeps everything in memory,
 * `objects` too, as an object store does; `crash` also knows what a power loss would take; `fault`
 * and `trace` wrap another store and make its operations fail, or report them. src/store/store.h
 * says what a store is.
 *
 * Threads: as any store, they may be used by several threads at once; `each` of a trace is called
 * on the thread whose operation it was. Ownership: whoever made a store destroys it; these
 * wrappers do not own what they wrap, and are destroyed before it.
 */
#ifndef STORES_STORES_H
#define STORES_STORES_H

#include "store/wrap.h"

/* mem: everything in memory; deterministic. */
pawl_status store_mem(store **out, pawl_error *err) PAWL_MUST_CHECK;

/*
 * objects: an object store in memory. It can what `objects` of store_traits says, and refuses the
 * rest. Tags are made from the bytes, as ETags are. Removing what is not there succeeds.
 *
 * Where it is late, each look (an open, a lookup, each name of a listing) shows a version that was
 * there at some moment of the last late_s seconds, by the platform's monotonic clock: the oldest
 * such, or, with a seed, any. Conditions are decided on what is there.
 */
typedef struct store_objects_options {
    double late_s;                      /* 0: what is there now is seen, always */
    uint64_t seed;                      /* 0: everything is as late as it can be */
    uint32_t part_bytes_min, parts_max; /* as in store_traits */
} store_objects_options;
pawl_status store_objects(const platform *os, const store_objects_options *options, store **out,
                          pawl_error *err) PAWL_MUST_CHECK;
/* What the environment variable PAWL_TEST_STORE names: "objects", or "late", by 20 ms; else mem. */
pawl_status store_chosen(const platform *os, store **out, pawl_error *err) PAWL_MUST_CHECK;
/* A view of any store that is late that shows what is there; of others, `s` itself. Destroyed by
 * store_truth_destroy, before it. */
pawl_status store_truth(store *s, store **out, pawl_error *err) PAWL_MUST_CHECK;
void store_truth_destroy(store *truth, store *s);
/* All looks from now on show what is there now, or later. */
void store_objects_catch_up(store *objects);
size_t store_objects_uploads(store *objects); /* begun, and neither complete nor given up */

#define STORE_OP_ANY STORE_OP_COUNT /* in a fault or a count: operations of every kind */
const char *store_op_name(store_op op);
static inline bool store_call_moves_bytes(const store_call *call) {
    return call->op == STORE_OP_READ || call->op == STORE_OP_WRITE;
}

/* fault: fails, shortens, delays or hangs the n-th operation of a kind. */
typedef struct store_fault {
    store_op op;       /* STORE_OP_ANY: of any kind */
    uint64_t nth;      /* 1: the next one of that kind; 0: no fault */
    int system_errno;  /* fail with it; 0: do not fail */
    bool lost;         /* done, and only its answer is lost: the failure is system_errno */
    bool forever;      /* that one and all later ones of its kind */
    bool shorten;      /* a read or write moves half of its bytes (at least 1) */
    uint64_t delay_ns; /* slept before the operation */
    bool hang;         /* blocks until store_fault_release */
} store_fault;
pawl_status store_fault_wrap(store *inner, const platform *os, store **out, pawl_error *err)
    PAWL_MUST_CHECK;
void store_fault_set(store *fault, const store_fault *plan); /* restarts counting */
uint64_t store_fault_count(store *fault, store_op op);       /* operations since then */
bool store_fault_fired(store *fault);
void store_fault_release(store *fault);

/* trace: calls back after each operation. `each` NULL: passes on only. */
typedef struct store_trace_event {
    store_op op;
    const char *path, *to; /* `to`: rename */
    uint64_t at, bytes;
    pawl_status status;
    double seconds;
} store_trace_event;
pawl_status store_trace_wrap(store *inner, const platform *os,
                             void (*each)(void *context, const store_trace_event *event),
                             void *context, store **out, pawl_error *err) PAWL_MUST_CHECK;

/*
 * crash: a filesystem that forgets. It keeps what is durable apart from what is pending since the
 * last sync (writes, sizes, names). A test asks for any world, that is: any state of the disk, that
 * a power loss at this point could leave, within the declared traits. */
pawl_status store_crash(const store_traits *traits, store **out, pawl_error *err) PAWL_MUST_CHECK;
/* Operations so far that changed something or synced. */
uint64_t store_crash_operations(const store *crash);
/* After `limit` further changes every operation fails with EIO, as if the machine had stopped;
 * UINT64_MAX: never. */
void store_crash_stop_after(store *crash, uint64_t limit);
/* Pending items now: each may have reached the disk or not, within the traits. */
size_t store_crash_pending(const store *crash);
/*
 * Builds the world in which exactly the pending items with keep[i] reached the disk, as a new mem
 * store; of writes kept, `torn` (i, or SIZE_MAX for none) is torn: only its first half, in sectors
 * of atomic_write_bytes, arrived, or within one sector the file's growth without the bytes.
 * PAWL_EUSAGE: the traits forbid it, or it repeats another world. All and none are allowed.
 */
pawl_status store_crash_world(const store *crash, const bool *keep, size_t count, size_t torn,
                              store **out, pawl_error *err) PAWL_MUST_CHECK;

#endif
