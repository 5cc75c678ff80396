/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranks: the processes that mpirun started.
 *
 * Every collective call is nonblocking and then tested again and again: so it can time out, and a
 * rank that waits leaves its processor to others.
 */
#include "ranks.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>
#include <pawl/mpi.h>

#include "die.h"
#include "events.h"

enum { LEAVE_TIMEOUT_S = 3 }; /* how long a rank that ends early waits for the others to end, too */

struct ranks_job {
    MPI_Comm comm;
    MPI_Comm leaving; /* its own communicator: leaving is no other collective call */
    pawl_mpi pawl;    /* pawl's messages, on a communicator of their own */
    pawl_group group;
    int *counts, *offsets;
};

/* Static, since functions called by exit() take no argument. */
static struct ranks_job job = {.comm = MPI_COMM_NULL};

/* ---- waiting -------------------------------------------------------------------------------- */

static int is_done_within(MPI_Request *request, double deadline_s) {
    const struct timespec nap = {.tv_nsec = 50000};
    const double end = seconds_now() + deadline_s;
    int done = 0;
    for (int asked = 0; !done; asked++) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
        if (!done && seconds_now() > end) {
            return 0;
        }
        if (!done && asked < 100) {
            sched_yield();
        } else if (!done) {
            nanosleep(&nap, NULL);
        }
    }
    return 1;
}

static void finish(MPI_Request *request) {
    if (!is_done_within(request, RANKS_TIMEOUT_S)) {
        die(1, "the other ranks did not come within %d s", RANKS_TIMEOUT_S);
    }
}

/* ---- coming and going ----------------------------------------------------------------------- */

/* If all ranks end, ends MPI; if not, ends all of them. */
static void leave(double deadline_s) {
    MPI_Request request;
    MPI_Ibarrier(job.leaving, &request);
    if (!is_done_within(&request, deadline_s)) {
        MPI_Abort(job.comm, EXIT_FAILURE);
    }
    pawl_mpi_free(&job.pawl);
    free(job.counts);
    free(job.offsets);
    MPI_Comm_free(&job.leaving);
    MPI_Comm_free(&job.comm);
    MPI_Finalize();
}

static void leave_early(void) {
    if (job.comm != MPI_COMM_NULL) {
        (void)fflush(NULL);
        leave(LEAVE_TIMEOUT_S);
    }
}

void ranks_open(struct ranks *ranks) {
    int provided = 0; /* pawl's own threads never call MPI */
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_dup(MPI_COMM_WORLD, &job.comm);
    MPI_Comm_dup(MPI_COMM_WORLD, &job.leaving);
    if (pawl_mpi_group(job.comm, &job.pawl, &job.group) != MPI_SUCCESS) {
        die(1, "MPI has no communicator for pawl");
    }
    *ranks = (struct ranks){.group = &job.group, .job = &job};
    MPI_Comm_rank(job.comm, &ranks->place.rank);
    MPI_Comm_size(job.comm, &ranks->place.ranks);
    job.counts = allocate((size_t)ranks->place.ranks, sizeof *job.counts);
    job.offsets = allocate((size_t)ranks->place.ranks, sizeof *job.offsets);
    if (atexit(leave_early) != 0) {
        die(1, "no room for what is to be done at the end");
    }
    if (ranks->place.rank > 0 && !freopen("/dev/null", "w", stdout)) {
        die(1, "cannot open /dev/null");
    }
}

void ranks_close(struct ranks *ranks) {
    (void)fflush(NULL);
    leave(RANKS_TIMEOUT_S);
    ranks->job = NULL;
}

/* ---- exchanging ----------------------------------------------------------------------------- */

/* MPI counts in int. */
static int as_int(size_t n) {
    if (n > INT_MAX) {
        die(1, "%zu bytes are more than one message of MPI takes", n);
    }
    return (int)n;
}

static void lay_out(const struct ranks *ranks, const size_t *sizes) {
    size_t offset = 0;
    for (int rank = 0; rank < ranks->place.ranks; rank++) {
        job.counts[rank] = as_int(sizes[rank]);
        job.offsets[rank] = as_int(offset);
        offset += sizes[rank];
    }
}

void ranks_exchange(const struct ranks *ranks, const void *from, const size_t *sizes, void *to) {
    const int count = ranks->place.ranks;
    const int own = as_int(sizes[ranks->place.rank]);
    int *own_counts = allocate((size_t)count, sizeof *own_counts);
    int *own_offsets = allocate((size_t)count, sizeof *own_offsets);
    for (int rank = 0; rank < count; rank++) {
        own_counts[rank] = own;
        own_offsets[rank] = as_int((size_t)rank * (size_t)own);
    }
    lay_out(ranks, sizes);
    MPI_Request request;
    MPI_Ialltoallv(from, job.counts, job.offsets, MPI_BYTE, to, own_counts, own_offsets, MPI_BYTE,
                   job.comm, &request);
    finish(&request);
    free(own_counts);
    free(own_offsets);
}

void ranks_share(const struct ranks *ranks, void *bytes, const size_t *sizes) {
    lay_out(ranks, sizes);
    MPI_Request request;
    MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_BYTE, bytes, job.counts, job.offsets, MPI_BYTE, job.comm,
                    &request);
    finish(&request);
}

void ranks_tell(const struct ranks *ranks, const void *mine, size_t n, void *all) {
    const size_t count = (size_t)ranks->place.ranks;
    size_t *sizes = allocate(count, sizeof *sizes);
    for (size_t rank = 0; rank < count; rank++) {
        sizes[rank] = n;
    }
    memcpy((char *)all + (size_t)ranks->place.rank * n, mine, n);
    ranks_share(ranks, all, sizes);
    free(sizes);
}
