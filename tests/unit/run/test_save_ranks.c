/* SPDX-License-Identifier: Apache-2.0 */
/* One save across ranks: the commit, and every way in which one rank fails all of them. */
#include "job.h"

#include "run/save.h"

#include <errno.h>

#define SOON ((pawl_run_options){.group_deadline_s = 2})
/* Where a machine that stalls for 2 s must not make a rank pass the deadline of others. */
#define SOON_IN_TURN ((pawl_run_options){.group_deadline_s = 8})

/* With a heartbeat that is rare enough to shift no count of operations. */
#define RARE_HEARTBEAT 600

/* Rank 0 fails to publish what comes after so many manifests: by a rename, or on an object store
 * by a put, of which each manifest has three: placeholder, owner, and itself. */
static void fail_publishing(job *j, unsigned manifests, int system_errno, bool forever) {
    bool objects = j->disk->traits.objects;
    job_fail(j, 0,
             (store_fault){.op = objects ? STORE_OP_PUT : STORE_OP_RENAME,
                           .nth = manifests * (objects ? 3 : 1) + 1,
                           .system_errno = system_errno,
                           .forever = forever});
}

static void hang_data_writes(job *j, int rank) {
    job_fail(j, rank, (store_fault){.op = STORE_OP_WRITE, .nth = 1, .hang = true});
}

/* ---- the commit ----------------------------------------------------------------------------- */

static void test_four_ranks_commit_one_checkpoint(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    job_save_ok(j, 10);
    job_check_rows(j, 10);
    job_close(j);
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_string_equal(j->ranks[r].log, "");
    }
}

static void test_votes_go_with_the_commit_and_outcomes_with_the_next(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    for (int64_t step = 10; step <= 40; step += 10) {
        job_save_ok(j, step);
    }
    job_close(j);
    assert_int_equal(count_names(j->disk, "step-00000010", "vote-"), 0);
    assert_int_equal(count_names(j->disk, "step-00000040", "vote-"), 0);
    assert_int_equal(count_names(j->disk, "", "outcome-"), 1);
}

static void test_every_rank_says_how_long_it_waited_for_others(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    hang_data_writes(j, 3);
    job_save(j, 10);
    (void)usleep(50000);
    job_release(j, 3);
    job_wait_ok(j);
    assert_true(j->ranks[0].stats.group_wait_s > 0.01);
    assert_true(j->ranks[1].stats.group_wait_s > 0.01);
    assert_true(j->ranks[1].stats.group_wait_s <= j->ranks[1].stats.commit_s);
}

static void test_a_step_saved_again_is_replaced(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    job_save_ok(j, 10);
    size_t files = count_names(j->disk, "step-00000010", "data-");
    job_save_ok(j, 10);
    job_close(j);
    job_check_rows(j, 10);
    assert_int_equal(count_names(j->disk, "step-00000010", "data-"), files);
    assert_int_equal(count_names(j->disk, "step-00000010", "index-"), 1);
}

static void test_retention_is_of_whole_checkpoints(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){.retention = &(pawl_retention){
                                       .struct_size = sizeof(pawl_retention), .keep_last = 1}});
    job_save_ok(j, 10);
    job_save_ok(j, 20);
    job_close(j);
    assert_false(is_there(j->disk, "step-00000010"));
    job_check_rows(j, 20);
}

/* ---- a rank fails --------------------------------------------------------------------------- */

static void test_s07_a_full_disk_of_one_rank_fails_the_save_on_all(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    job_save_ok(j, 10);
    job_fail(
        j, 2,
        (store_fault){.op = STORE_OP_RESERVE, .nth = 1, .system_errno = ENOSPC, .forever = true});
    job_save(j, 20);
    job_wait(j);
    for (int r = 0; r < JOB_RANKS; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(k->status, PAWL_ENOSPACE, &k->err);
        assert_says(k->err.attempt,
                    r == 2 ? "saving step 20: " : "saving step 20: rank 2 (host a, pid 1002): ");
        assert_null(strstr(k->err.attempt + 1, "saving step"));
        assert_string_equal(k->err.safe, "step 10 is committed and can be restored");
    }
    assert_false(job_committed(j, 20));
    job_fail(j, 2, (store_fault){0});
    job_save_ok(j, 30);
    job_close(j);
    assert_false(is_there(j->disk, "step-00000020"));
    job_check_rows(j, 30);
}

