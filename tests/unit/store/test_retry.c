/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapper that repeats what failed for a reason that passes, over one that makes it fail. */
#include "fixtures.h"

#include "lib/simulated_platform.h"

#include <errno.h>

#define ATTEMPTS       4
#define FIRST_DELAY_NS 1000

typedef struct fixture {
    simulated_platform os;
    store *mem, *fault, *s;
    operation_stage stage;
} fixture;

static int set_up(void **state) {
    fixture *f = mem_calloc(1, sizeof(*f));
    pawl_error err = ERROR_INIT;
    simulated_platform_init(&f->os, 1);
    assert_ok(store_mem(&f->mem, &err), &err);
    assert_ok(store_fault_wrap(f->mem, &f->os.table, &f->fault, &err), &err);
    assert_ok(store_retry_wrap(f->fault, &f->os.table, ATTEMPTS, FIRST_DELAY_NS, &f->s, &err),
              &err);
    operation_stage_set(&f->stage, f->s);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    operation_stage_clear(&f->stage);
    store_destroy(f->s); /* and `fault` with it */
    store_destroy(f->mem);
    mem_free(f);
    return 0;
}

/* How often the store inside was asked, when the first try fails with this errno. */
static uint64_t tries_after(fixture *f, store_op op, int system_errno, pawl_status *status) {
    pawl_error err = ERROR_INIT;
    store_fault_set(f->fault, &(store_fault){.op = op, .nth = 1, .system_errno = system_errno});
    *status = operation_do(&f->stage, op, &err);
    return store_fault_count(f->fault, op);
}

static bool is_sync(store_op op) {
    return op == STORE_OP_SYNC || op == STORE_OP_SYNC_DIR;
}

/* What was not begun is tried again, except for a sync. */
static void test_s08_what_passes_is_tried_again_but_never_a_sync(void **state) {
    for (store_op op = STORE_OP_OPEN; op < STORE_OP_ANY; op++) {
        pawl_status status;
        void *fresh = NULL;
        set_up(&fresh);
        assert_int_equal(tries_after(fresh, op, EAGAIN, &status), is_sync(op) ? 1 : 2);
        assert_int_equal(status == PAWL_OK, !is_sync(op));
        tear_down(&fresh);
    }
    (void)state;
}

/* What will not pass is reported at once. */
static void test_s08_what_does_not_pass_is_not_tried_again(void **state) {
    static const int lasting[] = {EIO, ENOSPC, EACCES, EROFS, ENOENT, EDQUOT};
    for (size_t i = 0; i < ARRAY_LENGTH(lasting); i++) {
        for (store_op op = STORE_OP_OPEN; op < STORE_OP_ANY; op++) {
            pawl_status status;
            assert_int_equal(tries_after(*state, op, lasting[i], &status), 1);
            assert_int_not_equal(status, PAWL_OK);
        }
    }
}

/* After a time-out, or an interruption, only that is repeated which is the same when done twice:
 * the rest may have been done, or be done later. */
static void only_harmless_operations_are_repeated_after(void **state, int system_errno) {
    static const store_op harmless[] = {STORE_OP_OPEN, STORE_OP_READ,    STORE_OP_WRITE,
                                        STORE_OP_SIZE, STORE_OP_RESERVE, STORE_OP_LIST,
                                        STORE_OP_STAT, STORE_OP_SPACE,   STORE_OP_PUT};
    static const store_op harmful[] = {STORE_OP_MAKE_DIR, STORE_OP_REMOVE_DIR, STORE_OP_RENAME,
                                       STORE_OP_UNLINK,   STORE_OP_SYNC,       STORE_OP_SYNC_DIR};
    pawl_status status;
    for (size_t i = 0; i < ARRAY_LENGTH(harmless); i++) {
        assert_int_equal(tries_after(*state, harmless[i], system_errno, &status), 2);
        assert_int_equal(status, PAWL_OK);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(harmful); i++) {
        assert_int_equal(tries_after(*state, harmful[i], system_errno, &status), 1);
        assert_int_not_equal(status, PAWL_OK);
    }
}

static void test_s08_after_a_time_out_only_harmless_operations_are_repeated(void **state) {
    only_harmless_operations_are_repeated_after(state, ETIMEDOUT);
}

