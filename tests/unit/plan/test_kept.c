/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kept layout: used again exactly when only the bytes of values, the step or the tag have
 * changed, and then the same as one that is made anew, byte for byte.
 */
#include "lib/failing_memory.h"
#include "lib/random.h"
#include "plan/plan.h"
#include "state/table.h"
#include "unit/match/fixture.h"

#include <stdio.h>

#define NAMES 24

/* A state with its layouts, one kept from save to save. */
typedef struct saves {
    fixture *f;
    plan_kept kept;
    plan_layout_options options;
    int64_t step;
    unsigned number;
    char tag[FORMAT_TAG_CHARS];
    unsigned entries; /* changes with every entry that is added, removed, or of another role */
} saves;

/* What decides whether a layout can be used again. */
typedef struct shape_of_save {
    unsigned entries;
    int digits;
    size_t value_bytes[NAMES]; /* of those that this rank writes */
} shape_of_save;

static state_snapshot *snapshot_of(saves *s) {
    state_snapshot *snapshot = NULL;
    assert_ok(state_snapshot_take(s->f->state, s->step, true, &snapshot, &s->f->err), &s->f->err);
    return snapshot;
}

/* ---- the same layout ------------------------------------------------------------------------ */

static void assert_same_file(const plan_layout *a, const plan_layout *b, size_t i) {
    const plan_file *left = &a->files[i];
    const plan_file *right = &b->files[i];
    assert_string_equal(left->name, right->name);
    assert_int_equal(left->bytes, right->bytes);
    assert_int_equal(left->header.size, right->header.size);
    assert_int_equal(left->first_piece, right->first_piece);
    assert_int_equal(left->piece_count, right->piece_count);
    uint8_t *one = mem_alloc(left->bytes);
    uint8_t *two = mem_alloc(left->bytes);
    plan_layout_gather(a, i, 0, left->bytes, one);
    plan_layout_gather(b, i, 0, left->bytes, two);
    assert_memory_equal(one, two, left->bytes);
    mem_free(one);
    mem_free(two);
}

static void assert_same(const plan_layout *a, const plan_layout *b) {
    assert_int_equal(a->file_count, b->file_count);
    assert_int_equal(a->piece_count, b->piece_count);
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->step, b->step);
    for (size_t i = 0; i < a->piece_count; i++) {
        const plan_piece *left = &a->pieces[i];
        const plan_piece *right = &b->pieces[i];
        assert_ptr_equal(left->entry, right->entry);
        assert_int_equal(left->part != NULL, right->part != NULL);
        assert_int_equal(left->file, right->file);
        assert_int_equal(left->offset, right->offset);
        assert_int_equal(left->bytes, right->bytes);
        assert_int_equal(a->by_name[i], b->by_name[i]);
    }
    for (size_t i = 0; i < a->file_count; i++) {
        assert_same_file(a, b, i);
    }
}

/* One save: its layout is what it would be anew. Was the kept one used again? */
static bool save_once(saves *s) {
    plan_layout *layout = NULL;
    plan_layout *anew = NULL;
    uint64_t reuses = s->kept.reuses;
    state_snapshot *snapshot = snapshot_of(s);
    snprintf(s->tag, sizeof(s->tag), "0123456789ab-%u", ++s->number);
    s->options.tag = s->tag;
    assert_ok(plan_kept_make(&s->kept, snapshot, &s->options, &layout, &s->f->err), &s->f->err);
    assert_ptr_equal(layout->snapshot, snapshot);
    state_snapshot *other = snapshot_of(s);
    assert_ok(plan_layout_make(other, &s->options, &anew, &s->f->err), &s->f->err);
    assert_same(layout, anew);
    plan_layout_free(anew);
    state_snapshot_free(other);
    plan_kept_keep(&s->kept, layout, snapshot);
    return s->kept.reuses > reuses;
}

/* ---- random changes ------------------------------------------------------------------------- */

static void name_at(char name[16], uint64_t i) {
    snprintf(name, 16, "%c/%u", (char)('a' + i % 3), (unsigned)i / 3);
}