/* The files of the save that fails fill the disk: until they are removed rank 0 has no room to
 * tell. */
static void test_s07_a_failure_is_told_when_there_is_room_for_it(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){.lease_s = RARE_HEARTBEAT});
    job_save_ok(j, 10);
    fail_publishing(j, 0, ENOSPC, false); /* the outcome */
    job_fail(
        j, 2,
        (store_fault){.op = STORE_OP_RESERVE, .nth = 1, .system_errno = ENOSPC, .forever = true});
    job_save(j, 20);
    job_wait(j);
    job_all_say(j, PAWL_ENOSPACE, "cannot reserve room for the file");
    assert_says(j->ranks[1].err.attempt, "rank 2 (host a, pid 1002): ");
    assert_true(store_fault_fired(j->ranks[0].fault));
    assert_null(strstr(j->ranks[0].log, "could not be told"));
    job_fail(j, 2, (store_fault){0});
    job_save_ok(j, 30);
}

static void empty_the_disk(void *context, const store_trace_event *event) {
    job_rank *r = context;
    if (event->op == STORE_OP_UNLINK && strstr(event->path, "/data-") != NULL) {
        job_fail(r->job, r->rank, (store_fault){0});
    }
}

/* Its own data fill the disk: without room for a vote rank 0 would wait for it in vain. */
static void test_s07_a_rank_makes_room_to_say_that_its_part_failed(void **state) {
    job *j = *state;
    test_skip_on_objects("an upload that fails leaves no file, so it fills nothing");
    j->ranks[2].watch = empty_the_disk;
    job_open(j, (pawl_run_options){0});
    job_save_ok(j, 10);
    job_fail(
        j, 2,
        (store_fault){.op = STORE_OP_WRITE, .nth = 1, .system_errno = ENOSPC, .forever = true});
    job_save(j, 20);
    job_wait(j);
    job_all_say(j, PAWL_ENOSPACE, "cannot write");
    assert_says(j->ranks[0].err.attempt, "rank 2 (host a, pid 1002): ");
    assert_null(strstr(j->ranks[2].log, "could not be told"));
    job_save_ok(j, 30);
    job_check_rows(j, 30);
}

static void test_s07_a_commit_is_told_when_there_is_room_for_it(void **state) {
    job *j = *state;
    job_open(
        j, (pawl_run_options){.retention = &(pawl_retention){.struct_size = sizeof(pawl_retention),
                                                             .keep_last = 1},
                              .lease_s = RARE_HEARTBEAT});
    job_save_ok(j, 10);
    fail_publishing(j, 1, ENOSPC, false); /* the outcome */
    job_save_ok(j, 20);
    assert_true(store_fault_fired(j->ranks[0].fault));
    assert_string_equal(j->ranks[0].log, "");
    job_check_rows(j, 20);
}

static void test_rank_0s_own_failure_is_told_to_all(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    hang_data_writes(j, 1); /* which so is the last to come */
    job_save(j, 10);
    job_fail(j, 0,
             (store_fault){.op = STORE_OP_SYNC, .nth = 1, .system_errno = EIO, .forever = true});
    job_release(j, 1);
    job_wait(j);
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_fails(j->ranks[r].status, PAWL_EIO, &j->ranks[r].err);
        assert_says(j->ranks[r].err.attempt,
                    r == 0 ? "saving step 10: " : "saving step 10: rank 0 (host a, pid 1000): ");
    }
    job_fail(j, 0, (store_fault){0});
    job_save_ok(j, 20);
}

