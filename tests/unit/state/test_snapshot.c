/* SPDX-License-Identifier: Apache-2.0 */
/* Removing entries, snapshots, slots against their variables, and every allocation failing once. */
#include "lib/failing_memory.h"
#include "state/flight.h"
#include "state/table.h"
#include "unit/state/fixture.h"

#include <pthread.h>
#include <stdio.h>

static void add_slot(fixture *f, const char *name, const char *variable, int ndim,
                     const int64_t *shape) {
    pawl_tensor t = plain_tensor(name);
    t.role = PAWL_ROLE_SLOT;
    t.slot_of = variable;
    t.slot = "adam/m";
    t.ndim = ndim;
    t.shape = shape;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
}

static void assert_no_snapshot(fixture *f, const char *text) {
    state_snapshot *snapshot = NULL;
    assert_int_equal(state_snapshot_take(f->state, 1, true, &snapshot, &f->err), PAWL_EUSAGE);
    assert_status_text(&f->err, PAWL_EUSAGE, text);
    assert_null(snapshot);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static void test_s15_slot_of_a_missing_variable_is_refused(void **context) {
    fixture *f = *context;
    add_slot(f, "opt/m", "dense/kernel", 2, (const int64_t[]){2, 3});
    assert_no_snapshot(f, "the optimizer slot \"adam/m\" does not fit its variable "
                          "\"dense/kernel\": the state has no entry of that name\n"
                          "  entry:    opt/m\n"
                          "  next:     add the variable to the state, or mend slot_of");
}

static void test_s15_slot_of_a_value_is_refused(void **context) {
    fixture *f = *context;
    add_slot(f, "opt/m", "note", 2, (const int64_t[]){2, 3});
    set_text(f, "note", "text");
    assert_no_snapshot(f, "the optimizer slot \"adam/m\" does not fit its variable \"note\": that "
                          "entry is not a tensor\n"
                          "  entry:    opt/m\n"
                          "  found:    a value of kind string\n"
                          "  next:     mend slot_of");
}

/* A factored optimizer keeps a row and a column of each matrix, another a number. */
static void test_slots_of_any_shape_are_taken(void **context) {
    fixture *f = *context;
    state_snapshot *snapshot = NULL;
    add_slot(f, "opt/m", "dense/kernel", 2, (const int64_t[]){2, 3});
    add_slot(f, "opt/t", "dense/kernel", 0, NULL);
    add_slot(f, "opt/row", "dense/kernel", 1, (const int64_t[]){2});
    add_slot(f, "opt/square", "dense/kernel", 2, (const int64_t[]){3, 3});
    add_plain(f, "dense/kernel");
    assert_ok(state_snapshot_take(f->state, 1, false, &snapshot, &f->err), &f->err);
    state_snapshot_free(snapshot);
}

/* ---- order and search ----------------------------------------------------------------------- */

static void test_snapshot_is_sorted_bytewise(void **context) {
    fixture *f = *context;
    static const char *const sorted[] = {"Z", "a", "a-b", "a/b", "a/c", "b", "\xc3\xa9"};
    static const size_t order[] = {3, 6, 0, 5, 1, 4, 2};
    state_snapshot *snapshot = NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(order); i++) {
        add_plain(f, sorted[order[i]]);
    }
    assert_ok(state_snapshot_take(f->state, 7, false, &snapshot, &f->err), &f->err);
    assert_int_equal(snapshot->count, ARRAY_LENGTH(sorted));
    assert_int_equal(snapshot->step, 7);
    for (size_t i = 0; i < ARRAY_LENGTH(sorted); i++) {
        size_t position = SIZE_MAX;
        assert_string_equal(snapshot->entries[i]->name, sorted[i]);
        assert_ptr_equal(state_snapshot_find(snapshot, sorted[i], &position), snapshot->entries[i]);
        assert_int_equal(position, i);
    }
    assert_null(state_snapshot_find(snapshot, "a/", NULL));
    assert_null(state_snapshot_find(snapshot, "", NULL));
    state_snapshot_free(snapshot);
}

static void test_snapshot_of_nothing_is_empty(void **context) {
    fixture *f = *context;
    state_snapshot *snapshot = NULL;
    assert_ok(state_snapshot_take(f->state, 0, true, &snapshot, &f->err), &f->err);
    assert_int_equal(snapshot->count, 0);
    assert_null(state_snapshot_find(snapshot, "a", NULL));
    state_snapshot_free(snapshot);
}

/* A hundred thousand entries, added in an order that is neither sorted nor random, are all
 * found. */
