/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run on an object store (O6 to O8 of presence/owner_object.c, B1 to B4 of commit/object.c): a
 * writer that is paused at any operation while another takes the run over, and answers that are
 * lost or come from operations that are done much later. On storage that is late, too.
 */
#include "lib/simulated_platform.h"
#include "lib/stored.h"
#include "lib/test.h"
#include "stores/stores.h"

#include "checkpoint/checkpoint.h"
#include "commit/commit.h"
#include "run/private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MOST_OPERATIONS 4000

typedef enum mishap {
    PAUSED,  /* the successor comes just before the operation */
    LOST,    /* the operation is done, its answer is lost */
    DROPPED, /* it is not done, and there is no answer */
    DELAYED  /* there is no answer; it is done when the successor has come */
} mishap;

typedef enum deed { SAVE_NEW, SAVE_AGAIN, REMOVE } deed;

typedef struct fixture {
    store *seen, *disk; /* disk: what is there */
    simulated_platform first, second;
    pawl_state *state;
    float kernel[4];
    pawl_run *run, *successor;
    /* What happens to the first writer, at its operation `at`; 0: nothing. */
    mishap what;
    int at, count;
    deed then;              /* what the successor does, */
    bool does;              /* if anything */
    bool crowded;           /* there are nearly as many events as go into one file */
    buffer committed, left; /* as the successor found it, and left it */
    buffer events_left, old_events_left;
    store_call held; /* DELAYED */
    buffer held_bytes;
    char held_path[STORE_MAX_PATH];
    store_tag held_expected;
} fixture;

typedef struct view {
    store_wrapper wrapper;
    fixture *f;
    bool first;
} view;

static const int64_t steps[] = {50, 100, 200};

static void note_manifests(fixture *f, buffer *out) {
    struct pawl_error err = ERROR_INIT;
    out->size = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        CLEANUP(buffer_free) buffer text = {0};
        char path[64];
        name_step(path, steps[i]);
        strcat(path, "/" NAME_MANIFEST);
        pawl_status status = store_read_file(f->disk, path, FORMAT_MAX_MANIFEST, &text, &err);
        assert_true(status == PAWL_OK || status == PAWL_ENOTFOUND);
        bool there = status == PAWL_OK && !manifest_is_placeholder(text.data, text.size);
        assert_ok(buffer_printf(out, &err, "%lld: ", (long long)steps[i]), &err);
        if (there) {
            size_t n = manifest_bytes(text.data, text.size);
            assert_ok(buffer_append(out, text.data, n, &err), &err);
        }
    }
}

/* Every step that is committed has all its files. */
static void assert_whole(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    pawl_catalog *catalog;
    assert_ok(catalog_open(f->disk, &f->first.table, NULL, &catalog, &err), &err);
    for (size_t i = 0; i < pawl_catalog_count(catalog); i++) {
        const pawl_step_info *info = pawl_catalog_get(catalog, i);
        if (info->status == PAWL_STEP_DAMAGED) {
            fail_msg("step %lld: %s", (long long)info->step, info->why);
        }
    }
    pawl_catalog_free(catalog);
}

static pawl_status save(fixture *f, pawl_run *run, int64_t step, pawl_error *err) {
    const pawl_save_options plain = {.struct_size = sizeof plain};
    f->kernel[0] += 1;
    f->first.unix_time_ns += 1000; /* no two events are alike */
    TRY(run_save(run, f->state, step, &plain, err));
    return run_wait(run, 0, NULL, err);
}

static pawl_status do_deed(fixture *f, pawl_run *run, deed what, pawl_error *err) {
    return what == REMOVE ? run_remove(run, 100, true, err)
                          : save(f, run, what == SAVE_NEW ? 200 : 100, err);
}

/* ---- events --------------------------------------------------------------------------------- */

static void put_events(fixture *f, const char *name, char of, size_t n) {
    static char text[256 << 10];
    struct pawl_error err = ERROR_INIT;
    memset(text, of, n);
    memset(text + n - 10, '\n', 10);
    assert_ok(store_put(f->disk, name, text, n, NULL, NULL, &err), &err);
}

/* The next ones will need another file. */
static void crowd_events(fixture *f) {
    put_events(f, NAME_EVENTS, 'a', (256 << 10) - 100);
    store_objects_catch_up(f->seen);
}