static void test_a_rank_that_has_no_directory_is_named_by_the_others(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    job_fail(j, 3,
             (store_fault){.op = STORE_OP_SPACE, .nth = 1, .system_errno = EIO, .forever = true});
    job_save(j, 10);
    job_wait(j);
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_fails(j->ranks[r].status, PAWL_EIO, &j->ranks[r].err);
        assert_says(j->ranks[r].err.attempt,
                    r == 3 ? "saving step 10: " : "saving step 10: rank 3 (host a, pid 1003): ");
    }
    job_fail(j, 3, (store_fault){0});
    job_save_ok(j, 20);
    job_close(j);
    assert_false(is_there(j->disk, "step-00000010"));
}

/* A state that pawl_save refuses: a slot of a variable that is not there. */
static void add_misfit(job_rank *r) {
    static float one;
    static const int64_t shape[] = {1};
    struct pawl_error err = ERROR_INIT;
    const pawl_tensor misfit = {.struct_size = sizeof misfit,
                                .name = "adam/m/bias",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = &one,
                                .role = PAWL_ROLE_SLOT,
                                .slot_of = "model/none",
                                .slot = "adam/m"};
    assert_ok(state_add_tensor(r->state, &misfit, &err), &err);
}

static void remove_misfit(job_rank *r) {
    struct pawl_error err = ERROR_INIT;
    assert_ok(state_remove(r->state, "adam/m/bias", &err), &err);
}

static void test_a_rank_that_could_not_start_is_named_by_the_others(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    add_misfit(&j->ranks[3]);
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_int_equal(job_save_rank(&j->ranks[r], 10), r == 3 ? PAWL_EUSAGE : PAWL_OK);
    }
    job_wait(j);
    assert_ok(j->ranks[3].status, &j->ranks[3].err); /* it was told already */
    for (int r = 0; r < 3; r++) {
        assert_fails(j->ranks[r].status, PAWL_EUSAGE, &j->ranks[r].err);
        assert_says(j->ranks[r].err.attempt, "saving step 10: rank 3 (host a, pid 1003): ");
    }
    remove_misfit(&j->ranks[3]);
    job_save_ok(j, 20);
    job_close(j);
    assert_false(is_there(j->disk, "step-00000010"));
}

static void test_rank_0_that_could_not_start_tells_the_others(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    job_save_ok(j, 5); /* leftovers of earlier jobs were looked for */
    add_misfit(&j->ranks[0]);
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_int_equal(job_save_rank(&j->ranks[r], 10), r == 0 ? PAWL_EUSAGE : PAWL_OK);
    }
    job_wait(j);
    for (int r = 1; r < JOB_RANKS; r++) {
        assert_fails(j->ranks[r].status, PAWL_EUSAGE, &j->ranks[r].err);
        assert_says(j->ranks[r].err.attempt, "saving step 10: rank 0 (host a, pid 1000): ");
    }
    remove_misfit(&j->ranks[0]);
    job_save_ok(j, 20);
    job_close(j);
    assert_false(is_there(j->disk, "step-00000010"));
}

/* Each rank is told of the failed save by its next pawl_save, which is then repeated. */
static void test_a_save_that_is_repeated_after_a_failure_commits(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    job_fail(
        j, 1,
        (store_fault){.op = STORE_OP_RESERVE, .nth = 1, .system_errno = ENOSPC, .forever = true});
    job_save(j, 10);
    job_wait(j);
    assert_fails(j->ranks[0].status, PAWL_ENOSPACE, &j->ranks[0].err);
    job_save(j, 20);
    for (int r = 0; r < JOB_RANKS; r += 2) { /* half of them learn of it by pawl_wait */
        assert_fails(run_wait(j->ranks[r].run, 30, NULL, &j->ranks[r].err), PAWL_ENOSPACE,
                     &j->ranks[r].err);
    }
    job_fail(j, 1, (store_fault){0});
    for (int r = 0; r < JOB_RANKS; r++) {
        if (job_save_rank(&j->ranks[r], 30) != PAWL_OK) {
            (void)!job_save_rank(&j->ranks[r], 30);
        }
    }
    job_wait_ok(j);
    job_check_rows(j, 30);
}

