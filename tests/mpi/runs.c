/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run of real ranks, as a trainer under MPI has it: `save DIRECTORY` saves a sharded state three
 * times; `restore DIRECTORY`, on any number of ranks, splits the tensor otherwise and must find
 * every bit; `absent DIRECTORY` opens a run to which the last rank never comes.
 *
 * `hold DIRECTORY` saves as `save`, makes the file DIRECTORY.held, and owns the run until there is
 * DIRECTORY.go; then it saves once more. Meanwhile others restore without owning it: `visit`, any
 * number of them; `visit_absent`, where the last rank does not come; `visit_other`, where rank 1
 * has opened another step.
 */
#include <pawl/mpi.h>
#include <pawl/pawl.h>

#include <stdio.h>
#include <unistd.h>

#define ROWS  67
#define COLS  41
#define STEPS 3

static pawl_mpi ranks;
static pawl_group group;
static pawl_error *err;

static void must(int holds, const char *what, int line) {
    if (!holds) {
        fprintf(stderr, "rank %d, line %d: not so: %s\n%s\n", group.rank, line, what,
                pawl_error_text(err));
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}
#define MUST(what) must((what) != 0, #what, __LINE__)

/* ---- a state whose bytes follow from the step ---- */

typedef struct shard {
    int64_t offset[2], extent[2];
    float weights[ROWS * COLS], bias[COLS];
    unsigned char random[16];
    pawl_state *state;
} shard;

static float weight(int64_t step, int64_t row, int64_t col) {
    return (float)(step * 1000000 + row * 1000 + col);
}

static unsigned char random_byte(int64_t step, int rank) {
    return (unsigned char)(step * 10 + rank);
}

static void set(shard *s, int64_t step) {
    for (int64_t i = 0; i < s->extent[0] * s->extent[1]; i++) {
        s->weights[i] =
            weight(step, s->offset[0] + i / s->extent[1], s->offset[1] + i % s->extent[1]);
    }
    for (int64_t i = 0; i < COLS; i++) {
        s->bias[i] = weight(step, -1, i);
    }
    memset(s->random, random_byte(step, group.rank), sizeof s->random);
    MUST(pawl_state_set_int64(s->state, "step", PAWL_ROLE_STEP, step, err) == PAWL_OK);
    MUST(pawl_state_set_rank_bytes(s->state, "random", PAWL_ROLE_RNG, s->random, sizeof s->random,
                                   err) == PAWL_OK);
}

static void check(const shard *s, int64_t step, int saved_by) {
    const void *random = NULL;
    size_t size = 0;
    int64_t found = 0;
    for (int64_t i = 0; i < s->extent[0] * s->extent[1]; i++) {
        MUST(s->weights[i] ==
             weight(step, s->offset[0] + i / s->extent[1], s->offset[1] + i % s->extent[1]));
    }
    for (int64_t i = 0; i < COLS; i++) {
        MUST(s->bias[i] == weight(step, -1, i));
    }
    MUST(pawl_state_get_int64(s->state, "step", &found, err) == PAWL_OK && found == step);
    MUST(pawl_state_get_bytes(s->state, "random", &random, &size, err) == PAWL_OK);
    MUST(size == sizeof s->random);
    MUST(*(const unsigned char *)random ==
         random_byte(group.rank < saved_by ? step : 0, group.rank));
}

/* This rank's rows, or columns, in parts that differ. */
static void split(shard *s, int by_columns) {
    const int64_t whole[2] = {ROWS, COLS};
    int d = by_columns ? 1 : 0;
    s->offset[0] = s->offset[1] = 0;
    s->extent[0] = ROWS;
    s->extent[1] = COLS;
    s->offset[d] = whole[d] * group.rank / group.world_size;
    s->extent[d] = whole[d] * (group.rank + 1) / group.world_size - s->offset[d];
}

static void make(shard *s, int by_columns) {
    static const int64_t shape[] = {ROWS, COLS};
    const pawl_box box = {.offset = s->offset, .extent = s->extent, .data = s->weights};
    const pawl_tensor weights = {.struct_size = sizeof weights,
                                 .name = "dense/kernel",
                                 .dtype = PAWL_F32,
                                 .ndim = 2,
                                 .shape = shape,
                                 .nboxes = 1,
                                 .boxes = &box,
                                 .box_size = sizeof(pawl_box)};
    const pawl_tensor bias = {.struct_size = sizeof bias,
                              .name = "dense/bias",
                              .dtype = PAWL_F32,
                              .ndim = 1,
                              .shape = &shape[1],
                              .data = s->bias,
                              .replicated = 1};
    split(s, by_columns);
    MUST(pawl_state_new(&s->state, err) == PAWL_OK);
    MUST(pawl_state_add_tensor(s->state, &weights, err) == PAWL_OK);
    MUST(pawl_state_add_tensor(s->state, &bias, err) == PAWL_OK);
}

/* ---- what a program does with it ---- */

static shard whole;

/* Between the last two saves it holds the run, if it is told to. */
static void save_all(const char *directory, void (*hold)(const char *directory)) {
    const pawl_run_options options = {
        .struct_size = sizeof options, .group = &group, .group_deadline_s = 60};
    pawl_save_stats stats = {.struct_size = sizeof stats, .step = 0};
    pawl_run *run = NULL;
    make(&whole, 0);
    MUST(pawl_run_open(directory, &options, &run, err) == PAWL_OK);
    for (int64_t step = 1; step <= STEPS; step++) {
        MUST(pawl_fence(run, 0, err) == PAWL_OK);
        set(&whole, step);
        MUST(pawl_save(run, whole.state, step, NULL, err) == PAWL_OK);
        MUST(pawl_meet(run, 0, err) == PAWL_OK);
    }
    MUST(pawl_wait(run, 0, &stats, err) == PAWL_OK);
    MUST(stats.step == STEPS && stats.bytes > 0);
    if (hold != NULL) {
        hold(directory);
        set(&whole, STEPS + 1);
        MUST(pawl_save(run, whole.state, STEPS + 1, NULL, err) == PAWL_OK);
    }
    MUST(pawl_run_close(run, 0, err) == PAWL_OK);
}

static void save(const char *directory) {
    save_all(directory, NULL);
}

static void hold_until_told(const char *directory) {
    char path[4096];
    snprintf(path, sizeof path, "%s.held", directory);
    if (group.rank == 0) {
        FILE *held = fopen(path, "w");
        MUST(held != NULL && fclose(held) == 0);
    }
    snprintf(path, sizeof path, "%s.go", directory);
    while (access(path, F_OK) != 0) {
        (void)poll(NULL, 0, 20);
    }
}

static void hold(const char *directory) {
    save_all(directory, hold_until_told);
}

static void restore(const char *directory) {
    const pawl_run_options options = {
        .struct_size = sizeof options, .must_exist = 1, .group = &group, .group_deadline_s = 60};
    const pawl_restore_options asked = {.struct_size = sizeof asked, .per_rank = PAWL_POLICY_ALLOW};
    pawl_run *run = NULL;
    make(&whole, 1);
    set(&whole, 0);
    MUST(pawl_run_open(directory, &options, &run, err) == PAWL_OK);
    MUST(pawl_restore(run, whole.state, &asked, NULL, err) == PAWL_OK);
    check(&whole, STEPS, 4);
    MUST(pawl_run_close(run, 0, err) == PAWL_OK);
}

static void absent(const char *directory) {
    const pawl_run_options options = {
        .struct_size = sizeof options, .group = &group, .group_deadline_s = 2};
    pawl_run *run = NULL;
    if (group.rank != group.world_size - 1) {
        MUST(pawl_run_open(directory, &options, &run, err) == PAWL_EPEER);
        MUST(run == NULL);
        MUST(strstr(pawl_error_text(err), "rank 3") != NULL);
    }
}

/* ---- without owning the run ---- */

static pawl_status restore_step(const char *directory, int64_t step, double deadline_s) {
    const pawl_restore_options asked = {.struct_size = sizeof asked,
                                        .per_rank = PAWL_POLICY_ALLOW,
                                        .group = &group,
                                        .group_deadline_s = deadline_s};
    pawl_checkpoint *checkpoint = NULL;
    make(&whole, 1);
    set(&whole, 0);
    const pawl_open_options options = {.struct_size = sizeof options, .step = &step};
    MUST(pawl_checkpoint_open(directory, &options, &checkpoint, err) == PAWL_OK);
    pawl_status status = pawl_checkpoint_restore(checkpoint, whole.state, &asked, NULL, err);
    pawl_checkpoint_close(checkpoint);
    return status;
}

static void visit(const char *directory) {
    MUST(restore_step(directory, STEPS, 60) == PAWL_OK);
    check(&whole, STEPS, 2);
}

static void visit_absent(const char *directory) {
    if (group.rank != group.world_size - 1) {
        MUST(restore_step(directory, STEPS, 2) == PAWL_EPEER);
        MUST(strstr(pawl_error_text(err), "rank 2") != NULL);
        check(&whole, 0, 0);
    }
}

static void visit_other(const char *directory) {
    MUST(restore_step(directory, group.rank == 1 ? 1 : STEPS, 60) == PAWL_EMISMATCH);
    MUST(strstr(pawl_error_text(err), "ranks 0 and 2: step 3 (") != NULL);
    MUST(strstr(pawl_error_text(err), "rank 1: step 1 (") != NULL);
    check(&whole, 0, 0);
}

static const struct {
    const char *name;
    void (*run)(const char *directory);
} verbs[] = {
    {"save", save},   {"restore", restore},           {"absent", absent},          {"hold", hold},
    {"visit", visit}, {"visit_absent", visit_absent}, {"visit_other", visit_other}};

int main(int argc, char **argv) {
    int known = 0;
    MPI_Init(&argc, &argv);
    err = pawl_error_new();
    MUST(pawl_mpi_group(MPI_COMM_WORLD, &ranks, &group) == MPI_SUCCESS);
    MUST(argc == 3);
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            known = 1;
            verbs[i].run(argv[2]);
        }
    }
    MUST(known);
    int is_first = group.rank == 0;
    pawl_state_free(whole.state);
    pawl_mpi_free(&ranks);
    pawl_error_free(err);
    MPI_Finalize();
    if (is_first) {
        puts("kept");
    }
    return 0;
}
