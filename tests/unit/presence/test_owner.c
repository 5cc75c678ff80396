/* SPDX-License-Identifier: Apache-2.0 */
/* One writer at a time (S10): O1 to O4 of owner.c, with a clock that the test moves. */
#include "unit/presence/owning.h"

#include <errno.h>

static void test_s10_a_live_process_of_this_host_refuses_the_newcomer_at_once(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner *two;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    f->second.others = PROCESS_ALIVE;
    assert_fails(take(f, &f->second, 35, &two, &err), PAWL_EBUSY, &err);
    assert_int_equal(f->second.slept_ns, 0);
    assert_string_equal(err.attempt, "open run: another process writes to this run");
    assert_says(err.found, "host node1, pid 1111");
    assert_says(err.found, "alive on this host");
    assert_says(err.next, "kill 1111");
    owner_release(one);
}

static void test_s10_a_dead_process_is_succeeded_at_once(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner *two;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    f->second.others = PROCESS_DEAD;
    assert_ok(take(f, &f->second, 35, &two, &err), &err);
    assert_int_equal(f->second.slept_ns, 0);
    owner_release(two);
    owner_give_up(one);
    owner_release(one);
}

static void test_s10_a_moving_heartbeat_of_another_host_refuses_the_newcomer(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *two;
    assert_ok(take(f, &f->first, 35, &f->other, &err), &err);
    f->second.on_sleep = renew_other;
    f->second.on_sleep_context = f;
    assert_fails(take(f, &f->second, 35, &two, &err), PAWL_EBUSY, &err);
    assert_true(f->second.slept_ns < 5 * SECOND_NS);
    assert_says(err.found, "which was renewed while it was watched");
    owner_release(f->other);
}

static void test_s10_a_heartbeat_that_stands_still_for_a_lease_is_succeeded(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner *two;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    assert_ok(take(f, &f->second, 35, &two, &err), &err);
    assert_true(f->second.slept_ns >= 30 * SECOND_NS);
    owner_release(two);
    owner_give_up(one);
    owner_release(one);
}

static void test_s10_a_newcomer_that_may_not_wait_says_how_long_it_watched(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner *two;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    assert_fails(take(f, &f->second, 0, &two, &err), PAWL_EBUSY, &err);
    assert_says(err.found, "not renewed in the 0.0 s it was watched");
    owner_release(one);
}

/* O3: the paused owner wakes up, and finds that it was succeeded. */
static void test_s10_a_succeeded_owner_neither_renews_nor_publishes(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner *two;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    assert_ok(take(f, &f->second, 35, &two, &err), &err);
    simulated_platform_advance(&f->first, 40 * SECOND_NS);
    assert_fails(owner_renew(one, &err), PAWL_EBUSY, &err);
    assert_string_equal(err.attempt, "this process is no longer the owner of the run");
    assert_says(err.found, "host node2, pid 2222");
    assert_false(owner_fresh(one));
    assert_fails(owner_renew(one, &err), PAWL_EBUSY, &err);
    assert_ok(owner_renew(two, &err), &err);
    owner_release(one);
    assert_ok(owner_renew(two, &err),
              &err); /* releasing a lost owner leaves the successor's record */
    owner_release(two);
}

/* O2: paused for longer than its lease, but nobody came: it wins the next generation; on an object
 * store, where nobody replaced its record, it stays what it was. */
static void test_s10_an_owner_whose_lease_ran_out_takes_over_from_itself(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner_sight seen;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    simulated_platform_advance(&f->first, 40 * SECOND_NS);
    assert_false(owner_fresh(one));
    assert_ok(owner_renew(one, &err), &err);
    assert_true(owner_fresh(one));
    assert_ok(owner_look(f->disk, &f->first.table, &seen, &err), &err);
    assert_int_equal(seen.generation, f->disk->traits.objects ? 1 : 2);
    owner_release(one);
}

/* O4: half a lease without a renewal is too old to publish. */
static void test_s10_a_stale_lease_is_not_fresh(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    simulated_platform_advance(&f->first, 14 * SECOND_NS);
    assert_true(owner_fresh(one));
    simulated_platform_advance(&f->first, 2 * SECOND_NS);
    assert_false(owner_fresh(one));
    owner_release(one);
}

static void test_a_released_run_is_free(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner_sight seen;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    owner_release(one);
    assert_ok(owner_look(f->disk, &f->second.table, &seen, &err), &err);
    assert_false(seen.present);
}

