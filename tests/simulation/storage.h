/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage as each process of the cluster sees it: one store in memory behind it all, and
 * between, what distance does. Operations take time, an operation may be the process's last, and a
 * filesystem of several hosts (NFS, FUSE, a cluster's) lags:
 *
 * L1. A host's kernel answers by itself what it remembers: that a name does not exist (so it fails
 *     looks, removals and renames of that name), what a name's attributes are (so creating it, or
 *     a directory, fails with EEXIST), which names a directory has. It forgets what a process of
 *     the host changes itself, not what other hosts do.
 * L2. What another host made or removed in a directory shows later, in the order in which it was
 *     done; in listings later still; at the latest when the host changes the directory itself.
 * L3. A name that is there opens as it is now (close-to-open). What creates, removes or renames is
 *     done, or refused, by the storage itself, but for L1; from its answer the host learns.
 * L4. A change may be done and its reply be lost: the caller hears EIO or ETIMEDOUT, and the kernel
 *     goes on believing what it did.
 * L5. A change of names of which the caller heard that it timed out, or was interrupted, may be
 *     done later, whether the caller lives or not; unless it cannot be by then.
 *
 * On an object store L4 and L5 hold, but a change whose condition does not hold by then is not
 * done. Its looks show what is there, or, where it is late, what was there at some moment of the
 * last seconds, each look another (stores.h). A filesystem of one host shows what is there: where
 * no looks lag, and nothing is done late, some histories say that it is coherent.
 */
#ifndef SIMULATION_STORAGE_H
#define SIMULATION_STORAGE_H

#include "simulation/machine.h"
#include "stores/stores.h"

/* An operation that has had its effect, or failed. */
typedef struct storage_event {
    machine *by;
    store_op op;
    const char *path, *to;
    store_mode mode;
    const void *bytes; /* of a put */
    size_t n;
    pawl_status status;
    uint64_t begun_ns;
    bool unheard; /* whoever asked for it was told that it failed (L4, L5) */
} storage_event;

/* Zero: it does not happen. */
typedef struct storage_lags {
    uint64_t absent_ns, stat_ns, list_ns; /* L1: remembered for so long at most */
    uint64_t names_ns;                    /* L2: so late at most */
    uint64_t lost_one_of, late_one_of;    /* L4, L5: changes */
    uint64_t late_ns;                     /* L5: so late at most */
    bool of_manifests; /* L4, L5 befall nothing but manifests, and what is to become one */
    bool calm;         /* L4, L5 have come to an end */
} storage_lags;

typedef struct storage {
    store *truth;
    store *seen;         /* what all look into: the truth, or an object store that is late */
    uint64_t late_ns;    /* so late, at most */
    uint64_t latency_ns; /* of an operation, about */
    storage_lags lags;
    bool coherent;      /* what its views say of themselves (store_traits) */
    test_random random; /* of the lags */
    bool trace;
    void (*watch)(void *context, const storage_event *event); /* may be NULL */
    void *context;
    uint64_t operations;
    uint64_t lost, late; /* replies, effects */
    struct storage_host *hosts;
    struct storage_changes *changes;
    fiber_group group; /* who does what is done late */
} storage;

/* May a look show what is not so any more? */
bool storage_lags_looks(const storage *s);
/* After so long everybody sees what was done. */
uint64_t storage_most_lag_ns(const storage *s);
/* Who waits until an object store has caught up, again and again, waits so long in all. */
double storage_catching_up_s(const storage *s);
/* A view of it, to be destroyed by who uses it; or of another one, which nobody else sees. */
store *storage_view(storage *s, machine *m, bool of_another);

#endif