static void test_many_entries_are_found(void **context) {
    fixture *f = *context;
    enum { COUNT = 100003 };
    char name[32];
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof(name), "t/%d", (int)((int64_t)i * 7919 % COUNT));
        assert_ok(state_set_value(f->state, name, PAWL_KIND_BOOL, PAWL_ROLE_OTHER, false, "\x01", 1,
                                  &f->err),
                  &f->err);
    }
    assert_int_equal(state_count(f->state), COUNT);
    for (int i = 0; i < COUNT; i += 97) {
        snprintf(name, sizeof(name), "t/%d", i);
        assert_non_null(state_find(f->state, name));
    }
    assert_null(state_find(f->state, "t/100003"));
}

/* ---- removing ------------------------------------------------------------------------------- */

static void test_removed_entry_is_gone(void **context) {
    fixture *f = *context;
    add_plain(f, "a");
    add_plain(f, "b");
    assert_ok(state_remove(f->state, "a", &f->err), &f->err);
    assert_null(state_find(f->state, "a"));
    assert_non_null(state_find(f->state, "b"));
    assert_int_equal(state_count(f->state), 1);
    add_plain(f, "a");
}

static void test_removing_an_unknown_name_fails(void **context) {
    fixture *f = *context;
    assert_int_equal(state_remove(f->state, "a", &f->err), PAWL_ENOTFOUND);
    assert_status_text(&f->err, PAWL_ENOTFOUND,
                       "cannot remove the entry: the state has no entry of that name\n"
                       "  entry:    a");
}

static void test_s02_removing_an_entry_in_flight_is_refused(void **context) {
    fixture *f = *context;
    state_snapshot *snapshot = NULL;
    add_plain(f, "dense/kernel");
    assert_ok(state_snapshot_take(f->state, 1000, true, &snapshot, &f->err), &f->err);
    assert_int_equal(state_remove(f->state, "dense/kernel", &f->err), PAWL_EBUSY);
    assert_status_text(&f->err, PAWL_EBUSY,
                       "cannot remove the entry: the save of step 1000 still reads its memory\n"
                       "  entry:    dense/kernel\n"
                       "  safe:     the entry is still in the state, and the save goes on\n"
                       "  next:     call pawl_fence first");
    assert_int_equal(f->err.step, 1000);
    assert_non_null(state_find(f->state, "dense/kernel"));
    state_snapshot_free(snapshot);
}

static void test_s02_entry_is_removed_once_let_go(void **context) {
    fixture *f = *context;
    state_snapshot *snapshot = NULL;
    add_plain(f, "a");
    assert_ok(state_snapshot_take(f->state, 1, true, &snapshot, &f->err), &f->err);
    state_snapshot_let_go(snapshot);
    state_snapshot_let_go(snapshot);
    assert_ok(state_remove(f->state, "a", &f->err), &f->err);
    assert_string_equal(snapshot->entries[0]->name, "a");
    state_snapshot_free(snapshot);
}

/* One save has let go; the other has not. */
static void test_s02_second_snapshot_still_holds(void **context) {
    fixture *f = *context;
    state_snapshot *first = NULL;
    state_snapshot *second = NULL;
    add_plain(f, "a");
    assert_ok(state_snapshot_take(f->state, 1, true, &first, &f->err), &f->err);
    assert_ok(state_snapshot_take(f->state, 2, true, &second, &f->err), &f->err);
    state_snapshot_free(first);
    assert_fails(state_remove(f->state, "a", &f->err), PAWL_EBUSY, &f->err);
    state_snapshot_free(second);
    assert_ok(state_remove(f->state, "a", &f->err), &f->err);
}

static void test_value_in_flight_is_removed(void **context) {
    fixture *f = *context;
    state_snapshot *snapshot = NULL;
    set_text(f, "v", "text");
    assert_ok(state_snapshot_take(f->state, 1, true, &snapshot, &f->err), &f->err);
    assert_ok(state_remove(f->state, "v", &f->err), &f->err);
    assert_string_equal(snapshot->entries[0]->value, "text");
    state_snapshot_free(snapshot);
}

static void test_snapshot_not_in_flight_does_not_hold(void **context) {
    fixture *f = *context;
    state_snapshot *snapshot = NULL;
    add_plain(f, "a");
    assert_ok(state_snapshot_take(f->state, 1, false, &snapshot, &f->err), &f->err);
    assert_ok(state_remove(f->state, "a", &f->err), &f->err);
    state_snapshot_free(snapshot);
}

static void test_snapshot_outlives_its_state(void **context) {
    fixture *f = *context;
    state_snapshot *snapshot = NULL;
    add_plain(f, "a");
    assert_ok(state_snapshot_take(f->state, 1, true, &snapshot, &f->err), &f->err);
    state_free(f->state);
    f->state = NULL;
    assert_string_equal(snapshot->entries[0]->name, "a");
    state_snapshot_free(snapshot);
}

/* A save lets go on its own thread while the trainer's thread asks to remove. */
static void *let_go(void *snapshot) {
    state_snapshot_let_go(snapshot);
    return NULL;
}

