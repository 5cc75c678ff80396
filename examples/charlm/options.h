/* SPDX-License-Identifier: Apache-2.0 */
/* options: the command line of the trainer. */
#ifndef CHARLM_OPTIONS_H
#define CHARLM_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

struct options {
    const char *run;  /* directory of the checkpoints */
    const char *from; /* another run, to start from its model; or NULL */
    int64_t steps, save_every, keep, report_every;
    int64_t context, hidden, batch, seed;
    const char *optimizer;
    double learning_rate;        /* 0: the optimizer's default */
    const char *hyperparameters; /* whose stand when a checkpoint's differ from the caller's */
    double grace_s;
    int keep_remainder;
    const char *mistake, *events; /* or NULL */
    char *const *texts;
    size_t text_count;
};

/* Reads the command line. Prints the help and exits for --help; dies with 2 for what is wrong. */
void options_read(struct options *options, int argc, char **argv);

#endif
