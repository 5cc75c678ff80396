/* SPDX-License-Identifier: Apache-2.0 */
/* One start of a job, whose ranks know nothing of each other but its name, opens one run again and
 * again; and an empty name is told for what it is. */
#include "lib/directory.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RANKS      4
#define OPENS      20
#define ROUNDS     6
#define DEADLINE_S 5.0
#define FLOATS     1000

static char run_path[64];
static float weights[FLOATS];

static int set_up(void **state) {
    (void)state;
    directory_new(run_path, "/tmp");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    directory_delete(run_path);
    return 0;
}

/* ---- one rank ---- */

typedef struct plan {
    int rank;
    int opens;
    unsigned pause_us; /* at most so long, between any two calls */
    int killed_rank;   /* dies before it closes the run; -1: none */
    int64_t first_step;
} plan;

static void fail_rank(const plan *p, int open, pawl_error *err) {
    print_error("rank %d, open %d: %s\n", p->rank, open, pawl_error_text(err));
    _exit(1);
}

static void pause_some(const plan *p, unsigned *seed) {
    if (p->pause_us > 0) {
        const struct timespec ts = {.tv_nsec = (long)((unsigned)rand_r(seed) % p->pause_us) * 1000};
        (void)nanosleep(&ts, NULL);
    }
}

static pawl_state *make_state(pawl_error *err) {
    const int64_t shape[] = {FLOATS};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "weights",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = weights,
                                .replicated = 1};
    pawl_state *state = NULL;
    if (pawl_state_new(&state, err) != PAWL_OK ||
        pawl_state_add_tensor(state, &tensor, err) != PAWL_OK) {
        print_error("%s\n", pawl_error_text(err));
        _exit(1);
    }
    return state;
}

static void open_save_close(const plan *p, pawl_state *state, int i, unsigned *seed,
                            pawl_error *err) {
    const pawl_group group = {
        .struct_size = sizeof group, .rank = p->rank, .world_size = RANKS, .launch = "job-7.0"};
    const pawl_run_options options = {
        .struct_size = sizeof options, .group = &group, .group_deadline_s = DEADLINE_S};
    pawl_run *run = NULL;
    pause_some(p, seed);
    if (pawl_run_open(run_path, &options, &run, err) != PAWL_OK) {
        fail_rank(p, i, err);
    }
    pause_some(p, seed);
    if (pawl_save(run, state, p->first_step + i, NULL, err) != PAWL_OK) {
        fail_rank(p, i, err);
    }
    if (p->rank == p->killed_rank) {
        (void)!pawl_wait(run, 0, NULL, err);
        (void)kill(getpid(), SIGKILL);
    }
    pause_some(p, seed);
    if (pawl_run_close(run, 0, err) != PAWL_OK) {
        fail_rank(p, i, err);
    }
}

static void be_rank(const plan *p) {
    pawl_error *err = pawl_error_new();
    pawl_state *state = make_state(err);
    unsigned seed = (unsigned)p->rank * 7919u + (unsigned)p->first_step;
    for (int i = 0; i < p->opens; i++) {
        open_save_close(p, state, i, &seed, err);
    }
    _exit(0);
}

/* ---- all of them ---- */

static void run_job(const plan *all) {
    pid_t pids[RANKS];
    for (int r = 0; r < RANKS; r++) {
        plan p = *all;
        p.rank = r;
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] == 0) {
            be_rank(&p);
        }
    }
    int failed = 0;
    for (int r = 0; r < RANKS; r++) {
        int status = 0;
        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        bool killed = r == all->killed_rank && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        failed += !(killed || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
    }
    assert_int_equal(failed, 0);
}

static void assert_newest(int64_t step) {
    pawl_error *err = pawl_error_new();
    pawl_checkpoint *newest = NULL;
    pawl_checkpoint_info info = {.struct_size = sizeof info};
    assert_ok(pawl_checkpoint_open(run_path, NULL, &newest, err), err);
    assert_ok(pawl_checkpoint_describe(newest, &info, err), err);
    assert_int_equal(info.step, step);
    pawl_checkpoint_close(newest);
    pawl_error_free(err);
}

static void test_one_start_opens_a_run_again_and_again(void **state) {
    (void)state;
    const plan p = {.opens = OPENS, .pause_us = 20000, .killed_rank = -1};
    run_job(&p);
    assert_newest(OPENS - 1);
}

static void test_ranks_as_fast_as_they_can_do_so_too(void **state) {
    (void)state;
    const plan p = {.opens = OPENS, .killed_rank = -1};
    run_job(&p);
    assert_newest(OPENS - 1);
}

/* Whoever of them it was: its files of then are not taken for those of its successor. */
static void test_a_rank_that_was_killed_before_it_closed_makes_no_difference(void **state) {
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        const plan p = {
            .opens = 1, .pause_us = 5000, .killed_rank = i % RANKS, .first_step = 100 * i};
        run_job(&p);
        assert_newest(p.first_step);
    }
}

static void test_an_empty_launch_names_nothing(void **state) {
    (void)state;
    const pawl_group group = {
        .struct_size = sizeof group, .rank = 0, .world_size = 2, .launch = ""};
    const pawl_run_options options = {.struct_size = sizeof options, .group = &group};
    pawl_error *err = pawl_error_new();
    pawl_run *run = NULL;
    assert_fails(pawl_run_open(run_path, &options, &run, err), PAWL_EUSAGE, err);
    assert_null(run);
    assert_says(pawl_error_get(err, PAWL_ERROR_ATTEMPT), "nothing names this start of the job");
    assert_says(pawl_error_get(err, PAWL_ERROR_NEXT), "the same on all ranks");
    pawl_error_free(err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_start_opens_a_run_again_and_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_ranks_as_fast_as_they_can_do_so_too, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_rank_that_was_killed_before_it_closed_makes_no_difference, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_empty_launch_names_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
