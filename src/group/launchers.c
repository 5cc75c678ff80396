/* SPDX-License-Identifier: Apache-2.0 */
/* The table of launchers, and what they say in one environment. */
#include "group/launchers.h"

#include <stdio.h>
#include <string.h>

/* In the order in which they are asked. */
static const launcher table[LAUNCHERS] = {
    [BY_TORCHRUN] = {.name = "torchrun",
                     .rank = {"RANK"},
                     .size = {"WORLD_SIZE"},
                     .local_rank = {"LOCAL_RANK"},
                     .local_size = {"LOCAL_WORLD_SIZE"},
                     .start = {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR",
                               "MASTER_PORT"},
                     .depth = 4},
    [BY_TF_CONFIG] = {.name = "TF_CONFIG", .depth = 4},
    [BY_SLURM] = {.name = "Slurm",
                  .rank = {"SLURM_PROCID"},
                  .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
                  .local_rank = {"SLURM_LOCALID"},
                  .start = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
                  .depth = 1},
    /* Each mpirun of Open MPI 4 draws a new key for the transports; its namespace is only a short
     * hash. The namespace of Open MPI 5 has host and pid. */
    [BY_OPEN_MPI] = {.name = "Open MPI",
                     .rank = {"OMPI_COMM_WORLD_RANK"},
                     .size = {"OMPI_COMM_WORLD_SIZE"},
                     .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
                     .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"},
                     .start = {"PMIX_NAMESPACE", "OMPI_MCA_orte_precondition_transports"},
                     .depth = 3},
    [BY_PMIX] = {.name = "PMIx", .rank = {"PMIX_RANK"}, .start = {"PMIX_NAMESPACE"}, .depth = 3},
    /* MPICH's hydra names no start; Intel's does, and Cray's and Slurm's PMI. */
    [BY_PMI] = {.name = "PMI",
                .rank = {"PMI_RANK"},
                .size = {"PMI_SIZE"},
                .local_rank = {"PMI_LOCAL_RANK", "MPI_LOCALRANKID"},
                .local_size = {"PMI_LOCAL_SIZE", "MPI_LOCALNRANKS"},
                .start = {"PMI_JOBID", "I_MPI_HYDRA_UUID"},
                .depth = 3},
    [BY_MVAPICH] = {.name = "MVAPICH",
                    .rank = {"MV2_COMM_WORLD_RANK", "MVP_COMM_WORLD_RANK"},
                    .size = {"MV2_COMM_WORLD_SIZE", "MVP_COMM_WORLD_SIZE"},
                    .local_rank = {"MV2_COMM_WORLD_LOCAL_RANK", "MVP_COMM_WORLD_LOCAL_RANK"},
                    .local_size = {"MV2_COMM_WORLD_LOCAL_SIZE", "MVP_COMM_WORLD_LOCAL_SIZE"},
                    .depth = 3},
    [BY_PALS] = {.name = "PALS",
                 .rank = {"PALS_RANKID"},
                 .local_rank = {"PALS_LOCAL_RANKID"},
                 .local_size = {"PALS_LOCAL_SIZE"},
                 .start = {"PALS_APID"},
                 .depth = 3},
    [BY_JSM] = {.name = "JSM",
                .rank = {"JSM_NAMESPACE_RANK"},
                .size = {"JSM_NAMESPACE_SIZE"},
                .local_rank = {"JSM_NAMESPACE_LOCAL_RANK"},
                .local_size = {"JSM_NAMESPACE_LOCAL_SIZE"},
                .start = {"PMIX_NAMESPACE"},
                .depth = 1},
    [BY_FLUX] = {.name = "Flux",
                 .rank = {"FLUX_TASK_RANK"},
                 .size = {"FLUX_JOB_SIZE"},
                 .local_rank = {"FLUX_TASK_LOCAL_ID"},
                 .start = {"FLUX_JOB_ID"},
                 .depth = 2},
    [BY_KUBERNETES] = {.name = "Kubernetes", .rank = {"JOB_COMPLETION_INDEX"}, .depth = 0},
};

/* ---- variables ---- */

const char *environment_get(const char *const *environment, const char *name) {
    size_t n = strlen(name);
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=') {
            const char *value = *environment + n + 1;
            return *value != '\0' ? value : NULL;
        }
    }
    return NULL;
}