/* Step 10 fails. Rank 3 hears of it by a pawl_save of step 20, which begins nothing; the others
 * hear of it by pawl_wait, and save step 20. */
static void set_apart(job *j) {
    job_fail(
        j, 1,
        (store_fault){.op = STORE_OP_RESERVE, .nth = 1, .system_errno = ENOSPC, .forever = true});
    job_save(j, 10);
    for (int r = 0; r < JOB_RANKS; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(r == 3 ? job_save_rank(k, 20) : run_wait(k->run, 30, NULL, &k->err),
                     PAWL_ENOSPACE, &k->err);
    }
    job_fail(j, 1, (store_fault){0});
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        assert_ok(job_save_rank(&j->ranks[r], 20), &j->ranks[r].err);
    }
}

static void test_a_refused_save_that_is_not_repeated_keeps_nobody_waiting(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    set_apart(j);
    assert_ok(job_save_rank(&j->ranks[3], 30), &j->ranks[3].err);
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(run_wait(k->run, 30, NULL, &k->err), PAWL_ECANCELED, &k->err);
        assert_says(k->err.attempt, "saving step 20: rank 3 (host a, pid 1003): pawl_save returned "
                                    "an earlier failure instead");
        assert_ok(job_save_rank(k, 30), &k->err);
    }
    job_wait_ok(j);
    job_check_rows(j, 30);
}

/* They never call pawl_wait, nor repeat a call; else each would start nothing in turn, for ever. */
static void test_ranks_that_one_refused_save_set_apart_find_together_by_going_on(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    set_apart(j);
    for (int r = JOB_RANKS - 1; r >= 0; r--) {
        assert_ok(job_save_rank(&j->ranks[r], 30), &j->ranks[r].err);
    }
    assert_says(j->ranks[2].log, "saving step 20: rank 3 (host a, pid 1003): pawl_save returned");
    job_wait_ok(j);
    job_check_rows(j, 30);
}

static void save_twenty(job_rank *r, const void *with) {
    (void)with;
    (void)!run_fence(r->run, 30, &r->err); /* a save may read it yet */
    job_fill(r, 20);
    (void)!job_save_rank(r, 20);
}

static void save_again_then_wait(job *j, int rank) {
    job_rank *k = &j->ranks[rank];
    job_fill(k, 20);
    assert_ok(job_save_rank(k, 10), &k->err);
}

static void test_s12_a_call_that_rank_0_never_made_ends_when_it_goes_on(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    job_save_ok(j, 10);
    save_again_then_wait(j, 3);
    job_all(j, save_twenty, NULL);
    job_rank *k = &j->ranks[3];
    assert_fails(k->status, PAWL_EMISMATCH, &k->err);
    assert_says(k->err.attempt, "saving step 10: the ranks do not save equally often: rank 0 has "
                                "gone on without this call of rank 3 (host a, pid 1003)");
    assert_ok(job_save_rank(k, 20), &k->err);
    job_wait_ok(j);
    job_check_rows(j, 20);
}

static void test_s12_a_call_that_rank_0_alone_made_ends_when_others_go_on(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    job_save_ok(j, 10);
    save_again_then_wait(j, 0);
    job_all(j, save_twenty, NULL);
    job_rank *k = &j->ranks[0];
    assert_fails(k->status, PAWL_EMISMATCH, &k->err);
    assert_says(k->err.attempt, "saving step 10: the ranks do not save equally often: rank ");
    assert_ok(job_save_rank(k, 20), &k->err);
    job_wait_ok(j);
    job_check_rows(j, 20);
}

