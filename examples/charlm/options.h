/* SPDX-License-Identifier: Apache-2.0 */
/* options: the command line of the trainer. */
#ifndef CHARLM_OPTIONS_H
#define CHARLM_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <pawl/restore.h>

enum { MAX_RENAMES = 64 };

/* In the order in which they were given. */
struct option_renames {
    pawl_rename rules[MAX_RENAMES];
    size_t count;
};

struct options {
    const char *run; /* directory of the checkpoints */
    int64_t steps, save_every, keep;
    double grace_s;
    int64_t context, hidden, batch;
    int keep_remainder;
    const char *optimizer;
    double learning_rate; /* 0: the optimizer's default */
    int64_t seed;
    const char *from; /* another run, or NULL */
    int model_only;
    /* Policies: "error", "allow", ... */
    const char *missing, *unexpected, *cast, *hyperparameter, *per_rank;
    struct option_renames renames;
    const char *mistake; /* or NULL */
    int64_t report_every;
    int digests;
    const char *events; /* or NULL */
    char *const *texts;
    size_t text_count;
};

/* Reads the command line. Prints the help and exits for --help; dies with 2 for what is wrong. */
void options_read(struct options *options, int argc, char **argv);

#endif