static void note_events(fixture *f, const char *name, buffer *out) {
    struct pawl_error err = ERROR_INIT;
    out->size = 0;
    pawl_status status = store_read_file(f->disk, name, PAWL_EVENTS_MAX_BYTES, out, &err);
    assert_true(status == PAWL_OK || status == PAWL_ENOTFOUND);
}

static bool begins_with(const buffer *text, const buffer *with) {
    return text->size >= with->size && memcmp(text->data, with->data, with->size) == 0;
}

/* Another owner adds some, moves them out of the way, and adds more: all within one moment. */
static void move_events_on(fixture *f) {
    put_events(f, NAME_EVENTS, 'b', 256 << 10);
    put_events(f, NAME_EVENTS_OLD, 'b', 256 << 10);
    put_events(f, NAME_EVENTS, 'c', 1000);
    note_events(f, NAME_EVENTS, &f->events_left);
    note_events(f, NAME_EVENTS_OLD, &f->old_events_left);
}

/* Some may have been added. */
static void assert_events_kept(fixture *f) {
    CLEANUP(buffer_free) buffer now = {0}, old = {0};
    note_events(f, NAME_EVENTS, &now);
    note_events(f, NAME_EVENTS_OLD, &old);
    bool both = begins_with(&now, &f->events_left) && old.size == f->old_events_left.size &&
                begins_with(&old, &f->old_events_left);
    if (!both) {
        fail_msg("operation %d (%s), mishap %d: events that another owner left are gone", f->at,
                 f->held_path, f->what);
    }
}

/* ---- the two writers ------------------------------------------------------------------------ */

static store *view_of(fixture *f, bool first);

static void succeed(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    pawl_run_options options = {.struct_size = sizeof options, .takeover_wait_s = 60};
    f->second.others = PROCESS_DEAD;
    assert_ok(run_open(view_of(f, false), &options, &f->second.table, &f->successor, &err), &err);
    note_manifests(f, &f->committed);
    if (f->does) {
        pawl_status status = do_deed(f, f->successor, f->then, &err);
        if (status != PAWL_OK && !(f->then == REMOVE && status == PAWL_ENOTFOUND)) {
            assert_ok(status, &err);
        }
    }
    note_manifests(f, &f->left);
}

/* Keeps it, to be done when the successor has come. */
static void hold(fixture *f, const store_call *call) {
    struct pawl_error err = ERROR_INIT;
    f->held = *call;
    snprintf(f->held_path, sizeof f->held_path, "%s", call->path);
    if (call->expected != NULL) {
        f->held_expected = *call->expected;
        f->held.expected = &f->held_expected;
    }
    assert_ok(buffer_append(&f->held_bytes, call->from, call->n, &err), &err);
}

static void let_go(fixture *f) {
    struct pawl_error ignored = ERROR_INIT;
    if (f->held.op == STORE_OP_PUT) {
        (void)!store_put(f->disk, f->held_path, f->held_bytes.data, f->held_bytes.size,
                         f->held.expected, NULL, &ignored);
    } else if (f->held.op == STORE_OP_UNLINK && f->held.expected != NULL) {
        (void)!store_unlink_match(f->disk, f->held_path, f->held.expected, &ignored);
    } else if (f->held.op == STORE_OP_UNLINK) {
        (void)!store_unlink(f->disk, f->held_path, &ignored);
    }
}

static bool changes(const store_call *call) {
    return call->op == STORE_OP_PUT || call->op == STORE_OP_UNLINK;
}

static pawl_status around(store_wrapper *w, store_call *call, pawl_error *err) {
    const view *v = (view *)w;
    fixture *f = v->f;
    bool counts = v->first && f->at > 0 && (f->what == PAUSED || changes(call));
    if (!counts || ++f->count != f->at) {
        return store_call_inner(call, err);
    }
    if (f->what == PAUSED) {
        snprintf(f->held_path, sizeof f->held_path, "%s of %s", store_op_name(call->op),
                 call->path);
        (f->crowded ? move_events_on : succeed)(f);
        return store_call_inner(call, err);
    }
    if (f->what == LOST) {
        (void)!store_call_inner(call, err);
        *err = (struct pawl_error)ERROR_INIT;
    } else if (f->what == DELAYED) {
        hold(f, call);
    }
    return error_sys(err, ETIMEDOUT, "no answer");
}

