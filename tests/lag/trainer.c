/* SPDX-License-Identifier: Apache-2.0 */
#include "lag/trainer.h"
#include "lib/at_step.h"

#include "lib/random.h"
#include "lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define TENSORS    3
#define MOST_ITEMS 3000

static const size_t items[TENSORS] = {MOST_ITEMS, 1001, 7};
static const char *const names[TENSORS] = {"model/kernel", "model/deep/bias", "model/tiny"};

typedef struct weights {
    pawl_state *state;
    uint64_t of[TENSORS][MOST_ITEMS];
} weights;

static void must(pawl_status status, pawl_error *err) {
    if (status != PAWL_OK) {
        fail_msg("%s", pawl_error_text(err));
    }
}

static void fill(uint64_t to[TENSORS][MOST_ITEMS], int64_t step, int64_t version) {
    test_random random = {.state = (uint64_t)step * 1000003 + (uint64_t)version};
    for (int i = 0; i < TENSORS; i++) {
        random_fill(&random, to[i], items[i] * sizeof to[i][0]);
    }
}

static void weights_make(weights *w, int64_t step, int64_t version, pawl_error *err) {
    memset(w->of, 0, sizeof w->of);
    if (version > 0) {
        fill(w->of, step, version);
    }
    must(pawl_state_new(&w->state, err), err);
    for (int i = 0; i < TENSORS; i++) {
        int64_t shape = (int64_t)items[i];
        const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                    .name = names[i],
                                    .dtype = PAWL_U64,
                                    .ndim = 1,
                                    .shape = &shape,
                                    .data = w->of[i]};
        must(pawl_state_add_tensor(w->state, &tensor, err), err);
    }
    must(pawl_state_set_int64(w->state, "step", PAWL_ROLE_STEP, step, err), err);
    must(pawl_state_set_int64(w->state, "version", PAWL_ROLE_OTHER, version, err), err);
}

/* The version whose bytes these are, of this step; TRAINER_DAMAGED: of none. */
static int64_t weights_version(const weights *w, int64_t wanted_step, pawl_error *err) {
    static uint64_t right[TENSORS][MOST_ITEMS];
    int64_t step, version;
    if (pawl_state_get_int64(w->state, "step", &step, err) != PAWL_OK ||
        pawl_state_get_int64(w->state, "version", &version, err) != PAWL_OK ||
        step != wanted_step) {
        return TRAINER_DAMAGED;
    }
    fill(right, step, version);
    for (int i = 0; i < TENSORS; i++) {
        if (memcmp(w->of[i], right[i], items[i] * sizeof right[i][0]) != 0) {
            return TRAINER_DAMAGED;
        }
    }
    return version;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static trainer_told told_of(pawl_status status, pawl_error *err) {
    trainer_told told = {.status = status};
    if (status != PAWL_OK) {
        snprintf(told.text, sizeof told.text, "%s", pawl_error_text(err));
    }
    return told;
}

static trainer_told save_and_wait(pawl_run *run, const weights *w, int64_t step, pawl_error *err) {
    pawl_status status = pawl_save(run, w->state, step, NULL, err);
    if (status == PAWL_OK) {
        status = pawl_wait(run, 0, NULL, err);
    }
    return told_of(status, err);
}

trainer_told trainer_save(const char *path, int64_t step, int64_t version,
                          const pawl_run_options *options) {
    static weights w;
    pawl_error *err = pawl_error_new();
    pawl_run *run = NULL;
    pawl_run_options o = {.struct_size = sizeof o};
    if (options != NULL) {
        o = *options;
    }
    o.deadline_s = o.deadline_s > 0 ? o.deadline_s : 60;
    trainer_told told = told_of(pawl_run_open(path, &o, &run, err), err);
    if (told.status == PAWL_OK) {
        weights_make(&w, step, version, err);
        told = save_and_wait(run, &w, step, err);
        (void)pawl_run_close(run, 0, err);
        pawl_state_free(w.state);
    }
    pawl_error_free(err);
    return told;
}

void trainer_saves(const char *run, int64_t step, int64_t version) {
    trainer_told told = trainer_save(run, step, version, NULL);
    if (told.status != PAWL_OK) {
        fail_msg("step %lld could not be saved: %s", (long long)step, told.text);
    }
}

bool trainer_leaves_open(const trainer_told *told) {
    return strstr(told->text, "may be committed") != NULL ||
           strstr(told->text, "may still be committed") != NULL ||
           strstr(told->text, "may still succeed") != NULL;
}

/* ---- looking --------------------------------------------------------------------------------- */

static int64_t version_of(pawl_checkpoint *checkpoint, int64_t step, pawl_error *err) {
    static weights w;
    weights_make(&w, 0, 0, err);
    int64_t version = TRAINER_DAMAGED;
    if (pawl_checkpoint_verify(checkpoint, NULL, NULL, err) == PAWL_OK &&
        pawl_checkpoint_restore(checkpoint, w.state, NULL, NULL, err) == PAWL_OK) {
        version = weights_version(&w, step, err);
    }
    pawl_state_free(w.state);
    return version;
}

int64_t trainer_version(const char *run, int64_t step) {
    pawl_error *err = pawl_error_new();
    pawl_checkpoint *checkpoint = NULL;
    pawl_status status = pawl_checkpoint_open(run, AT_STEP(step), &checkpoint, err);
    int64_t version = status == PAWL_ENOTFOUND ? TRAINER_ABSENT : TRAINER_DAMAGED;
    if (status == PAWL_OK) {
        version = version_of(checkpoint, step, err);
        pawl_checkpoint_close(checkpoint);
    }
    if (version == TRAINER_DAMAGED) {
        print_error("%s\n", pawl_error_text(err));
    }
    pawl_error_free(err);
    return version;
}

void trainer_expects(const char *run, int64_t step, int64_t version, const char *format, ...) {
    int64_t found = trainer_version(run, step);
    if (found == version) {
        return;
    }
    char story[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(story, sizeof story, format, arguments);
    va_end(arguments);
    fail_msg("%s: step %lld holds version %lld and not %lld (0: absent, -1: damaged)", story,
             (long long)step, (long long)found, (long long)version);
}

int trainer_command(const char *command, const char *words, char *output, size_t room) {
    char line[4096], rest[4096];
    snprintf(line, sizeof line, "exec timeout -k 5 60 %s %s 2>&1 </dev/null", command, words);
    FILE *pipe = popen(line, "r");
    assert_non_null(pipe);
    size_t n = 0;
    if (output != NULL) {
        n = fread(output, 1, room - 1, pipe);
        output[n] = '\0';
    }
    while (fread(rest, 1, sizeof rest, pipe) > 0) {
    }
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
