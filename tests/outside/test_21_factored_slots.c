/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An optimizer that keeps a row and a column of each matrix, as Adafactor does, saves and restores
 * its slots as slots: whole, in shards, replicated, on another number of ranks; and a slot that
 * does not fit is named.
 */
#include "job.h"

#define ROWS      8
#define COLUMNS   6
#define VARIABLE  "model/w"
#define MOMENTUM  "adafactor/m"
#define MAX_SLOTS 5

typedef struct slot {
    const char *name;
    int ndim;
    int64_t shape[2];
    int by_rows; /* a rank has some of the first dimension; otherwise all have all */
} slot;

static const slot factored[] = {{"adafactor/row", 1, {ROWS, 0}, 1},
                                {"adafactor/column", 1, {COLUMNS, 0}, 0},
                                {"adafactor/column_kept", 2, {1, COLUMNS}, 0},
                                {"adafactor/step", 0, {0, 0}, 0},
                                {MOMENTUM, 2, {ROWS, COLUMNS}, 1}};
static const slot unfactored[] = {{"adafactor/row", 2, {ROWS, COLUMNS}, 1}};
static const slot outgrown[] = {{MOMENTUM, 2, {ROWS, COLUMNS}, 1}};

typedef struct plan {
    const slot *slots;
    int count, columns; /* of the variable */
    pawl_restore_options options;
} plan;

static float value_of(int k, int64_t at) {
    return (float)(1000 * (k + 1)) + (float)at;
}

/* Of what a rank has of the tensor `k`: how many elements, from which on. */
typedef struct part {
    int64_t offset[2], extent[2], first, count;
} part;

static part part_of(const slot *s, int rank, int ranks) {
    part p = {.count = 1};
    int64_t inner = 1;
    for (int d = 0; d < s->ndim; d++) {
        p.extent[d] = s->shape[d];
        inner *= d > 0 ? s->shape[d] : 1;
    }
    if (s->by_rows) {
        p.offset[0] = s->shape[0] * rank / ranks;
        p.extent[0] = s->shape[0] * (rank + 1) / ranks - p.offset[0];
    }
    p.first = p.offset[0] * inner;
    p.count = s->ndim > 0 ? p.extent[0] * inner : 1;
    return p;
}

typedef struct holding {
    pawl_state *state;
    float memory[MAX_SLOTS + 1][ROWS * (COLUMNS + 2)];
    slot tensors[MAX_SLOTS + 1];
    int count;
} holding;

static pawl_status add(holding *h, const slot *s, int rank, int ranks, pawl_error *err) {
    part p = part_of(s, rank, ranks);
    int k = h->count++;
    h->tensors[k] = *s;
    for (int64_t i = 0; i < p.count; i++) {
        h->memory[k][i] = value_of(k, p.first + i);
    }
    const pawl_box box = {.offset = p.offset, .extent = p.extent, .data = h->memory[k]};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = s->name,
                                .dtype = PAWL_F32,
                                .ndim = s->ndim,
                                .shape = s->shape,
                                .nboxes = 1,
                                .boxes = &box,
                                .box_size = sizeof(pawl_box),
                                .replicated = !s->by_rows,
                                .role = k > 0 ? PAWL_ROLE_SLOT : PAWL_ROLE_MODEL,
                                .slot_of = k > 0 ? VARIABLE : NULL,
                                .slot = k > 0 ? s->name : NULL};
    return pawl_state_add_tensor(h->state, &tensor, err);
}

static pawl_status build(holding *h, const plan *p, int rank, int ranks, pawl_error *err) {
    const slot variable = {VARIABLE, 2, {ROWS, p->columns > 0 ? p->columns : COLUMNS}, 1};
    *h = (holding){0};
    pawl_status status = pawl_state_new(&h->state, err);
    status = status == PAWL_OK ? add(h, &variable, rank, ranks, err) : status;
    for (int i = 0; i < p->count && status == PAWL_OK; i++) {
        status = add(h, &p->slots[i], rank, ranks, err);
    }
    return status;
}

static pawl_status save_body(job *j, int rank, pawl_run *run, pawl_error *err) {
    holding h;
    pawl_status status = build(&h, j->context, rank, j->ranks, err);
    status = status == PAWL_OK ? pawl_save(run, h.state, 1, NULL, err) : status;
    status = status == PAWL_OK ? pawl_wait(run, 60, NULL, err) : status;
    pawl_state_free(h.state);
    return status;
}

