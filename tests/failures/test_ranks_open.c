/* SPDX-License-Identifier: Apache-2.0 */
/* What every rank of a job is told when they cannot open a run together, or not restore it: P04 to
 * P06, R10, R11, S11. */
#include "failures.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fixture {
    char path[64];
    char run[128];
    ranks_result result;
} fixture;

static int set_up(void **state) {
    static fixture f;
    memset(&f, 0, sizeof(f));
    scratch_make(f.path);
    (void)snprintf(f.run, sizeof(f.run), "%s/disk/run", f.path);
    *state = &f;
    return mkdir("disk", 0755);
}

static int tear_down(void **state) {
    fixture *f = *state;
    scratch_remove(f->path);
    return 0;
}

static void say_log(void *context, pawl_log_level level, const char *text) {
    (void)level;
    rank_says(context, text);
    rank_says(context, "\n");
}

static pawl_run_options options_of(const rank_of_test *t, const pawl_group *group,
                                   const pawl_log *log) {
    return (pawl_run_options){.struct_size = sizeof(pawl_run_options),
                              .group = group,
                              .group_deadline_s = t->deadline_s,
                              .log = log};
}

/* Opens the run; says how that went. */
static int open_run(const rank_of_test *t, const pawl_group *group) {
    pawl_run *run = NULL;
    pawl_error *err = pawl_error_new();
    const pawl_log log = {
        .struct_size = sizeof log, .write = say_log, .context = (void *)(uintptr_t)t};
    const pawl_run_options options = options_of(t, group, &log);
    pawl_status status = pawl_run_open(t->path, &options, &run, err);
    rank_says(t, status == PAWL_OK ? "open" : pawl_error_text(err));
    (void)pawl_run_close(run, 0, NULL);
    pawl_error_free(err);
    return (int)status;
}

static void assert_all_say(const fixture *f, pawl_status status, const char *text) {
    for (int r = 0; r < JOB_RANKS; r++) {
        assert_text(f->result.said[r], text);
        assert_int_equal(f->result.ended[r], status);
    }
}

static void check_open(fixture *f, bool connected) {
    ranks_run((rank_of_test){.path = f->run,
                             .deadline_s = 30,
                             .connected = connected,
                             .become = name_host,
                             .body = open_run},
              -1, &f->result);
    assert_all_say(f, PAWL_OK, "open");
}

static void test_ranks_on_two_hosts_open_a_run_that_they_share(void **state) {
    check_open(*state, true);
    check_open(*state, false);
}

/* ---- P05, P06 ------------------------------------------------------------------------------- */

#define SHARE                                                                                      \
    "give all ranks a directory on storage that their hosts share (NFS, Lustre, ...), mounted at " \
    "the same path, in containers too; what is mounted there is told, on each host, by: findmnt "  \
    "-T {d}/disk/run"

static void test_p05_the_directory_is_made_on_one_host_only(void **state) {
    fixture *f = *state;
    ranks_run((rank_of_test){.path = f->run,
                             .deadline_s = 2,
                             .connected = true,
                             .become = own_disk_on_b,
                             .body = open_run},
              -1, &f->result);
    assert_all_say(
        f, PAWL_ENOTFOUND,
        "open run: rank 2 on host b cannot see the directory of rank 0 on host a\n"
        "  path:     {d}/disk/run\n"
        "  expected: the directory that rank 0 on host a saves to: {d}/disk/run\n"
        "  found:    {d}/disk exists, but there is no run in it; it is on tmpfs, mounted "
        "at {d}/disk\n"
        "  safe:     nothing was saved\n"
        "  next:     " SHARE);
}

static void own_run_on_b(int rank) {
    own_disk_on_b(rank);
    if (rank == 2) {
        assert_int_equal(mkdir("disk/run", 0755), 0);
    }
}

