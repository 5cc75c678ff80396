/* SPDX-License-Identifier: Apache-2.0 */
/* Several processes on one directory: killed ones, second writers, readers, preempted ones. */
#include "failures.h"
#include "lib/at_step.h"

#include <signal.h>
#include <unistd.h>

static char scratch[64];

static int set_up(void **state) {
    (void)state;
    scratch_make(scratch);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    scratch_remove(scratch);
    return 0;
}

/* ---- S09: killed ---------------------------------------------------------------------------- */

static void save_and_hang(void *context) {
    trainer t;
    (void)context;
    trainer_init(&t);
    trainer_build(&t);
    trainer_open(&t, "run");
    trainer_save(&t, 1000);
    disk_hangs();
    trainer_set(&t, 2000);
    assert_works(pawl_save(t.run, t.state, 2000, NULL, t.err), t.err);
    disk_wait_until_hung();
    child_ready();
    for (;;) {
        (void)pause();
    }
}

static void note_removed(void *context, const char *path, uint64_t bytes, const char *reason) {
    char *text = context;
    size_t at = strlen(text);
    (void)snprintf(text + at, 2048 - at, "%s, %llu bytes: %s\n", path, (unsigned long long)bytes,
                   reason);
}

static void test_s09_a_kill_inside_a_save_leaves_the_last_one_whole(void **state) {
    trainer t;
    pawl_catalog *catalog;
    char removed[2048] = "";
    (void)state;
    const child c = child_start(save_and_hang, NULL);
    child_wait_ready(&c);
    assert_int_equal(child_kill(&c), -SIGKILL);
    trainer_init(&t);
    trainer_build(&t);
    assert_works(pawl_catalog_open("run", NULL, &catalog, t.err), t.err);
    assert_int_equal(pawl_catalog_count(catalog), 2);
    assert_int_equal(pawl_catalog_get(catalog, 0)->status, PAWL_STEP_COMMITTED);
    assert_int_equal(pawl_catalog_get(catalog, 1)->status, PAWL_STEP_UNFINISHED);
    assert_text(pawl_catalog_get(catalog, 1)->why,
                "no manifest: a save in progress, or what an interrupted one left");
    pawl_catalog_free(catalog);
    trainer_open(&t, "run");
    assert_works(trainer_restore(&t, NULL), t.err);
    assert_int_equal(pawl_report_step(t.report), 1000);
    assert_works(pawl_run_gc(t.run, 0, note_removed, removed, t.err), t.err);
    assert_text(removed, "step-00002000/{f}, {n} bytes: never committed, or left by a removal\n");
    assert_false(file_exists("run/step-00002000"));
    trainer_free(&t);
}

static void test_s09_without_a_committed_step_a_killed_job_is_told_from_none(void **state) {
    trainer t;
    (void)state;
    const child c = child_start(save_and_hang, NULL);
    child_wait_ready(&c);
    (void)child_kill(&c);
    trainer_init(&t);
    trainer_build(&t);
    trainer_open(&t, "run");
    assert_works(pawl_run_remove(t.run, 1000, 1, t.err), t.err);
    assert_tells(trainer_restore(&t, NULL), PAWL_ENOTFOUND, t.err,
                 "restoring: there is no intact checkpoint in this run\n"
                 "  path:     {d}/run\n"
                 "  found:    1 unfinished and 0 damaged or unreadable steps: 2000\n"
                 "  next:     training starts from the beginning; look at what is left with: pawl "
                 "ls {d}/run");
    trainer_free(&t);
}

/* ---- S10: two writers ----------------------------------------------------------------------- */

static void hold(void *context) {
    trainer t;
    (void)context;
    trainer_init(&t);
    trainer_build(&t);
    trainer_open(&t, "run");
    child_ready();
    for (;;) {
        (void)pause();
    }
}

static void test_s10_a_second_job_is_told_who_writes(void **state) {
    trainer t;
    (void)state;
    const child c = child_start(hold, NULL);
    child_wait_ready(&c);
    trainer_init(&t);
    assert_tells(
        pawl_run_open("run", NULL, &t.run, t.err), PAWL_EBUSY, t.err,
        "open run: another process writes to this run\n"
        "  path:     {d}/run\n"
        "  expected: no other writer\n"
        "  found:    host {w}, pid {n}, attempt {w}, heartbeat {n} s ago, alive on this host\n"
        "  safe:     nothing was written or changed\n"
        "  next:     stop that process (on {w}: kill {n}) or save to another directory; "
        "opening the run takes over once it has ended");
    t.run = NULL;
    (void)child_kill(&c);
    trainer_open(&t, "run");
    assert_text(t.log, "");
    trainer_free(&t);
}

