/* SPDX-License-Identifier: Apache-2.0 */
/* A small trainer: its state, its run, its log. */
#include "failures.h"
#include "lib/follow_advice.h"

static const int64_t kernel_shape[] = {KERNEL_ROWS, KERNEL_COLUMNS};

static void take_log(void *context, pawl_log_level level, const char *text) {
    trainer *t = context;
    size_t at = strlen(t->log);
    if (!t->hears_of_storage && strncmp(text, "storage of the run (", 20) == 0) {
        return;
    }
    (void)snprintf(t->log + at, sizeof(t->log) - at, "%s: %s\n",
                   level == PAWL_LOG_ERROR ? "error" : "warning", text);
}

void trainer_init(trainer *t) {
    memset(t, 0, sizeof(*t));
    t->learning_rate = 0.001;
    t->err = pawl_error_new();
    assert_non_null(t->err);
    assert_works(pawl_state_new(&t->state, t->err), t->err);
}

void trainer_free(trainer *t) {
    (void)pawl_run_close(t->run, 0, NULL);
    pawl_report_free(t->report);
    pawl_state_free(t->state);
    pawl_error_free(t->err);
    memset(t, 0, sizeof(*t));
}

void trainer_add(trainer *t, const char *name, pawl_dtype dtype, int ndim, const int64_t *shape,
                 void *data) {
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = name,
                                .dtype = dtype,
                                .ndim = ndim,
                                .shape = shape,
                                .data = data};
    assert_works(pawl_state_add_tensor(t->state, &tensor, t->err), t->err);
}

void trainer_add_slot(trainer *t, const char *name, const char *slot_of, int ndim,
                      const int64_t *shape, void *data) {
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = name,
                                .dtype = PAWL_F32,
                                .ndim = ndim,
                                .shape = shape,
                                .data = data,
                                .role = PAWL_ROLE_SLOT,
                                .slot_of = slot_of,
                                .slot = "adam/m"};
    assert_works(pawl_state_add_tensor(t->state, &tensor, t->err), t->err);
}

static const char signature[] = "[{\"name\": \"images\", \"dtype\": \"F32\", \"shape\": [64, 28]}]";

void trainer_build(trainer *t) {
    trainer_add(t, "dense/kernel", PAWL_F32, 2, kernel_shape, t->kernel);
    trainer_add_slot(t, "optimizer/dense/kernel/m", "dense/kernel", 2, kernel_shape, t->slot);
    assert_works(pawl_state_set_string(t->state, PAWL_OPTIMIZER_CLASS, PAWL_ROLE_HYPERPARAMETER,
                                       "adam", t->err),
                 t->err);
    assert_works(
        pawl_state_set_json(t->state, "batch", PAWL_ROLE_BATCH_SIGNATURE, signature, t->err),
        t->err);
    trainer_set(t, 0);
}

void trainer_set(trainer *t, int64_t step) {
    for (int i = 0; i < KERNEL_ROWS * KERNEL_COLUMNS; i++) {
        t->kernel[i / KERNEL_COLUMNS][i % KERNEL_COLUMNS] = (float)step + (float)i;
    }
    assert_works(pawl_state_set_int64(t->state, "step", PAWL_ROLE_STEP, step, t->err), t->err);
    assert_works(pawl_state_set_float64(t->state, "optimizer/learning_rate",
                                        PAWL_ROLE_HYPERPARAMETER, t->learning_rate, t->err),
                 t->err);
    assert_works(
        pawl_state_set_int64(t->state, "data/position", PAWL_ROLE_DATA_POSITION, step * 64, t->err),
        t->err);
    assert_works(
        pawl_state_set_rank_bytes(t->state, "random", PAWL_ROLE_RNG, &step, sizeof(step), t->err),
        t->err);
}

pawl_run_options trainer_options(trainer *t) {
    t->log_options = (pawl_log){.struct_size = sizeof(pawl_log), .write = take_log, .context = t};
    return (pawl_run_options){.struct_size = sizeof(pawl_run_options), .log = &t->log_options};
}

void trainer_open(trainer *t, const char *path) {
    const pawl_run_options options = trainer_options(t);
    trainer_open_with(t, path, &options);
}

void trainer_open_with(trainer *t, const char *path, const pawl_run_options *options) {
    assert_works(pawl_run_open(path, options, &t->run, t->err), t->err);
}

void trainer_close(trainer *t) {
    pawl_run *run = t->run;
    t->run = NULL;
    assert_works(pawl_run_close(run, 0, t->err), t->err);
}

void trainer_save(trainer *t, int64_t step) {
    trainer_set(t, step);
    assert_works(pawl_save(t->run, t->state, step, NULL, t->err), t->err);
    assert_works(pawl_wait(t->run, 0, NULL, t->err), t->err);
}

pawl_status trainer_restore(trainer *t, const pawl_restore_options *options) {
    pawl_report_free(t->report);
    t->report = NULL;
    t->asked = options != NULL ? *options : (pawl_restore_options){.rename_count = 0};
    t->came = pawl_restore(t->run, t->state, options, &t->report, t->err);
    return t->came;
}

static pawl_status restore_again(void *context, const pawl_restore_options *options,
                                 pawl_report **report) {
    trainer *t = context;
    return pawl_restore(t->run, t->state, options, report, t->err);
}

static const char *why_it_failed(void *context) {
    return pawl_error_text(((trainer *)context)->err);
}

void trainer_follow(trainer *t) {
    advised all = {
        .context = t, .restore = restore_again, .failure = why_it_failed, .options = t->asked};
    if (t->came == PAWL_EMISMATCH) {
        assert_int_equal(t->asked.rename_count, 0); /* they are gone with the test */
        advice_follow(&all, t->report);
        assert_true(all.followed > 0);
    }
}

void make_run(const char *path, const int64_t *steps) {
    trainer t;
    trainer_init(&t);
    trainer_build(&t);
    trainer_open(&t, path);
    for (; *steps >= 0; steps++) {
        trainer_save(&t, *steps);
    }
    trainer_close(&t);
    trainer_free(&t);
}
