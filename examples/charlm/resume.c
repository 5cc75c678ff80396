/* SPDX-License-Identifier: Apache-2.0 */
/* resume: restoring, and what to tell people about it. */
#include "resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "die.h"
#include "state.h"

/* ---- what is asked of pawl ------------------------------------------------------------------ */

static pawl_policy policy(const char *word) {
    static const struct {
        const char *word;
        pawl_policy policy;
    } WORDS[] = {{"error", PAWL_POLICY_ERROR},
                 {"allow", PAWL_POLICY_ALLOW},
                 {"checkpoint", PAWL_POLICY_CHECKPOINT},
                 {"caller", PAWL_POLICY_CALLER}};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (strcmp(word, WORDS[i].word) == 0) {
            return WORDS[i].policy;
        }
    }
    return PAWL_POLICY_DEFAULT;
}

/* Without options of ours, whatever differs is an error: the command line has to ask for less. */
static pawl_restore_options restore_options(const struct options *options) {
    return (pawl_restore_options){
        .struct_size = sizeof(pawl_restore_options),
        .missing = policy(options->missing),
        .unexpected = policy(options->unexpected),
        .cast = policy(options->cast),
        .hyperparameter = policy(options->hyperparameter),
        .per_rank = policy(options->per_rank),
        .model_only = options->model_only,
        .renames = options->renames.rules,
        .rename_count = options->renames.count,
        .rename_size = sizeof *options->renames.rules,
    };
}

/* ---- what came of it ------------------------------------------------------------------------ */

/* Every difference that prevents the restore, a line each: the error itself has only the first
 * few. */
static void print_differences(const pawl_report *report) {
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        if (item->severity == PAWL_SEVERITY_ERROR) {
            fprintf(stderr, "charlm: %s: %s in the checkpoint, %s here\n", item->name,
                    item->checkpoint ? item->checkpoint : "nothing",
                    item->state ? item->state : "nothing");
        }
    }
}

/*
 * The tensors are in place. The rest of the progress is taken back, and the batcher is asked
 * whether it really stands where the checkpoint says (failure J06): a loader that begins anew after
 * every resume would show the model the first pages again and again.
 */
static pawl_status go_on(struct trainer *trainer, pawl_error *err) {
    struct training *training = &trainer->training;
    pawl_status status = state_take_back(trainer->state, training, err);
    if (status != PAWL_OK) {
        return status;
    }
    mistake_in_batcher(trainer->mistake, &training->batcher);
    return pawl_check_data_position(trainer->state, "data/position", training->batcher.position,
                                    err);
}

/* Was it saved by another number of ranks? Then there is no random state for each rank (R10). */
static int ranks_changed(const pawl_report *report) {
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        if (pawl_report_get(report, i)->difference == PAWL_DIFF_RANKS) {
            return 1;
        }
    }
    return 0;
}

/* For people, and for programs what this rank took and how long that was. */
static void say_resumed(const struct trainer *trainer, const char *from, const pawl_report *report,
                        double seconds) {
    pawl_report_counts counts = {.struct_size = sizeof counts};
    if (pawl_report_totals(report, &counts, NULL) != PAWL_OK) {
        return;
    }
    printf("resumed from step %" PRId64 "%s%s: %" PRIu64 " entries, %.1f MB",
           pawl_report_step(report), from ? " of " : "", from ? from : "", counts.restored,
           (double)counts.bytes * 1e-6);
    if (trainer->ranks->place.ranks > 1) {
        printf(" for rank 0 of %d", trainer->ranks->place.ranks);
    }
    printf("\n");
    if (trainer->ranks->place.rank == 0) {
        (void)advice_print(stderr, "charlm: ", report, PAWL_SEVERITY_WARNING);
    }
    events_write(&trainer->events, "resumed %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %.6f",
                 trainer->training.step, counts.bytes, counts.restored, counts.kept, seconds);
    trainer_print_digests(trainer, "restored");
}

/* `from`: NULL for the run itself. */
static pawl_status after_restore(struct trainer *trainer, const char *from,
                                 const pawl_report *report, pawl_error *err) {
    const struct options *options = trainer->options;
    struct training *training = &trainer->training;
    if (!options->model_only) {
        pawl_status status = go_on(trainer, err);
        if (status != PAWL_OK) {
            return status;
        }
    } else if (!from) {
        training->step = pawl_report_step(report); /* later checkpoints need higher numbers */
    }
    if (ranks_changed(report) && policy(options->per_rank) == PAWL_POLICY_CALLER) {
        training_reseed(training, (uint64_t)options->seed, training->step, trainer->ranks->place);
    }
    return PAWL_OK;
}

