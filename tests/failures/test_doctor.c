/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What pawl_doctor says when all ranks of a job ask it, before the job runs (P02, P04 to P06).
 */
#include "failures.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct fixture {
    char path[64];
    char found[JOB_RANKS][8192];
    pawl_severity worst[JOB_RANKS];
} fixture;

static int set_up(void **state) {
    static fixture f;
    memset(&f, 0, sizeof(f));
    scratch_make(f.path);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    scratch_remove(f->path);
    return 0;
}

/* ---- asking --------------------------------------------------------------------------------- */

/* All but the findings on what /tmp lies on, and those that one process alone would have, too. */
static bool is_of_ranks(const pawl_finding *finding) {
    return !is_of_storage(finding) && strcmp(finding->id, "S06") != 0 &&
           strcmp(finding->id, "P01") != 0 &&
           (strcmp(finding->id, "ok") != 0 || strstr(finding->text, "rank") != NULL);
}

static int ask_doctor(const rank_of_test *t, const pawl_group *group) {
    doctor_said said = {.wanted = is_of_ranks};
    const pawl_doctor_options options = {
        .struct_size = sizeof(options), .group = group, .group_deadline_s = t->deadline_s};
    pawl_severity worst = doctor_ask(&said, t->path, &options);
    rank_says(t, said.text);
    return (int)worst;
}

static void ask_ranks(fixture *f, rank_of_test asking, int absent) {
    static ranks_result result;
    asking.body = ask_doctor;
    ranks_run(asking, absent, &result);
    memcpy(f->found, result.said, sizeof(f->found));
    for (int r = 0; r < JOB_RANKS; r++) {
        f->worst[r] = (pawl_severity)result.ended[r];
    }
}

/* Nothing of the doctor's is left in a directory. */
static void assert_empty(const char *directory) {
    DIR *listing = opendir(directory);
    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        assert_null(strstr(entry->d_name, "pawl"));
    }
    assert_int_equal(closedir(listing), 0);
}

#define HEARD "note ok: rank 0 tells what all 3 ranks see\n"

/* ---- hosts ---------------------------------------------------------------------------------- */

static void own_disk_with_run_on_b(int rank) {
    own_disk_on_b(rank);
    if (rank == 2) {
        assert_int_equal(mkdir("disk/run", 0755), 0);
    }
}

/* ---- all is well ---------------------------------------------------------------------------- */

static void check_all_well(fixture *f, bool connected) {
    assert_int_equal(mkdir("run", 0755), 0);
    ask_ranks(f,
              (rank_of_test){
                  .path = "run", .deadline_s = 30, .connected = connected, .become = name_host},
              -1);
    assert_text(f->found[0],
                "note P04: the relative path run stands for {d}/run\n"
                "  next: give the absolute path when jobs start elsewhere\n"
                "note ok: all 3 ranks, on 2 hosts, see the same {d}/run and can write there\n");
    for (int r = 1; r < JOB_RANKS; r++) {
        assert_text(f->found[r],
                    "note P04: the relative path run stands for {d}/run\n"
                    "  next: give the absolute path when jobs start elsewhere\n" HEARD);
    }
    assert_empty("run");
    assert_empty(".");
}

static void test_p06_one_directory_is_recognised_by_files(void **state) {
    check_all_well(*state, false);
}

static void test_p06_one_directory_is_recognised_by_callbacks(void **state) {
    check_all_well(*state, true);
}

/* The run need not exist, nor its parent. */
static void check_nothing_there(fixture *f, bool connected) {
    ask_ranks(f, (rank_of_test){.path = "there/is/none", .deadline_s = 30, .connected = connected},
              -1);
    assert_text(f->found[0],
                "note P04: the relative path there/is/none stands for {d}/there/is/none\n"
                "  next: give the absolute path when jobs start elsewhere\n"
                "note ok: all 3 ranks, on 1 host, see the same {d} and can write there\n");
    assert_false(file_exists("there"));
    assert_empty(".");
}

static void test_p06_the_parent_of_a_run_to_come_is_looked_at(void **state) {
    check_nothing_there(*state, false);
    check_nothing_there(*state, true);
}

/* ---- P06 ------------------------------------------------------------------------------------ */

#define OWN_DISK                                                                                   \
    "choose a directory on storage that all hosts mount (NFS, Lustre or the like; {w} at {p} is "  \
    "host a's own); in containers, give all of them the same volume\n"

static void make_disk(void) {
    assert_int_equal(mkdir("disk", 0755), 0);
    assert_int_equal(mkdir("disk/run", 0755), 0);
}

static void test_p06_another_directory_of_that_name_by_callbacks(void **state) {
    fixture *f = *state;
    make_disk();
    char run[128];
    (void)snprintf(run, sizeof(run), "%s/disk/run", f->path);
    ask_ranks(
        f,
        (rank_of_test){
            .path = run, .deadline_s = 3, .connected = true, .become = own_disk_with_run_on_b},
        -1);
    assert_text(f->found[0],
                "error P06: rank 2 (host b) cannot see what rank 0 (host a) wrote to "
                "{d}/disk/run: there it is on tmpfs (mounted at {d}/disk), on rank 0 on {w} "
                "(mounted at {p})\n"
                "  next: " OWN_DISK);
    assert_text(f->found[1], HEARD);
    assert_text(f->found[2], HEARD);
    for (int r = 0; r < JOB_RANKS; r++) { /* all end alike */
        assert_int_equal(f->worst[r], PAWL_SEVERITY_ERROR);
    }
    assert_empty("disk/run");
}