static void test_each_renewal_moves_the_counter(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner_sight seen;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    for (uint64_t i = 1; i < 4; i++) {
        see_now(f);
        assert_ok(owner_look(f->disk, &f->second.table, &seen, &err), &err);
        assert_true(seen.readable);
        assert_int_equal(seen.counter, i);
        assert_ok(owner_renew(one, &err), &err);
    }
    owner_release(one);
}

/* A crash while the record was written leaves an empty file: watched for a lease, then
 * succeeded. */
static void test_an_unreadable_record_is_watched_then_succeeded(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    put_anew(f->disk, record_name(f, 7), "", 0);
    assert_fails(take(f, &f->first, 0, &one, &err), PAWL_EBUSY, &err);
    assert_says(err.found, "still being written");
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    owner_release(one);
}

static int end_third(void *context) {
    return ++*(int *)context >= 3;
}

/* However long the lease is, the caller is asked ten times a second. */
static void test_waiting_for_another_owner_ends_when_the_caller_says_so(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner *two;
    int asked = 0;
    interrupt stop = {.ask = end_third, .context = &asked};
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    assert_fails(owner_take(f->disk, &f->second.table, &silent, &stop, 30, 35, &two, &err),
                 PAWL_ECANCELED, &err);
    assert_string_equal(
        err.attempt,
        "open run: waiting to see whether the run's writer is alive: interrupted by the caller");
    assert_says(err.found, "host node1, pid 1111, attempt ");
    assert_string_equal(err.safe, "nothing was written or changed");
    assert_int_equal(asked, 3);
    assert_int_equal(f->second.slept_ns, 2 * INTERRUPT_PERIOD_NS);
    assert_ok(owner_renew(one, &err), &err);
    owner_release(one);
}

static void test_two_newcomers_cannot_both_take_over(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner *two;
    owner *three;
    f->first.others = f->second.others = PROCESS_DEAD;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    assert_ok(take(f, &f->second, 35, &two, &err), &err);
    simulated_platform third;
    simulated_platform_init(&third, 3);
    third.others = PROCESS_ALIVE;
    assert_fails(owner_take(f->disk, &third.table, &silent, NULL, 30, 35, &three, &err), PAWL_EBUSY,
                 &err);
    assert_fails(owner_renew(one, &err), PAWL_EBUSY, &err);
    owner_release(one);
    owner_release(two);
}

static void test_s10_an_owner_that_gave_up_is_not_fresh(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    assert_true(owner_fresh(one));
    owner_give_up(one);
    assert_false(owner_fresh(one));
    assert_fails(owner_renew(one, &err), PAWL_EBUSY, &err);
    owner_release(one);
}

static void test_s10_a_record_of_another_attempt_is_another_owners(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner_sight seen;
    char at[16];
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    CLEANUP(buffer_free) buffer text = {0};
    see_now(f);
    assert_ok(store_read_file(f->disk, record_name(f, 1), 4096, &text, &err), &err);
    assert_ok(owner_look(f->disk, &f->first.table, &seen, &err), &err);
    snprintf(at, sizeof at, "%s", seen.attempt);
    strstr((char *)text.data, at)[0] = at[0] == '0' ? '1' : '0';
    put_anew(f->disk, record_name(f, 1), text.data, text.size);
    assert_fails(owner_renew(one, &err), PAWL_EBUSY, &err);
    owner_release(one);
    assert_true(is_there(f->disk, record_name(f, 1)));
}

/* A renewal is as old as its beginning: whoever watched did so meanwhile. */
static void test_s10_a_renewal_that_took_long_is_not_fresh(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    store *slow;
    bool objects = f->disk->traits.objects;
    const store_fault late_sync = {
        .op = objects ? STORE_OP_PUT : STORE_OP_SYNC, .nth = 1, .delay_ns = 20 * SECOND_NS};
    const store_fault late_write = {
        .op = objects ? STORE_OP_PUT : STORE_OP_WRITE, .nth = 1, .delay_ns = 20 * SECOND_NS};
    const store_fault none = {0};
    assert_ok(store_fault_wrap(f->disk, &f->first.table, &slow, &err), &err);
    store_fault_set(slow, &late_sync);
    assert_ok(owner_take(slow, &f->first.table, &silent, NULL, 30, 35, &one, &err), &err);
    assert_false(owner_fresh(one));
    store_fault_set(slow, &none);
    assert_ok(owner_renew(one, &err), &err);
    assert_true(owner_fresh(one));
    store_fault_set(slow, &late_write);
    assert_ok(owner_renew(one, &err), &err);
    assert_false(owner_fresh(one));
    owner_release(one);
    store_destroy(slow);
}

