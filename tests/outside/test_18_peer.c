/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that died, does not answer or is late is PAWL_EPEER on the others, so that nobody takes it
 * for a bad disk; a rank that says why it failed keeps its status on all of them.
 */
#include "outside/job.h"

#include <signal.h>
#include <sys/resource.h>

#define SOON_S 1
#define BYTES  200000

static pawl_status save_step(pawl_run *run, int64_t step, pawl_error *err) {
    static uint8_t bytes[BYTES];
    const int64_t shape = BYTES;
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "w",
                                .dtype = PAWL_U8,
                                .ndim = 1,
                                .shape = &shape,
                                .data = bytes};
    pawl_state *state = NULL;
    pawl_status status = pawl_state_new(&state, err);
    status = status == PAWL_OK ? pawl_state_add_tensor(state, &tensor, err) : status;
    status = status == PAWL_OK ? pawl_save(run, state, step, NULL, err) : status;
    status = status == PAWL_OK ? pawl_wait(run, 60, NULL, err) : status;
    pawl_state_free(state);
    return status;
}

static void assert_told(const job *j, int rank, pawl_status status, const char *words) {
    if (j->told[rank].status != status || strstr(j->told[rank].text, words) == NULL) {
        fail_msg("rank %d: %s, without \"%s\": %s", rank, pawl_status_name(j->told[rank].status),
                 words, j->told[rank].text);
    }
}

/* ---- saves ---------------------------------------------------------------------------------- */

static pawl_status leave_out_the_save_on_rank_1(job *j, int rank, pawl_run *run, pawl_error *err) {
    (void)j;
    return rank == 1 ? (pawl_status)sleep(SOON_S + 2) : save_step(run, 10, err);
}

static void test_a_rank_that_does_not_save_is_a_missing_rank(void **state) {
    job *j = *state;
    j->group_deadline_s = SOON_S;
    job_run(j, leave_out_the_save_on_rank_1);
    assert_told(j, 0, PAWL_EPEER, "not all ranks have voted");
    assert_told(j, 0, PAWL_EPEER, "none of rank 1 ");
}

static pawl_status leave_out_the_save_on_rank_0(job *j, int rank, pawl_run *run, pawl_error *err) {
    (void)j;
    return rank == 0 ? (pawl_status)sleep(SOON_S + 2) : save_step(run, 10, err);
}

static void test_a_rank_0_that_does_not_tell_is_a_missing_rank(void **state) {
    job *j = *state;
    j->group_deadline_s = SOON_S;
    job_run(j, leave_out_the_save_on_rank_0);
    assert_told(j, 1, PAWL_EPEER, "rank 0 (host ");
    assert_told(j, 1, PAWL_EPEER, "has not told within");
}

static pawl_status die_before_the_save(job *j, int rank, pawl_run *run, pawl_error *err) {
    if (rank == *(const int *)j->context) {
        _exit(0);
    }
    return save_step(run, 10, err);
}

static void test_a_rank_that_died_is_a_missing_rank(void **state) {
    job *j = *state;
    for (int dead = 0; dead < 2; dead++) {
        j->context = &dead;
        job_run(j, die_before_the_save);
        assert_told(j, 1 - dead, PAWL_EPEER,
                    dead == 0 ? "has ended without telling how the save went"
                              : "has ended without a vote");
    }
}

/* As a quota: the vote fits, the tensor does not. */
static pawl_status fill_the_disk_of_rank_1(job *j, int rank, pawl_run *run, pawl_error *err) {
    (void)j;
    struct rlimit room = {65536, 65536};
    if (rank == 1) {
        (void)signal(SIGXFSZ, SIG_IGN);
        (void)setrlimit(RLIMIT_FSIZE, &room);
    }
    return save_step(run, 10, err);
}

static void test_a_rank_whose_disk_is_full_is_a_full_disk_everywhere(void **state) {
    job *j = *state;
    j->context = NULL;
    job_run(j, fill_the_disk_of_rank_1);
    assert_job_fails(j, PAWL_ENOSPACE, "saving step 10: ");
    assert_told(j, 0, PAWL_ENOSPACE, "saving step 10: rank 1 (host ");
}

/* ---- meetings ------------------------------------------------------------------------------- */

static pawl_status stay_away(job *j, int rank, pawl_run *run, pawl_error *err) {
    (void)j;
    pawl_state *empty = NULL;
    pawl_status status = pawl_state_new(&empty, err);
    if (status == PAWL_OK && rank == 0) {
        status = pawl_restore(run, empty, NULL, NULL, err);
    }
    pawl_state_free(empty);
    return status;
}

static void test_a_rank_that_does_not_come_to_a_restore_is_a_missing_rank(void **state) {
    job *j = *state;
    for (j->callbacks = 0; j->callbacks < 2; j->callbacks++) {
        j->group_deadline_s = SOON_S;
        job_run(j, stay_away);
        assert_told(j, 0, PAWL_EPEER, "rank 1 did not come");
    }
}

static pawl_status meet_alone(job *j, int rank, pawl_run *run, pawl_error *err) {
    (void)j;
    return rank == 0 ? pawl_meet(run, SOON_S, err) : PAWL_OK;
}

static void test_a_rank_that_is_late_for_pawl_meet_is_a_missing_rank(void **state) {
    job *j = *state;
    j->callbacks = 1;
    job_run(j, meet_alone);
    assert_told(j, 0, PAWL_EPEER, "pawl_meet: rank 1 did not come in time");
}

static int fail_to_gather(void *context, const void *mine, size_t n, void *all, unsigned char *came,
                          double deadline_s) {
    (void)context, (void)mine, (void)n, (void)all, (void)came, (void)deadline_s;
    return 77;
}

static int fail_to_broadcast(void *context, void *bytes, size_t n, double deadline_s) {
    (void)context, (void)bytes, (void)n, (void)deadline_s;
    return 78;
}

static void test_callbacks_that_fail_are_missing_ranks(void **state) {
    job *j = *state;
    for (int rank = 0; rank < 2; rank++) {
        const pawl_group group = {.struct_size = sizeof group,
                                  .rank = rank,
                                  .world_size = 2,
                                  .gather = fail_to_gather,
                                  .broadcast = fail_to_broadcast};
        const pawl_run_options options = {
            .struct_size = sizeof options, .group = &group, .group_deadline_s = SOON_S};
        pawl_run *run = NULL;
        pawl_error *err = pawl_error_new();
        assert_int_equal(pawl_run_open(j->path, &options, &run, err), PAWL_EPEER);
        assert_non_null(strstr(pawl_error_text(err), "the group's callback gather failed"));
        assert_non_null(strstr(pawl_error_text(err), "77"));
        pawl_error_free(err);
    }
}

int main(void) {
#define TEST(t) cmocka_unit_test_setup_teardown(t, job_set_up, job_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_rank_that_does_not_save_is_a_missing_rank),
        TEST(test_a_rank_0_that_does_not_tell_is_a_missing_rank),
        TEST(test_a_rank_that_died_is_a_missing_rank),
        TEST(test_a_rank_whose_disk_is_full_is_a_full_disk_everywhere),
        TEST(test_a_rank_that_does_not_come_to_a_restore_is_a_missing_rank),
        TEST(test_a_rank_that_is_late_for_pawl_meet_is_a_missing_rank),
        TEST(test_callbacks_that_fail_are_missing_ranks),
    };
    return cmocka_run_group_tests_name("ranks that are missing", tests, NULL, NULL);
}