/* The record of a process of another host, whose heart beats no more. */
static void test_s10_a_silent_job_of_another_host_is_watched(void **state) {
    static const char record[] =
        "{\"counter\":\"00000000000000000007\",\"host\":\"elsewhere\",\"pid\":4711,"
        "\"boot_id\":\"b\",\"pid_namespace\":\"n\",\"start_ticks\":1,"
        "\"attempt\":\"0123456789ab\",\"lease_s\":30.000}\n";
    trainer t;
    const int64_t steps[] = {1000, -1};
    (void)state;
    make_run("run", steps);
    file_write("run/owner-00000009", record, sizeof(record) - 1);
    trainer_init(&t);
    pawl_run_options options = trainer_options(&t);
    options.takeover_wait_s = 0.2;
    assert_tells(pawl_run_open("run", &options, &t.run, t.err), PAWL_EBUSY, t.err,
                 "open run: another process writes to this run\n"
                 "  path:     {d}/run\n"
                 "  expected: no other writer\n"
                 "  found:    host elsewhere, pid 4711, attempt 0123456789ab, heartbeat {n} s ago, "
                 "not renewed in the {n} s it was watched\n"
                 "  safe:     nothing was written or changed\n"
                 "  next:     stop that process, on elsewhere, or save to another directory; "
                 "opening the run takes over once its heartbeat has stood still for 30 s");
    t.run = NULL;
    trainer_free(&t);
}

/* ---- S13: preempted ------------------------------------------------------------------------- */

static void train_until_preempted(void *context) {
    trainer t;
    const int number = SIGTERM;
    int64_t step = 0;
    (void)context;
    trainer_init(&t);
    trainer_build(&t);
    trainer_open(&t, "run");
    assert_works(pawl_preemption_watch(&number, 1, t.err), t.err);
    child_ready();
    while (pawl_preempted() == 0) {
        (void)usleep(1000);
        step++;
    }
    trainer_set(&t, step);
    assert_works(pawl_save_final(t.run, t.state, step, NULL, 60, t.err), t.err);
    trainer_close(&t);
    trainer_free(&t);
}

static void test_s13_a_preempted_job_saves_and_ends_well(void **state) {
    trainer t;
    int64_t step = 0;
    (void)state;
    const child c = child_start(train_until_preempted, NULL);
    child_wait_ready(&c);
    assert_int_equal(kill(c.pid, SIGTERM), 0);
    assert_int_equal(child_wait(&c), 0);
    trainer_init(&t);
    trainer_build(&t);
    trainer_open(&t, "run");
    assert_works(trainer_restore(&t, NULL), t.err);
    assert_works(pawl_state_get_int64(t.state, "step", &step, t.err), t.err);
    assert_int_equal(step, pawl_report_step(t.report));
    trainer_free(&t);
}

/* ---- S14: removal while someone reads ------------------------------------------------------- */

static void read_step(void *context) {
    pawl_checkpoint *checkpoint;
    pawl_error *err = pawl_error_new();
    (void)context;
    assert_works(pawl_checkpoint_open("run", AT_STEP(1000), &checkpoint, err), err);
    child_ready();
    for (;;) {
        (void)pause();
    }
}

static void test_s14_what_another_process_reads_is_not_removed(void **state) {
    trainer t;
    const int64_t steps[] = {1000, 2000, -1};
    (void)state;
    make_run("run", steps);
    const child c = child_start(read_step, NULL);
    child_wait_ready(&c);
    trainer_init(&t);
    trainer_build(&t);
    pawl_run_options options = trainer_options(&t);
    options.retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = 1};
    trainer_open_with(&t, "run", &options);
    trainer_save(&t, 3000);
    assert_true(file_exists("run/step-00001000/manifest.json"));
    assert_false(file_exists("run/step-00002000"));
    assert_tells(pawl_run_remove(t.run, 1000, 0, t.err), PAWL_EBUSY, t.err,
                 "remove step 1000: step 1000 is being read\n"
                 "  path:     {d}/run\n"
                 "  expected: no reader's mark in the step's directory\n"
                 "  safe:     nothing was removed\n"
                 "  next:     wait for the reader to finish, then try again");
    (void)child_kill(&c);
    trainer_save(&t, 4000);
    assert_false(file_exists("run/step-00001000"));
    trainer_free(&t);
}

static void test_s14_the_only_checkpoint_is_not_removed(void **state) {
    trainer t;
    const int64_t steps[] = {1000, -1};
    (void)state;
    make_run("run", steps);
    trainer_init(&t);
    trainer_open(&t, "run");
    assert_tells(pawl_run_remove(t.run, 1000, 0, t.err), PAWL_EBUSY, t.err,
                 "step 1000 is the last good checkpoint of this run\n"
                 "  path:     {d}/run\n"
                 "  safe:     nothing was removed\n"
                 "  next:     to remove it all the same: pawl rm --force {d}/run@1000");
    trainer_free(&t);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_s09_a_kill_inside_a_save_leaves_the_last_one_whole),
        TEST(test_s09_without_a_committed_step_a_killed_job_is_told_from_none),
        TEST(test_s10_a_second_job_is_told_who_writes),
        TEST(test_s10_a_silent_job_of_another_host_is_watched),
        TEST(test_s13_a_preempted_job_saves_and_ends_well),
        TEST(test_s14_what_another_process_reads_is_not_removed),
        TEST(test_s14_the_only_checkpoint_is_not_removed),
    };
    return cmocka_run_group_tests_name("several processes", tests, NULL, NULL);
}
