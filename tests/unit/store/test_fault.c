/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapper that makes the n-th operation of a kind fail, fall short, come late, or hang. */
#include "fixtures.h"

#include "lib/simulated_platform.h"

#include <errno.h>

typedef struct fixture {
    simulated_platform os;
    store *mem, *s;
    operation_stage stage;
} fixture;

static void set_stage(fixture *f, const platform *os) {
    pawl_error err = ERROR_INIT;
    assert_ok(store_mem(&f->mem, &err), &err);
    assert_ok(store_fault_wrap(f->mem, os, &f->s, &err), &err);
    operation_stage_set(&f->stage, f->s);
}

static void clear_stage(fixture *f) {
    operation_stage_clear(&f->stage);
    store_destroy(f->s);
    store_destroy(f->mem);
}

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    simulated_platform_init(&f->os, 1);
    set_stage(f, &f->os.table);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    clear_stage(*state);
    mem_free(*state);
    return 0;
}

static void fail_once(fixture *f, store_op op, int system_errno, pawl_status wanted) {
    pawl_error err = ERROR_INIT;
    store_fault_set(f->s, &(store_fault){.op = op, .nth = 1, .system_errno = system_errno});
    assert_fails(operation_do(&f->stage, op, &err), wanted, &err);
    assert_int_equal(err.system_errno, system_errno);
    assert_non_null(strstr(err.path, "/mem"));
    assert_true(store_fault_fired(f->s));
    assert_int_equal(store_fault_count(f->s, op), 1);
}

/* Every kind of operation can be made to fail with any errno, and has done nothing then. */
static void test_each_operation_fails_as_told_and_does_nothing(void **state) {
    fixture *f = *state;
    for (store_op op = STORE_OP_OPEN; op < STORE_OP_ANY; op++) {
        pawl_error err = ERROR_INIT;
        fail_once(f, op, EIO, PAWL_EIO);
        fail_once(f, op, ENOSPC, PAWL_ENOSPACE);
        fail_once(f, op, EACCES, PAWL_EPERMISSION);
        store_fault_set(f->s, &(store_fault){0});
        assert_ok(operation_do(&f->stage, op, &err), &err); /* it would not succeed twice */
    }
}

/* The n-th operation fails, those before and after it do not. */
static void test_only_the_nth_fails(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_STAT, .nth = 3, .system_errno = EIO});
    for (int i = 1; i <= 5; i++) {
        assert_ok(operation_do(&f->stage, STORE_OP_LIST, &err), &err);
        assert_int_equal(store_fault_fired(f->s), i > 3);
        assert_int_equal(operation_do(&f->stage, STORE_OP_STAT, &err), i == 3 ? PAWL_EIO : PAWL_OK);
    }
    assert_int_equal(store_fault_count(f->s, STORE_OP_STAT), 5);
    assert_int_equal(store_fault_count(f->s, STORE_OP_LIST), 5);
    assert_int_equal(store_fault_count(f->s, STORE_OP_ANY), 10);
}

/* From the n-th on all fail, when it is for ever. */
static void test_forever_means_all_later_ones(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_fault_set(
        f->s,
        &(store_fault){.op = STORE_OP_ANY, .nth = 2, .forever = true, .system_errno = ESTALE});
    assert_ok(operation_do(&f->stage, STORE_OP_STAT, &err), &err);
    for (int i = 0; i < 3; i++) {
        assert_fails(operation_do(&f->stage, STORE_OP_LIST, &err), PAWL_EIO, &err);
    }
}

/* The message is that of the operation, with the path and the range. */
static void test_s08_the_message_is_the_operations(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_fault_set(f->s,
                    &(store_fault){.op = STORE_OP_WRITE, .nth = 1, .system_errno = ETIMEDOUT});
    assert_fails(operation_do(&f->stage, STORE_OP_WRITE, &err), PAWL_ETIMEOUT, &err);
    assert_string_equal(error_text(&err),
                        "cannot write\n"
                        "  path:     /mem/open\n"
                        "  range:    bytes 5 to 14\n"
                        "  system:   Connection timed out (ETIMEDOUT, errno 110)");
}

/* A shortened operation moves half of the bytes. */
static void test_shortened_operations_move_half(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    size_t moved = 0;
    char bytes[10];
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_READ, .nth = 1, .shorten = true});
    assert_ok(f->s->ops->read(f->stage.open, 0, bytes, 10, &moved, &err), &err);
    assert_int_equal(moved, 5);
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_WRITE, .nth = 1, .shorten = true});
    assert_ok(f->s->ops->write(f->stage.open, 0, "ab", 2, &moved, &err), &err);
    assert_int_equal(moved, 1);
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_WRITE, .nth = 1, .shorten = true});
    assert_ok(f->s->ops->write(f->stage.open, 0, "c", 1, &moved, &err), &err);
    assert_int_equal(moved, 1);
}

/* A delay passes on the platform's clock, and then the operation is done. */
static void test_delays_pass_on_the_given_clock(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_UNLINK, .nth = 1, .delay_ns = 5000});
    assert_ok(operation_do(&f->stage, STORE_OP_UNLINK, &err), &err);
    assert_int_equal(f->os.slept_ns, 5000);
    assert_false(is_there(f->mem, "doomed"));
}

/* Where nobody could release it, an operation that hangs ends as timed out. */
static void test_s08_a_hang_without_threads_times_out(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_fault_set(f->s, &(store_fault){.op = STORE_OP_SYNC, .nth = 1, .hang = true});
    assert_fails(operation_do(&f->stage, STORE_OP_SYNC, &err), PAWL_ETIMEOUT, &err);
}

typedef struct hanging {
    operation_stage *stage;
    pawl_status status;
} hanging;

static void unlink_in_thread(void *argument) {
    hanging *h = argument;
    pawl_error err = ERROR_INIT;
    h->status = operation_do(h->stage, STORE_OP_UNLINK, &err);
}

/* An operation hangs until it is released, while others go on. */
static void test_s08_a_hang_lasts_until_it_is_released(void **state) {
    const platform *os = platform_system();
    fixture f = {0};
    pawl_error err = ERROR_INIT;
    platform_thread *thread = NULL;
    (void)state;
    set_stage(&f, os);
    hanging h = {.stage = &f.stage, .status = PAWL_EINTERNAL};
    store_fault_set(f.s, &(store_fault){.op = STORE_OP_UNLINK, .nth = 1, .hang = true});
    assert_ok(os->thread_start(os->context, unlink_in_thread, &h, &thread, &err), &err);
    while (!store_fault_fired(f.s)) {
        os->sleep_ns(os->context, 100000);
    }
    assert_true(is_there(f.s, "doomed"));
    store_fault_release(f.s);
    os->thread_join(os->context, thread);
    assert_int_equal(h.status, PAWL_OK);
    assert_false(is_there(f.s, "doomed"));
    clear_stage(&f);
}

/* Traits and root are those of the store inside. */
static void test_traits_are_the_inner_stores(void **state) {
    fixture *f = *state;
    assert_string_equal(f->s->root, f->mem->root);
    assert_memory_equal(&f->s->traits, &f->mem->traits, sizeof(store_traits));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_each_operation_fails_as_told_and_does_nothing),
        TEST(test_only_the_nth_fails),
        TEST(test_forever_means_all_later_ones),
        TEST(test_s08_the_message_is_the_operations),
        TEST(test_shortened_operations_move_half),
        TEST(test_delays_pass_on_the_given_clock),
        TEST(test_s08_a_hang_without_threads_times_out),
        cmocka_unit_test(test_s08_a_hang_lasts_until_it_is_released),
        TEST(test_traits_are_the_inner_stores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
