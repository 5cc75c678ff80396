/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint's entries next to a state, and short ways to fill and to match both. */
#ifndef UNIT_MATCH_FIXTURE_H
#define UNIT_MATCH_FIXTURE_H

#include "lib/test.h"
#include "match/match.h"
#include "unit/match/follow.h"

#include <stdlib.h>
#include <string.h>

/* Shapes as arguments: SHAPE(64, 10). A scalar is 0, NULL. */
#define SHAPE(...)                                                                                 \
    (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) {           \
        __VA_ARGS__                                                                                \
    }

typedef struct fixture {
    pawl_state *state;
    record_entry *records; /* of the checkpoint */
    size_t record_count, record_capacity, next;
    arena memory;
    pawl_restore_options options;
    int rank, world_size, saved_world_size;
    bool job;
    const match_job_faults *faults;
    state_snapshot *snapshot;
    pawl_report *report;
    match_result *match;
    pawl_error err;
    int followed; /* matches made to follow what reports advise */
} fixture;

static inline int set_up(void **context) {
    static fixture f;
    f = (fixture){.world_size = 1, .saved_world_size = 1, .err = ERROR_INIT};
    f.options.struct_size = sizeof(f.options);
    *context = &f;
    return state_new(&f.state, &f.err) == PAWL_OK ? 0 : -1;
}

static inline void fixture_forget_match(fixture *f) {
    match_free(f->match);
    pawl_report_free(f->report);
    state_snapshot_free(f->snapshot);
    f->match = NULL;
    f->report = NULL;
    f->snapshot = NULL;
}

static inline int tear_down(void **context) {
    fixture *f = *context;
    fixture_forget_match(f);
    state_free(f->state);
    mem_free(f->records);
    arena_free(&f->memory);
    return 0;
}

#define WITH_BOTH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* ---- the state ------------------------------------------------------------------------------ */

static uint8_t fixture_memory[1 << 16];

static inline pawl_tensor a_tensor(const char *name, pawl_dtype dtype, int ndim,
                                   const int64_t *shape) {
    return (pawl_tensor){.struct_size = sizeof(pawl_tensor),
                         .name = name,
                         .dtype = dtype,
                         .ndim = ndim,
                         .shape = shape,
                         .data = fixture_memory};
}