/* Decimal digits alone; false for anything else and for what does not fit. */
static bool parse(const char *value, int64_t *out) {
    int64_t number = 0;
    int digits = 0;
    for (; value[digits] >= '0' && value[digits] <= '9' && digits < 18; digits++) {
        number = number * 10 + (value[digits] - '0');
    }
    *out = number;
    return digits > 0 && value[digits] == '\0';
}

/* The value in quotes, made harmless for a terminal. */
static const char *quoted(char out[64], const char *value) {
    size_t n = 0;
    out[n++] = '\'';
    for (; *value != '\0' && n < 56; value++) {
        out[n++] = (char)(*value >= ' ' && *value <= '~' ? *value : '?');
    }
    snprintf(out + n, 64 - n, "%s", *value != '\0' ? "...'" : "'");
    return out;
}

static void next_unset(const char *name, pawl_error *err) {
    error_next(err,
               "unset %s where it does not belong to this job, or say rank and world size "
               "yourself (pawl_group)",
               name);
}

pawl_status environment_number(const char *const *environment, const char *name, int64_t least,
                               int64_t most, int64_t *out, bool *there, pawl_error *err) {
    const char *value = environment_get(environment, name);
    char text[64];
    *there = value != NULL;
    bool number = value != NULL && parse(value, out);
    if (value == NULL || (number && *out >= least && *out <= most)) {
        return PAWL_OK;
    }
    error_set(err, number && *out > most ? PAWL_ELIMIT : PAWL_EUSAGE,
              "the environment variable %s is not the number that it should be", name);
    error_expected(err, "%lld to %lld", (long long)least, (long long)most);
    error_found(err, "%s", quoted(text, value));
    next_unset(name, err);
    return err->status;
}

/* The first of `names` that is set; `out` stays as it is where none is. */
static pawl_status first_number(const char *const *environment, const char *const *names,
                                int64_t least, int *out, const char **from, pawl_error *err) {
    for (int i = 0; i < LAUNCHER_NAMES && names[i] != NULL; i++) {
        int64_t value = 0;
        bool there = false;
        TRY(environment_number(environment, names[i], least, PAWL_MAX_RANKS - 1 + least, &value,
                               &there, err));
        if (there) {
            *out = (int)value;
            *from = names[i];
            return PAWL_OK;
        }
    }
    return PAWL_OK;
}

/* ---- claims ---- */

static pawl_status within(const char *rank_from, int rank, const char *size_from, int size,
                          pawl_error *err) {
    if (rank_from == NULL || size_from == NULL || rank < size) {
        return PAWL_OK;
    }
    error_set(err, PAWL_EUSAGE, "the environment names a rank that does not exist");
    error_expected(err, "%s below %s", rank_from, size_from);
    error_found(err, "%s=%d, %s=%d", rank_from, rank, size_from, size);
    next_unset(rank_from, err);
    return PAWL_EUSAGE;
}

static pawl_status read_claim(const char *const *environment, claim *c, pawl_error *err) {
    TRY(first_number(environment, c->by->rank, 0, &c->rank, &c->rank_from, err));
    TRY(first_number(environment, c->by->size, 1, &c->size, &c->size_from, err));
    TRY(first_number(environment, c->by->local_rank, 0, &c->local_rank, &c->local_rank_from, err));
    TRY(first_number(environment, c->by->local_size, 1, &c->local_size, &c->local_size_from, err));
    TRY(within(c->rank_from, c->rank, c->size_from, c->size, err));
    TRY(within(c->local_rank_from, c->local_rank, c->local_size_from, c->local_size, err));
    c->made = true;
    return PAWL_OK;
}

/* Slurm sets its variables in the shell of a batch script and of an interactive allocation, too;
 * only a step launches ranks. Steps of Slurm's own (batch, extern, interactive) have numbers at the
 * end of 32 bits. */
static pawl_status in_slurm_step(const char *const *environment, bool *in, pawl_error *err) {
    int64_t step = 0;
    TRY(environment_number(environment, "SLURM_STEP_ID", 0, UINT32_MAX, &step, in, err));
    *in = *in && step < 0xfffffff0;
    return PAWL_OK;
}

/* Does the launcher make a claim? Other programs may use RANK and WORLD_SIZE, too: these count only
 * together. */
