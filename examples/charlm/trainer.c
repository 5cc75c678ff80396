/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trainer: the training loop.
 *
 *     open the run, describe the state, restore it       trainer_open, resume.c
 *     repeat                                             trainer_run
 *         forward, backward                              read the variables
 *         sum the gradients of all ranks                 exchange.c
 *         pawl_fence                                     the save in flight lets go of variables
 *         apply_gradients, share the values              changes them
 *         pawl_meet                                      whose vote on the save is there?
 *         pawl_save, when it is due                      returns at once
 *     save the last step and wait for it                 finish
 *
 * Every rank of a job runs this loop, and all do the same at the same step. Only how long a save
 * takes differs.
 */
#include "trainer.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "die.h"
#include "digest.h"
#include "resume.h"
#include "state.h"

/* ---- open and close ------------------------------------------------------------------------- */

/* pawl's log; called on pawl's own threads, too. */
static void print_log(void *context, pawl_log_level level, const char *text) {
    (void)context;
    fprintf(stderr, "charlm: %s%s\n", level == PAWL_LOG_WARN ? "warning: " : "", text);
}

static pawl_status open_run(struct trainer *trainer, pawl_error *err) {
    const struct options *options = trainer->options;
    const pawl_retention retention = {.struct_size = sizeof retention, .keep_last = options->keep};
    const pawl_log log = {.struct_size = sizeof log, .write = print_log};
    const pawl_run_options run_options = {
        .struct_size = sizeof run_options,
        .framework = "charlm",
        .save_every_steps = options->save_every,
        .retention = &retention,
        .log = trainer->ranks->place.rank == 0 ? &log : NULL,
        .group = trainer->ranks->group,
        .group_deadline_s = RANKS_TIMEOUT_S,
    };
    return pawl_run_open(options->run, &run_options, &trainer->run, err);
}

static void open_training(struct trainer *trainer, const struct text *text) {
    const struct options *options = trainer->options;
    const struct training_shape shape = {
        .context = options->context,
        .hidden = options->hidden,
        .batch_size = options->batch,
        .keep_remainder = options->keep_remainder,
        .optimizer = optimizer_find_class(options->optimizer),
        .learning_rate = options->learning_rate,
        .seed = (uint64_t)options->seed,
        .place = trainer->ranks->place,
    };
    training_open(&trainer->training, &shape, text);
    exchange_open(&trainer->exchange, trainer->ranks, trainer->training.model.variables, VARIABLES);
}

pawl_status trainer_open(struct trainer *trainer, const struct options *options,
                         const struct ranks *ranks, const struct text *text, pawl_error *err) {
    *trainer = (struct trainer){.options = options, .ranks = ranks, .saved_step = -1};
    trainer->mistake = mistake_from_name(options->mistake);
    events_open(&trainer->events, options->events, ranks->place.rank);
    events_write(&trainer->events, "process %ld", (long)getpid());
    open_training(trainer, text);

    /* SIGTERM and SIGUSR1 are what schedulers send before they take a machine away. */
    static const int SIGNALS[] = {SIGTERM, SIGUSR1, SIGINT};
    pawl_status status = pawl_preemption_watch(SIGNALS, sizeof SIGNALS / sizeof *SIGNALS, err);
    if (status == PAWL_OK) {
        status = open_run(trainer, err);
    }
    if (status == PAWL_OK) {
        status = pawl_batch_check_new(&trainer->batch_check, err);
    }
    if (status == PAWL_OK) {
        status = pawl_state_new(&trainer->state, err);
    }
    if (status == PAWL_OK) {
        status = state_describe(trainer->state, &trainer->training, err);
    }
    return status == PAWL_OK ? resume(trainer, err) : status;
}