static void test_s02_letting_go_on_another_thread(void **context) {
    fixture *f = *context;
    state_snapshot *snapshot = NULL;
    pthread_t thread;
    add_plain(f, "a");
    assert_ok(state_snapshot_take(f->state, 1, true, &snapshot, &f->err), &f->err);
    assert_int_equal(pthread_create(&thread, NULL, let_go, snapshot), 0);
    while (state_remove(f->state, "a", &f->err) == PAWL_EBUSY) {
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(state_count(f->state), 0);
    state_snapshot_free(snapshot);
}

/* ---- what an unchanged state shares --------------------------------------------------------- */

static state_snapshot *take(fixture *f, bool in_flight) {
    state_snapshot *snapshot = NULL;
    assert_ok(state_snapshot_take(f->state, 1, in_flight, &snapshot, &f->err), &f->err);
    return snapshot;
}

static void test_snapshots_are_alike_until_an_entry_is_added_or_removed(void **context) {
    fixture *f = *context;
    add_plain(f, "a");
    set_text(f, "v", "before");
    state_snapshot *first = take(f, false);
    set_text(f, "v", "after it");
    state_snapshot *second = take(f, false);
    assert_true(state_snapshot_alike(first, second));
    assert_ptr_equal(first->entries[0], second->entries[0]);
    add_plain(f, "b");
    state_snapshot *third = take(f, false);
    assert_false(state_snapshot_alike(second, third));
    assert_int_equal(third->count, 3);
    assert_ok(state_remove(f->state, "b", &f->err), &f->err);
    state_snapshot *fourth = take(f, false);
    assert_false(state_snapshot_alike(second, fourth));
    assert_false(state_snapshot_alike(third, fourth));
    state_snapshot_free(first);
    state_snapshot_free(second);
    state_snapshot_free(third);
    state_snapshot_free(fourth);
}

/* A role is in the data file's header, as a name is. */
static void test_a_value_of_another_role_is_another_entry(void **context) {
    fixture *f = *context;
    set_text(f, "v", "text");
    state_snapshot *first = take(f, false);
    assert_ok(
        state_set_value(f->state, "v", PAWL_KIND_STRING, PAWL_ROLE_RNG, false, "text", 4, &f->err),
        &f->err);
    state_snapshot *second = take(f, false);
    assert_false(state_snapshot_alike(first, second));
    state_snapshot_free(first);
    state_snapshot_free(second);
}

/* Each has the values of its own moment, whatever is set, let go or freed afterwards. */
static void test_each_snapshot_has_the_values_of_its_moment(void **context) {
    fixture *f = *context;
    add_plain(f, "t");
    set_text(f, "a", "1");
    set_text(f, "z", "one");
    state_snapshot *first = take(f, true);
    set_text(f, "a", "2");
    set_text(f, "z", "three");
    state_snapshot *second = take(f, true);
    assert_int_equal(second->value_count, 2);
    assert_string_equal(state_snapshot_value(first, 0)->value, "1");
    assert_string_equal(state_snapshot_value(second, 0)->value, "2");
    state_snapshot_drop_values(second);
    assert_null(second->entries[0]);
    assert_string_equal(second->entries[1]->name, "t");
    state_free(f->state);
    f->state = NULL;
    assert_string_equal(state_snapshot_find(first, "z", NULL)->value, "one");
    state_snapshot_free(second);
    state_snapshot_free(first);
}

/* Another state may get the memory of one that was freed: it is not that one. */
static void test_another_state_is_never_alike(void **context) {
    fixture *f = *context;
    for (int i = 0; i < 20; i++) {
        add_plain(f, "a");
        state_snapshot *first = take(f, false);
        state_free(f->state);
        assert_ok(state_new(&f->state, &f->err), &f->err);
        add_plain(f, "a");
        state_snapshot *second = take(f, false);
        assert_false(state_snapshot_alike(first, second));
        state_snapshot_free(first);
        state_snapshot_free(second);
        assert_ok(state_remove(f->state, "a", &f->err), &f->err);
    }
}

/* What was added after the save began is not read by it; what was replaced is another entry. */
static void test_s02_an_entry_added_during_a_save_can_be_removed(void **context) {
    fixture *f = *context;
    add_plain(f, "a");
    state_snapshot *saving = take(f, true);
    add_plain(f, "b");
    state_snapshot *both = take(f, false);
    assert_fails(state_check_idle(f->state, both, &f->err), PAWL_EBUSY, &f->err);
    assert_string_equal(f->err.entry, "a");
    assert_ok(state_remove(f->state, "b", &f->err), &f->err);
    assert_fails(state_remove(f->state, "a", &f->err), PAWL_EBUSY, &f->err);
    state_snapshot_let_go(saving);
    assert_ok(state_check_idle(f->state, both, &f->err), &f->err);
    assert_ok(state_remove(f->state, "a", &f->err), &f->err);
    add_plain(f, "a");
    state_snapshot *again = take(f, true);
    state_snapshot_free(saving);
    assert_fails(state_remove(f->state, "a", &f->err), PAWL_EBUSY, &f->err);
    state_snapshot_free(both);
    state_snapshot_free(again);
    assert_ok(state_remove(f->state, "a", &f->err), &f->err);
}

/* ---- memory --------------------------------------------------------------------------------- */

static pawl_status make_state(void *context, pawl_error *err) {
    (void)context;
    pawl_state *state = NULL;
    pawl_status status = state_new(&state, err);
    state_free(state);
    return status;
}

static void test_state_new_without_memory(void **context) {
    (void)context;
    assert_int_equal(failing_memory_each(make_state, NULL), 1);
}

static pawl_status add_and_remove(void *context, pawl_error *err) {
    fixture *f = context;
    pawl_tensor t = plain_tensor("new");
    pawl_box boxes[2] = {
        {.offset = (const int64_t[]){0, 0}, .extent = (const int64_t[]){1, 3}, .data = t.data},
        {.offset = (const int64_t[]){1, 0}, .extent = (const int64_t[]){1, 3}, .data = t.data}};
    t.nboxes = 2;
    t.boxes = boxes;
    size_t before = state_count(f->state);
    pawl_status status = state_add_tensor(f->state, &t, err);
    assert_int_equal(state_count(f->state), before + (status == PAWL_OK ? 1 : 0));
    if (status == PAWL_OK) {
        assert_int_equal(state_remove(f->state, "new", err), PAWL_OK);
    }
    return status;
}

static void test_adding_without_memory_changes_nothing(void **context) {
    add_plain(*context, "there");
    assert_true(failing_memory_each(add_and_remove, *context) >= 2);
}

static pawl_status set_and_check(void *context, pawl_error *err) {
    fixture *f = context;
    pawl_status status =
        state_set_value(f->state, "v", PAWL_KIND_STRING, PAWL_ROLE_OTHER, false, "after", 5, err);
    assert_string_equal(state_find(f->state, "v")->value, status == PAWL_OK ? "after" : "before");
    return status;
}

static void test_setting_without_memory_changes_nothing(void **context) {
    set_text(*context, "v", "before");
    assert_int_equal(failing_memory_each(set_and_check, *context), 1);
}

/* Leaves nothing in the state: neither a table nor a flight that is over. */
static pawl_status take_and_free(void *context, pawl_error *err) {
    fixture *f = context;
    state_snapshot *snapshot = NULL;
    pawl_status status = state_snapshot_take(f->state, 1, true, &snapshot, err);
    state_snapshot_free(snapshot);
    state_table_outdate(f->state);
    assert_null(flight_latest(f->state));
    return status;
}

static void test_snapshot_without_memory_holds_nothing(void **context) {
    fixture *f = *context;
    add_plain(f, "a");
    assert_int_equal(failing_memory_each(take_and_free, f), 4);
    assert_ok(state_remove(f->state, "a", &f->err), &f->err);
}

#define WITH_STATE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_STATE(test_s15_slot_of_a_missing_variable_is_refused),
        WITH_STATE(test_s15_slot_of_a_value_is_refused),
        WITH_STATE(test_slots_of_any_shape_are_taken),
        WITH_STATE(test_snapshot_is_sorted_bytewise),
        WITH_STATE(test_snapshot_of_nothing_is_empty),
        WITH_STATE(test_many_entries_are_found),
        WITH_STATE(test_removed_entry_is_gone),
        WITH_STATE(test_removing_an_unknown_name_fails),
        WITH_STATE(test_s02_removing_an_entry_in_flight_is_refused),
        WITH_STATE(test_s02_entry_is_removed_once_let_go),
        WITH_STATE(test_s02_second_snapshot_still_holds),
        WITH_STATE(test_value_in_flight_is_removed),
        WITH_STATE(test_snapshot_not_in_flight_does_not_hold),
        WITH_STATE(test_snapshot_outlives_its_state),
        WITH_STATE(test_s02_letting_go_on_another_thread),
        WITH_STATE(test_s02_an_entry_added_during_a_save_can_be_removed),
        WITH_STATE(test_another_state_is_never_alike),
        WITH_STATE(test_each_snapshot_has_the_values_of_its_moment),
        WITH_STATE(test_a_value_of_another_role_is_another_entry),
        WITH_STATE(test_snapshots_are_alike_until_an_entry_is_added_or_removed),
        WITH_STATE(test_state_new_without_memory),
        WITH_STATE(test_adding_without_memory_changes_nothing),
        WITH_STATE(test_setting_without_memory_changes_nothing),
        WITH_STATE(test_snapshot_without_memory_holds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
