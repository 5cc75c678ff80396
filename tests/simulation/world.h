/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One simulated history of a run, from a seed: a job to which something happens, another that takes
 * over, perhaps while the first stands still and then goes on, and a last one to which nothing
 * happens, and which must find everything in order.
 */
#ifndef SIMULATION_WORLD_H
#define SIMULATION_WORLD_H

#include "simulation/job.h"
#include "simulation/readers.h"

#define WORLD_MOST_JOBS 6

/* What the storage is. */
typedef enum world_storage {
    WORLD_BY_SEED, /* a filesystem, or an object store that is up to date */
    WORLD_FILESYSTEM,
    WORLD_OBJECTS,     /* an object store whose listings and reads are up to date */
    WORLD_OBJECTS_LATE /* one where they may be old */
} world_storage;

typedef struct world {
    uint64_t seed;
    test_random random;
    world_storage kind;
    storage storage;
    cluster cluster;
    promises promises;
    model model;
    job_plan plan;                  /* of the first job */
    job *jobs[WORLD_MOST_JOBS + 1]; /* by number, from 1 */
    int job_count;
    reader_process readers[READERS_MOST];
    bool over;  /* the readers may end */
    bool ended; /* the last job, too */
} world;

/* What came of it, for the table. */
typedef struct world_counts {
    uint64_t worlds, broken, operations, commits, read_back, deaths, stops, takeovers;
} world_counts;

/* A world in which nothing happens by itself: one storage, no jobs. */
void world_make(world *w, uint64_t seed, world_storage kind, bool trace);
void world_count(const world *w, world_counts *counts);
/* Of the lags that a seed chooses, only these kinds: 1 absences, 2 attributes, 4 listings, 8 names,
 * 16 replies, 32 effects. To find out which of them a failure needs. */
extern uint64_t world_lag_kinds;
/* A seed's whole history. Returns how many promises were broken. */
uint64_t world_live(uint64_t seed, int ranks, world_storage kind, bool trace, world_counts *counts);
/* Four ranks, say, of which one dies at the n-th storage operation of its second save; false when
 * it has no n-th. */
typedef struct world_death {
    int ranks, rank;
    uint64_t nth;
    bool after;
    bool callbacks, threads;
    world_storage storage;
} world_death;
bool world_die(const world_death *d, bool trace, world_counts *counts, uint64_t *broken);

job *world_job(world *w, const job_plan *plan);
/* Runs until every job is over and the driver has ended; says what still waits after `limit_s`. */
void world_run(world *w, void (*drive)(void *), double limit_s);

#endif