static inline void state_tensor(fixture *f, const char *name, pawl_dtype dtype, int ndim,
                                const int64_t *shape) {
    pawl_tensor t = a_tensor(name, dtype, ndim, shape);
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

static inline void state_slot(fixture *f, const char *name, const char *slot_of, const char *slot,
                              int ndim, const int64_t *shape) {
    pawl_tensor t = a_tensor(name, PAWL_F32, ndim, shape);
    t.role = PAWL_ROLE_SLOT;
    t.slot_of = slot_of;
    t.slot = slot;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

static inline void state_value(fixture *f, const char *name, pawl_kind kind, pawl_role role,
                               const void *bytes, size_t n) {
    assert_ok(state_set_value(f->state, name, kind, role, false, bytes, n, &f->err), &f->err);
}

static inline void state_float(fixture *f, const char *name, pawl_role role, double v) {
    state_value(f, name, PAWL_KIND_FLOAT64, role, &v, sizeof(v));
}

static inline void state_rank_bytes(fixture *f, const char *name) {
    assert_ok(
        state_set_value(f->state, name, PAWL_KIND_BYTES, PAWL_ROLE_RNG, true, "seed", 4, &f->err),
        &f->err);
}

/* ---- the checkpoint ------------------------------------------------------------------------- */

static inline void *fixture_copy(fixture *f, const void *data, size_t n) {
    void *copy = arena_alloc(&f->memory, n + 1);
    assert_non_null(copy);
    if (n > 0) {
        memcpy(copy, data, n);
    }
    ((char *)copy)[n] = '\0';
    return copy;
}

static inline record_entry *add_record(fixture *f, const char *name, pawl_kind kind,
                                       pawl_role role) {
    assert_ok(vec_reserve(&f->records, &f->record_capacity, f->record_count + 1,
                          sizeof(*f->records), &f->err),
              &f->err);
    record_entry *e = &f->records[f->record_count++];
    *e = (record_entry){.kind = kind, .role = role, .piece_count = 1};
    e->name = fixture_copy(f, name, strlen(name));
    e->pieces = arena_alloc(&f->memory, sizeof(*e->pieces));
    assert_non_null(e->pieces);
    *e->pieces = (record_piece){.offset = FORMAT_DATA_ALIGNMENT};
    return e;
}

static inline record_entry *saved_tensor(fixture *f, const char *name, pawl_dtype dtype, int ndim,
                                         const int64_t *shape) {
    static const int64_t origin[PAWL_MAX_NDIM];
    record_entry *e = add_record(f, name, PAWL_KIND_TENSOR, PAWL_ROLE_MODEL);
    size_t n = (size_t)ndim * sizeof(*shape);
    e->dtype = dtype;
    e->ndim = ndim;
    e->shape = fixture_copy(f, shape, n);
    e->pieces->box_offset = fixture_copy(f, origin, n);
    e->pieces->box_extent = fixture_copy(f, shape, n);
    e->pieces->bytes = shape_bytes(dtype, ndim, shape);
    return e;
}

static inline void saved_slot(fixture *f, const char *name, const char *slot_of, const char *slot,
                              int ndim, const int64_t *shape) {
    record_entry *e = saved_tensor(f, name, PAWL_F32, ndim, shape);
    e->role = PAWL_ROLE_SLOT;
    e->slot_of = fixture_copy(f, slot_of, strlen(slot_of));
    e->slot = fixture_copy(f, slot, strlen(slot));
}

static inline record_entry *saved_value(fixture *f, const char *name, pawl_kind kind,
                                        pawl_role role, const void *bytes, size_t n) {
    record_entry *e = add_record(f, name, kind, role);
    e->value = fixture_copy(f, bytes, n);
    e->value_bytes = n;
    e->pieces->bytes = n;
    return e;
}

static inline void saved_float(fixture *f, const char *name, pawl_role role, double v) {
    saved_value(f, name, PAWL_KIND_FLOAT64, role, &v, sizeof(v));
}

static inline void saved_rank_bytes(fixture *f, const char *name) {
    record_entry *e = add_record(f, name, PAWL_KIND_BYTES, PAWL_ROLE_RNG);
    e->per_rank = true;
    e->pieces->bytes = 4;
}

/* ---- the match ------------------------------------------------------------------------------ */

static inline int fixture_by_name(const void *a, const void *b) {
    return strcmp(((const record_entry *)a)->name, ((const record_entry *)b)->name);
}

/* Hands out a copy that is overwritten by the next, as a reader of an index does. */
static inline pawl_status fixture_next(void *context, const record_entry **out, pawl_error *err) {
    static record_entry current;
    fixture *f = context;
    (void)err;
    *out = NULL;
    if (f->next < f->record_count) {
        current = f->records[f->next++];
        *out = &current;
    }
    return PAWL_OK;
}

static inline pawl_status fixture_again(void *context, pawl_error *err) {
    fixture *f = context;
    (void)err;
    f->next = 0;
    return PAWL_OK;
}

static inline entry_source fixture_source(fixture *f) {
    f->next = 0;
    return (entry_source){.context = f, .next = fixture_next, .again = fixture_again};
}

static const match_ranks alone = {.world_size = 1, .saved_world_size = 1};

/* What its report advises is followed, too. */
static inline pawl_status try_match(fixture *f) {
    fixture_forget_match(f);
    if (f->record_count > 1) {
        qsort(f->records, f->record_count, sizeof(*f->records), fixture_by_name);
    }
    assert_ok(state_snapshot_take(f->state, 0, false, &f->snapshot, &f->err), &f->err);
    assert_ok(report_new(&f->report, &f->err), &f->err);
    report_set_step(f->report, 1000);
    entry_source source = fixture_source(f);
    const match_ranks ranks = {.rank = f->rank,
                               .world_size = f->world_size,
                               .saved_world_size = f->saved_world_size,
                               .job = f->job,
                               .faults = f->faults};
    pawl_status status =
        match_make(f->snapshot, source, &f->options, &ranks, f->report, &f->match, &f->err);
    if (status == PAWL_OK) {
        followed all = {.snapshot = f->snapshot,
                        .checkpoint = source,
                        .options = f->options,
                        .ranks = ranks,
                        .report = f->report,
                        .refused = f->match->refused,
                        .err = ERROR_INIT};
        f->followed += follow_all(&all);
    }
    return status;
}

static inline void match(fixture *f) {
    assert_ok(try_match(f), &f->err);
}

static inline const pawl_report_item *item(fixture *f, size_t i) {
    assert_true(i < pawl_report_count(f->report));
    return pawl_report_get(f->report, i);
}

static inline void assert_pairs(fixture *f, size_t pairs, uint64_t kept, uint64_t ignored) {
    assert_int_equal(f->match->pair_count, pairs);
    assert_int_equal(report_totals(f->report).kept, kept);
    assert_int_equal(report_totals(f->report).ignored, ignored);
}

/* The only difference, as data and in words. */
static inline void assert_only_item(fixture *f, pawl_difference difference, pawl_severity severity,
                                    const char *name, const char *checkpoint, const char *state,
                                    const char *text) {
    assert_int_equal(pawl_report_count(f->report), 1);
    const pawl_report_item *only = item(f, 0);
    assert_string_equal(only->text, text);
    assert_int_equal(only->difference, difference);
    assert_int_equal(only->severity, severity);
    assert_string_equal(only->name, name);
    assert_string_equal(only->checkpoint == NULL ? "(absent)" : only->checkpoint, checkpoint);
    assert_string_equal(only->state == NULL ? "(absent)" : only->state, state);
    assert_int_equal(f->match->refused, severity == PAWL_SEVERITY_ERROR);
}

#endif
