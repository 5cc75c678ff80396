/* SPDX-License-Identifier: Apache-2.0 */
/* O5: a writer that is paused one rename away from publishing cannot do it any more when another
 * process has taken the run over. */
#include "lib/simulated_platform.h"
#include "lib/stored.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "run/private.h"
#include "store/wrap.h"

#include <stdio.h>
#include <string.h>

typedef struct fixture {
    store *disk;
    simulated_platform first, second;
    pawl_run *successor;
    int64_t newest; /* that the successor found */
    bool takes_over;
} fixture;

typedef struct paused {
    store_wrapper wrapper;
    fixture *f;
} paused;

static store *view_of(fixture *f);

/* The other process comes, and looks at what is committed, just before the rename. */
static void take_over(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    f->takes_over = false;
    f->second.others = PROCESS_DEAD;
    assert_ok(run_open(view_of(f), NULL, &f->second.table, &f->successor, &err), &err);
    f->newest = atomic_load(&f->successor->newest_step);
}

static pawl_status pass_on(store_wrapper *w, store_call *call, pawl_error *err) {
    fixture *f = ((paused *)w)->f;
    if (call->op == STORE_OP_RENAME && f->takes_over && strstr(call->to, NAME_MANIFEST) != NULL) {
        take_over(f);
    }
    return store_call_inner(call, err);
}

static store *view_of(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    paused *p = mem_calloc(1, sizeof *p);
    assert_non_null(p);
    assert_ok(store_wrapper_init(&p->wrapper, f->disk, &err), &err);
    p->wrapper.around = pass_on;
    p->f = f;
    return &p->wrapper.base;
}

static int set_up(void **state) {
    static fixture f;
    struct pawl_error err = ERROR_INIT;
    memset(&f, 0, sizeof f);
    simulated_platform_init(&f.first, 1);
    simulated_platform_init(&f.second, 2);
    f.first.identity.pid = 1111;
    f.second.identity.pid = 2222;
    assert_ok(store_mem(&f.disk, &err), &err);
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    store_destroy(f->disk);
    return 0;
}

static pawl_status save(pawl_run *run, pawl_state *state, int64_t step, pawl_error *err) {
    const pawl_save_options plain = {.struct_size = sizeof plain};
    TRY(run_save(run, state, step, &plain, err));
    return run_wait(run, 0, NULL, err);
}

static void make_state(pawl_state **state, void *kernel) {
    struct pawl_error err = ERROR_INIT;
    const int64_t shape[] = {4};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "kernel",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = kernel};
    assert_ok(state_new(state, &err), &err);
    assert_ok(state_add_tensor(*state, &tensor, &err), &err);
}

static void test_s10_a_paused_writer_publishes_nothing_after_it_was_succeeded(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    store_stat found;
    float kernel[4] = {1, 2, 3, 4};
    pawl_run *run;
    pawl_state *trained;
    make_state(&trained, kernel);
    assert_ok(run_open(view_of(f), NULL, &f->first.table, &run, &err), &err);
    assert_ok(save(run, trained, 100, &err), &err);
    f->takes_over = true;
    assert_true(save(run, trained, 200, &err) != PAWL_OK);
    assert_non_null(f->successor);
    assert_int_equal(f->newest, 100);
    assert_fails(store_stat_path(f->disk, "step-00000200/" NAME_MANIFEST, &found, &err),
                 PAWL_ENOTFOUND, &err);
    assert_ok(store_stat_path(f->disk, "step-00000100/" NAME_MANIFEST, &found, &err), &err);
    assert_ok(run_close(run, 0, &err), &err);
    assert_ok(run_close(f->successor, 0, &err), &err);
    state_free(trained);
}

static void test_only_the_manifests_of_other_attempts_are_removed(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    const pawl_log silent = {0};
    assert_ok(store_make_dir(f->disk, "step-00000001", &err), &err);
    assert_ok(store_make_dir(f->disk, "other", &err), &err);
    put_text(f->disk, "step-00000001/manifest.json.aaaaaaaaaaaa-1.tmp", "");
    put_text(f->disk, "step-00000001/manifest.json.bbbbbbbbbbbb-1.tmp", "");
    put_text(f->disk, "step-00000001/manifest.json.tmp", "");
    put_text(f->disk, "step-00000001/index-aaaaaaaaaaaa-1", "");
    put_text(f->disk, "other/manifest.json.aaaaaaaaaaaa-1.tmp", "");
    put_text(f->disk, "step-00000002", "");
    assert_ok(evict_others(f->disk, "bbbbbbbbbbbb", &silent, &err), &err);
    assert_false(is_there(f->disk, "step-00000001/manifest.json.aaaaaaaaaaaa-1.tmp"));
    assert_true(is_there(f->disk, "step-00000001/manifest.json.bbbbbbbbbbbb-1.tmp"));
    assert_true(is_there(f->disk, "step-00000001/manifest.json.tmp"));
    assert_true(is_there(f->disk, "step-00000001/index-aaaaaaaaaaaa-1"));
    assert_true(is_there(f->disk, "other/manifest.json.aaaaaaaaaaaa-1.tmp"));
}

static void test_a_run_whose_earlier_writer_cannot_be_stopped_is_not_opened(void **state) {
    fixture *f = *state;
    struct pawl_error err = ERROR_INIT;
    pawl_run *run;
    store *fault;
    const store_fault plan = {.op = STORE_OP_UNLINK, .nth = 1, .system_errno = 5};
    assert_ok(store_make_dir(f->disk, "step-00000001", &err), &err);
    put_text(f->disk, "step-00000001/manifest.json.aaaaaaaaaaaa-1.tmp", "");
    assert_ok(store_fault_wrap(f->disk, &f->first.table, &fault, &err), &err);
    store_fault_set(fault, &plan);
    assert_fails(run_open(fault, NULL, &f->first.table, &run, &err), PAWL_EIO, &err);
    assert_says(err.attempt, "open run: cannot keep an earlier writer from publishing: ");
    owner_sight seen;
    assert_ok(owner_look(f->disk, &f->first.table, &seen, &err), &err);
    assert_false(seen.present);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_s10_a_paused_writer_publishes_nothing_after_it_was_succeeded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_the_manifests_of_other_attempts_are_removed,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_run_whose_earlier_writer_cannot_be_stopped_is_not_opened, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
