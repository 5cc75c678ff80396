/* SPDX-License-Identifier: Apache-2.0 */
/* A proof in parts, tried by several processes. */
#include "proofs/proof.h"

#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_SECONDS 3600 /* for one part */
#define MOST_LOST    20
#define MOST_JOBS    256
#define KEPT_BYTES   (32 << 20) /* of one buffer: the most that older C libraries take */

/* What the processes share. */
typedef struct shared_work {
    _Atomic uint64_t next, end;          /* parts that nobody has taken */
    _Atomic uint64_t present[MOST_JOBS]; /* the part of each process, plus 1; 0: none */
} shared_work;

proof_options proof_parse(int argc, char **argv) {
    static const struct option known[] = {{"full", no_argument, NULL, 'f'},
                                          {"part", required_argument, NULL, 'p'},
                                          {NULL, 0, NULL, 0}};
    proof_options o = {.full = false};
    int found;
    while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (found == '?') {
            fprintf(stderr, "usage: %s [--full] [--part N]\n", argv[0]);
            exit(EXIT_FAILURE);
        }
        o.full = o.full || found == 'f';
        o.alone = o.alone || found == 'p';
        o.part = found == 'p' ? strtoull(optarg, NULL, 10) : o.part;
    }
    return o;
}

static size_t job_count(void) {
    const char *wanted = getenv("JOBS");
    long jobs = wanted != NULL && wanted[0] != '\0' ? strtol(wanted, NULL, 10)
                                                    : sysconf(_SC_NPROCESSORS_ONLN);
    return jobs < 1 ? 1 : jobs > MOST_JOBS ? MOST_JOBS : (size_t)jobs;
}

void proof_keep_memory(void) {
    (void)mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

static void say_trying(const proof_parts *parts, bool full, uint64_t part) {
    char arguments[128];
    if (parts->replay != NULL) {
        parts->replay(parts->context, part, arguments, sizeof arguments);
    } else {
        snprintf(arguments, sizeof arguments, "%s--part %" PRIu64, full ? "--full " : "", part);
    }
    proof_trying(arguments);
}

/* The process with this number, until nothing is left to take. */
static void work(const proof_parts *parts, bool full, shared_work *w, size_t job) {
    do {
        uint64_t part = w->next++;
        if (part >= w->end || parts->counts->lost >= MOST_LOST) {
            break;
        }
        w->present[job] = part + 1;
        say_trying(parts, full, part);
        alarm(MOST_SECONDS);
        if (parts->attempt(parts->context, part)) {
            parts->counts->done++;
        } else {
            w->end = part < w->end ? part : (uint64_t)w->end;
        }
        w->present[job] = 0;
    } while (!parts->apart);
    alarm(0);
}

static pid_t start(const proof_parts *parts, bool full, shared_work *w, size_t job) {
    pid_t parent = getpid();
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        perror("another process");
        exit(EXIT_FAILURE);
    }
    if (child > 0) {
        return child;
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) {
        _exit(EXIT_FAILURE);
    }
    work(parts, full, w, job);
    if (parts->apart) {
        fflush(NULL);
        _exit(EXIT_SUCCESS);
    }
    exit(EXIT_SUCCESS); /* a sanitizer looks for leaks */
}

/* How a process ended, which is a finding where it did not end well. */
static void judge(const proof_parts *parts, bool full, uint64_t present, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS) {
        return;
    }
    if (present > 0) {
        say_trying(parts, full, present - 1);
    }
    const char *when = present > 0 ? "" : ", after its last part";
    if (WIFSIGNALED(status)) {
        proof_case(parts->counts, false, "%s%s", strsignal(WTERMSIG(status)), when);
    } else {
        proof_case(parts->counts, false, "exit status %d%s", WEXITSTATUS(status), when);
    }
    proof_trying("");
}

static bool is_left(const proof_parts *parts, const shared_work *w) {
    return w->next < w->end && parts->counts->lost < MOST_LOST;
}

static void try_beside_each_other(const proof_parts *parts, bool full, shared_work *w) {
    pid_t children[MOST_JOBS] = {0};
    size_t jobs = job_count();
    size_t running = 0;
    for (; running < jobs; running++) {
        children[running] = start(parts, full, w, running);
    }
    while (running > 0) {
        int status;
        size_t job = 0;
        pid_t child = wait(&status);
        while (job < jobs && children[job] != child) {
            job++;
        }
        if (child < 0 || job == jobs) {
            perror("waiting for a process");
            exit(EXIT_FAILURE);
        }
        judge(parts, full, w->present[job], status);
        w->present[job] = 0;
        children[job] = 0;
        if (is_left(parts, w)) {
            children[job] = start(parts, full, w, job);
        } else {
            running--;
        }
    }
}

void proof_try_parts(const proof_options *options, const proof_parts *parts) {
    static shared_work *w; /* for all that come after each other */
    proof_keep_memory();
    if (options->alone) {
        (void)parts->attempt(parts->context, options->part);
        return;
    }
    if (w == NULL) {
        w = proof_shared(sizeof *w);
    }
    w->next = 0;
    w->end = parts->count;
    parts->counts->done = 0;
    parts->counts->of = parts->open ? 0 : parts->count;
    try_beside_each_other(parts, options->full, w);
}
