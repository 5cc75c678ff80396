/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tensor with an extent of 0 has no elements, however large its other extents are: it is saved,
 * shown, verified, compared and restored, and no product of extents overflows.
 */
#include "lib/at_step.h"
#include "lib/directory.h"
#include "lib/test.h"

#include <pawl/pawl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST INT64_MAX

typedef struct empty {
    const char *name;
    pawl_dtype dtype;
    int ndim;
    int64_t shape[4];
} empty;

static const empty tensors[] = {
    {"front", PAWL_F32, 3, {0, 5, MOST}}, {"middle", PAWL_F64, 3, {5, 0, MOST}},
    {"back", PAWL_U8, 2, {1LL << 62, 0}}, {"twice", PAWL_C64, 4, {5, 0, MOST, 0}},
    {"packed", PAWL_F4, 3, {3, 0, MOST}}, {"many", PAWL_F32, 4, {0, MOST, MOST, MOST}},
    {"small", PAWL_BF16, 2, {0, 3}},
};

static int set_up(void **state) {
    static char folder[64];
    directory_new(folder, "/tmp");
    *state = folder;
    return chdir(folder);
}

static int tear_down(void **state) {
    assert_int_equal(chdir("/"), 0);
    directory_delete(*state);
    return 0;
}

/* Dense, and as a box with strides of its own. */
static void add(pawl_state *state, const empty *e, bool boxed, pawl_error *err) {
    static const int64_t zeros[4] = {0};
    static const int64_t strides[4] = {MOST, -MOST, MOST, 1};
    pawl_box box = {.offset = zeros,
                    .extent = e->shape,
                    .strides = pawl_dtype_bits(e->dtype) % 8 == 0 ? strides : NULL};
    pawl_tensor tensor = {.struct_size = sizeof tensor,
                          .name = e->name,
                          .dtype = e->dtype,
                          .ndim = e->ndim,
                          .shape = e->shape,
                          .boxes = boxed ? &box : NULL,
                          .box_size = sizeof(pawl_box),
                          .nboxes = boxed ? 1 : 0};
    assert_ok(pawl_state_add_tensor(state, &tensor, err), err);
}

static pawl_state *state_of(bool boxed, pawl_error *err) {
    static float some[4] = {1, 2, 3, 4};
    pawl_state *state = NULL;
    assert_ok(pawl_state_new(&state, err), err);
    for (size_t i = 0; i < ARRAY_LENGTH(tensors); i++) {
        add(state, &tensors[i], boxed, err);
    }
    pawl_tensor full = {.struct_size = sizeof full,
                        .name = "full",
                        .dtype = PAWL_F32,
                        .ndim = 1,
                        .shape = (int64_t[]){4},
                        .data = some};
    assert_ok(pawl_state_add_tensor(state, &full, err), err);
    return state;
}

static void save(int64_t step, bool boxed, pawl_error *err) {
    pawl_run *run = NULL;
    pawl_state *state = state_of(boxed, err);
    assert_ok(pawl_run_open("run", NULL, &run, err), err);
    assert_ok(pawl_save(run, state, step, NULL, err), err);
    assert_ok(pawl_wait(run, 0, NULL, err), err);
    assert_ok(pawl_run_close(run, 0, err), err);
    pawl_state_free(state);
}

static void test_they_are_saved_and_restored(void **unused) {
    (void)unused;
    pawl_error *err = pawl_error_new();
    for (int boxed = 0; boxed < 2; boxed++) {
        save(boxed + 1, boxed, err);
        pawl_run *run = NULL;
        pawl_state *state = state_of(!boxed, err);
        assert_ok(pawl_run_open("run", NULL, &run, err), err);
        assert_ok(pawl_restore(run, state, NULL, NULL, err), err);
        assert_ok(pawl_run_close(run, 0, err), err);
        pawl_state_free(state);
    }
    pawl_error_free(err);
}

static void test_they_are_read_as_nothing(void **unused) {
    (void)unused;
    pawl_error *err = pawl_error_new();
    pawl_checkpoint *checkpoint = NULL;
    save(1, false, err);
    assert_ok(pawl_checkpoint_open("run", AT_STEP(1), &checkpoint, err), err);
    for (size_t i = 0; i < ARRAY_LENGTH(tensors); i++) {
        pawl_entry_info info = {.struct_size = sizeof info};
        int64_t zeros[4] = {0};
        assert_ok(pawl_checkpoint_find(checkpoint, tensors[i].name, &info, err), err);
        assert_int_equal(info.bytes, 0);
        assert_memory_equal(info.shape, tensors[i].shape,
                            sizeof(int64_t) * (size_t)tensors[i].ndim);
        assert_ok(pawl_checkpoint_read(checkpoint, tensors[i].name, NULL, NULL, NULL, 0, err), err);
        assert_ok(pawl_checkpoint_read(checkpoint, tensors[i].name, zeros, tensors[i].shape, NULL,
                                       0, err),
                  err);
    }
    pawl_checkpoint_close(checkpoint);
    pawl_error_free(err);
}

static void test_the_command_takes_them(void **unused) {
    (void)unused;
    pawl_error *err = pawl_error_new();
    save(1, false, err);
    save(2, true, err);
    assert_int_equal(system(PAWL_COMMAND " verify --all run >out 2>&1"), 0);
    assert_int_equal(system(PAWL_COMMAND " show run >out 2>&1"), 0);
    assert_int_equal(system("grep -q '\\[0, 5, 9223372036854775807\\]' out"), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(tensors); i++) {
        char command[512];
        (void)snprintf(command, sizeof command,
                       PAWL_COMMAND " show run %s >out 2>&1 && " PAWL_COMMAND
                                    " show --json run %s >out 2>&1",
                       tensors[i].name, tensors[i].name);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(system(PAWL_COMMAND " diff run@1 run@2 >out 2>&1"), 0);
    assert_int_equal(system(PAWL_COMMAND " rebuild run@1 >out 2>&1"), 0);
    assert_int_equal(system(PAWL_COMMAND " verify --all run >out 2>&1"), 0);
    pawl_error_free(err);
}

static void test_one_with_elements_is_still_bounded(void **unused) {
    (void)unused;
    pawl_error *err = pawl_error_new();
    pawl_state *state = NULL;
    pawl_tensor tensor = {.struct_size = sizeof tensor,
                          .name = "large",
                          .dtype = PAWL_U8,
                          .ndim = 2,
                          .shape = (int64_t[]){1LL << 32, 1LL << 32}};
    assert_ok(pawl_state_new(&state, err), err);
    assert_fails(pawl_state_add_tensor(state, &tensor, err), PAWL_ELIMIT, err);
    pawl_state_free(state);
    pawl_error_free(err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_they_are_saved_and_restored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_they_are_read_as_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_command_takes_them, set_up, tear_down),
        cmocka_unit_test(test_one_with_elements_is_still_bounded),
    };
    return cmocka_run_group_tests_name("22 empty extents", tests, NULL, NULL);
}