static void test_p06_another_directory_of_that_name_on_one_host(void **state) {
    fixture *f = *state;
    ranks_run((rank_of_test){.path = f->run,
                             .deadline_s = 2,
                             .connected = true,
                             .become = own_run_on_b,
                             .body = open_run},
              -1, &f->result);
    assert_all_say(f, PAWL_ENOTFOUND,
                   "open run: rank 2 on host b cannot see what rank 0 on host a wrote\n"
                   "  path:     {d}/disk/run\n"
                   "  expected: owner-00000001 of attempt {w}, which rank 0 wrote to "
                   "{d}/disk/run\n"
                   "  found:    a directory without it; it is on tmpfs, mounted at {d}/disk\n"
                   "  safe:     nothing was saved\n"
                   "  next:     " SHARE);
}

/* Ranks that only have the directory cannot tell rank 0 so: both sides say what it may be. */
static void test_p06_another_directory_without_callbacks(void **state) {
    fixture *f = *state;
    ranks_run(
        (rank_of_test){.path = f->run, .deadline_s = 2, .become = own_run_on_b, .body = open_run},
        -1, &f->result);
    for (int r = 0; r < 2; r++) {
        assert_text(
            f->result.said[r],
            "open run: rank 2 did not come\n"
            "  path:     {d}/disk/run\n"
            "  expected: all 3 ranks\n"
            "  found:    2 within {n} s\n"
            "  next:     see in the output of rank 2 what it did last; if it waits as well, its "
            "directory is not that of rank 0, or it was started with another launch");
    }
    assert_text(
        f->result.said[2],
        "open run: rank 0 did not answer\n"
        "  path:     {d}/disk/run\n"
        "  expected: its answer to rank 2\n"
        "  found:    none within {n} s: no answer in this directory, which is on tmpfs, "
        "mounted at {d}/disk\n"
        "  next:     see in the output of rank 0 what it did last; if it waits for this rank, "
        "this directory is not that of rank 0, or it was started with another launch");
}

/* ---- P04 ------------------------------------------------------------------------------------ */

static void test_p04_a_relative_path_means_another_directory_elsewhere(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir("elsewhere", 0755), 0);
    ranks_run((rank_of_test){.path = "run",
                             .deadline_s = 2,
                             .connected = true,
                             .become = work_elsewhere_on_b,
                             .body = open_run},
              -1, &f->result);
    assert_all_say(f, PAWL_ENOTFOUND,
                   "open run: rank 2 on host b cannot see the directory of rank 0 on host a\n"
                   "  path:     {d}/elsewhere/run\n"
                   "  expected: the directory that rank 0 on host a saves to: {d}/run\n"
                   "  found:    {d}/elsewhere exists, but there is no run in it; it is on {w}, "
                   "mounted at {p}\n"
                   "  safe:     nothing was saved\n"
                   "  next:     give the absolute path: \"run\" is relative to the working "
                   "directory, which is {d} on rank 0 and {d}/elsewhere on rank 2");
}

static void test_p04_other_working_directories_are_a_warning_where_it_is_one(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir("elsewhere", 0755), 0);
    assert_int_equal(symlink("../run", "elsewhere/run"), 0);
    ranks_run((rank_of_test){.path = "run",
                             .deadline_s = 10,
                             .connected = true,
                             .become = work_elsewhere_on_b,
                             .body = open_run},
              -1, &f->result);
    assert_text(f->result.said[0],
                "the relative path \"run\" stands for {d}/run, but 1 of 3 ranks have another "
                "working directory than rank 0: rank 2 (host b, pid {n}) has {d}/elsewhere, rank 0 "
                "has {d}; give the absolute path\n"
                "open");
    assert_text(f->result.said[2], "open");
}

/* ---- P02 ------------------------------------------------------------------------------------ */

static void test_p02_a_rank_that_may_not_write_is_told_to_all(void **state) {
    fixture *f = *state;
    ranks_run((rank_of_test){.path = f->run,
                             .deadline_s = 2,
                             .connected = true,
                             .become = nobody_on_b,
                             .body = open_run},
              -1, &f->result);
    assert_all_say(f, PAWL_EPERMISSION,
                   "rank 2 (host b): open run: cannot write to a directory\n"
                   "  path:     {d}/disk/run\n"
                   "  expected: permission to create files in it for uid 65534, gid 65534, groups "
                   "none\n"
                   "  found:    owner uid 0, gid 0, mode 0755, no ACL\n"
                   "  system:   Permission denied (EACCES, errno 13)\n"
                   "  next:     its owner (uid 0) or root can run: setfacl -m u:65534:rwx "
                   "{d}/disk/run; or choose another directory");
}

