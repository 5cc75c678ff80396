/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of the simulated cluster: its platform (clock, randomness, threads, identity), and what
 * is to befall it. Time is that of fibers.h; each process looks at a clock with an offset of its
 * own. Its threads are fibers, or run in line where it has none.
 */
#ifndef SIMULATION_MACHINE_H
#define SIMULATION_MACHINE_H

#include "lib/random.h"
#include "simulation/fibers.h"

#define NS_PER_S UINT64_C(1000000000)

/* What happens at a storage operation of the process, counted from 1; 0: never. */
typedef struct machine_fate {
    uint64_t die_before, die_after; /* the operation has, or has not, had its effect */
    uint64_t stop_before, stop_after;
    /* Stands still while the n-th of this kind is on its way, to a file of this name [any]. */
    int stop_op;
    const char *stop_name;
    uint64_t stop_op_nth;
    uint64_t fail_at; /* with fail_errno */
    uint64_t fail_count;
    int fail_errno;
    unsigned slow; /* how much slower its storage is; 0: as everybody's */
} machine_fate;

typedef struct machine machine;
struct machine {
    fiber_group group;
    platform os;
    process_identity who;
    test_random random;
    int job, rank;
    machine_fate fate;
    fiber *trainer;      /* of the machine's fibers; the others are the library's threads */
    uint64_t operations; /* of storage, so far */
    uint64_t of_trainer; /* of these */
    uint64_t stop_ops;   /* of those that stop_op counts */
    bool has_ended;      /* the process has left by itself */
    bool was_stopped;    /* at some time */
    const struct cluster *cluster;
    machine *next; /* in it */
};

/* Processes that know of each other by host and pid, newest first. */
typedef struct cluster {
    machine *machines;
    int64_t next_pid;
} cluster;

void machine_init(machine *m, cluster *c, const char *host, uint64_t seed, bool threads);
void machine_stop(machine *m); /* until it goes on; returns then, when it is one's own */
void machine_go_on(machine *m);
/* Dead or gone. */
bool machine_is_gone(const machine *m);

#endif