/* ---- what nobody can be sure of ------------------------------------------------------------- */

/* G3: the manifest is visible, and cannot be made durable. */
static void test_a_commit_that_cannot_be_made_durable_is_not_said_to_have_failed(void **state) {
    job *j = *state;
    test_skip_on_objects("what is put is durable");
    job_open(j, (pawl_run_options){0});
    job_fail(j, 0, /* of the directory, of the run's, and when the manifest has its name */
             (store_fault){.op = STORE_OP_SYNC_DIR, .nth = 3, .system_errno = EIO});
    job_save(j, 10);
    job_wait(j);
    assert_true(job_committed(j, 10));
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_fails(j->ranks[r].status, PAWL_EIO, &j->ranks[r].err);
        if (r > 0) {
            assert_says(j->ranks[r].err.next, "step 10 may be committed or not: see with pawl ls");
        }
    }
}

/* Rank 0 has told nobody: each makes the manifest durable before it believes in it. */
static void test_a_manifest_is_believed_only_when_it_is_durable(void **state) {
    job *j = *state;
    pawl_run_options options = SOON_IN_TURN;
    options.lease_s = RARE_HEARTBEAT;
    job_open(j, options);
    job_save_ok(j, 5);                /* the first save puts more */
    fail_publishing(j, 1, EIO, true); /* the outcome */
    job_fail(
        j, 3, /* its data files come first */
        (store_fault){.op = STORE_OP_SYNC_DIR, .nth = 2, .system_errno = EIO, .forever = true});
    job_save(j, 10);
    job_wait(j);
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        assert_ok(j->ranks[r].status, &j->ranks[r].err);
    }
    assert_fails(j->ranks[3].status, PAWL_EPEER, &j->ranks[3].err);
    assert_says(j->ranks[3].err.next, "the save may still be committed: see with pawl ls");
}

/* ---- S11 ------------------------------------------------------------------------------------ */

static void test_s11_a_rank_that_does_not_come_is_named_at_the_deadline(void **state) {
    job *j = *state;
    job_open(j, SOON_IN_TURN);
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        assert_ok(job_save_rank(&j->ranks[r], 10), &j->ranks[r].err);
    }
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(run_wait(k->run, 30, NULL, &k->err), PAWL_EPEER, &k->err);
        assert_says(k->err.attempt, "saving step 10: not all ranks have voted within 6.0 s");
        assert_string_equal(k->err.expected, "votes of 4 ranks");
        assert_string_equal(k->err.found, "none of rank 3 (host a, pid 1003)");
    }
    job_close(j);
}

static void test_s11_a_dead_rank_is_named_at_once(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){.group_deadline_s = 600});
    job_save_ok(j, 10);
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        assert_ok(job_save_rank(&j->ranks[r], 20), &j->ranks[r].err);
    }
    atomic_store(&j->dead[3], true);
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(run_wait(k->run, 30, NULL, &k->err), PAWL_EPEER, &k->err);
        assert_says(k->err.attempt,
                    "saving step 20: rank 3 (host a, pid 1003) has ended without a vote");
        assert_string_equal(k->err.found, "none of rank 3");
    }
}

static void test_a_rank_that_voted_and_died_does_not_fail_the_save(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){.group_deadline_s = 600});
    assert_ok(job_save_rank(&j->ranks[3], 10), &j->ranks[3].err);
    while (count_names(j->disk, "step-00000010", "vote-") == 0) {
        (void)usleep(1000);
    }
    atomic_store(&j->dead[3], true);
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        assert_ok(job_save_rank(&j->ranks[r], 10), &j->ranks[r].err);
    }
    job_wait_ok(j);
    assert_true(job_committed(j, 10));
}

