/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process in another time namespace of the same host, where /proc shows another start time for
 * it. It is neither taken for dead while it lives, nor waited for when it is gone.
 */
#include "lib/at_step.h"
#include "outside/small_run.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif
#define RUN "run"

typedef struct fixture {
    char directory[64];
    pawl_error *err;
} fixture;

static int set_up(void **state) {
    fixture *f = *state = calloc(1, sizeof *f);
    directory_enter_new(f->directory);
    f->err = pawl_error_new();
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    pawl_error_free(f->err);
    directory_leave(f->directory);
    free(f);
    return 0;
}

static pawl_status open_run(pawl_run **run, pawl_error *err) {
    const pawl_run_options options = {
        .struct_size = sizeof options, .lease_s = 30, .takeover_wait_s = -1};
    return pawl_run_open(RUN, &options, run, err);
}

static pawl_status save(pawl_run *run, int64_t step, pawl_error *err) {
    return small_save_bytes(run, step, 4096, err);
}

/* The children of the calling process begin in another time namespace. 0, or the errno of a system
 * that has none for us. */
static int leave_time_namespace(void) {
    static const char offset[] = "boottime 100000 0\n";
    if (unshare(CLONE_NEWTIME) != 0) {
        return errno;
    }
    int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, offset, sizeof offset - 1), sizeof offset - 1);
    (void)close(fd);
    return 0;
}

/* A process in another time namespace. What it says comes by `from`, all at once. */
typedef struct other {
    pid_t between, pid;
    int from;
} other;

typedef struct said {
    pid_t pid;
    int status;  /* of what it was to do */
    int refused; /* errno: there is no such namespace for us */
} said;

static void live_there(int to, pawl_status (*body)(pawl_error *err)) {
    said word = {.pid = getpid()};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody behind */
    word.status = (int)body(pawl_error_new());
    if (write(to, &word, sizeof word) == sizeof word) {
        pause();
    }
    _exit(0);
}

static void end(other *o) {
    int status;
    if (o->pid > 0) {
        (void)kill(o->pid, SIGKILL);
    }
    (void)waitpid(o->between, &status, 0);
    (void)close(o->from);
}

/* Does `body` there, and tells how that went; the process then stays until it is killed. */
static void begin_or_skip(other *o, pawl_status (*body)(pawl_error *err), int *went) {
    int ends[2];
    said word = {0};
    assert_int_equal(pipe(ends), 0);
    o->between = fork();
    assert_true(o->between >= 0);
    if (o->between == 0) {
        int status;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        word.refused = leave_time_namespace();
        pid_t pid = word.refused == 0 ? fork() : -1;
        if (pid == 0) {
            live_there(ends[1], body);
        }
        if (word.refused != 0 && write(ends[1], &word, sizeof word) != sizeof word) {
            _exit(1);
        }
        (void)close(ends[1]);
        (void)waitpid(pid, &status, 0);
        _exit(0);
    }
    (void)close(ends[1]);
    o->from = ends[0];
    ssize_t heard = read(o->from, &word, sizeof word);
    o->pid = word.pid;
    *went = word.status;
    if (heard != sizeof word) {
        end(o);
        fail_msg("the process in the other time namespace ended without a word");
    }
    if (word.refused == EPERM || word.refused == EINVAL || word.refused == ENOSPC) {
        end(o);
        print_message("SKIP: no time namespace of our own: %s\n", strerror(word.refused));
        skip();
    }
    assert_int_equal(word.refused, 0);
}

static pawl_status own_and_save(pawl_error *err) {
    pawl_run *run;
    pawl_status status = open_run(&run, err);
    return status == PAWL_OK ? save(run, 1, err) : status;
}

static pawl_status only_open(pawl_error *err) {
    pawl_run *run;
    return open_run(&run, err);
}

static pawl_status read_newest(pawl_error *err) {
    pawl_checkpoint *checkpoint;
    return pawl_checkpoint_open(RUN, AT_STEP(1), &checkpoint, err);
}

static void test_a_live_owner_in_another_time_namespace_keeps_the_run(void **state) {
    fixture *f = *state;
    other o;
    pawl_run *run;
    int went;
    begin_or_skip(&o, own_and_save, &went);
    pawl_status beside = open_run(&run, f->err);
    end(&o);
    assert_int_equal(went, PAWL_OK);
    assert_int_equal(beside, PAWL_EBUSY);
    assert_int_equal(open_run(&run, f->err), PAWL_OK); /* its pid is gone: no lease is waited for */
    assert_int_equal(pawl_run_close(run, 0, f->err), PAWL_OK);
}

static void test_a_newcomer_in_another_time_namespace_leaves_a_live_owner_the_run(void **state) {
    fixture *f = *state;
    other o;
    pawl_run *run;
    int went;
    assert_int_equal(open_run(&run, f->err), PAWL_OK);
    begin_or_skip(&o, only_open, &went);
    end(&o);
    assert_int_equal(went, PAWL_EBUSY);
    assert_int_equal(save(run, 1, f->err), PAWL_OK);
    assert_int_equal(pawl_run_close(run, 0, f->err), PAWL_OK);
}

static void test_a_reader_in_another_time_namespace_keeps_its_checkpoint(void **state) {
    fixture *f = *state;
    other o;
    pawl_run *run;
    int went;
    assert_int_equal(open_run(&run, f->err), PAWL_OK);
    assert_int_equal(save(run, 1, f->err), PAWL_OK);
    assert_int_equal(save(run, 2, f->err), PAWL_OK);
    assert_int_equal(pawl_run_close(run, 0, f->err), PAWL_OK); /* TSan: no threads at the fork */
    begin_or_skip(&o, read_newest, &went);
    assert_int_equal(went, PAWL_OK);
    assert_int_equal(open_run(&run, f->err), PAWL_OK);
    pawl_status removed = pawl_run_remove(run, 1, 0, f->err);
    bool data = system("ls run/step-00000001/data-* >/dev/null 2>&1") == 0;
    end(&o);
    assert_true(data);
    assert_int_equal(removed, PAWL_EBUSY);
    assert_int_equal(pawl_run_close(run, 0, f->err), PAWL_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_live_owner_in_another_time_namespace_keeps_the_run,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_newcomer_in_another_time_namespace_leaves_a_live_owner_the_run, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_reader_in_another_time_namespace_keeps_its_checkpoint, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
