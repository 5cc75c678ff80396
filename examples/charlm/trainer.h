/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainer: the training loop, and where pawl stands in it. Read trainer.c first: it is the whole of
 * what a trainer has to do to keep its progress.
 */
#ifndef CHARLM_TRAINER_H
#define CHARLM_TRAINER_H

#include <pawl/pawl.h>

#include "events.h"
#include "exchange.h"
#include "mistake.h"
#include "options.h"
#include "training.h"

struct trainer {
    const struct options *options;
    const struct ranks *ranks;
    enum mistake mistake;
    struct training training;
    struct exchange exchange;
    double loss; /* of the last step, of all ranks */
    int signal;  /* that asks some rank to end; 0: none */
    pawl_batch_check *batch_check;
    int64_t batches; /* of this process */
    pawl_run *run;
    pawl_state *state;
    int64_t saved_step; /* of the save that was started last, or of the restore; -1: none */
    int save_in_flight; /* a save was started whose outcome is not known yet */
    double stall_s;     /* how long training stood still for the save in flight */
    int is_logged;      /* the error was printed already: in pawl's log, or by resume.c */
    struct events events;
};

/* Takes the run over and continues from its newest checkpoint, if there is one. */
pawl_status trainer_open(struct trainer *trainer, const struct options *options,
                         const struct ranks *ranks, const struct text *text, pawl_error *err)
    PAWL_MUST_CHECK;

/* Trains to the last step and saves, or saves and returns early when a signal asks for it. */
pawl_status trainer_run(struct trainer *trainer, pawl_error *err) PAWL_MUST_CHECK;

/* Digests of what is saved or was restored, for people and for programs, where --digests asks for
 * them. Collective. */
void trainer_print_digests(const struct trainer *trainer, const char *what);

/* Prints an error: rank 0 all of it, the others one line. NULL: there was no memory for it. */
void trainer_print_error(const struct ranks *ranks, pawl_error *err);

/* Whether training came to its last step. */
int trainer_finished(const struct trainer *trainer);

/* Gives up the run and frees everything; fine after a trainer_open that failed, too. */
pawl_status trainer_close(struct trainer *trainer, pawl_error *err) PAWL_MUST_CHECK;

#endif