static void test_s11_rank_0_that_died_is_named_at_once(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){.group_deadline_s = 600});
    for (int r = 1; r < JOB_RANKS; r++) {
        assert_ok(job_save_rank(&j->ranks[r], 10), &j->ranks[r].err);
    }
    atomic_store(&j->dead[0], true);
    for (int r = 1; r < JOB_RANKS; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(run_wait(k->run, 30, NULL, &k->err), PAWL_EPEER, &k->err);
        assert_says(k->err.attempt, "saving step 10: rank 0 (host a, pid 1000) has ended without "
                                    "telling how the save went");
        assert_says(k->err.found, "no manifest of this save is seen");
    }
}

static void test_s11_rank_0_that_does_not_tell_is_named_at_the_deadline(void **state) {
    job *j = *state;
    job_open(j, SOON);
    for (int r = 1; r < JOB_RANKS; r++) {
        assert_ok(job_save_rank(&j->ranks[r], 10), &j->ranks[r].err);
    }
    for (int r = 1; r < JOB_RANKS; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(run_wait(k->run, 30, NULL, &k->err), PAWL_EPEER, &k->err);
        assert_says(k->err.attempt, "saving step 10: rank 0 (host a, pid 1000) has not told within "
                                    "2.0 s how the save went");
        assert_says(k->err.next, "the save may still be committed: see with pawl ls");
    }
}

/* Then rank 0 may have told it. */
static void test_a_rank_that_cannot_look_for_the_outcome_blames_its_storage(void **state) {
    job *j = *state;
    job_open(j, SOON);
    for (int r = 1; r < JOB_RANKS; r++) {
        assert_ok(job_save_rank(&j->ranks[r], 10), &j->ranks[r].err);
    }
    while (count_names(j->disk, "step-00000010", "vote-") < JOB_RANKS - 1) {
        (void)usleep(1000);
    }
    job_fail(j, 1,
             (store_fault){.op = STORE_OP_OPEN, .nth = 1, .system_errno = EIO, .forever = true});
    for (int r = 1; r < JOB_RANKS; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(run_wait(k->run, 30, NULL, &k->err), r == 1 ? PAWL_EIO : PAWL_EPEER, &k->err);
        assert_says(k->err.attempt, "has not told within 2.0 s how the save went");
    }
}

/* Rank 0 dies when the manifest is there, before it can tell so. */
static void test_a_commit_that_nobody_told_of_is_found_in_the_manifest(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){.group_deadline_s = 600});
    job_save(j, 10);
    while (!job_committed(j, 10)) {
        (void)usleep(100);
    }
    job_wait_ok(j);
    struct pawl_error err = ERROR_INIT;
    char tag[FORMAT_TAG_CHARS];
    snprintf(tag, sizeof tag, "%.12s-%u", j->ranks[1].run->ranks->attempt,
             (unsigned)j->ranks[1].run->current_number);
    char name[80];
    name_outcome(name, tag);
    assert_ok(store_unlink(j->disk, name, &err), &err);
    atomic_store(&j->dead[0], true);
    assert_ok(outcome_wait(j->ranks[1].run, "step-00000010", tag, 10, &err), &err);
}

static void test_a_vote_that_comes_after_the_outcome_hears_it(void **state) {
    job *j = *state;
    job_open(j, SOON_IN_TURN);
    job_save_ok(j, 10);
    hang_data_writes(j, 3);
    job_save(j, 20);
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(run_wait(k->run, 30, NULL, &k->err), PAWL_EPEER, &k->err);
        assert_says(k->err.attempt, "saving step 20: not all ranks have voted");
    }
    job_release(j, 3);
    job_rank *late = &j->ranks[3];
    assert_fails(run_wait(late->run, 30, NULL, &late->err), PAWL_EPEER, &late->err);
    assert_says(late->err.attempt, "saving step 20: not all ranks have voted");
    job_save_ok(j, 30);
    job_close(j);
    assert_false(is_there(j->disk, "step-00000020"));
    job_check_rows(j, 30);
}

/* ---- S04, cancel ---------------------------------------------------------------------------- */