/* ---- S11 ------------------------------------------------------------------------------------ */

#define MISSING_1                                                                                  \
    "open run: rank 1 did not come\n"                                                              \
    "  path:     {d}/disk/run\n"                                                                   \
    "  expected: all 3 ranks\n"                                                                    \
    "  found:    2 within {n} s\n"                                                                 \
    "  next:     see in the output of rank 1 what it did last; if it waits as well, "
#define OTHER_DIRECTORY "its directory is not that of rank 0, or it was started with another launch"
#define CALLBACKS       "look at what the group's callbacks use (MPI, torch.distributed)"

static void test_s11_a_rank_that_was_not_started(void **state) {
    fixture *f = *state;
    for (int connected = 0; connected < 2; connected++) {
        ranks_run(
            (rank_of_test){
                .path = f->run, .deadline_s = 2, .connected = connected, .body = open_run},
            1, &f->result);
        const char *wanted = connected ? MISSING_1 CALLBACKS : MISSING_1 OTHER_DIRECTORY;
        assert_text(f->result.said[0], wanted);
        assert_text(f->result.said[2], wanted);
    }
}

static int die_as_rank_0(const rank_of_test *t, const pawl_group *group) {
    if (t->rank == 0) {
        (void)raise(SIGKILL);
    }
    return open_run(t, group);
}

static void test_s11_rank_0_that_dies(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir("disk/run", 0755), 0);
    ranks_run((rank_of_test){.path = f->run, .deadline_s = 2, .body = die_as_rank_0}, -1,
              &f->result);
    assert_int_equal(f->result.ended[0], -SIGKILL);
    for (int r = 1; r < JOB_RANKS; r++) {
        assert_int_equal(f->result.ended[r], PAWL_EPEER);
        char wanted[1024];
        (void)snprintf(wanted, sizeof(wanted),
                       "open run: rank 0 did not answer\n"
                       "  path:     {d}/disk/run\n"
                       "  expected: its answer to rank %d\n"
                       "  found:    none within {n} s: no answer in this directory, which is on "
                       "{w}, mounted at {p}\n"
                       "  next:     see in the output of rank 0 what it did last; if it waits for "
                       "this rank, this directory is not that of rank 0, or it was started "
                       "with another launch",
                       r);
        assert_text(f->result.said[r], wanted);
    }
}

/* ---- R10, R11 ------------------------------------------------------------------------------- */

static int restore_with(const rank_of_test *t, const pawl_group *group,
                        const pawl_restore_options *options) {
    trainer own;
    const pawl_log log = {
        .struct_size = sizeof log, .write = say_log, .context = (void *)(uintptr_t)t};
    const pawl_run_options opening = options_of(t, group, &log);
    trainer_init(&own);
    trainer_build(&own);
    trainer_open_with(&own, t->path, &opening);
    pawl_status status = trainer_restore(&own, options);
    rank_says(t, status == PAWL_OK ? pawl_report_text(own.report) : pawl_error_text(own.err));
    trainer_close(&own);
    trainer_free(&own);
    return (int)status;
}

static int restore_strictly(const rank_of_test *t, const pawl_group *group) {
    const pawl_restore_options options = {.struct_size = sizeof(options)};
    return restore_with(t, group, &options);
}

#define OF_ONE_RANK                                                                                \
    "each rank has its own \"random\": the checkpoint is of 1 rank, the state of 3 ranks"

