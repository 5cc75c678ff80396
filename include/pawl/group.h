/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pawl/group.h: the ranks of a job that save and restore together.
 *
 * In a job of several processes each fills a pawl_group: which rank it is, of how many, and how the
 * ranks know that they belong to the same start of the job. That is all that pawl needs; it has no
 * network code of its own.
 *
 *   - With the two callbacks the ranks meet through what the job already has: pawl/mpi.h fills them
 *     for MPI, a Python program passes on torch.distributed.
 *   - Without callbacks they meet through the run's directory, and need `launch`.
 *
 * The ranks meet when they open a run, when they restore (pawl_restore, and pawl_checkpoint_restore
 * with a group, which needs no run), in pawl_meet, and in pawl_doctor with a group. These calls are
 * collective: every rank makes them, in the same order. No other call is: pawl_fence never waits
 * for another rank, nor does pawl_save unless the previous save is still in flight. Waiting for a
 * save to end (pawl_wait, pawl_run_close, pawl_save_final, a pawl_save that finds one in flight,
 * with PAWL_ON_BUSY_WAIT) means waiting for all ranks' parts of it, at most for the call's timeout.
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
     * Names this start of the job: the same text on all its ranks, and a different one when the job
     * is started again, such as the scheduler's job number with its restart count. 1 to
     * PAWL_MAX_LAUNCH_BYTES of printable ASCII without spaces. Copied. One start may open the run
     * any number of times, one after another. [NULL: none; needed without callbacks]
     */
    const char *launch;
    void *context; /* of the callbacks; lives as long as the run, or as the call that is given it */
    /*
     * Rank 0 receives `n` bytes of each rank, in the order of ranks, in `all` (world_size x n
     * bytes; NULL on the other ranks), and sets came[r] to 1 for each rank r that came in time.
     * Returns 0, also when ranks are missing; anything else is a failure of the group itself, for
     * which the collective call returns PAWL_EPEER.
     * Gives up after `deadline_s` seconds. Set both callbacks, or neither; a gather followed by a
     * broadcast is the only barrier that pawl needs.
     */
    int (*gather)(void *context, const void *mine, size_t n, void *all, unsigned char *came,
                  double deadline_s);
    /* Gives every rank the `n` bytes that rank 0 has in `bytes`. Returns 0; PAWL_ETIMEOUT when they
     * did not arrive within `deadline_s` seconds; anything else is a failure of the group itself.
     * Rank 0 need not wait until all ranks have them. */
    int (*broadcast)(void *context, void *bytes, size_t n, double deadline_s);
} pawl_group;

/* What an environment says about the job. Nothing here is to be freed: texts that are made for this
 * environment are in arrays. `launch` has room for the longest that a group may have. */
typedef struct pawl_group_found {
    size_t struct_size;                     /* sizeof(pawl_group_found) */
    int rank, world_size;                   /* 0 and 1 where it says nothing */
    int local_rank, local_size;             /* on this node; -1 and 0: not known */
    const char *source;                     /* static: "torchrun", "Slurm", ...; "none" */
    char launch[PAWL_MAX_LAUNCH_BYTES + 1]; /* "": nothing names this start of the job */
    char text[1024]; /* for people: what was decided, and from which variables; cut if longer */
} pawl_group_found;

/*
 * Finds rank and world size in an environment: `environment` is an array of "NAME=value" that ends
 * with NULL, such as environ. Looks, in this order, for torchrun, TF_CONFIG (of TensorFlow:
 * the chief, then the workers; not with parameter servers), Slurm, Open MPI, PMIx, PMI
 * (MPICH, Intel MPI, Cray), MVAPICH, PALS, JSM, Flux, and Kubernetes' indexed jobs. Variables that
 * a scheduler sets in a shell that it did not launch as a rank (an interactive allocation) are
 * ignored. PAWL_EMISMATCH names two sources that disagree, PAWL_EUSAGE a variable that is negative
 * or not a number, PAWL_ELIMIT one that is above PAWL_MAX_RANKS.
 */
PAWL_API pawl_status pawl_group_discover(const char *const *environment, pawl_group_found *found,
                                         pawl_error *err) PAWL_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
