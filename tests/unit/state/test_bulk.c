/* SPDX-License-Identifier: Apache-2.0 */
/* Many tensors in one call: all or none, the same as one after the other; and the tree they are
 * in. */
#include "unit/state/fixture.h"

#include "lib/failing_memory.h"
#include "lib/random.h"
#include "state/map.h"

#include <stdio.h>
#include <stdlib.h>

#define MOST 3000

typedef struct named {
    char name[24];
} named;

static named names[MOST];
static pawl_tensor tensors[MOST];
static float memory[8];

static state_tensors first_of(size_t count) {
    return (state_tensors){.first = tensors, .size = sizeof(tensors[0]), .count = count};
}

/* Tensors of `count` names out of `range`, each once, in any order, or ascending. */
static size_t make_tensors(test_random *random, size_t count, uint64_t range, bool ascending) {
    static const int64_t shape[] = {2, 3};
    for (size_t i = 0; i < count; i++) {
        uint64_t number = ascending ? i * range / count : (i * 7919 + 13) % range;
        snprintf(names[i].name, sizeof(names[i].name), "m/%06llu", (unsigned long long)number);
        tensors[i] = (pawl_tensor){.struct_size = sizeof(tensors[i]),
                                   .name = names[i].name,
                                   .dtype = random_below(random, 2) ? PAWL_F32 : PAWL_BF16,
                                   .ndim = (int)random_below(random, 3),
                                   .shape = shape,
                                   .data = memory,
                                   .role = (pawl_role)(random_below(random, 2) * PAWL_ROLE_OTHER)};
    }
    return count;
}

/* ---- the tree ---- */

static int checked_height(const held_entry *e, size_t *count) {
    if (e == NULL) {
        return 0;
    }
    int left = checked_height(e->below[0], count);
    int right = checked_height(e->below[1], count);
    assert_true(abs(left - right) <= 1);
    assert_int_equal(e->height, 1 + (left > right ? left : right));
    assert_true(e->below[0] == NULL || strcmp(e->below[0]->seen.name, e->seen.name) < 0);
    assert_true(e->below[1] == NULL || strcmp(e->below[1]->seen.name, e->seen.name) > 0);
    (*count)++;
    return e->height;
}

static void check_tree(const fixture *f) {
    size_t count = 0;
    checked_height(f->state->tree, &count);
    assert_int_equal(count, state_count(f->state));
}

static void check_same_entries(fixture *f, pawl_state *other) {
    state_snapshot *a;
    state_snapshot *b;
    assert_ok(state_snapshot_take(f->state, 1, false, &a, &f->err), &f->err);
    assert_ok(state_snapshot_take(other, 1, false, &b, &f->err), &f->err);
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        const state_entry *left = a->entries[i];
        const state_entry *right = b->entries[i];
        assert_string_equal(left->name, right->name);
        assert_true(i == 0 || strcmp(a->entries[i - 1]->name, left->name) < 0);
        assert_int_equal(left->dtype, right->dtype);
        assert_int_equal(left->role, right->role);
        assert_true(shape_equal(left->ndim, left->shape, right->ndim, right->shape));
        assert_ptr_equal(left->boxes[0].data, right->boxes[0].data);
    }
    state_snapshot_free(a);
    state_snapshot_free(b);
}

/* Into an empty state, few into many, many into few. */
static void test_many_are_added_as_one_after_the_other_would_be(void **context) {
    fixture *f = *context;
    static const size_t parts[] = {1, 0, 10, 900, 3, 86, 2000};
    test_random random = {.state = 5};
    for (int ascending = 0; ascending < 2; ascending++) {
        pawl_state *other;
        size_t count = make_tensors(&random, MOST, 3001, ascending);
        assert_ok(state_new(&other, &f->err), &f->err);
        size_t at = 0;
        for (size_t p = 0; p < ARRAY_LENGTH(parts); p++) {
            const state_tensors part = {
                .first = tensors + at, .size = sizeof(tensors[0]), .count = parts[p]};
            assert_ok(state_add_tensors(f->state, &part, &f->err), &f->err);
            check_tree(f);
            at += parts[p];
        }
        assert_int_equal(at, count);
        for (size_t i = 0; i < count; i++) {
            assert_ok(state_add_tensor(other, &tensors[i], &f->err), &f->err);
        }
        check_same_entries(f, other);
        state_free(other);
        state_free(f->state);
        assert_ok(state_new(&f->state, &f->err), &f->err);
    }
}