static store *view_of(fixture *f, bool first) {
    struct pawl_error err = ERROR_INIT;
    view *v = mem_calloc(1, sizeof *v);
    assert_non_null(v);
    assert_ok(store_wrapper_init(&v->wrapper, f->seen, &err), &err);
    v->wrapper.around = around;
    v->f = f;
    v->first = first;
    return &v->wrapper.base;
}

/* ---- one world ------------------------------------------------------------------------------ */

static void make_state(fixture *f) {
    struct pawl_error err = ERROR_INIT;
    static const int64_t shape[] = {4};
    const pawl_tensor tensor = {.struct_size = sizeof tensor,
                                .name = "kernel",
                                .dtype = PAWL_F32,
                                .ndim = 1,
                                .shape = shape,
                                .data = f->kernel};
    assert_ok(state_new(&f->state, &err), &err);
    assert_ok(state_add_tensor(f->state, &tensor, &err), &err);
}

/* Steps 50 and 100 are committed. */
static void begin(fixture *f, const store_objects_options *options) {
    struct pawl_error err = ERROR_INIT;
    memset(f, 0, sizeof *f);
    simulated_platform_init(&f->first, 1);
    simulated_platform_init(&f->second, 2);
    f->first.identity.pid = 1111;
    f->second.identity.pid = 2222;
    f->first.unix_time_ns = f->second.unix_time_ns = 1700000000000000000;
    assert_ok(store_objects(&f->first.table, options, &f->seen, &err), &err);
    assert_ok(store_truth(f->seen, &f->disk, &err), &err);
    make_state(f);
    assert_ok(run_open(view_of(f, true), NULL, &f->first.table, &f->run, &err), &err);
    assert_ok(save(f, f->run, 50, &err), &err);
    assert_ok(save(f, f->run, 100, &err), &err);
}

static void end(fixture *f) {
    struct pawl_error ignored = ERROR_INIT;
    (void)!run_close(f->run, 0, &ignored);
    if (f->successor != NULL) {
        assert_ok(run_close(f->successor, 0, &ignored), &ignored);
    }
    state_free(f->state);
    buffer_free(&f->committed);
    buffer_free(&f->left);
    buffer_free(&f->events_left);
    buffer_free(&f->old_events_left);
    buffer_free(&f->held_bytes);
    store_truth_destroy(f->disk, f->seen);
    store_destroy(f->seen);
}

static void assert_same_as_left(fixture *f) {
    CLEANUP(buffer_free) buffer now = {0};
    note_manifests(f, &now);
    if (now.size != f->left.size || memcmp(now.data, f->left.data, now.size) != 0) {
        fail_msg("operation %d, mishap %d: what the successor left was changed:\n%s\nnow:\n%s",
                 f->at, f->what, (char *)f->left.data, (char *)now.data);
    }
    assert_whole(f);
}

static bool has_removed(const buffer *manifests) {
    return strstr((const char *)manifests->data, "100: 200: ") != NULL;
}

/* What the first writer was told that it had done, the successor has found: or has removed it
 * itself. */
static void assert_found(fixture *f, deed what, const char *attempt, pawl_status status) {
    const char *at_200 = strstr((const char *)f->committed.data, "200: ");
    bool found = what == REMOVE ? has_removed(&f->committed) || has_removed(&f->left)
                                : strstr(at_200, attempt) != NULL;
    if (status == PAWL_OK && !found) {
        fail_msg("operation %d (%s), mishap %d, deed %d: said to be done, but there is\n%s", f->at,
                 f->held_path, f->what, what, (char *)f->committed.data);
    }
}

/* A lost answer costs nothing, and has nothing done twice. Of a file that is left over it is told:
 * it may be there yet. */
static void assert_found_out(fixture *f, deed what, pawl_status status, pawl_error *err) {
    CLEANUP(buffer_free) buffer told = {0};
    int ended = 0;
    if (what != REMOVE || strstr(err->attempt, "remove leftovers") == NULL) {
        assert_ok(status, err);
    }
    note_events(f, NAME_EVENTS, &told);
    for (const char *at = (const char *)told.data;
         (at = strstr(at, "\"event\":\"save_ended\"")) != NULL; at++) {
        ended++;
    }
    assert_int_equal(ended, what == REMOVE ? 2 : 3);
}