static void test_p06_another_directory_of_that_name_by_files(void **state) {
    fixture *f = *state;
    make_disk();
    char run[128];
    (void)snprintf(run, sizeof(run), "%s/disk/run", f->path);
    ask_ranks(f, (rank_of_test){.path = run, .deadline_s = 1, .become = own_disk_with_run_on_b},
              -1);
    assert_text(
        f->found[0],
        "error P06: nothing was heard from rank 2 within 1.0 s: it was not started, or "
        "cannot see what rank 0 (host a) wrote to {d}/disk/run ({w}, mounted at {p})\n"
        "  next: read their own output: those that run see another directory than rank 0\n");
    assert_text(f->found[1], HEARD);
    assert_text(f->found[2],
                "error P06: rank 2 of 3 (host b) found nothing of rank 0 at {d}/disk/run, or above "
                "it, within 1.0 s: here {d}/disk/run is on tmpfs (mounted at {d}/disk)\n"
                "  next: if rank 0 was started, it sees another directory: mount the same storage "
                "on all hosts, or give all containers the same volume\n");
    assert_empty("disk/run");
}

/* ---- P05 ------------------------------------------------------------------------------------ */

static void test_p05_the_path_is_there_on_some_ranks_only(void **state) {
    fixture *f = *state;
    make_disk();
    char run[128];
    (void)snprintf(run, sizeof(run), "%s/disk/run", f->path);
    ask_ranks(
        f, (rank_of_test){.path = run, .deadline_s = 3, .connected = true, .become = own_disk_on_b},
        -1);
    assert_text(f->found[0],
                "error P05: {d}/disk/run is there on rank 0 (host a; {w} mounted at {p}), but not "
                "on rank 2 (host b), where it would be on tmpfs (mounted at {d}/disk)\n"
                "  next: " OWN_DISK);
    assert_empty("disk/run");
}

static void test_p05_the_path_is_there_on_another_rank_only(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir("disk", 0755), 0);
    char run[128];
    (void)snprintf(run, sizeof(run), "%s/disk/run", f->path);
    ask_ranks(
        f,
        (rank_of_test){
            .path = run, .deadline_s = 3, .connected = true, .become = own_disk_with_run_on_b},
        -1);
    assert_text(f->found[0],
                "error P05: {d}/disk/run is there on rank 2 (host b), on tmpfs (mounted at "
                "{d}/disk), but not on rank 0 (host a), where it would be on {w} (mounted at {p})\n"
                "  next: choose a directory on storage that all hosts mount (NFS, Lustre or the "
                "like; tmpfs at {d}/disk is host b's own); in containers, give all of them the "
                "same volume\n");
    assert_empty("disk");
}

/* ---- P04 ------------------------------------------------------------------------------------ */

static void check_other_working_directory(fixture *f, bool connected) {
    ask_ranks(
        f,
        (rank_of_test){
            .path = "run", .deadline_s = 2, .connected = connected, .become = work_elsewhere_on_b},
        -1);
}

static void test_p04_ranks_with_different_working_directories(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir("run", 0755), 0);
    assert_int_equal(mkdir("elsewhere", 0755), 0);
    check_other_working_directory(f, true);
    assert_text(f->found[0],
                "note P04: the relative path run stands for {d}/run\n"
                "  next: give the absolute path when jobs start elsewhere\n"
                "warning P04: the working directory of rank 2 (host b) is another one: run stands "
                "for {d}/elsewhere/run there, and for {d}/run on rank 0 (host a)\n"
                "  next: give the absolute path\n"
                "error P05: {d}/run is there on rank 0 (host a; {w} mounted at {p}), but not on "
                "rank 2 (host b), where it would be on {w} (mounted at {p})\n"
                "  next: " OWN_DISK);
    assert_int_equal(f->worst[2], PAWL_SEVERITY_ERROR);
}

/* ---- P02 ------------------------------------------------------------------------------------ */

/* What one rank alone cannot do is told by rank 0, with that rank's words. */
static void test_p02_one_rank_may_not_write(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir("run", 0755), 0);
    char run[128];
    (void)snprintf(run, sizeof(run), "%s/run", f->path);
    ask_ranks(
        f, (rank_of_test){.path = run, .deadline_s = 3, .connected = true, .become = nobody_on_b},
        -1);
    assert_text(f->found[0],
                "error P02: on rank 2 (host b): cannot write to a directory; at {d}/run; expected "
                "permission to create files in it for uid 65534, gid 65534, groups none; found "
                "owner uid 0, gid 0, mode 0755, no ACL; the system says Permission denied (EACCES, "
                "errno 13)\n");
    assert_int_equal(f->worst[1], PAWL_SEVERITY_ERROR);
}

