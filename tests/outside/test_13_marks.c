/* SPDX-License-Identifier: Apache-2.0 */
/* Readers' marks: gc removes those whose reader is gone and names each, a dry run leaves them, and
 * a command that is ended by a signal removes its own. */
#include "lib/at_step.h"
#include "lib/directory.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES    3000 /* whose names are more than a pipe holds */
#define PATIENCE_S 20

typedef struct fixture {
    char path[64];
    pawl_error *err;
    char told[256]; /* the mark that gc named last */
    int marks_told;
} fixture;

static void save_many(fixture *f) {
    pawl_state *state;
    pawl_run *run;
    const pawl_run_options options = {.struct_size = sizeof options};
    assert_ok(pawl_state_new(&state, f->err), f->err);
    for (int64_t i = 0; i < ENTRIES; i++) {
        char name[64];
        snprintf(name, sizeof name, "layers/%04lld/a_name_that_takes_room", (long long)i);
        assert_ok(pawl_state_set_int64(state, name, PAWL_ROLE_OTHER, i, f->err), f->err);
    }
    assert_ok(pawl_run_open(f->path, &options, &run, f->err), f->err);
    for (int64_t step = 1; step <= 2; step++) {
        assert_ok(pawl_save(run, state, step, NULL, f->err), f->err);
        assert_ok(pawl_wait(run, 0, NULL, f->err), f->err);
        assert_ok(pawl_state_set_int64(state, "layers/0000/a_name_that_takes_room", PAWL_ROLE_OTHER,
                                       77, f->err),
                  f->err);
    }
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
    pawl_state_free(state);
}

static int set_up(void **state) {
    static fixture f;
    memset(&f, 0, sizeof f);
    directory_new(f.path, "/tmp");
    f.err = pawl_error_new();
    *state = &f;
    save_many(&f);
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    directory_delete(f->path);
    pawl_error_free(f->err);
    return 0;
}

static int marks_of(const fixture *f, int step) {
    char path[128];
    int count = 0;
    snprintf(path, sizeof path, "%s/step-%08d", f->path, step);
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        count += strncmp(e->d_name, "reader-", 7) == 0;
    }
    closedir(d);
    return count;
}

static int marks(const fixture *f) {
    return marks_of(f, 1) + marks_of(f, 2);
}

/* ---- sweeping ------------------------------------------------------------------------------- */

/* A reader that ended without closing what it had open. */
static void leave_a_mark(fixture *f) {
    int status;
    pid_t reader = fork();
    if (reader == 0) {
        pawl_checkpoint *c;
        _exit(pawl_checkpoint_open(f->path, AT_STEP(1), &c, NULL) == PAWL_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    assert_int_equal(marks(f), 1);
}

static void note_mark(void *context, const char *path, uint64_t bytes, const char *reason) {
    fixture *f = context;
    (void)bytes;
    if (strstr(path, "/reader-") != NULL) {
        f->marks_told++;
        snprintf(f->told, sizeof f->told, "%s: %s", path, reason);
    }
}

static void sweep(fixture *f, int dry_run) {
    pawl_run *run;
    const pawl_run_options options = {.struct_size = sizeof options};
    assert_ok(pawl_run_open(f->path, &options, &run, f->err), f->err);
    assert_ok(pawl_run_gc(run, dry_run, note_mark, f, f->err), f->err);
    assert_ok(pawl_run_close(run, 0, f->err), f->err);
}

/* A dry run tells the mark of a reader that is gone, and changes nothing. */
static void test_13_a_dry_run_tells_marks_and_leaves_them(void **state) {
    fixture *f = *state;
    leave_a_mark(f);
    sweep(f, 1);
    assert_int_equal(marks(f), 1);
    assert_int_equal(f->marks_told, 1);
    assert_says(f->told, "the mark of a reader that is gone");
}

/* What is removed is told. */
static void test_13_a_sweep_tells_marks_and_removes_them(void **state) {
    fixture *f = *state;
    leave_a_mark(f);
    sweep(f, 0);
    assert_int_equal(marks(f), 0);
    assert_int_equal(f->marks_told, 1);
    assert_says(f->told, "the mark of a reader that is gone");
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Starts it with its output in a pipe; *from is the pipe's other end. */
static pid_t start(char *const *words, int *from) {
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)signal(SIGPIPE, SIG_IGN); /* as Python and some shells leave it to their children */
        execv(PAWL_COMMAND, words);
        _exit(127);
    }
    close(ends[1]);
    *from = ends[0];
    return child;
}

static void wait_for_mark(const fixture *f) {
    for (int i = 0; i < PATIENCE_S * 100 && marks(f) == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    assert_true(marks(f) > 0);
}

static void assert_ended_by(pid_t child, int signal_number) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal_number);
}

