/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of several ranks on one run, by the public headers alone: real processes that meet through
 * the run's directory, or threads that meet through callbacks. What each rank says comes back.
 */
#ifndef OUTSIDE_JOB_H
#define OUTSIDE_JOB_H

#include "lib/directory.h"
#include "lib/local_group.h"
#include "lib/test.h"

#include <pawl/restore.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define JOB_MAX_RANKS 4

/* What a rank did, and what it was told. */
typedef struct job_told {
    pawl_status status; /* of the first call that failed */
    char text[6000];    /* of the error */
    char report[6000];  /* of a restore */
    int64_t restored;   /* entries */
    int wrong;          /* bytes that are not as they should be */
} job_told;

typedef struct job {
    char path[64]; /* of the run */
    int ranks;
    int callbacks; /* 0: processes, and the directory */
    int checking;
    double group_deadline_s; /* 0: a minute */
    unsigned starts;
    /* With the run open; its status is that of the rank. */
    pawl_status (*body)(struct job *j, int rank, pawl_run *run, pawl_error *err);
    const void *context; /* of the body */
    job_told *told;      /* by rank; shared with the processes */
    local_group *group;
} job;

static inline int job_set_up(void **state) {
    static job j;
    j = (job){.ranks = 2};
    directory_new(j.path, "/tmp");
    j.told = mmap(NULL, sizeof(job_told) * JOB_MAX_RANKS, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *state = &j;
    return j.told == MAP_FAILED ? -1 : 0;
}

static inline int job_tear_down(void **state) {
    job *j = *state;
    (void)munmap(j->told, sizeof(job_told) * JOB_MAX_RANKS);
    directory_delete(j->path);
    return 0;
}

static inline pawl_status job_open(job *j, int rank, pawl_run **run, pawl_error *err) {
    char launch[32];
    (void)snprintf(launch, sizeof launch, "start-%u", j->starts);
    pawl_group group = j->callbacks ? local_group_of(j->group, rank)
                                    : (pawl_group){.struct_size = sizeof group,
                                                   .rank = rank,
                                                   .world_size = j->ranks,
                                                   .launch = launch};
    const pawl_run_options options = {.struct_size = sizeof options,
                                      .group = j->ranks > 1 ? &group : NULL,
                                      .checking = j->checking,
                                      .deadline_s = 60,
                                      .group_deadline_s =
                                          j->group_deadline_s > 0 ? j->group_deadline_s : 60,
                                      .no_event_file = 1};
    return pawl_run_open(j->path, &options, run, err);
}

static inline void job_rank(void *context, int rank) {
    job *j = context;
    job_told *told = &j->told[rank];
    pawl_run *run = NULL;
    pawl_error *err = pawl_error_new();
    pawl_error *ignored = pawl_error_new();
    told->status = job_open(j, rank, &run, err);
    if (told->status == PAWL_OK) {
        told->status = j->body(j, rank, run, err);
    }
    if (told->status != PAWL_OK) {
        (void)snprintf(told->text, sizeof told->text, "%s", pawl_error_text(err));
    }
    (void)pawl_run_close(run, 60, ignored);
    pawl_error_free(ignored);
    pawl_error_free(err);
}

static inline void job_fork(job *j) {
    pid_t children[JOB_MAX_RANKS];
    for (int r = 0; r < j->ranks; r++) {
        children[r] = fork();
        assert_true(children[r] >= 0);
        if (children[r] == 0) {
            job_rank(j, r);
            _exit(0);
        }
    }
    for (int r = 0; r < j->ranks; r++) {
        int status = 0;
        assert_int_equal(waitpid(children[r], &status, 0), children[r]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

/* One start of the job. */
static inline void job_run(job *j,
                           pawl_status (*body)(job *j, int rank, pawl_run *run, pawl_error *err)) {
    memset(j->told, 0, sizeof(job_told) * JOB_MAX_RANKS);
    j->body = body;
    j->starts++;
    if (!j->callbacks) {
        job_fork(j);
        return;
    }
    j->group = local_group_new(j->ranks);
    local_group_run(j->ranks, job_rank, j);
    local_group_free(j->group);
}

static inline void assert_job_ok(const job *j) {
    for (int r = 0; r < j->ranks; r++) {
        if (j->told[r].status != PAWL_OK || j->told[r].wrong != 0) {
            fail_msg("rank %d: %s, %d wrong: %s", r, pawl_status_name(j->told[r].status),
                     j->told[r].wrong, j->told[r].text);
        }
    }
}

/* All ranks failed with that status, and each error's text has the words. */
static inline void assert_job_fails(const job *j, pawl_status status, const char *words) {
    for (int r = 0; r < j->ranks; r++) {
        if (j->told[r].status != status || strstr(j->told[r].text, words) == NULL) {
            fail_msg("rank %d: %s, without \"%s\": %s", r, pawl_status_name(j->told[r].status),
                     words, j->told[r].text);
        }
    }
}

#endif
