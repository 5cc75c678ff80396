/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainer: a small job for tests that look from outside. What it saves is a function of a step and
 * a version, so that whoever restores a step can tell which save it is of, to the last bit. It
 * knows the public headers alone.
 */
#ifndef LAG_TRAINER_H
#define LAG_TRAINER_H

#include <pawl/pawl.h>

#include <stdbool.h>

/* What a job was told of its save. */
typedef struct trainer_told {
    pawl_status status; /* of opening the run, else of the save, else of its end */
    char text[2048];    /* of the error; "": there was none */
} trainer_told;

/* A job of its own: opens the run, saves the step, waits, closes. `options` may be NULL; no wait
 * lasts longer than a minute. */
trainer_told trainer_save(const char *run, int64_t step, int64_t version,
                          const pawl_run_options *options);
/* The same, that must succeed. */
void trainer_saves(const char *run, int64_t step, int64_t version);
/* Does an error of a save that failed leave open whether its step is committed? */
bool trainer_leaves_open(const trainer_told *told);

#define TRAINER_ABSENT  0  /* not there, or unfinished: there is no manifest */
#define TRAINER_DAMAGED -1 /* it is there, and is not what was saved */

/* The version that a step holds, after restoring it and verifying every file. */
int64_t trainer_version(const char *run, int64_t step);
/* Fails the test, with the story in words, unless the step holds this version. */
void trainer_expects(const char *run, int64_t step, int64_t version, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* `pawl` with these words, which must end within a minute: its exit status. What it printed is
 * put into `output`, which may be NULL. */
int trainer_command(const char *command, const char *words, char *output, size_t room);

#endif
