/* SPDX-License-Identifier: Apache-2.0 */
/* Rank and world size out of the environments that launchers make. */
#include "group/group.h"

#include "lib/test.h"

#include <stdio.h>
#include <string.h>

#define MAX_VARIABLES 20

static struct pawl_error err;
static pawl_group_found found;

/* What an environment says: "source rank/size local_rank/local_size launch". */
typedef struct one_case {
    const char *says;
    const char *environment[MAX_VARIABLES];
} one_case;

static void check(const one_case *c) {
    char text[400];
    pawl_status status = group_discover(c->environment, &found, &err);
    if (status != PAWL_OK) {
        print_message("%s: %s\n", c->says, error_text(&err));
    }
    assert_int_equal(status, PAWL_OK);
    snprintf(text, sizeof text, "%s %d/%d %d/%d %s", found.source, found.rank, found.world_size,
             found.local_rank, found.local_size, found.launch);
    assert_string_equal(text, c->says);
    assert_int_equal(found.struct_size, sizeof found);
    assert_true(strlen(found.text) > 10);
}

static void check_all(const one_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        check(&cases[i]);
    }
}

#define TORCHRUN(rank, size, local_rank, local_size, agent, agents)                                \
    "RANK=" rank, "WORLD_SIZE=" size, "LOCAL_RANK=" local_rank, "LOCAL_WORLD_SIZE=" local_size,    \
        "GROUP_RANK=" agent, "GROUP_WORLD_SIZE=" agents, "MASTER_ADDR=n1", "MASTER_PORT=29500"
#define SLURM_STEP(rank, size, nodes)                                                              \
    "SLURM_JOB_ID=4711", "SLURM_STEP_ID=2", "SLURM_PROCID=" rank, "SLURM_STEP_NUM_TASKS=" size,    \
        "SLURM_STEP_NUM_NODES=" nodes, "SLURM_LOCALID=0"

#define CONFIG                                                                                     \
    "{\"cluster\": {\"worker\": [\"host:port\", ...]}, \"task\": {\"type\": \"worker\", "          \
    "\"index\": 0}}"
#define TF_CONFIG(cluster, type, index)                                                            \
    "TF_CONFIG={\"cluster\": {" cluster "}, \"task\": {\"type\": \"" type "\", \"index\": " index  \
    "}, \"environment\": \"cloud\"}"

