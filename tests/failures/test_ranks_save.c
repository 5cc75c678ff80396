/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Saving with many ranks, each a process of its own: one that is missing, dead, slow, has no room,
 * or saves something else, and what every other rank is told (S11, S12, J04).
 */
#include "failures.h"
#include "lib/at_step.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#define RANKS       4
#define ROW_COLUMNS 1048576 /* a row is 4 MiB */

/* What the processes of a test share. */
typedef struct board {
    atomic_int stage; /* set by the test */
    atomic_int here;  /* ranks that have come so far */
} board;

typedef struct member {
    board *board;
    int rank;
    double group_deadline_s; /* 0: the default */
    void (*body)(struct member *m);
    trainer t;
    float *row;
} member;

typedef struct fixture {
    char path[64];
    board *board;
    member members[RANKS];
    child children[RANKS];
} fixture;

static int set_up(void **state) {
    static fixture f;
    memset(&f, 0, sizeof(f));
    scratch_make(f.path);
    f.board =
        mmap(NULL, sizeof(*f.board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(f.board != MAP_FAILED);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    assert_int_equal(munmap(f->board, sizeof(*f->board)), 0);
    scratch_remove(f->path);
    return 0;
}

/* ---- a rank --------------------------------------------------------------------------------- */

/* The memory that trainers show is a part of the whole: a row of model/rows. */
static void add_row(member *m) {
    const int64_t shape[] = {RANKS, ROW_COLUMNS};
    const int64_t offset[] = {m->rank, 0};
    const int64_t extent[] = {1, ROW_COLUMNS};
    m->row = calloc(ROW_COLUMNS, sizeof(float));
    assert_non_null(m->row);
    const pawl_box box = {.offset = offset, .extent = extent, .data = m->row};
    const pawl_tensor rows = {.struct_size = sizeof(rows),
                              .name = "model/rows",
                              .dtype = PAWL_F32,
                              .ndim = 2,
                              .shape = shape,
                              .nboxes = 1,
                              .boxes = &box,
                              .box_size = sizeof(pawl_box)};
    assert_works(pawl_state_add_tensor(m->t.state, &rows, m->t.err), m->t.err);
}

static void add_bias(member *m, int replicated) {
    static const int64_t shape[] = {KERNEL_COLUMNS};
    const pawl_tensor bias = {.struct_size = sizeof(bias),
                              .name = "model/bias",
                              .dtype = PAWL_F32,
                              .ndim = 1,
                              .shape = shape,
                              .data = m->t.kernel,
                              .replicated = replicated};
    assert_works(pawl_state_add_tensor(m->t.state, &bias, m->t.err), m->t.err);
}

static void open_with(member *m, pawl_run_options options) {
    const pawl_group group = {
        .struct_size = sizeof(group), .rank = m->rank, .world_size = RANKS, .launch = "job-1"};
    options.group = &group;
    options.group_deadline_s = m->group_deadline_s;
    trainer_open_with(&m->t, "run", &options);
}

static void begin(member *m, int64_t step) {
    assert_works(pawl_state_set_int64(m->t.state, "step", PAWL_ROLE_STEP, step, m->t.err),
                 m->t.err);
    for (size_t i = 0; i < ROW_COLUMNS; i++) {
        m->row[i] = (float)(step + m->rank);
    }
    assert_works(pawl_save(m->t.run, m->t.state, step, NULL, m->t.err), m->t.err);
}

static void save(member *m, int64_t step) {
    begin(m, step);
    assert_works(pawl_wait(m->t.run, 60, NULL, m->t.err), m->t.err);
}

static void come(member *m) {
    atomic_fetch_add(&m->board->here, 1);
}

static void wait_for_stage(const member *m, int stage) {
    for (int i = 0; i < 60000 && atomic_load(&m->board->stage) < stage; i++) {
        (void)usleep(1000);
    }
    assert_true(atomic_load(&m->board->stage) >= stage);
}

static void member_main(void *context) {
    member *m = context;
    trainer_init(&m->t);
    add_row(m);
    open_with(m, trainer_options(&m->t));
    m->body(m);
    trainer_free(&m->t);
    free(m->row);
}

static void start(fixture *f, double group_deadline_s, void (*body)(member *m)) {
    for (int r = 0; r < RANKS; r++) {
        f->members[r] = (member){
            .board = f->board, .rank = r, .group_deadline_s = group_deadline_s, .body = body};
        f->children[r] = child_start(member_main, &f->members[r]);
    }
}

static void wait_until_here(fixture *f, int ranks) {
    for (int i = 0; i < 60000 && atomic_load(&f->board->here) < ranks; i++) {
        (void)usleep(1000);
    }
    assert_int_equal(atomic_load(&f->board->here), ranks);
}

static void go_on(fixture *f, int stage) {
    atomic_store(&f->board->stage, stage);
}

static void end_well(fixture *f, int from, int below) {
    for (int r = from; r < below; r++) {
        assert_int_equal(child_wait(&f->children[r]), 0);
    }
}

static void assert_restorable(int64_t step) {
    pawl_error *err = pawl_error_new();
    pawl_checkpoint *c = NULL;
    pawl_verify_result result = {.struct_size = sizeof result};
    assert_works(pawl_checkpoint_open("run", AT_STEP(step), &c, err), err);
    assert_works(pawl_checkpoint_verify(c, NULL, &result, err), err);
    pawl_checkpoint_close(c);
    pawl_error_free(err);
}

/* ---- S11 ------------------------------------------------------------------------------------ */

static void hear_of_missing_rank_3(member *m) {
    save(m, 1000);
    if (m->rank < 3) {
        begin(m, 2000);
        assert_tells(pawl_wait(m->t.run, 60, NULL, m->t.err), PAWL_EPEER, m->t.err,
                     "saving step 2000: not all ranks have voted within {n} {w} that their part is "
                     "durable\n"
                     "  path:     {d}/run/step-00002000\n"
                     "  expected: votes of 4 ranks\n"
                     "  found:    none of rank 3 (host {w}, pid {n})\n"
                     "  safe:     step 1000 is committed and can be restored\n"
                     "  next:     check that those processes run, and that their storage "
                     "responds; where they are only slow, give group_deadline_s a larger value");
    }
    come(m);
    wait_for_stage(m, 1);
}

static void test_s11_a_rank_that_does_not_save_is_named_on_every_other(void **state) {
    fixture *f = *state;
    start(f, 2, hear_of_missing_rank_3);
    wait_until_here(f, RANKS);
    go_on(f, 1);
    end_well(f, 0, RANKS);
    assert_false(file_exists("run/step-00002000"));
    assert_restorable(1000);
}

static void hear_of_dead_rank_3(member *m) {
    save(m, 1000);
    come(m);
    wait_for_stage(m, m->rank == 3 ? 2 : 1);
    begin(m, 2000);
    assert_tells(pawl_wait(m->t.run, 60, NULL, m->t.err), PAWL_EPEER, m->t.err,
                 "saving step 2000: rank 3 (host {w}, pid {n}) has ended without a vote\n"
                 "  path:     {d}/run/step-00002000\n"
                 "  expected: votes of 4 ranks\n"
                 "  found:    none of rank 3\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     look into that rank's log for why it ended; a new start of the job "
                 "continues from the newest checkpoint");
}

static void test_s11_a_killed_rank_is_named_at_once(void **state) {
    fixture *f = *state;
    start(f, 60, hear_of_dead_rank_3);
    wait_until_here(f, RANKS);
    assert_int_equal(child_kill(&f->children[3]), -SIGKILL);
    go_on(f, 1);
    end_well(f, 0, 3);
    assert_restorable(1000);
}

static void hear_of_dead_rank_0(member *m) {
    save(m, 1000);
    come(m);
    wait_for_stage(m, m->rank == 0 ? 2 : 1);
    begin(m, 2000);
    assert_tells(pawl_wait(m->t.run, 60, NULL, m->t.err), PAWL_EPEER, m->t.err,
                 "saving step 2000: rank 0 (host {w}, pid {n}) has ended without telling how the "
                 "save went\n"
                 "  path:     {d}/run/outcome-{w}\n"
                 "  expected: the outcome that rank 0 tells all ranks\n"
                 "  found:    no such file, and no manifest of this save: it is not committed\n"
                 "  safe:     step 1000 is committed and can be restored\n"
                 "  next:     look into rank 0's log for why it ended; a new start of the job "
                 "continues from the newest checkpoint");
}

static void save_3000(member *m) {
    save(m, 3000);
}

static void test_s11_a_killed_rank_0_is_named_at_once_and_the_next_job_takes_over(void **state) {
    fixture *f = *state;
    start(f, 60, hear_of_dead_rank_0);
    wait_until_here(f, RANKS);
    assert_int_equal(child_kill(&f->children[0]), -SIGKILL);
    go_on(f, 1);
    end_well(f, 1, RANKS);
    start(f, 60, save_3000);
    end_well(f, 0, RANKS);
    assert_restorable(3000);
    assert_restorable(1000);
    assert_false(file_exists("run/step-00002000"));
}

/* ---- S07 ------------------------------------------------------------------------------------ */

static void hear_of_full_disk(member *m) {
    save(m, 1000);
    if (m->rank == 2) {
        disk_reserves(ENOSPC);
    }
    begin(m, 2000);
    pawl_status status = pawl_wait(m->t.run, 60, NULL, m->t.err);
    if (m->rank == 2) {
        assert_tells(status, PAWL_ENOSPACE, m->t.err,
                     "saving step 2000: cannot reserve room for the file\n"
                     "  path:     {d}/run/step-00002000/{f}\n"
                     "  expected: {b} free\n"
                     "  found:    {b} and {n} more files free on the filesystem at {p} ({w})\n"
                     "  system:   No space left on device (ENOSPC, errno 28)\n"
                     "  safe:     step 1000 is committed and can be restored\n"
                     "  next:     free space there, or choose another directory");
        disk_heals();
    } else {
        assert_tells(status, PAWL_ENOSPACE, m->t.err,
                     "saving step 2000: rank 2 (host {w}, pid {n}): cannot reserve room for the "
                     "file\n"
                     "  path:     {d}/run/step-00002000/{f}\n"
                     "  expected: {b} free\n"
                     "  found:    {b} and {n} more files free on the filesystem at {p} ({w})\n"
                     "  system:   No space left on device (ENOSPC, errno 28)\n"
                     "  safe:     step 1000 is committed and can be restored\n"
                     "  next:     free space there, or choose another directory");
    }
    save(m, 3000);
}

static void test_s07_a_full_disk_of_one_rank_is_told_on_all_and_the_next_save_works(void **state) {
    fixture *f = *state;
    start(f, 60, hear_of_full_disk);
    end_well(f, 0, RANKS);
    assert_restorable(3000);
    assert_false(file_exists("run/step-00002000"));
}

/* ---- S12, J04 ------------------------------------------------------------------------------- */

static void hear_of_other_step(member *m) {
    begin(m, m->rank == 1 ? 2001 : 2000);
    pawl_status status = pawl_wait(m->t.run, 60, NULL, m->t.err);
    if (m->rank == 1) {
        assert_tells(status, PAWL_EMISMATCH, m->t.err,
                     "saving step 2001: the ranks do not save the same step: rank 0 (host {w}, pid "
                     "{n}) saves another one\n"
                     "  path:     {d}/run/outcome-{w}\n"
                     "  expected: step 2001, as this rank (rank 1)\n"
                     "  found:    step 2000\n"
                     "  safe:     this run has no checkpoint yet\n"
                     "  next:     call pawl_save on all ranks for the same steps, and equally "
                     "often");
    } else {
        assert_tells(status, PAWL_EMISMATCH, m->t.err,
                     "saving step 2000: the ranks do not save the same step: rank 1 (host {w}, pid "
                     "{n}) saves another one\n"
                     "  path:     {d}/run/step-00002000\n"
                     "  expected: step 2000, as rank 0\n"
                     "  found:    step 2001\n"
                     "  safe:     this run has no checkpoint yet\n"
                     "  next:     call pawl_save on all ranks for the same steps, and equally "
                     "often");
    }
    save(m, 3000);
}

static void test_s12_ranks_that_save_other_steps_are_told_so(void **state) {
    fixture *f = *state;
    start(f, 60, hear_of_other_step);
    end_well(f, 0, RANKS);
    assert_restorable(3000);
    assert_false(file_exists("run/step-00002000"));
    assert_false(file_exists("run/step-00002001"));
}

static void hear_of_hole(member *m) {
    static const int64_t shape[] = {6};
    const int64_t offset[] = {m->rank};
    const int64_t extent[] = {1};
    const pawl_box box = {.offset = offset, .extent = extent, .data = m->t.kernel};
    const pawl_tensor holed = {.struct_size = sizeof(holed),
                               .name = "model/holed",
                               .dtype = PAWL_F32,
                               .ndim = 1,
                               .shape = shape,
                               .nboxes = 1,
                               .boxes = &box,
                               .box_size = sizeof(pawl_box)};
    assert_works(pawl_state_add_tensor(m->t.state, &holed, m->t.err), m->t.err);
    begin(m, 1000);
    assert_tells(pawl_wait(m->t.run, 60, NULL, m->t.err), PAWL_EMISMATCH, m->t.err,
                 "saving step 1000: what the ranks saved does not fit together\n"
                 "  entry:    model/holed\n"
                 "  expected: each element from one rank, and entries alike on all ranks\n"
                 "  found:    no rank holds [4:6]\n"
                 "  safe:     this run has no checkpoint yet\n"
                 "  next:     let the ranks hold all of the shape that they declare");
}

static void test_s12_a_box_that_no_rank_holds_is_told_on_all(void **state) {
    fixture *f = *state;
    start(f, 60, hear_of_hole);
    end_well(f, 0, RANKS);
    assert_false(file_exists("run/step-00001000/manifest.json"));
}

/* The variable was made outside the distribution scope: rank 0 alone has it. */
static void hear_of_missing_variable(member *m) {
    if (m->rank == 0) {
        add_bias(m, 1);
    }
    begin(m, 1000);
    assert_tells(pawl_wait(m->t.run, 60, NULL, m->t.err), PAWL_EMISMATCH, m->t.err,
                 "saving step 1000: the ranks do not have the same entries\n"
                 "  entry:    model/bias\n"
                 "  expected: the same replicated tensors, values and names on all ranks\n"
                 "  found:    replicated tensor [8] F32 on rank 0; not on ranks 1 to 3\n"
                 "  safe:     this run has no checkpoint yet\n"
                 "  next:     make it on every rank: variables and optimizer inside the strategy's "
                 "scope, where there is one");
}

static void test_j04_a_variable_that_some_ranks_lack_is_named(void **state) {
    fixture *f = *state;
    start(f, 60, hear_of_missing_variable);
    end_well(f, 0, RANKS);
}

static void hear_of_unreplicated(member *m) {
    add_bias(m, m->rank != 2);
    begin(m, 1000);
    assert_tells(pawl_wait(m->t.run, 60, NULL, m->t.err), PAWL_EMISMATCH, m->t.err,
                 "saving step 1000: the ranks do not have the same entries\n"
                 "  entry:    model/bias\n"
                 "  expected: the same replicated tensors, values and names on all ranks\n"
                 "  found:    replicated tensor [8] F32 on ranks 0, 1 and 3; not replicated on "
                 "rank 2\n"
                 "  safe:     this run has no checkpoint yet\n"
                 "  next:     declare it replicated on all ranks, or on none");
}

static void test_j04_a_variable_that_is_not_replicated_everywhere_is_named(void **state) {
    fixture *f = *state;
    start(f, 60, hear_of_unreplicated);
    end_well(f, 0, RANKS);
}

/* ---- a slow rank stalls nobody -------------------------------------------------------------- */

#define TRAINED_STEPS 1000

/* Rank 3's disk holds its first write; the others save, are fenced and train on meanwhile. */
static void train_beside_slow_rank_3(member *m) {
    pawl_save_stats stats = {.struct_size = sizeof stats};
    save(m, 1000);
    if (m->rank == 3) {
        disk_hangs();
        begin(m, 2000);
        disk_wait_until_hung();
        come(m);
        wait_for_stage(m, 1);
        disk_heals();
        assert_works(pawl_wait(m->t.run, 60, NULL, m->t.err), m->t.err);
        return;
    }
    begin(m, 2000);
    for (int step = 2001; step <= 2000 + TRAINED_STEPS; step++) {
        assert_works(pawl_fence(m->t.run, 60, m->t.err), m->t.err);
        m->row[step % ROW_COLUMNS] += 1.0F;
    }
    assert_tells(pawl_wait(m->t.run, 2, &stats, m->t.err), PAWL_ETIMEOUT, m->t.err,
                 m->rank == 0
                     ? "waiting for the save: the commit of step 2000 took longer than {n} {w}\n"
                       "  found:    this rank's part is durable; 1 rank has not voted yet, the "
                       "first of them is rank 3 (host {w}, pid {n})\n"
                       "  safe:     step 1000 is committed and can be restored\n"
                       "  next:     wait again; a rank that stays silent is given up after "
                       "group_deadline_s"
                     : "waiting for the save: the commit of step 2000 took longer than {n} {w}\n"
                       "  found:    this rank's part is durable; rank 0 (host {w}, pid {n}) has "
                       "not told yet how the save went\n"
                       "  safe:     step 1000 is committed and can be restored\n"
                       "  next:     wait again; a rank that stays silent is given up after "
                       "group_deadline_s");
    come(m);
    assert_works(pawl_wait(m->t.run, 60, &stats, m->t.err), m->t.err);
    assert_true(stats.fence_wait_s == 0);
    assert_true(stats.group_wait_s > 0);
}

static void test_a_slow_rank_stalls_no_others_training(void **state) {
    fixture *f = *state;
    start(f, 60, train_beside_slow_rank_3);
    wait_until_here(f, RANKS); /* all others have trained on: the write is still held */
    assert_false(file_exists("run/step-00002000/manifest.json"));
    go_on(f, 1);
    end_well(f, 0, RANKS);
    assert_restorable(2000);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s11_a_rank_that_does_not_save_is_named_on_every_other),
        TEST(test_s11_a_killed_rank_is_named_at_once),
        TEST(test_s11_a_killed_rank_0_is_named_at_once_and_the_next_job_takes_over),
        TEST(test_s07_a_full_disk_of_one_rank_is_told_on_all_and_the_next_save_works),
        TEST(test_s12_ranks_that_save_other_steps_are_told_so),
        TEST(test_s12_a_box_that_no_rank_holds_is_told_on_all),
        TEST(test_j04_a_variable_that_some_ranks_lack_is_named),
        TEST(test_j04_a_variable_that_is_not_replicated_everywhere_is_named),
        TEST(test_a_slow_rank_stalls_no_others_training),
    };
    return cmocka_run_group_tests_name("saving with many ranks fails", tests, NULL, NULL);
}
