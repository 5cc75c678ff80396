/* SPDX-License-Identifier: Apache-2.0 */
/* Checking mode: a tensor that changes while it is being saved is named, with the changed bytes
 * (S01). */
#include "unit/engine/saving.h"

/* Stops the engine before it takes a byte, lets the test change memory, and goes on. */
static pawl_status save_while(saving *f, void (*change)(saving *f), pawl_error *story) {
    struct pawl_error err = ERROR_INIT;
    engine_stats stats;
    saving_engine(f, 64 * SAVING_BUFFER_BYTES, true);
    saving_plan_fault(f, (store_fault){.op = STORE_OP_OPEN, .nth = 1, .hang = true});
    assert_ok(saving_begin(f, &err), &err);
    while (!store_fault_fired(f->fault)) {
        f->os->sleep_ns(f->os->context, 1000000);
    }
    change(f);
    store_fault_release(f->fault);
    return saving_wait(f, story, &stats);
}

static void nothing(saving *f) {
    (void)f;
}

static void test_s01_an_unchanged_state_is_saved(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    assert_ok(save_while(f, nothing, &story), &story);
    saving_assert_written(f);
}

static void change_first_byte(saving *f) {
    f->memory[1][0] ^= 1;
}

static void test_s01_a_changed_tensor_is_named_with_the_range(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    assert_fails(save_while(f, change_first_byte, &story), PAWL_EUSAGE, &story);
    assert_string_equal(story.attempt, "saving step 7: a tensor changed while it was being saved");
    assert_string_equal(story.entry, "model/b");
    assert_string_equal(story.expected, "the bytes that were there when the save began");
    assert_string_equal(story.found, "bytes 0 to 12187 of its 49152 bytes are different");
    assert_string_equal(story.next, "call pawl_fence before the optimizer's step, and before "
                                    "anything else that changes tensors");
    assert_int_equal(story.step, 7);
    assert_string_equal(f->calls, "released done ");
}

static void change_small(saving *f) {
    f->memory[2][0] ^= 1;
}

static void test_s01_a_neighbour_in_the_same_block_is_not_accused(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    assert_fails(save_while(f, change_small, &story), PAWL_EUSAGE, &story);
    assert_string_equal(story.entry, "model/c");
    assert_string_equal(story.found, "bytes 0 to 0 of its 1 bytes are different");
}

static void change_middle(saving *f) {
    f->memory[4][2 * FORMAT_BLOCK_BYTES] ^= 1;
    f->memory[4][3 * FORMAT_BLOCK_BYTES] ^= 1;
}

static void test_s01_the_range_is_that_of_the_changed_blocks_in_one_buffer(void **state) {
    saving *f = *state;
    struct pawl_error story = ERROR_INIT;
    assert_fails(save_while(f, change_middle, &story), PAWL_EUSAGE, &story);
    assert_string_equal(story.entry, "model/e");
    unsigned long long begin = 0;
    unsigned long long end = 0;
    assert_int_equal(sscanf(story.found, "bytes %llu to %llu of", &begin, &end), 2);
    /* Copies from a device come in any order: the later of the two may be found first. */
    unsigned long long changed = (f->device != NULL && begin > 2 * FORMAT_BLOCK_BYTES ? 3 : 2) *
                                 (unsigned long long)FORMAT_BLOCK_BYTES;
    assert_true(begin <= changed && end >= changed);
    assert_true(end - begin < FORMAT_BLOCK_BYTES);
}

static void test_s01_boxes_are_named(void **state) {
    saving *f = *state;
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {4, 8};
    const int64_t offsets[][2] = {{0, 0}, {2, 0}};
    const int64_t extent[] = {2, 8};
    pawl_box boxes[2];
    for (size_t i = 0; i < 2; i++) {
        boxes[i] =
            (pawl_box){.offset = offsets[i], .extent = extent, .data = f->memory[1] + i * 64};
    }
    pawl_state *whole = f->state;
    assert_ok(state_new(&f->state, &err), &err);
    const pawl_tensor tensor = {.struct_size = sizeof(tensor),
                                .name = "sharded",
                                .dtype = PAWL_F32,
                                .ndim = 2,
                                .shape = shape,
                                .nboxes = 2,
                                .boxes = boxes};
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
    saving_lay_out(f, 0);
    assert_fails(save_while(f, change_first_byte, &err), PAWL_EUSAGE, &err);
    assert_string_equal(err.entry, "sharded");
    assert_string_equal(err.found,
                        "bytes 0 to 63 of the 64 bytes of its box [0:2, 0:8] are different");
    pawl_state *sharded = f->state;
    f->state = whole;
    saving_lay_out(f, 0);
    state_free(sharded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
#define THREADS(t) cmocka_unit_test_setup_teardown(t, saving_set_up_threads, saving_tear_down)
        THREADS(test_s01_an_unchanged_state_is_saved),
        THREADS(test_s01_a_changed_tensor_is_named_with_the_range),
        THREADS(test_s01_a_neighbour_in_the_same_block_is_not_accused),
        THREADS(test_s01_the_range_is_that_of_the_changed_blocks_in_one_buffer),
        THREADS(test_s01_boxes_are_named),
        SAVING_DEVICE(test_s01_an_unchanged_state_is_saved),
        SAVING_DEVICE(test_s01_a_changed_tensor_is_named_with_the_range),
        SAVING_DEVICE(test_s01_a_neighbour_in_the_same_block_is_not_accused),
        SAVING_DEVICE(test_s01_the_range_is_that_of_the_changed_blocks_in_one_buffer),
        SAVING_DEVICE(test_s01_boxes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
