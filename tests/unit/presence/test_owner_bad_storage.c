/* SPDX-License-Identifier: Apache-2.0 */
/* One writer at a time (S10) on storage that shows things late, loses replies, or is full. */
#include "unit/presence/owning.h"

#include "store/wrap.h"

#include <errno.h>

/* Fails or hides things, once each: a name that does not open, a name that a listing lacks, a reply
 * that is lost. */
typedef struct late_store {
    store_wrapper base;
    const char *absent, *unlisted, *lost_reply; /* names; NULL: none */
    store_op lost_op;
    int times;         /* how often; 0: once */
    const char *after; /* created: then `appears` is made, of another newcomer */
    const char *appears;
    store_each_fn each;
    void *context;
    uint64_t asked;
} late_store;

static bool spend(late_store *l, const char **name) {
    if (l->times > 0) {
        l->times--;
        return true;
    }
    *name = NULL;
    return true;
}

static pawl_status each_but_one(void *context, const store_listed *found, pawl_error *err) {
    late_store *l = context;
    return l->unlisted != NULL && strcmp(found->name, l->unlisted) == 0
               ? PAWL_OK
               : l->each(l->context, found, err);
}

static pawl_status list_late(late_store *l, store_call *call, pawl_error *err) {
    l->each = call->each;
    l->context = call->context;
    call->each = each_but_one;
    call->context = l;
    pawl_status status = store_call_inner(call, err);
    return spend(l, &l->unlisted) ? status : PAWL_EINTERNAL;
}

static pawl_status around_late(store_wrapper *w, store_call *call, pawl_error *err) {
    late_store *l = (late_store *)w;
    bool opens = call->op == STORE_OP_OPEN && !store_mode_creates(call->mode);
    if (opens && l->absent != NULL && strcmp(call->path, l->absent) == 0 && spend(l, &l->absent)) {
        return error_sys(err, ENOENT, "cannot open the file");
    }
    if (call->op == STORE_OP_LIST && l->unlisted != NULL) {
        return list_late(l, call, err);
    }
    bool loses =
        l->lost_reply != NULL && call->op == l->lost_op && strcmp(call->path, l->lost_reply) == 0;
    bool creates = call->op == STORE_OP_OPEN && store_mode_creates(call->mode) &&
                   l->after != NULL && strcmp(call->path, l->after) == 0;
    if (loses && call->op == STORE_OP_OPEN && !store_mode_creates(call->mode)) {
        loses = false;
    }
    pawl_status status = store_call_inner(call, err);
    if (creates && status == PAWL_OK) {
        l->after = NULL;
        put_text(call->inner, l->appears, ""); /* its creator has not written it yet */
    }
    if (loses && status == PAWL_OK && spend(l, &l->lost_reply)) {
        if (call->op == STORE_OP_OPEN) {
            store_close(*call->opened);
        }
        return error_sys(err, EIO, "the reply was lost");
    }
    return status;
}

static void destroy_late(store_wrapper *w) {
    store_wrapper_clear(w);
}

static void make_late(late_store *l, store *inner) {
    struct pawl_error err = ERROR_INIT;
    *l = (late_store){.base = {.around = around_late, .destroy = destroy_late}};
    assert_ok(store_wrapper_init(&l->base, inner, &err), &err);
}

static pawl_status take_late(late_store *l, simulated_platform *os, double wait_s, owner **out,
                             pawl_error *err) {
    return owner_take(&l->base.base, &os->table, &silent, NULL, 30, wait_s, out, err);
}

/* (a) The record is listed and does not open. */
static void test_s10_a_record_that_does_not_open_is_watched_like_any_other(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    late_store late;
    owner *two;
    assert_ok(take(f, &f->first, 35, &f->other, &err), &err);
    make_late(&late, f->disk);
    late.absent = "owner-00000001";
    f->second.on_sleep = renew_other;
    f->second.on_sleep_context = f;
    assert_fails(take_late(&late, &f->second, 35, &two, &err), PAWL_EBUSY, &err);
    assert_ok(owner_renew(f->other, &err), &err);
    owner_release(f->other);
    store_destroy(&late.base.base);
}

/* (b) The listing lacks the record of a live owner. */
static void test_s10_a_newcomer_that_finds_itself_beside_an_owner_withdraws(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    late_store late;
    owner *two;
    put_text(f->disk, "owner-00000004", "");
    assert_ok(take(f, &f->first, 35, &f->other, &err), &err);
    assert_true(is_there(f->disk, "owner-00000005"));
    make_late(&late, f->disk);
    late.unlisted = "owner-00000005";
    f->second.on_sleep = renew_other;
    f->second.on_sleep_context = f;
    assert_fails(take_late(&late, &f->second, 35, &two, &err), PAWL_EBUSY, &err);
    assert_false(is_there(f->disk, "owner-00000001"));
    assert_ok(owner_renew(f->other, &err), &err);
    owner_release(f->other);
    store_destroy(&late.base.base);
}

