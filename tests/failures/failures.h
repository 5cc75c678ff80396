/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of failures share. They know the public headers alone, and see what a user sees.
 *
 *   world.c    a scratch directory, files in it, child processes
 *   doctor.c   what the doctor says of a path
 *   ranks.c    processes that are the ranks of a job, on hosts of their own
 *   trainer.c  a small trainer's state, its run, its log
 *   system_calls.c  a disk that hangs, fails, or is slow
 *   words.c    comparing whole texts, in which some words differ from run to run
 */
#ifndef FAILURES_FAILURES_H
#define FAILURES_FAILURES_H

#include <pawl/pawl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

/* ---- world.c -------------------------------------------------------------------------------- */

/* A new directory below /tmp, entered; its path without links is written to `path`. */
void scratch_make(char path[64]);
void scratch_remove(const char *path);
void file_write(const char *path, const void *bytes, size_t n);
/* The whole file, NUL-terminated, to be freed. */
char *file_read(const char *path, size_t *n);
bool file_exists(const char *path);
/* The one file of a step's directory whose name begins so. */
void step_file(char path[512], const char *run, int64_t step, const char *prefix);
/* Runs `body` in a child process, where the mounts, limits and user are its own. An assertion that
 * fails there ends it with failure; 77 skips the test. */
#define CHILD_SKIPPED 77
void in_child(void (*body)(void *context), void *context);
/* Starts it and goes on. The child tells that it is ready by child_ready, and waits to be killed
 * or for its parent's end. */
typedef struct child {
    pid_t pid;
    int ready;
} child;
child child_start(void (*body)(void *context), void *context);
void child_ready(void);
void child_wait_ready(const child *c);
/* Its exit status, or the signal that ended it as a negative number. */
int child_wait(const child *c);
int child_kill(const child *c);
/* In a child: a new mount namespace, and a tmpfs on `path`. False when the system refuses. */
bool mount_tmpfs(const char *path, const char *options);
void become_nobody(void);
/* In a child: the test is skipped, and this is why. */
void child_skip(const char *reason);

/* ---- trainer.c ------------------------------------------------------------------------------ */

#define KERNEL_ROWS    4
#define KERNEL_COLUMNS 8

/* model/dense/kernel [4, 8] with its slot adam/m, a class of optimizer, a learning rate, the step,
 * a data position, a batch signature, random state of the rank. */
typedef struct trainer {
    float kernel[KERNEL_ROWS][KERNEL_COLUMNS];
    float slot[KERNEL_ROWS][KERNEL_COLUMNS];
    double learning_rate;
    pawl_state *state;
    pawl_run *run;
    pawl_error *err;
    pawl_report *report;
    pawl_restore_options asked; /* of the last restore */
    pawl_status came;
    pawl_log log_options;
    char log[16384];
    bool hears_of_storage; /* the log's warnings of what /tmp lies on are there, too */
} trainer;

void trainer_init(trainer *t);
void trainer_free(trainer *t);
/* Adds a row-major F32 tensor of the model. */
void trainer_add(trainer *t, const char *name, pawl_dtype dtype, int ndim, const int64_t *shape,
                 void *data);
void trainer_add_slot(trainer *t, const char *name, const char *slot_of, int ndim,
                      const int64_t *shape, void *data);
/* The whole state as above. */
void trainer_build(trainer *t);
void trainer_set(trainer *t, int64_t step);
/* Options that write warnings to the log; the log may be looked at while no save runs. */
pawl_run_options trainer_options(trainer *t);
void trainer_open(trainer *t, const char *path);
void trainer_open_with(trainer *t, const char *path, const pawl_run_options *options);
void trainer_close(trainer *t);
void trainer_save(trainer *t, int64_t step);
/* Where it is refused, trainer_follow then follows what the report advises, and the state may
 * change. */
pawl_status trainer_restore(trainer *t, const pawl_restore_options *options);
void trainer_follow(trainer *t);
/* A run `path` with the steps given, the last of them -1; closed again. */
void make_run(const char *path, const int64_t *steps);

/* ---- ranks.c -------------------------------------------------------------------------------- */

#define JOB_RANKS 3

/* What one process of a job is, and does. */
typedef struct rank_of_test {
    int rank;
    const char *path;
    double deadline_s;
    bool connected;        /* by callbacks */
    const int (*wires)[2]; /* of rank r: [0] is rank 0's end, [1] its own */
    void (*become)(int rank);
    /* In the process; returns its exit status. */
    int (*body)(const struct rank_of_test *self, const pawl_group *group);
    const void *context;
    int out; /* a pipe for what it says */
} rank_of_test;
/* For `body`: to the test that started it. */
void rank_says(const rank_of_test *t, const char *text);
/* For child_start, whose context is a rank_of_test. */
void be_a_rank(void *context);
typedef struct ranks_result {
    char said[JOB_RANKS][8192];
    int ended[JOB_RANKS]; /* as child_wait */
} ranks_result;
/* Starts all ranks but `absent` (-1: none), and waits for them. */
void ranks_run(rank_of_test like, int absent, ranks_result *result);
/* For `become`: ranks 0 and 1 are on host a, rank 2 on host b; there with a disk of its own at
 * "disk". The test is skipped where the system refuses. */
void name_host(int rank);
void own_disk_on_b(int rank);
/* For `become`: rank 2 also works in the directory "elsewhere", or is another user. */
void work_elsewhere_on_b(int rank);
void nobody_on_b(int rank);

/* ---- doctor.c ------------------------------------------------------------------------------- */

/* What pawl_doctor tells: "<severity> <id>: <text>\n  next: <next>\n". */
typedef struct doctor_said {
    bool (*wanted)(const pawl_finding *finding);
    char text[8192];     /* the findings that are wanted */
    pawl_severity worst; /* of these */
} doctor_said;
/* Findings on what the directory lies on, P07 and P09. */
bool is_of_storage(const pawl_finding *finding);
/* Returns the worst of all findings. */
pawl_severity doctor_ask(doctor_said *said, const char *path, const pawl_doctor_options *options);

/* ---- system_calls.c ------------------------------------------------------------------------- */

/* From the next large write on, until disk_heals. */
void disk_hangs(void);
void disk_wait_until_hung(void);
void disk_is_slow(int us);
void disk_fails(int system_errno, int times);
/* Reserving room fails with it; 0: it works. */
void disk_reserves(int system_errno);
void disk_heals(void);

/* ---- words.c -------------------------------------------------------------------------------- */

/*
 * The whole text is this one. In the wanted text {n} stands for a number, {b} for an amount of
 * bytes ("12.5 kB"), {w} for one word, {p} for a path, {f} for the name of a data file or an index,
 * {d} for the scratch directory, {x} for eight hexadecimal digits.
 */
#define assert_text(got, wanted) check_text((got), (wanted), __FILE__, __LINE__)
/* It fails with this status and these words. */
#define assert_tells(call, status, err, wanted)                                                    \
    check_tells((call), (status), (err), (wanted), __FILE__, __LINE__)
#define assert_works(call, err) check_works((call), (err), __FILE__, __LINE__)

bool text_fits(const char *got, const char *wanted);
void check_text(const char *got, const char *wanted, const char *file, int line);
void check_tells(pawl_status got, pawl_status status, pawl_error *err, const char *wanted,
                 const char *file, int line);
void check_works(pawl_status got, pawl_error *err, const char *file, int line);

#endif
