/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lag: a filesystem that lags, for tests with cmocka. What is at lag_path is the directory
 * lag_behind, as the kernel shows it through `lagfs`: looks are answered from the kernel's memory,
 * and rules spoil operations. What is done in lag_behind is what another host does.
 *
 *     lag_fs *fs = lag_start(&(lag_options){.negative_s = 60});
 *     lag_rule(fs, &(lag_spoil){.operation = "rename", .text = "manifest.json", .effect = "late",
 *                               .error = EIO, .count = 1, .delay_ms = 300});
 *     ...
 *     lag_stop(fs);
 *
 * A look of a program may be several of the kernel's: one that a name it remembers is there no more
 * makes it ask again, and with attr_s at 0 it asks for the attributes once more.
 *
 * Every wait has a deadline. What cannot be, but should, fails the test. When the test's process
 * dies, the mount goes away by itself.
 */
#ifndef LAG_LAG_H
#define LAG_LAG_H

#include <stdint.h>

typedef struct lag_fs lag_fs;

typedef struct lag_options {
    double negative_s; /* the kernel remembers for so long that a name is not there */
    double entry_s;    /* what a name stands for */
    double attr_s;     /* size, times */
} lag_options;

/* Operations and effects as in rules.h: what is answered, and when it is done. */
typedef struct lag_spoil {
    const char *operation;
    const char *text; /* is found in the path below lag_path; of a rename: in the old one */
    const char *effect;
    int error;
    uint64_t first; /* the first that is spoiled [1] */
    uint64_t count; /* so many are [all from then on] */
    int64_t delay_ms;
} lag_spoil;

/* Later than any test lasts: until lag_settle. */
#define LAG_HELD_MS ((int64_t)3600 * 1000)

/* Why there can be no such filesystem here; NULL: there can. */
const char *lag_missing(void);
/* In a fresh directory below the current one. Skips the test where there can be none. `options` may
 * be NULL: nothing is remembered. */
lag_fs *lag_start(const lag_options *options);
/* Unmounts, and removes the directory. NULL is fine. Fails the test when lagfs went wrong. */
void lag_stop(lag_fs *fs);
/* For cmocka, of a test whose state is the filesystem. */
int lag_tear_down(void **state);

/* Absolute. */
const char *lag_path(const lag_fs *fs);
const char *lag_behind(const lag_fs *fs);

void lag_rule(lag_fs *fs, const lag_spoil *spoil);
void lag_clear(lag_fs *fs);
/* Operations that rules spoiled since lag_clear. */
uint64_t lag_hits(lag_fs *fs);
/* What was to be done late is done now; returns when it is. */
void lag_settle(lag_fs *fs);

#endif
