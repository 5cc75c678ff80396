/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs whose ranks hold different tensors, as the stages of a pipeline do, restore strictly: what
 * no rank wants is unexpected, what another rank wants is not.
 */
#include "job.h"

#define ROWS  8
#define WIDTH 32
#define MOST  6000 /* tensors of a state */

/* What one rank adds under a name. */
typedef struct part {
    const char *name;
    int ranks;         /* a bit for each that has it */
    int first, rows;   /* of ROWS; 0: all */
    int replicas;      /* replica_count; -1: of all ranks */
    const char *saved; /* its name when it was saved [the same] */
} part;

/* One start of the job. */
typedef struct plan {
    const part *parts;
    int count;
    int step_on; /* ranks with the shared value; a bit for each */
    int many;    /* so many more tensors, one after the other on another rank */
    int bare;    /* no rank has anything but its parts */
    pawl_restore_options options;
} plan;

#define ALL 15

static float value_at(const char *name, int i, int64_t step) {
    unsigned sum = 0;
    for (; *name != '\0'; name++) {
        sum = sum * 31 + (unsigned char)*name;
    }
    return (float)(sum % 4096) + (float)i * 0.5F + (float)step * 0.001F;
}

static pawl_status add(pawl_state *state, const part *p, float *memory, int rank, pawl_error *err) {
    const int64_t shape[] = {ROWS, WIDTH};
    const int64_t offset[] = {p->first, 0};
    const int64_t extent[] = {p->rows > 0 ? p->rows : ROWS, WIDTH};
    const pawl_box box = {.offset = offset, .extent = extent, .data = memory};
    int replica = 0;
    for (int r = 0; r < rank; r++) {
        replica += p->ranks >> r & 1;
    }
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = p->name,
                                .dtype = PAWL_F32,
                                .ndim = 2,
                                .shape = shape,
                                .nboxes = 1,
                                .boxes = &box,
                                .box_size = sizeof(pawl_box),
                                .replicated = p->replicas != 0,
                                .replica = p->replicas > 0 ? replica : 0,
                                .replica_count = p->replicas > 0 ? p->replicas : 0};
    return pawl_state_add_tensor(state, &tensor, err);
}

static void fill(const part *p, float *memory, int64_t step) {
    int rows = p->rows > 0 ? p->rows : ROWS;
    for (int i = 0; i < rows * WIDTH; i++) {
        memory[i] = value_at(p->saved != NULL ? p->saved : p->name, p->first * WIDTH + i, step);
    }
}

static int count_wrong(const part *p, const float *memory, int64_t step) {
    float wanted[ROWS * WIDTH];
    int rows = p->rows > 0 ? p->rows : ROWS;
    fill(p, wanted, step);
    return memcmp(wanted, memory, (size_t)(rows * WIDTH) * sizeof *memory) != 0;
}

/* What a rank has in memory. */
typedef struct rank_state {
    pawl_state *state;
    part parts[MOST];
    char names[MOST][24];
    float (*memory)[ROWS * WIDTH];
    int count;
} rank_state;

static bool has_step(const plan *p, int rank) {
    return !p->bare && (p->step_on >> rank & 1) != 0;
}

static pawl_status build(rank_state *s, const plan *p, int rank, pawl_error *err) {
    pawl_status status = pawl_state_new(&s->state, err);
    s->memory = calloc(MOST, sizeof *s->memory);
    for (int i = 0; i < p->count; i++) {
        if (p->parts[i].ranks >> rank & 1) {
            s->parts[s->count++] = p->parts[i];
        }
    }
    for (int i = 0; i < p->many; i++) {
        if (i % 2 == rank) {
            (void)snprintf(s->names[s->count], sizeof s->names[0], "many/%05d", i);
            s->parts[s->count] = (part){.name = s->names[s->count], .ranks = 1 << rank};
            s->count++;
        }
    }
    for (int i = 0; i < s->count && status == PAWL_OK; i++) {
        status = add(s->state, &s->parts[i], s->memory[i], rank, err);
    }
    if (status == PAWL_OK && has_step(p, rank)) {
        status = pawl_state_set_int64(s->state, "step", PAWL_ROLE_STEP, 0, err);
    }
    return status == PAWL_OK && !p->bare
               ? pawl_state_set_rank_bytes(s->state, "rng", PAWL_ROLE_RNG,
                                           &(const char){(char)rank}, 1, err)
               : status;
}