static void test_s04_a_rank_that_skips_is_named_by_the_others(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){.group_deadline_s = 8, .on_busy = PAWL_ON_BUSY_SKIP});
    hang_data_writes(j, 3);
    job_save(j, 10);
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(run_wait(k->run, 30, NULL, &k->err), PAWL_EPEER, &k->err);
    }
    job_fail(j, 3, (store_fault){.op = STORE_OP_WRITE, .nth = 1000000});
    job_save(j, 20);
    assert_true(j->ranks[3].run->stats.skipped);
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(run_wait(k->run, 30, NULL, &k->err), PAWL_ECANCELED, &k->err);
        assert_string_equal(k->err.attempt,
                            "saving step 20: rank 3 (host a, pid 1003) was still busy with the "
                            "save before this one, and skipped it");
    }
    job_release(j, 3);
    job_rank *k = &j->ranks[3];
    assert_fails(run_wait(k->run, 30, NULL, &k->err), PAWL_EPEER, &k->err);
    job_save_ok(j, 30);
    job_close(j);
    assert_false(is_there(j->disk, "step-00000020"));
}

static void test_s04_a_rank_that_is_busy_costs_the_others_one_save(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){.group_deadline_s = 8, .on_busy = PAWL_ON_BUSY_ERROR});
    job_rank *busy = &j->ranks[3];
    hang_data_writes(j, 3);
    job_save(j, 10);
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(run_wait(k->run, 30, NULL, &k->err), PAWL_EPEER, &k->err);
    }
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        assert_ok(job_save_rank(&j->ranks[r], 20), &j->ranks[r].err);
    }
    assert_fails(job_save_rank(busy, 20), PAWL_EBUSY, &busy->err);
    job_release(j, 3);
    assert_fails(run_wait(busy->run, 30, NULL, &busy->err), PAWL_EPEER, &busy->err);
    for (int r = 0; r < JOB_RANKS; r++) {
        job_rank *k = &j->ranks[r];
        struct pawl_error ignored = ERROR_INIT;
        assert_ok(run_settle(k->run, &ignored), &ignored);
        assert_ok(job_save_rank(k, 30), &k->err);
    }
    assert_says(j->ranks[1].log, "saving step 20: rank 3 (host a, pid 1003) was still busy");
    job_wait_ok(j);
    job_check_rows(j, 30);
}

static void test_s04_a_rank_takes_an_outcome_that_is_there_before_it_skips(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){.on_busy = PAWL_ON_BUSY_SKIP});
    for (int64_t step = 10; step < 20; step++) {
        job_save(j, step);
        job_rank *first = &j->ranks[0];
        assert_ok(run_wait(first->run, 30, NULL, &first->err), &first->err);
        for (int r = 1; r < JOB_RANKS; r++) { /* which have not asked yet */
            save_take_outcome(j->ranks[r].run);
            assert_false(engine_busy(j->ranks[r].run->engine));
        }
    }
    job_wait_ok(j);
}

static void test_a_rank_that_cancels_is_named_by_the_others(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    hang_data_writes(j, 2);
    job_save(j, 10);
    job_rank *k = &j->ranks[2];
    assert_fails(run_cancel(k->run, -1, &k->err), PAWL_ETIMEOUT, &k->err);
    job_release(j, 2);
    job_wait(j);
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_fails(j->ranks[r].status, PAWL_ECANCELED, &j->ranks[r].err);
        assert_says(j->ranks[r].err.attempt, r == 2 ? "saving step 10: the save was cancelled"
                                                    : "saving step 10: rank 2 (host a, pid 1002): "
                                                      "the save was cancelled");
    }
    job_save_ok(j, 20);
}

static void test_rank_0_can_cancel_while_it_waits_for_votes(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    hang_data_writes(j, 2);
    job_save(j, 10);
    (void)usleep(20000);
    assert_ok(run_cancel(j->ranks[0].run, 30, &j->ranks[0].err), &j->ranks[0].err);
    job_release(j, 2);
    job_wait(j);
    job_all_say(j, PAWL_ECANCELED, "the save was cancelled");
    job_save_ok(j, 20);
}

