/* SPDX-License-Identifier: Apache-2.0 */
/*
 * group/launchers: what each of the launchers that start the ranks of a job tells them through
 * their environment. Private to the group layer.
 *
 * The environment may hold anything: a value is used as a number within its range, refused, or
 * copied character by character. A variable that is empty counts as not set.
 */
#ifndef GROUP_LAUNCHERS_H
#define GROUP_LAUNCHERS_H

#include "group/group.h"

#define LAUNCHER_NAMES 3

typedef struct launcher {
    const char *name;
    /* Variables; of several the first that is set. */
    const char *rank[LAUNCHER_NAMES], *size[LAUNCHER_NAMES];
    const char *local_rank[LAUNCHER_NAMES], *local_size[LAUNCHER_NAMES];
    /* Each that is set helps to name one start of a job. */
    const char *start[5]; /* ends with NULL */
    /* A launcher may be started by one of a smaller depth, one process per node. */
    int depth;
} launcher;

typedef enum launcher_id {
    BY_TORCHRUN,
    BY_TF_CONFIG,
    BY_SLURM,
    BY_OPEN_MPI,
    BY_PMIX,
    BY_PMI,
    BY_MVAPICH,
    BY_PALS,
    BY_JSM,
    BY_FLUX,
    BY_KUBERNETES,
    LAUNCHERS
} launcher_id;

/* What one launcher says. */
typedef struct claim {
    launcher_id id;
    const launcher *by;
    const char *name;
    bool made;
    /* Its numbers are those of other launchers, which it started and which started the ranks. */
    bool of_launchers;
    launcher_id explained_by; /* that other launcher */
    int rank, size;           /* size 0: not said */
    int local_rank, local_size;
    const char *rank_from, *size_from, *local_rank_from, *local_size_from; /* variables */
} claim;

/* NULL: not set, or empty. */
const char *environment_get(const char *const *environment, const char *name);
/* A number as a variable has it; PAWL_EUSAGE naming the variable, PAWL_ELIMIT where it is above
 * `most`. Not set: *there is false. */
pawl_status environment_number(const char *const *environment, const char *name, int64_t least,
                               int64_t most, int64_t *out, bool *there, pawl_error *err)
    PAWL_MUST_CHECK;

/* All claims, and which of them are of launchers. */
pawl_status claims_read(const char *const *environment, claim claims[LAUNCHERS], pawl_error *err)
    PAWL_MUST_CHECK;
/* The claim that TF_CONFIG makes, if it makes one: tf_config.c. PAWL_EUSAGE where it cannot be
 * read. */
pawl_status claim_tf_config(const char *const *environment, claim *c, pawl_error *err)
    PAWL_MUST_CHECK;
/* How many agents torchrun says it has; 0: it does not say. */
int torchrun_agents(const char *const *environment, const claim *c);
/* Do they mean the same rank of the same job size? */
bool claims_agree(const claim *a, const claim *b);
/* "rank 3 of 8 (RANK=3, WORLD_SIZE=8)" */
const char *claim_text(char out[160], const claim *c);

/* Names this start of the job, or makes it "": launch.c. `decided` is one of `claims`. */
void launch_name(const char *const *environment, const claim claims[LAUNCHERS],
                 const claim *decided, char out[PAWL_MAX_LAUNCH_BYTES + 1]);

#endif