static pawl_status is_made(const char *const *environment, const claim *c, bool *made,
                           pawl_error *err) {
    *made = false;
    for (int i = 0; i < LAUNCHER_NAMES && c->by->rank[i] != NULL; i++) {
        *made = *made || environment_get(environment, c->by->rank[i]) != NULL;
    }
    if (*made && c->id == BY_SLURM) {
        return in_slurm_step(environment, made, err);
    }
    if (c->id == BY_TORCHRUN) {
        *made = *made && environment_get(environment, "WORLD_SIZE") != NULL;
    }
    return PAWL_OK;
}

bool claims_agree(const claim *a, const claim *b) {
    return a->rank == b->rank && (a->size == b->size || a->size == 0 || b->size == 0);
}

const char *claim_text(char out[160], const claim *c) {
    if (c->size > 0) {
        snprintf(out, 160, "rank %d of %d (%s=%d, %s=%d)", c->rank, c->size, c->rank_from, c->rank,
                 c->size_from, c->size);
    } else {
        snprintf(out, 160, "rank %d (%s=%d)", c->rank, c->rank_from, c->rank);
    }
    return out;
}

/* ---- launchers that start launchers ---- */

/* A number that only helps to explain others; 0 where it is not set. */
static int hint(const char *const *environment, const char *name) {
    int64_t value = 0;
    const char *text = environment_get(environment, name);
    return text != NULL && parse(text, &value) && value <= PAWL_MAX_RANKS ? (int)value : 0;
}

int torchrun_agents(const char *const *environment, const claim *c) {
    int agents = hint(environment, "GROUP_WORLD_SIZE");
    if (agents == 0 && c->local_size > 0 && c->size % c->local_size == 0) {
        agents = c->size / c->local_size;
    }
    return agents;
}

/* The outer launcher has started torchrun's agents: all of them, or each one by itself. */
static bool explained_by_torchrun(const char *const *environment, const claim *inner,
                                  const claim *outer) {
    int agents = torchrun_agents(environment, inner);
    if (outer->size == 0) {
        return outer->rank < agents;
    }
    return outer->size == 1 || outer->size == agents;
}

/* Launchers of MPI start a helper on each node, by way of Slurm where that has allotted the nodes:
 * on all of them, or on all but the first. Open MPI 4 says how many nodes there are. */
static bool explained_by_helpers(const char *const *environment, const claim *inner,
                                 const claim *outer) {
    int nodes = hint(environment, "SLURM_STEP_NUM_NODES");
    int known = hint(environment, "OMPI_MCA_orte_num_nodes");
    if (nodes == 0) {
        nodes = hint(environment, "SLURM_NNODES");
    }
    if (outer->size == 1) {
        return true;
    }
    return outer->id == BY_SLURM && outer->size == nodes && inner->size > 1 &&
           (known == 0 || known == nodes || known == nodes + 1);
}

static bool explains(const char *const *environment, const claim *inner, const claim *outer) {
    if (!inner->made || inner->by->depth <= outer->by->depth) {
        return false;
    }
    return inner->id == BY_TORCHRUN ? explained_by_torchrun(environment, inner, outer)
                                    : explained_by_helpers(environment, inner, outer);
}

/* Launchers of MPI are asked before torchrun, for they are nearer to what started them. */
static void find_explanation(const char *const *environment, claim claims[LAUNCHERS],
                             claim *outer) {
    for (int i = LAUNCHERS - 1; i >= 0 && outer->made && !outer->of_launchers; i--) {
        if (!claims_agree(&claims[i], outer) && explains(environment, &claims[i], outer)) {
            outer->of_launchers = true;
            outer->explained_by = claims[i].id;
        }
    }
}

pawl_status claims_read(const char *const *environment, claim claims[LAUNCHERS], pawl_error *err) {
    for (int i = 0; i < LAUNCHERS; i++) {
        bool made = false;
        claims[i] =
            (claim){.id = (launcher_id)i, .by = &table[i], .name = table[i].name, .local_rank = -1};
        if (i == BY_TF_CONFIG) {
            TRY(claim_tf_config(environment, &claims[i], err));
            continue;
        }
        TRY(is_made(environment, &claims[i], &made, err));
        if (made) {
            TRY(read_claim(environment, &claims[i], err));
        }
    }
    if (environment_get(environment, "TORCHELASTIC_RUN_ID") == NULL) {
        claims[BY_TORCHRUN].name = "RANK and WORLD_SIZE"; /* by an unknown launcher */
    }
    for (int i = 0; i < LAUNCHERS; i++) {
        find_explanation(environment, claims, &claims[i]);
    }
    return PAWL_OK;
}
