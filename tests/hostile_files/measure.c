/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program and writes how it ended into a file: its exit code (negative: the signal), seconds
 * of the clock, KiB of memory at the most. It is small: the system counts the memory of whoever
 * starts a program as the program's. Usage: measure FILE SECONDS PROGRAM ARGUMENTS... */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    struct rusage used;
    int status;
    if (argc < 4) {
        fprintf(stderr, "usage: measure FILE SECONDS PROGRAM ARGUMENTS...\n");
        return 2;
    }
    double begun = now();
    pid_t child = fork();
    if (child == 0) {
        alarm((unsigned)atoi(argv[2]));
        execv(argv[3], argv + 3);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &used) != child) {
        perror("measure");
        return 1;
    }
    FILE *out = fopen(argv[1], "w");
    if (out == NULL) {
        perror(argv[1]);
        return 1;
    }
    fprintf(out, "%d %.3f %ld\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
            now() - begun, used.ru_maxrss);
    return fclose(out) == 0 ? 0 : 1;
}