static void test_s08_after_an_interruption_only_harmless_operations_are_repeated(void **state) {
    only_harmless_operations_are_repeated_after(state, EINTR);
}

static void test_s08_without_the_network_only_harmless_operations_are_repeated(void **state) {
    only_harmless_operations_are_repeated_after(state, ENETDOWN);
}

/* An exclusive creation that timed out may have happened: it is not repeated. */
static void test_s08_creation_is_not_repeated_after_a_time_out(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_file *file = NULL;
    store_fault_set(f->fault,
                    &(store_fault){.op = STORE_OP_OPEN, .nth = 1, .system_errno = ETIMEDOUT});
    assert_fails(store_open(f->s, "x", STORE_CREATE, &file, &err), PAWL_ETIMEOUT, &err);
    assert_int_equal(store_fault_count(f->fault, STORE_OP_OPEN), 1);
}

/* A stale handle is looked up again by open only. */
static void test_s08_stale_handles_are_looked_up_again(void **state) {
    for (store_op op = STORE_OP_OPEN; op < STORE_OP_ANY; op++) {
        pawl_status status;
        assert_int_equal(tries_after(*state, op, ESTALE, &status), op == STORE_OP_OPEN ? 2 : 1);
    }
}

/* It gives up after as many attempts as were allowed, having slept twice as long each time. */
static void test_s08_it_gives_up_and_says_so(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store_fault_set(
        f->fault,
        &(store_fault){.op = STORE_OP_STAT, .nth = 1, .forever = true, .system_errno = ETIMEDOUT});
    assert_fails(operation_do(&f->stage, STORE_OP_STAT, &err), PAWL_ETIMEOUT, &err);
    assert_string_equal(error_text(&err),
                        "gave up after 4 attempts: cannot look at this name\n"
                        "  path:     /mem/old\n"
                        "  system:   Connection timed out (ETIMEDOUT, errno 110)");
    assert_int_equal(store_fault_count(f->fault, STORE_OP_STAT), ATTEMPTS);
    assert_int_equal(f->os.slept_ns, FIRST_DELAY_NS * (1 + 2 + 4));
}

static pawl_status stop_with_eagain(void *context, const store_listed *found, pawl_error *err) {
    (void)found;
    ++*(int *)context;
    return error_sys(err, EAGAIN, "the caller's own reason");
}

/* A listing that has begun to deliver is not begun again. */
static void test_a_listing_that_delivered_is_not_repeated(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    int calls = 0;
    assert_fails(store_list(f->s, "", stop_with_eagain, &calls, &err), PAWL_EIO, &err);
    assert_int_equal(calls, 1);
    assert_string_equal(err.attempt, "the caller's own reason");
}

/* Repetitions are counted, and a store made of the retry store tells them too. */
static void test_repetitions_are_told_through_other_wrappers(void **state) {
    fixture *f = *state;
    pawl_error err = ERROR_INIT;
    store *around;
    pawl_status status;
    assert_ok(store_trace_wrap(f->s, &f->os.table, NULL, NULL, &around, &err), &err);
    assert_int_equal(store_retry_count(around), 0);
    (void)tries_after(f, STORE_OP_STAT, EAGAIN, &status);
    (void)tries_after(f, STORE_OP_STAT, EIO, &status);
    assert_int_equal(store_retry_count(around), 1);
    assert_int_equal(store_retry_count(f->s), 1);
    assert_int_equal(store_retry_count(f->mem), 0);
    store_destroy(around);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_s08_what_passes_is_tried_again_but_never_a_sync),
        TEST(test_s08_what_does_not_pass_is_not_tried_again),
        TEST(test_s08_after_a_time_out_only_harmless_operations_are_repeated),
        TEST(test_s08_after_an_interruption_only_harmless_operations_are_repeated),
        TEST(test_s08_without_the_network_only_harmless_operations_are_repeated),
        TEST(test_s08_creation_is_not_repeated_after_a_time_out),
        TEST(test_s08_stale_handles_are_looked_up_again),
        TEST(test_s08_it_gives_up_and_says_so),
        TEST(test_a_listing_that_delivered_is_not_repeated),
        TEST(test_repetitions_are_told_through_other_wrappers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
