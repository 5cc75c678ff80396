/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/group.h: the ranks of a job that save and restore together.
 *
 * A job of several processes hands each of them a pawl_group: which rank it is, of how many, and
 * how the ranks know that they belong to the same start of the job. That is all that pawl needs; it
 * brings no network of its own.
 *
 *   - With the two callbacks the ranks meet through what the job already has: pawl/mpi.h fills them
 *     for MPI, a Python program passes on torch.distributed.
 *   - Without callbacks they meet through the run's directory, and need `launch`.
 *
 * The ranks meet when they open a run, when they restore, and in pawl_meet. These calls are
 * collective: every rank makes them, in the same order. Nothing else is: pawl_fence never waits
 * for another rank, nor does pawl_save unless the save before it is still in flight. Who waits for
 * a save to end (pawl_wait, pawl_run_close, pawl_save_final, a pawl_save that finds one in flight,
 * with PAWL_ON_BUSY_WAIT) waits for what all ranks do of it, up to the deadline of the call.
 * Callbacks are called on the thread that made the collective call, never on a thread of pawl's
 * own.
 */
#ifndef PAWL_GROUP_H
#define PAWL_GROUP_H

#include <pawl/error.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_MAX_RANKS        100000
#define PAWL_MAX_LAUNCH_BYTES 255

typedef struct pawl_group {
    size_t struct_size; /* sizeof(pawl_group) */
    int rank;           /* 0 to world_size - 1 */
    int world_size;     /* processes that save together, 1 to PAWL_MAX_RANKS */
    /*
     * Names this start of the job: the same text on all its ranks, and another one when the job is
     * started again, such as the scheduler's job number with its restart count. Printable ASCII
     * without spaces, 1 to PAWL_MAX_LAUNCH_BYTES of it. Copied. One start may open the run any
     * number of times, one after another. [NULL: none; needed without callbacks]
     */
    const char *launch;
    void *context; /* of the callbacks; lives as long as the run */
    /*
     * Rank 0 receives `n` bytes of each rank, in the order of ranks, in `all` (world_size x n
     * bytes; NULL on the other ranks), and sets came[r] to 1 for each rank r that came in time.
     * Returns 0, also when ranks are missing; anything else is a failure of the group itself, which
     * the collective call tells as PAWL_EPEER.
     * Gives up after `deadline_s` seconds. Both callbacks, or neither; a gather and a broadcast
     * together are the only barrier that pawl needs.
     */
    int (*gather)(void *context, const void *mine, size_t n, void *all, unsigned char *came,
                  double deadline_s);
    /* Gives every rank the `n` bytes that rank 0 has in `bytes`. Returns 0; PAWL_ETIMEOUT when they
     * did not come within `deadline_s` seconds; anything else is a failure of the group itself.
     * Rank 0 need not wait until all have them. */
    int (*broadcast)(void *context, void *bytes, size_t n, double deadline_s);
} pawl_group;

/* What an environment says of the job. */
typedef struct pawl_group_found {
    size_t struct_size;
    int rank, world_size;                   /* 0 and 1 where nothing says otherwise */
    int local_rank, local_size;             /* on this node; -1 and 0: not said */
    char launch[PAWL_MAX_LAUNCH_BYTES + 1]; /* "": nothing names this start of the job */
    char source[32];                        /* "torchrun", "Slurm", "Open MPI", ...; "none" */
    char text[1024]; /* what was decided, and from which variables, for people */
} pawl_group_found;

/*
 * Finds rank and world size in an environment: `environment` is an array of "NAME=value" that ends
 * with NULL, such as environ. Looks, in this order, for torchrun, Slurm, Open MPI, PMIx, PMI
 * (MPICH, Intel MPI, Cray), MVAPICH, PALS, JSM, Flux, and Kubernetes' indexed jobs. Variables that
 * a scheduler sets in a shell that it did not launch as a rank (an interactive allocation) count as
 * nothing. PAWL_EMISMATCH naming both where two sources disagree; PAWL_EUSAGE naming the variable
 * that is no number or out of range. `found->struct_size` is set by the caller.
 */
PAWL_API pawl_status pawl_group_discover(const char *const *environment, pawl_group_found *found,
                                         pawl_error *err) PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
