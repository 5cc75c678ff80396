/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes beside the jobs that look into the run again and again: they list it, open the newest
 * checkpoint, read all of it, some for a while, and may die at it. They watch, as promises.h does:
 *
 * B1. Where a checkpoint is, and has been for longer than the storage lags, nobody who lists or
 *     opens the newest hears that there is nothing.
 * B2. What is whole is not said to be damaged.
 * B3. What was opened, and marked, can be read until it is closed: every byte, all of one save;
 *     also after a rest of several leases, where a thread advances the mark. On storage that lags
 *     a new mark may be seen too late; then reading fails, and says so.
 */
#ifndef SIMULATION_READERS_H
#define SIMULATION_READERS_H

#include "simulation/promises.h"
#include "simulation/training.h"

#define READERS_MOST 3

typedef struct reader_process {
    machine machine;
    store *view;
    storage *storage;
    promises *promises;
    const model *model;
    uint64_t pause_ns; /* between two looks, at most */
    bool unmarked;     /* the log said so of the latest opening */
    uint64_t opened_ns;
    bool *over;        /* of the world */
    const char *doing; /* NULL: it has ended */
} reader_process;

void reader_process_start(reader_process *r, const char *host, cluster *c, storage *s, promises *p,
                          const model *m, uint64_t seed, bool *over);

#endif