static void test_the_tree_stays_balanced_whatever_is_added_and_removed(void **context) {
    fixture *f = *context;
    test_random random = {.state = 6};
    bool there[200] = {false};
    size_t count = 0;
    for (int i = 0; i < 20000; i++) {
        char name[24];
        uint64_t n = random_below(&random, 200);
        snprintf(name, sizeof(name), "m/%llu", (unsigned long long)n);
        if (there[n]) {
            assert_ok(state_remove(f->state, name, &f->err), &f->err);
        } else {
            add_plain(f, name);
        }
        there[n] = !there[n];
        count += there[n] ? 1 : (size_t)-1;
        if (i % 16 == 0) {
            check_tree(f);
            assert_int_equal(state_count(f->state), count);
        }
        assert_int_equal(state_find(f->state, name) != NULL, there[n]);
    }
}

/* ---- all or none ---- */

static void expect_nothing_added(fixture *f, size_t count, size_t before, pawl_status status,
                                 const char *entry, const char *words) {
    const state_tensors all = first_of(count);
    f->err = ERROR_INIT;
    assert_fails(state_add_tensors(f->state, &all, &f->err), status, &f->err);
    assert_string_equal(f->err.entry, entry);
    assert_says(f->err.attempt, words);
    assert_says(f->err.safe, "none of the");
    assert_int_equal(state_count(f->state), before);
    check_tree(f);
}

static void test_one_bad_tensor_and_none_is_added(void **context) {
    fixture *f = *context;
    test_random random = {.state = 7};
    make_tensors(&random, 100, 101, false);
    tensors[40].dtype = (pawl_dtype)99;
    expect_nothing_added(f, 100, 0, PAWL_EUSAGE, names[40].name,
                         "tensors[40]: cannot add the tensor: its dtype is no pawl_dtype");
    tensors[40].dtype = PAWL_F32;
    tensors[99].name = NULL;
    expect_nothing_added(f, 100, 0, PAWL_EUSAGE, "",
                         "tensors[99]: cannot add the tensor: it has no name");
}

static void test_a_name_twice_in_one_call(void **context) {
    fixture *f = *context;
    test_random random = {.state = 8};
    make_tensors(&random, 100, 101, false);
    tensors[70].name = names[3].name;
    expect_nothing_added(
        f, 100, 0, PAWL_EUSAGE, names[3].name,
        "tensors[70]: cannot add the tensor: the call has two tensors of that name");
}

static void test_a_name_that_is_there_whatever_the_way(void **context) {
    fixture *f = *context;
    test_random random = {.state = 9};
    make_tensors(&random, 1000, 1009, false);
    const state_tensors most = first_of(900);
    assert_ok(state_add_tensors(f->state, &most, &f->err), &f->err);
    size_t least = 0;
    for (size_t i = 1; i < 900; i++) {
        least = strcmp(names[i].name, names[least].name) < 0 ? i : least;
    }
    char words[128];
    (void)snprintf(words, sizeof(words),
                   "tensors[%zu]: cannot add the tensor: the state has an entry of that name",
                   least);
    expect_nothing_added(f, 1000, 900, PAWL_EUSAGE, names[least].name, words);
    memmove(&tensors[1], &tensors[900], 10 * sizeof(tensors[0])); /* few: one after the other */
    expect_nothing_added(f, 11, 900, PAWL_EUSAGE, names[0].name,
                         "tensors[0]: cannot add the tensor: the state has an entry of that name");
}

