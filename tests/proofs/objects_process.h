/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that saves to an object store, and what befalls it at a call to the storage: it dies,
 * it stands still while others go on, or it is told that the call failed, whether or not it was
 * done.
 */
#ifndef PROOFS_OBJECTS_PROCESS_H
#define PROOFS_OBJECTS_PROCESS_H

#include "lib/simulated_platform.h"
#include "stores/stores.h"

typedef enum fate_kind {
    FATE_NONE,
    FATE_DIES,   /* all calls that follow do nothing */
    FATE_PAUSES, /* `pause` is called */
    FATE_FAILS,  /* the process hears system_errno */
    /* It hears system_errno, or nothing any more where that is 0. A put or a removal is done when
     * process_deliver is called, as long as its condition holds then. */
    FATE_LATE
} fate_kind;

/* At the n-th call, counted from 1. */
typedef struct fate {
    fate_kind kind;
    uint64_t nth;
    bool done; /* the call had its effect before */
    int system_errno;
    uint64_t outage;  /* so many calls after it are not done, either */
    bool of_manifest; /* at another call nothing happens that is worth a look */
} fate;

#define MOST_FATES 2

typedef struct process {
    simulated_platform os;     /* the first member; but its time is that of `clock` */
    store *storage;            /* borrowed; all processes share it, */
    simulated_platform *clock; /* and the clock, which goes on with what they do */
    fate fates[MOST_FATES];
    uint64_t calls;
    bool dead;
    uint64_t outage;       /* that is left */
    bool idle;             /* its fate is of manifests, and this call is of none */
    store_call on_its_way; /* a copy; path NULL: nothing is */
    store_tag expected, now;
    bool delivered; /* and was done */
    bool befallen[MOST_FATES];
    void (*pause)(void *context);
    void *pause_context;
    /* Told of each call that was done and changed something; may be NULL. */
    void (*changed)(void *context, const store_call *call);
    void *changed_context;
    char at[STORE_MAX_PATH + 32]; /* the call at which the first fate befell it, for messages */
} process;

/* One of a host of its own. */
void process_init(process *p, store *storage, simulated_platform *clock, uint64_t number);
/* The storage as the process sees it; with `retries`, as one that repeats what may pass. Whoever
 * gets it destroys it. */
store *process_view(process *p, bool retries);
/* What was on its way arrives. */
void process_deliver(process *p);
void process_free(process *p);
/* Has everything befallen it that was to? */
bool process_met_its_fate(const process *p);

#endif