static void test_r10_another_number_of_ranks_is_refused_on_all(void **state) {
    fixture *f = *state;
    make_run(f->run, (const int64_t[]){1, -1});
    ranks_run(
        (rank_of_test){
            .path = f->run, .deadline_s = 30, .become = name_host, .body = restore_strictly},
        -1, &f->result);
    assert_all_say(f, PAWL_EMISMATCH,
                   "restoring: checkpoint step 1 and the state differ in 1 place: " OF_ONE_RANK "\n"
                   "  path:     {d}/disk/run/step-00000001\n"
                   "  safe:     nothing was restored: the state is as it was\n"
                   "  next:     restore with as many ranks as saved it, or set options.per_rank = "
                   "PAWL_POLICY_ALLOW to restore each rank's own value where it was saved, or set "
                   "options.per_rank = PAWL_POLICY_CALLER to keep the state's values on all ranks");
}

static int restore_own(const rank_of_test *t, const pawl_group *group) {
    const pawl_restore_options options = {.struct_size = sizeof(options),
                                          .per_rank = PAWL_POLICY_ALLOW};
    return restore_with(t, group, &options);
}

static void test_r10_ranks_that_were_not_saved_keep_their_own_on_request(void **state) {
    fixture *f = *state;
    make_run(f->run, (const int64_t[]){1, -1});
    ranks_run(
        (rank_of_test){.path = f->run, .deadline_s = 30, .become = name_host, .body = restore_own},
        -1, &f->result);
    assert_text(f->result.said[0], "restoring step 1: " OF_ONE_RANK ": rank 0 of 3 takes its own\n"
                                   "step 1: restored 8 entries ({n} B), kept 0, left out 0\n"
                                   "warning: " OF_ONE_RANK ": rank 0 of 3 takes its own");
    assert_text(f->result.said[1],
                "restoring step 1: " OF_ONE_RANK ": rank 1 of 3 keeps the state's value\n"
                "step 1: restored 7 entries ({n} B), kept 1, left out 0\n"
                "warning: " OF_ONE_RANK ": rank 1 of 3 keeps the state's value");
}

static int restore_step(const rank_of_test *t, const pawl_group *group) {
    const int64_t *steps = t->context;
    const pawl_restore_options options = {
        .struct_size = sizeof(options), .step = &steps[t->rank], .per_rank = PAWL_POLICY_CALLER};
    return restore_with(t, group, &options);
}

static void test_r11_ranks_that_ask_for_different_steps(void **state) {
    fixture *f = *state;
    const int64_t steps[JOB_RANKS] = {2, 2, 1};
    make_run(f->run, (const int64_t[]){1, 2, -1});
    ranks_run((rank_of_test){.path = f->run,
                             .deadline_s = 30,
                             .become = name_host,
                             .body = restore_step,
                             .context = steps},
              -1, &f->result);
    assert_all_say(f, PAWL_EMISMATCH,
                   "restoring: the ranks ask for different steps\n"
                   "  path:     {d}/disk/run\n"
                   "  expected: the same step on all 3 ranks\n"
                   "  found:    ranks 0 and 1: step 2; rank 2: step 1\n"
                   "  safe:     nothing was read into any state\n"
                   "  next:     give all ranks the same step, or none: rank 0 then chooses the "
                   "newest");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_ranks_on_two_hosts_open_a_run_that_they_share),
        TEST(test_p05_the_directory_is_made_on_one_host_only),
        TEST(test_p06_another_directory_of_that_name_on_one_host),
        TEST(test_p06_another_directory_without_callbacks),
        TEST(test_p04_a_relative_path_means_another_directory_elsewhere),
        TEST(test_p04_other_working_directories_are_a_warning_where_it_is_one),
        TEST(test_p02_a_rank_that_may_not_write_is_told_to_all),
        TEST(test_s11_a_rank_that_was_not_started),
        TEST(test_s11_rank_0_that_dies),
        TEST(test_r10_another_number_of_ranks_is_refused_on_all),
        TEST(test_r10_ranks_that_were_not_saved_keep_their_own_on_request),
        TEST(test_r11_ranks_that_ask_for_different_steps),
    };
    return cmocka_run_group_tests_name("ranks that open a run", tests, NULL, NULL);
}