/* False: the deed was done before it came to that operation. */
static bool try_one(const store_objects_options *options, deed what, mishap how, int at, int then) {
    fixture f;
    struct pawl_error err = ERROR_INIT;
    char attempt[16];
    begin(&f, options);
    snprintf(attempt, sizeof attempt, "%s", owner_attempt(f.run->owner));
    f.what = how;
    f.at = at;
    f.does = then >= 0;
    f.then = f.does ? (deed)then : SAVE_NEW;
    pawl_status status = do_deed(&f, f.run, what, &err);
    bool came = f.count >= at;
    if (how == LOST) {
        assert_found_out(&f, what, status, &err);
    }
    if (came && how != PAUSED) {
        assert_whole(&f);
        succeed(&f);
        let_go(&f);
    }
    if (came) {
        if (what != SAVE_AGAIN) { /* there both manifests name the attempt */
            assert_found(&f, what, attempt, status);
        }
        assert_same_as_left(&f);
        if (how != LOST && how != PAUSED) {
            (void)!do_deed(&f, f.run, what, &err);
            assert_same_as_left(&f);
        }
    }
    end(&f);
    return came;
}

static int try_all(mishap how, bool successor_acts) {
    static const store_objects_options kinds[] = {
        {.late_s = 0}, {.late_s = 0.5}, {.late_s = 0.5, .seed = 7}};
    int tried = 0;
    for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
        for (deed what = SAVE_NEW; what <= REMOVE; what++) {
            for (int then = successor_acts ? SAVE_NEW : -1;
                 then <= (successor_acts ? (int)REMOVE : -1); then++) {
                int at = 1;
                while (try_one(&kinds[k], what, how, at, then)) {
                    assert_true(++at < MOST_OPERATIONS);
                }
                tried += at - 1;
            }
        }
    }
    return tried;
}

static void test_s10_a_writer_paused_anywhere_changes_nothing_after_it_was_succeeded(void **state) {
    (void)state;
    assert_true(try_all(PAUSED, false) > 100);
    assert_true(try_all(PAUSED, true) > 300);
}

static void test_an_answer_that_is_lost_is_found_out(void **state) {
    (void)state;
    assert_true(try_all(LOST, false) > 20);
    assert_true(try_all(LOST, true) > 60);
}

static void test_an_operation_that_is_not_done_is_done_again_or_told(void **state) {
    (void)state;
    assert_true(try_all(DROPPED, true) > 60);
}

static void test_an_operation_that_is_done_much_later_does_no_harm(void **state) {
    (void)state;
    assert_true(try_all(DELAYED, false) > 20);
    assert_true(try_all(DELAYED, true) > 60);
}

/* ---- events --------------------------------------------------------------------------------- */

/* False: the save was done before it came to that operation. */
static bool try_crowded(const store_objects_options *options, mishap how, int at) {
    fixture f;
    struct pawl_error err = ERROR_INIT;
    begin(&f, options);
    crowd_events(&f);
    f.what = how;
    f.at = at;
    f.crowded = true;
    assert_ok(do_deed(&f, f.run, SAVE_NEW, &err), &err);
    bool came = f.count >= at;
    if (came && how == DELAYED) {
        move_events_on(&f);
        let_go(&f);
    }
    if (came) {
        assert_events_kept(&f);
    }
    end(&f);
    return came;
}

static void test_s10_events_of_another_owner_are_not_replaced_by_older_ones(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const store_objects_options options = {.late_s = seed > 0 ? 0.5 : 0, .seed = seed};
        int paused = 1, delayed = 1;
        while (try_crowded(&options, PAUSED, paused)) {
            assert_true(++paused < MOST_OPERATIONS);
        }
        while (try_crowded(&options, DELAYED, delayed)) {
            assert_true(++delayed < MOST_OPERATIONS);
        }
        assert_true(paused > 10 && delayed > 4);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_s10_a_writer_paused_anywhere_changes_nothing_after_it_was_succeeded),
        cmocka_unit_test(test_an_answer_that_is_lost_is_found_out),
        cmocka_unit_test(test_an_operation_that_is_not_done_is_done_again_or_told),
        cmocka_unit_test(test_an_operation_that_is_done_much_later_does_no_harm),
        cmocka_unit_test(test_s10_events_of_another_owner_are_not_replaced_by_older_ones)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