static void drop(rank_state *s) {
    pawl_state_free(s->state);
    free(s->memory);
    free(s);
}

static pawl_status save_steps(const plan *p, rank_state *s, int rank, pawl_run *run,
                              pawl_error *err) {
    TRY(build(s, p, rank, err));
    for (int64_t step = 1; step <= 2; step++) {
        for (int i = 0; i < s->count; i++) {
            fill(&s->parts[i], s->memory[i], step);
        }
        if (has_step(p, rank)) {
            TRY(pawl_state_set_int64(s->state, "step", PAWL_ROLE_STEP, step, err));
        }
        TRY(pawl_save(run, s->state, step, NULL, err));
        TRY(pawl_wait(run, 60, NULL, err));
    }
    return PAWL_OK;
}

static pawl_status save_body(job *j, int rank, pawl_run *run, pawl_error *err) {
    rank_state *s = calloc(1, sizeof *s);
    pawl_status status = save_steps(j->context, s, rank, run, err);
    drop(s);
    return status;
}

/* After a failure all must be as it was. */
static pawl_status restore_body(job *j, int rank, pawl_run *run, pawl_error *err) {
    const plan *p = j->context;
    job_told *told = &j->told[rank];
    rank_state *s = calloc(1, sizeof *s);
    static const float zeros[ROWS * WIDTH];
    pawl_report *report = NULL;
    pawl_restore_options options = p->options;
    options.struct_size = sizeof options;
    pawl_status status = build(s, p, rank, err);
    status = status == PAWL_OK ? pawl_restore(run, s->state, &options, &report, err) : status;
    (void)snprintf(told->report, sizeof told->report, "%s", pawl_report_text(report));
    pawl_report_counts counts = {.struct_size = sizeof counts};
    bool counted = status == PAWL_OK && pawl_report_totals(report, &counts, NULL) == PAWL_OK;
    told->restored = counted ? (int64_t)counts.restored : -1;
    for (int i = 0; i < s->count; i++) {
        told->wrong += status == PAWL_OK
                           ? count_wrong(&s->parts[i], s->memory[i], pawl_report_step(report))
                           : memcmp(s->memory[i], zeros, (size_t)ROWS * WIDTH * sizeof(float)) != 0;
    }
    pawl_report_free(report);
    drop(s);
    return status;
}

static void save(job *j, int ranks, const plan *p) {
    j->ranks = ranks;
    j->context = p;
    job_run(j, save_body);
    assert_job_ok(j);
}

static void restore(job *j, int ranks, const plan *p) {
    j->ranks = ranks;
    j->context = p;
    job_run(j, restore_body);
    for (int r = 0; r < ranks; r++) {
        assert_int_equal(j->told[r].wrong, 0);
    }
}

#define PLAN(list, ...)                                                                            \
    (&(const plan){.parts = (list), .count = ARRAY_LENGTH(list), .step_on = ALL, __VA_ARGS__})

/* ---- what works ----------------------------------------------------------------------------- */

static const part four_stages[] = {
    {.name = "stage0/w", .ranks = 1}, {.name = "stage0/b", .ranks = 1},
    {.name = "stage1/w", .ranks = 2}, {.name = "stage2/w", .ranks = 4},
    {.name = "stage3/w", .ranks = 8}, {.name = "norm", .ranks = ALL, .replicas = -1}};
static const part two_stages[] = {{.name = "stage0/w", .ranks = 1},
                                  {.name = "stage1/w", .ranks = 2},
                                  {.name = "norm", .ranks = 3, .replicas = -1}};