static pawl_status add_and_update(void *context, pawl_error *err) {
    fixture *f = context;
    const state_tensors all = first_of(20);
    pawl_status status = state_add_tensors(f->state, &all, err);
    assert_int_equal(state_count(f->state), status == PAWL_OK ? 20 : 0);
    if (status == PAWL_OK) {
        status = state_update_tensors(f->state, &all, err);
    }
    struct pawl_error ignored = ERROR_INIT;
    for (size_t i = 0; i < 20 && state_count(f->state) > 0; i++) {
        assert_ok(state_remove(f->state, names[i].name, &ignored), &ignored);
    }
    return status;
}

static void test_every_allocation_may_fail(void **context) {
    fixture *f = *context;
    test_random random = {.state = 10};
    make_tensors(&random, 20, 23, false);
    assert_int_equal(failing_memory_each(add_and_update, f), (20 + 2) + (20 + 3));
}

/* What has more, or less, than this pawl_tensor. */
static void test_elements_of_other_sizes(void **context) {
    fixture *f = *context;
    struct longer {
        pawl_tensor tensor;
        uint64_t more[2];
    } longer[2] = {{.tensor = plain_tensor("a")}, {.tensor = plain_tensor("b")}};
    const state_tensors two = {.first = longer, .size = sizeof(longer[0]), .count = 2};
    assert_ok(state_add_tensors(f->state, &two, &f->err), &f->err);
    uint8_t shorter[2][offsetof(pawl_tensor, replica)];
    pawl_tensor c = plain_tensor("c");
    pawl_tensor d = plain_tensor("d");
    memcpy(shorter[0], &c, sizeof(shorter[0]));
    memcpy(shorter[1], &d, sizeof(shorter[1]));
    const state_tensors short_ones = {.first = shorter, .size = sizeof(shorter[0]), .count = 2};
    assert_ok(state_add_tensors(f->state, &short_ones, &f->err), &f->err);
    assert_int_equal(state_count(f->state), 4);
    assert_int_equal(state_find(f->state, "d")->ndim, 2);
}

/* ---- updating ---- */

static void test_updated_tensors_have_the_new_memory(void **context) {
    fixture *f = *context;
    static float other[64];
    test_random random = {.state = 11};
    make_tensors(&random, 500, 503, false);
    const state_tensors all = first_of(500);
    assert_ok(state_add_tensors(f->state, &all, &f->err), &f->err);
    state_snapshot *before;
    assert_ok(state_snapshot_take(f->state, 1, false, &before, &f->err), &f->err);
    for (size_t i = 0; i < 250; i++) {
        tensors[i].data = other + i % 16;
    }
    const state_tensors half = first_of(250);
    assert_ok(state_update_tensors(f->state, &half, &f->err), &f->err);
    check_tree(f);
    for (size_t i = 0; i < 10; i++) {
        tensors[i].data = other + 32 + i;
    }
    const state_tensors few = first_of(10); /* one after the other */
    assert_ok(state_update_tensors(f->state, &few, &f->err), &f->err);
    check_tree(f);
    for (size_t i = 0; i < 500; i++) {
        assert_ptr_equal(state_find(f->state, names[i].name)->boxes[0].data, tensors[i].data);
        assert_ptr_equal(state_snapshot_find(before, names[i].name, NULL)->boxes[0].data, memory);
    }
    state_snapshot_free(before);
}

static void test_boxes_strides_and_replicas_may_change(void **context) {
    fixture *f = *context;
    static float rows[6];
    const int64_t offset[] = {1, 0};
    const int64_t extent[] = {1, 3};
    const int64_t strides[] = {24, 8};
    static float wide[12];
    const pawl_box row = {.offset = offset, .extent = extent, .strides = strides, .data = wide};
    pawl_tensor t = plain_tensor("model/kernel");
    t.replicated = 1;
    assert_ok(state_add_tensor(f->state, &t, &f->err), &f->err);
    t.data = NULL;
    t.nboxes = 1;
    t.boxes = &row;
    t.box_size = sizeof row;
    t.replica_count = 2;
    t.replica = 1;
    const state_tensors one = {.first = &t, .size = sizeof(t), .count = 1};
    assert_ok(state_update_tensors(f->state, &one, &f->err), &f->err);
    const state_entry *e = state_find(f->state, "model/kernel");
    assert_ptr_equal(e->boxes[0].data, wide);
    assert_int_equal(e->boxes[0].offset[0], 1);
    assert_int_equal(e->boxes[0].strides[1], 8);
    assert_int_equal(e->replica, 1);
    t = plain_tensor("model/kernel");
    t.replicated = 1;
    t.data = rows;
    assert_ok(state_update_tensors(f->state, &one, &f->err), &f->err);
    assert_ptr_equal(state_find(f->state, "model/kernel")->boxes[0].data, rows);
}