/* ---- nobody waits for another on the trainer's thread ---------------------------------------- */

static void test_a_held_write_of_one_rank_stalls_no_other(void **state) {
    job *j = *state;
    job_open(j, (pawl_run_options){0});
    hang_data_writes(j, 3);
    job_save(j, 10);
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        job_rank *k = &j->ranks[r];
        assert_ok(run_fence(k->run, 30, &k->err), &k->err);
        job_fill(k, 11); /* the optimizer's step */
    }
    for (int r = 0; r < JOB_RANKS - 1; r++) {
        job_rank *k = &j->ranks[r];
        assert_fails(run_wait(k->run, -1, &k->stats, &k->err), PAWL_ETIMEOUT, &k->err);
        assert_true(k->stats.fence_wait_s == 0);
    }
    job_release(j, 3);
    job_wait_ok(j);
    assert_true(job_committed(j, 10));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, job_set_up, job_tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_four_ranks_commit_one_checkpoint),
        TEST(test_votes_go_with_the_commit_and_outcomes_with_the_next),
        TEST(test_every_rank_says_how_long_it_waited_for_others),
        TEST(test_a_step_saved_again_is_replaced),
        TEST(test_retention_is_of_whole_checkpoints),
        TEST(test_s07_a_full_disk_of_one_rank_fails_the_save_on_all),
        TEST(test_s07_a_failure_is_told_when_there_is_room_for_it),
        TEST(test_s07_a_rank_makes_room_to_say_that_its_part_failed),
        TEST(test_s07_a_commit_is_told_when_there_is_room_for_it),
        TEST(test_rank_0s_own_failure_is_told_to_all),
        TEST(test_a_rank_that_has_no_directory_is_named_by_the_others),
        TEST(test_a_rank_that_could_not_start_is_named_by_the_others),
        TEST(test_rank_0_that_could_not_start_tells_the_others),
        TEST(test_a_save_that_is_repeated_after_a_failure_commits),
        TEST(test_a_refused_save_that_is_not_repeated_keeps_nobody_waiting),
        TEST(test_ranks_that_one_refused_save_set_apart_find_together_by_going_on),
        TEST(test_s12_a_call_that_rank_0_never_made_ends_when_it_goes_on),
        TEST(test_s12_a_call_that_rank_0_alone_made_ends_when_others_go_on),
        TEST(test_a_commit_that_cannot_be_made_durable_is_not_said_to_have_failed),
        TEST(test_a_manifest_is_believed_only_when_it_is_durable),
        TEST(test_s11_a_rank_that_does_not_come_is_named_at_the_deadline),
        TEST(test_s11_a_dead_rank_is_named_at_once),
        TEST(test_a_rank_that_voted_and_died_does_not_fail_the_save),
        TEST(test_s11_rank_0_that_died_is_named_at_once),
        TEST(test_s11_rank_0_that_does_not_tell_is_named_at_the_deadline),
        TEST(test_a_rank_that_cannot_look_for_the_outcome_blames_its_storage),
        TEST(test_a_commit_that_nobody_told_of_is_found_in_the_manifest),
        TEST(test_a_vote_that_comes_after_the_outcome_hears_it),
        TEST(test_s04_a_rank_that_skips_is_named_by_the_others),
        TEST(test_s04_a_rank_that_is_busy_costs_the_others_one_save),
        TEST(test_s04_a_rank_takes_an_outcome_that_is_there_before_it_skips),
        TEST(test_a_rank_that_cancels_is_named_by_the_others),
        TEST(test_rank_0_can_cancel_while_it_waits_for_votes),
        TEST(test_a_held_write_of_one_rank_stalls_no_other),
    };
    return cmocka_run_group_tests_name("a save of many ranks", tests, NULL, NULL);
}