pawl_status trainer_close(struct trainer *trainer, pawl_error *err) {
    /* Closes the run first: a save in flight reads the variables. */
    pawl_status status = trainer->run ? pawl_run_close(trainer->run, 0, err) : PAWL_OK;
    pawl_preemption_unwatch();
    pawl_state_free(trainer->state);
    pawl_batch_check_free(trainer->batch_check);
    if (status != PAWL_ETIMEOUT) { /* after a timeout the save may still read them */
        training_close(&trainer->training);
    }
    exchange_close(&trainer->exchange);
    events_close(&trainer->events);
    return status;
}

/* ---- saving --------------------------------------------------------------------------------- */

void trainer_print_error(const struct ranks *ranks, pawl_error *err) {
    const char *text = err ? pawl_error_text(err) : "failed, without memory to say why";
    (void)fflush(stdout);
    if (ranks->place.rank == 0) {
        fprintf(stderr, "charlm: %s\n", text);
    } else {
        fprintf(stderr, "charlm: rank %d: %.*s\n", ranks->place.rank, (int)strcspn(text, "\n"),
                text);
    }
}

/*
 * A failed save costs nothing but itself: the earlier checkpoints stay, training goes on. It failed
 * on all ranks, and each of them is told because of which one. `logged`: it failed in the
 * background, and pawl's log on rank 0 has the error already, unless the save was given up
 * (PAWL_ECANCELED).
 */
static void print_failed_save(const struct trainer *trainer, int logged, pawl_error *err) {
    const int rank = trainer->ranks->place.rank;
    events_write(&trainer->events, "save-failed %" PRId64, trainer->training.step);
    if (rank > 0) {
        trainer_print_error(trainer->ranks, err);
        return;
    }
    fprintf(stderr, "charlm: a save failed; training goes on and the next one tries again\n");
    if (!logged) {
        fprintf(stderr, "%s\n", pawl_error_text(err));
    }
}

void trainer_print_digests(const struct trainer *trainer, const char *what) {
    if (!trainer->options->digests) {
        return;
    }
    const struct digests digests = digests_of(&trainer->training, trainer->ranks);
    const int64_t step = trainer->training.step;
    printf("%s step %" PRId64 ": weights %016" PRIx64 ", optimizer %016" PRIx64 "\n", what, step,
           digests.weights, digests.slots);
    events_write(&trainer->events, "%s %" PRId64 " %016" PRIx64 " %016" PRIx64, what, step,
                 digests.weights, digests.slots);
}

/* The options of pawl_save and pawl_save_final; also sets the state's values. */
static pawl_status prepare_save(struct trainer *trainer, pawl_metric *loss,
                                pawl_save_options *options, pawl_error *err) {
    *loss = (pawl_metric){"loss", trainer->loss};
    *options = (pawl_save_options){.struct_size = sizeof *options,
                                   .metrics = loss,
                                   .metric_count = 1,
                                   .metric_size = sizeof *loss};
    return state_refresh(trainer->state, &trainer->training, err);
}

static pawl_status start_save(struct trainer *trainer, pawl_error *err) {
    const int64_t step = trainer->training.step;
    pawl_metric loss;
    pawl_save_options options;
    trainer_print_digests(trainer, "saving");
    double before = seconds_now();
    pawl_status status = prepare_save(trainer, &loss, &options, err);
    if (status == PAWL_OK) {
        status = pawl_save(trainer->run, trainer->state, step, &options, err);
    }
    if (status == PAWL_OK) {
        trainer->saved_step = step;
        trainer->save_in_flight = 1;
        trainer->stall_s = seconds_now() - before;
        events_write(&trainer->events, "save-begun %" PRId64, step);
    }
    return status;
}

/* The outcome of the save in flight; waits for it as pawl_wait does. */
static pawl_status see_save(struct trainer *trainer, double deadline_s, pawl_error *err) {
    pawl_save_stats stats = {.struct_size = sizeof stats};
    pawl_status status = pawl_wait(trainer->run, deadline_s, &stats, err);
    if (status == PAWL_ETIMEOUT) {
        return status;
    }
    trainer->save_in_flight = 0;
    if (status == PAWL_OK) {
        events_write(&trainer->events, "save-committed %" PRId64 " %.6f %.6f", stats.step,
                     stats.total_s, trainer->stall_s);
    }
    return status;
}