static void expect_not_updated(fixture *f, const pawl_tensor *two, pawl_status status,
                               const char *words) {
    const state_tensors all = {.first = two, .size = sizeof(*two), .count = 2};
    const void *was = state_find(f->state, "model/a")->boxes[0].data;
    f->err = ERROR_INIT;
    assert_fails(state_update_tensors(f->state, &all, &f->err), status, &f->err);
    assert_says(f->err.attempt, words);
    assert_string_equal(f->err.safe, "all tensors are as they were");
    assert_ptr_equal(state_find(f->state, "model/a")->boxes[0].data, was);
}

static pawl_status start_nothing(void *context, const pawl_copy *const *copies, size_t count,
                                 void **ticket, pawl_error *err) {
    (void)context;
    (void)copies;
    (void)count;
    (void)ticket;
    (void)err;
    return PAWL_OK;
}

/* From host memory to one provider's, to another's, and back; a snapshot knows whether it has some,
 * also where it shares its table with an earlier one. */
static void test_an_update_may_name_another_provider(void **context) {
    fixture *f = *context;
    const pawl_memory devices[] = {
        {.struct_size = sizeof devices[0], .name = "device 0", .start_out = start_nothing},
        {.struct_size = sizeof devices[0], .name = "device 1", .start_out = start_nothing}};
    const pawl_memory *const wanted[] = {NULL, &devices[0], &devices[1], NULL};
    add_plain(f, "model/a");
    set_text(f, "model/text", "t");
    for (size_t i = 0; i < 4; i++) {
        pawl_tensor t = plain_tensor("model/a");
        const state_tensors one = {.first = &t, .size = sizeof t, .count = 1};
        t.memory = wanted[i];
        t.data = wanted[i] != NULL ? NULL : t.data; /* a handle may be anything */
        assert_ok(state_update_tensors(f->state, &one, &f->err), &f->err);
        assert_ptr_equal(state_find(f->state, "model/a")->memory, wanted[i]);
        for (int again = 0; again < 2; again++) {
            state_snapshot *seen;
            assert_ok(state_snapshot_take(f->state, 1, false, &seen, &f->err), &f->err);
            assert_int_equal(seen->provided, wanted[i] != NULL);
            state_snapshot_free(seen);
        }
    }
    pawl_tensor t = plain_tensor("model/a");
    const state_tensors one = {.first = &t, .size = sizeof t, .count = 1};
    pawl_memory unnamed = devices[0];
    unnamed.name = NULL;
    t.memory = &unnamed;
    assert_fails(state_update_tensors(f->state, &one, &f->err), PAWL_EUSAGE, &f->err);
    assert_says(f->err.attempt, "cannot update the tensor: its memory has no name that can be");
    assert_null(state_find(f->state, "model/a")->memory);
}