static void test_s10_another_handle_of_this_process_is_told_from_another_process(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner *two;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    f->second.identity = f->first.identity;
    f->second.others = PROCESS_ALIVE;
    assert_fails(take(f, &f->second, 0, &two, &err), PAWL_EBUSY, &err);
    assert_string_equal(err.attempt, "open run: another handle of this process writes to this run");
    assert_string_equal(err.next,
                        "close that one first with pawl_run_close, or save to another directory");
    owner_release(one);
}

static void test_a_record_that_cannot_be_written_is_removed(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    store *failing;
    const store_fault plan = {.op = f->disk->traits.objects ? STORE_OP_PUT : STORE_OP_SYNC,
                              .nth = 1,
                              .system_errno = EIO,
                              .forever = true};
    assert_ok(store_fault_wrap(f->disk, &f->first.table, &failing, &err), &err);
    store_fault_set(failing, &plan);
    assert_fails(owner_take(failing, &f->first.table, &silent, NULL, 30, 35, &one, &err), PAWL_EIO,
                 &err);
    assert_false(is_there(f->disk, record_name(f, 1)));
    store_destroy(failing);
}

static void test_a_successor_removes_the_records_before_its_own(void **state) {
    test_skip_on_objects("there is one record, which each owner replaces");
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner *two;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    f->second.others = PROCESS_DEAD;
    assert_ok(take(f, &f->second, 35, &two, &err), &err);
    assert_false(is_there(f->disk, "owner-00000001"));
    assert_true(is_there(f->disk, "owner-00000002"));
    owner_release(one);
    assert_true(is_there(f->disk, "owner-00000002"));
    owner_release(two);
    assert_true(is_there(f->disk, "owner-00000002"));
}

static void write_record(fixture *f, const char *lease) {
    char text[256];
    int n = snprintf(text, sizeof text,
                     "{\"counter\":\"00000000000000000001\",\"host\":\"node9\",\"pid\":9,"
                     "\"attempt\":\"0123456789ab\",\"lease_s\":%s}",
                     lease);
    put_anew(f->disk, record_name(f, 1), text, (size_t)n);
}

static void test_s10_a_newcomer_waits_no_longer_than_it_may_however_long_the_lease(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    write_record(f, "100000");
    assert_fails(take(f, &f->first, 35, &one, &err), PAWL_EBUSY, &err);
    assert_true(f->first.slept_ns <= 36 * SECOND_NS);
}

static void test_a_record_with_an_absurd_lease_is_one_that_cannot_be_read(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    write_record(f, "1e300");
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    assert_true(f->first.slept_ns <= 36 * SECOND_NS);
    owner_release(one);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_s10_a_live_process_of_this_host_refuses_the_newcomer_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_s10_a_dead_process_is_succeeded_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_s10_a_moving_heartbeat_of_another_host_refuses_the_newcomer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_s10_a_heartbeat_that_stands_still_for_a_lease_is_succeeded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_s10_a_newcomer_that_may_not_wait_says_how_long_it_watched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_s10_a_succeeded_owner_neither_renews_nor_publishes,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_s10_an_owner_whose_lease_ran_out_takes_over_from_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_s10_a_stale_lease_is_not_fresh, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_released_run_is_free, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_each_renewal_moves_the_counter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_unreadable_record_is_watched_then_succeeded, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_s10_a_newcomer_waits_no_longer_than_it_may_however_long_the_lease, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_record_with_an_absurd_lease_is_one_that_cannot_be_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_s10_an_owner_that_gave_up_is_not_fresh, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_s10_a_record_of_another_attempt_is_another_owners,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_s10_a_renewal_that_took_long_is_not_fresh, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_s10_another_handle_of_this_process_is_told_from_another_process, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_a_record_that_cannot_be_written_is_removed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_successor_removes_the_records_before_its_own, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_waiting_for_another_owner_ends_when_the_caller_says_so,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_newcomers_cannot_both_take_over, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("owner", tests, NULL, NULL);
}
