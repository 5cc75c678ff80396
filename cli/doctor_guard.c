/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the doctor in a child. */
#include "doctor_guard.h"
#include "verbs.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whoever reads what it prints sees the end of it, though the process may go on. */
static _Noreturn void be_the_child(int (*body)(const arguments *args, output *out),
                                   const arguments *args, output *out, int to_parent) {
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    int code = verb_exit_code(args->verb, body(args, out));
    code = output_end(out, code);
    (void)close(STDERR_FILENO);
    const unsigned char told = (unsigned char)code;
    ssize_t put;
    do {
        put = write(to_parent, &told, 1);
    } while (put < 0 && errno == EINTR);
    _exit(code);
}

/* It ended without a word: by a signal, which ends this process, too. */
static int end_as(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) {
        (void)signal(WTERMSIG(status), SIG_DFL);
        (void)raise(WTERMSIG(status));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

int doctor_guarded(int (*body)(const arguments *args, output *out), const arguments *args,
                   output *out) {
    int pipes[2];
    if (pipe(pipes) != 0) {
        return body(args, out);
    }
    pid_t child = fork();
    if (child == 0) {
        (void)close(pipes[0]);
        be_the_child(body, args, out, pipes[1]);
    }
    (void)close(pipes[1]);
    if (child < 0) {
        (void)close(pipes[0]);
        return body(args, out);
    }
    unsigned char told = 0;
    ssize_t got;
    do {
        got = read(pipes[0], &told, 1);
    } while (got < 0 && errno == EINTR);
    (void)close(pipes[0]);
    output_withhold(out); /* the child has printed it */
    return got == 1 ? told : end_as(child);
}
