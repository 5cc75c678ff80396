/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job in the simulated cluster: ranks that open a run together, continue from what is there,
 * train, save and close, each on a machine of its own, through the run layer as it is.
 */
#ifndef SIMULATION_JOB_H
#define SIMULATION_JOB_H

#include "run/run.h"
#include "simulation/promises.h"
#include "simulation/training.h"

typedef struct job job;

/* What a rank was last told of a save, and when. */
typedef struct rank_news {
    int64_t step; /* -1: nothing */
    pawl_status status;
    char text[1536];
    double after_s; /* since it began to wait for it */
} rank_news;

typedef struct rank_process {
    machine machine;
    job *job;
    pawl_run *run;
    training training;
    const char *doing; /* for messages; NULL: it has ended */
    uint64_t doing_since_ns;
    int64_t unseen_step;   /* saved, and nobody knows yet how that went; -1 */
    int64_t given_up_step; /* of which the log told; -1 */
    pawl_status opened, restored;
    pawl_status worst; /* of its saves */
    int64_t restored_step;
    rank_news news;
    rank_news opening; /* when it failed */
    uint64_t gathers, broadcasts;
} rank_process;

/* What one rank of a job does that the others do not: nothing may come of it. */
typedef enum oddness {
    ODD_NOT,
    ODD_STORAGE, /* sees another storage */
    ODD_SHAPE,   /* has another shape for what all share */
    ODD_VALUE,   /* has another value for what all share */
    ODD_STEP     /* saves other steps */
} oddness;

typedef struct job_plan {
    int world_size;
    oddness odd;
    int odd_rank;
    bool threads;   /* the library's own run beside the trainer's */
    bool callbacks; /* the ranks meet through the job, else through the storage */
    bool elsewhere; /* on other hosts than the other jobs */
    int ranks_a_host;
    double lease_s, group_deadline_s, deadline_s;
    int64_t keep_last;
    int steps, save_every;
    bool patient; /* waits for each save */
    bool stops_at_failure;
    bool meets;              /* the ranks tell each other at each step (pawl_meet) */
    uint64_t cancels_one_of; /* so many saves are given up; 0: none */
    pawl_on_busy on_busy;
    double step_s;                                                 /* training takes so long */
    uint64_t begin_spread_ns;                                      /* ranks begin within */
    void (*at_save)(void *context, rank_process *r, int64_t step); /* may be NULL */
    void *at_save_context;
} job_plan;

struct job {
    int number; /* from 1; names its launch */
    job_plan plan;
    const model *model;
    storage *storage;
    promises *promises;
    rank_process *ranks;
    int ended;
    int64_t restored_step; /* -2: nobody has restored yet; -1: there was nothing */
    struct rendezvous *meetings;

    char launch[32];
};

job *job_new(int number, const job_plan *plan, const model *m, storage *s, promises *p, cluster *c,
             uint64_t seed);
void job_start(job *j);
/* Every rank has ended, died or stands still. */
bool job_is_over(const job *j);
void job_stop(job *j); /* all its processes stand still */
void job_go_on(job *j);
void job_kill(job *j);
/* Nothing came of a job with an odd rank, and everybody was told. */
void job_check_odd(const job *j);
/* Opened, restored where there was something, saved everything. */
bool job_did_well(const job *j);
/* A rank's wait may take so long, at most. */
double job_patience_s(const job *j);

/* group.c: callbacks of a group, through the job's memory. */
struct pawl_group job_group(rank_process *r);

#endif
