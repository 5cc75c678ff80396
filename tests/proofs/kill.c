/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SIGKILL at random moments of a real process that saves to a real directory: whatever it had been
 * told is durable is there afterwards, whole, and the next process takes over at once (S09, S10).
 */
#include "lib/random.h"
#include "path/path.h"
#include "proofs/proof.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pawl_run *open_run(const char *path) {
    struct pawl_error err = ERROR_INIT;
    store *s;
    pawl_run *run;
    const pawl_run_options options = {
        .struct_size = sizeof options,
        .retention = &(pawl_retention){.struct_size = sizeof(pawl_retention), .keep_last = 2}};
    proof_must(path_open(path, true, &s, &err), &err);
    proof_must(run_open(s, &options, platform_system(), &run, &err), &err);
    return run;
}

/* Saves step after step for ever, and tells through the pipe which are durable. */
static void victim(const char *path, int64_t from, int acknowledge) {
    struct pawl_error err = ERROR_INIT;
    const pawl_save_options options = {.struct_size = sizeof options};
    pawl_run *run = open_run(path);
    for (int64_t step = from;; step++) {
        proof_state ps;
        proof_state_make(&ps, (uint32_t)step);
        proof_must(run_save(run, ps.state, step, &options, &err), &err);
        proof_must(run_wait(run, 0, NULL, &err), &err);
        if (write(acknowledge, &step, sizeof step) != sizeof step) {
            abort();
        }
        proof_state_free(&ps);
    }
}

/* The step that a new process restores; -1: none; -2: wrong bytes or an error. */
static int64_t restored_step(const char *path) {
    struct pawl_error err = ERROR_INIT;
    proof_state ps;
    pawl_report *report = NULL;
    pawl_run *run = open_run(path);
    proof_state_make(&ps, 31);
    pawl_status status = run_restore(run, ps.state, NULL, &report, &err);
    int64_t step = -1;
    if (status == PAWL_OK) {
        step = pawl_report_step(report);
        step = report_totals(report).fallbacks == 0 && proof_state_seed(&ps) == step ? step : -2;
    } else if (status != PAWL_ENOTFOUND) {
        fprintf(stderr, "%s\n", error_text(&err));
        step = -2;
    }
    pawl_report_free(report);
    proof_must(run_close(run, 0, &err), &err);
    proof_state_free(&ps);
    return step;
}

static int64_t last_acknowledged(int from, int64_t before) {
    int64_t step;
    while (read(from, &step, sizeof step) == sizeof step) {
        before = step;
    }
    return before;
}

/* Returns the step that the next victim continues from. */
static int64_t kill_once(proof *p, const char *path, int64_t from, uint64_t delay_us) {
    int ends[2];
    if (pipe(ends) != 0) {
        abort();
    }
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        victim(path, from, ends[1]);
        _exit(1);
    }
    close(ends[1]);
    usleep((useconds_t)delay_us);
    kill(child, SIGKILL);
    int status;
    waitpid(child, &status, 0);
    int64_t acknowledged = last_acknowledged(ends[0], from - 1);
    close(ends[0]);
    int64_t restored = restored_step(path);
    bool good = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL &&
                (restored == acknowledged || restored == acknowledged + 1 ||
                 (restored == -1 && acknowledged < 1));
    proof_case(p, good, "killed after %llu us: acknowledged step %lld, restored %lld",
               (unsigned long long)delay_us, (long long)acknowledged, (long long)restored);
    return restored >= 1 ? restored + 1 : 1;
}

int main(int argc, char **argv) {
    int kills = proof_parse(argc, argv).full ? 500 : 40;
    proof *p = proof_new("SIGKILL of a saving process");
    test_random random = {.state = (uint64_t)getpid()};
    char path[] = "proof-kill-XXXXXX";
    if (mkdtemp(path) == NULL) {
        perror("mkdtemp");
        return EXIT_FAILURE;
    }
    int64_t step = 1;
    p->of = (uint64_t)kills;
    for (int i = 0; i < kills; i++, p->done++) {
        step = kill_once(p, path, step, random_below(&random, 60000));
    }
    proof_remove_tree(path);
    return proof_end(p);
}