/* Prints the failure of a save in the background; training goes on. */
static void go_on_from_save(struct trainer *trainer, double deadline_s, pawl_error *err) {
    pawl_status status = PAWL_OK;
    if (trainer->save_in_flight) {
        status = see_save(trainer, deadline_s, err);
    }
    if (status != PAWL_OK && status != PAWL_ETIMEOUT) {
        print_failed_save(trainer, status != PAWL_ECANCELED, err);
    }
}

static void save_if_due(struct trainer *trainer, pawl_error *err) {
    go_on_from_save(trainer, -1, err); /* does not wait */
    if (pawl_due(trainer->run, trainer->training.step) && start_save(trainer, err) != PAWL_OK) {
        print_failed_save(trainer, 0, err);
    }
}

/* ---- one step ------------------------------------------------------------------------------- */

/* The next batch, which must look like all before it (failures J01 and J02). */
static pawl_status next_batch(struct trainer *trainer, const struct batch **batch,
                              pawl_error *err) {
    struct batch_entries entries;
    *batch = batcher_next(&trainer->training.batcher);
    batch_describe(*batch, &entries);
    mistake_in_batch(trainer->mistake, trainer->batches++, &entries);
    return pawl_batch_check_next(trainer->batch_check, entries.array, BATCH_ENTRIES,
                                 sizeof *entries.array, err);
}

/*
 * Returns when the variables may change, and takes the time. Costs nothing when no save is going.
 */
static pawl_status fence(struct trainer *trainer, pawl_error *err) {
    double before = seconds_now();
    pawl_status status = pawl_fence(trainer->run, 0, err);
    if (trainer->save_in_flight) {
        trainer->stall_s += seconds_now() - before;
    }
    return status;
}

static pawl_status apply_gradients(struct trainer *trainer, pawl_error *err) {
    struct training *training = &trainer->training;
    struct variable *variables = training->model.variables;
    pawl_array gradients[VARIABLES];
    for (size_t i = 0; i < VARIABLES; i++) {
        gradients[i] = optimizer_gradient(&training->optimizer, i);
    }
    mistake_in_gradient(trainer->mistake, &variables[DENSE1_KERNEL], &gradients[DENSE1_KERNEL]);
    return optimizer_apply_gradients(&training->optimizer, training->step + 1, gradients, VARIABLES,
                                     err);
}

/*
 * What all ranks must know: the loss of the whole batch, and whether any of them got a signal to
 * end. Signals reach ranks at different moments, but all stop at the same step.
 */
static void tell_each_other(struct trainer *trainer) {
    struct word {
        double loss;
        int64_t signal;
    };
    const int ranks = trainer->ranks->place.ranks;
    struct word *words = allocate((size_t)ranks, sizeof *words);
    const struct word own = {trainer->loss, pawl_preempted()};
    ranks_tell(trainer->ranks, &own, sizeof own, words);
    trainer->loss = 0.0;
    for (int rank = 0; rank < ranks; rank++) {
        trainer->loss += words[rank].loss;
        trainer->signal = trainer->signal ? trainer->signal : (int)words[rank].signal;
    }
    free(words);
}

static pawl_status train_step(struct trainer *trainer, pawl_error *err) {
    struct training *training = &trainer->training;
    const struct batch *batch = NULL;
    pawl_status status = next_batch(trainer, &batch, err);
    if (status != PAWL_OK) {
        return status;
    }
    trainer->loss = model_forward(&training->model, batch, &training->rng);
    model_backward(&training->model, batch);
    exchange_sum_gradients(&trainer->exchange);
    status = fence(trainer, err);
    if (status == PAWL_OK) {
        status = apply_gradients(trainer, err);
    }
    if (status == PAWL_OK) {
        exchange_share_values(&trainer->exchange);
        tell_each_other(trainer);
        training->step++;
        events_write(&trainer->events, "step %" PRId64, training->step);
        /* The ranks have just met anyway. Never needed, but a save hears of the others sooner. */
        status = pawl_meet(trainer->run, 0, err);
    }
    return status;
}