static void add_some_tensor(fixture *f, test_random *r, const char *name) {
    static const pawl_dtype dtypes[] = {PAWL_F64, PAWL_F32, PAWL_BF16, PAWL_U8};
    pawl_tensor t = a_tensor(name, dtypes[random_below(r, 4)], SHAPE(random_between(r, 0, 40), 3));
    t.replicated = random_below(r, 2) == 0;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

/* A value of few bytes, so that often as many are set as there were. */
static void set_some_value(saves *s, test_random *r, const char *name) {
    uint8_t bytes[4];
    fixture *f = s->f;
    const state_entry *there = state_find(f->state, name);
    size_t n = (size_t)random_below(r, 3);
    pawl_role role = random_below(r, 8) == 0 ? PAWL_ROLE_RNG : PAWL_ROLE_OTHER;
    bool per_rank = there != NULL ? there->per_rank : random_below(r, 2) == 0;
    s->entries += there == NULL || there->role != role;
    random_fill(r, bytes, sizeof(bytes));
    assert_ok(state_set_value(f->state, name, PAWL_KIND_BYTES, role, per_rank, bytes, n, &f->err),
              &f->err);
}

static void change_one(saves *s, test_random *r) {
    fixture *f = s->f;
    char name[16];
    name_at(name, random_below(r, NAMES));
    const state_entry *there = state_find(f->state, name);
    if (there == NULL && random_below(r, 2) == 0) {
        add_some_tensor(f, r, name);
        s->entries++;
    } else if (there != NULL && random_below(r, 12) == 0) {
        assert_ok(state_remove(f->state, name, &f->err), &f->err);
        s->entries++;
    } else if (there == NULL || there->kind != PAWL_KIND_TENSOR) {
        set_some_value(s, r, name);
    }
}

static void begin_new_state(saves *s) {
    state_free(s->f->state);
    assert_ok(state_new(&s->f->state, &s->f->err), &s->f->err);
    s->entries++;
}

/* Few changes between saves, often none. */
static void change_some(saves *s, test_random *r) {
    if (random_below(r, 40) == 0) {
        begin_new_state(s);
    }
    for (uint64_t n = random_below(r, 4); n > 0; n--) {
        change_one(s, r);
    }
    s->step = random_below(r, 6) == 0 ? (int64_t)random_below(r, 100000) : s->step + 1;
}

static shape_of_save shape_now(const saves *s) {
    shape_of_save shape = {.entries = s->entries};
    shape.digits = snprintf(NULL, 0, "%lld", (long long)s->step);
    for (unsigned i = 0; i < NAMES; i++) {
        char name[16];
        name_at(name, i);
        const state_entry *e = state_find(s->f->state, name);
        bool written = e != NULL && (e->per_rank || s->options.rank == 0);
        shape.value_bytes[i] = written ? e->value_bytes : 0;
    }
    return shape;
}

static uint64_t save_randomly(fixture *f, uint64_t seed, int rank, int world_size) {
    test_random r = {.state = seed};
    saves s = {.f = f, .step = 1000, .options = {.rank = rank, .world_size = world_size}};
    s.options.split_header_bytes = seed % 2 == 0 ? 9000 : 0;
    shape_of_save before = {.digits = 0};
    for (int i = 0; i < 400; i++) {
        change_some(&s, &r);
        shape_of_save now = shape_now(&s);
        assert_int_equal(save_once(&s), memcmp(&before, &now, sizeof(now)) == 0);
        before = now;
    }
    plan_kept_free(&s.kept);
    begin_new_state(&s);
    return s.kept.reuses;
}

/* Seeds 1 to 6. */
static void test_used_again_exactly_when_it_would_be_the_same(void **context) {
    random_fill(&(test_random){.state = 1}, fixture_memory, sizeof(fixture_memory));
    assert_in_range(save_randomly(*context, 1, 0, 1), 60, 340);
    assert_in_range(save_randomly(*context, 2, 0, 1), 60, 340);
    assert_in_range(save_randomly(*context, 3, 0, 3), 60, 340);
    assert_in_range(save_randomly(*context, 4, 1, 3), 60, 340);
    assert_in_range(save_randomly(*context, 5, 2, 3), 60, 340);
    assert_in_range(save_randomly(*context, 6, 1, 2), 60, 340);
}

/* ---- cases ---------------------------------------------------------------------------------- */

static void set_float(fixture *f, const char *name, double v) {
    state_float(f, name, PAWL_ROLE_HYPERPARAMETER, v);
}

static void test_steps_of_as_many_digits_use_it_again(void **context) {
    saves s = {.f = *context, .step = 9, .options = {.world_size = 1}};
    state_tensor(s.f, "\"step\":9,", PAWL_F32, SHAPE(4)); /* a name that looks like the place */
    set_float(s.f, "lr", 0.5);
    assert_false(save_once(&s));
    s.step = 0;
    assert_true(save_once(&s));
    s.step = 10;
    assert_false(save_once(&s));
    s.step = 99;
    set_float(s.f, "lr", 0.25);
    assert_true(save_once(&s));
    s.step = INT64_MAX;
    assert_false(save_once(&s));
    s.step = INT64_MAX - 1;
    assert_true(save_once(&s));
    plan_kept_free(&s.kept);
}

static void test_another_rank_or_world_size_makes_another(void **context) {
    saves s = {.f = *context, .step = 1, .options = {.rank = 0, .world_size = 2}};
    state_tensor(s.f, "a", PAWL_F32, SHAPE(4));
    assert_false(save_once(&s));
    s.options.rank = 1;
    assert_false(save_once(&s));
    s.options.world_size = 3;
    assert_false(save_once(&s));
    assert_true(save_once(&s));
    plan_kept_free(&s.kept);
}

/* What is kept is one layout, and no value: these may be large, and change with every save. */
static void test_values_are_not_kept(void **context) {
    saves s = {.f = *context, .step = 1, .options = {.world_size = 1}};
    char big[1000] = {0};
    state_value(s.f, "data", PAWL_KIND_BYTES, PAWL_ROLE_DATA_POSITION, big, sizeof(big));
    (void)save_once(&s);
    uint64_t live = failing_memory_live();
    for (int i = 0; i < 10; i++) {
        big[0]++;
        state_value(s.f, "data", PAWL_KIND_BYTES, PAWL_ROLE_DATA_POSITION, big, sizeof(big));
        assert_int_equal(failing_memory_live(), live);
        assert_true(save_once(&s));
        assert_int_equal(failing_memory_live(), live);
    }
    plan_kept_free(&s.kept);
}

static pawl_status make_with_failing_memory(void *context, pawl_error *err) {
    saves *s = context;
    plan_layout *layout = NULL;
    state_snapshot *snapshot = NULL;
    pawl_status status = state_snapshot_take(s->f->state, 1, false, &snapshot, err);
    if (status == PAWL_OK) {
        status = plan_kept_make(&s->kept, snapshot, &s->options, &layout, err);
    }
    assert_true((status == PAWL_OK) == (layout != NULL));
    plan_kept_keep(&s->kept, layout, snapshot);
    plan_kept_free(&s->kept);
    state_table_outdate(s->f->state);
    return status;
}

static void test_without_memory_nothing_is_kept(void **context) {
    saves s = {.f = *context, .step = 1, .options = {.tag = "0123456789ab-1", .world_size = 1}};
    state_tensor(s.f, "a", PAWL_F32, SHAPE(4));
    set_float(s.f, "lr", 0.5);
    assert_true(failing_memory_each(make_with_failing_memory, &s) > 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_BOTH(test_used_again_exactly_when_it_would_be_the_same),
        WITH_BOTH(test_steps_of_as_many_digits_use_it_again),
        WITH_BOTH(test_another_rank_or_world_size_makes_another),
        WITH_BOTH(test_values_are_not_kept),
        WITH_BOTH(test_without_memory_nothing_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