static int wrong_in(const holding *h, int rank, int ranks, int slots_too) {
    int wrong = 0;
    for (int k = 0; k < (slots_too ? h->count : 1); k++) {
        part p = part_of(&h->tensors[k], rank, ranks);
        for (int64_t i = 0; i < p.count; i++) {
            wrong += h->memory[k][i] != value_of(k, p.first + i);
        }
    }
    return wrong;
}

static pawl_status restore_body(job *j, int rank, pawl_run *run, pawl_error *err) {
    const plan *p = j->context;
    job_told *told = &j->told[rank];
    pawl_report *report = NULL;
    holding h;
    pawl_status status = build(&h, p, rank, j->ranks, err);
    memset(h.memory, 0, sizeof h.memory);
    pawl_restore_options options = p->options;
    options.struct_size = sizeof options;
    status = status == PAWL_OK ? pawl_restore(run, h.state, &options, &report, err) : status;
    (void)snprintf(told->report, sizeof told->report, "%s", pawl_report_text(report));
    told->wrong = status == PAWL_OK ? wrong_in(&h, rank, j->ranks, !options.model_only) : 0;
    pawl_report_free(report);
    pawl_state_free(h.state);
    return status;
}

static void run_with(job *j, int ranks, const plan *p,
                     pawl_status (*body)(job *j, int rank, pawl_run *run, pawl_error *err)) {
    j->ranks = ranks;
    j->context = p;
    job_run(j, body);
}

static const plan adafactor = {.slots = factored, .count = 5};

/* What one process saved of a factored optimizer comes back, bit for bit. */
static void test_factored_slots_come_back(void **state) {
    job *j = *state;
    run_with(j, 1, &adafactor, save_body);
    assert_job_ok(j);
    run_with(j, 1, &adafactor, restore_body);
    assert_job_ok(j);
}

/* Rows in shards and columns on every rank, on any other number of ranks. */
static void test_factored_slots_are_cut_anew(void **state) {
    job *j = *state;
    run_with(j, 4, &adafactor, save_body);
    assert_job_ok(j);
    for (int ranks = 1; ranks <= 4; ranks++) {
        run_with(j, ranks, &adafactor, restore_body);
        assert_job_ok(j);
    }
}

/* The model alone: what the slots look like is no matter. */
static void test_the_model_alone_takes_no_slots(void **state) {
    job *j = *state;
    run_with(j, 2, &adafactor, save_body);
    assert_job_ok(j);
    const plan other = {.slots = unfactored, .count = 1, .options = {.model_only = 1}};
    run_with(j, 3, &other, restore_body);
    assert_job_ok(j);
}

/* The optimizer was built without factoring: both shapes, and the variable's, are said. */
static void test_a_slot_of_another_shape_is_named(void **state) {
    job *j = *state;
    run_with(j, 1, &adafactor, save_body);
    assert_job_ok(j);
    const plan other = {
        .slots = unfactored, .count = 1, .options = {.unexpected = PAWL_POLICY_ALLOW}};
    run_with(j, 1, &other, restore_body);
    assert_job_fails(j, PAWL_EMISMATCH,
                     "the optimizer slot \"adafactor/row\" of \"model/w\" is [8] F32 in the "
                     "checkpoint and [8, 6] F32 in the state, where its variable is [8, 6] F32 in "
                     "both: the slot was saved with another shape than its variable");
    assert_job_fails(j, PAWL_EMISMATCH,
                     "build the optimizer with the settings that it was saved with");
}

/* The model grew and the optimizer did not: a slot that had its variable's shape fits no more. */
static void test_a_slot_that_was_not_built_anew_is_named(void **state) {
    job *j = *state;
    run_with(j, 1, &adafactor, save_body);
    assert_job_ok(j);
    const plan other = {.slots = outgrown,
                        .count = 1,
                        .columns = COLUMNS + 1,
                        .options = {.unexpected = PAWL_POLICY_ALLOW}};
    run_with(j, 1, &other, restore_body);
    assert_job_fails(j, PAWL_EMISMATCH,
                     "the optimizer slot \"" MOMENTUM "\" of \"model/w\" is [8, 6] F32, as its "
                     "variable was when it was saved; the variable is [8, 7] F32 now");
}

int main(void) {
#define TEST(t) cmocka_unit_test_setup_teardown(t, job_set_up, job_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_factored_slots_come_back),
        TEST(test_factored_slots_are_cut_anew),
        TEST(test_the_model_alone_takes_no_slots),
        TEST(test_a_slot_of_another_shape_is_named),
        TEST(test_a_slot_that_was_not_built_anew_is_named),
    };
    return cmocka_run_group_tests_name("factored slots", tests, NULL, NULL);
}