static void test_each_launcher_is_understood(void **state) {
    (void)state;
    static const one_case cases[] = {
        {"none 0/1 -1/0 ", {"HOME=/", "PATH=/bin"}},
        {"torchrun 5/8 1/4 torchrun:job%20a:2:n1:29500",
         {TORCHRUN("5", "8", "1", "4", "1", "2"), "TORCHELASTIC_RUN_ID=job a",
          "TORCHELASTIC_RESTART_COUNT=2"}},
        {"RANK and WORLD_SIZE 1/2 -1/0 ", {"RANK=1", "WORLD_SIZE=2"}},
        {"Slurm 3/8 1/0 Slurm:4711:0:-",
         {"SLURM_JOB_ID=4711", "SLURM_STEP_ID=0", "SLURM_PROCID=3", "SLURM_NTASKS=8",
          "SLURM_LOCALID=1"}},
        {"Slurm 3/4 0/0 Slurm:4711:2:1",
         {SLURM_STEP("3", "4", "2"), "SLURM_NTASKS=16", "SLURM_RESTART_COUNT=1"}},
        {"Open MPI 1/2 1/2 Open-MPI:1232732161:3c305631665162c8-4d209fc0afbfc025",
         {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
          "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_RANK=1", "PMIX_NAMESPACE=1232732161",
          "OMPI_MCA_orte_precondition_transports=3c305631665162c8-4d209fc0afbfc025"}},
        {"PMIx 1/2 -1/0 PMIx:ns@1", {"PMIX_RANK=1", "PMIX_NAMESPACE=ns@1", "WORLD_SIZE=2"}},
        {"PMI 1/2 1/2 ",
         {"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "PMI_FD=8"}},
        {"PMI 1/2 -1/0 PMI:-:a2", {"PMI_RANK=1", "PMI_SIZE=2", "I_MPI_HYDRA_UUID=a2"}},
        {"MVAPICH 1/2 1/2 ",
         {"MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_SIZE=2", "MV2_COMM_WORLD_LOCAL_RANK=1",
          "MV2_COMM_WORLD_LOCAL_SIZE=2"}},
        {"PMI 9/24 3/12 PALS:1b-4f",
         {"PALS_RANKID=9", "PALS_LOCAL_RANKID=3", "PALS_LOCAL_SIZE=12", "PALS_APID=1b-4f",
          "PMI_RANK=9", "PMI_SIZE=24"}},
        {"JSM 1/2 1/2 JSM:7",
         {"JSM_NAMESPACE_RANK=1", "JSM_NAMESPACE_SIZE=2", "JSM_NAMESPACE_LOCAL_RANK=1",
          "JSM_NAMESPACE_LOCAL_SIZE=2", "PMIX_NAMESPACE=7"}},
        {"PMI 1/2 -1/0 Flux:%C6%92Abc",
         {"FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=2", "FLUX_TASK_LOCAL_ID=1",
          "FLUX_JOB_ID=\xc6\x92"
          "Abc",
          "PMI_RANK=1", "PMI_SIZE=2"}},
        {"Flux 1/2 1/0 Flux:fA",
         {"FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=2", "FLUX_TASK_LOCAL_ID=1", "FLUX_JOB_ID=fA"}},
        {"Kubernetes 1/4 -1/0 ", {"JOB_COMPLETION_INDEX=1", "WORLD_SIZE=4"}},
        {"TF_CONFIG 1/2 -1/0 ", {TF_CONFIG("\"worker\": [\"a:1\", \"b:1\"]", "worker", "1")}},
        {"TF_CONFIG 0/3 -1/0 ",
         {TF_CONFIG("\"chief\": [\"c:1\"], \"worker\": [\"a:1\", \"b:1\"]", "chief", "0")}},
        {"TF_CONFIG 2/3 -1/0 ",
         {TF_CONFIG(
             "\"worker\": [\"a:1\", \"b:1\"], \"chief\": [\"c:1\"], \"evaluator\": [\"e:1\"]",
             "worker", "\"1\"")}},
        {"TF_CONFIG 1/2 -1/0 ", /* of TensorFlow 1; addresses by number */
         {TF_CONFIG("\"master\": [\"c:1\"], \"worker\": {\"0\": \"a:1\"}", "worker", "0")}},
        {"TF_CONFIG 1/2 -1/0 Slurm:4711:0:-",
         {TF_CONFIG("\"worker\": [\"a:1\", \"b:1\"]", "worker", "1"), "SLURM_JOB_ID=4711",
          "SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=0"}},
    };
    check_all(cases, ARRAY_LENGTH(cases));
}

static void test_a_shell_that_is_no_rank_counts_as_nothing(void **state) {
    (void)state;
    static const one_case cases[] = {
        /* salloc; a batch script; Slurm's own steps for them */
        {"none 0/1 -1/0 ", {"SLURM_JOB_ID=4711", "SLURM_NTASKS=4"}},
        {"none 0/1 -1/0 ",
         {"SLURM_JOB_ID=4711", "SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_LOCALID=0"}},
        {"none 0/1 -1/0 ",
         {"SLURM_JOB_ID=4711", "SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_STEP_ID=4294967290"}},
        {"none 0/1 -1/0 ",
         {"SLURM_JOB_ID=4711", "SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_STEP_ID=4294967291"}},
        /* names that are anybody's, and empty ones */
        {"none 0/1 -1/0 ", {"RANK=general"}},
        {"none 0/1 -1/0 ", {"WORLD_SIZE=4", "MASTER_PORT=29500"}},
        {"none 0/1 -1/0 ", {"RANK=", "WORLD_SIZE=4"}},
        {"none 0/1 -1/0 ", {"PMI_RANK=", "PMI_SIZE="}},
        {"none 0/1 -1/0 ", {"PMI_SIZE=4", "MPI_LOCALRANKID=0"}},
        /* a cluster without a task; parameter servers and who works for them; an evaluator */
        {"none 0/1 -1/0 ", {"TF_CONFIG="}},
        {"none 0/1 -1/0 ", {"TF_CONFIG={}"}},
        {"none 0/1 -1/0 ", {"TF_CONFIG={\"cluster\": {\"worker\": [\"a:1\", \"b:1\"]}}"}},
        {"none 0/1 -1/0 ", {"TF_CONFIG={\"task\": {\"type\": \"worker\", \"index\": 3}}"}},
        {"none 0/1 -1/0 ",
         {TF_CONFIG("\"chief\": [\"c:1\"], \"worker\": [\"a:1\"], \"ps\": [\"p:1\"]", "worker",
                    "0")}},
        {"none 0/1 -1/0 ", {TF_CONFIG("\"worker\": [\"a:1\"]", "evaluator", "0")}},
        /* what is no variable, or another one */
        {"none 0/1 -1/0 ", {"PMI_RANK", "", "=", "PMI_RANKS=1", "XPMI_RANK=1", "pmi_rank=1"}},
        /* mpirun and torchrun in a batch script */
        {"Open MPI 3/4 -1/0 ",
         {"SLURM_JOB_ID=4711", "SLURM_NTASKS=8", "SLURM_PROCID=0", "OMPI_COMM_WORLD_RANK=3",
          "OMPI_COMM_WORLD_SIZE=4"}},
        {"torchrun 3/4 3/4 torchrun:4711:0:n1:29500:slurm:4711:1",
         {"SLURM_JOB_ID=4711", "SLURM_NTASKS=8", "SLURM_PROCID=0", "SLURM_RESTART_COUNT=1",
          TORCHRUN("3", "4", "3", "4", "0", "1"), "TORCHELASTIC_RUN_ID=4711",
          "TORCHELASTIC_RESTART_COUNT=0"}},
    };
    check_all(cases, ARRAY_LENGTH(cases));
}

static void test_launchers_that_start_launchers_are_told_apart(void **state) {
    (void)state;
    static const one_case cases[] = {
        /* srun starts an agent of torchrun on each of two nodes */
        {"torchrun 5/8 1/4 torchrun:a:0:n1:29500:slurm:4711:2:-",
         {SLURM_STEP("1", "2", "2"), TORCHRUN("5", "8", "1", "4", "1", "2"),
          "TORCHELASTIC_RUN_ID=a", "TORCHELASTIC_RESTART_COUNT=0"}},
        /* the rendezvous numbered the nodes otherwise; and nobody named the run */
        {"torchrun 5/8 1/4 torchrun:none:0:n1:29500:slurm:4711:2:-",
         {SLURM_STEP("0", "2", "2"), TORCHRUN("5", "8", "1", "4", "1", "2"),
          "TORCHELASTIC_RUN_ID=none", "TORCHELASTIC_RESTART_COUNT=0"}},
        /* one srun for each node: the steps differ from rank to rank */
        {"torchrun 5/8 1/4 torchrun:a:-:n1:29500:slurm:4711:-",
         {SLURM_STEP("0", "1", "1"), TORCHRUN("5", "8", "1", "4", "1", "2"),
          "TORCHELASTIC_RUN_ID=a"}},
        {"torchrun 5/8 1/4 ",
         {SLURM_STEP("0", "1", "1"), TORCHRUN("5", "8", "1", "4", "1", "2"),
          "TORCHELASTIC_RUN_ID=none"}},
        /* an older torchrun, which does not count its agents */
        {"torchrun 5/8 1/4 torchrun:a:-:-:-:slurm:4711:2:-",
         {SLURM_STEP("1", "2", "2"), "RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4",
          "TORCHELASTIC_RUN_ID=a"}},
        /* mpirun starts an agent on each node */
        {"torchrun 5/8 1/4 torchrun:a:-:n1:29500",
         {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "PMIX_RANK=1",
          TORCHRUN("5", "8", "1", "4", "1", "2"), "TORCHELASTIC_RUN_ID=a"}},
        /* an agent in each pod of an indexed job */
        {"torchrun 5/8 1/4 torchrun:a:-:n1:29500",
         {"JOB_COMPLETION_INDEX=1", TORCHRUN("5", "8", "1", "4", "1", "2"),
          "TORCHELASTIC_RUN_ID=a"}},
        /* mpirun's helpers: on the nodes after the first, or on one further node */
        {"Open MPI 9/12 1/4 Open-MPI:ns:-",
         {SLURM_STEP("1", "2", "2"), "OMPI_COMM_WORLD_RANK=9", "OMPI_COMM_WORLD_SIZE=12",
          "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=4", "PMIX_RANK=9",
          "PMIX_NAMESPACE=ns", "OMPI_MCA_orte_num_nodes=3"}},
        {"Open MPI 5/8 1/4 Open-MPI:ns:-",
         {SLURM_STEP("0", "1", "1"), "OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8",
          "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=4", "PMIX_RANK=5",
          "PMIX_NAMESPACE=ns", "OMPI_MCA_orte_num_nodes=2"}},
        /* hydra's, on all nodes */
        {"PMI 5/8 1/4 ",
         {SLURM_STEP("1", "2", "2"), "PMI_RANK=5", "PMI_SIZE=8", "MPI_LOCALRANKID=1",
          "MPI_LOCALNRANKS=4"}},
        /* flux run, inside an instance of Flux that srun started */
        {"PMI 5/8 -1/0 Flux:fA",
         {SLURM_STEP("0", "2", "2"), "FLUX_TASK_RANK=5", "FLUX_JOB_SIZE=8", "FLUX_JOB_ID=fA",
          "PMI_RANK=5", "PMI_SIZE=8"}},
        /* agents by mpirun by Slurm's helpers: these are in no step of all ranks */
        {"torchrun 5/8 1/4 torchrun:a:-:n1:29500:slurm:4711:-",
         {SLURM_STEP("0", "1", "1"), "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
          TORCHRUN("5", "8", "1", "4", "1", "2"), "TORCHELASTIC_RUN_ID=a"}},
        {"torchrun 5/8 1/4 torchrun:a:-:n1:29500:slurm:4711:-",
         {SLURM_STEP("0", "2", "2"), "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2",
          TORCHRUN("5", "8", "1", "4", "1", "2"), "TORCHELASTIC_RUN_ID=a"}},
        /* srun starts the ranks by PMIx or PMI */
        {"Slurm 3/8 0/0 Slurm:4711:2:-",
         {SLURM_STEP("3", "8", "2"), "PMIX_RANK=3", "PMIX_NAMESPACE=slurm.pmix.4711.2"}},
        {"Slurm 3/8 0/0 Slurm:4711:2:-",
         {SLURM_STEP("3", "8", "2"), "PMI_RANK=3", "PMI_SIZE=8", "PMI_JOBID=4711.2"}},
        /* torchrun's variables out of Slurm's, as scripts have it */
        {"RANK and WORLD_SIZE 3/8 -1/0 torchrun:-:-:-:-:slurm:4711:2:-",
         {SLURM_STEP("3", "8", "2"), "RANK=3", "WORLD_SIZE=8"}},
    };
    check_all(cases, ARRAY_LENGTH(cases));
}

/* ---- refusals ---- */

typedef struct refusal {
    pawl_status status;
    const char *expected, *found;
    const char *environment[MAX_VARIABLES];
} refusal;

static void refuse_all(const refusal *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const refusal *c = &cases[i];
        assert_int_equal(group_discover(c->environment, &found, &err), c->status);
        assert_int_equal(err.status, c->status);
        assert_string_equal(err.expected, c->expected);
        assert_string_equal(err.found, c->found);
        assert_true(err.next[0] != '\0');
    }
}

static void test_two_sources_that_disagree_are_refused(void **state) {
    (void)state;
    static const refusal cases[] = {
        /* one process per node, each in a group of its own: --nnodes was forgotten */
        {PAWL_EMISMATCH,
         "torchrun: rank 0 of 4 (RANK=0, WORLD_SIZE=4)",
         "Slurm: rank 1 of 2 (SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=2)",
         {SLURM_STEP("1", "2", "2"), TORCHRUN("0", "4", "0", "4", "0", "1"),
          "TORCHELASTIC_RUN_ID=a"}},
        /* defaults of a script: every task believes to be alone */
        {PAWL_EMISMATCH,
         "RANK and WORLD_SIZE: rank 0 of 1 (RANK=0, WORLD_SIZE=1)",
         "Slurm: rank 3 of 4 (SLURM_PROCID=3, SLURM_STEP_NUM_TASKS=4)",
         {SLURM_STEP("3", "4", "4"), "RANK=0", "WORLD_SIZE=1"}},
        /* an mpirun in each task of srun */
        {PAWL_EMISMATCH,
         "Slurm: rank 1 of 4 (SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=4)",
         "Open MPI: rank 2 of 8 (OMPI_COMM_WORLD_RANK=2, OMPI_COMM_WORLD_SIZE=8)",
         {SLURM_STEP("1", "4", "4"), "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=8",
          "OMPI_MCA_orte_num_nodes=1", "PMIX_RANK=2"}},
        /* left over from an mpirun of one process */
        {PAWL_EMISMATCH,
         "Slurm: rank 1 of 4 (SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=4)",
         "Open MPI: rank 0 of 1 (OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=1)",
         {SLURM_STEP("1", "4", "4"), "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1",
          "PMIX_RANK=0"}},
        /* several tasks a node are no helpers */
        {PAWL_EMISMATCH,
         "Slurm: rank 1 of 4 (SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=4)",
         "PMI: rank 2 of 8 (PMI_RANK=2, PMI_SIZE=8)",
         {SLURM_STEP("1", "4", "2"), "PMI_RANK=2", "PMI_SIZE=8"}},
        /* left over from another launcher */
        {PAWL_EMISMATCH,
         "Open MPI: rank 0 of 1 (OMPI_COMM_WORLD_RANK=0, OMPI_COMM_WORLD_SIZE=1)",
         "PMI: rank 3 of 4 (PMI_RANK=3, PMI_SIZE=4)",
         {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1", "PMI_RANK=3", "PMI_SIZE=4"}},
        {PAWL_EMISMATCH,
         "Open MPI: rank 1 of 2 (OMPI_COMM_WORLD_RANK=1, OMPI_COMM_WORLD_SIZE=2)",
         "PMIx: rank 0 (PMIX_RANK=0)",
         {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "PMIX_RANK=0"}},
        {PAWL_EMISMATCH,
         "torchrun: rank 0 of 2 (RANK=0, WORLD_SIZE=2)",
         "Kubernetes: rank 3 (JOB_COMPLETION_INDEX=3)",
         {"JOB_COMPLETION_INDEX=3", TORCHRUN("0", "2", "0", "2", "0", "1"),
          "TORCHELASTIC_RUN_ID=a"}},
    };
    refuse_all(cases, ARRAY_LENGTH(cases));
    assert_string_equal(err.attempt, "torchrun and Kubernetes disagree on which rank this "
                                     "process is");
}

static void test_what_is_no_number_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"-1",
                                      "+1",
                                      "1.5",
                                      "0x1",
                                      " 1",
                                      "1 ",
                                      "1,2",
                                      "abc",
                                      "100001",
                                      "18446744073709551617", /* 1, in 64 bits */
                                      "99999999999999999999999999999999",
                                      "4\n"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        char variable[64];
        const char *const environment[] = {"PMI_RANK=0", variable, NULL};
        snprintf(variable, sizeof variable, "PMI_SIZE=%s", bad[i]);
        bool many = strcmp(bad[i], "100001") == 0; /* a number, but too large a one */
        assert_int_equal(group_discover(environment, &found, &err),
                         many ? PAWL_ELIMIT : PAWL_EUSAGE);
        assert_string_equal(
            err.attempt, "the environment variable PMI_SIZE is not the number that it should be");
        assert_string_equal(err.expected, "1 to 100000");
    }
    assert_string_equal(err.found, "'4?'");
}

static void test_numbers_that_cannot_be_together_are_refused(void **state) {
    (void)state;
    static const refusal cases[] = {
        {PAWL_EUSAGE,
         "PMI_RANK below PMI_SIZE",
         "PMI_RANK=4, PMI_SIZE=4",
         {"PMI_RANK=4", "PMI_SIZE=4"}},
        {PAWL_EUSAGE,
         "LOCAL_RANK below LOCAL_WORLD_SIZE",
         "LOCAL_RANK=2, LOCAL_WORLD_SIZE=2",
         {"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"}},
        {PAWL_EUSAGE,
         "0 to 4294967295",
         "'batch'",
         {"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_STEP_ID=batch"}},
        {PAWL_ELIMIT, "0 to 99999", "'100000'", {"PMI_RANK=100000", "PMI_SIZE=100000"}},
        /* a rank alone */
        {PAWL_EUSAGE, "", "PMIx: rank 1 (PMIX_RANK=1)", {"PMIX_RANK=1"}},
        {PAWL_EUSAGE,
         "",
         "Kubernetes: rank 1 (JOB_COMPLETION_INDEX=1)",
         {"JOB_COMPLETION_INDEX=1"}},
        {PAWL_EUSAGE, "2 to 100000", "'1'", {"JOB_COMPLETION_INDEX=1", "WORLD_SIZE=1"}},
    };
    refuse_all(cases, ARRAY_LENGTH(cases));
}

static void test_a_tf_config_that_is_none_is_refused(void **state) {
    (void)state;
    static const refusal cases[] = {
        {PAWL_EUSAGE, CONFIG, "something else at character 1", {"TF_CONFIG=worker 0"}},
        {PAWL_EUSAGE, CONFIG, "something else at character 2", {"TF_CONFIG={"}},
        {PAWL_EUSAGE, CONFIG, "something else at character 4", {"TF_CONFIG={} {}"}},
        {PAWL_EUSAGE, CONFIG, "something else at character 13", {"TF_CONFIG={\"cluster\": [1]}"}},
        {PAWL_EUSAGE,
         CONFIG,
         "something else at character 70",
         {TF_CONFIG("\"worker\": [\"a:1\"]", "worker", "-1")}},
        {PAWL_EUSAGE,
         CONFIG,
         "something else at character 75",
         {TF_CONFIG("\"worker\": [\"a:1\"]", "worker", "\"one\"")}},
        {PAWL_EUSAGE,
         CONFIG,
         "a worker that is not in the cluster",
         {TF_CONFIG("\"worker\": [\"a:1\"]", "worker", "1")}},
        {PAWL_EUSAGE,
         CONFIG,
         "a chief that is not in the cluster",
         {TF_CONFIG("\"worker\": [\"a:1\"]", "chief", "0")}},
        {PAWL_EMISMATCH,
         "TF_CONFIG: rank 1 of 2 (task=1, cluster=2)",
         "Slurm: rank 0 of 2 (SLURM_PROCID=0, SLURM_STEP_NUM_TASKS=2)",
         {TF_CONFIG("\"worker\": [\"a:1\", \"b:1\"]", "worker", "1"), SLURM_STEP("0", "2", "1")}},
    };
    refuse_all(cases, ARRAY_LENGTH(cases));
}

/* ---- what is said ---- */

static void test_the_text_says_what_was_decided_and_why(void **state) {
    (void)state;
    static const char *const nested[] = {SLURM_STEP("1", "2", "2"),
                                         TORCHRUN("5", "8", "1", "4", "1", "2"),
                                         "TORCHELASTIC_RUN_ID=a", "JOB_COMPLETION_INDEX=5", NULL};
    static const char *const shell[] = {"SLURM_JOB_ID=4711", "SLURM_NTASKS=4", NULL};
    assert_ok(group_discover(nested, &found, &err), &err);
    assert_string_equal(
        found.text,
        "rank 5 of 8 (RANK=5, WORLD_SIZE=8), as torchrun says; on its node 1 of 4 (LOCAL_RANK=1, "
        "LOCAL_WORLD_SIZE=4); Slurm started the launchers that started the ranks, this one as "
        "rank 1 of 2 (SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=2); Kubernetes says the same: rank 5 "
        "(JOB_COMPLETION_INDEX=5); this start of the job is "
        "torchrun:a:-:n1:29500:slurm:4711:2:-");
    assert_ok(group_discover(shell, &found, &err), &err);
    assert_string_equal(found.text,
                        "one process: the environment does not say that it is a rank of a job; "
                        "Slurm's variables describe its job only: none of its steps launched "
                        "this process");
}

static void test_long_values_are_cut_and_stay_apart(void **state) {
    (void)state;
    static char id[100000];
    char first[PAWL_MAX_LAUNCH_BYTES + 1];
    const char *const environment[] = {"FLUX_TASK_RANK=0", "FLUX_JOB_SIZE=1", id, NULL};
    memset(id, 'a', sizeof id - 1);
    memcpy(id, "FLUX_JOB_ID=", 12);
    assert_ok(group_discover(environment, &found, &err), &err);
    assert_int_equal(strlen(found.launch), PAWL_MAX_LAUNCH_BYTES);
    memcpy(first, found.launch, sizeof first);
    id[sizeof id - 2] = 'b';
    assert_ok(group_discover(environment, &found, &err), &err);
    assert_int_equal(strlen(found.launch), PAWL_MAX_LAUNCH_BYTES);
    assert_string_not_equal(found.launch, first);
    assert_true(strlen(found.text) < sizeof found.text);
}

static void test_every_launch_is_one_that_a_group_takes(void **state) {
    (void)state;
    char variable[64] = "FLUX_JOB_ID=x";
    const char *const environment[] = {"FLUX_TASK_RANK=1", "FLUX_JOB_SIZE=2", variable, NULL};
    for (int c = 1; c < 256; c++) {
        variable[12] = (char)c;
        assert_ok(group_discover(environment, &found, &err), &err);
        pawl_group given = {.struct_size = sizeof given,
                            .rank = found.rank,
                            .world_size = found.world_size,
                            .launch = found.launch};
        rank_group *g = NULL;
        assert_ok(group_new(&given, &g, &err), &err);
        group_free(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_launcher_is_understood),
        cmocka_unit_test(test_a_shell_that_is_no_rank_counts_as_nothing),
        cmocka_unit_test(test_launchers_that_start_launchers_are_told_apart),
        cmocka_unit_test(test_two_sources_that_disagree_are_refused),
        cmocka_unit_test(test_what_is_no_number_is_refused),
        cmocka_unit_test(test_numbers_that_cannot_be_together_are_refused),
        cmocka_unit_test(test_a_tf_config_that_is_none_is_refused),
        cmocka_unit_test(test_the_text_says_what_was_decided_and_why),
        cmocka_unit_test(test_long_values_are_cut_and_stay_apart),
        cmocka_unit_test(test_every_launch_is_one_that_a_group_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