/* Ends the command while it writes into a full pipe, as `| head` does, or a signal. */
static void end_in_the_middle(const fixture *f, char *const *words, int signal_number) {
    int from;
    pid_t child = start(words, &from);
    wait_for_mark(f);
    if (signal_number == SIGPIPE) {
        close(from);
    } else {
        assert_int_equal(kill(child, signal_number), 0);
    }
    assert_ended_by(child, signal_number);
    assert_int_equal(marks(f), 0);
    if (signal_number != SIGPIPE) {
        close(from);
    }
}

typedef struct commands {
    char older[80];
    char *show[4], *show_json[5], *diff[5];
} commands;

static void make_commands(fixture *f, commands *c) {
    snprintf(c->older, sizeof c->older, "%s@1", f->path);
    char *const show[] = {"pawl", "show", f->path, NULL};
    char *const show_json[] = {"pawl", "show", "--json", f->path, NULL};
    char *const diff[] = {"pawl", "diff", c->older, f->path, NULL};
    memcpy(c->show, show, sizeof show);
    memcpy(c->show_json, show_json, sizeof show_json);
    memcpy(c->diff, diff, sizeof diff);
}

/* pawl show RUN | head. */
static void test_13_a_reader_that_goes_away_leaves_no_mark(void **state) {
    commands c;
    make_commands(*state, &c);
    end_in_the_middle(*state, c.show, SIGPIPE);
    end_in_the_middle(*state, c.show_json, SIGPIPE);
}

/* Ctrl-C, kill and a terminal that closes end it as they should, without a mark. */
static void test_13_a_signal_leaves_no_mark(void **state) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    commands c;
    make_commands(*state, &c);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        end_in_the_middle(*state, c.show, signals[i]);
        end_in_the_middle(*state, c.show_json, signals[i]);
    }
}

/* Whoever does not read at all: every verb that opens checkpoints ends by the signal. */
static void test_13_output_that_nobody_reads_ends_every_verb(void **state) {
    fixture *f = *state;
    commands c;
    make_commands(f, &c);
    char *const verify[] = {"pawl", "verify", f->path, NULL};
    char *const verify_all[] = {"pawl", "verify", "--all", f->path, NULL};
    char *const entry[] = {"pawl", "show", f->path, "layers/0001/a_name_that_takes_room", NULL};
    char *const rebuild[] = {"pawl", "rebuild", c.older, NULL};
    char *const *const all[] = {c.show, c.show_json, c.diff, verify, verify_all, entry, rebuild};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        int from;
        pid_t child = start(all[i], &from);
        close(from);
        assert_ended_by(child, SIGPIPE);
        assert_int_equal(marks(f), 0);
    }
}

int main(void) {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_13_a_dry_run_tells_marks_and_leaves_them),
        TEST(test_13_a_sweep_tells_marks_and_removes_them),
        TEST(test_13_a_reader_that_goes_away_leaves_no_mark),
        TEST(test_13_a_signal_leaves_no_mark),
        TEST(test_13_output_that_nobody_reads_ends_every_verb),
    };
    return cmocka_run_group_tests_name("13: readers' marks", tests, NULL, NULL);
}