/* Somebody else began at 1 while this one had no record to show. */
static void test_s10_a_newcomer_that_finds_a_newer_one_beside_it_withdraws(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    late_store late;
    owner *two;
    put_text(f->disk, "owner-00000005", "");
    make_late(&late, f->disk);
    late.after = "owner-00000006";
    late.appears = "owner-00000001";
    assert_fails(take_late(&late, &f->second, 30.5, &two, &err), PAWL_EBUSY, &err);
    assert_false(is_there(f->disk, "owner-00000006"));
    assert_true(is_there(f->disk, "owner-00000001"));
    store_destroy(&late.base.base);
}

/* (c) */
static void check_not_lost(fixture *f, late_store *late) {
    struct pawl_error err = ERROR_INIT;
    owner *one;
    make_late(late, f->disk);
    assert_ok(take_late(late, &f->first, 35, &one, &err), &err);
    late->absent = late->unlisted = "owner-00000001";
    late->times = 2;
    assert_fails(owner_renew(one, &err), PAWL_EIO, &err);
    assert_string_equal(err.attempt, "the ownership of the run could not be renewed");
    late->absent = late->unlisted = NULL;
    assert_ok(owner_renew(one, &err), &err);
    assert_true(owner_fresh(one));
    owner_release(one);
    store_destroy(&late->base.base);
}

static void test_s10_an_owner_that_does_not_see_its_record_is_not_lost(void **state) {
    late_store late;
    check_not_lost(*state, &late);
}

static void test_s10_a_listing_that_lacks_the_record_is_no_loss(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    late_store late;
    owner *one;
    make_late(&late, f->disk);
    assert_ok(take_late(&late, &f->first, 35, &one, &err), &err);
    late.unlisted = "owner-00000001";
    assert_ok(owner_renew(one, &err), &err);
    owner_release(one);
    store_destroy(&late.base.base);
}

/* Its record is gone for good: after its lease it wins another one, like any newcomer. */
static void test_s10_an_owner_whose_record_is_gone_takes_over_from_itself_in_time(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    assert_ok(store_unlink(f->disk, "owner-00000001", &err), &err);
    simulated_platform_advance(&f->first, 20 * SECOND_NS);
    assert_fails(owner_renew(one, &err), PAWL_EIO, &err);
    assert_false(owner_fresh(one));
    simulated_platform_advance(&f->first, 20 * SECOND_NS);
    assert_ok(owner_renew(one, &err), &err);
    assert_true(is_there(f->disk, "owner-00000002"));
    owner_release(one);
}

/* (d) Nobody can tell whose the empty record is: it is watched, and then succeeded. */
static void test_s10_a_creation_whose_reply_is_lost_costs_a_lease(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    late_store late;
    owner *one;
    make_late(&late, f->disk);
    late.lost_reply = "owner-00000001";
    late.lost_op = STORE_OP_OPEN;
    assert_ok(take_late(&late, &f->first, 35, &one, &err), &err);
    assert_true(f->first.slept_ns >= 30 * SECOND_NS);
    assert_false(is_there(f->disk, "owner-00000001"));
    assert_true(is_there(f->disk, "owner-00000002"));
    owner_release(one);
    store_destroy(&late.base.base);
}

static void test_s10_a_creation_whose_reply_is_lost_does_not_lose_the_run(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    late_store late;
    owner *one;
    make_late(&late, f->disk);
    assert_ok(take_late(&late, &f->first, 35, &one, &err), &err);
    simulated_platform_advance(&f->first, 40 * SECOND_NS);
    late.lost_reply = "owner-00000002";
    late.lost_op = STORE_OP_OPEN;
    assert_fails(owner_renew(one, &err), PAWL_EIO, &err);
    assert_true(is_there(f->disk, "owner-00000002"));
    assert_fails(owner_renew(one, &err), PAWL_EIO, &err);
    simulated_platform_advance(&f->first, 31 * SECOND_NS);
    assert_ok(owner_renew(one, &err), &err);
    assert_true(is_there(f->disk, "owner-00000003"));
    owner_release(one);
    store_destroy(&late.base.base);
}

static void test_s10_a_renewal_whose_reply_is_lost_is_made_again(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    late_store late;
    owner *one;
    make_late(&late, f->disk);
    assert_ok(take_late(&late, &f->first, 35, &one, &err), &err);
    late.lost_reply = "owner-00000001";
    late.lost_op = STORE_OP_WRITE;
    assert_fails(owner_renew(one, &err), PAWL_EIO, &err);
    assert_ok(owner_renew(one, &err), &err);
    owner_release(one);
    store_destroy(&late.base.base);
}

