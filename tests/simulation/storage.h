/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage as each process of the cluster sees it: one store in memory behind it all, and
 * between, what distance does. Operations take time; listings, attributes and "no such file" may be
 * those of a moment ago, as on NFS, where what a process of the same host changed is seen at once;
 * and an operation may be the process's last.
 */
#ifndef SIMULATION_STORAGE_H
#define SIMULATION_STORAGE_H

#include "simulation/machine.h"
#include "store/store.h"

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
} storage_event;

typedef struct storage {
    store *truth;
    uint64_t latency_ns; /* of an operation, about */
    uint64_t stale_ns;   /* an answer may be repeated for so long; 0: never */
    bool trace;
    void (*watch)(void *context, const storage_event *event); /* may be NULL */
    void *context;
    uint64_t operations;
    struct storage_host *hosts;
} storage;

/* A view of it, to be destroyed by who uses it; or of another one, which nobody else sees. */
store *storage_view(storage *s, machine *m, bool of_another);

#endif