static void check_stages(job *j, int ranks) {
    const plan *p = ranks == 2 ? PLAN(two_stages) : PLAN(four_stages);
    save(j, ranks, p);
    restore(j, ranks, p);
    assert_job_ok(j);
    assert_int_equal(j->told[1].restored, 4); /* its weight, norm, step, rng */
}

static void test_two_stages_restore_strictly(void **state) {
    check_stages(*state, 2);
}

static void test_four_stages_restore_strictly(void **state) {
    check_stages(*state, 4);
}

static void test_two_stages_restore_through_callbacks(void **state) {
    job *j = *state;
    j->callbacks = 1;
    check_stages(j, 2);
}

static void test_four_stages_restore_through_callbacks(void **state) {
    job *j = *state;
    j->callbacks = 1;
    check_stages(j, 4);
}

/* The third rank has no stage. */
static void test_a_rank_that_holds_nothing_restores(void **state) {
    job *j = *state;
    static const part two[] = {{.name = "stage0/w", .ranks = 1}, {.name = "stage1/w", .ranks = 2}};
    save(j, 3, PLAN(two, .bare = 1));
    restore(j, 3, PLAN(two, .bare = 1));
    assert_job_ok(j);
    assert_int_equal(j->told[1].restored, 1);
    assert_int_equal(j->told[2].restored, 0);
}

/* But not where what it should hold is then nobody's. */
static void test_a_rank_that_was_not_built_is_found(void **state) {
    job *j = *state;
    static const part two[] = {{.name = "stage0/w", .ranks = 1}, {.name = "stage1/w", .ranks = 2}};
    static const part one[] = {{.name = "stage0/w", .ranks = 1}};
    save(j, 2, PLAN(two, .bare = 1));
    restore(j, 2, PLAN(one, .bare = 1));
    for (int r = 0; r < 2; r++) {
        assert_int_equal(j->told[r].restored, -1);
        assert_says(j->told[r].report, "stage1/w");
    }
}

/* Other ranks than saved: two take two stages each, one takes all. */
static void test_stages_are_regrouped(void **state) {
    job *j = *state;
    static const part pairs[] = {
        {.name = "stage0/w", .ranks = 1}, {.name = "stage0/b", .ranks = 1},
        {.name = "stage1/w", .ranks = 1}, {.name = "stage2/w", .ranks = 2},
        {.name = "stage3/w", .ranks = 2}, {.name = "norm", .ranks = 3, .replicas = -1}};
    const pawl_restore_options own = {.per_rank = PAWL_POLICY_CALLER};
    save(j, 4, PLAN(four_stages));
    restore(j, 2, PLAN(pairs, .options = own));
    assert_job_ok(j);
}

/* Each stage is divided among two ranks; and each is on two ranks alike. */
static void test_stages_of_several_ranks_restore(void **state) {
    job *j = *state;
    static const part halves[] = {
        {.name = "stage0/w", .ranks = 1, .rows = 3},
        {.name = "stage0/w", .ranks = 2, .first = 3, .rows = 5},
        {.name = "stage1/w", .ranks = 4, .rows = 4},
        {.name = "stage1/w", .ranks = 8, .first = 4, .rows = 4},
        {.name = "stage0/norm", .ranks = 3, .replicas = 2},
        {.name = "stage1/norm", .ranks = 12, .replicas = 2},
    };
    save(j, 4, PLAN(halves));
    restore(j, 4, PLAN(halves));
    assert_job_ok(j);
}

/* So many and so mixed that the ranks meet several times to compare them. */
static void test_many_entries_are_compared(void **state) {
    job *j = *state;
    static const part none[] = {{.name = "norm", .ranks = 3, .replicas = -1}};
    static const part both[] = {{.name = "zzz", .ranks = 2},
                                {.name = "norm", .ranks = 3, .replicas = -1}};
    save(j, 2, PLAN(both, .many = 5000));
    restore(j, 2, PLAN(both, .many = 5000));
    assert_job_ok(j);
    restore(j, 2, PLAN(none, .many = 5000));
    assert_job_fails(j, PAWL_EMISMATCH, "differ in 1 place: \"zzz\"");
    restore(j, 2, PLAN(both, .many = 4996));
    assert_job_fails(j, PAWL_EMISMATCH, "differ in 4 places: \"many/04996\"");
}

