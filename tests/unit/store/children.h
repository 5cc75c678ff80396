/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of tests that change what the whole process is (user, limits, mounts) run in a child
 * process. There, child_must takes the place of cmocka's assertions.
 */
#ifndef UNIT_STORE_CHILDREN_H
#define UNIT_STORE_CHILDREN_H

#include "fixtures.h"

#include <grp.h>
#include <sys/wait.h>

#define CHILD_SKIPPED 77
#define NOBODY        65534

#define child_must(condition) child_check((condition), #condition, __FILE__, __LINE__)

static UNUSED void child_check(bool holds, const char *condition, const char *file, int line) {
    if (!holds) {
        (void)fprintf(stderr, "%s:%d: in a child process: %s\n", file, line, condition);
        _exit(1);
    }
}

static UNUSED void child_must_equal(const char *got, const char *wanted) {
    if (strcmp(got, wanted) != 0) {
        (void)fprintf(stderr, "in a child process:\n%s\ninstead of\n%s\n", got, wanted);
        _exit(1);
    }
}

/* Ends the child: the test is skipped, for this reason. */
static UNUSED void child_skip(const char *reason) {
    (void)fprintf(stderr, "skipped: %s\n", reason);
    _exit(CHILD_SKIPPED);
}

/* Becomes another user, of these groups and its own. */
static UNUSED void child_become_nobody(const gid_t *groups, size_t count) {
    if (geteuid() != 0) {
        child_skip("becoming another user needs root");
    }
    child_must(setgroups(count, groups) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}

static UNUSED void run_child(void (*body)(void *context), void *context) {
    int ended = 0;
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        body(context);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    if (WIFEXITED(ended) && WEXITSTATUS(ended) == CHILD_SKIPPED) {
        skip();
    }
    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), 0);
}

#endif