/* ---- the loop ------------------------------------------------------------------------------- */

int trainer_finished(const struct trainer *trainer) {
    return trainer->training.step >= trainer->options->steps;
}

/* Did all ranks begin to save this step? If one could not, all go on in the same way. */
static int all_began_to_save(const struct trainer *trainer, int64_t step) {
    const int ranks = trainer->ranks->place.ranks;
    int64_t *saved = allocate((size_t)ranks, sizeof *saved);
    ranks_tell(trainer->ranks, &trainer->saved_step, sizeof trainer->saved_step, saved);
    int all = 1;
    for (int rank = 0; rank < ranks; rank++) {
        all = all && saved[rank] == step;
    }
    free(saved);
    return all;
}

/* The last step's checkpoint must be there before the program may say that it succeeded. */
static pawl_status finish(struct trainer *trainer, pawl_error *err) {
    int64_t step = trainer->training.step;
    pawl_status status = PAWL_OK;
    if (!all_began_to_save(trainer, step)) {
        go_on_from_save(trainer, 0, err);
        status = start_save(trainer, err);
    }
    if (status == PAWL_OK && trainer->save_in_flight) {
        status = see_save(trainer, 0, err);
        trainer->is_logged =
            status != PAWL_ETIMEOUT && status != PAWL_ECANCELED && trainer->ranks->place.rank == 0;
    }
    if (status == PAWL_OK) {
        printf("finished at step %" PRId64 ", weights %016" PRIx64 "\n", step,
               model_digest(&trainer->training.model));
        events_write(&trainer->events, "finished %" PRId64, step);
    }
    return status;
}

static pawl_status say_stopped(const struct trainer *trainer) {
    int64_t step = trainer->training.step;
    printf("stopped after step %" PRId64 ", which is saved; run again to go on\n", step);
    events_write(&trainer->events, "stopped %" PRId64, step);
    return PAWL_OK;
}

/* A signal asked the job to end: its progress has to be safe within the grace time. */
static pawl_status stop_early(struct trainer *trainer, pawl_error *err) {
    const int64_t step = trainer->training.step;
    const double grace_s = trainer->options->grace_s;
    pawl_metric loss;
    pawl_save_options options;
    printf("caught signal %d (%s): saving step %" PRId64 "\n", trainer->signal,
           strsignal(trainer->signal), step);
    if (all_began_to_save(trainer, step)) { /* its save is under way, or done */
        pawl_status status = pawl_wait(trainer->run, grace_s, NULL, err);
        return status == PAWL_OK ? say_stopped(trainer) : status;
    }
    pawl_status status = prepare_save(trainer, &loss, &options, err);
    if (status == PAWL_OK) {
        status = pawl_save_final(trainer->run, trainer->state, step, &options, grace_s, err);
    }
    return status == PAWL_OK ? say_stopped(trainer) : status;
}

pawl_status trainer_run(struct trainer *trainer, pawl_error *err) {
    while (!trainer_finished(trainer)) {
        pawl_status status = train_step(trainer, err);
        if (status != PAWL_OK) {
            return status;
        }
        int64_t step = trainer->training.step;
        if (step % trainer->options->report_every == 0 || trainer_finished(trainer)) {
            printf("step %6" PRId64 "  loss %.6f\n", step, trainer->loss);
        }
        if (trainer_finished(trainer)) {
            break;
        }
        save_if_due(trainer, err);
        if (trainer->signal) {
            return stop_early(trainer, err);
        }
    }
    return finish(trainer, err);
}