static void test_a_damaged_step_is_passed_over_by_all_stages(void **state) {
    job *j = *state;
    char command[256];
    save(j, 2, PLAN(two_stages));
    (void)snprintf(command, sizeof command,
                   "for f in '%s'/step-00000002/data-*-r00001-*; do printf x | "
                   "dd of=\"$f\" bs=1 seek=4200 conv=notrunc 2>/dev/null; done",
                   j->path);
    assert_int_equal(system(command), 0);
    restore(j, 2, PLAN(two_stages));
    assert_job_ok(j);
    assert_says(j->told[0].report, "step 1: restored");
}

/* ---- what stays an error -------------------------------------------------------------------- */

/* Fewer stages than were saved: what nobody wants is told alike on all ranks. */
static void check_nobody(job *j) {
    save(j, 4, PLAN(four_stages));
    restore(j, 2, PLAN(two_stages, .options = {.per_rank = PAWL_POLICY_CALLER}));
    assert_job_fails(j, PAWL_EMISMATCH,
                     "differ in 3 places: \"stage0/b\", [8, 32] F32 in the checkpoint, is not in "
                     "the state of any of the 2 ranks; \"stage2/w\"");
    assert_string_equal(j->told[0].text, j->told[1].text);
}

static void test_what_nobody_wants_is_told_on_all_ranks(void **state) {
    check_nobody(*state);
}

static void test_what_nobody_wants_is_told_through_callbacks(void **state) {
    job *j = *state;
    j->callbacks = 1;
    check_nobody(j);
}

/* All ranks lack the same: they need not compare. */
static void test_what_all_ranks_lack_is_told(void **state) {
    job *j = *state;
    static const part old[] = {{.name = "norm", .ranks = 3, .replicas = -1},
                               {.name = "old", .ranks = 3, .replicas = -1}};
    static const part now[] = {{.name = "norm", .ranks = 3, .replicas = -1}};
    save(j, 2, PLAN(old));
    restore(j, 2, PLAN(now));
    assert_job_fails(j, PAWL_EMISMATCH,
                     "differ in 1 place: \"old\", [8, 32] F32 in the "
                     "checkpoint, is not in the state of any of the 2 ranks");
}

/* Missing and unexpected at once, and who is concerned. */
static void test_missing_names_the_rank(void **state) {
    job *j = *state;
    static const part now[] = {{.name = "stage0/w", .ranks = 1},
                               {.name = "stage1/v", .ranks = 2},
                               {.name = "norm", .ranks = 3, .replicas = -1}};
    save(j, 2, PLAN(two_stages));
    restore(j, 2, PLAN(now));
    assert_job_fails(j, PAWL_EMISMATCH, "\"stage1/w\"");
    assert_says(j->told[1].text,
                "\"stage1/v\", [8, 32] F32 in the state, is not in the checkpoint");
    assert_says(j->told[1].report, "add {\"stage1/w\", \"stage1/v\"} to options.renames");
    restore(j, 2, PLAN(now, .options = {.unexpected = PAWL_POLICY_ALLOW}));
    assert_job_fails(j, PAWL_EMISMATCH, "\"stage1/v\"");
    assert_says(j->told[0].text, "rank 1");
}

