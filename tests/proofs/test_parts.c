/* SPDX-License-Identifier: Apache-2.0 */
/* A proof in parts tries each part once, and a process that crashes is a finding that is told. */
#include "lib/test.h"
#include "proofs/proof.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PARTS 40

typedef struct trial {
    proof *p;
    _Atomic uint64_t times[PARTS];
    _Atomic int pids[PARTS];
    uint64_t killed, ended; /* these parts crash */
    uint64_t end;           /* there are so many */
    bool all_lost;
} trial;

static trial *trial_new(void) {
    trial *t = proof_shared(sizeof *t);
    t->p = proof_new("parts");
    t->killed = t->ended = PARTS;
    t->end = PARTS;
    return t;
}

static bool try_one(void *context, uint64_t part) {
    trial *t = context;
    if (part >= t->end) {
        return false;
    }
    t->times[part]++;
    t->pids[part] = getpid();
    if (part == t->killed) {
        raise(SIGKILL);
    } else if (part == t->ended) {
        _exit(7);
    }
    proof_case(t->p, !t->all_lost, "all are lost");
    return true;
}

static void try_all(trial *t, bool open, bool apart) {
    const proof_options options = {.full = true};
    const proof_parts parts = {.counts = t->p,
                               .count = PARTS,
                               .open = open,
                               .apart = apart,
                               .attempt = try_one,
                               .context = t};
    proof_try_parts(&options, &parts);
}

static void assert_once_each(const trial *t, uint64_t end) {
    for (uint64_t i = 0; i < PARTS; i++) {
        assert_int_equal(t->times[i], i < end);
    }
}

static void test_each_part_is_tried_once(void **state) {
    (void)state;
    trial *t = trial_new();
    try_all(t, false, false);
    assert_once_each(t, PARTS);
    assert_int_equal(t->p->tried, PARTS);
    assert_int_equal(t->p->done, PARTS);
    assert_int_equal(t->p->lost, 0);
}

static void test_parts_apart_have_a_process_each(void **state) {
    (void)state;
    trial *t = trial_new();
    try_all(t, false, true);
    assert_once_each(t, PARTS);
    for (int i = 0; i < PARTS; i++) {
        for (int j = 0; j < i; j++) {
            assert_int_not_equal(t->pids[i], t->pids[j]);
        }
    }
}

static void test_an_open_end_is_found(void **state) {
    (void)state;
    trial *t = trial_new();
    t->end = 10;
    try_all(t, true, false);
    assert_once_each(t, 10);
    assert_int_equal(t->p->tried, 10);
}

/* What is said meanwhile on the standard error goes to `said`. */
static void try_all_and_listen(trial *t, char *said, size_t capacity) {
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    try_all(t, false, false);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    said[fread(said, 1, capacity - 1, file)] = '\0';
    fclose(file);
}

static void test_a_crash_is_told_and_the_others_go_on(void **state) {
    (void)state;
    char said[4096];
    trial *t = trial_new();
    t->killed = 3;
    t->ended = 17;
    try_all_and_listen(t, said, sizeof said);
    assert_once_each(t, PARTS);
    assert_int_equal(t->p->lost, 2);
    assert_int_equal(t->p->tried, PARTS);
    assert_non_null(strstr(said, "LOST: Killed\nreplay it with: test_parts --full --part 3\n"));
    assert_non_null(
        strstr(said, "LOST: exit status 7\nreplay it with: test_parts --full --part 17\n"));
}

static void test_nothing_is_begun_after_many_losses(void **state) {
    (void)state;
    char said[4096];
    trial *t = trial_new();
    t->all_lost = true;
    try_all_and_listen(t, said, sizeof said);
    assert_in_range(t->p->tried, 20, 22); /* those that were under way */
    assert_non_null(
        strstr(said, "LOST: all are lost\nreplay it with: test_parts --full --part 0\n"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_part_is_tried_once),
        cmocka_unit_test(test_parts_apart_have_a_process_each),
        cmocka_unit_test(test_an_open_end_is_found),
        cmocka_unit_test(test_a_crash_is_told_and_the_others_go_on),
        cmocka_unit_test(test_nothing_is_begun_after_many_losses),
    };
    setenv("JOBS", "3", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