static void test_what_a_tensor_is_does_not_change(void **context) {
    fixture *f = *context;
    static float other[12];
    static const int64_t shape[] = {3, 2};
    test_random random = {.state = 12};
    make_tensors(&random, 100, 101, false);
    const state_tensors others = first_of(100); /* so many that two are few */
    assert_ok(state_add_tensors(f->state, &others, &f->err), &f->err);
    add_plain(f, "model/a");
    add_plain(f, "model/b");
    set_text(f, "model/text", "t");
    pawl_tensor two[] = {plain_tensor("model/a"), plain_tensor("model/b")};
    two[0].data = other;
    two[1].dtype = PAWL_I32;
    expect_not_updated(f, two, PAWL_EUSAGE,
                       "tensors[1]: cannot update the tensor: its dtype is another");
    assert_string_equal(f->err.entry, "model/b");
    assert_string_equal(f->err.expected, "[2, 3] F32, model");
    assert_string_equal(f->err.found, "[2, 3] I32, model");
    two[1] = plain_tensor("model/b");
    two[1].shape = shape;
    expect_not_updated(f, two, PAWL_EUSAGE,
                       "tensors[1]: cannot update the tensor: its shape is another");
    two[1] = plain_tensor("model/b");
    two[1].role = PAWL_ROLE_SLOT;
    two[1].slot_of = "model/a";
    two[1].slot = "adam/m";
    expect_not_updated(f, two, PAWL_EUSAGE,
                       "tensors[1]: cannot update the tensor: its role is another");
    assert_string_equal(f->err.found, "[2, 3] F32, slot adam/m of model/a");
    two[1] = plain_tensor("model/b");
    two[1].replicated = 1;
    expect_not_updated(f, two, PAWL_EUSAGE,
                       "tensors[1]: cannot update the tensor: its replicated is another");
    two[1] = plain_tensor("model/text");
    expect_not_updated(f, two, PAWL_EUSAGE,
                       "tensors[1]: cannot update the tensor: the entry is of another kind");
    two[1] = plain_tensor("model/a");
    expect_not_updated(
        f, two, PAWL_EUSAGE,
        "tensors[1]: cannot update the tensor: the call has two tensors of that name");
    two[1].data = NULL;
    expect_not_updated(f, two, PAWL_EUSAGE,
                       "tensors[1]: cannot update the tensor: its data is NULL");
}

static void test_a_name_that_is_not_there_has_a_near_miss(void **context) {
    fixture *f = *context;
    add_plain(f, "model/a");
    add_plain(f, "model/dense_1/kernel");
    pawl_tensor two[] = {plain_tensor("model/a"), plain_tensor("model/dense1/kernel")};
    expect_not_updated(f, two, PAWL_ENOTFOUND,
                       "tensors[1]: cannot update the tensor: the state has no entry of that name");
    assert_string_equal(f->err.entry, "model/dense1/kernel");
    assert_string_equal(f->err.next, "did you mean model/dense_1/kernel?");
    two[1] = plain_tensor("x");
    expect_not_updated(f, two, PAWL_ENOTFOUND,
                       "tensors[1]: cannot update the tensor: the state has no entry of that name");
    assert_string_equal(f->err.next, "add it with pawl_state_add_tensor");
}

static void test_s02_memory_that_a_save_reads_is_not_replaced(void **context) {
    fixture *f = *context;
    state_snapshot *saved;
    add_plain(f, "model/a");
    add_plain(f, "model/b");
    assert_ok(state_snapshot_take(f->state, 7, true, &saved, &f->err), &f->err);
    pawl_tensor two[] = {plain_tensor("model/a"), plain_tensor("model/b")};
    expect_not_updated(f, two, PAWL_EBUSY,
                       "cannot update the tensor: the save of step 7 still reads its memory");
    assert_string_equal(f->err.entry, "model/a");
    assert_string_equal(f->err.next, "call pawl_fence first");
    state_snapshot_let_go(saved);
    const state_tensors all = {.first = two, .size = sizeof(two[0]), .count = 2};
    assert_ok(state_update_tensors(f->state, &all, &f->err), &f->err);
    state_snapshot_free(saved);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
        TEST(test_many_are_added_as_one_after_the_other_would_be),
        TEST(test_the_tree_stays_balanced_whatever_is_added_and_removed),
        TEST(test_one_bad_tensor_and_none_is_added),
        TEST(test_a_name_twice_in_one_call),
        TEST(test_a_name_that_is_there_whatever_the_way),
        TEST(test_every_allocation_may_fail),
        TEST(test_elements_of_other_sizes),
        TEST(test_updated_tensors_have_the_new_memory),
        TEST(test_boxes_strides_and_replicas_may_change),
        TEST(test_an_update_may_name_another_provider),
        TEST(test_what_a_tensor_is_does_not_change),
        TEST(test_a_name_that_is_not_there_has_a_near_miss),
        TEST(test_s02_memory_that_a_save_reads_is_not_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