/* (e) */
static void test_s10_a_release_whose_reply_is_lost_frees_the_run(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    late_store late;
    owner *one;
    owner *two;
    make_late(&late, f->disk);
    assert_ok(take_late(&late, &f->first, 35, &one, &err), &err);
    late.lost_reply = "owner-00000001";
    late.lost_op = STORE_OP_WRITE;
    owner_release(one);
    assert_ok(take(f, &f->second, 0, &two, &err), &err);
    assert_int_equal(f->second.slept_ns, 0);
    owner_release(two);
    store_destroy(&late.base.base);
}

/* A restored snapshot of the process is another owner with the same record. */
static void test_s10_an_owner_whose_record_a_copy_of_it_renewed_has_lost_the_run(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    store_file *file;
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    assert_ok(store_open(f->disk, "owner-00000001", STORE_UPDATE, &file, &err), &err);
    assert_ok(store_write(file, 12, "00000000000000000009", 20, &err), &err);
    store_close(file);
    assert_fails(owner_renew(one, &err), PAWL_EBUSY, &err);
    assert_says(err.found, "a copy of this process");
    owner_release(one);
}

/* ---- storage that is full ------------------------------------------------------------------- */

/* No room for bytes at all: an empty record holds the run, moves, and is given up. */
static void test_an_owner_without_room_for_its_record_owns_the_run(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner *two;
    store *full;
    const store_fault no_room = {
        .op = STORE_OP_WRITE, .nth = 1, .system_errno = ENOSPC, .forever = true};
    const store_fault room = {0};
    assert_ok(store_fault_wrap(f->disk, &f->first.table, &full, &err), &err);
    store_fault_set(full, &no_room);
    assert_ok(owner_take(full, &f->first.table, &silent, NULL, 30, 35, &one, &err), &err);
    assert_ok(owner_renew(one, &err), &err);
    assert_true(owner_fresh(one));
    simulated_platform_advance(&f->first, 10 * SECOND_NS);
    assert_ok(owner_renew(one, &err), &err);
    assert_true(is_there(f->disk, "owner-00000002"));
    f->other = one;
    f->second.on_sleep = renew_other;
    f->second.on_sleep_context = f;
    assert_fails(take(f, &f->second, 35, &two, &err), PAWL_EBUSY, &err);
    store_fault_set(full, &room);
    assert_ok(owner_renew(one, &err), &err);
    owner_sight seen;
    assert_ok(owner_look(f->disk, &f->first.table, &seen, &err), &err);
    assert_true(seen.readable);
    owner_release(one);
    assert_ok(take(f, &f->second, 0, &two, &err), &err);
    owner_release(two);
    store_destroy(full);
}

/* No inode: the last owner's record gives its own. */
static void
test_a_newcomer_without_room_for_a_file_removes_the_record_before_its_own(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    owner *one;
    owner *two;
    store *full;
    const store_fault no_inode = {.op = STORE_OP_OPEN, .nth = 2, .system_errno = EDQUOT};
    assert_ok(take(f, &f->first, 35, &one, &err), &err);
    owner_release(one);
    assert_ok(store_fault_wrap(f->disk, &f->first.table, &full, &err), &err);
    store_fault_set(full, &no_inode);
    assert_ok(owner_take(full, &f->first.table, &silent, NULL, 30, 0, &two, &err), &err);
    assert_true(store_fault_fired(full));
    assert_false(is_there(f->disk, "owner-00000001"));
    assert_true(is_there(f->disk, "owner-00000002"));
    owner_release(two);
    store_destroy(full);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_s10_a_record_that_does_not_open_is_watched_like_any_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_s10_a_newcomer_that_finds_itself_beside_an_owner_withdraws, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_s10_a_newcomer_that_finds_a_newer_one_beside_it_withdraws, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_s10_an_owner_that_does_not_see_its_record_is_not_lost,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_s10_a_listing_that_lacks_the_record_is_no_loss, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_s10_an_owner_whose_record_is_gone_takes_over_from_itself_in_time, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_s10_a_creation_whose_reply_is_lost_costs_a_lease,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_s10_a_creation_whose_reply_is_lost_does_not_lose_the_run, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_s10_a_renewal_whose_reply_is_lost_is_made_again,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_s10_a_release_whose_reply_is_lost_frees_the_run,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_s10_an_owner_whose_record_a_copy_of_it_renewed_has_lost_the_run, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_an_owner_without_room_for_its_record_owns_the_run,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_newcomer_without_room_for_a_file_removes_the_record_before_its_own, set_up,
            tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