/* ---- S11 ------------------------------------------------------------------------------------ */

static void test_s11_a_rank_that_was_not_started(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir("run", 0755), 0);
    char run[128];
    (void)snprintf(run, sizeof(run), "%s/run", f->path);
    ask_ranks(f, (rank_of_test){.path = run, .deadline_s = 1, .become = name_host}, 1);
    assert_text(
        f->found[0],
        "error P06: nothing was heard from rank 1 within 1.0 s: it was not started, or "
        "cannot see what rank 0 (host a) wrote to {d}/run ({w}, mounted at {p})\n"
        "  next: read their own output: those that run see another directory than rank 0\n");
    assert_text(f->found[2], HEARD);
    ask_ranks(f, (rank_of_test){.path = run, .deadline_s = 1, .become = name_host}, 0);
    assert_text(f->found[1],
                "error P06: rank 1 of 3 (host a) found nothing of rank 0 at {d}/run, or above it, "
                "within 1.0 s: here {d}/run is on {w} (mounted at {p})\n"
                "  next: if rank 0 was started, it sees another directory: mount the same storage "
                "on all hosts, or give all containers the same volume\n");
    assert_empty("run");
}

/* All hear of it, and end alike. */
static void test_s11_a_rank_that_was_not_started_by_callbacks(void **state) {
    fixture *f = *state;
    assert_int_equal(mkdir("run", 0755), 0);
    char run[128];
    (void)snprintf(run, sizeof(run), "%s/run", f->path);
    ask_ranks(
        f, (rank_of_test){.path = run, .deadline_s = 1, .connected = true, .become = name_host}, 1);
    assert_text(
        f->found[0],
        "error P06: nothing was heard from rank 1 within 1.0 s: it was not started, or "
        "cannot see what rank 0 (host a) wrote to {d}/run ({w}, mounted at {p})\n"
        "  next: read their own output: those that run see another directory than rank 0\n");
    assert_text(f->found[2], HEARD);
    assert_int_equal(f->worst[2], PAWL_SEVERITY_ERROR);
    assert_empty("run");
}

static void come_late_as_rank_0(int rank) {
    if (rank == 0) {
        (void)usleep(300000);
    }
}

#define TOKEN_CHARS (13 + 12) /* of a name */
#define CARD_CHARS  (TOKEN_CHARS + 3)

static bool has_doctor_file(size_t chars) {
    DIR *listing = opendir("run");
    bool found = false;
    assert_non_null(listing);
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        found = found || (strncmp(entry->d_name, ".pawl-doctor-", 13) == 0 &&
                          strlen(entry->d_name) == chars);
    }
    assert_int_equal(closedir(listing), 0);
    return found;
}

static void start_and_kill(const char *run, int rank, size_t chars_of_its_file) {
    int results[2];
    assert_int_equal(pipe(results), 0);
    rank_of_test lonely = {
        .path = run, .rank = rank, .deadline_s = 60, .body = ask_doctor, .out = results[1]};
    child one = child_start(be_a_rank, &lonely);
    while (!has_doctor_file(chars_of_its_file)) {
        (void)usleep(1000);
    }
    assert_int_equal(child_kill(&one), -SIGKILL);
    (void)close(results[0]);
    (void)close(results[1]);
    assert_true(has_doctor_file(chars_of_its_file));
}

/* What killed ranks left behind is answered, but not taken for what there is today. */
static void test_p06_what_an_earlier_doctor_left_does_no_harm(void **state) {
    fixture *f = *state;
    char run[128];
    assert_int_equal(mkdir("run", 0755), 0);
    (void)snprintf(run, sizeof(run), "%s/run", f->path);
    start_and_kill(run, 0, TOKEN_CHARS);
    start_and_kill(run, 1, CARD_CHARS);
    ask_ranks(f, (rank_of_test){.path = run, .deadline_s = 30, .become = come_late_as_rank_0}, -1);
    assert_text(f->found[0],
                "note ok: all 3 ranks, on 1 host, see the same {d}/run and can write there\n");
    assert_text(f->found[2], HEARD);
    assert_empty("run");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_p06_one_directory_is_recognised_by_files),
        TEST(test_p06_one_directory_is_recognised_by_callbacks),
        TEST(test_p06_the_parent_of_a_run_to_come_is_looked_at),
        TEST(test_p06_another_directory_of_that_name_by_callbacks),
        TEST(test_p06_another_directory_of_that_name_by_files),
        TEST(test_p05_the_path_is_there_on_some_ranks_only),
        TEST(test_p05_the_path_is_there_on_another_rank_only),
        TEST(test_p04_ranks_with_different_working_directories),
        TEST(test_p02_one_rank_may_not_write),
        TEST(test_s11_a_rank_that_was_not_started),
        TEST(test_s11_a_rank_that_was_not_started_by_callbacks),
        TEST(test_p06_what_an_earlier_doctor_left_does_no_harm),
    };
    return cmocka_run_group_tests_name("doctor of many ranks", tests, NULL, NULL);
}
