/* SPDX-License-Identifier: Apache-2.0 */
/* resume: restoring, and what to tell people about it. */
#include "resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "state.h"

/* Whose learning rate counts when the checkpoint has another one (failure R07)? */
static pawl_policy hyperparameter_policy(const char *whose) {
    static const struct {
        const char *whose;
        pawl_policy policy;
    } WORDS[] = {{"checkpoint", PAWL_POLICY_CHECKPOINT},
                 {"caller", PAWL_POLICY_CALLER},
                 {"error", PAWL_POLICY_ERROR}};
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
        if (strcmp(whose, WORDS[i].whose) == 0) {
            return WORDS[i].policy;
        }
    }
    return PAWL_POLICY_DEFAULT;
}

int resume_knows(const char *whose) {
    return hyperparameter_policy(whose) != PAWL_POLICY_DEFAULT;
}

/* What differed but does not stand in the way. What does is in the error already. */
static void print_warnings(const pawl_report *report) {
    for (size_t i = 0; i < pawl_report_count(report); i++) {
        const pawl_report_item *item = pawl_report_get(report, i);
        if (item->severity == PAWL_SEVERITY_WARNING) {
            fprintf(stderr, "charlm: warning: %s\n", item->text);
        }
    }
}

/*
 * The tensors are in place. The rest of the progress is taken back, and the batcher is asked whether
 * it really stands where the checkpoint says (failure J06): a loader that begins anew after every
 * resume would show the model the first pages again and again.
 */
static pawl_status go_on_from(struct trainer *trainer, const pawl_report *report, pawl_error *err) {
    struct training *training = &trainer->training;
    pawl_status status = state_take_back(trainer->state, training, err);
    if (status != PAWL_OK) {
        return status;
    }
    mistake_in_batcher(trainer->mistake, &training->batcher);
    status =
        pawl_check_data_position(trainer->state, "data/position", training->batcher.position, err);
    if (status != PAWL_OK) {
        return status;
    }
    trainer->saved_step = training->step;
    pawl_report_counts counts = pawl_report_totals(report);
    printf("resumed from step %" PRId64 ": %" PRIu64 " entries, %.1f MB\n", training->step,
           counts.restored, (double)counts.bytes * 1e-6);
    events_write(&trainer->events, "resumed %" PRId64, training->step);
    return PAWL_OK;
}

/* Only reads the other run, and takes only what has the role of a model: training begins at step 0. */
static pawl_status start_from(struct trainer *trainer, const char *other_run, pawl_error *err) {
    pawl_checkpoint *checkpoint = NULL;
    pawl_status status = pawl_checkpoint_open(other_run, PAWL_NEWEST, NULL, &checkpoint, err);
    if (status != PAWL_OK) {
        return status;
    }
    const pawl_restore_options options = {.struct_size = sizeof options, .model_only = 1};
    pawl_report *report = NULL;
    status = pawl_checkpoint_restore(checkpoint, trainer->state, &options, &report, err);
    if (status == PAWL_OK) {
        print_warnings(report);
        printf("starting at step 0 with the model of %s, step %" PRId64 "\n", other_run,
               pawl_report_step(report));
    }
    pawl_report_free(report);
    pawl_checkpoint_close(checkpoint);
    return status;
}

/* Says what pawl found instead of a checkpoint: the directory may be the wrong one (failure R09). */
static pawl_status start_anew(struct trainer *trainer, pawl_error *err) {
    const char *found = pawl_error_get(err, PAWL_ERROR_FOUND);
    printf("no checkpoint in %s%s%s\n", trainer->options->run, found ? ": " : "",
           found ? found : "");
    events_write(&trainer->events, "resumed 0");
    if (trainer->options->from) {
        return start_from(trainer, trainer->options->from, err);
    }
    printf("starting at step 0\n");
    return PAWL_OK;
}

pawl_status resume(struct trainer *trainer, pawl_error *err) {
    const pawl_restore_options options = {
        .struct_size = sizeof options,
        .hyperparameter = hyperparameter_policy(trainer->options->hyperparameters),
    };
    pawl_report *report = NULL;
    pawl_status status = pawl_restore(trainer->run, trainer->state, &options, &report, err);
    if (status == PAWL_OK) {
        print_warnings(report);
        status = go_on_from(trainer, report, err);
    } else if (status == PAWL_ENOTFOUND) {
        status = start_anew(trainer, err);
    }
    pawl_report_free(report);
    return status;
}