/* The error gives advice in terms of pawl's interface; this prints our command line's options. */
static void print_mismatch(struct trainer *trainer, const pawl_report *report, pawl_error *err) {
    const char *text = pawl_error_text(err);
    const char *next = strstr(text, "\n  next: ");
    print_differences(report);
    fprintf(stderr, "charlm: %.*s\n", next ? (int)(next - text) : (int)strlen(text), text);
    (void)advice_print(stderr, "  next:     ", report, PAWL_SEVERITY_NOTE); /* renamed? */
    (void)advice_print(stderr, "  next:     ", report, PAWL_SEVERITY_ERROR);
    advice_print_together(stderr, "            ", report);
    trainer->is_logged = 1;
}

static pawl_status after_failure(struct trainer *trainer, pawl_status status,
                                 const pawl_report *report, pawl_error *err) {
    if (status == PAWL_EMISMATCH && pawl_report_count(report) > 0 &&
        trainer->ranks->place.rank == 0) {
        (void)fflush(stdout);
        print_mismatch(trainer, report, err);
    }
    return status;
}

/* ---- from where ----------------------------------------------------------------------------- */

/* Rank 0 chooses the newest checkpoint for all: a rank that looked later might see a newer one. */
static pawl_status open_newest(const struct ranks *ranks, const char *run,
                               pawl_checkpoint **checkpoint, pawl_error *err) {
    pawl_checkpoint_info info = {.struct_size = sizeof info};
    if (ranks->place.rank == 0) {
        pawl_status status = pawl_checkpoint_open(run, NULL, checkpoint, err);
        if (status == PAWL_OK) {
            status = pawl_checkpoint_describe(*checkpoint, &info, err);
        }
        if (status != PAWL_OK) {
            return status;
        }
    }
    int64_t *steps = allocate((size_t)ranks->place.ranks, sizeof *steps);
    ranks_tell(ranks, &info.step, sizeof info.step, steps);
    const int64_t step = steps[0];
    const pawl_open_options options = {.struct_size = sizeof options, .step = &step};
    free(steps);
    return ranks->place.rank == 0 ? PAWL_OK : pawl_checkpoint_open(run, &options, checkpoint, err);
}

/* Only reads the other run; this one gets checkpoints of its own. */
static pawl_status begin_with(struct trainer *trainer, const char *other_run, pawl_error *err) {
    pawl_checkpoint *checkpoint = NULL;
    pawl_status status = open_newest(trainer->ranks, other_run, &checkpoint, err);
    if (status != PAWL_OK) {
        return status;
    }
    const pawl_restore_options options = restore_options(trainer->options);
    pawl_report *report = NULL;
    double before = seconds_now();
    status = pawl_checkpoint_restore(checkpoint, trainer->state, &options, &report, err);
    double seconds = seconds_now() - before;
    status = status == PAWL_OK ? after_restore(trainer, other_run, report, err)
                               : after_failure(trainer, status, report, err);
    if (status == PAWL_OK) {
        say_resumed(trainer, other_run, report, seconds);
    }
    pawl_report_free(report);
    pawl_checkpoint_close(checkpoint);
    return status;
}

/*
 * Says what pawl found instead of a checkpoint: the directory may be the wrong one (failure R09).
 */
static pawl_status begin_anew(struct trainer *trainer, pawl_error *err) {
    const struct options *options = trainer->options;
    const char *found = pawl_error_get(err, PAWL_ERROR_FOUND);
    printf("%s: %s (%s)\n", options->run, pawl_error_get(err, PAWL_ERROR_ATTEMPT),
           found ? found : "nothing");
    if (options->from) {
        return begin_with(trainer, options->from, err);
    }
    printf("starting at step 0\n");
    events_write(&trainer->events, "resumed 0");
    return PAWL_OK;
}

pawl_status resume(struct trainer *trainer, pawl_error *err) {
    const pawl_restore_options options = restore_options(trainer->options);
    pawl_report *report = NULL;
    double before = seconds_now();
    pawl_status status = pawl_restore(trainer->run, trainer->state, &options, &report, err);
    double seconds = seconds_now() - before;
    if (status == PAWL_OK) {
        status = after_restore(trainer, NULL, report, err);
        trainer->saved_step = trainer->training.step;
        if (status == PAWL_OK) {
            say_resumed(trainer, NULL, report, seconds);
        }
    } else if (status == PAWL_ENOTFOUND) {
        status = begin_anew(trainer, err);
    } else {
        status = after_failure(trainer, status, report, err);
    }
    pawl_report_free(report);
    return status;
}