/* A value that all ranks share is not one rank's to leave out. */
static void test_what_all_ranks_share_is_wanted_by_all(void **state) {
    job *j = *state;
    static const part now[] = {{.name = "stage0/w", .ranks = 1},
                               {.name = "stage1/w", .ranks = 2},
                               {.name = "norm", .ranks = 2, .replicas = -1}};
    save(j, 2, PLAN(two_stages));
    restore(j, 2, &(const plan){.parts = two_stages, .count = 3, .step_on = 2});
    assert_job_fails(j, PAWL_EMISMATCH,
                     "\"step\", 2 in the checkpoint, is in the state of rank 1, declared as"
                     " the same on all ranks, but not in that of rank 0");
    restore(j, 2, PLAN(now));
    assert_job_fails(j, PAWL_EMISMATCH,
                     "\"norm\", [8, 32] F32 in the checkpoint, is in the state of rank 1, declared "
                     "as the same on all ranks, but not in that of rank 0");
}

/* A rank that has forgotten its part is not made up for by those that have theirs. */
static void test_a_part_that_nobody_wants_is_told(void **state) {
    job *j = *state;
    static const part halves[] = {{.name = "w", .ranks = 1, .rows = 3},
                                  {.name = "w", .ranks = 2, .first = 3, .rows = 5},
                                  {.name = "x", .ranks = 2}};
    static const part half[] = {{.name = "w", .ranks = 1, .rows = 3}, {.name = "x", .ranks = 2}};
    save(j, 2, PLAN(halves));
    restore(j, 2, PLAN(half));
    assert_job_fails(j, PAWL_EMISMATCH,
                     "\"w\", [8, 32] F32 in the checkpoint, is only in part in the state of rank "
                     "0, and not in that of rank 1");
    assert_job_fails(
        j, PAWL_EMISMATCH,
        "add it on rank 1, or set options.unexpected = PAWL_POLICY_ALLOW to leave it out there");
}

/* What is left out on request stays left out, with and without other ranks that want it. */
static void test_options_keep_their_meaning(void **state) {
    job *j = *state;
    static const part renamed[] = {{.name = "first/w", .ranks = 1, .saved = "stage0/w"},
                                   {.name = "stage1/w", .ranks = 2},
                                   {.name = "norm", .ranks = 3, .replicas = -1}};
    static const pawl_rename rule = {.from = "stage0", .to = "first"};
    save(j, 4, PLAN(four_stages));
    restore(j, 2,
            PLAN(two_stages,
                 .options = {.unexpected = PAWL_POLICY_ALLOW, .per_rank = PAWL_POLICY_CALLER}));
    assert_job_ok(j);
    assert_says(j->told[0].report, "\"stage1/w\", [8, 32] F32 in the checkpoint, is not in the "
                                   "state: it is left out");
    restore(j, 2,
            PLAN(renamed, .options = {.renames = &rule,
                                      .rename_count = 1,
                                      .rename_size = sizeof(pawl_rename),
                                      .unexpected = PAWL_POLICY_ALLOW,
                                      .per_rank = PAWL_POLICY_CALLER}));
    assert_job_ok(j);
}

int main(void) {
#define TEST(t) cmocka_unit_test_setup_teardown(t, job_set_up, job_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_two_stages_restore_strictly),
        TEST(test_four_stages_restore_strictly),
        TEST(test_two_stages_restore_through_callbacks),
        TEST(test_four_stages_restore_through_callbacks),
        TEST(test_a_rank_that_holds_nothing_restores),
        TEST(test_a_rank_that_was_not_built_is_found),
        TEST(test_stages_are_regrouped),
        TEST(test_stages_of_several_ranks_restore),
        TEST(test_many_entries_are_compared),
        TEST(test_a_damaged_step_is_passed_over_by_all_stages),
        TEST(test_what_nobody_wants_is_told_on_all_ranks),
        TEST(test_what_nobody_wants_is_told_through_callbacks),
        TEST(test_what_all_ranks_lack_is_told),
        TEST(test_missing_names_the_rank),
        TEST(test_what_all_ranks_share_is_wanted_by_all),
        TEST(test_a_part_that_nobody_wants_is_told),
        TEST(test_options_keep_their_meaning),
    };
    return cmocka_run_group_tests_name("stages of a pipeline", tests, NULL, NULL);
}
